//! One function, decoded.

use super::{Frames, Refusal, Text, Untimed};
use callpatch::x86::Movable;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use std::collections::HashSet;
use std::ops::Range;
use wordpatch::CodeAddr;

/// The most bytes of a probed function: a longer one would take long to decode.
const LARGEST: u64 = 1 << 20;

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'b> {
    pub(crate) at: CodeAddr,
    pub(crate) bytes: &'b [u8],
    /// How it is moved into a trampoline; `None` if it cannot be.
    pub(crate) movable: Option<Movable<'b>>,
    pub(crate) flow: Flow,
    /// By how much it lowers the stack pointer; `None` if unknown.
    pub(crate) lowers: Option<i64>,
    /// It accesses memory that may fault.
    pub(crate) may_fault: bool,
}

impl Line<'_> {
    /// Whether it is a `ret`.
    pub(crate) fn is_return(&self) -> bool {
        matches!(self.bytes, [0xc3] | [0xf2 | 0xf3, 0xc3] | [0xc2, ..])
    }

    /// Whether it is `mov rbp, rsp`, in either encoding.
    fn makes_frame(&self) -> bool {
        matches!(self.bytes, [0x48, 0x89, 0xe5] | [0x48, 0x8b, 0xec])
    }

    pub(crate) fn end(&self) -> CodeAddr {
        self.at.offset(self.bytes.len() as isize)
    }
}

/// Where execution continues after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// At the next one.
    Next,
    /// At the next one, or at another one in the function; or, after a call, at the next one.
    Around,
    /// At another one in the function.
    Jump,
    /// The function is left.
    Exit,
    /// The function is left, or execution continues at the next one.
    Perhaps,
    /// Nowhere.
    Stop,
}

/// A function: its range, and the parts that were split off it.
#[derive(Debug)]
pub(crate) struct Body<'b> {
    pub(crate) parts: Vec<Vec<Line<'b>>>,
    /// The targets of its jumps.
    pub(crate) targets: HashSet<CodeAddr>,
    /// Why it cannot be timed, if it cannot.
    pub(crate) untimed: Option<Untimed>,
}

/// Decodes a module's functions. Addresses are those in memory: those of the file plus `bias`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'r, 'b> {
    pub(crate) text: Text<'b>,
    pub(crate) frames: &'r Frames<'b>,
    pub(crate) bias: usize,
    /// Sections that hold no functions, in addresses of the file.
    pub(crate) others: &'r [Range<u64>],
}

