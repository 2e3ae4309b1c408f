//! Latent cost: the cost of an inactive site, in each form and at each distance from a line's end.
//!
//! A loop of eight nops, the site, `dec ecx` and `jnz` is compared with the same loop without the
//! site, in which the nops are longer by the number of the site's bytes before the line's end. So
//! both loops lie on the same two lines, and differ by one instruction. All loops take turns, so
//! that disturbances of the machine affect all of them.
//!
//! # Safety
//!
//! This module exists to run loops that it has written itself.
#![allow(unsafe_code)]

use crate::plan::Plan;
use crate::statistics::Sample;
use crate::stopwatch;
use crate::storm::Assignment;
use crate::storm::execution::{self, OnTrap};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wordpatch::os::OsError;
use wordpatch::{CodeAddr, CodeMemory};

/// The instruction in place of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Form {
    /// No instruction.
    #[serde(rename = "empty")]
    Empty,
    /// The nop of five bytes.
    #[serde(rename = "nop5")]
    Nop,
    /// `test eax, imm32`.
    #[serde(rename = "test-a9")]
    Test,
    /// A jump over three bytes.
    #[serde(rename = "jmp-eb03")]
    Jump,
    /// A call of a `ret`.
    #[serde(rename = "call-ret")]
    Call,
}

impl Form {
    /// All forms, the empty loop first.
    pub const ALL: [Self; 5] = [Self::Empty, Self::Nop, Self::Test, Self::Jump, Self::Call];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Nop => "nop5",
            Self::Test => "test-a9",
            Self::Jump => "jmp-eb03",
            Self::Call => "call-ret",
        }
    }

    /// Its bytes, if a `ret` lies `to_ret` bytes after them.
    fn bytes(self, to_ret: u8) -> &'static [u8] {
        match (self, to_ret) {
            (Self::Empty, _) => &[],
            (Self::Nop, _) => &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            (Self::Test, _) => &[0xa9, 0x10, 0x20, 0x30, 0x40],
            (Self::Jump, _) => &[0xeb, 0x03, 0xcc, 0xcc, 0xcc],
            (Self::Call, TO_RET) => &[0xe8, TO_RET, 0x00, 0x00, 0x00],
            (Self::Call, _) => unreachable!("there is one distance only"),
        }
    }
}

/// The distance from the site to the called `ret`: beyond the site's own line and the next.
const TO_RET: u8 = 0x7c;

/// The number of bytes before the line's end; 0 places the site in the middle of a line.
const POSITIONS: [usize; 5] = [0, 1, 2, 3, 4];

/// The cost of one form at one position, in ticks per iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latent {
    /// The form.
    pub form: Form,
    /// The number of its bytes before the line's end.
    pub position: usize,
    /// The fastest turn.
    pub min: f64,
    /// The median turn.
    pub median: f64,
    /// The median of the ratios to the empty loop of the same turn and position.
    pub ratio: f64,
    /// The lower end of its 95 % confidence interval.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
    /// The number of turns.
    pub n: usize,
}

/// Iterations in a turn.
const ITERATIONS: u32 = 2_000;

/// The number of turns beyond which the result does not improve.
const ENOUGH: usize = 2_000;

/// Runs all loops in turn.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Vec<Latent>, Failure> {
    let assignment = Assignment::new()?;
    let _pinned = assignment.pin_patcher()?;
    execution::prepare()?;
    let over = AtomicBool::new(false);
    let mut loops = Vec::new();
    for position in POSITIONS {
        for form in Form::ALL {
            loops.push((form, position, Loop::new(form, position)?, Vec::new()));
        }
    }
    let share = Duration::from_millis(100).min(plan.latent);
    let start = Instant::now();
    while start.elapsed() < plan.latent && !watch.is_stopped() && loops[0].3.len() < ENOUGH {
        let end = Instant::now() + share;
        execution::recoverable(&over, OnTrap::Retry, || {
            while Instant::now() < end {
                loops.iter_mut().for_each(|(.., code, turns)| turns.push(code.turn()));
            }
        });
        watch.passed("latent cost", share)?;
    }
    watch.passed("latent cost", plan.latent.saturating_sub(start.elapsed()))?;
    let mut results = Vec::new();
    // The empty loop is the first of each position.
    for same_position in loops.chunks(Form::ALL.len()) {
        let empty = &same_position[0].3;
        results.extend(
            same_position
                .iter()
                .filter_map(|(form, position, _, turns)| summary(*form, *position, turns, empty)),
        );
    }
    Ok(results)
}

