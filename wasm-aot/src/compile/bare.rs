//! Bare sites: before an instruction, five bytes that do nothing, or, by their first byte, call whatever they were told to call.
//!
//! ```text
//!     A9 imm32    test eax, imm32    off
//!     E8 rel32    call               on
//! ```
//!
//! For the code generator a site is a call without arguments that changes no register, so that nothing moves because of it. Flags are dead at a call. Whoever
//! is called there sees nothing of the program's values: a counter, or a flag, is all that such a place is for.

use super::access::Access;
use super::crossing::OFF;
use super::function::Translator;
use super::target::Sites;
use cranelift_codegen::MachBufferFinalized;
use cranelift_codegen::ir::{DebugTag, ExtFuncData, ExternalName, FuncRef, InstBuilder, Signature, UserExternalName};
use cranelift_codegen::isa::CallConv;
use wasmparser::Operator;

/// The first byte of a site that is on: `call rel32`.
pub(crate) const CALL: u8 = 0xE8;
/// How long a site is.
pub(crate) const LENGTH: u32 = 5;
/// The space of names of what sites call.
pub(super) const NOBODY: u32 = 2;

/// A bare site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Bare {
    /// Where it is in the code.
    pub(crate) at: u32,
    /// Where the instruction is in the module that it stands before.
    pub(crate) offset: u32,
}

impl Bare {
    /// The same in code that begins at `start`.
    pub(super) fn moved(self, start: u32) -> Self {
        Self { at: start + self.at, ..self }
    }
}

impl Sites {
    /// Whether there is a bare site before an instruction.
    pub(crate) fn stand_before(self, op: &Operator<'_>) -> bool {
        let is_of = |class: Self, belongs: fn(&Operator<'_>) -> bool| self.contains(class) && belongs(op);
        self.contains(Self::EVERYTHING)
            || is_of(Self::CALL, is_call)
            || is_of(Self::BRANCH, is_branch)
            || is_of(Self::ACCESS, |op| Access::of(op).is_some() || is_bulk(op))
    }
}

fn is_call(op: &Operator<'_>) -> bool {
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

fn is_branch(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::If { .. }
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
    )
}

fn is_bulk(op: &Operator<'_>) -> bool {
    matches!(op, Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } | Operator::MemoryInit { .. })
}

impl Translator<'_> {
    /// Leaves a site at the present instruction.
    pub(super) fn bare_site(&mut self) {
        if self.is_nested() {
            return;
        }
        let callee = self.nobody();
        let call = self.builder.ins().call(callee, &[]);
        self.builder.func.debug_tags.set(call, [DebugTag::User(self.offset as u32)]);
    }

    /// Whom sites would call.
    pub(super) fn nobody(&mut self) -> FuncRef {
        if let Some(known) = self.nobody {
            return known;
        }
        let signature = self.builder.import_signature(Signature::new(CallConv::PreserveAll));
        let name = self.builder.func.declare_imported_user_function(UserExternalName::new(NOBODY, 0));
        let data = ExtFuncData { name: ExternalName::user(name), signature, colocated: true, patchable: true };
        *self.nobody.insert(self.builder.import_function(data))
    }
}

/// Makes sites of what was left in code: off, and calling nobody.
pub(super) fn make(code: &mut [u8], buffer: &MachBufferFinalized<cranelift_codegen::Final>) -> Vec<Bare> {
    let mut sites = Vec::new();
    for tags in buffer.debug_tags() {
        let [DebugTag::User(offset)] = tags.tags else { continue };
        let at = tags.offset - LENGTH;
        code[at as usize] = OFF;
        code[at as usize + 1..tags.offset as usize].fill(0);
        sites.push(Bare { at, offset: *offset });
    }
    sites.sort_unstable_by_key(|site| site.at);
    sites
}
