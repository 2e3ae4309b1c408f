//! Properties of the decoder and of emulation that hold for all bytes.

use super::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

mod foreign;
mod hardware;

/// Pseudorandom numbers that are the same in every run (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

/// The bytes that may precede an opcode, and all of REX.
const PREFIXES: [u8; 27] = [
    0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0xf0, 0x40, 0x41, 0x42, 0x43, 0x44,
    0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f,
];

/// First bytes of opcodes, or second ones after 0F, with at least one known encoding.
fn known_opcodes() -> Vec<Vec<u8>> {
    let one = (0x70..=0x7f).chain(0xb0..=0xbf).map(|opcode| vec![opcode]);
    let more = [
        0x84, 0x85, 0x90, 0xa8, 0xa9, 0xc2, 0xc3, 0xc6, 0xc7, 0xe3, 0xe8, 0xe9, 0xeb, 0xf6, 0xf7,
        0xff,
    ];
    let two = (0x80..=0x8f).chain([0x1e, 0x1f]).map(|opcode| vec![0x0f, opcode]);
    one.chain(more.map(|opcode| vec![opcode])).chain(two).collect()
}

/// A simulated thread. Memory that was not written reads as a function of its address.
#[derive(Clone, Debug, PartialEq)]
struct Thread {
    registers: [u64; 16],
    flags: u64,
    at: CodeAddr,
    memory: BTreeMap<u64, u64>,
}

impl Thread {
    fn random(random: &mut Random) -> Self {
        let registers = std::array::from_fn(|_| random.next());
        Self {
            registers,
            flags: random.next(),
            at: CodeAddr::new(random.next() as usize),
            memory: BTreeMap::new(),
        }
    }
}

impl Machine for Thread {
    fn register(&self, register: Register) -> u64 {
        self.registers[register as usize]
    }

    fn set_register(&mut self, register: Register, value: u64) {
        self.registers[register as usize] = value;
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    fn set_flags(&mut self, flags: u64) {
        self.flags = flags;
    }

    fn set_instruction_pointer(&mut self, to: CodeAddr) {
        self.at = to;
    }

    fn load(&self, address: u64, _: Width) -> u64 {
        self.memory.get(&address).copied().unwrap_or(address.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn store(&mut self, address: u64, value: u64) {
        self.memory.insert(address, value);
    }
}

/// The fuzz body: for any bytes and any thread, nothing panics, and the result depends on the given
/// bytes only.
fn decode_and_carry_out(bytes: &[u8], thread: &mut Thread, shadow_stack: bool) {
    let at = thread.at;
    let Some(instruction) = decode(at, bytes) else { return };
    assert!(
        (1..=bytes.len().min(15)).contains(&instruction.len()),
        "{bytes:02x?}: {instruction:?}"
    );
    for end in 0..bytes.len() {
        let expected = (end >= instruction.len()).then_some(instruction);
        assert_eq!(decode(at, &bytes[..end]), expected, "{end} of {bytes:02x?}");
    }
    let before = thread.clone();
    if carry_out(instruction, at, thread, shadow_stack) == Err(Refused) {
        assert_eq!(*thread, before, "{bytes:02x?}");
    }
}

#[test]
fn any_bytes_at_all_are_safe_to_decode_and_to_carry_out() {
    let mut random = Random(1);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        for _ in 0..1000 {
            let bytes: [u8; 17] = random.bytes();
            let len = random.below(bytes.len() + 1);
            let shadow_stack = random.next() & 1 != 0;
            decode_and_carry_out(&bytes[..len], &mut Thread::random(&mut random), shadow_stack);
        }
    }
}

#[test]
fn a_cut_instruction_is_unknown() {
    let mut random = Random(2);
    for opcode in known_opcodes() {
        for _ in 0..2000 {
            let prefixes = (0..random.below(5)).map(|_| random.one_of(&PREFIXES));
            let mut bytes: Vec<u8> = prefixes.collect();
            bytes.extend(&opcode);
            bytes.extend(random.bytes::<10>());
            decode_and_carry_out(&bytes, &mut Thread::random(&mut random), false);
        }
    }
}

#[test]
fn nothing_is_longer_than_fifteen_bytes() {
    let long =
        |prefixes: usize| [vec![0x66; prefixes], vec![0x0f, 0x1f, 0x84, 0, 1, 2, 3, 4]].concat();
    assert_eq!(decode(CodeAddr::new(0), &long(7)).map(|i| i.len()), Some(15));
    assert_eq!(decode(CodeAddr::new(0), &long(8)), None);
    assert_eq!(decode(CodeAddr::new(0), &[0x66; 64]), None);
}

#[test]
fn a_shadow_stack_refuses_calls_and_returns_and_nothing_else() {
    let refused: [&[u8]; 6] = [
        &[0xe8, 1, 2, 3, 4],
        &[0xff, 0x15, 1, 2, 3, 4],
        &[0xff, 0xd3],
        &[0xc3],
        &[0xf3, 0xc3],
        &[0xc2, 8, 0],
    ];
    let carried_out: [&[u8]; 8] = [
        &[0x0f, 0x1f, 0x44, 0, 0],
        &[0xf3, 0x0f, 0x1e, 0xfa],
        &[0xe9, 1, 2, 3, 4],
        &[0xff, 0x25, 1, 2, 3, 4],
        &[0xff, 0xe0],
        &[0x74, 5],
        &[0x85, 0xc0],
        &[0xb8, 1, 0, 0, 0],
    ];
    let mut random = Random(3);
    for bytes in refused.into_iter().chain(carried_out) {
        let before = Thread::random(&mut random);
        let mut after = before.clone();
        let instruction = decode(before.at, bytes).unwrap();
        let result = carry_out(instruction, before.at, &mut after, true);
        if refused.contains(&bytes) {
            assert_eq!((result, &after), (Err(Refused), &before), "{bytes:02x?}");
        } else {
            assert_eq!(result, Ok(()), "{bytes:02x?}");
            assert_ne!(after.at, before.at, "{bytes:02x?}");
        }
    }
}

#[test]
fn what_vendors_disagree_on_or_leave_open_is_unknown() {
    let unknown: [&[u8]; 13] = [
        &[0x66, 0xe8, 1, 2, 3, 4],
        &[0x66, 0xe9, 1, 2, 3, 4],
        &[0x66, 0xeb, 1],
        &[0x66, 0x74, 1],
        &[0x66, 0x0f, 0x84, 1, 2, 3, 4],
        &[0x66, 0xff, 0xe0],
        &[0x66, 0xff, 0x25, 1, 2, 3, 4],
        &[0x66, 0xc3],
        &[0x66, 0xc2, 8, 0],
        &[0xf2, 0xf3, 0xc3],
        &[0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4],
        &[0xf0, 0x85, 0xc0],
        &[0x67, 0xe3, 1],
    ];
    for bytes in unknown {
        assert_eq!(decode(CodeAddr::new(0x1000), bytes), None, "{bytes:02x?}");
    }
}
