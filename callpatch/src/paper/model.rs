//! Every state of a call that a thread can fetch while the literature's strategy toggles it, for
//! all cuts. Each granule is fetched at a time of its own.

use super::*;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

const RET_STUB: CodeAddr = CodeAddr::new(0x5000);
const HOOK: CodeAddr = CodeAddr::new(0x7_1234);

/// The bytes of a call at `address` when off and when on, as `Paper` makes them.
fn encodings(address: CodeAddr, granule: Granule) -> [[u8; 5]; 2] {
    let displacement = Form::Call.displacement(address, HOOK).unwrap();
    let on: [u8; 5] = Form::Call.bytes(displacement).try_into().unwrap();
    let laid = |at: u8, width: Width, encoding: u32| {
        let mut bytes = on;
        let (at, len) = (usize::from(at), width.bytes());
        bytes[at..at + len].copy_from_slice(&encoding.to_le_bytes()[..len]);
        bytes
    };
    match (Paper { granule, ret: RET_STUB }).cut(address, displacement).unwrap() {
        Cut::Whole([off, on]) => [off, on].map(|word| word.bytes().try_into().unwrap()),
        Cut::Part { at, width, encodings } => encodings.map(|encoding| laid(at, width, encoding)),
    }
}

/// The effect of executing these bytes at `address`: the address that the thread continues at, and
/// the kind of control flow.
fn effect(address: CodeAddr, bytes: &[u8]) -> (u64, FlowControl) {
    let instruction =
        Decoder::with_ip(64, bytes, address.get() as u64, DecoderOptions::NONE).decode();
    match instruction.flow_control() {
        FlowControl::Next => (instruction.next_ip(), FlowControl::Next),
        flow => (instruction.near_branch_target(), flow),
    }
}

/// All addresses in two lines, with each granule.
fn places() -> impl Iterator<Item = (CodeAddr, Granule)> {
    [8, 16, 32, 64].into_iter().flat_map(|bytes| {
        (0..128).map(move |at| (CodeAddr::new(0x1000 + at), Granule::new(bytes).unwrap()))
    })
}

#[test]
fn off_an_executer_comes_out_behind_the_call_and_on_in_the_hook() {
    for (address, granule) in places() {
        let [off, on] = encodings(address, granule);
        let behind = address.offset(5).get() as u64;
        assert_eq!(effect(address, &on), (HOOK.get() as u64, FlowControl::Call));
        let expected = match Case::of(address, granule) {
            Case::Uncut => (behind, FlowControl::Next),
            Case::Displacement => (RET_STUB.get() as u64, FlowControl::Call),
            Case::Skip => (behind, FlowControl::UnconditionalBranch),
        };
        assert_eq!(effect(address, &off), expected, "{address} {granule:?}");
    }
}

#[test]
fn no_reader_sees_a_mixture_where_the_granule_is_what_is_fetched() {
    for (address, granule) in places() {
        let encodings = encodings(address, granule);
        let front = granule.cut(address, 5).unwrap_or(5);
        for (a, b) in (0..2).flat_map(|a| (0..2).map(move |b| (a, b))) {
            let view = [&encodings[a][..front], &encodings[b][front..]].concat();
            let seen = effect(address, &view);
            assert!(
                encodings.iter().any(|encoding| effect(address, encoding) == seen),
                "{address} {granule:?}: {view:02x?}"
            );
        }
    }
}

#[test]
fn what_changes_lies_on_one_side_of_the_boundary() {
    for (address, granule) in places() {
        let [off, on] = encodings(address, granule).map(|encoding| Word::new(&encoding).unwrap());
        let changed = off.difference(&on).unwrap();
        assert_eq!(
            granule.cut(address.offset(changed.start as isize), changed.len()),
            None,
            "{address} {granule:?}"
        );
    }
}

#[test]
fn a_granule_that_is_too_large_is_a_tear() {
    // The strategy trusts a line, but the processor fetches aligned quadwords: the literature's
    // assumption, on processors that were measured.
    let torn = (0..64).map(|at| CodeAddr::new(0x1000 + at)).any(|address| {
        let encodings = encodings(address, Granule::LINE);
        let front = Granule::QUADWORD.cut(address, 5).unwrap_or(5);
        let view = [&encodings[0][..front], &encodings[1][front..]].concat();
        encodings.iter().all(|encoding| effect(address, encoding) != effect(address, &view))
    });
    assert!(torn);
}

#[test]
fn a_return_that_is_too_far_is_no_patch() {
    let paper = Paper { granule: Granule::LINE, ret: CodeAddr::new(0x1_0000_0000) };
    assert_eq!(paper.cut(CodeAddr::new(0x103f), 0), None);
    assert!(paper.cut(CodeAddr::new(0x103e), 0).is_some());
}
