//! A monitor's function that traps ends the program, after the other probes of the same event.

use super::BOTH;
use super::stage::{Run, run_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;
use wasm_aot::observer::{Observer, ProbeCalls};
use wasm_aot::probe::{Place, Probes, probe};
use wasm_aot::{Error, Val};

/// Multiplies its argument by the next smaller one, and so on, until that is 4: the fifth factor of
/// 9 has something else in each local.
const PROGRAM: &str = r#"(module
    (func $run (export "main") (param $n i32) (result i32) (local $wide i64) (local $float f64) (local $vector v128)
        (local.set $wide (i64.shl (i64.extend_i32_u (local.get $n)) (i64.const 40)))
        (local.set $float (f64.convert_i32_u (local.get $n)))
        (local.set $vector (i64x2.splat (local.get $wide)))
        (if (result i32) (i32.eqz (local.get $n))
            (then (i32.const 1))
            (else (i32.mul (local.get $n) (call $run (i32.sub (local.get $n) (i32.const 1))))))))"#;

/// What traps, of a function whose first parameter is the one to trap at.
const TRAPS: [(&str, &str); 7] = [
    ("(unreachable)", "unreachable"),
    ("(drop (i32.div_u (i32.const 1) (i32.sub (local.get 0) (i32.const 5))))", "divide by zero"),
    ("(drop (i32.load (i32.mul (local.get 0) (i32.const 0x10000000))))", "out of bounds"),
    ("(drop (i32.load offset=65536 (i32.const 0)))", "out of bounds"),
    ("(drop (call $deep (i32.const 1)))", "stack"),
    ("(call_indirect (local.get 0))", "undefined element"),
    ("(call $leave (i32.const 3))", "exit"),
];

fn failing(body: &str, padding: usize) -> String {
    let padding = "(global.set $n (i32.add (global.get $n) (i32.const 1)))".repeat(padding);
    format!(
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $leave (param i32)))
        (memory (export "memory") 1) (table 1 funcref) (global $n (mut i32) (i32.const 0))
        (func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))
        (func (export "wasm:opcode:i32.mul (arg1)") (param i32) {padding}
            (if (i32.eq (local.get 0) (i32.const 5)) (then {body}))))"#
    )
}

/// Adds up what it is given, each with a weight of its own, and counts its calls.
fn witness(padding: usize) -> String {
    let padding = "(global.set $n (i64.add (global.get $n) (i64.const 0)))".repeat(padding);
    format!(
        r#"(module (global $n (export "n") (mut i64) (i64.const 0)) (global $sum (export "sum") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:i32.mul (arg0, arg1, local1, local2, local3)")
                (param i32 i32 i64 f64 v128)
            {padding} (global.set $n (i64.add (global.get $n) (i64.const 1)))
            (global.set $sum (i64.add (global.get $sum)
                (i64.add (i64.add (i64.extend_i32_u (local.get 0)) (i64.shr_u (local.get 2) (i64.const 40)))
                (i64.add (i64.extend_i32_u (i32.mul (local.get 1) (i32.const 7)))
                (i64.add (i64.trunc_f64_u (local.get 3)) (i64x2.extract_lane 1 (local.get 4)))))))))"#
    )
}

/// What the witness has added up when the factor 5 is reached: of the factors 1 to 5.
fn expected() -> i64 {
    let factorials = [1i64, 1, 2, 6, 24];
    (1..=5).zip(factorials).map(|(n, below)| below + n + 7 * n + n + (n << 40)).sum()
}

fn observed(
    monitors: &[(&str, String)],
    calls: ProbeCalls,
    ready: impl Fn(&mut Observer),
) -> (Run, Error) {
    let bytes: Vec<Vec<u8>> =
        monitors.iter().map(|(_, text)| wat::parse_str(text).expect("it is text")).collect();
    let all: Vec<(&str, &[u8])> =
        monitors.iter().zip(&bytes).map(|((name, _), bytes)| (*name, &bytes[..])).collect();
    let mut run = run_with(&all, &[], PROGRAM.as_bytes(), calls, ready)
        .unwrap_or_else(|error| panic!("{error}"));
    let error = run.call("main", &[Val::I32(9)]).expect_err("a monitor fails");
    (run, error)
}

