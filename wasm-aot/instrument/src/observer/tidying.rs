//! Who takes probes out of the code that have gone by themselves.
//!
//! A thread looks now and then where the program is, and has probes that are off left out of the
//! functions that it finds there: what is executed rarely is not worth it. The thread rests for
//! many times as long as its work takes, and for longer where there is nothing to do.

use super::standing::Standing;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long it rests at least and at most, and how many times as long as its work.
const SHORTEST: Duration = Duration::from_millis(4);
const LONGEST: Duration = Duration::from_millis(250);
const REST: u32 = 20;

/// Has somebody look after a monitor's probes for as long as it is there. Without a thread
/// everything stays as it is, which takes time and nothing else.
pub(super) fn begin(standing: &Arc<Standing>) {
    let standing = Arc::downgrade(standing);
    let _ = std::thread::Builder::new()
        .name("wasm-tidy".into())
        .stack_size(4 << 20)
        .spawn(move || tidy(&standing));
}

fn tidy(standing: &Weak<Standing>) {
    let mut pause = SHORTEST;
    loop {
        std::thread::sleep(pause);
        let Some(standing) = standing.upgrade() else { return };
        let begun = Instant::now();
        let rest = match standing.tidy() {
            Ok(true) => REST * begun.elapsed(),
            Ok(false) => pause * 2,
            // What cannot be compiled any more stays as it is.
            Err(_) => return,
        };
        pause = rest.clamp(SHORTEST, LONGEST);
    }
}
