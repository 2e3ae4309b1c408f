//! Puns: jumps over the first byte of an instruction, switched while threads execute it.
#![allow(unsafe_code)]

use callpatch::x86::{self, Movable, RET};
use callpatch::{AdoptError, CallSite, Form, Landings, Retarget, RetargetError, Survey, Switch};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering::Relaxed};
use wordpatch::{CodeAddr, CodeMemory, Policy};

/// `push rbx; sub rsp, 0xf0; add rsp, 0xf0; pop rbx; mov eax, 1; ret`
const FUNCTION: [u8; 22] = [
    0x53, 0x48, 0x81, 0xec, 0xf0, 0, 0, 0, 0x48, 0x81, 0xc4, 0xf0, 0, 0, 0, 0x5b, 0xb8, 1, 0, 0, 0,
    RET,
];
/// The size of the moved instructions: the first two.
const MOVED: usize = 8;
const ENTRANCE: usize = 512;
const TRAMPOLINE: usize = 1024;

/// A page of code without other mappings within two gigabytes. Near a page that the system places,
/// the address of the pun's landing, which the bytes of [`FUNCTION`] determine, may be reserved by
/// an allocator for a thread.
fn lonely() -> CodeMemory {
    const FIRST: CodeAddr = CodeAddr::new(0x2000_0000_0000);
    static NEXT: AtomicIsize = AtomicIsize::new(0);
    let place = |()| FIRST.offset(NEXT.fetch_add(1, Relaxed) << 32);
    std::iter::repeat_n((), 64).map(place).find_map(|at| CodeMemory::at(at, 4096).ok()).unwrap()
}

/// A function with a pun at its entry, and a second entrance that pushes itself and jumps into the
/// middle of the pun.
struct Punned {
    /// Never freed, as the landing is not.
    memory: &'static mut CodeMemory,
    site: CallSite,
    count: &'static AtomicU64,
    _landings: Landings,
}

impl Punned {
    fn new() -> Self {
        let count: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let memory = Box::leak(Box::new(lonely()));
        memory.write(0, &FUNCTION);
        let entrance = memory.base().offset(ENTRANCE as isize);
        let into_the_middle = x86::jump(entrance.offset(1), memory.base().offset(1)).unwrap();
        memory.write(ENTRANCE, &[&[0x53], &into_the_middle[..]].concat());
        let trampoline = memory.base().offset(TRAMPOLINE as isize);
        // push rax; mov rax, count; lock inc [rax]; pop rax
        let mut code = vec![0x50, 0x48, 0xb8];
        code.extend_from_slice(&(std::ptr::from_ref(count) as u64).to_le_bytes());
        code.extend_from_slice(&[0xf0, 0x48, 0xff, 0x00, 0x58]);
        for moved in [&FUNCTION[..1], &FUNCTION[1..MOVED]] {
            let at = trampoline.offset(code.len() as isize);
            assert!(Movable::Anywhere(moved).write(memory.base(), at, &mut code));
        }
        let back = memory.base().offset(MOVED as isize);
        code.extend_from_slice(&x86::jump(trampoline.offset(code.len() as isize), back).unwrap());
        memory.write(TRAMPOLINE, &code);
        let bytes = *FUNCTION.first_chunk().unwrap();
        let mut landings = Landings::new(2);
        landings.survey().unwrap();
        landings.put(x86::keeping::pun(memory.base(), bytes), trampoline).unwrap();
        // SAFETY: the test's own function, and a trampoline that does the same.
        let site = unsafe {
            Survey::new(Policy::new().unwrap()).unwrap().adopt_pun(memory.base(), bytes).unwrap()
        };
        Self { memory, site, count, _landings: landings }
    }

    fn function(&self, offset: usize) -> extern "C" fn() -> u32 {
        // SAFETY: a function of that type begins there.
        unsafe { std::mem::transmute(self.memory.base().offset(offset as isize).as_ptr()) }
    }
}

