//! Patchable sites: five bytes before an instruction that do nothing, or, with another first byte,
//! call a stub.
//!
//! ```text
//!     A9 imm32    test eax, imm32    off
//!     E8 rel32    call               on
//! ```
//!
//! For the code generator a site is a call without arguments that changes no register, so that
//! nothing moves because of it. Flags are dead at a call. The called code has no access to the
//! program's values: a site only serves counters and flags.
//!
//! Instructions that are always executed together share a site, before the first of them: those
//! between which nothing traps, calls or branches. This is determined from the instructions that
//! they were translated to, so that code of hooks between them is considered, too.

use super::access::Access;
use super::function::Translator;
use super::osr_exit::OFF;
use super::target::Sites;
use callpatch::x86::Form;
use cranelift_codegen::MachBufferFinalized;
use cranelift_codegen::ir::{
    Block, DebugTag, ExtFuncData, ExternalName, FuncRef, Function, Inst, InstBuilder, MemFlagsData,
    Signature, UserExternalName,
};
use cranelift_codegen::isa::CallConv;
use wasmparser::Operator;

/// The first byte of a site that is on: `call rel32`.
pub(crate) const CALL: u8 = Form::Call.on();
/// The length of a site.
pub(crate) const LENGTH: u32 = Form::Call.len() as u32;
/// The name space of the placeholder callee of sites.
pub(super) const PLACEHOLDER_CALLEE: u32 = 2;

/// An instruction that has a patchable site. Those that share one are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PatchableSite {
    /// Where the site is in the code.
    pub at: u32,
    /// Where the instruction is in the module.
    pub offset: u32,
}

impl PatchableSite {
    /// The same in code that begins at `start`.
    pub(super) fn moved(self, start: u32) -> Self {
        Self { at: start + self.at, ..self }
    }
}

impl Sites {
    /// Whether there is a patchable site before an instruction.
    pub(crate) fn have_site_before(self, op: &Operator<'_>) -> bool {
        let is_of =
            |class: Self, belongs: fn(&Operator<'_>) -> bool| self.contains(class) && belongs(op);
        self.contains(Self::EVERYTHING)
            || is_of(Self::CALL, is_call)
            || is_of(Self::BRANCH, is_branch)
            || is_of(Self::ACCESS, |op| Access::of(op).is_some() || is_bulk(op))
    }
}

pub(super) fn is_call(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::Call { .. }
            | Operator::CallIndirect { .. }
            | Operator::CallRef { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. }
    )
}

pub(super) fn is_branch(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::If { .. }
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
            | Operator::BrOnCast { .. }
            | Operator::BrOnCastFail { .. }
    )
}

pub(super) fn is_bulk(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } | Operator::MemoryInit { .. }
    )
}

/// The instructions of a function that have sites, in the order in which they were translated.
#[derive(Debug, Default)]
pub(super) struct SharedSites {
    offsets: Vec<u32>,
    /// The first instruction of each site.
    firsts: Vec<u32>,
    /// The block that execution reaches after the last site, and the last instruction in it that
    /// was checked not to leave.
    last: Option<(Block, Option<Inst>)>,
}

impl SharedSites {
    /// Whether a thread that passes the last site also gets here, to the end of this block.
    fn goes_on(&mut self, func: &Function, here: Option<Block>) -> bool {
        let Some((block, seen)) = self.last.filter(|(block, _)| here == Some(*block)) else {
            return false;
        };
        let next =
            seen.map_or_else(|| func.layout.first_inst(block), |seen| func.layout.next_inst(seen));
        let mut later = std::iter::successors(next, |inst| func.layout.next_inst(*inst));
        if later.any(|inst| may_leave(func, inst)) {
            return false;
        }
        self.last = Some((block, func.layout.last_inst(block)));
        true
    }

    /// The instructions of a site.
    fn of(&self, site: usize) -> &[u32] {
        let end = self.firsts.get(site + 1).map_or(self.offsets.len(), |next| *next as usize);
        &self.offsets[self.firsts[site] as usize..end]
    }
}

/// Whether the code after an instruction may be executed more or less often than the code before
/// it.
fn may_leave(func: &Function, inst: Inst) -> bool {
    let (data, opcode) = (func.dfg.insts[inst], func.dfg.insts[inst].opcode());
    let accesses = opcode.can_load() || opcode.can_store();
    opcode.is_call()
        || opcode.is_terminator()
        || opcode.is_branch()
        || opcode.can_trap()
        || opcode.other_side_effects()
        || (accesses && !data.memflags_data(&func.dfg).is_some_and(MemFlagsData::notrap))
}

impl Translator<'_> {
    /// Assigns a site to the present instruction: that of the instructions before, or a new one.
    pub(super) fn patchable_site(&mut self) {
        if self.is_nested() {
            return;
        }
        if !self.is_together() {
            let callee = self.placeholder_callee();
            let call = self.builder.ins().call(callee, &[]);
            self.builder
                .func
                .debug_tags
                .set(call, [DebugTag::User(self.shared_sites.firsts.len() as u32)]);
            self.shared_sites.firsts.push(self.shared_sites.offsets.len() as u32);
            self.shared_sites.last = self.builder.current_block().map(|block| (block, Some(call)));
        }
        self.shared_sites.offsets.push(self.offset as u32);
    }

    /// Whether the instructions of the last site continue here.
    pub(super) fn is_together(&mut self) -> bool {
        self.shared_sites.goes_on(self.builder.func, self.builder.current_block())
    }

    /// Records that they continue in a block that has no other predecessor.
    pub(super) fn go_on_together(&mut self, block: Block) {
        self.shared_sites.last = Some((block, None));
    }

    /// The placeholder callee of sites.
    pub(super) fn placeholder_callee(&mut self) -> FuncRef {
        if let Some(known) = self.placeholder_callee {
            return known;
        }
        let signature = self.builder.import_signature(Signature::new(CallConv::PreserveAll));
        let name = self
            .builder
            .func
            .declare_imported_user_function(UserExternalName::new(PLACEHOLDER_CALLEE, 0));
        let data = ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: true,
            patchable: true,
        };
        *self.placeholder_callee.insert(self.builder.import_function(data))
    }
}

/// Finds the sites in finished code, and makes them: off, and without a callee.
pub(super) fn make_patchable_sites(
    code: &mut [u8],
    buffer: &MachBufferFinalized<cranelift_codegen::Final>,
    shared_sites: &SharedSites,
) -> Vec<PatchableSite> {
    let mut instructions = Vec::new();
    for tags in buffer.debug_tags() {
        let [DebugTag::User(site)] = tags.tags else { continue };
        let at = tags.offset - LENGTH;
        code[at as usize] = OFF;
        code[at as usize + 1..tags.offset as usize].fill(0);
        instructions.extend(
            shared_sites
                .of(*site as usize)
                .iter()
                .map(|offset| PatchableSite { at, offset: *offset }),
        );
    }
    instructions.sort_by_key(|site| site.at);
    instructions
}
