//! Several threads replace disjoint words in a random layout at the same time: no word ever loses a
//! byte to its neighbour.
#![allow(unsafe_code)]

use std::ops::Range;
use std::time::Duration;
use wordpatch::{Batch, CodeMemory, FetchOrder, Granule, Layout, PatchSite, Policy, Word};

/// The range of the words: a few quadwords on both sides of a line's end.
const PLACE: Range<usize> = 40..104;

/// Disjoint words in `PLACE`, with gaps or without.
fn layout(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<Vec<Range<usize>>> {
    let mut words = Vec::new();
    let mut at = PLACE.start + u.int_in_range(0..=8)?;
    loop {
        let len = u.int_in_range(1..=8)?;
        if at + len > PLACE.end {
            return Ok(words);
        }
        words.push(at..at + len);
        at += len + u.choose(&[0, 0, 0, 1, 3])?;
    }
}

/// A word of `len` bytes, some of which depend on `round`, and the others are zero.
fn word(len: usize, round: usize) -> Word {
    let bytes: Vec<u8> =
        (0..len).map(|i| if (round >> i) & 1 == 0 { round as u8 } else { 0 }).collect();
    Word::new(&bytes).unwrap()
}

/// Replaces `site` repeatedly, in every way, and checks its word each time.
fn replace(site: &PatchSite, rounds: usize) {
    for round in 1..=rounds {
        let word = word(site.len(), round);
        // SAFETY: (1) no thread executes the bytes.
        unsafe {
            match round % 3 {
                0 => site.patch(word).unwrap(),
                1 => site.start(word).unwrap().finish().unwrap(),
                _ => {
                    let mut batch = Batch::new();
                    batch.push(site, word);
                    batch.commit().unwrap();
                }
            }
        }
        assert_eq!(site.read(), word, "in round {round}");
    }
}

#[test]
fn neighbours_keep_their_bytes_in_every_layout() {
    let policy = Policy::new().unwrap();
    arbtest::arbtest(|u| {
        let order = *u.choose(&[FetchOrder::Any, FetchOrder::Upwards])?;
        let granule = *u.choose(&[Granule::QUADWORD, Granule::QUADWORD, Granule::LINE])?;
        let layouts = *u.choose(&[Layout::One, Layout::Any])?;
        let words = layout(u)?;
        let memory = CodeMemory::new(PLACE.end).unwrap();
        let policy = Policy { order, granule, ..policy };
        let adopt = |word: &Range<usize>| {
            // SAFETY: (1) to (4): no thread executes this memory, which lives to the end of this
            // function.
            unsafe {
                PatchSite::adopt(
                    memory.base().offset(word.start as isize),
                    word.len(),
                    layouts,
                    &policy,
                )
            }
            .unwrap()
        };
        let sites: Vec<PatchSite> = words.iter().map(adopt).collect();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let own = sites.iter().skip(thread).step_by(3);
                scope.spawn(move || own.for_each(|site| replace(site, 20)));
            }
        });
        Ok(())
    })
    .budget(Duration::from_secs(4));
}
