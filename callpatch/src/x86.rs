//! The instructions that this crate writes, and those that it must recognise.
//!
//! A site is one instruction that transfers control to a hook. Switching it replaces one byte of
//! it, so that an instruction of the same length remains that does nothing or returns:
//!
//! ```text
//!   form          on                     off, by role
//!   Call          E8  d0 d1 d2 d3        A9  d0 d1 d2 d3       test eax, imm32            Call
//!                 E8  1F 44 d2 d3        0F  1F 44 d2 d3       nop [...]                  Call
//!   PrefixedCall  67 E8  d0 d1 d2 d3     67 A9  d0 d1 d2 d3    test eax, imm32            Call
//!                 67 E8  1F 44 d2 d3     67 0F  1F 44 d2 d3    nop [...]                  Call
//!   CallMemory    FF 15  d0 d1 d2 d3     85 15  d0 d1 d2 d3    test [rip + d], edx        Call
//!   Jump          E9  d0 d1 d2 d3        C3                    ret                        TailJump
//!                                        A9  d0 d1 d2 d3       test eax, imm32            Detour
//!                                        whatever was there                               Pun
//!                 3E E9  d0 d1 d2 d3     whatever was there, by its first two bytes       Pun
//!                 E9  d0 d1 d2 e3        E9  d0 d1 d2 d3       the jump that was there    Pun, by its end
//!   JumpMemory    FF 25  d0 d1 d2 d3     C3                    ret                        TailJump
//!                                        85 25  d0 d1 d2 d3    test [rip + d], esp        Detour
//! ```
//!
//! `test` reads a register, or a slot that is readable anyway, and changes nothing but flags
//! (assumption A5), and uses an execution slot; where the displacement begins with `1F 44` a nop
//! can remain, which uses none. A linker turns `FF 15` into `67 E8` when it finds that the callee
//! is near; it turns `FF 25` into `E9 rel32 90`, which is a `Jump` and a nop (x86-64 psABI,
//! "Optimize GOTPCRELX Relocations"). A conditional jump has no such byte and can only be
//! recognised.
//!
//! There is no unsafe code here. The tests compare every byte with an independent decoder.

use wordpatch::CodeAddr;

pub mod keeping;
mod moved;
#[cfg(test)]
mod oracle;
pub mod stubs;

pub use moved::Movable;

/// An instruction that transfers control and can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `E8 rel32`: call.
    Call,
    /// `67 E8 rel32`: call, with a prefix that has no effect.
    PrefixedCall,
    /// `FF 15 disp32`: call through a slot.
    CallMemory,
    /// `E9 rel32`: jump.
    Jump,
    /// `FF 25 disp32`: jump through a slot.
    JumpMemory,
}

/// The purpose of a site, which decides its off state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A call. When it is off, execution continues after it.
    Call,
    /// A jump that ends its function; the hook returns to the caller. When it is off, the function
    /// returns.
    TailJump,
    /// A jump out of line, where flags are dead. When it is off, execution continues after it.
    Detour,
    /// A jump whose first byte replaces an instruction's first byte, and whose displacement is the
    /// bytes that follow there anyway (instruction punning: Chamith, Svensson, Dalessandro and
    /// Newton, PLDI 2017). A prefix and the opcode, or a whole jump, may also be replaced, as far
    /// as the instruction reaches. When it is off, it is that instruction.
    ///
    /// Or a jump whose last displacement byte is replaced, so that it leads elsewhere. When it is
    /// off, it is the original jump.
    Pun,
}

