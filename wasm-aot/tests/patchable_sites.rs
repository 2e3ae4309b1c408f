//! Patchable sites count the same as the program itself, at every place, in every variant of the
//! code, while they are switched on and off.

#[path = "counts/programs.rs"]
mod programs;

use programs::{PROGRAMS, call_all, check_arbitrary, instantiate, spelled_out};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use wasm_aot::probe::{Place, ProbeId, Probes};
use wasm_aot::{Config, Engine, Linker, Module, Sites, Store, Val};

fn engine(sites: Sites) -> Engine {
    Engine::new(Config::new().sites(sites)).expect("an engine")
}

fn exported(module: &Module) -> Vec<String> {
    let functions =
        module.exports().filter(|export| matches!(export.ty, wasm_aot::ExternType::Func(_)));
    functions.map(|export| export.name.to_owned()).collect()
}

/// Compares counters at all instructions, and flags, with the program's own counts; returns whether
/// any instruction was executed.
fn check(bytes: &[u8], is_attached: bool) -> bool {
    let engine = engine(Sites::ALL);
    let Ok(module) = Module::new(&engine, bytes) else { return false };
    let names = exported(&module);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(expected) = spelled_out(bytes, &names) else { return false };
    if module.patchable_sites() == 0 {
        return false;
    }
    let imported = module
        .imports()
        .filter(|import| matches!(import.ty, wasm_aot::ExternType::Func(_)))
        .count() as u32;
    let (counters, flags) = (Probes::new(&module), Probes::new(&module));
    let place =
        |(function, offset): (usize, u32)| Place::before(imported + function as u32, offset);
    for (at, _) in &expected {
        counters.count(place(*at)).expect("a site, or a version with flags");
    }
    if is_attached {
        module.attach_counts().expect("memory");
    }
    let marks: Vec<ProbeId> =
        expected.iter().map(|(at, _)| flags.flag(place(*at)).expect("a place")).collect();
    let (mut store, instance) = instantiate(&engine, &module);
    if let Some(instance) = instance {
        call_all(&mut store, instance, &names);
    }
    for ((at, count), mark) in expected.iter().zip(marks) {
        assert_eq!(counters.counted(place(*at)), *count, "function {} +{}", at.0, at.1);
        assert_eq!(flags.is_flagged(mark), *count > 0, "function {} +{}", at.0, at.1);
    }
    expected.iter().any(|(_, count)| *count > 0)
}

#[test]
fn sites_before_every_instruction_count_what_a_program_executes() {
    for (what, text) in PROGRAMS {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        for is_attached in [false, true] {
            assert!(check(&bytes, is_attached), "{what}: nothing was executed");
        }
    }
}

#[test]
fn sites_of_arbitrary_programs_count_what_they_execute() {
    check_arbitrary(1 << 12, |bytes| check(bytes, false));
}

/// One call, two branches, and two accesses in a loop that the host ends.
const LOOP: &str = r#"(module (import "host" "more" (func $more (result i32))) (memory 1)
    (func (export "f") (result i32) (local $n i32)
        (loop $l
            (if (i32.and (local.get $n) (i32.const 1)) (then (i32.store (i32.const 0) (i32.load (i32.const 4)))))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $l (call $more)))
        (local.get $n)))"#;

#[test]
fn every_policy_leaves_the_sites_that_it_names() {
    let expected = [
        (Sites::NONE, [0, 0, 0, 0]),
        (Sites::FUNCTIONS, [1, 0, 0, 0]),
        (Sites::LOOPS, [2, 1, 0, 0]),
        (Sites::CALLS, [3, 1, 1, 1]),
        (Sites::BRANCHES, [4, 1, 2, 2]),
        (Sites::MEMORY, [4, 1, 2, 2]),
        (Sites::CALLS | Sites::MEMORY, [5, 1, 3, 3]),
        (Sites::ALL, [8, 1, 6, 19]),
    ];
    for (sites, counts) in expected {
        let module = Module::new(&engine(sites), LOOP).expect("a module");
        let found = [
            module.sites(),
            module.loop_sites(),
            module.patchable_sites(),
            module.patchable_instructions(),
        ];
        assert_eq!(found, counts, "{sites:?}");
    }
}

/// Runs that program for a number of turns, with a call of `turn` in each. Returns the number of
/// turns.
fn run(
    module: &Module,
    engine: &Engine,
    turns: i32,
    turn: impl Fn(i32) + Send + Sync + 'static,
) -> i32 {
    let mut linker = Linker::new(engine);
    let count = AtomicI32::new(0);
    let more = move || {
        let now = count.fetch_add(1, Relaxed) + 1;
        turn(now);
        i32::from(now < turns)
    };
    linker.func_wrap("host", "more", more).expect("the only one");
    let mut store = Store::new(engine, ());
    let instance = linker.instantiate(&mut store, module).expect("an instance");
    let results = instance
        .get_func(&mut store, "f")
        .expect("exported")
        .call(&mut store, &[])
        .expect("no trap");
    match results[..] {
        [Val::I32(turns)] => turns,
        _ => panic!("{results:?}"),
    }
}

