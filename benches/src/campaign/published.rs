//! What others have published, as tables of a run, so that the report can quote them like its own numbers.
//!
//! Only figures are kept here. Why ours differ is said by the report, from the cells of the run.

use std::path::Path;

use scheidegg::Result;

use crate::harness::table::Table;

/// A time that others published, in us a frame of 400 x 400 pixels, and the step of ours that does the same.
struct Published {
    what: &'static str,
    gpu: &'static str,
    size: &'static str,
    us_per_frame: f64,
    /// What the link of that machine carries.
    link_gb_per_s: f64,
    step: &'static str,
}

const ZERO_COPY: &str = "aare CUDA, zero-copy results";
const BEST_ROW: &str = "aare CUDA, best row (4 streams, pinned, batches of 2000)";

const PUBLISHED: [Published; 4] = [
    Published {
        what: ZERO_COPY,
        gpu: "RTX 4090",
        size: "3",
        us_per_frame: 16.3,
        link_gb_per_s: 25.0,
        step: "opt6",
    },
    Published {
        what: ZERO_COPY,
        gpu: "RTX 4090",
        size: "9",
        us_per_frame: 25.1,
        link_gb_per_s: 25.0,
        step: "opt6",
    },
    Published {
        what: BEST_ROW,
        gpu: "H200",
        size: "3",
        us_per_frame: 53.0,
        link_gb_per_s: 55.3,
        step: "opt5",
    },
    Published {
        what: BEST_ROW,
        gpu: "H200",
        size: "9",
        us_per_frame: 290.0,
        link_gb_per_s: 55.3,
        step: "opt5",
    },
];

/// Published results of the two studies: what was counted, how many, and out of how many.
const STUDIES: [(&str, &str, &str); 2] =
    [("serial_clusters_that_differ", "19", "23200000"), ("naive_f32_more_clusters_percent", "28", "")];

/// Writes `published.csv` and `published_studies.csv`.
///
/// # Errors
/// Those of writing.
pub fn write(run: &Path) -> Result<()> {
    let columns = ["what", "gpu", "size", "us_per_frame", "link_gb_per_s", "our_step", "our_precision"];
    let mut table = Table::new(run.join("published.csv"), &columns);
    for p in PUBLISHED {
        table.push([
            p.what.to_string(),
            p.gpu.to_string(),
            p.size.to_string(),
            p.us_per_frame.to_string(),
            p.link_gb_per_s.to_string(),
            p.step.to_string(),
            "f64f32".to_string(),
        ]);
    }
    table.write()?;
    let mut table = Table::new(run.join("published_studies.csv"), &["what", "value", "of"]);
    for (what, value, of) in STUDIES {
        table.push([what, value, of].map(String::from));
    }
    table.write()
}
