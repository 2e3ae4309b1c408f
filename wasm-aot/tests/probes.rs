//! The rules of probes, one by one, and all of them in a storm.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use wasm_aot::probe::{Frame, FrameId, Mode, Place, Probe, ProbeError, ProbeId, Probes, probe};
use wasm_aot::{Engine, Error, Instance, Linker, Module, Store, Trap, Val};

/// The log of probes, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, line: impl Into<String>) {
        self.0.lock().expect("no panic").push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    /// A probe that logs its name.
    fn probe(&self, name: &str) -> Arc<dyn Probe> {
        let (diary, own) = (self.clone(), name.to_owned());
        probe(name, move |_| {
            diary.write(own.clone());
            Ok(())
        })
    }
}

fn instance(text: &str) -> (Store<()>, Probes, Instance, Module) {
    let engine = Engine::default();
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    (store, Probes::new(&module), instance, module)
}

fn call(store: &mut Store<()>, instance: Instance, args: &[Val]) -> Result<Vec<i32>, Error> {
    let results = instance.get_func(&mut *store, "f").expect("exported").call(&mut *store, args)?;
    Ok(results
        .iter()
        .map(|value| if let Val::I32(value) = value { *value } else { panic!("{value:?}") })
        .collect())
}

/// The instructions of a function: their offsets and names.
fn instructions(module: &Module, function: usize) -> Vec<(u32, &'static str)> {
    module.attach_counts().expect("attached");
    module.detach_counts();
    let counts = module.counts().expect("attached once");
    let function = counts.functions().nth(function).expect("defined");
    function.instructions().iter().map(|i| (i.offset, i.mnemonic)).collect()
}

/// The offset of the `n`th instruction with that name.
fn offset(module: &Module, function: usize, name: &str, n: usize) -> u32 {
    let all = instructions(module, function);
    all.iter()
        .filter(|(_, mnemonic)| *mnemonic == name)
        .nth(n)
        .unwrap_or_else(|| panic!("{name} in {all:?}"))
        .0
}

const LOOP: &str = r#"(module
    (func (export "f") (param $n i32) (result i32) (local $i i32)
        (loop $again
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (nop)
            (br_if $again (i32.lt_u (local.get $i) (local.get $n))))
        (local.get $i)))"#;

#[test]
fn probes_fire_in_the_order_in_which_they_were_inserted_also_after_others_came_and_went() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let (diary, place) = (Diary::default(), Place::before(0, offset(&module, 0, "nop", 0)));
    let [a, b, c] =
        ["a", "b", "c"].map(|name| probes.insert(place, diary.probe(name)).expect("inserted"));
    call(&mut store, instance, &[Val::I32(1)]).expect("no trap");
    assert_eq!(diary.take(), ["a", "b", "c"]);
    assert!(probes.remove(a) && !probes.remove(a));
    probes.insert(place, diary.probe("a")).expect("inserted");
    let everywhere = probes.insert_everywhere(diary.probe("*")).expect("inserted");
    probes.insert(place, diary.probe("d")).expect("inserted");
    call(&mut store, instance, &[Val::I32(1)]).expect("no trap");
    let said = diary.take();
    let at = said.iter().position(|line| line == "b").expect("fired");
    assert_eq!(said[at..at + 5], ["b", "c", "a", "*", "d"]);
    assert!(probes.remove(b) && probes.remove(c) && probes.remove(everywhere));
    call(&mut store, instance, &[Val::I32(1)]).expect("no trap");
    assert_eq!(diary.take(), ["a", "d"]);
}

