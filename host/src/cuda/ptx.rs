//! What a PTX text asks of driver and GPU, so that a refusal can be explained before the driver is asked.

use scheidegg_finder::Result;

use super::api::unavailable;
use super::driver::DeviceInfo;

/// The oldest CUDA version whose driver takes PTX of this ISA version.
///
/// # Source
/// NVIDIA's PTX ISA manual, table of release notes.
fn cuda_of_isa(major: u32, minor: u32) -> (u32, u32) {
    match (major, minor) {
        (..=6, _) => (11, 0),
        (7, m) => (11, m),
        (8, m @ 0..=5) => (12, m),
        // 8.6 came with 12.7, 8.7 with 12.8, 8.8 with 12.9.
        (8, m) => (12, m + 1),
        (9, m) => (13, m),
        (more, m) => (more + 4, m),
    }
}

/// The value of a directive at the head of a PTX text.
fn directive<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    ptx.lines()
        .take(64)
        .find_map(|line| line.trim().strip_prefix(name)?.split([',', ' ', '\t']).find(|w| !w.is_empty()))
}

/// Checks that a driver takes the PTX and that the GPU is not older than its target.
///
/// # Errors
/// [`Unavailable`](scheidegg_finder::Error::Unavailable) with what was found and what is needed.
pub(super) fn check_ptx(ptx: &str, device: &DeviceInfo) -> Result<()> {
    let number = |s: &str| s.parse::<u32>().ok();
    let isa = directive(ptx, ".version").and_then(|v| v.split_once('.'));
    let isa = isa.and_then(|(a, b)| Some((number(a)?, number(b)?)));
    let target = directive(ptx, ".target").and_then(|t| t.trim().strip_prefix("sm_"));
    let target = target.and_then(|t| number(t.trim_end_matches(|c: char| c.is_ascii_alphabetic())));
    let (Some(isa), Some(target)) = (isa, target) else {
        return Err(unavailable(
            "the embedded PTX has no .version and .target (build it anew: cargo xtask ptx)",
        ));
    };
    let need = cuda_of_isa(isa.0, isa.1);
    if device.driver < need {
        return Err(unavailable(format!(
            "the driver speaks CUDA {}.{}, the kernels are PTX {}.{} and need a driver for CUDA {}.{} or newer \
             (update the driver)",
            device.driver.0, device.driver.1, isa.0, isa.1, need.0, need.1
        )));
    }
    let have = device.capability.0 * 10 + device.capability.1;
    if have < target {
        return Err(unavailable(format!(
            "{} has compute capability {}.{}, the kernels need {}.{} or newer",
            device.name,
            device.capability.0,
            device.capability.1,
            target / 10,
            target % 10
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(driver: (u32, u32), capability: (u32, u32)) -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "Test GPU".into(),
            sms: 1,
            capability,
            shared_bytes: 0,
            cooperative: true,
            driver,
        }
    }

    const PTX: &str = "//\n// Generated\n//\n\n.version 7.4\n.target sm_80\n.address_size 64\n";

    #[test]
    fn a_driver_and_a_gpu_that_are_new_enough() {
        check_ptx(PTX, &device((11, 4), (8, 0))).unwrap();
        check_ptx(PTX, &device((13, 0), (9, 0))).unwrap();
        check_ptx(&PTX.replace("sm_80", "sm_90a, debug"), &device((13, 0), (9, 0))).unwrap();
    }

    #[test]
    fn an_old_driver_is_told_what_it_lacks() {
        let e = check_ptx(PTX, &device((11, 3), (8, 0))).unwrap_err().to_string();
        assert!(e.contains("PTX 7.4") && e.contains("CUDA 11.4 or newer") && e.contains("CUDA 11.3"), "{e}");
        let e = check_ptx(&PTX.replace("7.4", "8.7"), &device((12, 6), (8, 0))).unwrap_err().to_string();
        assert!(e.contains("CUDA 12.8 or newer"), "{e}");
    }

    #[test]
    fn an_old_gpu_is_told_what_it_lacks() {
        let e = check_ptx(PTX, &device((13, 0), (7, 5))).unwrap_err().to_string();
        assert!(e.contains("capability 7.5") && e.contains("8.0 or newer"), "{e}");
    }

    #[test]
    fn a_text_that_is_no_ptx() {
        assert!(check_ptx("hello", &device((13, 0), (9, 0))).unwrap_err().to_string().contains("xtask ptx"));
    }
}