/// One of the two states of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Switch {
    /// The hook is not reached.
    Off,
    /// The hook is called, or jumped to.
    On,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 5] =
        [Self::Call, Self::PrefixedCall, Self::CallMemory, Self::Jump, Self::JumpMemory];

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "an instruction is never empty")]
    pub const fn len(self) -> usize {
        self.displacement_at() + 4
    }

    /// The offset of its displacement.
    pub const fn displacement_at(self) -> usize {
        match self {
            Self::Call | Self::Jump => 1,
            Self::PrefixedCall | Self::CallMemory | Self::JumpMemory => 2,
        }
    }

    /// The offset of its switching byte.
    pub const fn switch_at(self) -> usize {
        match self {
            Self::PrefixedCall => 1,
            Self::Call | Self::CallMemory | Self::Jump | Self::JumpMemory => 0,
        }
    }

    /// Whether the displacement leads to a slot that holds the target's address, rather than to the
    /// target.
    pub const fn is_through_memory(self) -> bool {
        matches!(self, Self::CallMemory | Self::JumpMemory)
    }

    /// The switching byte of a site that is on.
    pub const fn on(self) -> u8 {
        match self {
            Self::Call | Self::PrefixedCall => 0xe8,
            Self::CallMemory | Self::JumpMemory => 0xff,
            Self::Jump => 0xe9,
        }
    }

    /// The switching byte of a site that is off, whatever its displacement is; `None` if the form
    /// has no such role, or the off byte is that of the program's instruction.
    pub const fn off(self, role: Role) -> Option<u8> {
        match (self, role) {
            (Self::Call | Self::PrefixedCall, Role::Call) | (Self::Jump, Role::Detour) => {
                Some(0xa9)
            }
            (Self::CallMemory, Role::Call) | (Self::JumpMemory, Role::Detour) => Some(0x85),
            (Self::Jump | Self::JumpMemory, Role::TailJump) => Some(0xc3),
            (Self::Call | Self::PrefixedCall | Self::CallMemory, Role::TailJump | Role::Detour)
            | (Self::Jump | Self::JumpMemory, Role::Call)
            | (_, Role::Pun) => None,
        }
    }

    /// The switching byte of a site that is off and has this displacement: that of a nop if the
    /// displacement allows one. It is valid with this displacement only, and not while another is
    /// written.
    pub const fn idle(self, role: Role, displacement: i32) -> Option<u8> {
        match (self, role) {
            (Self::Call | Self::PrefixedCall, Role::Call) if is_nop(displacement) => Some(NOP5[0]),
            _ => self.off(role),
        }
    }

    /// Whether the off state reads memory through its displacement, so that a half-written
    /// displacement would matter.
    pub const fn off_reads_memory(self, role: Role) -> bool {
        matches!((self, role), (Self::CallMemory, Role::Call) | (Self::JumpMemory, Role::Detour))
    }

    /// The whole instruction when on.
    pub fn bytes(self, displacement: i32) -> Vec<u8> {
        let [a, b, c, d] = displacement.to_le_bytes();
        match self {
            Self::Call => vec![0xe8, a, b, c, d],
            Self::PrefixedCall => vec![0x67, 0xe8, a, b, c, d],
            Self::CallMemory => vec![0xff, 0x15, a, b, c, d],
            Self::Jump => vec![0xe9, a, b, c, d],
            Self::JumpMemory => vec![0xff, 0x25, a, b, c, d],
        }
    }

    /// The same length of bytes when off; no thread executes the bytes after a `ret`.
    pub fn off_bytes(self, role: Role, displacement: i32) -> Option<Vec<u8>> {
        let mut bytes = self.bytes(displacement);
        bytes[self.switch_at()] = self.off(role)?;
        Some(bytes)
    }

    /// The same with the byte from [`idle`](Self::idle).
    pub fn idle_bytes(self, role: Role, displacement: i32) -> Option<Vec<u8>> {
        let mut bytes = self.bytes(displacement);
        bytes[self.switch_at()] = self.idle(role, displacement)?;
        Some(bytes)
    }

    /// The destination of a displacement in an instruction at `at`.
    pub const fn destination(self, at: CodeAddr, displacement: i32) -> CodeAddr {
        at.offset(self.len() as isize).offset(displacement as isize)
    }

    /// The displacement that leads from an instruction at `at` to `to`; `None` if `to` is out of
    /// reach.
    pub fn displacement(self, at: CodeAddr, to: CodeAddr) -> Option<i32> {
        displacement(at.offset(self.len() as isize), to)
    }
}

/// Whether a displacement can be the end of a nop: `0F 1F 44 d2 d3` does nothing, whatever the last
/// two bytes are; they encode an address that the nop does not access.
const fn is_nop(displacement: i32) -> bool {
    let [first, second, ..] = displacement.to_le_bytes();
    first == NOP5[1] && second == NOP5[2]
}

/// The displacements that can be the end of a nop: this one, and those that differ from it by
/// multiples of [`NOP_STEP`].
pub const NOP_DISPLACEMENT: i32 = i32::from_le_bytes([NOP5[1], NOP5[2], 0, 0]);
/// The distance between the places to which calls with a nop's displacement can lead.
pub const NOP_STEP: usize = 1 << 16;

