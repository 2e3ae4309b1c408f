//! Storm tests of each consistency rule: threads run a program, another thread changes its probes
//! at random, and an invariant always holds.

#[path = "storms/weather.rs"]
mod weather;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, LocalKey};
use wasm_aot::monitor::{Choices, MonitorSet};
use wasm_aot::probe::{FrameId, Place, Probe, ProbeId, probe};
use wasm_aot::{Config, Engine, Error, Module, Val};
use weather::{Company, Setting, call, number, sum};

/// Adds up 1 to n. One place before and one after an addition in a function, one after its call in
/// a loop.
const PROGRAM: &str = r#"(module
    (func $inner (param i32) (result i32) (nop) (i32.add (local.get 0) (i32.const 1)) (nop))
    (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
        (loop $again
            (local.set $s (i32.add (local.get $s) (call $inner (local.get $i))))
            (nop)
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $s)))"#;

/// The result of `f` for 50.
const SUM: i32 = 50 * 51 / 2;

type Number = LocalKey<Cell<u64>>;

fn add(to: &'static Number, more: u64) {
    to.set(to.get() + more);
}

/// A probe that calls `what`, and reads nothing.
fn does(name: &str, what: impl Fn() + Send + Sync + 'static) -> Arc<dyn Probe> {
    probe(name, move |_| {
        what();
        Ok(())
    })
}

/// A probe that counts in a variable of the thread that created it.
fn counts_here(number: &'static Number) -> Arc<dyn Probe> {
    let own = thread::current().id();
    does("counts here", move || add(number, u64::from(thread::current().id() == own)))
}

/// A probe that checks an expectation about a number of its thread.
fn expects(
    what: &str,
    of: &'static Number,
    expected: impl Fn() -> u64 + Send + Sync + 'static,
) -> Arc<dyn Probe> {
    let name = what.to_owned();
    probe(what, move |_| match (of.get(), expected()) {
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(format!("{name}: {found} instead of {expected}")),
    })
}

#[test]
fn whoever_was_inserted_first_fires_first() {
    thread_local!(static LAST: Cell<u64> = const { Cell::new(0) });
    let setting = Setting::new(PROGRAM);
    let nop = setting.before("nop", 0);
    let begins = does("begins", || LAST.set(0));
    setting.probes.insert(nop, begins).expect("a place");
    let (mut company, mut numbered, mut next) = (Company::default(), Vec::new(), 0_u64);
    let storm = |dice: &mut weather::Dice| {
        next += 1;
        let number = next;
        let follows = probe("follows", move |frame| match frame.place() == nop {
            true if LAST.get() < number => {
                LAST.set(number);
                Ok(())
            }
            true => Err(format!("{number} behind {}", LAST.get())),
            false => Ok(()),
        });
        numbered.push(match dice.roll(4) {
            0 => setting.probes.insert_everywhere(follows).expect("places"),
            _ => setting.probes.insert(nop, follows).expect("a place"),
        });
        setting.probes.switch(&numbered[dice.roll(numbered.len())..], dice.roll(3) != 0);
        if numbered.len() > 5 {
            assert!(setting.probes.remove(numbered.remove(dice.roll(5))));
        }
        company.turn(&setting, dice);
    };
    setting.storm(storm, |store, instance| {
        assert_eq!(call(store, instance, 50).expect("in order"), SUM);
    });
}

#[test]
fn the_same_probe_twice_fires_twice_whoever_comes_and_goes_beside_it() {
    thread_local!(static FIRED: Cell<u64> = const { Cell::new(0) });
    let setting = Setting::new(PROGRAM);
    let [nop, behind] = [0, 1].map(|n| setting.before("nop", n));
    let twice = does("twice", || add(&FIRED, 1));
    for _ in 0..2 {
        setting.probes.insert(nop, Arc::clone(&twice)).expect("a place");
    }
    setting.probes.insert(behind, expects("twice", &FIRED, || 2)).expect("a place");
    let resets = does("resets", || FIRED.set(0));
    setting.probes.insert(behind, resets).expect("a place");
    let mut company = Company::default();
    setting.storm(
        |dice| company.turn(&setting, dice),
        |store, instance| assert_eq!(call(store, instance, 50).expect("twice"), SUM),
    );
}

