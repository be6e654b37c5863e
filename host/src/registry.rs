//! The backends that a program can run, by name.

use std::num::NonZero;
use std::thread;

use scheidegg_cpu::{CpuBackend, MOST_THREADS, OracleBackend};
use scheidegg_finder::{Backend, Error, Finder, Params, Probe, Result, Shape};

use crate::cuda::{self, CudaBackend};
use crate::sim::SimBackend;

/// The name that asks for the likely fastest backend.
pub const AUTO: &str = "auto";

/// Backends by name. A stranger's backend is registered beside those that come with this crate.
#[derive(Default)]
pub struct Registry {
    backends: Vec<Box<dyn Backend>>,
}

/// Which backend was taken and why, in sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The backend's name.
    pub name: String,
    /// The hardware that it runs on.
    pub device: String,
    /// Why it was taken, and why those before it were not.
    pub reasons: Vec<String>,
}

impl Registry {
    /// No backend.
    pub fn empty() -> Self {
        Registry::default()
    }

    /// Every backend that this build has, available on this machine or not; `cpu` with as many threads as
    /// [suit it](CpuBackend::new), the oracle with one for every processor.
    pub fn standard() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let oracle = OracleBackend::with_threads(processors.min(MOST_THREADS)).unwrap_or_default();
        Registry::of(CpuBackend::new(), oracle)
    }

    /// The same with this many threads for the backends on the CPU.
    ///
    /// # Errors
    /// [`Error::Param`] for none or more than [`MOST_THREADS`].
    pub fn with_threads(threads: usize) -> Result<Self> {
        Ok(Registry::of(CpuBackend::new().threads(threads)?, OracleBackend::with_threads(threads)?))
    }

    fn of(cpu: CpuBackend, oracle: OracleBackend) -> Self {
        let mut registry = Registry::empty();
        registry.register(Box::new(CudaBackend::new(cuda::Options::default())));
        registry.register(Box::new(cpu));
        registry.register(Box::new(oracle));
        registry.register(Box::new(SimBackend::new()));
        registry
    }

    /// Adds a backend. One that has the name of another takes its place.
    pub fn register(&mut self, backend: Box<dyn Backend>) -> &mut Self {
        self.backends.retain(|b| b.name() != backend.name());
        self.backends.push(backend);
        self
    }

    /// All backends in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Backend> {
        self.backends.iter().map(|b| &**b)
    }

    /// The backend of this name.
    ///
    /// # Errors
    /// [`Error::Param`] for an unknown name; it lists the known ones.
    pub fn get(&self, name: &str) -> Result<&dyn Backend> {
        self.iter().find(|b| b.name() == name).ok_or_else(|| {
            let names: Vec<&str> = std::iter::once(AUTO).chain(self.iter().map(|b| b.name())).collect();
            Error::param("backend", name, format!("one of {}", names.join(", ")))
        })
    }

    /// A finder of the backend of this name, or of the likely fastest one for `auto`.
    ///
    /// # Errors
    /// As [`Registry::build_explained`].
    pub fn build(&self, name: &str, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        Ok(self.build_explained(name, shape, params)?.0)
    }

    /// The backend that [`Registry::build`] would take. A finder is built on the way, because only that tells
    /// whether a backend computes what `params` ask for.
    ///
    /// # Errors
    /// As [`Registry::build_explained`].
    pub fn choose(&self, name: &str, shape: Shape, params: &Params) -> Result<Choice> {
        Ok(self.build_explained(name, shape, params)?.1)
    }

    /// A finder, and why it is this one.
    ///
    /// `auto` tries the available backends from the highest [`Probe::preference`] down, those that [do not
    /// suit](Backend::suits) such frames after all others; one that does not compute what is asked, or fails to start,
    /// is passed over. The reasons are kept.
    ///
    /// # Errors
    /// [`Error::Param`] for an unknown name or parameters that no backend takes; with a name, whatever that backend
    /// says; with `auto`, [`Error::Unsupported`] with every backend's reason when none is left.
    pub fn build_explained(
        &self,
        name: &str,
        shape: Shape,
        params: &Params,
    ) -> Result<(Box<dyn Finder>, Choice)> {
        params.validate(shape)?;
        if name != AUTO {
            let backend = self.get(name)?;
            let device = backend.probe()?.device;
            let finder = backend.build(shape, params)?;
            let reasons = vec![format!("{name} was asked for")];
            return Ok((finder, Choice { name: name.into(), device, reasons }));
        }
        let (ranked, mut passed) = self.rank(shape, params);
        for (backend, probe) in ranked {
            match backend.build(shape, params) {
                Ok(finder) => {
                    let mut reasons = vec![match passed.is_empty() {
                        true => format!("{} is the likely fastest of the backends here", backend.name()),
                        false => format!("{} is the likely fastest of those that can", backend.name()),
                    }];
                    reasons.append(&mut passed);
                    return Ok((
                        finder,
                        Choice { name: backend.name().into(), device: probe.device, reasons },
                    ));
                }
                // Parameters that are wrong are wrong for everybody.
                Err(e @ (Error::Param { .. } | Error::ShapeMismatch { .. })) => return Err(e),
                Err(e) if passed.contains(&e.to_string()) => {}
                Err(e) => passed.push(e.to_string()),
            }
        }
        let what = format!("what was asked, nor does any other:\n  {}", passed.join("\n  "));
        Err(Error::Unsupported { backend: AUTO.into(), what })
    }

    /// The available backends, the likely fastest first, and what speaks against the others and against those at the
    /// end, which do not suit such frames.
    fn rank(&self, shape: Shape, params: &Params) -> (Vec<(&dyn Backend, Probe)>, Vec<String>) {
        let (mut ranked, mut against) = (Vec::new(), Vec::new());
        for backend in self.iter() {
            match backend.probe() {
                Ok(probe) => {
                    let suits = backend.suits(shape, params);
                    ranked.push((suits.is_ok(), backend, probe));
                    against.extend(suits.err());
                }
                Err(e) => against.push(e.to_string()),
            }
        }
        // A stable sort: of equals the one registered first.
        ranked.sort_by_key(|(suits, _, probe)| std::cmp::Reverse((*suits, probe.preference)));
        (ranked.into_iter().map(|(_, backend, probe)| (backend, probe)).collect(), against)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|b| b.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CountBackend;
    use scheidegg_finder::{ClusterSize, Precision};

    fn registry() -> Registry {
        let mut r = Registry::empty();
        r.register(Box::new(CountBackend { name: "slow", preference: 1, ..CountBackend::default() }))
            .register(Box::new(CountBackend {
                name: "fast",
                preference: 100,
                only: Some(Precision::F32),
                ..CountBackend::default()
            }))
            .register(Box::new(CountBackend {
                name: "absent",
                preference: 1000,
                absent: Some("no such device"),
                ..CountBackend::default()
            }));
        r
    }

    fn params() -> (Shape, Params) {
        (Shape { rows: 4, cols: 5 }, Params::new(ClusterSize { w: 3, h: 3 }))
    }

    #[test]
    fn auto_takes_the_fastest_that_is_there() {
        let (shape, params) = params();
        let choice = registry().choose(AUTO, shape, &params).unwrap();
        assert_eq!(choice.name, "fast");
        assert!(choice.reasons.iter().any(|r| r.contains("no such device")), "{:?}", choice.reasons);
    }

    #[test]
    fn auto_passes_over_what_does_not_support_the_parameters() {
        let (shape, mut params) = params();
        params.precision = Precision::F64;
        let choice = registry().choose(AUTO, shape, &params).unwrap();
        assert_eq!(choice.name, "slow");
        assert!(choice.reasons.iter().any(|r| r.contains("fast does not do")), "{:?}", choice.reasons);
    }

    #[test]
    fn auto_heeds_what_suits_and_says_so() {
        let (shape, params) = params();
        let mut r = registry();
        r.register(Box::new(CountBackend {
            name: "fast",
            preference: 100,
            unsuited: Some("such frames are small"),
            ..CountBackend::default()
        }));
        let choice = r.choose(AUTO, shape, &params).unwrap();
        assert_eq!(choice.name, "slow");
        assert!(choice.reasons.iter().any(|r| r == "such frames are small"), "{:?}", choice.reasons);
        assert_eq!(r.choose("fast", shape, &params).unwrap().name, "fast");
        // Better than nothing where no other is left.
        r.register(Box::new(CountBackend { name: "slow", absent: Some("gone"), ..CountBackend::default() }));
        assert_eq!(r.choose(AUTO, shape, &params).unwrap().name, "fast");
    }

    #[test]
    fn a_name_is_never_replaced_by_another() {
        let (shape, mut params) = params();
        params.precision = Precision::F64;
        assert!(matches!(registry().choose("fast", shape, &params), Err(Error::Unsupported { .. })));
        assert!(matches!(registry().choose("absent", shape, &params), Err(Error::Unavailable { .. })));
        let unknown = registry().choose("gpu", shape, &params).unwrap_err().to_string();
        assert_eq!(unknown, "backend = gpu: expected one of auto, slow, fast, absent");
    }

    #[test]
    fn without_any_backend_the_error_has_every_reason() {
        let (shape, params) = params();
        let mut r = Registry::empty();
        r.register(Box::new(CountBackend { absent: Some("no such device"), ..CountBackend::default() }));
        let e = r.build(AUTO, shape, &params).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("no such device"), "{e}");
    }

    #[test]
    fn the_standard_registry_can_do_everything() {
        let (shape, mut params) = params();
        params.precision = Precision::F64;
        params.update = scheidegg_finder::Update::Serial;
        let registry = Registry::standard();
        assert!(registry.build(AUTO, shape, &params).is_ok());
        let names: Vec<&str> = registry.iter().map(|b| b.name()).collect();
        assert_eq!(names, ["cuda", "cpu", "oracle", "sim"]);
    }

    #[test]
    fn the_same_name_again_replaces() {
        let mut r = registry();
        r.register(Box::new(CountBackend { name: "slow", preference: 5000, ..CountBackend::default() }));
        assert_eq!(r.iter().filter(|b| b.name() == "slow").count(), 1);
        let (shape, params) = params();
        assert_eq!(r.choose(AUTO, shape, &params).unwrap().name, "slow");
    }
}
