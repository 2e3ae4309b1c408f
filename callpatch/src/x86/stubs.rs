//! Stubs that sites of compiled WebAssembly call, and filler for the bytes beside them.

use super::{Form, Role};

/// The first byte of a site that is off.
const OFF: u8 = match Form::Call.off(Role::Call) {
    Some(byte) => byte,
    None => panic!("a call can be switched off"),
};

/// Fills with nops, with as few instructions as possible.
pub fn fill_with_nothing(bytes: &mut [u8]) {
    const NOTHING: [&[u8]; 9] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &super::NOP5,
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at_mut(rest.len().min(NOTHING.len()));
        now.copy_from_slice(NOTHING[now.len() - 1]);
        rest = later;
    }
}

/// The length of [`self_disarming`].
pub const SELF_DISARMING: usize = 24;

/// A stub that switches off the site that called it. The code's writable address is `further` bytes
/// above its executable one:
///
/// ```text
///   push rax ; push rcx
///   mov  rax, [rsp + 16]          behind the site
///   mov  rcx, further - 5
///   mov  byte [rax + rcx], off
///   pop  rcx ; pop rax ; ret
/// ```
pub fn self_disarming(further: usize) -> [u8; SELF_DISARMING] {
    let site = further.wrapping_sub(Form::Call.len()).to_le_bytes();
    let mut code = [0; SELF_DISARMING];
    code[..9].copy_from_slice(&[0x50, 0x51, 0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0xb9]);
    code[9..17].copy_from_slice(&site);
    code[17..].copy_from_slice(&[0xc6, 0x04, 0x08, OFF, 0x59, 0x58, super::RET]);
    code
}

/// The length of [`counting`].
pub const COUNTING: usize = 65;

/// A stub that counts the calls of a site in the first word of `cell`, and switches the site off
/// (its first byte can be written at `site`) when there were more than the second word, unless that
/// is all ones. The lowest bit of the third word is the lock for that.
#[rustfmt::skip]
pub fn counting(cell: u64, site: u64) -> [u8; COUNTING] {
    let mut code = [0; COUNTING];
    code[..3].copy_from_slice(&[0x50, 0x48, 0xb8]);
    code[3..11].copy_from_slice(&cell.to_le_bytes());
    code[11..44].copy_from_slice(&[
        0xf0, 0x48, 0xff, 0x00, 0x48, 0x83, 0x78, 0x08, 0xff, 0x75, 0x02, 0x58, super::RET, // counts
        0xf0, 0x0f, 0xba, 0x68, 0x10, 0x00, 0x72, 0xf6, // locks
        0x51, 0x48, 0x8b, 0x08, 0x48, 0x3b, 0x48, 0x08, 0x76, 0x0d, 0x48, 0xb9, // compares
    ]);
    code[44..52].copy_from_slice(&site.to_le_bytes());
    code[52..].copy_from_slice(&[
        0xc6, 0x01, OFF, 0x59, 0xc7, 0x40, 0x10, 0, 0, 0, 0, 0xeb, 0xd5, // switches off, unlocks
    ]);
    code
}

/// The length of [`keeping`].
pub const KEEPING: usize = 296;

/// A stub that calls `function`, of the C convention, with `first` and the stub's return address.
/// It preserves all registers of its caller, except flags:
///
/// ```text
///   push rax, rcx, rdx, rbx, rsi, rdi, r8 … r11
///   mov  rbx, rsp
///   mov  rsi, [rbx + 80]          where the stub returns to
///   sub  rsp, 256 ; and rsp, -16
///   movups [rsp + …], xmm0 … xmm15
///   mov  rdi, first ; mov rax, function ; call rax
///   movups xmm0 … xmm15, [rsp + …]
///   mov  rsp, rbx
///   pop  r11 … rax ; ret
/// ```
///
/// The called function preserves all others.
pub fn keeping(function: u64, first: u64) -> [u8; KEEPING] {
    const PUSH: [u8; 14] =
        [0x50, 0x51, 0x52, 0x53, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53];
    const POP: [u8; 14] =
        [0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5b, 0x5a, 0x59, 0x58];
    const PREPARE: [u8; 18] = [
        0x48, 0x89, 0xe3, 0x48, 0x8b, 0x73, 0x50, 0x48, 0x81, 0xec, 0, 1, 0, 0, 0x48, 0x83, 0xe4,
        0xf0,
    ];
    let mut code = Vec::with_capacity(KEEPING);
    code.extend(PUSH);
    code.extend(PREPARE);
    vectors(&mut code, 0x11);
    code.extend([0x48, 0xbf]);
    code.extend(first.to_le_bytes());
    code.extend([0x48, 0xb8]);
    code.extend(function.to_le_bytes());
    code.extend([0xff, 0xd0]);
    vectors(&mut code, 0x10);
    code.extend([0x48, 0x89, 0xdc]);
    code.extend(POP);
    code.push(super::RET);
    code.try_into().expect("as long as it is said to be")
}

/// Stores all vector registers from the stack pointer on (0x11), or loads them (0x10).
fn vectors(code: &mut Vec<u8>, opcode: u8) {
    for register in 0..8 {
        code.extend([0x0f, opcode, 0x44 | register << 3, 0x24, 16 * register]);
    }
    for register in 0..8 {
        code.extend([0x44, 0x0f, opcode, 0x84 | register << 3, 0x24, 128 + 16 * register, 0, 0, 0]);
    }
}
