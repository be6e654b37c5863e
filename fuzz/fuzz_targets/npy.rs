//! Any bytes as a `.npy` file of frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scheidegg::FrameBuf;
use scheidegg::io::{NpySource, Source};

fuzz_target!(|content: &[u8]| {
    let Ok(mut source) = NpySource::in_memory(content) else { return };
    if source.remaining() == Some(0) {
        return;
    }
    let mut buf = FrameBuf::new(source.shape(), 3);
    while matches!(source.read(&mut buf), Ok(n) if n > 0) {
        buf.clear();
    }
    let _ = source.health();
});