#[test]
fn several_sets_of_probes_have_one_order_and_counts_of_their_own() {
    let (mut store, one, instance, module) = instance(LOOP);
    let other = Probes::new(&module);
    let (diary, place) = (Diary::default(), Place::before(0, offset(&module, 0, "nop", 0)));
    one.insert(place, diary.probe("a")).expect("inserted");
    other.insert(place, diary.probe("b")).expect("inserted");
    let everywhere = one.insert_everywhere(diary.probe("*")).expect("inserted");
    other.insert(place, diary.probe("c")).expect("inserted");
    one.insert(place, diary.probe("d")).expect("inserted");
    one.count(place).expect("inserted");
    one.measure(place).expect("inserted");
    call(&mut store, instance, &[Val::I32(1)]).expect("no trap");
    let said = diary.take();
    let at = said.iter().position(|line| line == "a").expect("fired");
    assert_eq!(said[at..at + 5], ["a", "b", "*", "c", "d"]);
    assert!(one.remove(everywhere));
    // Counts from before a set of probes requested them do not belong to that set.
    let (counted, measured) = (one.counted(place), one.histogram(place).iter().sum::<u64>());
    assert_eq!((counted, other.counted(place), other.histogram(place).len()), (1, 0, 0));
    other.count(place).expect("inserted");
    other.measure(place).expect("inserted");
    call(&mut store, instance, &[Val::I32(3)]).expect("no trap");
    assert_eq!((one.counted(place), other.counted(place)), (4, 3));
    let [all, late] = [&one, &other].map(|set| set.histogram(place).iter().sum::<u64>());
    assert_eq!(all, late + measured);
}

#[test]
fn the_same_probe_twice_fires_twice() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let (diary, place) = (Diary::default(), Place::before(0, offset(&module, 0, "nop", 0)));
    let twice = diary.probe("twice");
    probes.insert(place, Arc::clone(&twice)).expect("inserted");
    probes.insert(place, twice).expect("inserted");
    call(&mut store, instance, &[Val::I32(3)]).expect("no trap");
    assert_eq!(diary.take().len(), 6);
}

#[test]
fn what_is_inserted_or_removed_where_it_fires_holds_from_the_next_time_on() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let (diary, place) = (Diary::default(), Place::before(0, offset(&module, 0, "nop", 0)));
    let victim: Arc<OnceLock<ProbeId>> = Arc::default();
    let (own, told, known) = (probes.clone(), diary.clone(), Arc::clone(&victim));
    let first = AtomicBool::new(true);
    let changes = probe("changes", move |frame| {
        told.write("changes");
        if first.swap(false, Relaxed) {
            own.insert(frame.place(), told.probe("new")).map_err(|error| error.to_string())?;
            assert!(own.remove(*known.get().expect("inserted before it fires")));
        }
        Ok(())
    });
    probes.insert(place, changes).expect("inserted");
    victim.set(probes.insert(place, diary.probe("old")).expect("inserted")).expect("once");
    call(&mut store, instance, &[Val::I32(2)]).expect("no trap");
    assert_eq!(diary.take(), ["changes", "old", "changes", "new"]);
}

#[test]
fn what_is_inserted_elsewhere_holds_at_once_also_further_on_in_the_same_activation_and_in_the_callers_loop()
 {
    let text = r#"(module
        (func $inner (nop) (nop))
        (func (export "f") (param $n i32) (result i32) (local $i i32)
            (loop $again
                (call $inner)
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $again (i32.lt_u (local.get $i) (local.get $n))))
            (local.get $i)))"#;
    let (mut store, probes, instance, module) = instance(text);
    let diary = Diary::default();
    let nops = [0, 1].map(|n| Place::before(0, offset(&module, 0, "nop", n)));
    let add = Place::before(1, offset(&module, 1, "i32.add", 0));
    let (own, told, first) = (probes.clone(), diary.clone(), AtomicBool::new(true));
    probes
        .insert(
            nops[0],
            probe("inserts", move |_| {
                told.write("first nop");
                if first.swap(false, Relaxed) {
                    own.insert(nops[1], told.probe("second nop"))
                        .map_err(|error| error.to_string())?;
                    own.insert(add, told.probe("add")).map_err(|error| error.to_string())?;
                }
                Ok(())
            }),
        )
        .expect("inserted");
    call(&mut store, instance, &[Val::I32(3)]).expect("no trap");
    let said = diary.take();
    assert_eq!(said[..2], ["first nop", "second nop"]);
    // The caller was not inspected before: it switches by OSR at the next turn of its loop.
    assert_eq!(said.iter().filter(|line| *line == "add").count(), 2, "{said:?}");
}

