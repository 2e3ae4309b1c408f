//! Islands near a module, also in a crowded address space.
#![allow(unsafe_code)]

mod support;

use callpatch::{Form, IslandError, Islands, Role, Slot, Switch, x86};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::Function;
use wordpatch::os::maps;
use wordpatch::os::pages::{self, PAGE, Place, Protection};
use wordpatch::{Barrier, CodeAddr, CodeMemory, Policy};

fn is_near(a: CodeAddr, b: CodeAddr) -> bool {
    i32::try_from(a.distance_from(b)).is_ok()
}

/// One test at a time: each needs the address space for itself.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_site_is_led_over_an_island_to_a_place_out_of_reach() {
    let _alone = alone();
    let function = Function::new(Form::Call, Role::Call, 512);
    let policy = Policy::new().unwrap();
    let mut site = function.adopt(&policy);
    // A hook out of a displacement's reach: mov eax, r11d; ret.
    let far = site.address().offset(-(8 << 30)).align_down(PAGE);
    let mut hook = (0..64)
        .find_map(|n| CodeMemory::at(far.offset(n << 30), PAGE).ok())
        .expect("somewhere is free");
    hook.write(0, &[0x44, 0x89, 0xd8, 0xc3]);
    let mut islands = Islands::near(site.address()..site.address().offset(5)).unwrap();
    let stub = islands.numbered(77, hook.base()).unwrap();
    // SAFETY: (1) the stub leads to a function that returns r11d; (2) the function stays mapped.
    unsafe { site.retarget(stub.address(), &policy) }.unwrap();
    assert_eq!(
        function.call(),
        if is_near(hook.base(), stub.address()) { unreachable!("near") } else { 77 }
    );
    // The stub jumps directly to a near hook.
    let near = islands.numbered(78, function.target(1)).unwrap();
    // SAFETY: as above.
    unsafe { site.retarget(near.address(), &policy) }.unwrap();
    assert_eq!(function.call(), 3);
}

#[test]
fn calls_whose_stubs_lie_as_they_do_are_nops_when_off() {
    let _alone = alone();
    let policy = Policy::new().unwrap();
    // As close together as calls of hooks in a function into which many others were inlined.
    let functions: Vec<Function> =
        (0..2).map(|_| Function::new(Form::Call, Role::Call, 512)).collect();
    let sites: Vec<_> = functions.iter().map(|function| function.adopt(&policy)).collect();
    for (function, mut site) in functions.iter().zip(sites) {
        let span = function.site_at()..function.site_at().offset(1);
        let mut islands = Islands::near(span.clone()).unwrap();
        islands.expect_calls(span, 64);
        let returns = |number: u8| [0xb8, number, 0, 0, 0, 0xc3];
        // Each in a separate lane, since they are stubs of one call.
        let stubs: Vec<CodeAddr> =
            (5..9).map(|n| islands.stub_of_call(&site, 64, |_| returns(n)).unwrap()).collect();
        for (number, &stub) in (5..9).zip(&stubs) {
            // SAFETY: (1) stubs are functions; (2) the function stays mapped.
            unsafe { site.retarget(stub, &policy) }.unwrap();
            assert_eq!(function.call(), number);
            site.set(Switch::Off).unwrap();
            let bytes = [0, 1, 2].map(|at| function.byte(at));
            assert_eq!(bytes, x86::NOP5[..3], "{stub}");
            assert_eq!((function.call(), site.state()), (support::OFF, Some(Switch::Off)));
            // While off, it is retargeted to another hook and back.
            for to in [function.target(1), stub] {
                // SAFETY: as above.
                unsafe { site.retarget(to, &policy) }.unwrap();
                assert_eq!((function.call(), site.state()), (support::OFF, Some(Switch::Off)));
                let is_nop = function.byte(0) == x86::NOP5[0];
                assert_eq!(is_nop, to == stub);
            }
            site.set(Switch::On).unwrap();
            assert_eq!(function.call(), number);
        }
        // A stub that does not fit into lanes is placed elsewhere.
        let long = islands.stub_of_call(&site, 200, |_| returns(9)).unwrap();
        // SAFETY: as above.
        unsafe { site.retarget(long, &policy) }.unwrap();
        site.set(Switch::Off).unwrap();
        assert_eq!((function.call(), function.byte(0)), (support::OFF, 0xa9));
    }
}

