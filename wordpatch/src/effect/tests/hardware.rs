//! The processor as oracle: it runs the instruction on random registers, flags and memory.
//!
//! ```text
//!   enter ──→ registers and flags of START ──→ [ the instruction ] behind: jmp to landed_behind ──┐
//!                                                      └────────→ target: jmp to landed_target ──┴──→ leave: into END
//! ```
//!
//! # Safety
//!
//! This module exists to run code that it has just written. The code is one instruction that
//! `decode` knows, with its target and its memory operand set to memory of the test, and two jumps
//! back.
#![allow(unsafe_code)]

use super::*;
use crate::CodeMemory;
use crate::os::{cpu, signals};
use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};

/// The flags that the instructions read or write, and the adjust flag.
const STATUS: u64 = 0x8d5;
const ADJUST: u64 = 0x10;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct State {
    registers: [u64; 16],
    flags: u64,
    /// Before: the address of the instruction. After: 0 if execution continued after it, 1 if at
    /// its target.
    place: u64,
    /// The stack pointer of the caller.
    host: u64,
}

/// The state that the trampolines read and write. Only the thread that holds [`TURN`] uses it.
struct Shared(UnsafeCell<State>);

// SAFETY: (1) `run` is its only user, behind a lock.
unsafe impl Sync for Shared {}

static STATE: Shared =
    Shared(UnsafeCell::new(State { registers: [0; 16], flags: 0, place: 0, host: 0 }));
static TURN: Mutex<()> = Mutex::new(());

/// Loads the state and jumps to the instruction. CPUID serializes: the instruction was written
/// through another address.
#[unsafe(naked)]
extern "C" fn enter() {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "xor eax, eax",
        "cpuid",
        "mov [rip + {state} + {host}], rsp",
        "push qword ptr [rip + {state} + {flags}]",
        "popfq",
        "mov rax, [rip + {state}]",
        "mov rcx, [rip + {state} + 8]",
        "mov rdx, [rip + {state} + 16]",
        "mov rbx, [rip + {state} + 24]",
        "mov rsp, [rip + {state} + 32]",
        "mov rbp, [rip + {state} + 40]",
        "mov rsi, [rip + {state} + 48]",
        "mov rdi, [rip + {state} + 56]",
        "mov r8, [rip + {state} + 64]",
        "mov r9, [rip + {state} + 72]",
        "mov r10, [rip + {state} + 80]",
        "mov r11, [rip + {state} + 88]",
        "mov r12, [rip + {state} + 96]",
        "mov r13, [rip + {state} + 104]",
        "mov r14, [rip + {state} + 112]",
        "mov r15, [rip + {state} + 120]",
        "jmp [rip + {state} + {place}]",
        state = sym STATE,
        host = const offset_of!(State, host),
        flags = const offset_of!(State, flags),
        place = const offset_of!(State, place),
    )
}

#[unsafe(naked)]
extern "C" fn landed_behind() {
    naked_asm!(
        "mov qword ptr [rip + {state} + {place}], 0",
        "jmp {leave}",
        state = sym STATE,
        place = const offset_of!(State, place),
        leave = sym leave,
    )
}

#[unsafe(naked)]
extern "C" fn landed_target() {
    naked_asm!(
        "mov qword ptr [rip + {state} + {place}], 1",
        "jmp {leave}",
        state = sym STATE,
        place = const offset_of!(State, place),
        leave = sym leave,
    )
}

/// Saves the state and returns from `enter`.
#[unsafe(naked)]
extern "C" fn leave() {
    naked_asm!(
        "mov [rip + {state}], rax",
        "mov [rip + {state} + 8], rcx",
        "mov [rip + {state} + 16], rdx",
        "mov [rip + {state} + 24], rbx",
        "mov [rip + {state} + 32], rsp",
        "mov [rip + {state} + 40], rbp",
        "mov [rip + {state} + 48], rsi",
        "mov [rip + {state} + 56], rdi",
        "mov [rip + {state} + 64], r8",
        "mov [rip + {state} + 72], r9",
        "mov [rip + {state} + 80], r10",
        "mov [rip + {state} + 88], r11",
        "mov [rip + {state} + 96], r12",
        "mov [rip + {state} + 104], r13",
        "mov [rip + {state} + 112], r14",
        "mov [rip + {state} + 120], r15",
        "mov rsp, [rip + {state} + {host}]",
        "pushfq",
        "pop qword ptr [rip + {state} + {flags}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        state = sym STATE,
        host = const offset_of!(State, host),
        flags = const offset_of!(State, flags),
    )
}