#[test]
fn a_change_where_it_fires_holds_from_the_next_time_on_in_every_thread() {
    thread_local! {
        static OWN: RefCell<Option<ProbeId>> = const { RefCell::new(None) };
        static FIRED: Cell<u64> = const { Cell::new(0) };
        static EXPECTED: Cell<u64> = const { Cell::new(0) };
    }
    let setting = Setting::new(PROGRAM);
    let [nop, behind] = [0, 1].map(|n| setting.before("nop", n));
    let probes = setting.probes.clone();
    // Every other time each thread inserts a probe after this one; the next time it is removed, and
    // fires once more.
    let changes = probe("changes", move |frame| {
        FIRED.set(0);
        match OWN.take() {
            None => {
                let id = probes
                    .insert(frame.place(), counts_here(&FIRED))
                    .map_err(|error| error.to_string())?;
                OWN.set(Some(id));
                EXPECTED.set(0);
            }
            Some(id) => {
                assert!(probes.remove(id));
                EXPECTED.set(1);
            }
        }
        Ok(())
    });
    setting.probes.insert(nop, changes).expect("a place");
    setting.probes.insert(behind, expects("fired", &FIRED, || EXPECTED.get())).expect("a place");
    let mut company = Company::default();
    setting.storm(
        |dice| company.turn(&setting, dice),
        |store, instance| assert_eq!(call(store, instance, 50).expect("later"), SUM),
    );
}

#[test]
fn a_change_elsewhere_holds_at_once_in_this_activation_and_in_its_caller() {
    thread_local! {
        static OWN: RefCell<Vec<ProbeId>> = const { RefCell::new(Vec::new()) };
        static FIRED: Cell<u64> = const { Cell::new(0) };
    }
    let setting = Setting::new(PROGRAM);
    let [nop, behind, in_caller] = [0, 1, 2].map(|n| setting.before("nop", n));
    let probes = setting.probes.clone();
    let inserts = probe("inserts", move |_| {
        FIRED.set(0);
        for place in [behind, in_caller] {
            let id =
                probes.insert(place, counts_here(&FIRED)).map_err(|error| error.to_string())?;
            OWN.with_borrow_mut(|own| own.push(id));
        }
        Ok(())
    });
    // Before the calls: the probe of the turn before is removed, and does not fire any more.
    let removes = {
        let probes = setting.probes.clone();
        probe("removes", move |_| {
            OWN.take()
                .into_iter()
                .all(|id| probes.remove(id))
                .then_some(())
                .ok_or("it was not there".into())
        })
    };
    setting.probes.insert(nop, inserts).expect("a place");
    setting
        .probes
        .insert(setting.before("local.tee", 0), expects("fired", &FIRED, || 2))
        .expect("a place");
    setting.probes.insert(setting.before("local.tee", 0), removes).expect("a place");
    let mut company = Company::default();
    setting.storm(
        |dice| company.turn(&setting, dice),
        |store, instance| assert_eq!(call(store, instance, 50).expect("at once"), SUM),
    );
}

#[test]
fn what_a_probe_writes_is_seen_by_the_next_one_and_by_the_program_whether_or_not_it_is_there() {
    thread_local! {
        static WROTE: Cell<u64> = const { Cell::new(0) };
        static ALL: Cell<u64> = const { Cell::new(0) };
    }
    let setting = Setting::new(PROGRAM);
    let [nop, behind] = [0, 1].map(|n| setting.before("nop", n));
    let begins = does("begins", || WROTE.set(0));
    let writes = probe("writes", |frame| {
        add(&WROTE, 1);
        add(&ALL, 1);
        let given = number(frame.operand(0));
        frame.set_operand(0, &Val::I32(given + 1_000))
    });
    let reads = probe("reads", |frame| {
        let expected = number(frame.local(0)) + 1 + 1_000 * WROTE.get() as i32;
        (number(frame.operand(0)) == expected)
            .then_some(())
            .ok_or_else(|| format!("{:?} instead of {expected}", frame.operand(0)))
    });
    setting.probes.insert(nop, begins).expect("a place");
    let writers: Vec<ProbeId> = (0..3)
        .map(|_| setting.probes.insert(behind, Arc::clone(&writes)).expect("a place"))
        .collect();
    setting.probes.insert(behind, reads).expect("a place");
    let mut company = Company::default();
    let storm = |dice: &mut weather::Dice| {
        setting.probes.switch(&writers[dice.roll(3)..], dice.roll(2) == 1);
        company.turn(&setting, dice);
    };
    setting.storm(storm, |store, instance| {
        ALL.set(0);
        let result = call(store, instance, 50).expect("as it was written");
        assert_eq!(result, SUM + 1_000 * ALL.get() as i32);
    });
}