#[test]
fn a_probe_that_traps_does_not_keep_the_others_of_its_event_from_being_called() {
    for (body, why) in TRAPS {
        for (calls, padding) in BOTH.iter().flat_map(|calls| [(*calls, 0), (*calls, 40)]) {
            let all = [
                ("before", witness(0)),
                ("fails", failing(body, padding)),
                ("behind", witness(padding)),
                ("fails too", failing("(unreachable)", padding)),
                ("last", witness(0)),
            ];
            let (mut run, error) = observed(&all, calls, |_| {});
            let blamed = run.observation.blame(&error);
            assert!(error.to_string().contains(why), "{error}, not {why}");
            assert!(blamed.is_none_or(|blamed| blamed.contains("fails:")), "{error}");
            for monitor in [0, 2, 4] {
                let seen = (run.global_of(monitor, "n"), run.global_of(monitor, "sum"));
                assert_eq!(seen, (5, expected()), "{} after {why}", all[monitor].0);
            }
        }
    }
}

#[test]
fn probes_of_all_kinds_are_called_after_one_that_traps() {
    let all = [("fails", failing("(unreachable)", 0)), ("behind", witness(0))];
    let is_behind = |observer: &Observer| observer.name() == "behind";
    for calls in BOTH {
        let seen = |ready: &dyn Fn(&mut Observer)| {
            let (mut run, _) = observed(&all, calls, ready);
            (run.global_of(1, "n"), run.global_of(1, "sum"))
        };
        assert_eq!(seen(&|observer| observer.set_toggled(true)), (5, expected()));
        assert_eq!(seen(&Observer::set_threads), (5, expected()));
        let contained = |observer: &mut Observer| {
            is_behind(observer).then(|| observer.set_contained(Duration::from_secs(10)));
        };
        assert_eq!(seen(&contained), (5, expected()));
        let limited = |calls| {
            move |observer: &mut Observer| {
                is_behind(observer).then(|| observer.set_calls(calls));
            }
        };
        assert_eq!(seen(&limited(5)), (5, expected()));
        assert_eq!(seen(&limited(4)).0, 4);
        let off = |observer: &mut Observer| {
            is_behind(observer).then(|| observer.set_off());
        };
        assert_eq!(seen(&off), (0, 0));
    }
}

#[test]
fn variables_of_activations_are_there_after_a_probe_that_traps() {
    let imports = r#"(import "wasm-aot:ext" "v1" (func))
        (import "wasm-aot:ext" "frame_get_i32" (func $get (param i32) (result i32)))
        (import "wasm-aot:ext" "frame_set_i32" (func $set (param i32 i32)))
        (import "wasm-aot:ext" "frame_get_f64" (func $get_f64 (param i32) (result f64)))
        (import "wasm-aot:ext" "frame_set_f64" (func $set_f64 (param i32 f64)))"#;
    // The second function traps; the third reads what the first has written in the same event.
    let own = format!(
        r#"(module {imports}
        (global $written (export "written") (mut i32) (i32.const 0))
        (global $sum (export "sum") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:i32.mul (arg1)") (param i32)
            (call $set (i32.const 7) (local.get 0)) (call $set_f64 (i32.const 7) (f64.convert_i32_u (local.get 0))))
        (func (export "wasm:opcode:i32.mul (arg1, arg0)") (param i32 i32)
            (if (i32.eq (local.get 0) (i32.const 5)) (then (unreachable))))
        (func (export "wasm:opcode:i32.mul") (local i32)
            (global.set $written (i32.add (global.get $written) (call $get (i32.const 7))))
            (call $set (i32.const -1) (i32.const 3))
            (global.set $sum (i32.add (global.get $sum)
                (i32.add (call $get (i32.const -1)) (i32.trunc_f64_u (call $get_f64 (i32.const 7))))))))"#
    );
    // Slots of another monitor, with the same numbers; they are written in other events.
    let other = format!(
        r#"(module {imports} (global $n (export "n") (mut i32) (i32.const 0))
        (func $one (result i32) (i32.add (call $get (i32.const 7)) (i32.const 1)))
        (func (export "wasm:opcode:local.get") (call $set (i32.const 7) (call $one)))
        (func (export "wasm:opcode:i32.mul") (global.set $n (i32.add (global.get $n) (call $get (i32.const 7))))))"#
    );
    let ready: [fn(&mut Observer); 2] = [|_| {}, Observer::set_threads];
    for (calls, ready) in BOTH.iter().flat_map(|calls| ready.map(|ready| (*calls, ready))) {
        let (mut run, error) =
            observed(&[("own", own.clone()), ("other", other.clone())], calls, ready);
        assert!(error.to_string().contains("unreachable"), "{error}");
        // Five events; before each of them the activation executes `local.get` six times.
        assert_eq!((run.global_of(0, "written"), run.global_of(0, "sum")), (15, 15 + 5 * 3));
        assert_eq!(run.global_of(1, "n"), 5 * 6);
    }
}

