//! A master, and data files of two ports: the first two bytes are the length of the master, the next one cuts the rest in
//! two.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scheidegg::io::{RawReading, RawSource, Source};
use scheidegg::{FrameBuf, FrameOwner};

fuzz_target!(|input: &[u8]| {
    let [a, b, cut, rest @ ..] = input else { return };
    let master = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
    let (master, data) = rest.split_at(master);
    let (first, second) = data.split_at(data.len() * usize::from(*cut) / 256);
    let files = [(0, 0, first.to_vec()), (1, 0, second.to_vec())];
    let Ok(mut source) = RawSource::in_memory(master, files, &RawReading::default()) else { return };
    // A frame that is larger than all input cannot be whole.
    if source.shape().pixels() * 2 > data.len() && source.remaining() == Some(0) || source.shape().pixels() > 1 << 22 {
        return;
    }
    let mut buf = FrameBuf::new(source.shape(), 3);
    let most = source.remaining();
    let mut frames = 0;
    while matches!(source.read(&mut buf), Ok(n) if n > 0) {
        let view = buf.frames();
        frames += view.len() as u64;
        for k in 0..view.len() {
            assert!(view.frame(k).iter().all(|w| *w <= 0x3fff), "gain bits are left");
        }
        buf.clear();
    }
    assert!(most.is_some_and(|most| frames <= most), "more frames than there are");
    let _ = source.health();
});