/// Runs the instruction at `start.place` and returns the state after it.
///
/// # Safety
/// Execution continues at `landed_behind` or `landed_target` after the instruction, which writes no
/// memory except the stack at `start`'s RSP.
unsafe fn run(start: State) -> State {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _blocked = signals::Blocked::all();
    // SAFETY: (1) the lock makes this thread the only one that uses `STATE`; (2) the caller, for
    // the instruction; (3) `enter` and `leave` preserve the registers that the C ABI requires; (4)
    // no signal handler runs on the stack pointer of the state.
    unsafe {
        STATE.0.get().write(start);
        enter();
        STATE.0.get().read()
    }
}

/// A jump through the eight bytes after it.
fn jump_to(function: extern "C" fn()) -> [u8; 14] {
    let mut code = [0; 14];
    code[..2].copy_from_slice(&[0xff, 0x25]);
    code[6..].copy_from_slice(&(function as usize).to_le_bytes());
    code
}

/// A simulated thread over the real memory of this process, which it reads but does not write.
#[derive(Clone)]
struct Modelled {
    state: State,
    stored: Option<(u64, u64)>,
}

impl Machine for Modelled {
    fn register(&self, register: Register) -> u64 {
        self.state.registers[register as usize]
    }

    fn set_register(&mut self, register: Register, value: u64) {
        self.state.registers[register as usize] = value;
    }

    fn flags(&self) -> u64 {
        self.state.flags
    }

    fn set_flags(&mut self, flags: u64) {
        self.state.flags = flags;
    }

    fn set_instruction_pointer(&mut self, to: CodeAddr) {
        self.state.place = to.get() as u64;
    }

    fn load(&self, address: u64, width: Width) -> u64 {
        // SAFETY: (1) `Bench` has pointed every memory operand at its own code memory or stack.
        unsafe { crate::live::load(CodeAddr::new(address as usize), width.bytes()) }
    }

    fn store(&mut self, address: u64, value: u64) {
        assert_eq!(self.stored.replace((address, value)), None);
    }
}

/// The memory in which instructions are run, one after the other.
struct Bench {
    random: Random,
    code: CodeMemory,
    stack: Box<[u64; 64]>,
}

/// An instruction in place: its bytes, its address and its target.
struct Placed {
    bytes: Vec<u8>,
    instruction: Instruction,
    at: CodeAddr,
    target: CodeAddr,
}