#[test]
fn what_a_probe_writes_is_what_the_program_and_the_next_probe_see() {
    let (mut store, probes, instance, module) = instance(
        r#"(module (memory 1) (func (export "f") (param i32) (result i32) (local i64 f32 f64 v128)
            (i32.store (i32.const 8) (local.get 0))
            (i32.add (i32.load (i32.const 8)) (local.get 0))))"#,
    );
    let add = Place::before(0, offset(&module, 0, "i32.add", 0));
    let store_at = Place::before(0, offset(&module, 0, "i32.store", 0));
    let seen = Diary::default();
    let told = seen.clone();
    probes
        .insert(
            store_at,
            probe("where", move |frame| {
                let access = frame.access().ok_or("no access")?;
                told.write(format!("{} {} {}", access.address, access.size, access.writes));
                Ok(())
            }),
        )
        .expect("inserted");
    probes
        .insert(
            add,
            probe("writes", |frame| {
                frame.set_operand(0, &Val::I32(1000))?;
                frame.set_operand(1, &Val::I32(7))?;
                frame.set_local(0, &Val::I32(-1))?;
                frame.set_local(4, &Val::V128(5))?;
                assert!(
                    frame.set_local(0, &Val::I64(0)).is_err()
                        && frame.set_local(9, &Val::I32(0)).is_err()
                );
                Ok(())
            }),
        )
        .expect("inserted");
    let told = seen.clone();
    probes
        .insert(
            add,
            probe("reads", move |frame| {
                told.write(format!(
                    "{:?} {:?} {:?}",
                    frame.operand(0),
                    frame.local(0),
                    frame.local(4)
                ));
                told.write(format!("{:?}", frame.read_memory(0, 8, 4)));
                Ok(())
            }),
        )
        .expect("inserted");
    assert_eq!(call(&mut store, instance, &[Val::I32(3)]).expect("no trap"), [1007]);
    let reads =
        format!("{:?} {:?} {:?}", Some(Val::I32(1000)), Some(Val::I32(-1)), Some(Val::V128(5)));
    assert_eq!(seen.take(), ["8 4 true".to_owned(), reads, "[3, 0, 0, 0]".to_owned()]);
}

#[test]
fn a_probe_that_fails_ends_the_program_and_is_named_and_one_that_panics_is_removed() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let place = Place::before(0, offset(&module, 0, "nop", 0));
    let panics = probes.insert(place, probe("clumsy", |_| panic!("on purpose"))).expect("inserted");
    assert_eq!(call(&mut store, instance, &[Val::I32(3)]).expect("no trap"), [3]);
    assert!(!probes.remove(panics), "it is gone");
    assert_eq!(probes.panicked(), ["clumsy"]);
    let id = probes
        .insert(place, probe("strict", |_| Err("that is not allowed".into())))
        .expect("inserted");
    let error = call(&mut store, instance, &[Val::I32(3)]).expect_err("the probe fails");
    let text = error.to_string();
    assert!(
        matches!(error, Error::Probe(_)) && text.contains("probe strict: that is not allowed"),
        "{text}"
    );
    probes.remove(id);
    assert_eq!(call(&mut store, instance, &[Val::I32(3)]).expect("no trap"), [3]);
}

#[test]
fn a_probe_that_fails_does_not_keep_the_others_of_its_event_from_firing() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let (diary, place) = (Diary::default(), Place::before(0, offset(&module, 0, "nop", 0)));
    probes.insert(place, diary.probe("first")).expect("inserted");
    probes.insert(place, probe("strict", |_| Err("no".into()))).expect("inserted");
    probes.insert(place, probe("stricter", |_| Err("never".into()))).expect("inserted");
    probes.insert(place, diary.probe("last")).expect("inserted");
    let error = call(&mut store, instance, &[Val::I32(3)]).expect_err("a probe fails").to_string();
    assert!(error.contains("probe strict: no"), "{error}");
    assert_eq!(diary.take(), ["first", "last"]);
}