impl<'b> Reader<'_, 'b> {
    /// The range of a function, or of a part, that holds an address.
    pub(crate) fn range_of(&self, at: CodeAddr) -> Option<Range<CodeAddr>> {
        let address = at.get().checked_sub(self.bias)? as u64;
        if self.others.iter().any(|range| range.contains(&address)) {
            return None;
        }
        let range = self.frames.range_of(address)?;
        let [start, end] =
            [range.start, range.end].map(|at| CodeAddr::new(at as usize + self.bias));
        (range.end - range.start <= LARGEST && start < end).then_some(start..end)
    }

    /// Whether a function begins there, and no part of one.
    fn is_entry(&self, at: CodeAddr) -> bool {
        self.frames.is_entry((at.get() - self.bias) as u64)
    }

    fn is_bare(&self, at: CodeAddr) -> bool {
        self.frames.is_bare((at.get() - self.bias) as u64)
    }

    /// Decodes the function that begins at an address.
    pub(crate) fn body(&self, start: CodeAddr) -> Result<Body<'b>, Refusal> {
        let range = self.range_of(start).filter(|range| range.start == start);
        let range = range.filter(|_| self.is_entry(start)).ok_or(Refusal::NoFunction)?;
        let mut body = Body { parts: Vec::new(), targets: HashSet::new(), untimed: None };
        let mut known = vec![range];
        while let Some(range) = known.get(body.parts.len()).cloned() {
            let part = self.part(&range, &mut known, &mut body)?;
            body.parts.push(part);
        }
        Ok(body)
    }

    /// Decodes the function around an address. If none is known, or it does not decode, this
    /// decodes the instructions from there on, as many as may be displaced.
    pub(crate) fn around(&self, at: CodeAddr) -> Result<Body<'b>, Refusal> {
        const FEW: usize = 32;
        let range = self.range_of(at);
        if let Some(range) = &range
            && let Ok(body) = self.body(range.start)
            && body.parts.iter().flatten().any(|line| line.at == at)
        {
            return Ok(body);
        }
        let code = self.text.from(at).ok_or(Refusal::NoFunction)?;
        let len = range.map_or(FEW, |range| (range.end.distance_from(at) as usize).min(FEW));
        let code = &code[..len.min(code.len())];
        let mut decoder = Decoder::with_ip(64, code, at.get() as u64, DecoderOptions::NONE);
        let mut end = 0;
        while decoder.can_decode() && !decoder.decode().is_invalid() {
            end = decoder.position();
        }
        let mut body = Body { parts: Vec::new(), targets: HashSet::new(), untimed: None };
        let range = at..at.offset(end as isize);
        let part = self.part(&range, &mut vec![range.clone()], &mut body)?;
        body.parts.push(part);
        Ok(body)
    }

    /// Decodes a range, and adds the parts that it leads to.
    fn part(
        &self,
        range: &Range<CodeAddr>,
        known: &mut Vec<Range<CodeAddr>>,
        body: &mut Body<'b>,
    ) -> Result<Vec<Line<'b>>, Refusal> {
        let len = range.end.distance_from(range.start) as usize;
        let code = self.text.from(range.start).and_then(|code| code.get(..len));
        let code = code.ok_or(Refusal::NoFunction)?;
        let mut decoder =
            Decoder::with_ip(64, code, range.start.get() as u64, DecoderOptions::NONE);
        let mut lines = Vec::new();
        let mut has_frame = body.parts.iter().flatten().any(Line::makes_frame);
        while decoder.can_decode() {
            let start = decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(Refusal::Undecodable);
            }
            let bytes = &code[start..decoder.position()];
            let displacement = decoder.get_constant_offsets(&instruction).displacement_offset();
            let flow = self.flow(&instruction, &lines, known, body);
            lines.push(Line {
                at: CodeAddr::new(instruction.ip() as usize),
                bytes,
                movable: movable(&instruction, bytes, displacement),
                flow,
                lowers: lowers(&instruction),
                may_fault: may_fault(&instruction, has_frame),
            });
            has_frame |= lines.last().is_some_and(Line::makes_frame);
        }
        Ok(lines)
    }

    fn flow(
        &self,
        instruction: &Instruction,
        before: &[Line<'_>],
        known: &mut Vec<Range<CodeAddr>>,
        body: &mut Body<'_>,
    ) -> Flow {
        match instruction.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::XbeginXabortXend => {
                Flow::Around
            }
            FlowControl::Return => Flow::Exit,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Stop,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let to = CodeAddr::new(instruction.near_branch_target() as usize);
                body.targets.insert(to);
                let always = instruction.flow_control() == FlowControl::UnconditionalBranch;
                let stays = self.stays(to, known) || !always && self.comes_back(to, known);
                match (always, stays) {
                    (true, true) => Flow::Jump,
                    (true, false) => Flow::Exit,
                    (false, true) => Flow::Around,
                    (false, false) => Flow::Perhaps,
                }
            }
            FlowControl::IndirectBranch => {
                let at = CodeAddr::new(instruction.ip() as usize);
                match (self.is_bare(at), is_table_jump(instruction, before)) {
                    (_, true) => Flow::Jump,
                    (true, false) => Flow::Exit,
                    (false, false) => {
                        body.untimed.get_or_insert(Untimed::UnknownJump);
                        Flow::Jump
                    }
                }
            }
        }
    }

    /// Whether a jump leads into the function, or into a part of it: such a part becomes known.
    fn stays(&self, to: CodeAddr, known: &mut Vec<Range<CodeAddr>>) -> bool {
        if known.iter().any(|range| range.contains(&to)) {
            return true;
        }
        // If another function begins there, the jump is a call of that function.
        let part = self.range_of(to).filter(|range| !self.is_entry(range.start));
        part.map(|range| known.push(range)).is_some()
    }

    /// Whether a conditional jump leads to a part that looks like a function, because the stack is
    /// empty there: such a part jumps back. It becomes known.
    fn comes_back(&self, to: CodeAddr, known: &mut Vec<Range<CodeAddr>>) -> bool {
        let Some(part) = self.range_of(to).filter(|part| part.start == to) else { return false };
        let len = part.end.distance_from(part.start) as usize;
        let Some(code) = self.text.from(to).and_then(|code| code.get(..len)) else { return false };
        let is_inside = |at: CodeAddr| {
            known.iter().any(|range| range.contains(&at)) && known.iter().all(|r| r.start != at)
        };
        let mut decoder = Decoder::with_ip(64, code, to.get() as u64, DecoderOptions::NONE);
        let comes_back = decoder.iter().any(|instruction| {
            let is_jump = matches!(
                instruction.flow_control(),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
            );
            is_jump && is_inside(CodeAddr::new(instruction.near_branch_target() as usize))
        });
        if comes_back {
            known.push(part);
        }
        comes_back
    }
}