/// The places of the call and of the branch after it.
fn call_and_branch() -> [Place; 2] {
    let bytes = wat::parse_str(LOOP).expect("text");
    let body = bytes
        .windows(4)
        .position(|code| code == [0x10, 0x00, 0x0D, 0x00])
        .expect("the call and the branch");
    let start = bytes
        .windows(3)
        .position(|code| code == [0x01, 0x01, 0x7F])
        .expect("the body begins with its local");
    let offset = (body - start) as u32;
    [Place::before(1, offset), Place::before(1, offset + 2)]
}

#[test]
fn what_is_switched_off_and_on_counts_in_between_at_once_in_whatever_version() {
    let engine = engine(Sites::CALLS | Sites::BRANCHES);
    let module = Module::new(&engine, LOOP).expect("a module");
    let probes = Probes::new(&module);
    let [call, branch] = call_and_branch();
    let ids = [probes.count(call).expect("a site"), probes.count(branch).expect("a site")];
    let (own, observed) = (probes.clone(), module.clone());
    let turns = run(&module, &engine, 1_000, move |turn| match turn {
        100 => own.switch(&ids, false),
        200 => own.switch(&ids[..1], true),
        300 => observed.attach_counts().expect("memory"),
        400 => own.switch(&ids[1..], true),
        500 => observed.detach_counts(),
        600 => assert!(own.remove(ids[0]) && !own.remove(ids[0])),
        _ => {}
    });
    assert_eq!(turns, 1_000);
    // The call has begun when it is switched, the branch after it has not.
    assert_eq!(probes.counted(call), 100 + 400);
    assert_eq!(probes.counted(branch), 99 + 601);
}

#[test]
fn probes_of_several_owners_share_a_site_and_a_flag_is_set_once() {
    let engine = engine(Sites::CALLS);
    let module = Module::new(&engine, LOOP).expect("a module");
    let (one, other) = (Probes::new(&module), Probes::new(&module));
    let [call, _] = call_and_branch();
    let first = one.count(call).expect("a site");
    let second = other.count(call).expect("a site");
    // A site that counts may be a flag, too.
    let flag = other.flag(call).expect("a site");
    assert_eq!(run(&module, &engine, 10, |_| {}), 10);
    assert!(one.remove(first));
    assert_eq!(run(&module, &engine, 10, |_| {}), 10);
    assert!(other.remove(second));
    assert_eq!(run(&module, &engine, 10, |_| {}), 10);
    assert_eq!((one.counted(call), other.is_flagged(flag)), (20, true));
    // A new flag at a flagged place is set again.
    let again = one.flag(call).expect("a site");
    assert!(!one.is_flagged(again));
    run(&module, &engine, 1, |_| {});
    assert!(one.is_flagged(again));
}

/// A load, and the code after it: six instructions that are executed together if it does not trap,
/// and an access that traps in the end.
const TRAPS: &str = r#"(module (memory 1)
    (func (export "f") (param $at i32) (result i32) (local $sum i32)
        (loop $l
            (local.set $sum (i32.add (local.get $sum) (i32.load (local.get $at))))
            (local.set $sum (i32.add (local.get $sum) (i32.div_u (i32.const 7) (i32.const 2))))
            (local.set $at (i32.add (local.get $at) (i32.const 16384)))
            (br_if $l (i32.lt_u (local.get $at) (i32.const 1000000))))
        (local.get $sum)))"#;

#[test]
fn instructions_that_are_executed_together_share_a_site() {
    let of = |text: &str| {
        let module = Module::new(&engine(Sites::ALL), text).expect("a module");
        (module.patchable_instructions(), module.patchable_sites())
    };
    let within = |body: &str| of(&format!("(module (memory 1) (func $f (param i32 i32) {body}))"));
    let added = "(local.set 0 (i32.add (local.get 0) (local.get 1)))";
    // Each function has an end.
    assert_eq!(within(added), (4 + 1, 1));
    assert_eq!(within(&added.repeat(3)), (12 + 1, 1));
    assert_eq!(within(&format!("{added} (block {added}) {added}")), (12 + 3, 1));
    // An instruction that may trap, call or branch is the last of those that share its site.
    assert_eq!(within("(i32.store (local.get 0) (i32.load (local.get 1)))"), (4 + 1, 3));
    assert_eq!(
        within(&format!("{added} (call $f (local.get 0) (local.get 1)) {added}")),
        (8 + 4, 2)
    );
    // At branch targets another shared site begins.
    assert_eq!(
        within(&format!("{added} (block (br_if 0 (local.get 0)) {added}) {added}")),
        (12 + 5, 3)
    );
    assert_eq!(within(&format!("{added} (loop {added})")), (8 + 3, 2));
    assert_eq!(
        within(&format!("(if (local.get 0) (then {added}) (else {added})) {added}")),
        (12 + 5, 4)
    );
}