/// The displacement that leads to `to` from an instruction that ends before `behind`.
fn displacement(behind: CodeAddr, to: CodeAddr) -> Option<i32> {
    i32::try_from(to.distance_from(behind)).ok()
}

/// A conditional jump. It cannot be switched by one byte; its hook has to return at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConditionalJump {
    /// Its address.
    pub address: CodeAddr,
    /// Its size in bytes: two or six.
    pub len: usize,
    /// Its target.
    pub target: CodeAddr,
}

/// The kind of the instruction at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// One that can be switched, and that is on.
    Switchable {
        /// Its form.
        form: Form,
        /// Its displacement.
        displacement: i32,
    },
    /// One that cannot.
    Conditional(ConditionalJump),
}

/// The transfer of control at `at`, whose code is `bytes`; `None` if it is unknown or incomplete.
pub fn decode(at: CodeAddr, bytes: &[u8]) -> Option<Transfer> {
    let near = |skip: usize| Some(i32::from_le_bytes(bytes.get(skip..skip + 4)?.try_into().ok()?));
    let switchable = |form: Form| {
        Some(Transfer::Switchable { form, displacement: near(form.displacement_at())? })
    };
    let conditional = |len: usize, displacement: i32| {
        let target = at.offset(len as isize).offset(displacement as isize);
        Some(Transfer::Conditional(ConditionalJump { address: at, len, target }))
    };
    match *bytes {
        [0xe8, ..] => switchable(Form::Call),
        [0x67, 0xe8, ..] => switchable(Form::PrefixedCall),
        [0xff, 0x15, ..] => switchable(Form::CallMemory),
        [0xe9, ..] => switchable(Form::Jump),
        [0xff, 0x25, ..] => switchable(Form::JumpMemory),
        [0x0f, 0x80..=0x8f, ..] => conditional(6, near(2)?),
        [0x70..=0x7f, short, ..] => conditional(2, i32::from(short as i8)),
        _ => None,
    }
}

/// The longest transfer that [`decode`] knows.
pub const LONGEST: usize = 6;

/// The length of the transfer that begins with these two bytes, if they can begin one.
pub fn length(first: u8, second: u8) -> Option<usize> {
    match (first, second) {
        (0xe8 | 0xe9, _) => Some(5),
        (0x67, 0xe8) | (0xff, 0x15 | 0x25) | (0x0f, 0x80..=0x8f) => Some(6),
        (0x70..=0x7f, _) => Some(2),
        _ => None,
    }
}

/// The length of the linkage stub that begins with `bytes`: of the shortest one if there are
/// several. `None` if no stub begins like this. A reader that stops at this length never reads past
/// a stub; the memory there may be unmapped at any time.
pub fn stub_len(bytes: &[u8]) -> Option<usize> {
    const BEGINNINGS: [&[u8]; 4] = [
        &[0xff, 0x25],
        &[0xf2, 0xff, 0x25],
        &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25],
        &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25],
    ];
    let begins = |stub: &&[u8]| stub.iter().zip(bytes).all(|(stub, byte)| stub == byte);
    BEGINNINGS.into_iter().find(begins).map(|stub| stub.len() + 4)
}

/// The slot that a linkage stub (an entry of `.plt`, `.plt.got` or `.plt.sec`) at `at` jumps
/// through: `[endbr64] [bnd] jmp [rip + disp32]`.
pub fn stub_slot(at: CodeAddr, bytes: &[u8]) -> Option<CodeAddr> {
    let endbr = if bytes.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    let bnd = usize::from(bytes.get(endbr) == Some(&0xf2));
    let skip = endbr + bnd;
    match decode(at.offset(skip as isize), bytes.get(skip..)?)? {
        Transfer::Switchable { form: Form::JumpMemory, displacement } => {
            Some(Form::JumpMemory.destination(at.offset(skip as isize), displacement))
        }
        _ => None,
    }
}

/// `ret`.
pub const RET: u8 = 0xc3;

/// The one-byte nop.
pub const NOP: u8 = 0x90;

/// `jmp +3`: the off state of the literature's calls, which skips the other three of five bytes.
pub const SKIP_THREE: [u8; 2] = [0xeb, 0x03];

