//! The entries of a master file, JSON or text, under one roof.

use serde_json::Value;

/// Numbers that a receiver writes for "none".
const NONE: [i64; 2] = [-1, 4_294_967_295];

/// A rectangle of pixels of the whole detector, both ends inclusive as in a master file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roi {
    /// First column.
    pub xmin: usize,
    /// Last column.
    pub xmax: usize,
    /// First row.
    pub ymin: usize,
    /// Last row.
    pub ymax: usize,
}

/// Key and value pairs: those of a text in its order, those of JSON sorted by their keys. What is asked for is taken out, what is left is unknown.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Value)>);

/// Why an entry cannot be used, in a sentence.
pub(super) type Said<T> = std::result::Result<T, String>;

impl Fields {
    /// Reads a JSON object.
    pub fn from_json(text: &str) -> Said<Fields> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Fields(map.into_iter().collect())),
            Ok(_) => Err("is JSON but not an object of keys and values: not a master file".into()),
            Err(e) => Err(format!("is not whole JSON: {e}")),
        }
    }

    /// Reads `Key : value` lines up to the description of the frame header.
    pub fn from_text(text: &str) -> Said<Fields> {
        let mut fields = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with("#Frame Header") {
                break;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                let start: String = line.chars().take(40).collect();
                return Err(format!("line {}: `{start}` is no `Key : value`: not a master file", n + 1));
            };
            fields.push((key.trim().to_string(), Value::String(value.trim().to_string())));
        }
        Ok(Fields(fields))
    }

    /// Takes out the first of these keys that is there (spelled in any case).
    fn take(&mut self, keys: &[&str]) -> Option<(String, Value)> {
        let at = keys.iter().find_map(|k| self.0.iter().position(|f| f.0.eq_ignore_ascii_case(k)))?;
        Some(self.0.remove(at))
    }

    /// A word or sentence.
    pub fn text(&mut self, keys: &[&str]) -> Option<String> {
        self.take(keys).map(|(_, v)| words(&v))
    }

    /// A number that may carry a unit (`5120 bytes`) or be hexadecimal.
    pub fn number(&mut self, keys: &[&str]) -> Said<Option<u64>> {
        let Some((key, value)) = self.take(keys) else { return Ok(None) };
        let number = match &value {
            Value::Number(n) => n.as_u64(),
            Value::String(s) => {
                let first = s.split_whitespace().next().unwrap_or("");
                match (first, first.strip_prefix("0x")) {
                    ("true", _) => Some(1),
                    ("false", _) => Some(0),
                    (_, Some(hex)) => u64::from_str_radix(hex, 16).ok(),
                    _ => first.parse().ok(),
                }
            }
            Value::Bool(b) => Some(u64::from(*b)),
            _ => None,
        };
        number.map(Some).ok_or_else(|| format!("\"{key}\" is {}, expected a number", shortened(&value)))
    }

    /// A list of indices.
    pub fn indices(&mut self, keys: &[&str]) -> Said<Vec<usize>> {
        let Some((key, value)) = self.take(keys) else { return Ok(Vec::new()) };
        let all: Option<Vec<usize>> = match &value {
            Value::Array(all) => all.iter().map(side).collect(),
            Value::String(s) if matches!(s.trim(), "" | "[]") => Some(Vec::new()),
            Value::String(s) => list(s).map(|l| l.iter().filter_map(|n| usize::try_from(*n).ok()).collect()),
            Value::Null => Some(Vec::new()),
            _ => None,
        };
        all.ok_or_else(|| format!("\"{key}\" is {}, expected a list of port numbers", shortened(&value)))
    }

    /// `{x, y}` or `[x, y]`.
    pub fn pair(&mut self, keys: &[&str]) -> Said<Option<(usize, usize)>> {
        let Some((key, value)) = self.take(keys) else { return Ok(None) };
        let pair = match &value {
            Value::Object(_) => side(&value["x"]).zip(side(&value["y"])),
            Value::Array(a) if a.len() == 2 => side(&a[0]).zip(side(&a[1])),
            Value::String(s) => match list(s).as_deref() {
                Some(&[x, y]) => usize::try_from(x).ok().zip(usize::try_from(y).ok()),
                _ => None,
            },
            _ => None,
        };
        pair.map(Some)
            .ok_or_else(|| format!("\"{key}\" is {}, expected two numbers x and y", shortened(&value)))
    }

    /// Regions of interest: none, one, or a list of them.
    pub fn rois(&mut self, keys: &[&str]) -> Said<Vec<Roi>> {
        let Some((key, value)) = self.take(keys) else { return Ok(Vec::new()) };
        let wrong = |v: &Value| format!("\"{key}\" is {}, expected xmin, xmax, ymin and ymax", shortened(v));
        let one = |v: &Value| -> Said<Option<Roi>> {
            let ends: Option<Vec<i64>> = match v {
                Value::Object(_) => ["xmin", "xmax", "ymin", "ymax"].iter().map(|k| v[k].as_i64()).collect(),
                Value::String(s) => list(s),
                _ => None,
            };
            match ends.as_deref() {
                Some(e) if e.len() == 4 && e.iter().all(|n| NONE.contains(n)) => Ok(None),
                Some(&[xmin, xmax, ymin, ymax]) => {
                    let at = |n: i64| usize::try_from(n).map_err(|_| wrong(v));
                    let roi = Roi { xmin: at(xmin)?, xmax: at(xmax)?, ymin: at(ymin)?, ymax: at(ymax)? };
                    if roi.xmin > roi.xmax || roi.ymin > roi.ymax {
                        return Err(format!("\"{key}\" is {}: it ends before it starts", shortened(v)));
                    }
                    Ok(Some(roi))
                }
                _ => Err(wrong(v)),
            }
        };
        match &value {
            Value::Array(all) => all.iter().filter_map(|v| one(v).transpose()).collect(),
            Value::Null => Ok(Vec::new()),
            Value::String(s) if s.is_empty() || s.contains("disabled") => Ok(Vec::new()),
            v => Ok(one(v)?.into_iter().collect()),
        }
    }

    /// What nobody asked for, as text.
    pub fn rest(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(k, v)| (k, words(&v))).collect()
    }

    /// The keys that are left.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|f| f.0.as_str())
    }
}

fn side(v: &Value) -> Option<usize> {
    v.as_u64().and_then(|n| usize::try_from(n).ok())
}

/// The numbers of `[1, 2, 3]`.
fn list(s: &str) -> Option<Vec<i64>> {
    let inside = s.trim().strip_prefix('[')?.strip_suffix(']')?;
    inside.split(',').map(|n| n.trim().parse().ok()).collect()
}

fn words(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn shortened(v: &Value) -> String {
    let text = v.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
