//! Flow: which function, or which of several, ends at a site.
//!
//! Compilers merge the ends of functions that were inlined into one: several paths lead to one call
//! of the hook, each with the address of its function in the same register. The possible contents
//! of registers at an exit are found by iterating over the code until nothing is added (reaching
//! definitions: Kildall, A unified approach to global program optimization, 1973).
//!
//! All slots on the stack together are one place. Code without a known jump to it is reached
//! through jump tables or as an exception handler: there registers may hold any value that they
//! held at a call or an indirect jump.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::collections::HashMap;
use wordpatch::CodeAddr;

/// The general registers, followed by the stack.
const PLACES: usize = 17;
const STACK: usize = 16;
const RDI: usize = 7;
/// A call may change rax, rcx, rdx, rsi, rdi and r8 to r11.
const CALLED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// The analysis gives up on code in which more functions are inlined, or that takes more passes.
const FUNCTIONS: usize = 64;
const PASSES: usize = 16;

/// The relevant instructions of one function.
#[derive(Default)]
pub(super) struct Flow {
    steps: Vec<(u64, Step)>,
    functions: Vec<u64>,
    is_given_up: bool,
}

#[derive(Clone, Copy)]
enum Step {
    /// The address of a function, by number, is loaded.
    Load(u8, u8),
    /// From the second place to the first.
    Move(u8, u8),
    /// Something else is written.
    Write(u8),
    Call,
    /// So far.
    Branch(i32),
    /// See `Branch`.
    Jump(i32),
    /// Nothing goes on here: a return, or an indirect jump.
    Stop,
    Exit,
}

/// The functions whose addresses places may hold, as bits.
type State = [u64; PLACES];

