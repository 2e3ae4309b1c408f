//! A direct-mapped cache of 256 lines of 64 bytes, for `cache_sim.mm`.
//!
//!     rustc --target wasm32-unknown-unknown --crate-type cdylib -O cache.rs -o cache.wasm
#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};

const LINES: u32 = 256;
const LINE: u32 = 64;
static TAGS: [AtomicU32; LINES as usize] = [const { AtomicU32::new(0) }; LINES as usize];

/// How many lines an access had to fetch.
#[unsafe(no_mangle)]
pub extern "C" fn access(address: u32, size: u32) -> u32 {
    let (first, last) = (address / LINE, address.wrapping_add(size.max(1) - 1) / LINE);
    let miss = |line: u32| TAGS[(line % LINES) as usize].swap(line + 1, Ordering::Relaxed) != line + 1;
    u32::from(miss(first)) + u32::from(last != first && miss(last))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
