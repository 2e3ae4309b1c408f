//! Generated loops with a site at a chosen offset, which threads run while the site is toggled.
//!
//! # Safety
//!
//! This module exists to write functions into code memory and to call them.
#![allow(unsafe_code)]

use callpatch::{CallSite, Destination, Islands, Role, Strategy, Survey};
use std::error::Error;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use wordpatch::{CodeAddr, CodeMemory, Layout, PatchSite, Policy, Word};

/// The distance from a site to its hook, and to the data that a site may read.
const HOOK: usize = 512;
const DATA: usize = 1024;
const SIZE: usize = 3 * 4096;

/// The passes of an executing thread, on separate cache lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Passes {
    /// Passes that saw the site on.
    pub(crate) on: AtomicU64,
    pub(crate) all: AtomicU64,
    stop: AtomicU8,
}

impl Passes {
    pub(crate) fn seen(&self) -> [u64; 2] {
        [&self.on, &self.all].map(|count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn stop(&self) {
        self.stop.store(1, Ordering::Relaxed);
    }
}

/// A loop with a site at its beginning.
#[derive(Debug)]
pub(crate) struct Loop {
    memory: CodeMemory,
    at: usize,
}

impl Loop {
    /// The site begins `at` bytes from the beginning of a page, and is `bytes`; after it come
    /// `extra` and a counter of passes.
    fn new(at: usize, bytes: &[u8], extra: &[u8]) -> Result<Self, Box<dyn Error>> {
        let mut memory = CodeMemory::new(SIZE)?;
        let mut code = vec![0xe9];
        code.extend((at as i32 - 5).to_le_bytes());
        memory.write(0, &code);
        let mut body = [bytes, extra].concat();
        // inc qword [rdi+8]; cmp byte [rsi], 0; je top; ret
        body.extend([0x48, 0xff, 0x47, 0x08, 0x80, 0x3e, 0x00, 0x0f, 0x84]);
        let back = -(body.len() as i32 + 4);
        body.extend(back.to_le_bytes());
        body.push(0xc3);
        memory.write(at, &body);
        // inc qword [rdi]; ret
        memory.write(at + HOOK, &[0x48, 0xff, 0x07, 0xc3]);
        Ok(Self { memory, at })
    }

    /// A loop with a call of a hook that counts.
    pub(crate) fn of_call(at: usize) -> Result<Self, Box<dyn Error>> {
        let mut call = vec![0xe8];
        call.extend((HOOK as i32 - 5).to_le_bytes());
        Self::new(at, &call, &[])
    }

    /// A loop with a word that holds 1 while it is on: `mov eax, 1; add [rdi], rax`.
    pub(crate) fn of_word(at: usize) -> Result<Self, Box<dyn Error>> {
        Self::new(at, &[0xb8, 1, 0, 0, 0], &[0x48, 0x01, 0x07])
    }

    /// The address of the site.
    pub(crate) fn site(&self) -> CodeAddr {
        self.memory.base().offset(self.at as isize)
    }

    /// The writable address of its first byte.
    pub(crate) fn writable(&self) -> CodeAddr {
        self.memory.writable(self.at)
    }

    /// Adopts its call for toggling.
    pub(crate) fn adopt(
        &self,
        policy: &Policy,
        paper: bool,
    ) -> Result<(CallSite, Islands), Box<dyn Error>> {
        let span = self.memory.base()..self.memory.base().offset(SIZE as isize);
        let mut islands = Islands::near(span)?;
        let mut survey = Survey::new(*policy)?;
        if paper {
            survey = survey.with_strategy(Strategy::Paper { ret: islands.ret()? });
        }
        let hook = self.site().offset(HOOK as isize);
        // SAFETY: (1) to (5): code of the loop, which lives as long as this, and whose hook changes
        // flags and a counter.
        let site =
            unsafe { survey.adopt(self.site(), Role::Call, |to| to == Destination::Code(hook))? };
        Ok((site, islands))
    }

    /// Adopts its word for replacing.
    pub(crate) fn adopt_word(&self, policy: &Policy) -> Result<PatchSite, Box<dyn Error>> {
        let mut survey = wordpatch::Survey::new(*policy)?;
        // SAFETY: (1) to (4): code of the loop, one instruction.
        Ok(unsafe { survey.adopt(self.site(), 5, Layout::One)? })
    }

    /// Runs it until it is stopped.
    pub(crate) fn run(&self, passes: &Passes) {
        // SAFETY: (1) the bytes written by `new` are a function of this type, whatever the site's
        // state; (2) it writes to the counters of one thread.
        let function: extern "C" fn(*const Passes, *const AtomicU8) =
            unsafe { std::mem::transmute(self.memory.base().as_ptr()) };
        function(passes, &raw const passes.stop);
    }
}

/// The faces of the word of [`Loop::of_word`].
pub(crate) fn word(on: bool) -> Word {
    Word::new(&[0xb8, on.into(), 0, 0, 0]).unwrap_or_else(|| unreachable!("five bytes are a word"))
}

/// Replaces the word.
pub(crate) fn replace(site: &PatchSite, on: bool) {
    // SAFETY: (1) a face of the site.
    unsafe { site.patch(word(on)) }.expect("a site of our own");
}

/// Stores the byte of a call's switch, with nothing but the store.
#[inline(always)]
pub(crate) fn store(at: CodeAddr, byte: u8) {
    // SAFETY: (1) a byte of code memory, through its writable mapping.
    unsafe { wordpatch::live::store(at, wordpatch::live::Width::One, byte.into()) };
}

/// A form of an inactive site, or its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// No instruction: the empty loop.
    Nothing,
    /// `0F 1F 44 00 00`.
    Nop,
    /// `A9 imm32`.
    Test,
    /// `67 A9 imm32`: from a call that the linker has relaxed.
    PrefixedTest,
    /// `85 15 disp32`: from a call through the GOT.
    TestMemory,
    /// `EB 03`, and three bytes that are jumped over.
    Jump,
    /// A call of a function that consists of `C3`: from a tail jump.
    Return,
    /// The same, of a well-aligned function: its baseline.
    AlignedReturn,
}

impl Form {
    fn bytes(self) -> Vec<u8> {
        let relative = |opcode: &[u8], to: i32| {
            [opcode, &(to - opcode.len() as i32 - 4).to_le_bytes()].concat()
        };
        match self {
            Self::Nothing | Self::Return | Self::AlignedReturn => Vec::new(),
            Self::Nop => vec![0x0f, 0x1f, 0x44, 0, 0],
            Self::Test => vec![0xa9, 1, 2, 3, 4],
            Self::PrefixedTest => vec![0x67, 0xa9, 1, 2, 3, 4],
            Self::TestMemory => relative(&[0x85, 0x15], DATA as i32),
            Self::Jump => vec![0xeb, 0x03, 1, 2, 3],
        }
    }
}

/// A loop that runs a form a number of times.
#[derive(Debug)]
pub(crate) struct Counted(CodeMemory);

impl Counted {
    /// The form begins `at` bytes from the beginning of a page.
    pub(crate) fn new(form: Form, at: usize) -> Result<Self, Box<dyn Error>> {
        let mut memory = CodeMemory::new(SIZE)?;
        // For forms that are called, the loop is well aligned, and the called function is at the
        // chosen offset.
        let called = match form {
            Form::Return => Some(at),
            Form::AlignedReturn => Some(2 * 4096),
            _ => None,
        };
        let top = if called.is_some() { 256 } else { at };
        let mut body = form.bytes();
        if let Some(function) = called {
            body.push(0xe8);
            body.extend((function as i32 - top as i32 - 5).to_le_bytes());
            memory.write(function, &[0xc3, 1, 2, 3, 4]);
        }
        // dec rdi; jne top; ret
        body.extend([0x48, 0xff, 0xcf, 0x0f, 0x85]);
        let back = -(body.len() as i32 + 4);
        body.extend(back.to_le_bytes());
        body.push(0xc3);
        memory.write(top, &body);
        let mut entry = vec![0xe9];
        entry.extend((top as i32 - 5).to_le_bytes());
        memory.write(0, &entry);
        Ok(Self(memory))
    }