#[test]
fn a_probe_that_fails_ends_one_call_with_its_name_and_one_that_panics_is_gone() {
    static FAILED: AtomicU64 = AtomicU64::new(0);
    static PANICKED: AtomicU64 = AtomicU64::new(0);
    let setting = Setting::new(PROGRAM);
    let places = ["nop", "local.get", "i32.add", "i32.lt_u"].map(|name| setting.before(name, 0));
    let (mut company, mut strict) = (Company::default(), None);
    let storm = |dice: &mut weather::Dice| {
        if let Some(id) = strict.take() {
            assert!(setting.probes.remove(id));
        }
        let place = places[dice.roll(4)];
        if dice.roll(3) == 0 {
            let fails = probe("strict", |_| {
                FAILED.fetch_add(1, Relaxed);
                Err("enough".into())
            });
            strict = Some(setting.probes.insert(place, fails).expect("a place"));
            setting.pass();
        }
        if PANICKED.load(Relaxed) < 10 {
            let panics = probe("clumsy", |_| {
                PANICKED.fetch_add(1, Relaxed);
                panic!("on purpose")
            });
            setting.probes.insert(place, panics).expect("a place");
        }
        company.turn(&setting, dice);
    };
    let errors = AtomicU64::new(0);
    setting.storm(storm, |store, instance| match call(store, instance, 50) {
        Ok(result) => assert_eq!(result, SUM),
        Err(error) => {
            assert!(
                matches!(error, Error::Probe(_))
                    && error.to_string().contains("probe strict: enough"),
                "{error}"
            );
            errors.fetch_add(1, Relaxed);
        }
    });
    assert!(FAILED.load(Relaxed) > 0);
    assert_eq!(errors.into_inner(), FAILED.load(Relaxed));
    // The probes that were inserted last may not have fired.
    strict.into_iter().for_each(|id| assert!(setting.probes.remove(id)));
    let (mut store, instance) = setting.instance();
    let panicked = [(); 2].map(|()| {
        assert_eq!(call(&mut store, instance, 50).expect("nobody fails any more"), SUM);
        PANICKED.load(Relaxed)
    });
    assert_eq!(panicked[0], panicked[1]);
    assert_eq!(setting.probes.panicked(), vec!["clumsy"; PANICKED.load(Relaxed) as usize]);
}

#[test]
fn counters_and_histograms_are_exact_and_flags_are_set_by_the_next_who_comes() {
    let setting = Setting::new(PROGRAM);
    let [nop, behind] = [0, 1].map(|n| setting.before("nop", n));
    let add = Place::after(0, setting.before("i32.add", 0).offset);
    setting.probes.count(nop).expect("a place");
    setting.probes.measure(add).expect("a place");
    let storm = |dice: &mut weather::Dice| {
        let flag = setting.probes.flag([nop, behind, add][dice.roll(3)]).expect("a place");
        let goes_on = setting.pass();
        assert!(setting.probes.is_flagged(flag) || !goes_on);
        assert!(setting.probes.remove(flag));
    };
    let rounds = setting.storm(storm, |store, instance| {
        assert_eq!(call(store, instance, 5_000).expect("no failure"), 12_502_500);
    });
    assert_eq!(setting.probes.counted(nop), 5_000 * rounds);
    let classes =
        [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 905].map(|count| count * rounds);
    assert_eq!(setting.probes.histogram(add)[..14], classes);
}

