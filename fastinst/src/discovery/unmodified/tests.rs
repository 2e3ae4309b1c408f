//! Choices for functions that are known byte by byte, and for whatever is installed.
//!
//! # Safety
//!
//! This module has a function in assembly, which reads and writes registers only.
#![allow(unsafe_code)]

use super::body::Flow;
use super::*;
use crate::discovery::Contents;
use callpatch::x86::RET;
use std::path::Path;
use wordpatch::Granule;

/// This program's own functions: thousands, by a compiler that knows nothing of us.
fn with_own<T>(act: impl FnOnce(Reader<'_, '_>, &Image<'_>) -> T) -> T {
    let contents = Contents::of(Path::new("/proc/self/exe")).unwrap();
    let image = Image::parse(&contents).unwrap();
    let (frames, others, code) = (Frames::of(&image).unwrap(), image.no_functions(), image.code());
    let text = Text { start: CodeAddr::new(code[0].address as usize), bytes: code[0].bytes };
    act(Reader { text, frames: &frames, bias: 0, others: &others }, &image)
}

fn choose<'b>(
    reader: Reader<'_, 'b>,
    reserved: &ByteReservations,
    start: u64,
) -> Result<(Body<'b>, Choice<'b>), Refusal> {
    choose_where(reader, reserved, start, |at| !at.get().is_multiple_of(3))
}

/// With landings that are free.
fn choose_where<'b>(
    reader: Reader<'_, 'b>,
    reserved: &ByteReservations,
    start: u64,
    is_free: impl Fn(CodeAddr) -> bool,
) -> Result<(Body<'b>, Choice<'b>), Refusal> {
    let body = reader.body(CodeAddr::new(start as usize))?;
    let price = |at: CodeAddr| is_free(at).then_some(1);
    let prepared = Prepared::default();
    let (granule, takes_any) = (Granule::default(), true);
    let prepared = &prepared;
    let chooser = Chooser { reader, reserved, prepared, takes_any, price, granule };
    let choice = chooser.choose(&body)?;
    Ok((body, choice))
}

#[test]
fn no_byte_is_switched_that_another_pun_reads() {
    with_own(|reader, image| {
        let mut reserved = ByteReservations::default();
        let mut reservations: Vec<Reservation> = Vec::new();
        let mut timed = 0;
        for start in image.unwind_starts().into_iter().take(4000) {
            let Ok((_, choice)) = choose(reader, &reserved, start) else { continue };
            timed += usize::from(choice.untimed.is_none());
            reservations.extend(choice.reservations());
            choice.reservations().for_each(|reservation| reserved.reserve(reservation));
        }
        assert!(timed > 100, "{timed}");
        // Neighbours are the only ones that can meet.
        reservations.sort_by_key(|reservation| reservation.site());
        assert!(reservations.windows(2).all(|pair| pair[0].agrees(pair[1]) && pair[0] != pair[1]));
    });
}

#[test]
fn what_is_displaced_is_whole_and_leads_behind_itself() {
    with_own(|reader, image| {
        let reserved = ByteReservations::default();
        let (mut whole, mut short) = (0, 0);
        for start in image.unwind_starts().into_iter().take(4000) {
            let Ok((body, choice)) = choose(reader, &reserved, start) else { continue };
            let exits = choice.exits.iter().filter_map(|exit| match exit {
                Exit::Pun(pun) => Some(pun),
                Exit::Padded(_) | Exit::Room(_) | Exit::Turn(_) | Exit::Fall(_) => None,
            });
            let Way::Pun(entry) = &choice.entry.way else { continue };
            for pun in exits.chain([entry]) {
                assert_eq!(pun.moved[0].at, pun.at);
                assert!(pun.moved.windows(2).all(|pair| pair[0].end() == pair[1].at));
                assert!(pun.moved.iter().all(|line| line.movable.is_some() && !line.may_fault));
                assert!(
                    pun.moved[1..]
                        .iter()
                        .all(|line| !body.targets.contains(&line.at) || pun.at == entry.at)
                );
            }
            let last = entry.moved.last().unwrap();
            let len = last.end().distance_from(entry.at);
            // Bytes to which a thread comes back are what they were.
            let is_short = len < 5 && !choice.entry.is_whole() && last.flow != Flow::Jump;
            assert!(!is_short || matches!(entry.leap, Leap::Byte(_)), "{last:?}");
            short += usize::from(is_short);
            whole += usize::from(choice.entry.is_whole());
            // A call that came through the entry comes by all exits.
            let displaced = choice.entry.way.displaced();
            assert!(
                choice.exits.iter().all(|exit| !displaced.contains(&exit.reservation().site()))
            );
        }
        assert!(whole > 0 && short > 0);
    });
}

// Branches lead to both of two returns, of which one has no room behind it.
std::arch::global_asm!(
    ".pushsection .text.two_returns, \"ax\", @progbits",
    ".p2align 4",
    ".globl fastinst_test_two_returns",
    "fastinst_test_two_returns: .cfi_startproc",
    "mov eax, 7",
    "test edi, edi",
    "js 2f",
    "je 3f",
    "mov eax, 9",
    "2: ret",
    "3: ret",
    ".cfi_endproc",
    ".p2align 4",
    ".popsection",
);

unsafe extern "C" {
    safe fn fastinst_test_two_returns(which: i32) -> i32;
}