    /// Runs it; at least once.
    pub(crate) fn run(&self, times: u64) {
        // SAFETY: (1) the bytes written by `new` are a function of this type.
        let function: extern "C" fn(u64) = unsafe { std::mem::transmute(self.0.base().as_ptr()) };
        function(times.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_counts_what_its_site_says() {
        let target = Loop::of_call(2048).unwrap();
        let (site, _islands) = target.adopt(&Policy::new().unwrap(), false).unwrap();
        let passes = Passes::default();
        passes.stop();
        target.run(&passes);
        site.set(callpatch::Switch::Off).unwrap();
        target.run(&passes);
        assert_eq!(passes.seen(), [1, 2]);
        let target = Loop::of_word(2047).unwrap();
        let site = target.adopt_word(&Policy::new().unwrap()).unwrap();
        replace(&site, false);
        target.run(&passes);
        replace(&site, true);
        target.run(&passes);
        assert_eq!(passes.seen(), [2, 4]);
    }

    #[test]
    fn every_form_can_be_run_at_every_place() {
        use Form::*;
        for form in [Nothing, Nop, Test, PrefixedTest, TestMemory, Jump, Return, AlignedReturn] {
            for at in (2048..2112).chain(4090..4097) {
                Counted::new(form, at).unwrap().run(10);
            }
        }
    }
}