impl Flow {
    /// Forgets everything: another function begins.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.functions.clear();
        self.is_given_up = false;
    }

    /// Follows an instruction, and the address of a function that it loads into a register. An exit
    /// may be a call or a jump.
    pub(super) fn pass(
        &mut self,
        instruction: &Instruction,
        loaded: Option<(usize, u64)>,
        is_exit: bool,
    ) {
        if self.is_given_up {
            return;
        }
        let at = instruction.ip();
        if is_exit {
            self.steps.push((at, Step::Exit));
        }
        let far = |target: u64| target.wrapping_sub(at) as i32;
        let step = match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => Step::Call,
            FlowControl::ConditionalBranch => Step::Branch(far(instruction.near_branch_target())),
            FlowControl::UnconditionalBranch => Step::Jump(far(instruction.near_branch_target())),
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => {
                Step::Stop
            }
            _ => match (loaded, moved(instruction), written(instruction)) {
                (Some((to, function)), ..) => Step::Load(to as u8, self.number(function) as u8),
                (_, Some((to, from)), _) => Step::Move(to as u8, from as u8),
                (.., Some(to)) => Step::Write(to as u8),
                _ => return,
            },
        };
        self.steps.push((at, step));
    }

    fn number(&mut self, function: u64) -> usize {
        let known = self.functions.iter().position(|&known| known == function);
        known.unwrap_or_else(|| {
            self.functions.push(function);
            self.is_given_up |= self.functions.len() > FUNCTIONS;
            (self.functions.len() - 1) % FUNCTIONS
        })
    }

    /// Whether several functions have been seen.
    pub(super) fn may_share(&self) -> bool {
        self.functions.len() > 1 && !self.is_given_up
    }

    /// Visits the exits with the functions that may end there, as far as they are known.
    pub(super) fn visit_ends(&self, mut visit: impl FnMut(CodeAddr, &[CodeAddr])) {
        if !self.may_share() {
            return;
        }
        let mut held = Vec::new();
        for (at, bits) in self.reaching().into_iter().filter(|(_, bits)| *bits != 0) {
            let functions = self.functions.iter().enumerate();
            let own = functions.filter(|(number, _)| bits >> number & 1 == 1);
            held.clear();
            held.extend(own.map(|(_, &function)| CodeAddr::new(function as usize)));
            visit(CodeAddr::new(at as usize), &held);
        }
    }

    /// The possible arguments of the hook at exits; empty if they take too long to find.
    fn reaching(&self) -> Vec<(u64, u64)> {
        let mut labels: HashMap<usize, State> =
            self.targets().map(|at| (at, [0; PLACES])).collect();
        let mut anywhere = [0; PLACES];
        for _ in 0..PASSES {
            let before = (labels.clone(), anywhere);
            let told = self.walk(&mut labels, &mut anywhere);
            if before == (labels.clone(), anywhere) {
                return told;
            }
        }
        Vec::new()
    }

    /// The steps that jumps lead to.
    fn targets(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|&(at, step)| match step {
            Step::Branch(far) | Step::Jump(far) => self.at(at.wrapping_add_signed(far.into())),
            _ => None,
        })
    }

    /// The first step at an address or behind it, in this code.
    fn at(&self, target: u64) -> Option<usize> {
        let (first, last) = (self.steps.first()?.0, self.steps.last()?.0);
        (first..=last).contains(&target).then(|| self.steps.partition_point(|&(at, _)| at < target))
    }

    /// Once over the code, in the order of addresses.
    fn walk(&self, labels: &mut HashMap<usize, State>, anywhere: &mut State) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        let mut state = Some([0; PLACES]);
        for (number, &(at, step)) in self.steps.iter().enumerate() {
            if let Some(label) = labels.get_mut(&number) {
                join(label, &state.unwrap_or_default());
                state = Some(*label);
            }
            let here = state.get_or_insert(*anywhere);
            match step {
                Step::Load(to, function) => here[usize::from(to)] = 1 << function,
                Step::Move(to, from) if usize::from(to) == STACK => {
                    here[STACK] |= here[usize::from(from)];
                }
                Step::Move(to, from) => here[usize::from(to)] = here[usize::from(from)],
                Step::Write(to) => here[usize::from(to)] = 0,
                Step::Exit => told.push((at, here[RDI])),
                Step::Call => {
                    CALLED.iter().for_each(|&place| here[place] = 0);
                    join(anywhere, here);
                }
                Step::Branch(far) | Step::Jump(far) => {
                    let target = self.at(at.wrapping_add_signed(far.into()));
                    let label = target.and_then(|target| labels.get_mut(&target));
                    if let Some(label) = label {
                        join(label, here);
                    }
                    if matches!(step, Step::Jump(_)) {
                        state = None;
                    }
                }
                Step::Stop => {
                    join(anywhere, here);
                    state = None;
                }
            }
        }
        told
    }
}

fn join(to: &mut State, from: &State) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
}

/// The number of a whole general register.
pub(super) fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

/// The register that an instruction writes: its first operand, or none that matters.
fn written(instruction: &Instruction) -> Option<usize> {
    let is_register = instruction.op0_kind() == OpKind::Register;
    let only_reads =
        matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push);
    if is_register && !only_reads { number(instruction.op0_register()) } else { None }
}