#[test]
fn a_return_that_leads_on_leads_to_the_site_of_another_one() {
    // It is a function of this program.
    assert_eq!([-1, 0, 1].map(|which| fastinst_test_two_returns(which)), [7, 7, 9]);
    with_own(|reader, image| {
        let reserved = ByteReservations::default();
        let mut falls = 0;
        for start in image.unwind_starts() {
            // No landing is free.
            let Ok((_, choice)) = choose_where(reader, &reserved, start, |_| false) else {
                continue;
            };
            for exit in &choice.exits {
                let Exit::Fall(at) = exit else { continue };
                falls += 1;
                assert_eq!(reader.text.from(*at).unwrap()[..2], [RET, RET]);
                let next = at.offset(1);
                assert!(
                    choice.exits.iter().any(|exit| exit.reservation().site() == next),
                    "{at:?}"
                );
            }
        }
        assert!(falls > 0);
    });
}

#[test]
fn a_jump_that_is_turned_differs_in_its_last_byte() {
    with_own(|reader, image| {
        let reserved = ByteReservations::default();
        let (mut turned, mut whole) = (0, 0);
        for start in image.unwind_starts().into_iter().take(8000) {
            let Ok((_, choice)) = choose(reader, &reserved, start) else { continue };
            let exits = choice.exits.iter().filter_map(|exit| match exit {
                Exit::Turn(turn) => Some(turn),
                Exit::Padded(_) | Exit::Room(_) | Exit::Pun(_) | Exit::Fall(_) => None,
            });
            let entry = match &choice.entry.way {
                Way::Turn(turn) => Some(turn),
                Way::Pun(_) | Way::Room(_) | Way::Call(..) | Way::Own(_) => None,
            };
            whole += usize::from(entry.is_some());
            assert!(entry.is_none() || choice.exits.is_empty());
            for turn in exits.chain(entry) {
                turned += 1;
                let [_, a, b, c, d] = turn.bytes;
                let to = turn.at.offset(5 + i32::from_le_bytes([a, b, c, d]) as isize);
                assert_eq!(to, turn.to);
                let apart = turn.landing().distance_from(turn.to);
                assert!(apart != 0 && apart % (1 << 24) == 0, "{turn:?}");
            }
        }
        assert!(turned > 20 && whole > 0, "{turned} {whole}");
    });
}

#[test]
fn what_one_store_replaces_lies_in_one_instruction_and_in_one_granule() {
    with_own(|reader, image| {
        let reserved = ByteReservations::default();
        let (mut prefixed, mut whole, mut called) = (0, 0, 0);
        for start in image.unwind_starts().into_iter().take(8000) {
            // Few landings are free.
            let is_free = |at: CodeAddr| at.get().is_multiple_of(5);
            let choice = choose_where(reader, &reserved, start, is_free);
            let Ok((_, choice)) = choice else { continue };
            let exits = choice.exits.iter().filter_map(|exit| match exit {
                Exit::Pun(pun) => Some(pun),
                Exit::Padded(_) | Exit::Room(_) | Exit::Turn(_) | Exit::Fall(_) => None,
            });
            let entry = match &choice.entry.way {
                Way::Pun(pun) => Some(pun),
                Way::Own(turn) => {
                    called += 1;
                    let [call, a, b, c, d] = turn.bytes;
                    let to = turn.at.offset(5 + i32::from_le_bytes([a, b, c, d]) as isize);
                    assert_eq!((call, to), (0xe8, turn.to));
                    None
                }
                Way::Turn(_) | Way::Room(_) | Way::Call(..) => None,
            };
            for pun in exits.chain(entry) {
                let changes = match pun.leap {
                    Leap::Byte(_) => 1,
                    Leap::Prefixed(prefixes, _) => {
                        prefixed += 1;
                        assert!(pun.landing().is_some_and(is_free));
                        prefixes + 1
                    }
                    Leap::Whole(_) => {
                        whole += 1;
                        5
                    }
                };
                let first = &pun.moved[0];
                assert!(changes <= first.bytes.len() && pun.at.within(8) + changes <= 8, "{pun:?}");
                assert!(changes == 1 || first.bytes[0] != 0xf0, "{pun:?}");
            }
        }
        assert!(prefixed > 100 && whole > 100 && called > 0, "{prefixed} {whole} {called}");
    });
}

#[test]
fn parts_of_functions_and_linkage_tables_are_no_functions() {
    with_own(|reader, image| {
        for range in image.no_functions().into_iter().filter(|range| range.end - range.start > 1) {
            let start = CodeAddr::new(range.start as usize);
            assert_eq!(reader.body(start).err(), Some(Refusal::NoFunction));
        }
        let inside = image.unwind_starts()[5] + 1;
        assert_eq!(reader.body(CodeAddr::new(inside as usize)).err(), Some(Refusal::NoFunction));
    });
}

#[test]
fn the_prospects_of_a_file_are_told() {
    let module = Module::of_file(Path::new("/proc/self/exe")).unwrap();
    let prospects = prospects(&module).unwrap();
    let timed = prospects.iter().filter(|prospect| prospect.outcome == Ok(None)).count();
    assert!(prospects.len() > 1000 && timed * 2 > prospects.len(), "{timed}");
    assert!(prospects.is_sorted_by_key(|prospect| prospect.address));
}
