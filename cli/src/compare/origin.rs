//! In what two results differ by what they say of where they come from.

use std::collections::BTreeSet;

use serde_json::Value;

/// A sentence for every difference. Time, computer and folder of the output differ between any two runs and are not told.
pub fn differences(a: Option<&Value>, b: Option<&Value>) -> Vec<String> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, None) => return Vec::new(),
        (a, _) => {
            let silent = if a.is_none() { "A" } else { "B" };
            return vec![format!("{silent} does not say where it comes from")];
        }
    };
    let mut all = Vec::new();
    for part in ["parameters", "program", "backend"] {
        let keys = |v: &Value| {
            v[part].as_object().map_or(BTreeSet::new(), |o| o.keys().cloned().collect::<BTreeSet<String>>())
        };
        for key in keys(a).union(&keys(b)) {
            // What a device is called says nothing of what it computes.
            if (part, key.as_str()) != ("backend", "device") {
                note(&mut all, &label(part, key), &a[part][key], &b[part][key]);
            }
        }
    }
    for role in ["data", "dark", "pedestal", "mask"] {
        let files = |v: &Value| -> Value {
            let inputs = v["inputs"].as_array().into_iter().flatten();
            inputs
                .filter(|i| i["role"] == role)
                .map(|i| format!("{} ({})", word(&i["path"]), range(i)))
                .collect::<Vec<_>>()
                .join(", ")
                .into()
        };
        note(&mut all, role, &files(a), &files(b));
    }
    note(&mut all, "frames", &a["frames"], &b["frames"]);
    note(&mut all, "ended", &a["ended"]["how"], &b["ended"]["how"]);
    all
}

fn label(part: &str, key: &str) -> String {
    let key = key.replace('_', " ");
    if part == "parameters" { key } else { format!("{part} {key}") }
}

fn range(input: &Value) -> String {
    let frames = word(&input["frames"]);
    match (&input["first_frame"], &input["last_frame"]) {
        (Value::Null, _) | (_, Value::Null) => format!("{frames} frames"),
        (first, last) => format!("{frames} frames, {first} to {last}"),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "not said".into(),
        Value::String(s) if s.is_empty() => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn note(all: &mut Vec<String>, what: &str, a: &Value, b: &Value) {
    if a != b {
        all.push(format!("{what}: {} in A, {} in B", word(a), word(b)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_difference_is_told_and_nothing_else() {
        let a = json!({
            "program": {"version": "0.1.0", "commit": "abc"}, "host": "one", "seconds": 1.5,
            "parameters": {"n_sigma": 5.0, "size": "3x3"},
            "inputs": [{"role": "data", "path": "a.npy", "frames": 9, "first_frame": 0, "last_frame": 8}],
            "frames": 9, "ended": {"how": "complete"},
        });
        assert!(differences(Some(&a), Some(&a)).is_empty());
        let mut b = a.clone();
        (b["host"], b["seconds"]) = ("two".into(), 7.into());
        assert!(differences(Some(&a), Some(&b)).is_empty());
        b["parameters"]["n_sigma"] = 6.0.into();
        b["parameters"]["test2"] = true.into();
        b["program"]["commit"] = "def".into();
        b["inputs"][0]["path"] = "b.npy".into();
        (b["frames"], b["ended"]["how"]) = (4.into(), "stopped".into());
        assert_eq!(
            differences(Some(&a), Some(&b)),
            [
                "n sigma: 5.0 in A, 6.0 in B",
                "test2: not said in A, true in B",
                "program commit: abc in A, def in B",
                "data: a.npy (9 frames, 0 to 8) in A, b.npy (9 frames, 0 to 8) in B",
                "frames: 9 in A, 4 in B",
                "ended: complete in A, stopped in B",
            ]
        );
        assert_eq!(differences(Some(&a), None), ["B does not say where it comes from"]);
        assert!(differences(None, None).is_empty());
    }
}