/// To where, and from where, an instruction moves a word: between registers, or to and from the
/// stack.
fn moved(instruction: &Instruction) -> Option<(usize, usize)> {
    let place = |operand| match instruction.op_kind(operand) {
        OpKind::Register => number(instruction.op_register(operand)),
        OpKind::Memory => {
            matches!(instruction.memory_base(), Register::RSP | Register::RBP).then_some(STACK)
        }
        _ => None,
    };
    let is_move = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64);
    if is_move { Some((place(0)?, place(1)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const BASE: u64 = 0x1000;
    const HOOK: u64 = 0x8000;
    const FIND: u64 = 0x9000;
    const INSERT: u64 = 0x9100;

    const LEA_R15: &[u8] = &[0x4c, 0x8d, 0x3d];
    const LEA_R14: &[u8] = &[0x4c, 0x8d, 0x35];
    const LEA_RDI: &[u8] = &[0x48, 0x8d, 0x3d];
    const CALL: &[u8] = &[0xe8];
    const JMP: &[u8] = &[0xe9];
    const JNE: &[u8] = &[0x0f, 0x85];
    const MOV_RDI_R15: &[u8] = &[0x4c, 0x89, 0xff];
    const MOV_R15_R14: &[u8] = &[0x4d, 0x89, 0xf7];
    const MOV_STACK_R15: &[u8] = &[0x4c, 0x89, 0x7c, 0x24, 0x08];
    const MOV_RDI_STACK: &[u8] = &[0x48, 0x8b, 0x7c, 0x24, 0x10];
    const RET: &[u8] = &[0xc3];

    /// Instructions; those with a target have it as their last four bytes, from their end.
    fn code(instructions: &[(&[u8], u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(opcode, target) in instructions {
            bytes.extend(opcode);
            if target > 0 {
                let end = BASE + bytes.len() as u64 + 4;
                bytes.extend((target.wrapping_sub(end) as u32).to_le_bytes());
            }
        }
        bytes
    }

    /// How many functions each exit may pass to its hook.
    fn ends(instructions: &[(&[u8], u64)]) -> Vec<usize> {
        let bytes = code(instructions);
        let mut flow = Flow::default();
        for instruction in &mut Decoder::with_ip(64, &bytes, BASE, DecoderOptions::NONE) {
            let is_exit = instruction.is_call_near() && instruction.near_branch_target() == HOOK;
            let loads = instruction.code() == Code::Lea_r64_m;
            let loaded = loads.then(|| {
                (number(instruction.op0_register()).unwrap(), instruction.ip_rel_memory_address())
            });
            flow.pass(&instruction, loaded, is_exit);
        }
        let mut told = Vec::new();
        flow.visit_ends(|_, held| {
            let is_known = |function: &CodeAddr| [FIND, INSERT].contains(&(function.get() as u64));
            assert!(held.iter().all(is_known));
            told.push(held.len());
        });
        told
    }

    #[test]
    fn ways_that_meet_before_an_exit_share_it() {
        // Seven bytes on: the first instruction.
        let meet = BASE + 7;
        let ways = [
            (LEA_R15, FIND),
            (MOV_RDI_R15, 0),
            (CALL, HOOK),
            (LEA_R14, INSERT),
            (MOV_R15_R14, 0),
            (JMP, meet),
        ];
        assert_eq!(ends(&ways), [2]);
    }

    #[test]
    fn an_argument_that_another_way_brings_along_counts() {
        let meet = BASE + 7 + 6 + 7;
        assert_eq!(ends(&[(LEA_RDI, FIND), (JNE, meet), (LEA_RDI, INSERT), (CALL, HOOK)]), [2]);
    }

    #[test]
    fn what_lies_on_the_stack_may_be_all_that_was_put_there() {
        let ways = [
            (LEA_R15, FIND),
            (MOV_STACK_R15, 0),
            (LEA_R15, INSERT),
            (MOV_STACK_R15, 0),
            (MOV_RDI_STACK, 0),
            (CALL, HOOK),
        ];
        assert_eq!(ends(&ways), [2]);
    }

    #[test]
    fn functions_that_follow_each_other_share_nothing() {
        let one = |function| [(LEA_R15, function), (MOV_RDI_R15, 0), (CALL, HOOK)];
        assert_eq!(ends(&[one(FIND), one(INSERT)].concat()), [1, 1]);
    }

    #[test]
    fn an_exit_behind_a_return_is_of_the_function_that_the_way_to_it_brings_along() {
        let behind = BASE + 7 + 6 + 7 + 1;
        let ways = [
            (LEA_R15, FIND),
            (JNE, behind),
            (LEA_R15, INSERT),
            (RET, 0),
            (MOV_RDI_R15, 0),
            (CALL, HOOK),
        ];
        assert_eq!(ends(&ways), [1]);
    }

    #[test]
    fn a_handler_of_exceptions_finds_what_registers_held_at_calls() {
        let ways = [
            (LEA_R15, FIND),
            (CALL, 0x7000),
            (LEA_R15, INSERT),
            (CALL, 0x7000),
            (RET, 0),
            (MOV_RDI_R15, 0),
            (CALL, HOOK),
        ];
        assert_eq!(ends(&ways), [2]);
    }
}
