//! The floor: a probed program whose sites were overwritten in its file.
//!
//! A separate decoder finds the sites, so that a site which the product misses shows as its cost,
//! and not as the floor's.

use super::CorpusError;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The replacement of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    /// A nop of five bytes; a return for a tail jump.
    Nop,
    /// The product's off state if the trampoline is at an arbitrary address: one byte of the site
    /// becomes `A9`. If the trampoline is in a lane, the site is a nop, as in the floor.
    Off,
}

/// A call or jump to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    address: u64,
    is_call: bool,
}

/// Writes the program with all of its sites overwritten.
pub(crate) fn overwrite(program: &Path, made: &Path, face: Face) -> Result<(), CorpusError> {
    let what = || format!("overwriting the sites of {}", program.display());
    let listing = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(program)
        .output()
        .map_err(CorpusError::io("objdump"))?;
    let mut bytes =
        std::fs::read(program).map_err(CorpusError::io(program.display().to_string()))?;
    let failed = |said: String| CorpusError::Failed { what: what(), said };
    let sites: Vec<Site> =
        String::from_utf8_lossy(&listing.stdout).lines().filter_map(site).collect();
    if sites.is_empty() {
        return Err(failed("there are none".into()));
    }
    let segments = segments(&bytes).map_err(failed)?;
    for site in sites {
        let at = segments.iter().find_map(|&(address, offset, length)| {
            (address..address + length)
                .contains(&site.address)
                .then(|| (site.address - address + offset) as usize)
        });
        let place = at
            .and_then(|at| bytes.get_mut(at..at + 5))
            .ok_or_else(|| failed("a site lies outside of the file".into()))?;
        if place[0] != if site.is_call { 0xe8 } else { 0xe9 } {
            return Err(failed(format!("{:#x} is no near call", site.address)));
        }
        match (face, site.is_call) {
            (Face::Nop, true) => place.copy_from_slice(&[0x0f, 0x1f, 0x44, 0x00, 0x00]),
            (Face::Off, true) => place[0] = 0xa9,
            (_, false) => place[0] = 0xc3,
        }
    }
    std::fs::write(made, bytes).map_err(CorpusError::io(made.display().to_string()))?;
    std::fs::set_permissions(made, std::fs::Permissions::from_mode(0o755))
        .map_err(CorpusError::io(made.display().to_string()))
}

/// One line of the listing: `  1234:  call  5678 <__cyg_profile_func_enter@plt>`.
fn site(line: &str) -> Option<Site> {
    if !line.contains("<__cyg_profile_func_enter@plt>")
        && !line.contains("<__cyg_profile_func_exit@plt>")
    {
        return None;
    }
    let (address, rest) = line.trim_start().split_once(':')?;
    let is_call = match rest.split_whitespace().next()? {
        "call" | "callq" => true,
        "jmp" | "jmpq" => false,
        _ => return None,
    };
    Some(Site { address: u64::from_str_radix(address, 16).ok()?, is_call })
}

/// The segments of the file: address, offset, length.
fn segments(bytes: &[u8]) -> Result<Vec<(u64, u64, u64)>, String> {
    let elf = goblin::elf::Elf::parse(bytes).map_err(|error| error.to_string())?;
    let loaded = elf
        .program_headers
        .iter()
        .filter(|header| header.p_type == goblin::elf::program_header::PT_LOAD);
    Ok(loaded.map(|header| (header.p_vaddr, header.p_offset, header.p_filesz)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_jumps_to_hooks_are_sites_and_nothing_else_is() {
        let of = |text| site(text).map(|site| (site.address, site.is_call));
        assert_eq!(
            of("    11f3:\tcall   1040 <__cyg_profile_func_enter@plt>"),
            Some((0x11f3, true))
        );
        assert_eq!(
            of("  4011f3:\tjmp    401040 <__cyg_profile_func_exit@plt>"),
            Some((0x4011f3, false))
        );
        assert_eq!(of("    11f3:\tjne    1040 <__cyg_profile_func_exit@plt>"), None);
        assert_eq!(of("    11f3:\tcall   1040 <puts@plt>"), None);
        assert_eq!(of("0000000000001040 <__cyg_profile_func_exit@plt>:"), None);
    }
}
