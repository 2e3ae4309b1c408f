//! The walk: decoding a function from its beginning, which proves its sites.
//!
//! On the way it tracks registers that were loaded with an address, and so predicts which function
//! a site passes to its hook. This is only a prediction, since another path may lead to the site
//! with another value; hooks compare it with their argument.

use super::flow::{Flow, number};
use super::image::Code as Segment;
use super::scan::Candidate;
use super::{Discovery, FoundSite, site};
use crate::heap;
use crate::probe::Kind;
use callpatch::x86::Transfer;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use std::ops::Range;
use std::sync::Once;
use wordpatch::CodeAddr;

/// The longest function: it bounds a walk where the next start is unknown.
const LONGEST: usize = 4 << 20;

/// Where the function begins that an address lies in.
pub(super) fn start_of(starts: &[u64], address: CodeAddr, bias: usize) -> CodeAddr {
    let at = address.get().wrapping_sub(bias) as u64;
    let before = starts.partition_point(|&start| start <= at);
    let start = before.checked_sub(1).map_or(at, |last| starts[last]);
    CodeAddr::new(bias.wrapping_add(start as usize))
}

/// Where the next one begins.
pub(super) fn end_of(starts: &[u64], address: CodeAddr, bias: usize) -> CodeAddr {
    let at = address.get().wrapping_sub(bias) as u64;
    let end = starts.get(starts.partition_point(|&start| start <= at)).copied();
    end.map_or(CodeAddr::new(usize::MAX), |end| CodeAddr::new(bias.wrapping_add(end as usize)))
}

/// Where functions begin, as the file says, and how far away it was loaded.
pub(super) struct Starts<'s> {
    pub(super) sorted: &'s [u64],
    pub(super) bias: usize,
}

impl Starts<'_> {
    /// Whether one begins there.
    fn has(&self, address: u64) -> bool {
        self.sorted.binary_search(&address.wrapping_sub(self.bias as u64)).is_ok()
    }
}

/// A decoder for a whole segment: to make one takes longer than to decode a small function.
pub(super) struct Walker<'b> {
    span: Range<CodeAddr>,
    decoder: Decoder<'b>,
    flow: Flow,
}

impl<'b> Walker<'b> {
    pub(super) fn new(segment: &Segment<'b>, bias: usize) -> Self {
        let start = CodeAddr::new(bias.wrapping_add(segment.address as usize));
        static TABLES: Once = Once::new();
        // The first decoder makes tables of thousands of blocks.
        TABLES.call_once(|| {
            heap::for_good(|| Decoder::new(64, &[], DecoderOptions::NONE));
        });
        let decoder = Decoder::with_ip(64, segment.bytes, start.get() as u64, DecoderOptions::NONE);
        Self {
            span: start..start.offset(segment.bytes.len() as isize),
            decoder,
            flow: Flow::default(),
        }
    }

    pub(super) fn reaches(&self, address: CodeAddr) -> bool {
        self.span.contains(&address)
    }

    /// Proves the candidates of a function whose beginning it reaches. Addresses of functions are
    /// distinguished from those of data by the list of function starts.
    pub(super) fn prove(
        &mut self,
        code: Range<CodeAddr>,
        candidates: &[Candidate],
        starts: &Starts<'_>,
        found: &mut Discovery,
    ) {
        let start = code.start;
        let offset = start.distance_from(self.span.start) as usize;
        if self.decoder.set_position(offset).is_ok() {
            self.decoder.set_ip(start.get() as u64);
            self.flow.clear();
            let first = found.sites.len();
            prove(&mut self.decoder, code, candidates, (starts, &mut self.flow), found);
            self.flow.visit_ends(|exit, functions| match functions {
                [function] => predict(&mut found.sites[first..], exit, *function),
                _ => found.shared.push((exit, functions.into())),
            });
        }
    }
}

fn prove(
    decoder: &mut Decoder<'_>,
    Range { start, end }: Range<CodeAddr>,
    candidates: &[Candidate],
    (starts, flow): (&Starts<'_>, &mut Flow),
    found: &mut Discovery,
) {
    let mut registers = Registers::default();
    let mut open = candidates.iter().peekable();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = CodeAddr::new(decoder.ip() as usize);
        if at.distance_from(start) as usize > LONGEST {
            break;
        }
        // Decoding has passed it: it is part of another instruction.
        while let Some(passed) = open.next_if(|candidate| candidate.address < at) {
            found.refused.push(passed.address);
        }
        // After the last site there may be jumps back to one that several paths share.
        if open.peek().is_none() && (at >= end || !flow.may_share()) {
            return;
        }
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            break;
        }
        let site = open.next_if(|candidate| candidate.address == at);
        if let Some(candidate) = site {
            accept(candidate, &registers, start, found);
        }
        let is_exit = site.is_some_and(|candidate| candidate.kind == Kind::Exit);
        let function = registers.pass(&instruction).filter(|&(_, address)| starts.has(address));
        flow.pass(&instruction, function, is_exit);
    }
    found.refused.extend(open.map(|candidate| candidate.address));
}

/// The walk in the order of addresses has lost what the exit's register holds; the flow has not.
fn predict(sites: &mut [FoundSite], exit: CodeAddr, function: CodeAddr) {
    if let Ok(at) = sites.binary_search_by_key(&exit, |site| site.address) {
        sites[at].function.get_or_insert(function);
    }
}

fn accept(candidate: &Candidate, registers: &Registers, start: CodeAddr, found: &mut Discovery) {
    if let Transfer::Conditional(jump) = candidate.transfer {
        found.conditional.push(jump);
    }
    found.sites.extend(site(candidate, registers.argument(), start));
}

/// The contents of registers, as far as they are addresses that the function has loaded.
#[derive(Default)]
struct Registers {
    held: [Option<u64>; 16],
}

const RDI: usize = 7;

impl Registers {
    /// The hook's argument.
    fn argument(&self) -> Option<CodeAddr> {
        self.held[RDI].map(|address| CodeAddr::new(address as usize))
    }

    /// Tracks an instruction; returns the address that it loads itself.
    fn pass(&mut self, instruction: &Instruction) -> Option<(usize, u64)> {
        let loaded = self.loaded(instruction);
        match instruction.flow_control() {
            // Behind those that end a way, what comes next is reached from elsewhere: what callers'
            // registers hold since the beginning is all that stays.
            FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch => {
                self.forget_called();
                return None;
            }
            _ => {}
        }
        // What an instruction writes is its first operand, or nothing that an address is loaded
        // into.
        if instruction.op0_kind() == OpKind::Register
            && let Some(number) = number(instruction.op0_register())
        {
            self.held[number] = None;
        }
        if let Some((number, address)) = loaded {
            self.held[number] = Some(address);
        }
        loaded.filter(|_| !matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64))
    }

    /// The address that an instruction loads into a register.
    fn loaded(&self, instruction: &Instruction) -> Option<(usize, u64)> {
        let to = number(instruction.op0_register())?;
        match instruction.code() {
            Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                Some((to, instruction.ip_rel_memory_address()))
            }
            Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32
                if instruction.op1_kind() != OpKind::Register =>
            {
                Some((to, instruction.immediate(1)))
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if instruction.op1_kind() == OpKind::Register =>
            {
                Some((to, self.held[number(instruction.op1_register())?]?))
            }
            _ => None,
        }
    }

    /// A call may change rax, rcx, rdx, rsi, rdi and r8 to r11.
    fn forget_called(&mut self) {
        for number in [0, 1, 2, 6, 7, 8, 9, 10, 11] {
            self.held[number] = None;
        }
    }
}
