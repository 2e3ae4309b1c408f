//! Copies, fills, compares and counts bytes.
//!
//! The compiler calls these by name wherever Rust moves values, so they are written in assembly: in
//! Rust, the compiler may turn the loop of such a function into a call of that function. Up to 64
//! bytes everything is loaded before anything is stored, so that an overlap does not matter;
//! beyond, the end that would be overwritten first is loaded first. Only SSE2 is used, which every
//! x86-64 has and which leaves no upper register halves dirty.

use std::arch::global_asm;

macro_rules! routine {
    ($name:literal, $($line:literal),* $(,)?) => {
        global_asm!(
            concat!(".pushsection .text.fastinst_own_", $name, ",\"ax\",@progbits"),
            concat!(".globl fastinst_own_", $name),
            concat!(".hidden fastinst_own_", $name),
            concat!(".type fastinst_own_", $name, ",@function"),
            ".balign 16",
            concat!("fastinst_own_", $name, ":"),
            $($line,)*
            concat!(".size fastinst_own_", $name, ", . - fastinst_own_", $name),
            ".popsection",
        );
    };
}

// (to, from, len) -> to
routine!(
    "memmove",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jae 4f",
    "cmp edx, 8",
    "jae 3f",
    "cmp edx, 4",
    "jae 2f",
    "test edx, edx",
    "jz 99f",
    // One to three: the first, the middle one, the last.
    "mov r10, rdx",
    "shr r10, 1",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + r10]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov byte ptr [rdi], cl",
    "mov byte ptr [rdi + r10], r8b",
    "mov byte ptr [rdi + rdx - 1], r9b",
    "99: ret",
    "2:",
    "mov ecx, dword ptr [rsi]",
    "mov r8d, dword ptr [rsi + rdx - 4]",
    "mov dword ptr [rdi], ecx",
    "mov dword ptr [rdi + rdx - 4], r8d",
    "ret",
    "3:",
    "mov rcx, qword ptr [rsi]",
    "mov r8, qword ptr [rsi + rdx - 8]",
    "mov qword ptr [rdi], rcx",
    "mov qword ptr [rdi + rdx - 8], r8",
    "ret",
    "4:",
    "cmp rdx, 32",
    "ja 5f",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmm1, xmmword ptr [rsi + rdx - 16]",
    "movups xmmword ptr [rdi], xmm0",
    "movups xmmword ptr [rdi + rdx - 16], xmm1",
    "ret",
    "5:",
    "cmp rdx, 64",
    "ja 6f",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmm1, xmmword ptr [rsi + 16]",
    "movups xmm2, xmmword ptr [rsi + rdx - 32]",
    "movups xmm3, xmmword ptr [rsi + rdx - 16]",
    "movups xmmword ptr [rdi], xmm0",
    "movups xmmword ptr [rdi + 16], xmm1",
    "movups xmmword ptr [rdi + rdx - 32], xmm2",
    "movups xmmword ptr [rdi + rdx - 16], xmm3",
    "ret",
    "6:",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jb 8f",
    // Forwards: the target does not begin inside of the source. Its last 64 bytes are loaded first.
    "movups xmm4, xmmword ptr [rsi + rdx - 64]",
    "movups xmm5, xmmword ptr [rsi + rdx - 48]",
    "movups xmm6, xmmword ptr [rsi + rdx - 32]",
    "movups xmm7, xmmword ptr [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 64]",
    "7:",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmm1, xmmword ptr [rsi + 16]",
    "movups xmm2, xmmword ptr [rsi + 32]",
    "movups xmm3, xmmword ptr [rsi + 48]",
    "movups xmmword ptr [rdi], xmm0",
    "movups xmmword ptr [rdi + 16], xmm1",
    "movups xmmword ptr [rdi + 32], xmm2",
    "movups xmmword ptr [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "cmp rdi, r8",
    "jb 7b",
    "movups xmmword ptr [r8], xmm4",
    "movups xmmword ptr [r8 + 16], xmm5",
    "movups xmmword ptr [r8 + 32], xmm6",
    "movups xmmword ptr [r8 + 48], xmm7",
    "ret",
    // Backwards, with the first 64 bytes loaded first.
    "8:",
    "movups xmm4, xmmword ptr [rsi]",
    "movups xmm5, xmmword ptr [rsi + 16]",
    "movups xmm6, xmmword ptr [rsi + 32]",
    "movups xmm7, xmmword ptr [rsi + 48]",
    "9:",
    "movups xmm0, xmmword ptr [rsi + rdx - 64]",
    "movups xmm1, xmmword ptr [rsi + rdx - 48]",
    "movups xmm2, xmmword ptr [rsi + rdx - 32]",
    "movups xmm3, xmmword ptr [rsi + rdx - 16]",
    "movups xmmword ptr [rdi + rdx - 64], xmm0",
    "movups xmmword ptr [rdi + rdx - 48], xmm1",
    "movups xmmword ptr [rdi + rdx - 32], xmm2",
    "movups xmmword ptr [rdi + rdx - 16], xmm3",
    "sub rdx, 64",
    "cmp rdx, 64",
    "ja 9b",
    "movups xmmword ptr [rdi], xmm4",
    "movups xmmword ptr [rdi + 16], xmm5",
    "movups xmmword ptr [rdi + 32], xmm6",
    "movups xmmword ptr [rdi + 48], xmm7",
    "ret",
);