fn summary(form: Form, position: usize, turns: &[f64], empty: &[f64]) -> Option<Latent> {
    let ratios = Sample::new(turns.iter().zip(empty).map(|(turn, empty)| turn / empty))?;
    let turns = Sample::new(turns.iter().copied())?;
    let (lo, hi) = ratios.median_interval(100);
    Some(Latent {
        form,
        position,
        min: turns.min(),
        median: turns.median(),
        ratio: ratios.median(),
        lo,
        hi,
        n: turns.len(),
    })
}

/// The size of a cache line.
const LINE: usize = 64;

/// Eight nops, `len` bytes together.
fn padding(len: usize) -> Vec<u8> {
    // The recommended nops of four to eight bytes (AMD64 APM volume 3, "NOP"; Intel SDM volume 2,
    // the same).
    const NOPS: [&[u8]; 5] = [
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    let (short, longer) = (len / 8, len % 8);
    (0..8).flat_map(|i| NOPS[short + usize::from(i < longer) - 4]).copied().collect()
}

/// One loop, ready to run.
struct Loop {
    memory: CodeMemory,
    entry: usize,
}

impl Loop {
    fn new(form: Form, position: usize) -> Result<Self, OsError> {
        // The loop begins at the start of a line; the site is in the middle of the line or at its
        // end.
        let site = if position == 0 { 32 } else { 64 - position };
        let start = if form == Form::Empty { site + position } else { site };
        let body = [&padding(start)[..], form.bytes(TO_RET)].concat();
        // dec ecx; jnz back to the loop's beginning; ret
        let back = -(body.len() as i8 + 4);
        let tail = [0xff, 0xc9, 0x75, back as u8, 0xc3];
        let mut memory = CodeMemory::new(LINE * 8)?;
        let [a, b, c, d] = ITERATIONS.to_le_bytes();
        let count = [0xb9, a, b, c, d]; // mov ecx, ITERATIONS
        let entry = LINE - count.len();
        memory.write(entry, &[&count[..], &body, &tail].concat());
        memory.write(LINE + site + 5 + usize::from(TO_RET), &[0xc3]);
        Ok(Self { memory, entry })
    }

    fn at(&self) -> CodeAddr {
        self.memory.base().offset(self.entry as isize)
    }

    /// The ticks per iteration.
    fn turn(&self) -> f64 {
        let ticks = stopwatch::time(|| {
            // SAFETY: (1) `measure` has prepared; (2) the loop touches rcx and flags, calls a `ret`
            // at most, and returns.
            let _ = unsafe { execution::execute(self.at()) };
        });
        ticks as f64 / f64::from(ITERATIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};
    use wordpatch::live;

    #[test]
    fn every_form_is_one_instruction_of_five_bytes() {
        for form in &Form::ALL[1..] {
            let instruction = Decoder::new(64, form.bytes(TO_RET), DecoderOptions::NONE).decode();
            assert_eq!(instruction.len(), if *form == Form::Jump { 2 } else { 5 });
            assert!(!instruction.is_invalid());
            if *form == Form::Jump {
                assert_eq!(instruction.near_branch_target(), 5);
            }
        }
    }

    #[test]
    fn every_loop_ends() {
        execution::prepare().unwrap();
        let over = AtomicBool::new(false);
        for position in POSITIONS {
            for form in Form::ALL {
                let code = Loop::new(form, position).unwrap();
                // SAFETY: as in `turn`.
                let registers = execution::recoverable(&over, OnTrap::Retry, || unsafe {
                    execution::execute(code.at())
                });
                assert_eq!(registers.rcx, 0, "{form:?} {position}");
            }
        }
    }

    #[test]
    fn padding_is_eight_nops_of_any_length_that_is_needed() {
        for len in 32..=64 {
            let bytes = padding(len);
            let nops: Vec<Mnemonic> = Decoder::new(64, &bytes, DecoderOptions::NONE)
                .iter()
                .map(|i| i.mnemonic())
                .collect();
            assert_eq!((bytes.len(), nops), (len, vec![Mnemonic::Nop; 8]));
        }
    }

    #[test]
    fn the_loops_go_back_to_their_beginning_and_place_the_site_where_it_is_said_to_be() {
        for position in POSITIONS {
            for form in Form::ALL {
                let code = Loop::new(form, position).unwrap();
                let mut bytes = [0; 96];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    // SAFETY: (1) readable memory of the loop.
                    *byte = unsafe { live::load_byte(code.memory.base().offset(64 + i as isize)) };
                }
                let instructions: Vec<_> =
                    Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).iter().take(16).collect();
                let jump = instructions.iter().find(|i| i.mnemonic() == Mnemonic::Jne).unwrap();
                assert_eq!(jump.near_branch_target(), 0, "{form:?} {position}");
                if form != Form::Empty && position > 0 {
                    assert_eq!(instructions[8].ip(), 64 - position as u64);
                }
            }
        }
    }
}