#[test]
fn a_page_of_a_lane_is_there_when_it_is_written_to() {
    let _alone = alone();
    let code = CodeMemory::new(64 << 20).unwrap();
    let span = code.base()..code.base().offset(code.len() as isize);
    let mut islands = Islands::near(span.clone()).unwrap();
    islands.expect_calls(span, 100);
    let before = resident();
    let policy = Policy::new().unwrap();
    let function = Function::new(Form::Call, Role::Call, 512);
    let site = function.adopt(&policy);
    // Not one of the announced calls, so it gets no lane.
    let elsewhere = islands.stub_of_call(&site, 6, |_| [0xc3]).unwrap();
    assert_eq!(elsewhere.within(16), 0);
    let mut own = code;
    own.write(0, &Form::Call.bytes(64));
    // SAFETY: (1) to (5): no thread executes the call.
    let site =
        unsafe { callpatch::CallSite::adopt(own.base(), Role::Call, &policy, |_| true) }.unwrap();
    let jump = [&Form::Jump.bytes(0)[..], &[0xc3]].concat();
    let stub = islands.stub_of_call(&site, 6, |_| jump).unwrap();
    // SAFETY: (1) the islands stay mapped; (2) both paths lead to the return; (3) flags do not
    // matter.
    assert!(unsafe { islands.gate(stub) }.is_some());
    assert_eq!((stub.distance_from(own.base()) - 5) & 0xffff, 0x441f);
    assert!(islands.len() > 64 << 20 && resident() < before + (8 << 20), "{} bytes", resident());
}

/// The resident memory of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE
}

#[test]
fn stubs_of_a_loaded_module_lie_near_all_of_it() {
    let _alone = alone();
    let here = CodeAddr::new(is_near as *const () as usize);
    let mappings = maps::mappings().unwrap();
    let path = &maps::mapping_at(here).unwrap().unwrap().path;
    let of_module = || mappings.iter().filter(|mapping| mapping.path == *path);
    let module =
        of_module().map(|m| m.start).min().unwrap()..of_module().map(|m| m.end).max().unwrap();
    let mut islands = Islands::near(module.clone()).unwrap();
    assert!(islands.is_empty());
    for number in 0..20_000 {
        let stub = islands.numbered(number, here).unwrap().address();
        assert!(is_near(stub, module.start) && is_near(module.end, stub) && stub.within(16) == 0);
    }
    assert!(islands.len() < 20_000 * 32 + (1 << 20), "{} bytes", islands.len());
    assert!(islands.reach().contains(&here));
}

#[test]
fn a_slot_leads_a_call_through_memory_elsewhere_by_one_store() {
    let _alone = alone();
    let function = Function::new(Form::CallMemory, Role::Call, 512);
    let policy = Policy::new().unwrap();
    let mut site = function.adopt(&policy);
    let mut islands = Islands::near(site.address()..site.address().offset(6)).unwrap();
    let slots: Vec<Slot> = (0..1500).map(|_| islands.slot(function.hook(0)).unwrap()).collect();
    let distinct: std::collections::BTreeSet<CodeAddr> =
        slots.iter().map(|slot| slot.address()).collect();
    assert!(
        distinct.len() == slots.len()
            && distinct.iter().all(|at| at.within(8) == 0 && is_near(*at, site.address()))
    );
    let slot = slots[700];
    // SAFETY: (1) the slot holds the address of a function; (2) the function stays mapped.
    unsafe { site.retarget(slot.address(), &policy) }.unwrap();
    let before = function.call();
    slot.lead_to(function.hook(1));
    assert_eq!((slot.target(), function.call()), (function.hook(1), 3));
    assert_ne!(before, 3);
    // Later stubs are placed elsewhere.
    let stub = islands.numbered(1, function.hook(0)).unwrap().address();
    assert!(!distinct.contains(&stub) && slot.target() == function.hook(1));
}

#[test]
fn a_stub_can_begin_with_a_switch_of_its_own() {
    let _alone = alone();
    let function = Function::new(Form::Call, Role::Call, 512);
    let policy = Policy::new().unwrap();
    let mut site = function.adopt(&policy);
    let mut islands = Islands::near(site.address()..site.address().offset(5)).unwrap();
    // jmp past; mov eax, 7; ret; past: mov eax, 8; ret
    let code =
        [&Form::Jump.bytes(6)[..], &[0xb8, 7, 0, 0, 0, x86::RET, 0xb8, 8, 0, 0, 0, x86::RET]]
            .concat();
    let stub = islands.stub(code.len(), |_| code.clone()).unwrap().address();
    // SAFETY: (1) the stub is a function; (2) the function stays mapped.
    unsafe { site.retarget(stub, &policy) }.unwrap();
    // SAFETY: (1) the islands stay mapped to the end of the test, and flags are dead at a
    // function's beginning.
    let gate = unsafe { islands.gate(stub) }.unwrap();
    assert_eq!(function.call(), 8);
    gate.set(Switch::Off);
    assert_eq!(function.call(), 7);
    gate.set(Switch::On);
    assert_eq!(function.call(), 8);
    // SAFETY: as above.
    assert!(unsafe { islands.gate(stub.offset(5)) }.is_none(), "not a jump");
}