// (to, byte, len) -> to
routine!(
    "memset",
    "mov rax, rdi",
    "movzx esi, sil",
    "mov rcx, 0x0101010101010101",
    "imul rcx, rsi",
    "cmp rdx, 16",
    "jae 4f",
    "cmp edx, 8",
    "jae 3f",
    "cmp edx, 4",
    "jae 2f",
    "test edx, edx",
    "jz 99f",
    "mov r10, rdx",
    "shr r10, 1",
    "mov byte ptr [rdi], cl",
    "mov byte ptr [rdi + r10], cl",
    "mov byte ptr [rdi + rdx - 1], cl",
    "99: ret",
    "2:",
    "mov dword ptr [rdi], ecx",
    "mov dword ptr [rdi + rdx - 4], ecx",
    "ret",
    "3:",
    "mov qword ptr [rdi], rcx",
    "mov qword ptr [rdi + rdx - 8], rcx",
    "ret",
    "4:",
    "movq xmm0, rcx",
    "punpcklqdq xmm0, xmm0",
    "lea r8, [rdi + rdx - 16]",
    "5:",
    "movups xmmword ptr [rdi], xmm0",
    "add rdi, 16",
    "cmp rdi, r8",
    "jb 5b",
    "movups xmmword ptr [r8], xmm0",
    "ret",
);

// (left, right, len) -> less, equal, more
routine!(
    "memcmp",
    "xor ecx, ecx",
    "sub rdx, 16",
    "jb 3f",
    "77:",
    "movups xmm0, xmmword ptr [rdi + rcx]",
    "movups xmm1, xmmword ptr [rsi + rcx]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb eax, xmm0",
    "sub eax, 0xffff",
    "jnz 2f",
    "cmp rcx, rdx",
    "je 5f",
    "add rcx, 16",
    "cmp rcx, rdx",
    "cmova rcx, rdx",
    "jmp 77b",
    // The lowest byte that differs: its bit was not set, and the subtraction has set it.
    "2:",
    "bsf eax, eax",
    "add rcx, rax",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx ecx, byte ptr [rsi + rcx]",
    "sub eax, ecx",
    "ret",
    "3:",
    "add rdx, 16",
    "4:",
    "cmp rcx, rdx",
    "je 5f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "jz 4b",
    "ret",
    "5:",
    "xor eax, eax",
    "ret",
);

