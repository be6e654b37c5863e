//! Any bytes as a cluster file; the first one chooses the window and the type of its values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scheidegg::io::{ClustReader, Results};
use scheidegg::{ClusterSize, Payload, record_bytes};

fuzz_target!(|input: &[u8]| {
    let [kind, content @ ..] = input else { return };
    let size = ClusterSize::square(2 + usize::from(kind & 7)).expect("2 to 9");
    let payload = Payload::ALL[usize::from(kind >> 3) % Payload::ALL.len()];
    let mut reader = ClustReader::of_bytes(content, size, payload);
    let mut buf = reader.buffer();
    let whole = loop {
        match reader.read(&mut buf, 7) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    let (frames, clusters) = (buf.view().frames(), buf.view().len());
    let bytes = frames * 8 + clusters * record_bytes(size, payload);
    assert!(bytes == content.len() || !whole && bytes < content.len(), "a cut file is read as whole");
});