#[test]
fn a_place_is_used_again_only_behind_a_barrier() {
    let _alone = alone();
    let module = CodeMemory::new(PAGE).unwrap();
    let mut islands = Islands::near(module.base()..module.base().offset(PAGE as isize)).unwrap();
    let ret = |_: CodeAddr| vec![x86::RET];
    let first = islands.stub(1, ret).unwrap();
    let place = first.address();
    // SAFETY: (1) no site ever led there.
    unsafe { islands.give_back(first) };
    assert_ne!(islands.stub(1, ret).unwrap().address(), place);
    assert_eq!(islands.reclaim(Barrier::best().unwrap()).unwrap(), 1);
    assert_ne!(islands.stub(17, ret).unwrap().address(), place, "another room");
    assert_eq!(islands.stub(16, ret).unwrap().address(), place);
    assert_eq!(
        (islands.ret().unwrap(), islands.reclaim(Barrier::best().unwrap()).unwrap()),
        (islands.ret().unwrap(), 0)
    );
    let too_long = islands.stub(1 << 20, ret);
    assert!(matches!(too_long, Err(IslandError::StubTooLong { .. })));
}

/// Reserves all free memory in a range, and releases it on drop.
struct Crowd(Vec<(CodeAddr, usize)>);

impl Crowd {
    fn new(start: usize, end: usize) -> Self {
        let mut crowd = Self(Vec::new());
        let mut at = start;
        let mappings = maps::mappings().unwrap();
        let edges =
            mappings.iter().map(|m| (m.start.get(), m.end.get())).chain([(usize::MAX, usize::MAX)]);
        for (taken, free_again) in edges {
            let until = taken.min(end);
            if until > at {
                crowd.reserve(at, until - at);
            }
            at = at.max(free_again);
        }
        crowd
    }

    fn reserve(&mut self, at: usize, len: usize) {
        // SAFETY: (1) not `Place::Over`.
        match unsafe { pages::map_private(Place::Free(CodeAddr::new(at)), len, Protection::None) } {
            Ok(at) => self.0.push((at, len)),
            // Another thread has mapped memory there: a range larger than an island is retried in
            // halves.
            Err(_) if len > PAGE => {
                let half = (len / 2) & !(PAGE - 1);
                self.reserve(at, half);
                self.reserve(at + half, len - half);
            }
            Err(_) => {}
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for &(at, len) in &self.0 {
            // SAFETY: (1) reserved above, and not used by any other code.
            let _ = unsafe { pages::unmap(at, len) };
        }
    }
}

#[test]
fn a_module_in_a_crowd_is_refused_by_name_and_others_are_not() {
    let _alone = alone();
    // Far from all mappings, so that nothing else of this process needs the space meanwhile.
    let lonely = CodeAddr::new(0x1000_0000_0000);
    let module = CodeMemory::at(lonely, PAGE).unwrap();
    let range = module.base()..module.base().offset(PAGE as isize);
    let reach = Islands::near(range.clone()).unwrap().reach();
    let crowd = Crowd::new(reach.start.get(), reach.end.get());
    let refused = Islands::near(range.clone()).unwrap().ret().unwrap_err();
    assert_eq!(refused, IslandError::Crowded { module: range.clone(), reach, len: 16 * PAGE });
    let message = refused.to_string();
    assert!(
        message.contains("0x100000000000-0x100000001000") && !message.contains('\n'),
        "{message}"
    );
    let elsewhere = CodeMemory::new(PAGE).unwrap();
    Islands::near(elsewhere.base()..elsewhere.base().offset(PAGE as isize)).unwrap().ret().unwrap();
    drop(crowd);
    Islands::near(range).unwrap().ret().unwrap();
}

#[test]
fn the_last_free_place_in_a_crowd_is_found() {
    let _alone = alone();
    let module = CodeMemory::at(CodeAddr::new(0x2000_0000_0000), PAGE).unwrap();
    let range = module.base()..module.base().offset(PAGE as isize);
    let reach = Islands::near(range.clone()).unwrap().reach();
    let hole = reach.start.get() + 0x1234_5000..reach.start.get() + 0x1234_5000 + 16 * PAGE;
    let _below = Crowd::new(reach.start.get(), hole.start);
    let _above = Crowd::new(hole.end, reach.end.get());
    let mut islands = Islands::near(range).unwrap();
    assert!(hole.contains(&islands.ret().unwrap().get()));
}

#[test]
fn a_module_larger_than_a_displacement_is_refused() {
    let _alone = alone();
    let start = CodeAddr::new(0x1000_0000);
    let refused = Islands::near(start..start.offset(3 << 30)).unwrap_err();
    assert!(matches!(refused, IslandError::TooLarge(_)), "{refused}");
}