// (text) -> len. Whole blocks of 16 at multiples of 16, which never touch a page that the string
// does not.
routine!(
    "strlen",
    "mov rdx, rdi",
    "and rdx, -16",
    "mov ecx, edi",
    "and ecx, 15",
    "pxor xmm0, xmm0",
    "pcmpeqb xmm0, xmmword ptr [rdx]",
    "pmovmskb eax, xmm0",
    "shr eax, cl",
    "test eax, eax",
    "jnz 2f",
    "77:",
    "add rdx, 16",
    "pxor xmm0, xmm0",
    "pcmpeqb xmm0, xmmword ptr [rdx]",
    "pmovmskb eax, xmm0",
    "test eax, eax",
    "jz 77b",
    "bsf eax, eax",
    "add rax, rdx",
    "sub rax, rdi",
    "ret",
    "2:",
    "bsf eax, eax",
    "ret",
);

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn fastinst_own_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn fastinst_own_memset(to: *mut u8, byte: c_int, len: usize) -> *mut u8;
        fn fastinst_own_memcmp(left: *const u8, right: *const u8, len: usize) -> c_int;
        fn fastinst_own_strlen(text: *const u8) -> usize;
    }

    const ROOM: usize = 700;

    /// Bytes that differ from their neighbours.
    fn pattern() -> Vec<u8> {
        (0..ROOM).map(|at| (at * 7 + at / 256 * 3) as u8).collect()
    }

    #[test]
    fn moved_bytes_are_those_that_were_there_however_the_places_overlap() {
        for len in (0..200).chain([255, 256, 257, 300, 333]) {
            for (from, to) in [
                (0, 350),
                (350, 0),
                (100, 101),
                (101, 100),
                (100, 116),
                (116, 100),
                (10, 90),
                (90, 10),
                (64, 64),
            ] {
                let (mut found, mut expected) = (pattern(), pattern());
                expected.copy_within(from..from + len, to);
                let base = found.as_mut_ptr();
                // SAFETY: (1) both ranges lie in the vector.
                let returned = unsafe { fastinst_own_memmove(base.add(to), base.add(from), len) };
                assert_eq!(
                    (returned, &found),
                    (base.wrapping_add(to), &expected),
                    "{len} from {from} to {to}"
                );
            }
        }
    }

    #[test]
    fn filled_bytes_are_all_and_no_others() {
        for len in 0..300 {
            for start in [0, 1, 15, 33] {
                let (mut found, mut expected) = (pattern(), pattern());
                expected[start..start + len].fill(0xA5);
                // SAFETY: (1) the range lies in the vector.
                unsafe { fastinst_own_memset(found.as_mut_ptr().add(start), 0x7A5, len) };
                assert_eq!(found, expected, "{len} at {start}");
            }
        }
    }

    #[test]
    fn bytes_compare_as_slices_do() {
        let sign = |left: &[u8], right: &[u8]| {
            // SAFETY: (1) both have this length.
            unsafe { fastinst_own_memcmp(left.as_ptr(), right.as_ptr(), left.len()) }.signum()
        };
        for len in 0..100 {
            let left = &pattern()[3..3 + len];
            assert_eq!(sign(left, left), 0, "{len}");
            for at in 0..len {
                for change in [1, 0x80, 0xFF] {
                    let mut right = left.to_vec();
                    right[at] = right[at].wrapping_add(change);
                    right[at + 1..].fill(0);
                    assert_eq!(sign(left, &right), left.cmp(&right) as c_int, "{len} at {at}");
                }
            }
        }
    }

    #[test]
    fn texts_are_as_long_as_they_are() {
        for start in 0..20 {
            for len in 0..100 {
                let mut text = [0; 20 + 100 + 1];
                text[start..start + len].fill(0xFF);
                // SAFETY: (1) a zero follows.
                let found = unsafe { fastinst_own_strlen(text.as_ptr().add(start)) };
                assert_eq!(found, len, "{start}");
            }
        }
    }
}
