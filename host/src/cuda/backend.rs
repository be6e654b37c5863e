//! The backend `cuda`.

use scheidegg_finder::{Backend, Error, Finder, Params, Precision, Probe, Result, Shape, Update};
use scheidegg_kernels::device::abi::COPY;

use super::api::BACKEND;
use super::code::module_of;
use super::ptx::check_ptx;
use super::{CudaFinder, DeviceInfo, Options};

/// NVIDIA GPUs, with the same results as the CPU to the bit.
#[derive(Clone, Debug, Default)]
pub struct CudaBackend {
    /// How its finders work.
    pub options: Options,
}

impl CudaBackend {
    /// The preference among backends, above any CPU's.
    pub const PREFERENCE: u32 = 1000;

    /// Frames of fewer pixels than this are better done by the CPU.
    ///
    /// However small a frame, its link in the chain of pedestals takes a GPU about a microsecond (a launch, or the
    /// steps between barriers within one), while a CPU core needs some 1.3 ns a pixel: the two meet near 1,000 pixels
    /// on one core, and near 16,000 on the cores of a workstation.
    pub const LEAST_PIXELS: usize = 16_384;

    /// With options.
    pub fn new(options: Options) -> Self {
        CudaBackend { options }
    }
}

/// Whether the GPU computes this; the parameters themselves were validated.
pub(super) fn check_supported(params: &Params) -> Result<()> {
    let unsupported = |what: &str| Err(Error::Unsupported { backend: BACKEND.into(), what: what.into() });
    if params.update == Update::Serial {
        return unsupported(
            "update serial (there every pixel waits for the one before): use backend cpu, or update frozen",
        );
    }
    if params.precision == Precision::F64 {
        return unsupported("decisions in f64 (precision f64): use backend cpu, or precision f64f32");
    }
    Ok(())
}

impl Backend for CudaBackend {
    fn name(&self) -> &str {
        BACKEND
    }

    fn summary(&self) -> &str {
        "NVIDIA GPUs (kernels in Rust; frames are read at the speed of the bus)"
    }

    fn probe(&self) -> Result<Probe> {
        let mut names = Vec::new();
        for ordinal in &self.options.devices {
            let info = DeviceInfo::of(*ordinal)?;
            check_ptx(module_of(COPY)?, &info)?;
            names.push(info.to_string());
        }
        Ok(Probe { device: names.join("; "), preference: Self::PREFERENCE })
    }

    fn suits(&self, shape: Shape, params: &Params) -> Result<(), String> {
        if let Err(e) = check_supported(params) {
            return Err(e.to_string());
        }
        if shape.pixels() < Self::LEAST_PIXELS {
            return Err(format!(
                "frames of {shape} are small: below {} pixels a GPU waits more than it works",
                Self::LEAST_PIXELS
            ));
        }
        Ok(())
    }

    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        params.validate(shape)?;
        check_supported(params)?;
        Ok(Box::new(CudaFinder::new(shape, params, &self.options)?))
    }
}

#[cfg(test)]
mod tests {
    use scheidegg_finder::ClusterSize;

    use super::*;

    #[test]
    fn what_only_the_cpu_does_is_refused_with_its_name() {
        let backend = CudaBackend::default();
        let shape = Shape::new(400, 400).unwrap();
        let params = Params::new(ClusterSize::square(3).unwrap());
        for p in [
            Params { update: Update::Serial, ..params.clone() },
            Params { precision: Precision::F64, ..params.clone() },
        ] {
            match backend.build(shape, &p) {
                Err(Error::Unsupported { backend, what }) => {
                    assert_eq!(backend, "cuda");
                    assert!(what.contains("backend cpu"), "{what}");
                }
                other => panic!("{:?}", other.err()),
            }
            assert!(backend.suits(shape, &p).is_err());
        }
        backend.suits(shape, &params).unwrap();
        assert!(backend.suits(Shape::new(100, 100).unwrap(), &params).unwrap_err().contains("small"));
    }

    #[test]
    fn a_machine_without_a_gpu_says_why() {
        let backend = CudaBackend::default();
        match backend.probe() {
            Ok(probe) => assert!(probe.device.contains("SMs"), "{probe:?}"),
            Err(Error::Unavailable { reason, .. }) => {
                println!("SKIPPED: {reason}");
                let shape = Shape::new(400, 400).unwrap();
                let params = Params::new(ClusterSize::square(3).unwrap());
                let built = backend.build(shape, &params).err().unwrap();
                assert!(matches!(built, Error::Unavailable { .. }), "{built}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
