//! The target of a pun: a hook that preserves every register.
//!
//! A compiled-in hook is a call, across which a compiler expects few registers to be preserved. A
//! pun is where the compiler expects no call: its target preserves all registers, and the red zone
//! below the stack pointer (System V ABI, AMD64 supplement, 3.2.2).

use super::{Form, displacement};
use wordpatch::CodeAddr;

/// The distance by which the stack pointer moves before a hook is called, its return address
/// included. It is the same for all, so that stack pointers in hooks compare as those at their
/// sites.
pub const DROP: usize = RED_ZONE + 3 * 8 + 8;

const RED_ZONE: usize = 128;

/// The length of a [`hook`].
pub const HOOK: usize = 5 + 5 + 8 + 7 + 6 + 6 + 5 + 8;

/// A call of a hook, for instructions at `at`; `None` if a slot is out of reach:
///
/// ```text
///   lea  rsp, [rsp - 128]
///   push rsi ; push r10 ; push r11
///   mov  rsi, [rsp + …]           the return address of the function, `depth` bytes above
///   mov  r11d, [cell]
///   mov  r10d, number
///   call [slot]                   keeps all registers but rsi, r10, r11
///   pop  r11 ; pop r10 ; pop rsi
///   lea  rsp, [rsp + 128]
/// ```
pub fn hook(
    at: CodeAddr,
    number: u32,
    depth: u32,
    slot: CodeAddr,
    cell: CodeAddr,
) -> Option<[u8; HOOK]> {
    let mut code = Vec::with_capacity(HOOK);
    code.extend_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    code.extend_from_slice(&[0x56, 0x41, 0x52, 0x41, 0x53]);
    code.extend_from_slice(&[0x48, 0x8b, 0xb4, 0x24]);
    code.extend_from_slice(&((RED_ZONE + 3 * 8) as u32).checked_add(depth)?.to_le_bytes());
    code.extend_from_slice(&super::load_r11d(at.offset(code.len() as isize), cell)?);
    code.extend_from_slice(&super::mov_r10d(number));
    let call = at.offset(code.len() as isize);
    code.extend_from_slice(&Form::CallMemory.bytes(Form::CallMemory.displacement(call, slot)?));
    code.extend_from_slice(&[0x41, 0x5b, 0x41, 0x5a, 0x5e]);
    code.extend_from_slice(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
    code.try_into().ok()
}

/// The length of a [`counter`].
pub const COUNTER: usize = 1 + 9 + 5 + 10 + 7 + 1 + 2 + 1;

/// A counter at a function's very entry, where flags are dead and there is no red zone. If it
/// applies, it continues after the [`hook`] that follows it, otherwise after itself:
///
/// ```text
///   push rax
///   mov  rax, fs:[thread]         a variable of the thread: a pointer
///   test rax, rax ; jz behind
///   cmp  qword [rax + key], 0 ; je behind
///   inc  qword [rax + count]
///   pop  rax
///   jmp  behind the hook
///   behind: pop rax
/// ```
pub fn counter(thread: i32, key: i32, count: i32) -> [u8; COUNTER] {
    const TEST: usize = 10;
    const COMPARE: usize = TEST + 5;
    const INC: usize = COMPARE + 10;
    const BEHIND: usize = COUNTER - 1;
    let mut code = [0; COUNTER];
    code[..6].copy_from_slice(&[0x50, 0x64, 0x48, 0x8b, 0x04, 0x25]);
    code[6..TEST].copy_from_slice(&thread.to_le_bytes());
    let over = |from: usize| (BEHIND - from) as u8;
    code[TEST..COMPARE].copy_from_slice(&[0x48, 0x85, 0xc0, 0x74, over(COMPARE)]);
    code[COMPARE..COMPARE + 3].copy_from_slice(&[0x48, 0x83, 0xb8]);
    code[COMPARE + 3..COMPARE + 7].copy_from_slice(&key.to_le_bytes());
    code[COMPARE + 7..INC].copy_from_slice(&[0x00, 0x74, over(INC)]);
    code[INC..INC + 3].copy_from_slice(&[0x48, 0xff, 0x80]);
    code[INC + 3..INC + 7].copy_from_slice(&count.to_le_bytes());
    // The jump ends before the last byte here.
    code[INC + 7..].copy_from_slice(&[0x58, 0xeb, (1 + HOOK) as u8, 0x58]);
    code
}

/// Whether a jump must not be placed at `to`: it shares the low bits that branch predictors use
/// with `from`, although it may be far away.
pub fn aliases(from: CodeAddr, to: CodeAddr) -> bool {
    const BITS: usize = 24;
    (from.get() ^ to.get()) & ((1 << BITS) - 1) == 0
}

const _: () = assert!(HOOK + 1 < 128, "a short jump leads over it");

/// The beginning of a jump with that many prefixes, which have no effect (Intel 64 Software
/// Developer's Manual, volume 2, 2.1.1: a segment's, ignored in 64-bit mode). Each prefix shifts
/// the four following bytes that are its displacement by one.
pub fn prefixed_jump(prefixes: usize) -> Vec<u8> {
    const DATA_SEGMENT: u8 = 0x3e;
    let mut bytes = vec![DATA_SEGMENT; prefixes];
    bytes.push(Form::Jump.on());
    bytes
}

/// The destination of a jump at `at` that has these bytes.
pub fn pun(at: CodeAddr, bytes: [u8; 5]) -> CodeAddr {
    let [_, a, b, c, d] = bytes;
    Form::Jump.destination(at, i32::from_le_bytes([a, b, c, d]))
}

/// Whether a jump at `from` reaches `to`.
pub fn reaches(from: CodeAddr, to: CodeAddr) -> bool {
    displacement(from.offset(Form::Jump.len() as isize), to).is_some()
}
