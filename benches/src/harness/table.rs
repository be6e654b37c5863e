//! Tables: what every measurement is written to, and what the report reads its numbers from.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use scheidegg::{Error, Result};

/// A table with named columns, kept as a CSV file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    path: PathBuf,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table to be written to `path`.
    pub fn new(path: impl Into<PathBuf>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|c| (*c).to_string()).collect();
        Table { path: path.into(), columns, rows: Vec::new() }
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::File`] for a file that is not a table of ours.
    pub fn read(path: impl Into<PathBuf>) -> Result<Table> {
        let path = path.into();
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let mut lines = text.lines();
        let Some(head) = lines.next() else {
            return Err(Error::file(&path, "empty, expected a line with the names of columns"));
        };
        let columns = split(head);
        let mut rows = Vec::new();
        for (i, line) in lines.enumerate() {
            let row = split(line);
            if row.len() != columns.len() {
                let what = format!("line {}: {} values for {} columns", i + 2, row.len(), columns.len());
                return Err(Error::file(&path, what));
            }
            rows.push(row);
        }
        Ok(Table { path, columns, rows })
    }

    /// Appends a row, one value a column.
    ///
    /// # Panics
    /// When the number of values is not the number of columns.
    pub fn push<I: IntoIterator<Item = String>>(&mut self, row: I) {
        let row: Vec<String> = row.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a row of {} has one value a column", self.path.display());
        self.rows.push(row);
    }

    /// Appends the rows of another table with the same columns.
    ///
    /// # Errors
    /// [`Error::File`] when the columns differ.
    pub fn append(&mut self, other: Table) -> Result<()> {
        if self.columns != other.columns {
            let what = format!("columns {}, expected {}", other.columns.join(","), self.columns.join(","));
            return Err(Error::file(other.path, what));
        }
        self.rows.extend(other.rows);
        Ok(())
    }

    /// Sorts the rows; equal ones keep their order.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(Row<'_>) -> K) {
        let mut order: Vec<(K, usize)> = self.rows().enumerate().map(|(i, r)| (key(r), i)).collect();
        order.sort();
        self.rows = order.into_iter().map(|(_, i)| std::mem::take(&mut self.rows[i])).collect();
    }

    /// Writes the table; the file appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self) -> Result<()> {
        let mut text = join(&self.columns);
        for row in &self.rows {
            text.push_str(&join(row));
        }
        write_whole(&self.path, text.as_bytes())
    }

    /// Where the table is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its file.
    pub fn name(&self) -> String {
        self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows, the line of names left out.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows.len()).map(|index| Row { table: self, index })
    }

    /// The first row whose columns have these values.
    pub fn find(&self, wanted: &[(&str, &str)]) -> Option<Row<'_>> {
        self.rows().find(|r| r.is(wanted))
    }
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    index: usize,
}

impl<'a> Row<'a> {
    /// A value as it is written; empty when there is no such column.
    pub fn text(&self, column: &str) -> &'a str {
        let at = self.table.columns.iter().position(|c| c == column);
        at.map_or("", |i| &self.table.rows[self.index][i])
    }

    /// A value as a number, unless it is none.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok().filter(|v: &f64| v.is_finite())
    }

    /// A number with the place it came from.
    pub fn cell(&self, column: &str) -> Option<Cell> {
        let value = self.number(column)?;
        Some(Cell { value, file: self.table.name(), line: self.index + 2, column: column.to_string() })
    }

    /// Whether the columns have these values.
    pub fn is(&self, wanted: &[(&str, &str)]) -> bool {
        wanted.iter().all(|(c, v)| self.text(c) == *v)
    }
}

/// A number and the place it came from: the file, its line as an editor counts them, and the column.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The number.
    pub value: f64,
    /// The file's name within the run.
    pub file: String,
    /// The line, the line of names being 1.
    pub line: usize,
    /// The column's name.
    pub column: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}", self.file, self.line, self.column)
    }
}

/// Writes a file under a temporary name and moves it to its own when it is complete.
///
/// # Errors
/// [`Error::Io`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    fs::write(&part, bytes).map_err(|e| Error::io(&part, e))?;
    fs::rename(&part, path).map_err(|e| Error::io(path, e))
}

fn join(values: &[String]) -> String {
    let quoted = values.iter().map(|v| {
        let v = v.replace(['\n', '\r'], " ");
        if v.contains([',', '"']) { format!("\"{}\"", v.replace('"', "\"\"")) } else { v }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

fn split(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let last = values.last_mut().expect("one value at least");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            c => last.push(c),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("scheidegg-table-{}.csv", std::process::id()));
        let mut table = Table::new(&path, &["step", "us_per_frame", "note"]);
        table.push(["opt1", "53.2", "one, \"blocking\" launch"].map(String::from));
        table.push(["opt2", "", "two\nlines"].map(String::from));
        table.write().unwrap();
        let back = Table::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(back.rows[0], table.rows[0]);
        assert_eq!(back.rows[1][2], "two lines");
        let cell = back.find(&[("step", "opt1")]).unwrap().cell("us_per_frame").unwrap();
        assert_eq!((cell.value, cell.line), (53.2, 2));
        assert_eq!(back.find(&[("step", "opt2")]).unwrap().number("us_per_frame"), None);
    }

    #[test]
    fn commas_quotes_and_empty_values_survive_the_file() {
        let path = std::env::temp_dir().join(format!("scheidegg-quotes-{}.csv", std::process::id()));
        let values = ["a,b", "\"", "\"\"", "say \"x\", then", "", " blank ", "step=\"1\""];
        let mut table = Table::new(&path, &["1", "2", "3", "4,5", "6", "7", "8"]);
        table.push(values.map(String::from));
        table.push(values.map(|v| v.chars().rev().collect()));
        table.write().unwrap();
        let back = Table::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(back, table);
        // As RFC 4180 has it, so that other programs read it too.
        assert_eq!(join(&["a,b".into(), "\"".into()]), "\"a,b\",\"\"\"\"\n");
    }

    #[test]
    fn rows_are_sorted_and_equal_ones_keep_their_order() {
        let mut table = Table::new("t.csv", &["k", "v"]);
        for (k, v) in [("2", "a"), ("1", "b"), ("2", "c"), ("1", "d")] {
            table.push([k, v].map(String::from));
        }
        table.sort_by_key(|r| r.text("k").to_string());
        let values: Vec<&str> = table.rows().map(|r| r.text("v")).collect();
        assert_eq!(values, ["b", "d", "a", "c"]);
    }

    #[test]
    fn a_row_that_is_too_short_is_named() {
        let path = std::env::temp_dir().join(format!("scheidegg-short-{}.csv", std::process::id()));
        fs::write(&path, "a,b\n1,2\n3\n").unwrap();
        let e = Table::read(&path).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(e.contains("line 3: 1 values for 2 columns"), "{e}");
    }
}
