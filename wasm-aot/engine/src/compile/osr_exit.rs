//! Makes the OSR exits of machine code: a marked comparison and branch to a cold block become an
//! instruction that does nothing, or, with another first byte, a jump to that block.
//!
//! ```text
//!    48 83 F9 01         cmp rcx, 1            A9 xx xx xx xx    test eax, imm32     E9 ...   jmp cold
//!    0F 84 xx xx xx xx   je cold               0F 1F 44 00 00    nop
//! ```
//!
//! The register allocator may put moves between the two: then the comparison stays, and the OSR
//! exit is where the branch was. Flags are dead in either case, since the place is between the
//! boundaries of two blocks.
//!
//! Where the OSR exit is the first thing in its loop, branches back to the loop skip it while it is
//! off, so that the loop runs as if there were none. They are switched too, by the lowest byte of
//! their distance. A thread that sees only some of the bytes switched passes the OSR exit, or
//! leaves an iteration later.

use callpatch::x86::stubs::fill_with_nothing as fill;
use callpatch::x86::{Form, Role};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use std::ops::Range;

/// The first byte of an OSR exit, or of a function's site, that is off: `test eax, imm32`.
pub(crate) const OFF: u8 = match Form::Jump.off(Role::Detour) {
    Some(byte) => byte,
    None => panic!("a jump out of line can be switched off"),
};
/// The first byte of one that is on: `jmp rel32`.
pub(crate) const ON: u8 = Form::Jump.on();

/// A byte that is switched at an OSR exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OsrExit {
    /// The number of the loop.
    pub number: u32,
    /// Where it is.
    pub at: u32,
    /// Its value while it is off, and, eight bits higher, its value while it is on.
    values: u32,
}

impl OsrExit {
    fn new(number: u32, at: u32, [off, on]: [u8; 2]) -> Self {
        Self { number, at, values: u32::from(off) | u32::from(on) << 8 }
    }

    /// The same in code that begins at `start`.
    pub(super) fn moved(self, start: u32) -> Self {
        Self { at: start + self.at, ..self }
    }

    /// Its values while it is off, and while it is on.
    pub fn values(self) -> [u8; 2] {
        let [off, on, ..] = self.values.to_le_bytes();
        [off, on]
    }
}

/// Makes OSR exits of the marked instructions, and lets branches back skip them. `ranges` are those
/// of all instructions, and begin at instructions; each with the number of the loop if it is
/// marked.
///
/// `None` if a marked branch has an unexpected shape: its condition might become true.
pub(super) fn make_osr_exits(
    code: &mut [u8],
    ranges: &[(Range<u32>, Option<u32>)],
) -> Option<Vec<OsrExit>> {
    let mut gaps = Vec::new();
    for (range, number) in ranges {
        let Some(number) = *number else { continue };
        match Gap::make(code, number, range.clone()) {
            Some(gap) => gaps.push(gap),
            None if branches(code, range) => return None,
            None => {}
        }
    }
    gaps.sort_unstable_by_key(|gap| gap.at);
    let mut osr_exits: Vec<OsrExit> =
        gaps.iter().map(|gap| OsrExit::new(gap.number, gap.at, [OFF, ON])).collect();
    for (range, _) in ranges.iter().filter(|_| !gaps.is_empty()) {
        let bytes = code[range.start as usize..range.end as usize].to_vec();
        for branch in
            Decoder::with_ip(64, &bytes, range.start.into(), DecoderOptions::NONE).into_iter()
        {
            if branch.is_invalid() || branch.flow_control() == FlowControl::IndirectBranch {
                // What follows is a table.
                break;
            }
            let Some(gap) =
                target(&branch).and_then(|to| gaps.binary_search_by_key(&to, |gap| gap.at).ok())
            else {
                continue;
            };
            let gap = gaps[gap];
            let lowest = branch.next_ip() as usize - 4;
            let on = code[lowest];
            if let Some(off) = on.checked_add(gap.len) {
                code[lowest] = off;
                osr_exits.push(OsrExit::new(gap.number, lowest as u32, [off, on]));
            }
        }
    }
    osr_exits.sort_unstable_by_key(|osr_exit| osr_exit.at);
    Some(osr_exits)
}

/// Whether an instruction in the range may branch.
fn branches(code: &[u8], range: &Range<u32>) -> bool {
    let bytes = &code[range.start as usize..range.end as usize];
    let all = Decoder::with_ip(64, bytes, range.start.into(), DecoderOptions::NONE).into_iter();
    all.into_iter()
        .any(|here| here.is_invalid() || here.flow_control() == FlowControl::ConditionalBranch)
}

/// The target of a branch whose distance has four bytes.
fn target(branch: &Instruction) -> Option<u32> {
    let is_branch = matches!(
        branch.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    (is_branch && branch.len() >= 5).then_some(branch.near_branch64() as u32)
}

/// The place of a comparison and a branch that were overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    number: u32,
    at: u32,
    len: u8,
}

