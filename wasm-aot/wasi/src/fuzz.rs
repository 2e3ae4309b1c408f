//! Random calls with random arguments: no panic, nothing touched beyond memory, nothing changed
//! beyond the directory.
//!
//! The body is a plain function over a source of numbers, so that it runs for a second among the
//! tests and for days elsewhere.

use super::beneath::Lookup;
use super::clock::ManualClock;
use super::scratch::Scratch;
use super::{
    Buffer, Guest, Outcome, Permissions, Randomness, Sink, Source, ValueType, WasiCtx, functions,
};
use std::fs;
use std::time::{Duration, Instant};

/// Bytes around the guest's memory that no code may touch.
const MARGIN: usize = 4096;
const MEMORY: usize = 16384;
const MARK: u8 = 0xa5;

/// Names that are put into memory.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"dir",
    b"dir/a",
    b"dir/../b",
    b"link",
    b"link/a",
    b"../out",
    b"/",
    b".",
    b"..",
    b"a/",
    b"",
];
const NAMES_AT: u64 = 64;
const NAME_ROOM: u64 = 16;

/// Xorshift (Marsaglia, 2003): the source of choices.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An argument: mostly a meaningful value, sometimes a random one.
    fn argument(&mut self, kind: ValueType) -> u64 {
        let name = self.below(NAMES.len() as u64);
        let value = match self.below(12) {
            0 => self.next(),
            1 => u64::MAX,
            2 => MEMORY as u64 - self.below(64),
            3 => self.below(MEMORY as u64),
            4..6 => NAMES_AT + name * NAME_ROOM,
            6 => NAMES[name as usize].len() as u64,
            7 => (1 << 29) - 1,
            8 => 1 << self.below(32),
            _ => self.below(12),
        };
        if kind == ValueType::I32 { value & 0xffff_ffff } else { value }
    }
}

/// Makes `rounds` random calls as a guest.
fn calls(seed: u64, rounds: u32, lookup: Lookup) {
    let scratch = Scratch::new();
    fs::write(scratch.outside().join("out"), "untouched").unwrap();
    let mut ctx = furnished(&scratch, lookup);
    let mut choices = Choices(seed | 1);
    let mut bytes = vec![MARK; MARGIN * 2 + MEMORY];
    for _ in 0..rounds {
        let memory = &mut bytes[MARGIN..MARGIN + MEMORY];
        for (name, at) in NAMES.iter().zip(0u64..) {
            let at = (NAMES_AT + at * NAME_ROOM) as usize;
            memory[at..at + name.len()].copy_from_slice(name);
        }
        let function = &functions()[choices.below(functions().len() as u64) as usize];
        let mut arguments: Vec<_> =
            function.params.iter().map(|kind| choices.argument(*kind)).collect();
        if function.name == "fd_allocate" {
            // Keeps the host's disk from being filled.
            arguments[1..].iter_mut().for_each(|argument| *argument &= 0xffff);
        }
        let outcome = (function.call)(&mut ctx, &Guest::exclusive(memory), &arguments);
        let returns = matches!(outcome, Outcome::Errno(errno) if errno.number() <= 76);
        assert!(
            returns || function.name == "proc_exit",
            "{} {arguments:x?}: {outcome:?}",
            function.name
        );
    }
    assert!(
        bytes[..MARGIN].iter().chain(&bytes[MARGIN + MEMORY..]).all(|&byte| byte == MARK),
        "seed {seed}: beyond memory"
    );
    assert_eq!(fs::read(scratch.outside().join("out")).unwrap(), b"untouched", "seed {seed}");
    assert_eq!(fs::read_dir(scratch.outside()).unwrap().count(), 2, "seed {seed}");
}

/// A world in which no call waits: its clock is manual, and its streams are buffers.
fn furnished(scratch: &Scratch, lookup: Lookup) -> WasiCtx {
    WasiCtx::builder()
        .args(["program", "argument"])
        .env("NAME", "value")
        .stdin(Source::Bytes(vec![7; 1000]))
        .stdout(Sink::Buffer(Buffer::with_limit(1 << 16)))
        .preopened_dir(scratch.root(), "/", Permissions::ReadWrite)
        .preopened_dir(scratch.root(), "/again", Permissions::ReadOnly)
        .clock(ManualClock::new(Duration::from_secs(1), Duration::from_nanos(1)))
        .randomness(Randomness::Seeded(3))
        .lookup(lookup)
        .build()
        .unwrap()
}

#[test]
fn random_calls_do_no_harm() {
    let end = Instant::now() + Duration::from_secs(1);
    for seed in 1.. {
        let lookup = if seed % 2 == 0 { Lookup::Kernel } else { Lookup::Walk };
        calls(seed * 0x9e37_79b9, 2000, lookup);
        if Instant::now() > end {
            break;
        }
    }
}
