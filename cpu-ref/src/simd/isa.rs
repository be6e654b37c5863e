//! Which instruction sets there are, and which of them this machine has.

use std::fmt;
use std::str::FromStr;

use scheidegg_finder::{Error, Result};

/// An instruction set that the fast finder is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// What the program was compiled for; every machine has it.
    Portable,
    /// AVX2 with BMI, 8 lanes of `f32`.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, 16 lanes of `f32`.
    Avx512,
}

impl Isa {
    /// All, from the narrowest to the widest.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The word that names it, in `SCHEIDEGG_ISA` too.
    pub const fn word(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => bit_manipulation() && is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                bit_manipulation()
                    && is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The widest that this machine has.
    pub fn best() -> Isa {
        Self::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    /// The one that `SCHEIDEGG_ISA` names, if it is set.
    ///
    /// # Errors
    /// [`Error::Param`] for a word that names none.
    pub fn from_env() -> Result<Option<Isa>> {
        match std::env::var("SCHEIDEGG_ISA") {
            Ok(word) => word.parse().map(Some),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn bit_manipulation() -> bool {
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "AVX2",
            Isa::Avx512 => "AVX-512",
        })
    }
}

impl FromStr for Isa {
    type Err = Error;
    fn from_str(s: &str) -> Result<Isa> {
        let known = Isa::ALL.map(Isa::word).join(" or ");
        Isa::ALL
            .into_iter()
            .find(|isa| isa.word() == s)
            .ok_or_else(|| Error::param("SCHEIDEGG_ISA", s, known))
    }
}