/// `nop dword [rax + rax + 0]`: the five-byte nop.
pub const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// `mov r11d, number`: neither a call nor a linkage stub preserves r11.
pub const fn mov_r11d(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_le_bytes();
    [0x41, 0xbb, a, b, c, d]
}

/// `mov r10d, number`.
pub const fn mov_r10d(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_le_bytes();
    [0x41, 0xba, a, b, c, d]
}

/// The length of [`replace_rsi_unless`].
pub const REPLACE_RSI: usize = 7 + 3 + 3 + 2 + 10;

/// At `at`; `None` if the function is too far:
///
/// ```text
///   lea rdx, [function]
///   cmp rdi, rdx
///   mov rdx, rsi
///   je  behind
///   mov rsi, value
///   behind:
/// ```
pub fn replace_rsi_unless(
    at: CodeAddr,
    function: CodeAddr,
    value: u64,
) -> Option<[u8; REPLACE_RSI]> {
    let far = displacement(at.offset(7), function)?;
    let mut code = [0; REPLACE_RSI];
    code[..3].copy_from_slice(&[0x48, 0x8d, 0x15]);
    code[3..7].copy_from_slice(&far.to_le_bytes());
    code[7..13].copy_from_slice(&[0x48, 0x39, 0xd7, 0x48, 0x89, 0xf2]);
    code[13..17].copy_from_slice(&[0x74, 10, 0x48, 0xbe]);
    code[17..].copy_from_slice(&value.to_le_bytes());
    Some(code)
}

/// `mov r11d, [cell]`, for an instruction at `at`; `None` if the cell is too far.
pub fn load_r11d(at: CodeAddr, cell: CodeAddr) -> Option<[u8; 7]> {
    let [a, b, c, d] = displacement(at.offset(7), cell)?.to_le_bytes();
    Some([0x44, 0x8b, 0x1d, a, b, c, d])
}

/// An inline counter; where it does not apply, execution continues after it:
///
/// ```text
///   mov  r9, fs:[thread]          a variable of the thread: a pointer
///   test r9, r9 ; jz behind
///   cmp  rdi, [r9 + key]          is it what is counted here?
///   jne  behind
///   inc  qword [r9 + count]
///   ret
///   behind:
/// ```
pub fn counter(thread: i32, key: i32, count: i32) -> [u8; COUNTER] {
    const COMPARE: usize = 9 + 3 + 2;
    const INC: usize = COMPARE + 7 + 2;
    let mut bytes = [0; COUNTER];
    bytes[..5].copy_from_slice(&[0x64, 0x4c, 0x8b, 0x0c, 0x25]);
    bytes[5..9].copy_from_slice(&thread.to_le_bytes());
    bytes[9..COMPARE + 3].copy_from_slice(&[
        0x4d,
        0x85,
        0xc9,
        0x74,
        (COUNTER - COMPARE) as u8,
        0x49,
        0x3b,
        0xb9,
    ]);
    bytes[COMPARE + 3..COMPARE + 7].copy_from_slice(&key.to_le_bytes());
    bytes[COMPARE + 7..INC + 3].copy_from_slice(&[0x75, (COUNTER - INC) as u8, 0x49, 0xff, 0x81]);
    bytes[INC + 3..INC + 7].copy_from_slice(&count.to_le_bytes());
    bytes[INC + 7] = RET;
    bytes
}

/// The length of an inline counter.
pub const COUNTER: usize = 31;

/// `jmp [slot]`, for an instruction at `at`; `None` if the slot is too far.
pub fn jump_through(at: CodeAddr, slot: CodeAddr) -> Option<[u8; 6]> {
    let [a, b, c, d] = Form::JumpMemory.displacement(at, slot)?.to_le_bytes();
    Some([0xff, 0x25, a, b, c, d])
}

/// `jmp to`, for an instruction at `at`; `None` if it is too far.
pub fn jump(at: CodeAddr, to: CodeAddr) -> Option<[u8; 5]> {
    let [a, b, c, d] = Form::Jump.displacement(at, to)?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// `jmp [rip + 0]` followed by the slot, which holds `to`: a jump to any address.
pub fn far_jump(to: CodeAddr) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    bytes[6..].copy_from_slice(&(to.get() as u64).to_le_bytes());
    bytes
}