/// All kinds of exits of a function, after some turns of a loop.
const WAYS_OUT: &str = r#"(module (import "host" "exit" (func $exit)) (tag $e) (memory 1)
    (func $target (param i32) (result i32) (i32.store (i32.const 8) (local.get 0)) (local.get 0))
    (func $leave (param $way i32) (result i32) (local $i i32)
        (loop $again
            (drop (call $target (local.get $i)))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5))))
        (block $exit (block $trap (block $throw (block $tail (block $branch (block $return
            (br_table $return $branch $tail $throw $trap $exit (local.get $way)))
            (return (i32.const 10)))
            (br 4 (i32.const 11)))
            (return_call $target (i32.const 12)))
            (nop) (throw $e))
            (nop) (drop (i32.div_u (i32.const 1) (i32.const 0))) (nop))
        (nop) (call $exit) (nop)
        (i32.const 13))
    (func (export "f") (param i32) (result i32)
        (block $thrown (nop) (return (try_table (result i32) (catch $e $thrown) (nop) (call $leave (local.get 0)))))
        (i32.const -1)))"#;

/// Takes all of these exits.
fn leave_by_every_way(store: &mut wasm_aot::Store<()>, instance: wasm_aot::Instance) {
    for (way, result) in [10, 11, 12, -1].into_iter().enumerate() {
        assert_eq!(call(store, instance, way as i32).expect("no trap"), result);
    }
    let error = call(store, instance, 4).expect_err("a trap");
    assert_eq!(error.trap(), Some(wasm_aot::Trap::IntegerDivideByZero));
    let error = call(store, instance, 5).expect_err("an exit");
    assert!(matches!(error, Error::Exit(3)), "{error}");
}

#[test]
fn every_activation_that_begins_ends_in_one_way() {
    thread_local!(static INSIDE: Cell<u64> = const { Cell::new(0) });
    let setting = Setting::new(WAYS_OUT);
    let comes = does("comes", || add(&INSIDE, 1));
    let goes = does("goes", || INSIDE.set(INSIDE.get().wrapping_sub(1)));
    for function in [1, 2, 3] {
        setting.probes.insert(Place::entry(function), Arc::clone(&comes)).expect("a place");
        for place in Place::exits(function) {
            setting.probes.insert(place, Arc::clone(&goes)).expect("a place");
        }
    }
    let mut company = Company::default();
    setting.storm(
        |dice| company.turn(&setting, dice),
        |store, instance| {
            leave_by_every_way(store, instance);
            assert_eq!(INSIDE.get(), 0);
        },
    );
}