#[test]
fn monitors_that_are_computed_have_the_event_in_which_another_one_traps() {
    let count = r#"(module (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:i32.mul") (global.set $n (i32.add (global.get $n) (i32.const 1)))))"#;
    let cover = r#"(module (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
        (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:local.get (probe_id)") (param i32)
            (global.set $n (i32.const 1)) (call $remove (local.get 0))))"#;
    let at_once = r#"(module (func (export "wasm:opcode:local.get") (unreachable)))"#;
    for calls in BOTH {
        for (monitor, fails, n) in
            [(count, failing("(unreachable)", 0), 5), (cover, at_once.into(), 1)]
        {
            let [own, other] = [("computed", monitor.into()), ("fails", fails)];
            let (mut first, _) = observed(&[own.clone(), other.clone()], calls, |_| {});
            let (mut last, _) = observed(&[other, own], calls, |_| {});
            assert_eq!((first.global_of(0, "n"), last.global_of(1, "n")), (n, n));
        }
    }
}

#[test]
fn probes_of_the_embedder_are_called_after_a_monitor_that_traps() {
    let place = r#"(module (global $pc (export "pc") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:i32.mul (pc)") (param i32) (global.set $pc (local.get 0))))"#;
    for calls in BOTH {
        let all = [("place", place.to_owned()), ("fails", failing("(unreachable)", 0))];
        let (mut run, _) = observed(&all, calls, |_| {});
        let place = Place::before(0, run.global("pc") as u32);
        let probes = Probes::new(run.observation.module());
        let (seen, sum) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
        let (own, add) = (Arc::clone(&seen), Arc::clone(&sum));
        let values = probe("values", move |frame| {
            own.fetch_add(1, Relaxed);
            for value in [frame.operand(0), frame.operand(1), frame.local(0)] {
                let Some(Val::I32(value)) = value else { return Err("no number".into()) };
                add.fetch_add(value, Relaxed);
            }
            Ok(())
        });
        probes.insert(place, values).expect("inserted");
        probes.count(place).expect("inserted");
        probes.measure(place).expect("inserted");
        run.call("main", &[Val::I32(9)]).expect_err("the monitor fails");
        assert_eq!(seen.load(Relaxed), 5);
        assert_eq!(sum.load(Relaxed), 2 * (1 + 2 + 3 + 4 + 5) + 1 + 1 + 2 + 6 + 24);
        assert_eq!(probes.counted(place), 5);
        assert_eq!(probes.histogram(place).iter().sum::<u64>(), 5);
    }
}

#[test]
fn a_monitor_is_called_after_a_probe_of_the_embedder_that_fails() {
    let program = r#"(module (func (export "main") (param i32) (result i32) (nop) (local.get 0)))"#;
    let count = r#"(module (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:nop (local0)") (param i32)
            (if (i32.eq (local.get 0) (i32.const 9)) (then (global.set $n (i32.add (global.get $n) (i32.const 1)))))))"#;
    for calls in BOTH {
        let bytes = wat::parse_str(count).expect("it is text");
        let mut run = super::run(&[("count", &bytes)], &[], program.as_bytes(), calls)
            .unwrap_or_else(|error| panic!("{error}"));
        let probes = Probes::new(run.observation.module());
        let strict = probe("strict", |_| Err("not that".into()));
        probes.insert(Place::before(0, 1), strict).expect("inserted");
        run.call("main", &[Val::I32(9)]).expect_err("the probe fails");
        assert_eq!(run.global("n"), 1);
    }
}