#[test]
fn an_activation_that_a_trap_has_taken_away_is_over_and_a_memory_that_is_not_there_is_empty() {
    let text = r#"(module (memory 1)
        (func $g (nop) (unreachable))
        (func (export "f") (result i32) (nop) (call $g) (i32.const 0)))"#;
    let (mut store, probes, instance, module) = instance(text);
    let known: Arc<Mutex<Vec<FrameId>>> = Arc::default();
    for function in [0, 1] {
        let own = Arc::clone(&known);
        let notes = move |frame: &mut Frame<'_>| {
            own.lock().expect("no panic").push(frame.id());
            assert_eq!(
                (
                    frame.read_memory(0, 0, 2),
                    frame.read_memory(1, 0, 2),
                    frame.read_memory(7, 0, 2)
                ),
                (vec![0, 0], vec![], vec![])
            );
            Ok(())
        };
        let place = Place::before(function, offset(&module, function as usize, "nop", 0));
        probes.insert(place, probe("notes", notes)).expect("inserted");
    }
    let own = Arc::clone(&known);
    let sees = move |_: &mut Frame<'_>| {
        assert!(
            own.lock().expect("no panic").iter().all(|id| !id.is_alive()),
            "the trap has taken them away"
        );
        Ok(())
    };
    probes
        .insert(Place { function: 0, offset: 0, mode: Mode::Trap }, probe("sees", sees))
        .expect("inserted");
    call(&mut store, instance, &[]).expect_err("it traps");
    assert_eq!(probes.panicked(), Vec::<String>::new());
    let known = known.lock().expect("no panic");
    assert!(known.len() == 2 && known.iter().all(|id| !id.is_alive()));
}

#[test]
fn a_program_that_is_in_its_probes_almost_always_is_interrupted() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let slow = |_: &mut Frame<'_>| {
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_micros(500) {}
        Ok(())
    };
    probes
        .insert(Place::before(0, offset(&module, 0, "nop", 0)), probe("slow", slow))
        .expect("inserted");
    store.set_deadline(Some(std::time::Duration::from_millis(20)));
    let error = call(&mut store, instance, &[Val::I32(50_000)]).expect_err("it is interrupted");
    assert_eq!(error.trap(), Some(Trap::Interrupted));
}

#[test]
fn counters_and_histograms_are_exact() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let [add, compare] =
        ["i32.add", "i32.lt_u"].map(|name| Place::before(0, offset(&module, 0, name, 0)));
    probes.count(add).expect("inserted");
    let after = Place { mode: Mode::After, ..add };
    probes.measure(after).expect("inserted");
    call(&mut store, instance, &[Val::I32(100)]).expect("no trap");
    assert_eq!((probes.counted(add), probes.counted(compare)), (100, 0));
    // Executions while other probes were installed there are not counted.
    probes.insert(compare, probe("nothing", |_| Ok(()))).expect("inserted");
    call(&mut store, instance, &[Val::I32(7)]).expect("no trap");
    probes.count(compare).expect("inserted");
    assert_eq!(probes.counted(compare), 0);
    // 1 to 100, and 1 to 7: one value of one bit, two values of two, … and the rest of seven.
    assert_eq!(probes.histogram(after)[..8], [0, 2, 4, 8, 8, 16, 32, 37]);
}

const WAYS_OUT: &str = r#"(module (tag $e) (table funcref (elem $target))
    (func $target (param i32) (result i32) (local.get 0))
    (func $leave (param i32) (result i32)
        (block $trap (block $throw (block $tail (block $branch (block $return
            (br_table $return $branch $tail $throw $trap (local.get 0)))
            (return (i32.const 10)))
            (br 3 (i32.const 11)))
            (return_call $target (i32.const 12)))
            (throw $e))
            (unreachable)
        (i32.const 13))
    (func (export "f") (param i32) (result i32)
        (block $thrown (return (try_table (result i32) (catch $e $thrown) (call $leave (local.get 0)))))
        (i32.const -1)))"#;

#[test]
fn every_way_out_of_a_function_is_seen() {
    let (mut store, probes, instance, _) = instance(WAYS_OUT);
    let diary = Diary::default();
    probes.insert(Place::entry(1), diary.probe("in")).expect("inserted");
    for place in Place::exits(1) {
        let (told, when) = (diary.clone(), place.mode);
        let says = probe("out", move |frame| {
            told.write(format!("{when:?} {:?}", frame.operand(0)));
            Ok(())
        });
        probes.insert(place, says).expect("inserted");
    }
    let value = |value| format!("Exit {:?}", Some(Val::I32(value)));
    for (way, said) in [
        (0, value(10)),
        (1, value(11)),
        (2, value(12)),
        (3, "Unwind None".into()),
        (4, "Trap None".into()),
    ] {
        let outcome = call(&mut store, instance, &[Val::I32(way)]);
        assert_eq!(outcome.is_err(), way == 4);
        assert_eq!(diary.take(), ["in".to_owned(), said], "{way}");
    }
}

