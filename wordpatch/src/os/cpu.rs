//! Identifies the processor.

use std::arch::x86_64::{__cpuid, __cpuid_count};

/// The maker of the processor, as CPUID leaf 0 spells it.
pub fn vendor_id() -> [u8; 12] {
    let leaf = __cpuid(0);
    text(&[leaf.ebx, leaf.edx, leaf.ecx])
}

/// Family, model and stepping, with the extended fields added in (CPUID leaf 1).
pub fn signature() -> (u32, u32, u32) {
    let eax = __cpuid(1).eax;
    let (family, model, stepping) = (eax >> 8 & 0xf, eax >> 4 & 0xf, eax & 0xf);
    let extended_model = if family == 0x6 || family == 0xf { (eax >> 16 & 0xf) << 4 } else { 0 };
    let extended_family = if family == 0xf { eax >> 20 & 0xff } else { 0 };
    (family + extended_family, model + extended_model, stepping)
}

/// The hypervisor's signature, or `None` on bare metal.
pub fn hypervisor() -> Option<String> {
    let present = __cpuid(1).ecx & 1 << 31 != 0;
    present.then(|| {
        let leaf = __cpuid(0x4000_0000);
        let name: [u8; 12] = text(&[leaf.ebx, leaf.ecx, leaf.edx]);
        String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
    })
}

/// The marketing name (CPUID leaves 0x80000002 to 4).
pub fn brand() -> String {
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return String::from_utf8_lossy(&vendor_id()).into_owned();
    }
    let words: Vec<u32> = (2..=4)
        .map(|n| __cpuid(0x8000_0000 + n))
        .flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx])
        .collect();
    let bytes: Vec<u8> =
        words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Whether CLFLUSHOPT may be executed (CPUID leaf 7).
pub fn has_clflushopt() -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 23 != 0
}

/// The microcode's revision as the kernel prints it, if it prints one.
pub fn microcode() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("microcode"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The kernel's release, as `uname -r` prints it.
pub fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |r| r.trim().to_owned())
}

/// The shadow-stack pointer of this thread, zero where there is no user shadow stack. Usable in a
/// signal handler.
#[inline]
pub fn shadow_stack_pointer() -> u64 {
    let mut pointer: u64 = 0;
    // SAFETY: (1) RDSSPQ (F3 REX.W 0F 1E /1) changes its register only; (2) without CET, or with
    // CET off, it is a no-operation (Intel SDM volume 2, "RDSSPD/RDSSPQ"; AMD64 APM volume 3, the
    // same name) and the zero stays.
    unsafe {
        std::arch::asm!(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", inout("rax") pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

fn text(words: &[u32; 3]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
