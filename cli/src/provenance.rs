//! What the program knows of where its results come from.

use scheidegg::Choice;
use scheidegg::provenance::{Computed, PedestalSummary, Program, Provenance};

use crate::summary::PedestalHealth;

/// The commit that the program was built from, with `-dirty` behind it where the sources were changed since;
/// `unknown` outside of git.
pub const COMMIT: &str = env!("SCHEIDEGG_COMMIT");

/// This program, its command line, the computer, the time, what computes and the pedestal.
pub fn begin(choice: Option<&Choice>, pedestal: &PedestalHealth) -> Provenance {
    Provenance {
        program: program(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        backend: choice
            .map_or_else(Computed::default, |c| Computed { name: c.name.clone(), device: c.device.clone() }),
        pedestal: Some(summary(pedestal)),
        ..Provenance::begin()
    }
}

fn program() -> Program {
    Program { name: "scheidegg".into(), version: env!("CARGO_PKG_VERSION").into(), commit: COMMIT.into() }
}

fn summary(p: &PedestalHealth) -> PedestalSummary {
    PedestalSummary {
        samples: p.samples,
        median_mean_adu: p.mean_adu,
        median_noise_adu: p.noise_adu,
        quiet_pixels: p.quiet.len(),
        hot_pixels: p.hot.len(),
        untrained_pixels: p.untrained,
    }
}
