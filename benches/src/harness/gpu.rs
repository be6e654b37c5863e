//! The GPU seen through NVML: its clocks, its energy counter, and whether it is in a state worth measuring.

use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use scheidegg::{Error, Result};

/// A GPU counts as busy above this, in percent.
pub const BUSY_PERCENT: u32 = 5;
/// The share of its highest SM clock that a GPU must have reached.
pub const RAMPED: f64 = 0.85;

/// NVML on the first GPU.
pub struct Gpu {
    nvml: Nvml,
}

/// What a GPU says of itself.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct GpuFacts {
    /// The product's name.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// The highest CUDA version that the driver speaks, as `13000`.
    pub cuda: i32,
    /// SM clock now and at most, in MHz.
    pub sm_mhz: [u32; 2],
    /// Memory clock now and at most, in MHz.
    pub memory_mhz: [u32; 2],
    /// PCIe generation now and at most.
    pub pcie_generation: [u32; 2],
    /// PCIe lanes now.
    pub pcie_width: u32,
    /// Power now, in watts.
    pub power_w: f64,
    /// How busy it was when asked, in percent; none when it does not tell, and then a busy one is not refused.
    pub busy_percent: Option<u32>,
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::Unavailable { backend: "cuda".into(), reason: reason.into() }
}

impl Gpu {
    /// Opens NVML.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where there is no driver or no GPU.
    pub fn open() -> Result<Gpu> {
        let mut said = String::new();
        // Machines without the development files have only the second name.
        for path in ["libnvidia-ml.so", "libnvidia-ml.so.1"] {
            match Nvml::builder().lib_path(path.as_ref()).init() {
                Ok(nvml) => {
                    nvml.device_by_index(0).map_err(|e| refuse(format!("NVML finds no GPU: {e}")))?;
                    return Ok(Gpu { nvml });
                }
                Err(e) => said = e.to_string(),
            }
        }
        Err(refuse(format!("NVML does not start: {said}")))
    }

    fn device(&self) -> Result<nvml_wrapper::Device<'_>> {
        self.nvml.device_by_index(0).map_err(|e| refuse(format!("NVML lost the GPU: {e}")))
    }

    /// What the GPU says of itself; what it does not tell is 0.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn facts(&self) -> Result<GpuFacts> {
        let d = self.device()?;
        let clock = |c: fn() -> Clock| [d.clock_info(c()).unwrap_or(0), d.max_clock_info(c()).unwrap_or(0)];
        Ok(GpuFacts {
            name: d.name().unwrap_or_default(),
            driver: self.nvml.sys_driver_version().unwrap_or_default(),
            cuda: self.nvml.sys_cuda_driver_version().unwrap_or(0),
            sm_mhz: clock(|| Clock::SM),
            memory_mhz: clock(|| Clock::Memory),
            pcie_generation: [d.current_pcie_link_gen().unwrap_or(0), d.max_pcie_link_gen().unwrap_or(0)],
            pcie_width: d.current_pcie_link_width().unwrap_or(0),
            power_w: f64::from(d.power_usage().unwrap_or(0)) / 1000.0,
            busy_percent: d.utilization_rates().ok().map(|u| u.gpu),
        })
    }

    /// Energy since the driver was loaded, in joules, where the GPU counts it.
    pub fn joules(&self) -> Option<f64> {
        Some(self.device().ok()?.total_energy_consumption().ok()? as f64 / 1000.0)
    }

    /// SM clock in MHz.
    pub fn sm_mhz(&self) -> u32 {
        self.device().ok().and_then(|d| d.clock_info(Clock::SM).ok()).unwrap_or(0)
    }

    /// Waits until nobody else uses the GPU. The counter looks back about a second, so the end of the step before is
    /// waited for; whoever stays busy longer is somebody else. A GPU that does not tell counts as idle, and `env.json`
    /// says that it does not.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it is still above [`BUSY_PERCENT`] after `patience`.
    pub fn require_idle(&self, patience: Duration) -> Result<()> {
        wait_idle(patience, || Ok(self.device()?.utilization_rates().map_or(0, |u| u.gpu)))
    }

    /// Keeps the GPU at work with `work` until its SM clock has ramped. Returns the clock in MHz.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the clock stays below [`RAMPED`] of its maximum, or what `work` says.
    pub fn require_ramped(&self, patience: Duration, mut work: impl FnMut() -> Result<()>) -> Result<u32> {
        let highest = self.facts()?.sm_mhz[1];
        wait_ramped(patience, highest, || {
            work()?;
            Ok(self.sm_mhz())
        })
    }
}

/// Asks how busy the GPU is, in percent, until it is idle.
fn wait_idle(patience: Duration, mut busy: impl FnMut() -> Result<u32>) -> Result<()> {
    let start = Instant::now();
    loop {
        let now = busy()?;
        if now <= BUSY_PERCENT {
            return Ok(());
        }
        if start.elapsed() > patience {
            return Err(refuse(format!(
                "the GPU is {now} % busy with something else, at most {BUSY_PERCENT} % is allowed: a time measured \
                 now would mean nothing"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks for the clock under load, in MHz, until it has reached its share of the highest; 0 is an unknown highest one.
fn wait_ramped(patience: Duration, highest: u32, mut clock: impl FnMut() -> Result<u32>) -> Result<u32> {
    let start = Instant::now();
    loop {
        let now = clock()?;
        if highest == 0 || f64::from(now) >= RAMPED * f64::from(highest) {
            return Ok(now);
        }
        if start.elapsed() > patience {
            return Err(refuse(format!(
                "the SM clock stays at {now} of {highest} MHz under load: a time measured now would mean nothing"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(60);

    #[test]
    fn a_busy_gpu_is_refused_and_one_that_calms_down_is_waited_for() {
        let e = wait_idle(SHORT, || Ok(6)).unwrap_err();
        assert!(matches!(e, Error::Unavailable { .. }), "{e}");
        assert!(e.to_string().contains("6 % busy"), "{e}");
        assert!(wait_idle(SHORT, || Ok(5)).is_ok());
        let mut seen = [100, 40, 3].into_iter();
        assert!(wait_idle(Duration::from_secs(10), || Ok(seen.next().unwrap())).is_ok());
        assert_eq!(seen.next(), None, "it was asked until it was idle");
    }

    #[test]
    fn a_clock_that_stays_low_is_refused() {
        let e = wait_ramped(SHORT, 2000, || Ok(1699)).unwrap_err().to_string();
        assert!(e.contains("1699 of 2000 MHz"), "{e}");
        assert_eq!(wait_ramped(SHORT, 2000, || Ok(1700)).unwrap(), 1700);
        let mut seen = [345, 900, 1980].into_iter();
        assert_eq!(wait_ramped(Duration::from_secs(10), 1980, || Ok(seen.next().unwrap())).unwrap(), 1980);
        let broken = wait_ramped(SHORT, 2000, || Err(refuse("gone")));
        assert!(broken.is_err(), "what the work says is passed on");
    }
}