#[test]
fn every_activation_is_told_of_that_a_trap_or_the_programs_exit_takes_away_however_many_there_are()
{
    let text = r#"(module (import "host" "exit" (func $exit))
        (func $down (export "f") (param i32 i32)
            (if (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1)) (local.get 1))))
            (if (local.get 1) (then (call $exit)) (else (unreachable)))))"#;
    let engine = Engine::default();
    let module = Module::new(&engine, text).expect("a module");
    let (probes, mut store, mut linker) =
        (Probes::new(&module), Store::new(&engine, ()), Linker::new(&engine));
    linker.func_wrap("host", "exit", || Err::<(), _>(Error::Exit(3))).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let diary = Diary::default();
    let [_, _, trap] = Place::exits(1);
    for (place, name) in [(Place::entry(1), "in"), (trap, "out")] {
        probes.insert(place, diary.probe(name)).expect("inserted");
    }
    for exits in [0, 1] {
        call(&mut store, instance, &[Val::I32(999), Val::I32(exits)])
            .expect_err("a trap, or an exit");
        let said = diary.take();
        assert_eq!(said.iter().filter(|line| *line == "in").count(), 1_000);
        assert_eq!(said[1_000..], vec!["out".to_owned(); 1_000], "exits: {exits}");
    }
}

#[test]
fn hooks_behind_an_instruction_and_of_functions_can_be_built_from_those_before_instructions() {
    // After an instruction means before the next one, and a function is entered when its first
    // instruction begins for the first time in an activation.
    let text = r#"(module
        (func $fib (export "f") (param i32) (result i32)
            (if (i32.lt_u (local.get 0) (i32.const 2)) (then (return (local.get 0))))
            (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2))))))"#;
    let (mut store, probes, instance, module) = instance(text);
    let [direct, built] = [Diary::default(), Diary::default()];
    let say = |diary: &Diary, what: &'static str| {
        let diary = diary.clone();
        probe(what, move |frame: &mut Frame<'_>| {
            diary.write(format!("{what} {:?} {}", frame.local(0), frame.depth()));
            Ok(())
        })
    };
    let places = instructions(&module, 0);
    let at = |name: &str| places.iter().position(|(_, mnemonic)| *mnemonic == name).expect("there");
    probes.insert(Place::entry(0), say(&direct, "in")).expect("inserted");
    probes.insert(Place::before(0, places[0].0), say(&built, "in")).expect("inserted");
    probes
        .insert(Place::after(0, places[at("i32.sub")].0), say(&direct, "after"))
        .expect("inserted");
    probes
        .insert(Place::before(0, places[at("i32.sub") + 1].0), say(&built, "after"))
        .expect("inserted");
    probes.insert(Place::exits(0)[0], say(&direct, "out")).expect("inserted");
    for (offset, mnemonic) in [places[at("return")], *places.last().expect("an end")] {
        assert!(["return", "end"].contains(&mnemonic));
        probes.insert(Place::before(0, offset), say(&built, "out")).expect("inserted");
    }
    assert_eq!(call(&mut store, instance, &[Val::I32(7)]).expect("no trap"), [13]);
    let said = direct.take();
    assert!(said.len() > 100);
    assert_eq!(said, built.take());
}

