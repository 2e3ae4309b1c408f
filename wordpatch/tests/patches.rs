//! Batches, pending patches, and refusals.
#![allow(unsafe_code)]

mod support;

use support::{Function, OTHER, patch, returning, start};
use wordpatch::{
    AdoptError, Barrier, Batch, CodeAddr, CodeMemory, FetchOrder, Layout, PatchError, PatchSite,
    Phase, Policy, Ticks, Word,
};

fn policy() -> Policy {
    Policy::new().unwrap()
}

/// The batch that makes every function return its number.
fn batch<'a>(edits: &[(&'a PatchSite, Word)]) -> Batch<'a> {
    let mut batch = Batch::with_capacity(edits.len());
    for &(site, word) in edits {
        // SAFETY: (1) `mov eax, imm32` replaces the same, or the word is refused.
        unsafe { batch.push(site, word) };
    }
    batch
}

#[test]
fn a_thousand_straddlers_pass_one_barrier_for_each_phase() {
    for (order, barriers) in [(FetchOrder::Upwards, 1), (FetchOrder::Any, 2)] {
        let policy = Policy { order, ..policy() };
        let functions: Vec<Function> = (0..1000).map(|_| Function::new()).collect();
        let mut survey = wordpatch::Survey::new(policy).unwrap();
        // SAFETY: (1) to (4): the test's own functions.
        let adopt = |f: &Function| unsafe { survey.adopt(f.address(), 5, Layout::One) }.unwrap();
        let sites: Vec<PatchSite> = functions.iter().map(adopt).collect();
        let edits: Vec<(&PatchSite, Word)> =
            sites.iter().map(|site| (site, returning(OTHER))).collect();
        let done = batch(&edits).commit().unwrap();
        assert_eq!((done.at_once, done.behind_traps, done.barriers), (0, 1000, barriers));
        assert!(functions.iter().all(|function| function.call() == OTHER));
    }
}

#[test]
fn a_batch_that_cannot_have_one_site_changes_none() {
    let functions = [Function::new(), Function::new(), Function::new()];
    let sites = functions.each_ref().map(|function| function.adopt(&policy()));
    let whole =
        |last: Word| [(&sites[0], returning(OTHER)), (&sites[1], returning(2)), (&sites[2], last)];
    let untouched = || functions[..2].iter().all(|function| function.call() == 1);

    let too_long = Word::new(&[0; 6]).unwrap();
    let refused = batch(&whole(too_long)).commit();
    assert!(
        matches!(refused, Err(PatchError::Length { expected: 5, found: 6, .. })) && untouched(),
        "{refused:?}"
    );

    let pending = start(&sites[2], OTHER).unwrap();
    let refused = batch(&whole(returning(3))).commit();
    assert!(matches!(refused, Err(PatchError::Contended { .. })) && untouched(), "{refused:?}");
    pending.finish().unwrap();

    let twice = [(&sites[0], returning(OTHER)), (&sites[0], returning(OTHER))];
    assert!(batch(&twice).commit().is_err() && untouched());
    batch(&whole(returning(3))).commit().unwrap();
    assert_eq!(functions.each_ref().map(Function::call), [OTHER, 2, 3]);
}

#[test]
fn hundreds_of_patches_are_finished_in_the_background() {
    let functions: Vec<Function> = (0..300).map(|_| Function::new()).collect();
    let sites: Vec<PatchSite> =
        functions.iter().map(|function| function.adopt(&policy())).collect();
    sites.iter().for_each(|site| start(site, OTHER).unwrap().finish_in_background());
    while sites.iter().any(|site| site.phase() != Phase::Idle) {
        std::thread::yield_now();
    }
    assert!(functions.iter().all(|function| function.call() == OTHER));
}

#[test]
fn a_pending_patch_that_is_dropped_is_finished() {
    let function = Function::new();
    let site = function.adopt(&policy());
    drop(start(&site, OTHER).unwrap());
    assert_eq!((site.phase(), function.call()), (Phase::Idle, OTHER));
}

#[test]
fn polling_does_not_wait_for_a_wait() {
    let long =
        Policy { barrier: Barrier::Wait(Ticks(u64::MAX)), order: FetchOrder::Any, ..policy() };
    let function = Function::new();
    let site = function.adopt(&long);
    let mut pending = start(&site, OTHER).unwrap();
    assert_eq!(
        (pending.poll(), pending.poll(), function.call()),
        (Ok(Phase::Trapped), Ok(Phase::Trapped), 1)
    );
    std::mem::forget(pending);

    let short = Policy { barrier: Barrier::Wait(Ticks(1)), ..long };
    let function = Function::new();
    let site = function.adopt(&short);
    let mut pending = start(&site, OTHER).unwrap();
    while pending.poll().unwrap() != Phase::Idle {}
    assert_eq!(function.call(), OTHER);
}