fn movable<'b>(
    instruction: &Instruction,
    bytes: &'b [u8],
    displacement: usize,
) -> Option<Movable<'b>> {
    let to = CodeAddr::new(instruction.near_branch_target() as usize);
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::IndirectBranch | FlowControl::Return => {
            if matches!(instruction.mnemonic(), Mnemonic::Endbr64) {
                return None;
            }
            match instruction.is_ip_rel_memory_operand() {
                true => Some(Movable::Relative { bytes, at: displacement }),
                false => Some(Movable::Anywhere(bytes)),
            }
        }
        FlowControl::UnconditionalBranch => Some(Movable::Jump { to }),
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            // The decoder's conditions begin behind `None`, in the processor's order.
            Some(Movable::Branch { condition: instruction.condition_code() as u8 - 1, to })
        }
        _ => None,
    }
}

/// By how much an instruction lowers the stack pointer.
fn lowers(instruction: &Instruction) -> Option<i64> {
    match instruction.code() {
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32
            if instruction.op0_register() == Register::RSP =>
        {
            i64::try_from(instruction.immediate(1)).ok()
        }
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32
            if instruction.op0_register() == Register::RSP =>
        {
            i64::try_from(instruction.immediate(1)).ok().map(|by| -by)
        }
        _ if instruction.is_stack_instruction() => {
            Some(-i64::from(instruction.stack_pointer_increment()))
                .filter(|_| instruction.mnemonic() != Mnemonic::Leave)
        }
        _ => {
            let changes = (0..instruction.op_count()).any(|operand| {
                instruction.op_kind(operand) == OpKind::Register
                    && instruction.op_register(operand).full_register() == Register::RSP
            });
            // `mov rbp, rsp` reads it. No other such instruction is common.
            let reads = instruction.mnemonic() == Mnemonic::Mov
                && instruction.op0_register() != Register::RSP;
            (!changes || reads).then_some(0)
        }
    }
}

/// Whether an instruction may fault: it accesses memory other than the stack and the module's own,
/// or divides. Where a function has a frame, its pointer is the stack's, too.
fn may_fault(instruction: &Instruction, has_frame: bool) -> bool {
    let accesses = (0..instruction.op_count())
        .any(|operand| instruction.op_kind(operand) == OpKind::Memory)
        && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let is_stack = match instruction.memory_base() {
        Register::RSP => true,
        Register::RBP => has_frame,
        _ => false,
    } && instruction.memory_index() == Register::None;
    let is_string = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::MemoryESDI
                | OpKind::MemoryESEDI
                | OpKind::MemoryESRDI
                | OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemorySegRDI
        )
    });
    let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    (accesses && !is_stack && !instruction.is_ip_rel_memory_operand()) || is_string || divides
}

/// Whether an indirect jump uses a table: its operand is scaled, or an address was computed a few
/// instructions before.
fn is_table_jump(instruction: &Instruction, before: &[Line<'_>]) -> bool {
    const NEAR: usize = 12;
    let is_scaled =
        instruction.op0_kind() == OpKind::Memory && instruction.memory_index_scale() == 8;
    // `movsxd r64, dword [table + index*4]`.
    let loads_entry =
        |line: &Line<'_>| matches!(*line.bytes, [rex, 0x63, ..] if rex & 0xf8 == 0x48);
    is_scaled || before.iter().rev().take(NEAR).any(loads_entry)
}
