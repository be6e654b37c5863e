//! How long each process and part of a run took: `times.csv`.

use std::path::Path;

use scheidegg::Result;

use super::table::Table;

/// The columns of `times.csv`: the part, what of it, the number of the call that did it (as `env.json` lists them),
/// repetitions, and seconds as expected and as they were.
const COLUMNS: [&str; 6] = ["part", "what", "call", "repetitions", "expected_s", "took_s"];

/// The times of a run.
pub struct Times {
    table: Table,
    call: usize,
}

impl Times {
    /// Goes on with the times of a run, in its call number `call`.
    pub fn of(run: &Path, call: usize) -> Times {
        let path = run.join("times.csv");
        let table = Table::read(&path).unwrap_or_else(|_| Table::new(&path, &COLUMNS));
        Times { table, call }
    }

    /// Adds one and writes them all.
    ///
    /// # Errors
    /// [`scheidegg::Error::Io`].
    pub fn add(
        &mut self,
        part: &str,
        what: &str,
        repetitions: usize,
        expected_s: f64,
        took_s: f64,
    ) -> Result<()> {
        self.table.push([
            part.to_string(),
            what.to_string(),
            self.call.to_string(),
            repetitions.to_string(),
            format!("{expected_s:.2}"),
            format!("{took_s:.2}"),
        ]);
        self.table.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_call_goes_on_where_the_first_one_stopped() {
        let run = std::env::temp_dir().join(format!("scheidegg-times-{}", std::process::id()));
        Times::of(&run, 1).add("ladder", "opt1-3-f32", 6, 4.0, 4.25).unwrap();
        Times::of(&run, 2).add("probes", "opt1-3-f32", 1, 1.5, 1.4).unwrap();
        let table = Table::read(run.join("times.csv")).unwrap();
        let calls: Vec<&str> = table.rows().map(|r| r.text("call")).collect();
        assert_eq!(calls, ["1", "2"]);
        assert!(table.find(&[("what", "opt1-3-f32"), ("part", "ladder"), ("took_s", "4.25")]).is_some());
        std::fs::remove_dir_all(run).unwrap();
    }
}