#[test]
fn sites_that_instructions_share_count_what_code_that_counts_does_when_something_traps() {
    for sites in [Sites::ALL, Sites::MEMORY | Sites::BRANCHES, Sites::CALLS] {
        let engine = engine(sites);
        let module = Module::new(&engine, TRAPS).expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let f = instance.get_func(&mut store, "f").expect("exported");
        module.attach_counts().expect("memory");
        let probes = Probes::new(&module);
        let counts = module.counts().expect("attached");
        let of = |function: wasm_aot::FunctionCounts<'_>| {
            let at = |one: wasm_aot::InstructionCount<'_>| {
                (Place::before(function.index(), one.offset), one.count)
            };
            function.instructions().into_iter().map(at).collect::<Vec<_>>()
        };
        let places: Vec<Place> = counts.functions().flat_map(of).map(|(place, _)| place).collect();
        places.iter().for_each(|place| assert!(probes.count(*place).is_ok()));
        for at in [0, 65_533, 60_000, 70_000] {
            assert!(f.call(&mut store, &[Val::I32(at)]).is_err(), "{at} leads out of the memory");
        }
        let counts = module.counts().expect("attached");
        for (place, count) in counts.functions().flat_map(of) {
            assert_eq!(probes.counted(place), count, "{sites:?} {place:?}");
        }
        let loads = places.iter().map(|place| probes.counted(*place)).collect::<Vec<_>>();
        assert_eq!(loads.iter().max(), Some(&(5 + 1 + 2 + 1)), "{sites:?}");
    }
}

#[test]
fn who_wants_something_of_one_instruction_does_not_notice_who_wants_something_of_another() {
    let engine = engine(Sites::ALL);
    let module = Module::new(&engine, LOOP).expect("a module");
    let probes = Probes::new(&module);
    let [call, _] = call_and_branch();
    // The instruction that sets the counter, and the call of the next turn: no branch and no trap
    // comes between them.
    let set = Place::before(call.function, call.offset - 2);
    let go = |turns| assert_eq!(run(&module, &engine, turns, |_| {}), turns);
    let early = probes.flag(set).expect("a site");
    let counter = probes.count(call).expect("a site");
    go(3);
    let late = probes.flag(set).expect("a site");
    assert_eq!(
        (probes.is_flagged(early), probes.is_flagged(late), probes.counted(call)),
        (true, false, 3)
    );
    probes.switch(&[counter], false);
    go(5);
    assert_eq!((probes.is_flagged(late), probes.counted(call), probes.counted(set)), (true, 3, 0));
    // The flags have switched the site off; it counts again for a later counter.
    probes.switch(&[counter], true);
    let other = probes.count(set).expect("a site");
    go(7);
    assert!(probes.remove(other) && probes.remove(early));
    go(11);
    assert_eq!((probes.counted(call), probes.counted(set)), (3 + 7 + 11, 7));
    // A flag that is switched off before it was reached is not set.
    let unseen = probes.flag(set).expect("a site");
    probes.switch(&[unseen], false);
    go(1);
    assert!(!probes.is_flagged(unseen) && probes.is_flagged(late));
    probes.switch(&[unseen], true);
    go(1);
    assert!(probes.is_flagged(unseen));
}

#[test]
fn sites_that_are_switched_all_the_time_change_nothing_and_tear_nothing() {
    let engine = engine(Sites::ALL);
    let module = Module::new(&engine, LOOP).expect("a module");
    let probes = Probes::new(&module);
    let [call, branch] = call_and_branch();
    let ids = [call, branch].map(|place| probes.count(place).expect("a site"));
    let always = Probes::new(&module);
    let load = Place::before(1, 14);
    let over = Arc::new(AtomicBool::new(false));
    let storm = std::thread::spawn({
        let (over, probes, module) = (Arc::clone(&over), probes.clone(), module.clone());
        move || {
            let mut switches = 0_u64;
            while !over.load(Relaxed) {
                probes.switch(&ids, switches % 2 == 1);
                if switches.is_multiple_of(512) {
                    module.attach_counts().expect("memory");
                    module.detach_counts();
                }
                let flag = switches.is_multiple_of(64).then(|| probes.flag(load));
                if let Some(Ok(flag)) = flag {
                    probes.remove(flag);
                }
                switches += 1;
            }
            switches
        }
    });
    let counted = always.count(branch).expect("a site");
    let begun = std::time::Instant::now();
    let mut turns = 0;
    while begun.elapsed().as_millis() < 500 {
        turns += u64::from(run(&module, &engine, 10_000, |_| {}).cast_unsigned());
    }
    over.store(true, Relaxed);
    assert!(storm.join().expect("no panic") > 100);
    // The other owner counts it all the time.
    assert_eq!(always.counted(branch), turns);
    assert!(always.remove(counted));
}

#[test]
fn what_lies_behind_a_functions_end_is_no_place_of_it() {
    let engine = engine(Sites::ALL);
    let module =
        Module::new(&engine, "(module (func nop nop) (func nop nop nop))").expect("a module");
    let probes = Probes::new(&module);
    let taken = |function: u32| {
        (0..64)
            .chain([u32::MAX])
            .filter(|at| probes.count(Place::before(function, *at)).is_ok())
            .count()
    };
    assert_eq!((taken(0), taken(1)), (3, 4));
}
