//! Threads that switch from one variant of a function to another by OSR in its loops, at every
//! turn.

#[path = "switching/ticking.rs"]
mod ticking;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ticking::instance;
use wasm_aot::{Instance, Module, Store, Val};

fn call(store: &mut Store<()>, instance: Instance, args: &[Val]) -> String {
    let function = instance.get_func(&mut *store, "f").expect("exported");
    format!("{:?}", function.call(&mut *store, args))
}

/// Switches with every call.
fn restless(module: &Module) {
    match module.is_counting() {
        true => module.detach_counts(),
        false => module.attach_counts().expect("attached"),
    }
}

/// The execution counts of instructions while counts were attached, by function.
fn counts(module: &Module) -> Vec<Vec<u64>> {
    let counts = module.counts().expect("attached once");
    counts
        .functions()
        .map(|function| function.instructions().iter().map(|i| i.count).collect())
        .collect()
}

/// Programs whose loops have all kinds of live state, with their arguments.
fn programs() -> Vec<(&'static str, String, Vec<Val>)> {
    let of = |body: &str| {
        format!(
            r#"(module (import "host" "tick" (func $tick)) (memory 1) (tag $e (param i32)) {body})"#
        )
    };
    vec![
        (
            "values of all types, and results in memory",
            of(r#"
            (func (export "f") (param $n i32) (param $a i64) (param $b f32) (param $c f64) (param $v v128)
                (result i32 i64 f32 f64 v128 i64 f64 i32 i64 f32 f64 v128 i64 f64) (local $i i32) (local $s i64)
                (loop $again
                    (call $tick)
                    (local.set $s (i64.add (i64.mul (local.get $s) (i64.const 31)) (local.get $a)))
                    (local.set $b (f32.add (local.get $b) (f32.const 1.5)))
                    (local.set $c (f64.mul (local.get $c) (f64.const 1.01)))
                    (local.set $v (i32x4.add (local.get $v) (i32x4.splat (local.get $i))))
                    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (local.get $i) (local.get $s) (local.get $b) (local.get $c) (local.get $v) (local.get $a) (local.get $c)
                (local.get $i) (local.get $s) (local.get $b) (local.get $c) (local.get $v) (local.get $a) (local.get $c))"#),
            vec![
                Val::I32(100),
                Val::I64(7),
                Val::F32(1.0f32.to_bits()),
                Val::F64(2.0f64.to_bits()),
                Val::V128(3),
            ],
        ),
        (
            "operands under loops, parameters of loops, loops in loops",
            of(r#"
            (func (export "f") (param $n i32) (result i32) (local $i i32) (local $j i32)
                (i32.const 1000) (i64.const 5) (local.get $n)
                (loop $outer (param i64 i32) (result i64 i32)
                    (call $tick)
                    (local.set $j (i32.const 4))
                    (i32.add (i32.const 3))
                    (f64.const 2.5) (i32.const 0)
                    (loop $inner (param i32) (result i32)
                        (call $tick)
                        (i32.add (local.get $j))
                        (br_if $inner (local.tee $j (i32.sub (local.get $j) (i32.const 1)))))
                    (drop) (drop)
                    (loop $second (call $tick)
                        (br_if $second (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 3))))
                    (br_if $outer (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (i32.add (local.get $j)) (drop) (i32.wrap_i64) (i32.add))"#),
            vec![Val::I32(20)],
        ),
        (
            "both sides of conditions, tables of branches, ways out",
            of(r#"
            (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
                (block $out (result i32)
                    (loop $again (result i32)
                        (call $tick)
                        (local.set $i (i32.add (local.get $i) (i32.const 1)))
                        (if (i32.and (local.get $i) (i32.const 1))
                            (then (loop $odd (call $tick)
                                (local.set $s (i32.add (local.get $s) (i32.const 3)))
                                (br_if $odd (i32.rem_u (local.get $s) (i32.const 4)))))
                            (else (loop $even (call $tick)
                                (local.set $s (i32.add (local.get $s) (i32.const 5)))
                                (br_if $again (i32.rem_u (local.get $s) (i32.const 3)))
                                (br_if $even (i32.rem_u (local.get $s) (i32.const 7))))))
                        (block $b (block $a
                            (br_table $a $b $again (i32.rem_u (local.get $s) (i32.const 5))))
                            (local.set $s (i32.mul (local.get $s) (i32.const 3))))
                        (br_if $out (local.get $s) (i32.gt_u (local.get $i) (local.get $n)))
                        (drop)
                        (br $again))))"#),
            vec![Val::I32(200)],
        ),
        (
            "exceptions, in both encodings, thrown again inside of loops",
            of(r#"
            (func $throw (param i32) (throw $e (local.get 0)))
            (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
                (loop $again
                    (call $tick)
                    (block $caught (result i32)
                        (try_table (result i32) (catch $e $caught)
                            (loop $within (call $tick)
                                (local.set $s (i32.add (local.get $s) (i32.const 1)))
                                (br_if $within (i32.rem_u (local.get $s) (i32.const 5)))
                                (call $throw (local.get $s)))
                            (i32.const 0)))
                    (local.set $s (i32.add (local.get $s)))
                    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (local.get $s))"#),
            vec![Val::I32(10)],
        ),
        (
            "clauses that hold an exception while they loop",
            of(r#"
            (func $throw (param i32) (throw $e (local.get 0)))
            (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
                try
                    try
                        (call $throw (i32.const 5))
                    catch $e
                        (local.set $s)
                        (loop $again (call $tick)
                            (local.set $s (i32.add (local.get $s) (i32.const 2)))
                            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                        rethrow 0
                    end
                catch $e
                    (local.set $s (i32.add (local.get $s)))
                end
                (local.get $s))"#),
            vec![Val::I32(50)],
        ),
        (
            "calls through tables, tail calls, memory that grows",
            of(r#"
            (table funcref (elem $g))
            (func $g (param i32) (result i32) (local $i i32)
                (loop $again (call $tick)
                    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
                (i32.add (local.get 0) (local.get $i)))
            (func $tail (param i32) (result i32) (return_call $g (local.get 0)))
            (func (export "f") (param $n i32) (result i32) (local $i i32)
                (loop $again (call $tick)
                    (i32.store (i32.shl (local.get $i) (i32.const 2)) (call_indirect (param i32) (result i32) (local.get $i) (i32.const 0)))
                    (drop (memory.grow (i32.const 1)))
                    (i32.store offset=65536 (i32.const 0) (call $tail (local.get $i)))
                    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (i32.add (i32.load (i32.const 36)) (i32.load offset=65536 (i32.const 0))))"#),
            vec![Val::I32(20)],
        ),
        (
            "a trap in the middle",
            of(r#"
            (func (export "f") (param $n i32) (result i32) (local $i i32)
                (loop $again (call $tick)
                    (drop (i32.div_u (local.get $n) (i32.sub (local.get $n) (local.get $i))))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br $again))
                (unreachable))"#),
            vec![Val::I32(30)],
        ),
        (
            "more locals than have places near by, some of them the same in all loops",
            of(&crowded()),
            vec![Val::I32(9)],
        ),
    ]
}

/// A function of eighty locals of all types: a third of them changes in a loop, and a third each in
/// two loops inside of it.
fn crowded() -> String {
    let all = |each: fn(usize) -> [String; 4], wanted: fn(usize) -> bool| {
        (0..80).filter(|at| wanted(*at)).map(|at| each(at)[at % 4].clone()).collect::<String>()
    };
    let types = all(|_| ["i32 ", "v128 ", "i64 ", "f32 "].map(str::to_owned), |_| true);
    let begin = all(
        |at| {
            ["i32.const", "i32x4.splat (i32.const", "i64.const", "f32.const"].map(|first| {
                let last = if first.ends_with("(i32.const") { ")" } else { "" };
                format!("(local.set {} ({first} {at}){last}) ", at + 3)
            })
        },
        |_| true,
    );
    let change: fn(usize) -> [String; 4] = |at| {
        let at = at + 3;
        ["i32", "i32x4", "i64", "f32"]
            .map(|ty| format!("(local.set {at} ({ty}.add (local.get {at}) (local.get {at}))) "))
    };
    let sum = all(
        |at| {
            let get = format!("(local.get {})", at + 3);
            let number = [
                format!("(i64.extend_i32_u {get})"),
                format!("(i64x2.extract_lane 1 {get})"),
                get.clone(),
                format!("(i64.extend_i32_u (i32.reinterpret_f32 {get}))"),
            ];
            number.map(|number| {
                format!("(local.set 1 (i64.add (i64.mul (local.get 1) (i64.const 31)) {number})) ")
            })
        },
        |_| true,
    );
    // All loops increment it.
    let turns = "(local.tee 2 (i32.add (local.get 2) (i32.const 1)))";
    format!(
        r#"(func (export "f") (param $n i32) (result i64) (local i64 i32 {types})
            {begin}
            (loop $outer (call $tick) {}
                (loop $one (call $tick) {} (br_if $one (i32.rem_u {turns} (i32.const 4))))
                (loop $two (call $tick) {} (br_if $two (i32.rem_u {turns} (i32.const 3))))
                (br_if $outer (i32.lt_u {turns} (i32.mul (local.get $n) (i32.const 3)))))
            {sum} (local.get 1))"#,
        all(change, |at| at % 3 == 0),
        all(change, |at| at % 3 == 1),
        all(change, |at| at % 3 == 2),
    )
}

#[test]
fn a_switch_with_every_turn_changes_no_result() {
    for (name, text, args) in programs() {
        let (mut store, _, quiet) = instance(&text, |_| {});
        let expected = call(&mut store, quiet, &args);
        let (mut store, module, switched) = instance(&text, restless);
        for _ in 0..3 {
            assert_eq!(call(&mut store, switched, &args), expected, "{name}");
        }
        assert!(module.counts().is_some(), "{name}");
    }
}

#[test]
fn a_loop_that_calls_nobody_and_never_ends_is_counted_and_left_again() {
    let text = r#"(module (import "host" "tick" (func $tick)) (memory (export "m") 1)
        (func (export "f") (result i32) (local $i i32)
            (loop $again
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $again (i32.eqz (i32.load (i32.const 0)))))
            (local.get $i)))"#;
    let (mut store, module, instance) = instance(text, |_| {});
    let memory = instance.get_memory(&mut store, "m").expect("exported");
    let base = memory.extent(&mut store).expect("of this store").0 as usize;
    let iterations = || counts(&module)[0][2];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| call(&mut store, instance, &[]));
        module.attach_counts().expect("attached");
        while iterations() < 1000 {
            std::thread::yield_now();
        }
        module.detach_counts();
        // It has switched back when two readings agree, with time between them.
        let mut before = iterations();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = iterations();
            if now == before {
                break;
            }
            before = now;
        }
        module.attach_counts().expect("attached");
        while iterations() < before + 1000 {
            std::thread::yield_now();
        }
        // SAFETY: see `stop`.
        stop(base);
        running.join().expect("no panic");
    });
    let all = counts(&module);
    // Activations that entered the loop by OSR never executed the code before it, and did execute
    // the code after it.
    let (inside, behind) = all[0].split_at(9);
    assert!(inside.iter().all(|count| *count == inside[0]) && behind == [1, 1, 1], "{all:?}");
}

/// Ends the program's loop: sets its first word.
#[allow(unsafe_code)]
fn stop(base: usize) {
    // SAFETY: (1) the first word of a memory whose store lives; (2) machine code reads it by one
    // load.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(base as *mut u32) }.store(1, Relaxed);
}

#[test]
fn what_is_counted_from_one_turn_to_another_is_counted_exactly() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let text = r#"(module (import "host" "tick" (func $tick))
        (func (export "f") (param $n i32) (local $i i32)
            (loop $again
                (call $tick)
                (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
            (nop)))"#;
    let (mut store, module, instance) = instance(text, |module| match TURN.fetch_add(1, Relaxed) {
        30 => module.attach_counts().expect("attached"),
        70 => module.detach_counts(),
        _ => {}
    });
    call(&mut store, instance, &[Val::I32(100)]);
    // Turns 31 to 70: each was begun after the one before had called the host.
    assert_eq!(counts(&module), [vec![40, 40, 40, 40, 40, 40, 40, 40, 40, 0, 0, 0]]);
}

#[test]
fn threads_that_are_switched_all_the_time_do_what_they_would_do() {
    for (name, text, args) in programs() {
        let (mut store, _, quiet) = instance(&text, |_| {});
        let expected = call(&mut store, quiet, &args);
        let (mut store, module, switched) = instance(&text, |_| {});
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    restless(&module);
                }
            });
            let until = std::time::Instant::now() + std::time::Duration::from_millis(150);
            while std::time::Instant::now() < until {
                assert_eq!(call(&mut store, switched, &args), expected, "{name}");
            }
            stop.store(true, Relaxed);
        });
    }
}

#[test]
fn what_is_executed_when_something_is_attached_is_compiled_first() {
    // Much code before it in the module, and a loop without calls.
    let filler = "(func (param i32) (result i32) (i32.mul (local.get 0) (i32.add (local.get 0) (i32.const 3))))\n".repeat(3000);
    let text = format!(
        r#"(module (import "host" "tick" (func $tick)) (memory (export "m") 1) {filler}
            (func (export "f") (result i32) (local $i i32)
                (loop $again
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $again (i32.eqz (i32.load (i32.const 0)))))
                (local.get $i)))"#
    );
    let (mut store, module, instance) = instance(&text, |_| {});
    let memory = instance.get_memory(&mut store, "m").expect("exported");
    let base = memory.extent(&mut store).expect("of this store").0 as usize;
    let iterations = || {
        let counts = module.counts()?;
        counts.functions().last().map(|function| function.instructions()[2].count)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| call(&mut store, instance, &[]));
        std::thread::sleep(std::time::Duration::from_millis(20));
        module.attach_counts().expect("attached");
        while iterations().unwrap_or(0) < 1000 {
            std::thread::yield_now();
        }
        // SAFETY: see `stop`.
        stop(base);
    });
}

#[test]
fn values_that_look_like_what_osr_exits_compare_with_do_no_harm() {
    // The same in each turn, so that the result of the comparison is known; for every number that
    // it may be compared with.
    for number in -128..-124 {
        let text = format!(
            r#"(module (import "host" "tick" (func $tick))
                (func (export "f") (param $n i32) (result i32) (local $x i32) (local $b i32)
                    (local.set $x (i32.const {number}))
                    (loop $a
                        (call $tick)
                        (local.set $n (i32.add (local.get $n) (local.get $x)))
                        (local.set $x (i32.const {number}))
                        (loop $b
                            (local.set $b (i32.eqz (local.get $b)))
                            (br_if $b (local.get $b)))
                        (br_if $a (i32.gt_s (local.get $n) (i32.const 0))))
                    (i32.add (local.get $n) (local.get $x))))"#
        );
        let (mut store, _, quiet) = instance(&text, |_| {});
        let first = [1000, number, 0].map(Val::I32);
        let expected = first.clone().map(|first| call(&mut store, quiet, &[first]));
        let (mut store, _, switched) = instance(&text, restless);
        assert_eq!(first.map(|first| call(&mut store, switched, &[first])), expected);
    }
}
