//! What the tests of files share.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};

use scheidegg::io::raw::Detector;
use scheidegg::io::{RawOptions, RawReading, RawSource, RawWriter, Source};
use scheidegg::{FrameBuf, FrameOwner, PixelMask, Result, Shape};

/// A small generator of random numbers (xorshift64*), the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// The pixels of a frame of a run that every test knows: 14 bits, all different between frames and neighbours.
pub fn image(shape: Shape, number: u64) -> Vec<u16> {
    let mut random = Random::new(number + 1);
    (0..shape.pixels()).map(|_| (random.next() & 0x3fff) as u16).collect()
}

/// Small MÖNCH-like frames.
pub fn options(rows: usize, cols: usize) -> RawOptions {
    RawOptions { max_frames_per_file: 4, ..RawOptions::new(Detector::Moench, Shape { rows, cols }) }
}

/// Writes frames 1 to `frames` of the known run and returns the master.
pub fn write_run(folder: &Path, options: &RawOptions, frames: u64) -> PathBuf {
    let mut writer = RawWriter::create(folder, "run", options).unwrap();
    for n in 1..=frames {
        writer.push(n, &image(options.shape, n)).unwrap();
    }
    writer.finish().unwrap()
}

/// A frame as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub number: u64,
    pub pixels: Vec<u16>,
    pub lost: Option<PixelMask>,
}

/// Reads to the end in batches, or to the first error.
pub fn read_batches(source: &mut dyn Source, batch: usize) -> (Vec<Frame>, Result<()>) {
    let mut all = Vec::new();
    // A buffer with old values in it: a pixel that is not written shows.
    let shape = source.shape();
    let memory = vec![0xdead; shape.pixels() * batch];
    let mut buf = FrameBuf::in_memory(shape, Box::new(memory));
    loop {
        buf.clear();
        match source.read(&mut buf) {
            Ok(0) => return (all, Ok(())),
            Ok(n) => assert_eq!(n, buf.len()),
            Err(e) => return (all, Err(e)),
        }
        let frames = buf.frames();
        all.extend((0..frames.len()).map(|k| Frame {
            number: frames.number(k),
            pixels: frames.frame(k).to_vec(),
            lost: frames.lost(k).cloned(),
        }));
    }
}

/// Reads everything, which must be whole.
pub fn read_all(source: &mut dyn Source) -> Vec<Frame> {
    let (frames, end) = read_batches(source, 3);
    end.unwrap();
    frames
}

/// Opens a raw run.
pub fn open(master: &Path) -> RawSource {
    RawSource::open(master, &RawReading::default()).unwrap()
}

/// Checks that frames are those of the known run with these numbers, nothing masked.
pub fn assert_known(frames: &[Frame], shape: Shape, numbers: impl IntoIterator<Item = u64>) {
    let numbers: Vec<_> = numbers.into_iter().collect();
    assert_eq!(frames.iter().map(|f| f.number).collect::<Vec<_>>(), numbers);
    for f in frames {
        assert!(f.pixels == image(shape, f.number), "frame {} has other pixels", f.number);
        assert_eq!(f.lost, None, "frame {}", f.number);
    }
}

/// Real detector files in a folder `shared` beside the repository (or a work tree of it), or nothing: then the test says
/// that it was skipped.
pub fn real_data(what: &str) -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2).take(2);
    let found = above.map(|a| a.join("shared/data").join(what)).find(|p| p.exists());
    if found.is_none() {
        let required = std::env::var("SCHEIDEGG_REQUIRE").unwrap_or_default();
        assert!(
            required.split(',').all(|w| w.trim() != "data"),
            "{what} is not here, SCHEIDEGG_REQUIRE names data"
        );
        // Past what keeps the output of a test that passes: a skip is always seen.
        let _ = writeln!(std::io::stdout(), "SKIPPED: {what} is not here");
    }
    found
}

/// The error of something that must fail, as its user reads it.
pub fn said<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("nothing was refused"),
        Err(e) => e.to_string(),
    }
}
