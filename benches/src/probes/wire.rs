//! What the link really moves: copies of many sizes, either way and both ways at once.

use std::path::Path;
use std::time::{Duration, Instant};

use scheidegg::Result;

use crate::harness::gpu::Gpu;
use crate::harness::stats::Spread;
use crate::harness::table::Table;
use crate::ladder::device::Device;
use crate::ladder::memory::{DeviceMemory, Pinned};
use crate::ladder::stream::Stream;

/// Bytes of a frame of the ladder.
pub const FRAME: usize = 400 * 400 * 2;
/// Bytes moved for one time.
const MOVED: usize = 256 << 20;

/// Copies that many bytes up and, beside them, as many down as results have, so often; seconds for a pair of copies, one
/// value a repetition. Nothing else runs: what the link alone makes of the work of a finder.
///
/// # Errors
/// [`scheidegg::Error::Unavailable`] without a GPU, [`scheidegg::Error::Device`].
pub fn both_ways(up: usize, down: usize, copies: usize, repetitions: usize) -> Result<Vec<f64>> {
    /// Places that are written and read in turn, as chunks are.
    const SLOTS: usize = 6;
    let device = Device::open()?;
    let (going_up, going_down) = (Stream::new(&device)?, Stream::new(&device)?);
    let slot = || -> Result<_> {
        let memory = [DeviceMemory::new(&device, up as u64)?, DeviceMemory::new(&device, down as u64)?];
        Ok((memory, Pinned::new(&device, up, false)?, Pinned::new(&device, down, false)?))
    };
    let slots = (0..SLOTS).map(|_| slot()).collect::<Result<Vec<_>>>()?;
    let once = || -> Result<f64> {
        let start = Instant::now();
        for ([frames, results], input, output) in slots.iter().cycle().take(copies) {
            // SAFETY: nobody writes the sources, nobody reads the output; all is waited for before this returns.
            unsafe {
                going_up.upload(frames, 0, input.part(0, up))?;
                going_down.download_pinned(output, 0, results, 0, down)?;
            }
        }
        going_up.synchronize()?;
        going_down.synchronize()?;
        Ok(start.elapsed().as_secs_f64() / copies as f64)
    };
    once()?;
    (0..repetitions).map(|_| once()).collect()
}

/// Writes `wire.csv`: the median, the best and the spread of five times for each direction and size of a copy.
///
/// # Errors
/// [`scheidegg::Error::Unavailable`] without a GPU or with a busy one.
pub fn run(dir: &Path) -> Result<()> {
    let gpu = Gpu::open()?;
    gpu.require_idle(Duration::from_secs(5))?;
    let device = Device::open()?;
    let (up, down) = (Stream::new(&device)?, Stream::new(&device)?);
    let memory = [DeviceMemory::new(&device, MOVED as u64)?, DeviceMemory::new(&device, MOVED as u64)?];
    let (input, output) = (Pinned::new(&device, MOVED, true)?, Pinned::new(&device, MOVED, false)?);
    let pageable = vec![1u8; MOVED];
    gpu.require_ramped(Duration::from_secs(5), || {
        up.clear(&memory[0])?;
        up.synchronize()
    })?;
    let mut table = Table::new(
        dir.join("wire.csv"),
        &[
            "direction",
            "bytes_per_copy",
            "frames_per_copy",
            "copies",
            "us_per_copy",
            "us_per_frame",
            "gb_per_s",
            "spread_percent",
        ],
    );
    let sizes = [4 << 10, 16 << 10, 64 << 10, FRAME, 4 * FRAME, 16 * FRAME, 64 * FRAME, 256 * FRAME];
    for direction in ["h2d", "h2d pageable", "d2h", "both"] {
        for bytes in sizes {
            // Small copies cost a call each; 2000 of them are enough.
            let copies = (MOVED / bytes).clamp(1, 2000);
            let once = || -> Result<f64> {
                let start = Instant::now();
                for i in 0..copies {
                    let at = i * bytes % (MOVED / bytes * bytes);
                    // SAFETY: nobody writes the sources, nobody reads the output before the streams are waited for.
                    unsafe {
                        match direction {
                            "h2d" => up.upload(&memory[0], at as u64, input.part(at, bytes))?,
                            "h2d pageable" => up.upload(&memory[0], at as u64, &pageable[at..at + bytes])?,
                            "d2h" => down.download_pinned(&output, at, &memory[1], at as u64, bytes)?,
                            _ => {
                                up.upload(&memory[0], at as u64, input.part(at, bytes))?;
                                down.download_pinned(&output, at, &memory[1], at as u64, bytes)?;
                            }
                        }
                    }
                }
                up.synchronize()?;
                down.synchronize()?;
                Ok(start.elapsed().as_secs_f64())
            };
            once()?;
            let times = Spread::of(&(0..5).map(|_| once()).collect::<Result<Vec<f64>>>()?);
            let median = times.median;
            let moved = (bytes * copies) as f64;
            table.push([
                direction.to_string(),
                bytes.to_string(),
                format!("{:.3}", bytes as f64 / FRAME as f64),
                copies.to_string(),
                format!("{:.3}", median / copies as f64 * 1e6),
                format!("{:.3}", median / moved * FRAME as f64 * 1e6),
                // Each way; `both` moves as much again the other way.
                format!("{:.2}", moved / median / 1e9),
                format!("{:.2}", times.percent_of_least()),
            ]);
        }
    }
    table.write()
}