#[test]
fn what_a_thread_has_left_behind_another_takes_up() {
    let function = &Function::new();
    let site = &function.adopt(&policy());
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(start(site, OTHER).unwrap()));
    });
    assert_eq!((site.phase(), function.call()), (Phase::Trapped, 1));
    assert_eq!(patch(site, OTHER), Err(PatchError::Contended { address: site.address() }));
    site.resume().unwrap().finish().unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn neighbours_in_one_quadword_never_lose_a_patch() {
    // Three and five bytes, which no single store of exactly these bytes can write.
    let memory = CodeMemory::new(64).unwrap();
    let adopt = |at: isize, len| {
        // SAFETY: (1) to (4): no thread executes this memory.
        unsafe { PatchSite::adopt(memory.base().offset(at), len, Layout::One, &policy()) }.unwrap()
    };
    let sites = [adopt(8, 3), adopt(11, 5)];
    std::thread::scope(|scope| {
        for site in &sites {
            scope.spawn(move || {
                for round in 0..20_000u32 {
                    let word = Word::new(&vec![round as u8; site.len()]).unwrap();
                    // SAFETY: (1) no thread executes the bytes.
                    unsafe { site.patch(word) }.unwrap();
                    assert_eq!(site.read(), word, "a neighbour took it back");
                }
            });
        }
    });
}

/// The error of adopting `len` bytes at `address`.
fn refused(address: CodeAddr, len: usize) -> AdoptError {
    // SAFETY: (1) to (4): no thread executes these bytes; the adoption is refused.
    unsafe { PatchSite::adopt(address, len, Layout::One, &policy()) }.unwrap_err()
}

#[test]
fn what_is_no_code_is_refused_by_address() {
    static DATA: [u8; 16] = [0; 16];
    let memory = CodeMemory::new(4096).unwrap();
    let end = memory.base().offset(4096 - 2);
    assert_eq!(refused(CodeAddr::new(0), 5), AdoptError::Null);
    assert_eq!(refused(CodeAddr::new(16), 5), AdoptError::Unmapped { address: CodeAddr::new(16) });
    for len in [0, 9, usize::MAX] {
        assert_eq!(refused(memory.base(), len), AdoptError::Length { address: memory.base(), len });
    }
    let data = CodeAddr::from_ptr(DATA.as_ptr());
    assert!(matches!(refused(data, 5), AdoptError::NotCode { address, .. } if address == data));
    // After the page there may be any mapping except more of this code.
    let crossing = refused(end, 5);
    assert!(
        matches!(crossing, AdoptError::Unmapped { .. } | AdoptError::NotCode { .. }),
        "{crossing}"
    );
    for error in [refused(CodeAddr::new(0), 5), refused(data, 5), crossing] {
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn overlapping_patches_in_progress_are_distinguished_from_contended_ones() {
    let function = Function::new();
    let site = function.adopt(&policy());
    // SAFETY: (1) to (4): no thread executes the function while this site is patched.
    let overlapping =
        unsafe { PatchSite::adopt(function.address().offset(1), 4, Layout::One, &policy()) }
            .unwrap();
    let pending = start(&site, OTHER).unwrap();
    // SAFETY: (1) refused.
    let overlap = unsafe { overlapping.patch(Word::new(&[9, 9, 9, 9]).unwrap()) };
    assert_eq!(overlap, Err(PatchError::Overlap { address: overlapping.address(), len: 4 }));
    assert_eq!(patch(&site, 3), Err(PatchError::Contended { address: site.address() }));
    pending.finish().unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn bytes_that_other_code_wrote_meanwhile_are_reported_and_kept() {
    let mut memory = CodeMemory::new(4096).unwrap();
    memory.write(62, &[0xb8, 1, 0, 0, 0, 0xc3]);
    // SAFETY: (1) to (4): no thread executes the function.
    let site =
        unsafe { PatchSite::adopt(memory.base().offset(62), 5, Layout::One, &policy()) }.unwrap();
    let pending = start(&site, OTHER).unwrap();
    memory.write(62, &[0x90]);
    match pending.finish() {
        Err(PatchError::Foreign { address, expected, found }) => {
            assert_eq!(
                (address, expected.bytes(), found.bytes()),
                (site.address(), &[0xcc, 0xcc][..], &[0x90, 0xcc][..])
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((site.read().bytes()[0], site.phase()), (0x90, Phase::Idle));
}
