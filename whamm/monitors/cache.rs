//! A direct-mapped cache of 256 lines of 64 bytes, for `cache_sim.mm`.
//!
//!     rustc --target wasm32-unknown-unknown --crate-type cdylib -O cache.rs -o cache.wasm
#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};

const LINES: u32 = 256;
const LINE: u32 = 64;

/// The line that each place of the cache holds. They are numbered from 1, so that 0 is none.
static LINES_HELD: [AtomicU32; LINES as usize] = [const { AtomicU32::new(0) }; LINES as usize];

fn line(address: u32) -> u32 {
    address.wrapping_add(LINE) / LINE
}

fn place(address: u32) -> &'static AtomicU32 {
    &LINES_HELD[(address / LINE % LINES) as usize]
}

/// Zero if an access finds all that it needs in one line that the cache holds; this changes
/// nothing.
#[unsafe(no_mangle)]
pub extern "C" fn missing(address: u32, size: u32) -> u32 {
    place(address).load(Ordering::Relaxed) ^ line(address.wrapping_add(size - 1))
}

/// How many lines an access has to fetch.
#[unsafe(no_mangle)]
pub extern "C" fn access(address: u32, size: u32) -> u32 {
    let fetch = |address: u32| u32::from(place(address).swap(line(address), Ordering::Relaxed) != line(address));
    let last = address.wrapping_add(size - 1);
    fetch(address) + if line(last) == line(address) { 0 } else { fetch(last) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