impl Bench {
    /// Before and after the instruction there is space for targets, and then for operands.
    const INSTRUCTION: usize = 2048;
    const OPERANDS: usize = 4096;

    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            code: CodeMemory::new(8192).unwrap(),
            stack: Box::new([0; 64]),
        }
    }

    /// An instruction with this opcode that is known and can be run here.
    fn place(&mut self, opcode: &[u8]) -> Placed {
        loop {
            let placed = self.attempt(opcode);
            if let Some(placed) = placed.filter(|placed| runnable(placed.instruction.effect)) {
                return placed;
            }
        }
    }

    fn attempt(&mut self, opcode: &[u8]) -> Option<Placed> {
        let count = self.random.below(3);
        let mut bytes: Vec<u8> = (0..count).map(|_| self.random.one_of(&PREFIXES)).collect();
        bytes.extend(opcode);
        bytes.extend(self.random.bytes::<10>());
        if self.random.next() & 1 != 0 {
            // The only known kind of memory operand is rare among random bytes; so are the second
            // bytes of ENDBR.
            bytes[count + opcode.len()] = if opcode == [0x0f, 0x1e] {
                0xfa
            } else {
                5 | self.random.one_of(&[0, 0x10, 0x20])
            };
        }
        let start = Self::INSTRUCTION + self.random.below(64);
        let at = self.code.base().offset(start as isize);
        let len = decode(at, &bytes)?.len();
        bytes.truncate(len);
        let short = matches!(opcode, [0x70..=0x7f | 0xe3 | 0xeb]);
        let distance = self.random.below(90);
        let (after, before) = (start + len + 14 + distance, start - 14 - distance);
        let target = if short {
            self.random.one_of(&[after, before])
        } else {
            self.random.one_of(&[after, before, 8, 4000])
        };
        self.write(&mut bytes, start, target, short);
        let instruction = decode(at, &bytes)?;
        assert_eq!(instruction.len(), len);
        Some(Placed { bytes, instruction, at, target: self.code.base().offset(target as isize) })
    }

    /// Writes the instruction, with its last field set to its target or its operand, and the jumps
    /// back.
    fn write(&mut self, bytes: &mut [u8], start: usize, target: usize, short: bool) {
        let (len, base) = (bytes.len(), self.code.base());
        let end = start + len;
        let operand = Self::OPERANDS + self.random.below(4088);
        let mut content = self.random.bytes::<8>();
        match decode(base.offset(start as isize), bytes).unwrap().effect {
            Effect::Branch(..) | Effect::Jump(Target::Code(_)) | Effect::Call(Target::Code(_)) => {
                let distance = (target as i32 - end as i32).to_le_bytes();
                let size = if short { 1 } else { 4 };
                bytes[len - size..].copy_from_slice(&distance[..size]);
            }
            Effect::Jump(Target::Memory(_)) | Effect::Call(Target::Memory(_)) => {
                bytes[len - 4..].copy_from_slice(&(operand as i32 - end as i32).to_le_bytes());
                content = base.offset(target as isize).get().to_le_bytes();
            }
            Effect::Test { left: Operand::Memory(_), .. } => {
                bytes[len - 4..].copy_from_slice(&(operand as i32 - end as i32).to_le_bytes());
            }
            _ => {}
        }
        self.code.write(target, &jump_to(landed_target));
        self.code.write(start, bytes);
        self.code.write(end, &jump_to(landed_behind));
        self.code.write(operand, &content);
    }

    /// Random registers and flags, with zero in some or all of those that an instruction may read.
    fn state(&mut self, placed: &Placed) -> State {
        let mut registers = std::array::from_fn(|_| {
            let kept = self.random.one_of(&[
                u64::MAX,
                u64::MAX,
                0,
                0xff,
                0xff00,
                0xffff,
                0xffff_ffff,
                0xffff_ffff << 32,
            ]);
            self.random.next() & kept
        });
        self.stack.fill_with(|| self.random.next());
        let slot = 32 + self.random.below(16);
        registers[Register::Rsp as usize] = &raw const self.stack[slot] as u64;
        match placed.instruction.effect {
            Effect::Return { .. } => self.stack[slot] = placed.target.get() as u64,
            Effect::Jump(Target::Register(register)) | Effect::Call(Target::Register(register)) => {
                registers[register as usize] = placed.target.get() as u64;
            }
            _ => {}
        }
        State {
            registers,
            flags: self.random.next() & STATUS | 0x202,
            place: placed.at.get() as u64,
            host: 0,
        }
    }

    /// Emulates the instruction and has the processor run it, both from the same random state, and
    /// compares the results.
    fn compare(&mut self, placed: &Placed) {
        let Placed { bytes, instruction, at, target } = placed;
        let start = self.state(placed);
        let mut model = Modelled { state: start, stored: None };
        assert_eq!(carry_out(*instruction, *at, &mut model, false), Ok(()));
        let mut stack = self.stack.clone();
        if let Some((address, value)) = model.stored {
            let slot = (address - &raw const self.stack[0] as u64) / 8;
            stack[slot as usize] = value;
        }
        // SAFETY: (1) `write` and `state` have put jumps to `landed_*` after the instruction and
        // wherever else it leads; (2) of the instructions that `decode` knows, only a call writes
        // memory, and RSP lies in the middle of the test's stack then, see `runnable`.
        let end = unsafe { run(start) };
        let next = if end.place == 0 { at.offset(instruction.len() as isize) } else { *target };
        let undefined = if matches!(instruction.effect, Effect::Test { .. }) { ADJUST } else { 0 };
        assert_eq!(model.state.place, next.get() as u64, "{bytes:02x?} from {start:x?}");
        assert_eq!(model.state.registers, end.registers, "{bytes:02x?} from {start:x?}");
        assert_eq!(
            (model.state.flags ^ end.flags) & STATUS & !undefined,
            0,
            "{bytes:02x?} from {start:x?}"
        );
        assert_eq!(stack, self.stack, "{bytes:02x?} from {start:x?}");
    }
}

/// Whether the instruction can be run here. A call through RSP would push its return address into
/// the code it calls.
fn runnable(effect: Effect) -> bool {
    match effect {
        Effect::Call(Target::Register(Register::Rsp)) => false,
        Effect::Call(_) | Effect::Return { .. } => cpu::shadow_stack_pointer() == 0,
        _ => true,
    }
}

#[test]
fn the_processor_does_what_is_carried_out() {
    let mut bench = Bench::new(5);
    for opcode in known_opcodes() {
        let returns = matches!(opcode[..], [0xc2 | 0xc3 | 0xe8]);
        if returns && cpu::shadow_stack_pointer() != 0 {
            continue;
        }
        for _ in 0..40 {
            let placed = bench.place(&opcode);
            for _ in 0..20 {
                bench.compare(&placed);
            }
        }
    }
}