#[test]
fn a_pun_is_off_what_was_there_and_on_a_way_past_the_hook() {
    let punned = Punned::new();
    let function = punned.function(0);
    let mut expected = 0;
    for turn in 0..10 {
        let (to, counts) = if turn % 2 == 0 { (Switch::On, 1) } else { (Switch::Off, 0) };
        punned.site.set(to).unwrap();
        assert_eq!((punned.site.state(), function()), (Some(to), 1));
        expected += counts;
        assert_eq!(punned.count.load(Relaxed), expected);
        // A jump into the middle has the right result, and is not counted.
        assert_eq!((punned.function(ENTRANCE)(), punned.count.load(Relaxed)), (1, expected));
    }
    punned.site.set(Switch::Off).unwrap();
    // SAFETY: the test's own memory.
    let bytes: [u8; FUNCTION.len()] =
        unsafe { std::ptr::read_volatile(punned.memory.base().get() as *const _) };
    assert_eq!(bytes, FUNCTION);
}

#[test]
fn executers_at_both_entrances_see_no_third_thing() {
    let punned = Punned::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for entrance in [0, ENTRANCE] {
            let (function, is_over) = (punned.function(entrance), &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    assert_eq!(function(), 1);
                }
            });
        }
        let mut seen = 0;
        while seen < 300_000 {
            punned.site.set(if seen % 2 == 0 { Switch::On } else { Switch::Off }).unwrap();
            seen += 1;
        }
        is_over.store(true, Relaxed);
    });
}

/// `sub rsp, 0xf0; add rsp, 0xf0; mov eax, 1; ret`: an instruction of seven bytes begins it.
const LONG: [u8; 20] =
    [0x48, 0x81, 0xec, 0xf0, 0, 0, 0, 0x48, 0x81, 0xc4, 0xf0, 0, 0, 0, 0xb8, 1, 0, 0, 0, RET];
/// Its first two instructions.
const LONG_MOVED: usize = 14;

/// A function whose first instruction, while the site is on, begins with a jump with this many
/// prefixes, or is a whole jump; and the counter of its calls then.
fn long(prefixes: Option<usize>) -> (&'static CodeMemory, CallSite, &'static AtomicU64) {
    let count: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let memory = Box::leak(Box::new(lonely()));
    memory.write(0, &LONG);
    let at = memory.base();
    let trampoline = at.offset(TRAMPOLINE as isize);
    // push rax; mov rax, count; lock inc [rax]; pop rax
    let mut code = vec![0x50, 0x48, 0xb8];
    code.extend_from_slice(&(std::ptr::from_ref(count) as u64).to_le_bytes());
    code.extend_from_slice(&[0xf0, 0x48, 0xff, 0x00, 0x58]);
    code.extend_from_slice(&LONG[..LONG_MOVED]);
    let back = at.offset(LONG_MOVED as isize);
    code.extend_from_slice(&x86::jump(trampoline.offset(code.len() as isize), back).unwrap());
    memory.write(TRAMPOLINE, &code);
    let becomes = match prefixes {
        None => x86::jump(at, trampoline).unwrap().to_vec(),
        Some(prefixes) => {
            let bytes = *LONG[prefixes..].first_chunk().unwrap();
            let landing = x86::keeping::pun(at.offset(prefixes as isize), bytes);
            let offset = landing.distance_from(at) as usize;
            if offset < 4000 {
                memory.write(offset, &x86::jump(landing, trampoline).unwrap());
            } else {
                // Never freed.
                let landings = Box::leak(Box::new(Landings::new(2)));
                landings.survey().unwrap();
                landings.put(landing, trampoline).unwrap();
            }
            x86::keeping::prefixed_jump(prefixes)
        }
    };
    let mut survey = Survey::new(Policy::new().unwrap()).unwrap();
    // SAFETY: the test's own function, and a trampoline that does the same.
    let site = unsafe { survey.adopt_beginning(at, &LONG[..becomes.len()], &becomes).unwrap() };
    (memory, site, count)
}

const BEGINNINGS: [Option<usize>; 4] = [None, Some(1), Some(2), Some(3)];

#[test]
fn the_beginning_of_an_instruction_is_off_what_was_there_and_on_a_way_past_the_hook() {
    for prefixes in BEGINNINGS {
        let (memory, site, count) = long(prefixes);
        // SAFETY: a function of that type begins there.
        let function: extern "C" fn() -> u32 =
            unsafe { std::mem::transmute(memory.base().as_ptr()) };
        for turn in 0..10 {
            let to = if turn % 2 == 0 { Switch::On } else { Switch::Off };
            site.set(to).unwrap();
            assert_eq!((site.state(), function()), (Some(to), 1), "{prefixes:?}");
            assert_eq!(count.load(Relaxed), turn / 2 + 1, "{prefixes:?}");
        }
        // SAFETY: the test's own memory.
        let bytes: [u8; LONG.len()] =
            unsafe { std::ptr::read_volatile(memory.base().get() as *const _) };
        assert_eq!(bytes, LONG);
    }
}

