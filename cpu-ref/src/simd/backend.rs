//! The backend `cpu`.

use scheidegg_finder::{Backend, Error, Finder, Params, Precision, Probe, Result, Shape, SyncFinder};
use scheidegg_kernels::{Convert, Real};

use super::aligned::Plain;
use super::engine::{CpuEngine, kernel};
use super::isa::Isa;
use super::lane::Sums;
use super::pool::{self, Pool};
use super::portable;
use super::shells::{Advance, Kernel};
use super::wave::MOST;

/// The fast finder on the CPU: every mode and precision of [SPEC](scheidegg_finder::spec), in the widest vectors
/// that the machine has, on several
/// threads.
///
/// # Determinism
/// The result depends on parameters and frames alone, not on the instruction set or the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuBackend {
    isa: Option<Isa>,
    threads: Option<usize>,
    pinned: bool,
    group: Option<usize>,
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

/// Threads that suit a machine with so many processors.
fn suiting(processors: usize) -> usize {
    processors.min(4).max(processors / 2).min(crate::MOST_THREADS)
}

impl CpuBackend {
    /// The widest instruction set of the machine or the one that the environment variable `SCHEIDEGG_ISA` names
    /// (`portable`, `avx2`, `avx512`). A thread for every processor up to 4, for half of them beyond: threads wait
    /// for each other frame by frame, so they should not share cores with one another, nor with whoever reads and writes
    /// files.
    pub const fn new() -> Self {
        CpuBackend { isa: None, threads: None, pinned: false, group: None }
    }

    /// The same with this instruction set and no other.
    pub const fn with_isa(self, isa: Isa) -> Self {
        CpuBackend { isa: Some(isa), ..self }
    }

    /// The same on `threads` threads.
    ///
    /// # Errors
    /// [`Error::Param`] for none or more than [`MOST_THREADS`](crate::MOST_THREADS).
    pub fn threads(self, threads: usize) -> Result<Self> {
        Ok(CpuBackend { threads: Some(crate::within(threads)?), ..self })
    }

    /// The same with every thread on a processor of its own: the first of those that the process may run on, the
    /// calling thread on the very first while it works. Building a finder is an error when there are fewer processors
    /// than threads, and where the system cannot pin threads.
    pub const fn pinned(self, pinned: bool) -> Self {
        CpuBackend { pinned, ..self }
    }

    /// The same with `frames` frames, 1 to 8, going through the rows at once, instead of as many as suit the size
    /// of a frame. No result depends on it.
    ///
    /// # Errors
    /// [`Error::Param`] for another number.
    pub fn group(self, frames: usize) -> Result<Self> {
        match frames {
            1..=MOST => Ok(CpuBackend { group: Some(frames), ..self }),
            _ => Err(Error::param("group", frames, format!("1 to {MOST} frames"))),
        }
    }

    /// The instruction set that a finder will use.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the machine does not have the one that was asked for.
    pub fn isa(&self) -> Result<Isa> {
        let Some(isa) = self.isa.map_or_else(Isa::from_env, |isa| Ok(Some(isa)))? else {
            return Ok(Isa::best());
        };
        if !isa.is_available() {
            let reason = format!("this machine has no {isa}, the widest it has is {}", Isa::best().word());
            return Err(Error::Unavailable { backend: self.word().into(), reason });
        }
        Ok(isa)
    }

    const fn word(&self) -> &'static str {
        match self.isa {
            None => "cpu",
            Some(Isa::Portable) => "cpu-portable",
            Some(Isa::Avx2) => "cpu-avx2",
            Some(Isa::Avx512) => "cpu-avx512",
        }
    }

    fn count(&self) -> usize {
        self.threads.unwrap_or_else(|| suiting(std::thread::available_parallelism().map_or(1, |n| n.get())))
    }

    /// A processor for every thread, when threads are pinned.
    fn processors(&self) -> Result<Option<Vec<usize>>> {
        if !self.pinned {
            return Ok(None);
        }
        let Some(mut processors) = pool::allowed() else {
            let reason =
                "this system does not say on which processors a thread may run; build without pinned".into();
            return Err(Error::Unavailable { backend: self.word().into(), reason });
        };
        if processors.len() < self.count() {
            let most = format!("at most {} when pinned, the processors of this process", processors.len());
            return Err(Error::param("threads", self.count(), most));
        }
        processors.truncate(self.count());
        Ok(Some(processors))
    }

    fn finder<P, C>(&self, shape: Shape, params: &Params, pick: Picker<P, C>) -> Result<Box<dyn Finder>>
    where
        P: Sums + Convert<C> + Sync,
        C: Real + Plain + Sync,
    {
        params.validate(shape)?;
        let processors = self.processors()?;
        let pool = Pool::new(self.count(), processors.as_deref()).map_err(|e| {
            let (name, threads) = (self.word(), self.count());
            Error::Other(format!(
                "backend {name}: the system refused to start {threads} threads (take fewer): {e}"
            ))
        })?;
        let engine = CpuEngine::new(self.word(), shape, params, pick(kernel(params)), pool, self.group);
        Ok(Box::new(SyncFinder::new(engine, shape, params)?))
    }
}

type Picker<P, C> = fn(Kernel) -> Advance<P, C>;

/// The shells of an instruction set for a precision.
macro_rules! pick {
    ($isa:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => super::avx512::pick,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => super::avx2::pick,
            _ => portable::pick,
        }
    };
}

impl Backend for CpuBackend {
    /// `cpu`, or with a forced instruction set `cpu-portable`, `cpu-avx2`, `cpu-avx512`.
    fn name(&self) -> &str {
        self.word()
    }

    fn summary(&self) -> &str {
        "the fast finder on this machine's processor"
    }

    fn probe(&self) -> Result<Probe> {
        let (isa, threads) = (self.isa()?, self.count());
        let plural = if threads == 1 { "" } else { "s" };
        Ok(Probe { device: format!("{isa}, {threads} thread{plural}"), preference: 50 })
    }

    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        let isa = self.isa()?;
        match params.precision {
            Precision::F32 => self.finder::<f32, f32>(shape, params, pick!(isa)),
            Precision::F64F32 => self.finder::<f64, f32>(shape, params, pick!(isa)),
            Precision::F64 => self.finder::<f64, f64>(shape, params, pick!(isa)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::suiting;

    #[test]
    fn half_of_many_processors() {
        let threads = [1, 2, 4, 5, 7, 8, 9, 16, 64].map(suiting);
        assert_eq!(threads, [1, 2, 4, 4, 4, 4, 4, 8, 32]);
    }
}
