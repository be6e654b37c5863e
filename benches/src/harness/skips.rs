//! What a run left out and why: `skips.csv`.

use std::path::Path;

use scheidegg::Result;

use super::table::Table;

/// What a run left out, by the part of the campaign that it belongs to.
pub struct Skips {
    table: Table,
    part: &'static str,
}

impl Skips {
    /// Begins a part of a run anew: what this part left out before is tried again, what others left out stays.
    ///
    /// # Errors
    /// [`scheidegg::Error::Io`].
    pub fn of(run: &Path, part: &'static str) -> Result<Skips> {
        let path = run.join("skips.csv");
        let mut table = Table::new(&path, &["part", "what", "reason"]);
        let before = Table::read(&path).ok();
        for row in before.iter().flat_map(Table::rows).filter(|r| r.text("part") != part) {
            table.push(["part", "what", "reason"].map(|c| row.text(c).to_string()));
        }
        if table.is_empty() {
            let _ = std::fs::remove_file(&path);
        } else {
            table.write()?;
        }
        Ok(Skips { table, part })
    }

    /// Adds one and prints it.
    ///
    /// # Errors
    /// [`scheidegg::Error::Io`].
    pub fn add(&mut self, what: &str, reason: &str) -> Result<()> {
        println!("left out: {what}: {reason}");
        self.table.push([self.part.to_string(), what.to_string(), reason.to_string()]);
        self.table.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begun_again_forgets_its_own_skips_only() {
        let run = std::env::temp_dir().join(format!("scheidegg-skips-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        Skips::of(&run, "ladder").unwrap().add("opt1-3-f32", "the time is spent, all of it").unwrap();
        Skips::of(&run, "probes").unwrap().add("probe opt1", "no CUPTI").unwrap();
        drop(Skips::of(&run, "ladder").unwrap());
        let left = Table::read(run.join("skips.csv")).unwrap();
        assert_eq!(left.len(), 1);
        assert!(left.find(&[("part", "probes"), ("what", "probe opt1"), ("reason", "no CUPTI")]).is_some());
        drop(Skips::of(&run, "probes").unwrap());
        assert!(!run.join("skips.csv").exists(), "a run that left nothing out has no skips");
        std::fs::remove_dir_all(run).unwrap();
    }
}