#[test]
fn executers_see_no_third_thing_of_a_beginning_that_one_store_replaces() {
    for prefixes in BEGINNINGS {
        let (memory, site, _) = long(prefixes);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                // SAFETY: a function of that type begins there.
                let function: extern "C" fn() -> u32 =
                    unsafe { std::mem::transmute(memory.base().as_ptr()) };
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        assert_eq!(function(), 1);
                    }
                });
            }
            for turn in 0..300_000 {
                site.set(if turn % 2 == 0 { Switch::On } else { Switch::Off }).unwrap();
            }
            is_over.store(true, Relaxed);
        });
    }
}

#[test]
fn what_a_boundary_cuts_is_not_replaced_by_one_store() {
    let memory = Box::leak(Box::new(lonely()));
    memory.write(4, &LONG);
    let at = memory.base().offset(4);
    let adopt = |len: usize| {
        let mut survey = Survey::new(Policy::new().unwrap()).unwrap();
        let becomes = x86::jump(at, at).unwrap();
        // SAFETY: the test's own code; nothing is switched.
        unsafe { survey.adopt_beginning(at, &LONG[..len], &becomes[..len]) }
    };
    assert_eq!(adopt(5).unwrap_err(), AdoptError::Cut { address: at, len: 5 });
    assert!(adopt(4).is_ok());
}

/// `ret`, switched to a nop, and then `inc eax; ret`, so that the test can see it.
#[test]
fn a_return_leads_to_the_next_one_while_it_is_on() {
    const RETURNS: [u8; 9] = [0xb8, 1, 0, 0, 0, RET, 0xff, 0xc0, RET];
    let memory = Box::leak(Box::new(lonely()));
    memory.write(0, &RETURNS);
    // SAFETY: the test's own code, a function of that type; it returns in both states of the site.
    let (site, function) = unsafe {
        let at = memory.base().offset(5);
        let site = Survey::new(Policy::new().unwrap()).unwrap().adopt_return(at).unwrap();
        let function: extern "C" fn() -> u32 = std::mem::transmute(memory.base().as_ptr());
        (site, function)
    };
    for _ in 0..3 {
        assert_eq!((site.state(), function()), (Some(Switch::Off), 1));
        site.set(Switch::On).unwrap();
        assert_eq!((site.state(), function()), (Some(Switch::On), 2));
        site.set(Switch::Off).unwrap();
    }
    let elsewhere = memory.base().offset(6);
    // SAFETY: it is refused.
    let refused = unsafe { Survey::new(Policy::new().unwrap()).unwrap().adopt_return(elsewhere) };
    let expected = AdoptError::NotOff { address: elsewhere, expected: RET, found: 0xff };
    assert_eq!(refused.unwrap_err(), expected);
}

#[test]
fn what_is_not_there_is_not_adopted_and_a_pun_is_not_led_elsewhere() {
    let mut punned = Punned::new();
    let at = punned.memory.base();
    let adopt = |at: CodeAddr, bytes| {
        // SAFETY: the test's own code; nothing is switched.
        unsafe { Survey::new(Policy::new().unwrap()).unwrap().adopt_pun(at, bytes) }
    };
    let other = adopt(at, [0x53, 0x48, 0x81, 0xec, 0xf1]).unwrap_err();
    let expected = AdoptError::NotOff { address: at.offset(4), expected: 0xf1, found: 0xf0 };
    assert_eq!(other, expected);
    let jump = at.offset(ENTRANCE as isize + 1);
    // SAFETY: the test's own memory.
    let bytes = unsafe { std::ptr::read_volatile(jump.get() as *const [u8; 5]) };
    let form = Form::Jump;
    let refused = adopt(jump, bytes).unwrap_err();
    assert!(matches!(refused, AdoptError::Role { form: f, .. } if f == form), "{refused}");
    let mut batch = Retarget::new(Policy::new().unwrap());
    // SAFETY: it is refused.
    let refused = unsafe { batch.push(&mut punned.site, at) };
    assert_eq!(refused, Err(RetargetError::Pun { address: at }));
}
