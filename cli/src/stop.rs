//! Ctrl-C: the first ends the run at a whole frame, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scheidegg::{Error, Result};

/// The flag that Ctrl-C (or a polite kill) sets.
///
/// # Errors
/// When the system takes no handler.
pub fn on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            // 128 + SIGINT, as shells expect.
            std::process::exit(130);
        }
        eprintln!("\nscheidegg: stopping at a whole frame (again to stop at once)");
    })
    .map_err(|e| Error::Other(format!("Ctrl-C cannot be caught: {e}")))?;
    Ok(flag)
}