#[test]
fn an_activation_has_one_identity_until_it_is_over() {
    let text = r#"(module
        (func $down (export "f") (param i32) (result i32)
            (nop)
            (if (result i32) (local.get 0)
                (then (i32.add (call $down (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                (else (i32.const 0)))
            (nop)))"#;
    let (mut store, probes, instance, module) = instance(text);
    let known: Arc<Mutex<Vec<(i32, FrameId)>>> = Arc::default();
    for n in [0, 1] {
        let known = Arc::clone(&known);
        let place = Place::before(0, offset(&module, 0, "nop", n));
        let notes = move |frame: &mut Frame<'_>| {
            let Some(Val::I32(local)) = frame.local(0) else { return Err("no local".into()) };
            let (id, mut known) = (frame.id(), known.lock().expect("no panic"));
            match n {
                0 => known.push((local, id)),
                _ => {
                    // The activations that this one has called have ended, and those that wait for
                    // it have not.
                    assert_eq!(
                        known.iter().filter(|(_, id)| id.is_alive()).count(),
                        known.iter().filter(|(l, _)| *l >= local).count()
                    );
                    assert!(known.contains(&(local, id)), "the same as at the beginning");
                }
            }
            assert_eq!(frame.depth(), frame.callers().len());
            Ok(())
        };
        probes.insert(place, probe("notes", notes)).expect("inserted");
    }
    call(&mut store, instance, &[Val::I32(5)]).expect("no trap");
    let ids = known.lock().expect("no panic").clone();
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|(_, id)| !id.is_alive()));
    let mut distinct: Vec<_> = ids.iter().map(|(_, id)| format!("{id:?}")).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 6);
}

#[test]
fn wrong_places_are_told() {
    let (_store, probes, _, _module) = instance(LOOP);
    let nothing = || probe("nothing", |_| Ok(()));
    let error = probes.insert(Place::before(0, 100_000), nothing()).expect_err("outside");
    assert!(
        matches!(error, ProbeError::NoInstruction { .. }) && error.to_string().contains("nearest"),
        "{error}"
    );
    let error = probes.insert(Place::entry(7), nothing()).expect_err("no such function");
    assert!(error.to_string().contains("no function 7"), "{error}");
    let place = Place { function: 0, offset: 0, mode: Mode::Before };
    assert!(
        probes.insert(place, nothing()).is_err(),
        "the first instruction stands behind the locals"
    );
}

#[test]
fn counts_are_exact_when_a_trap_leaves_a_block_half_way() {
    let (mut store, probes, instance, module) = instance(
        r#"(module (func (export "f") (param i32) (result i32) (nop) (i32.div_u (i32.const 1) (local.get 0)) (nop)))"#,
    );
    let nops = [0, 1].map(|n| Place::before(0, offset(&module, 0, "nop", n)));
    for place in nops {
        probes.count(place).expect("inserted");
    }
    call(&mut store, instance, &[Val::I32(1)]).expect("no trap");
    let error = call(&mut store, instance, &[Val::I32(0)]).expect_err("division by zero");
    assert_eq!(error.trap(), Some(Trap::IntegerDivideByZero));
    assert_eq!(nops.map(|place| probes.counted(place)), [2, 1]);
}

#[test]
fn probes_that_come_and_go_in_another_thread_change_nothing_and_miss_nothing_that_stays() {
    let (mut store, probes, instance, module) = instance(LOOP);
    let places: Vec<Place> =
        instructions(&module, 0).into_iter().map(|(offset, _)| Place::before(0, offset)).collect();
    let nop = Place::before(0, offset(&module, 0, "nop", 0));
    static FIRED: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicI32 = AtomicI32::new(0);
    probes
        .insert(
            nop,
            probe("stays", |frame| {
                FIRED.fetch_add(1, Relaxed);
                let Some(Val::I32(i)) = frame.local(1) else { return Err("no local".into()) };
                let before = LAST.swap(i, Relaxed);
                if i == 1 || i == before + 1 { Ok(()) } else { Err(format!("{i} after {before}")) }
            }),
        )
        .expect("inserted");
    let (stop, calls) = (AtomicBool::new(false), 300);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !stop.load(Relaxed) {
                let place = places[turn * 7 % places.len()];
                let id = match turn % 3 {
                    0 => probes.count(place),
                    _ => probes.insert(place, probe("passes", |_| Ok(()))),
                };
                probes.remove(id.expect("inserted"));
                turn += 1;
            }
        });
        for _ in 0..calls {
            assert_eq!(call(&mut store, instance, &[Val::I32(50)]).expect("no failure"), [50]);
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(FIRED.load(Relaxed), 50 * calls);
}
