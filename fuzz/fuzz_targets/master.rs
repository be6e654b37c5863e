//! Any bytes as a master file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use scheidegg::io::Master;

fuzz_target!(|content: &[u8]| {
    if let Ok(master) = Master::parse(Path::new("a_master_0.json"), content) {
        let _ = master.detector(None);
    }
});
