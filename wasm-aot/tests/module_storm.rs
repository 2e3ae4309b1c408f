//! Monitors that are modules are switched in every way while the program runs: its results stay the
//! same, and afterwards all events are counted again.

#[path = "observers/stage.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wasm_aot::Val;
use wasm_aot::observer::{Observation, ProbeCalls, Selection};

/// Loops, calls and conditions; every function is executed repeatedly.
const PROGRAM: &str = r#"(module
    (func $mix (param $a i32) (param $b i32) (result i32)
        (if (result i32) (i32.and (local.get $a) (i32.const 1))
            (then (i32.add (i32.mul (local.get $a) (i32.const 3)) (local.get $b)))
            (else (i32.xor (i32.shr_u (local.get $a) (i32.const 1)) (local.get $b)))))
    (func $inner (param $n i32) (result i32) (local $i i32) (local $s i32)
        (loop $again
            (local.set $s (call $mix (local.get $s) (local.get $i)))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $s))
    (func (export "main") (param $n i32) (result i32) (local $i i32) (local $s i32)
        (loop $again
            (local.set $s (i32.add (i32.rotl (local.get $s) (i32.const 5)) (call $inner (i32.const 50))))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $s)))"#;

/// Counts calls, turns and conditions, which are 0 or 1, in a way that cannot be computed from
/// instruction counts.
const MONITOR: &str = r#"(module
    (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
    (global $calls (export "calls") (mut i32) (i32.const 0)) (global $turns (export "turns") (mut i32) (i32.const 0))
    (global $ifs (export "ifs") (mut i32) (i32.const 0)) (global $once (export "once") (mut i32) (i32.const 0))
    (func (export "wasm:opcode:call") (global.set $calls (i32.add (global.get $calls) (i32.const 1))))
    (func (export "wasm:opcode:loop") (global.set $turns (i32.add (global.get $turns) (i32.const 1))))
    (func (export "wasm:opcode:if (arg0)") (param i32)
        (global.set $ifs (i32.add (global.get $ifs) (i32.or (local.get 0) (i32.const 1)))))
    (func (export "wasm:opcode:i32.rotl (probe_id)") (param i32)
        (global.set $once (i32.add (global.get $once) (i32.const 1)))
        (call $remove (local.get 0))))"#;

/// Counts the same in a way that can be computed from instruction counts.
const COUNTING: &str = r#"(module
    (global $calls (export "calls") (mut i32) (i32.const 0)) (global $turns (export "turns") (mut i32) (i32.const 0))
    (global $ifs (export "ifs") (mut i32) (i32.const 0)) (global $exits (export "exits") (mut i32) (i32.const 0))
    (func (export "wasm:opcode:br_if (arg0)") (param i32)
        (if (i32.eqz (local.get 0)) (then (global.set $exits (i32.add (global.get $exits) (i32.const 1))))))
    (func (export "wasm:opcode:call") (global.set $calls (i32.add (global.get $calls) (i32.const 1))))
    (func (export "wasm:opcode:loop") (global.set $turns (i32.add (global.get $turns) (i32.const 1))))
    (func (export "wasm:opcode:if (arg0)") (param i32) (global.set $ifs (i32.add (global.get $ifs) (i32.const 1)))))"#;

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides) as usize
    }
}

fn throw(observation: &Observation, dice: &mut Dice) {
    const PARTS: [&str; 8] = [
        "m",
        "m:opcode:call",
        "m:opcode:l*",
        "m@mix",
        "m@inner",
        "m@2",
        "m:opcode:if@mix",
        "m@inner+3",
    ];
    match dice.roll(6) {
        0 => drop(observation.rest(dice.roll(2) == 0).expect("it rests or not")),
        _ => {
            let which: Selection =
                PARTS[dice.roll(PARTS.len() as u64)].parse().expect("a selection");
            observation.switch(&which, dice.roll(2) == 0).expect("it is switched");
        }
    }
}

/// The program runs while another thread switches; then everything is on, and every event is
/// counted, `expected` times each.
fn storm(monitor: &str, calls: ProbeCalls, expected: &[(&str, i64)]) {
    let quiet = {
        let bytes = wat::parse_str(r#"(module (func (export "wasm:opcode:unreachable")))"#)
            .expect("it is text");
        let mut run = stage::run(&[("m", &bytes)], &[], PROGRAM.as_bytes(), ProbeCalls::Inlined)
            .expect("it matches");
        run.call("main", &[Val::I32(200)]).expect("it runs")
    };
    let bytes = wat::parse_str(monitor).expect("it is text");
    let toggle = |observer: &mut wasm_aot::observer::Observer| observer.set_toggled(true);
    let mut run = stage::run_with(&[("m", &bytes)], &[], PROGRAM.as_bytes(), calls, toggle)
        .expect("it matches");
    let (observation, is_over) = (Arc::clone(&run.observation), AtomicBool::new(false));
    let mut runs = 0;
    std::thread::scope(|scope| {
        let switching = scope.spawn(|| {
            let mut dice = Dice(calls as u64 + 7);
            let mut throws = 0;
            while !is_over.load(Relaxed) {
                throw(&observation, &mut dice);
                throws += 1;
            }
            throws
        });
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            runs += 1;
            assert_eq!(
                run.call("main", &[Val::I32(200)]).expect("it runs")[0].i32(),
                quiet[0].i32()
            );
            expected.iter().for_each(|(name, _)| assert!(run.global(name) >= 0));
        }
        is_over.store(true, Relaxed);
        assert!(switching.join().expect("no panic") > 10);
    });
    // Each run executes twenty times as much as the one below; no event was counted that was not
    // executed.
    for (name, expected) in expected.iter().filter(|(name, _)| *name != "once") {
        let (found, most) = (run.global(name), runs * 20 * expected);
        assert!((1..=most).contains(&found), "{name}, {calls:?}: {found} of {most}");
    }
    // Everything is on again: from now on every event is counted.
    run.observation.rest(true).expect("nobody rests");
    run.observation.switch(&Selection::whole("m"), true).expect("switched");
    let before: Vec<i64> = expected.iter().map(|(name, _)| run.global(name)).collect();
    run.call("main", &[Val::I32(10)]).expect("it runs");
    for ((name, expected), before) in expected.iter().zip(before) {
        assert_eq!(run.global(name) - before, *expected, "{name}, {calls:?}");
    }
}

#[test]
fn whatever_is_switched_in_the_middle_results_and_later_counts_are_the_same() {
    let expected = [("calls", 10 + 500), ("turns", 10 + 500), ("ifs", 500), ("once", 1)];
    storm(MONITOR, ProbeCalls::Inlined, &expected);
    storm(MONITOR, ProbeCalls::Direct, &expected);
}

#[test]
fn what_follows_from_counters_is_switched_like_what_is_called() {
    storm(
        COUNTING,
        ProbeCalls::Inlined,
        &[("calls", 10 + 500), ("turns", 10 + 500), ("ifs", 500), ("exits", 10 + 1)],
    );
}