#[test]
fn an_activation_keeps_its_identity_and_no_other_has_it() {
    let text = r#"(module
        (func $down (export "f") (param i32) (result i32) (local $i i32)
            (nop)
            (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4))))
            (if (result i32) (local.get 0)
                (then (i32.add (call $down (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                (else (i32.const 0)))
            (nop)))"#;
    thread_local! {
        static WAITING: RefCell<Vec<FrameId>> = const { RefCell::new(Vec::new()) };
        static LAST: Cell<Option<FrameId>> = const { Cell::new(None) };
    }
    let setting = Setting::new(text);
    let known: Arc<Mutex<HashSet<FrameId>>> = Arc::default();
    let begins = probe("begins", move |frame| {
        let id = frame.id();
        WAITING.with_borrow_mut(|waiting| waiting.push(id));
        known
            .lock()
            .expect("no panic")
            .insert(id)
            .then_some(())
            .ok_or_else(|| format!("{id:?} was another one's"))
    });
    let ends = probe("ends", |frame| {
        let (id, began) = (frame.id(), WAITING.with_borrow_mut(Vec::pop));
        LAST.set(Some(id));
        (began == Some(id) && id.is_alive())
            .then_some(())
            .ok_or_else(|| format!("{began:?} has become {id:?}"))
    });
    setting.probes.insert(setting.before("nop", 0), begins).expect("a place");
    setting.probes.insert(setting.before("nop", 1), ends).expect("a place");
    let mut company = Company::default();
    setting.storm(
        |dice| company.turn(&setting, dice),
        |store, instance| {
            assert_eq!(call(store, instance, 10).expect("the same"), 10);
            assert!(LAST.take().is_none_or(|id| !id.is_alive()), "it has returned");
        },
    );
}

/// The monitors that are attached and detached while others stay.
const GUESTS: [&str; 5] = ["const", "alloc", "profile", "coverage", "latency,policy=count"];

#[test]
fn monitors_that_stay_miss_nothing_however_blocks_are_left_and_whoever_comes_and_goes() {
    let quiet = |rounds: u64| {
        let setting = Setting::new(WAYS_OUT);
        let (mut store, instance) = setting.instance();
        (0..rounds).for_each(|_| leave_by_every_way(&mut store, instance));
        counts(&setting.module)
    };
    let once = quiet(1);
    assert_eq!(quiet(2), once.iter().map(|count| 2 * count).collect::<Vec<_>>());
    for compiled_in in [false, true] {
        let stay = ["hotness", "memory", "functions"];
        let monitors = MonitorSet::new(
            Choices::new(stay.iter().copied().filter(|_| compiled_in)).expect("monitors"),
        )
        .expect("ready");
        let engine = Engine::new(Config::new().counts(compiled_in)).expect("an engine");
        let module = monitors.compile(&engine, WAYS_OUT).expect("a module");
        let setting = Setting::of(engine, module);
        if !compiled_in {
            stay.iter().for_each(|name| assert_eq!(monitors.attach(name).expect("sites"), *name));
        }
        let storm = |dice: &mut weather::Dice| match dice.roll(2) {
            0 => assert!(!monitors.attach(GUESTS[dice.roll(5)]).expect("sites").is_empty()),
            _ => assert!(
                monitors.detach(GUESTS[dice.roll(5)].split(',').next().expect("a name")).is_ok()
            ),
        };
        let rounds = setting.storm(storm, leave_by_every_way);
        let expected: Vec<u64> = once.iter().map(|count| rounds * count).collect();
        assert_eq!(counts(&setting.module), expected, "compiled in: {compiled_in}");
        let reports = monitors.reports(None);
        let report =
            |name: &str| reports.iter().find(|report| report.monitor == name).expect("it stays");
        // Six calls, each with five turns that store once, and the tail call.
        assert_eq!(sum(report("memory"), "writes"), 31 * rounds);
        assert_eq!(sum(report("functions"), "calls"), (6 + 6 + 31 + 1) * rounds);
    }
}

/// How often each instruction was executed.
fn counts(module: &Module) -> Vec<u64> {
    let counts = module.counts().expect("attached");
    counts
        .functions()
        .flat_map(|function| {
            function.instructions().into_iter().map(|i| i.count).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn what_is_detached_rests_and_keeps_its_counts_and_what_is_attached_goes_on_in_every_thread() {
    let setting = Setting::new(PROGRAM);
    let live = MonitorSet::of(&setting.module);
    setting.module.detach_counts();
    let seen = |name: &str, column: &str| {
        live.reports(Some(name)).first().map_or(0, |report| sum(report, column))
    };
    let storm = |dice: &mut weather::Dice| {
        let (name, column) =
            [("icount", "dynamic"), ("functions", "calls"), ("const", "calls")][dice.roll(3)];
        live.attach(name).expect("sites");
        let before = seen(name, column);
        let goes_on = setting.pass();
        assert!(seen(name, column) > before || !goes_on, "{name} is attached and sees nothing");
        live.switch(false).expect("sites");
        setting.pass();
        let rests = seen(name, column);
        assert!(rests >= before, "{name} has lost what it knew");
        setting.pass();
        assert_eq!(seen(name, column), rests, "{name} rests and counts");
        live.switch(true).expect("sites");
        live.detach(name).expect("sites");
    };
    setting.storm(storm, |store, instance| {
        assert_eq!(call(store, instance, 50).expect("no failure"), SUM);
    });
}