impl Gap {
    /// Overwrites the instructions in `range` by an exit that is off, if they have the expected
    /// shape.
    fn make(code: &mut [u8], number: u32, range: Range<u32>) -> Option<Self> {
        let (start, branch, cold) = branch(code, range)?;
        let at = start.unwrap_or(branch.start);
        let (from, to) = (at as usize, branch.end as usize);
        let distance = cold.wrapping_sub(at + 5);
        code[from] = OFF;
        code[from + 1..from + 5].copy_from_slice(&distance.to_le_bytes());
        fill(&mut code[from + 5..to]);
        Some(Self { number, at, len: (to - from) as u8 })
    }
}

/// The start of the comparison, if it lies right before the branch; the branch; and its target.
fn branch(code: &[u8], range: Range<u32>) -> Option<(Option<u32>, Range<u32>, u32)> {
    let bytes = code.get(range.start as usize..range.end as usize)?;
    let mut decoder = Decoder::with_ip(64, bytes, range.start.into(), DecoderOptions::NONE);
    let mut before = Instruction::default();
    while decoder.can_decode() {
        let here = decoder.decode();
        if here.is_invalid() {
            return None;
        }
        if here.flow_control() == FlowControl::ConditionalBranch {
            // Code generation writes conditions in one way, and puts cold blocks after all others.
            if here.code() != Code::Je_rel32_64 {
                return None;
            }
            let compares = matches!(
                before.code().mnemonic(),
                iced_x86::Mnemonic::Cmp | iced_x86::Mnemonic::Test
            );
            let start = compares.then(|| before.ip() as u32);
            return Some((
                start,
                here.ip() as u32..here.next_ip() as u32,
                here.near_branch64() as u32,
            ));
        }
        before = here;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_and_its_branch_become_one_osr_exit() {
        let mut code = [0x48, 0x83, 0xF9, 0x01, 0x0F, 0x84, 0x10, 0x00, 0x00, 0x00, 0xC3];
        assert_eq!(
            make_osr_exits(&mut code, &[(0..10, Some(7)), (10..11, None)]),
            Some(vec![OsrExit::new(7, 0, [OFF, ON])])
        );
        // The branch led to 10 + 16; the OSR exit counts from its own end.
        assert_eq!(code, [OFF, 21, 0, 0, 0, 0x0F, 0x1F, 0x44, 0x00, 0x00, 0xC3]);
    }

    #[test]
    fn a_move_between_both_stays() {
        let mut code =
            [0x48, 0x83, 0xF9, 0x01, 0x48, 0x89, 0xF0, 0x0F, 0x84, 0x10, 0x00, 0x00, 0x00];
        assert_eq!(
            make_osr_exits(&mut code, &[(0..13, Some(0))]),
            Some(vec![OsrExit::new(0, 7, [OFF, ON])])
        );
        assert_eq!(code, [0x48, 0x83, 0xF9, 0x01, 0x48, 0x89, 0xF0, OFF, 17, 0, 0, 0, 0x90]);
    }

    #[test]
    fn branches_back_go_behind_it_while_it_is_off() {
        // cmp, je; dec ecx; jnz back; jmp back, whose lowest byte would have to carry.
        let mut code = vec![0x48, 0x83, 0xF9, 0x01, 0x0F, 0x84, 0x10, 0x00, 0x00, 0x00, 0xFF, 0xC9];
        code.extend([0x0F, 0x85, 0xEE, 0xFF, 0xFF, 0xFF]);
        code.resize(251, 0x90);
        code.extend([0xE9, 0x00, 0xFF, 0xFF, 0xFF]);
        let found = make_osr_exits(&mut code, &[(0..10, Some(3)), (10..256, None)]);
        let expected = [
            OsrExit::new(3, 0, [OFF, ON]),
            OsrExit::new(3, 14, [0xF8, 0xEE]),
            OsrExit::new(3, 252, [0x0A, 0x00]),
        ];
        assert_eq!(found, Some(expected.to_vec()));
        let mut far = code.clone();
        far[252] = 0xFE;
        assert_eq!(0xFEu8.checked_add(10), None, "such a branch stays as it is");
    }

    #[test]
    fn what_is_something_else_is_left_alone_and_other_branches_are_refused() {
        let other = [&[0x48, 0x83, 0xF9, 0x01, 0x0F, 0x85, 0, 0, 0, 0][..], &[0x74, 0x00], &[0x06]];
        for (bytes, made) in
            [(&[0x90, 0x90][..], Some(vec![]))].into_iter().chain(other.map(|bytes| (bytes, None)))
        {
            let mut code = bytes.to_vec();
            assert_eq!(make_osr_exits(&mut code, &[(0..bytes.len() as u32, Some(0))]), made);
            assert_eq!(code, bytes);
        }
    }
}
