//! Texts that functions of monitors are given with each call.

use super::BOTH;
use super::stage::{Run, run_with};
use std::time::Duration;
use wasm_aot::Val;
use wasm_aot::observer::{Observer, ProbeCalls};

/// Calls two functions, in turn.
const PROGRAM: &str = r#"(module (func $one nop) (func $second_one nop)
    (func $main (export "main") (param $n i32) (result i32)
        (loop $again (call $one) (call $second_one)
            (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $n)))"#;

/// A monitor with a full memory, which ends with a buffer of 15 bytes. Its function `$keep` appends
/// a text and a line end to the memory `seen`, and overwrites the buffer.
fn monitor(more: &str) -> String {
    format!(
        r#"(module (memory $own (export "whamm_buffer") 1 1) (memory $seen (export "seen") 1)
        (global (export "whamm_buffer:start") i32 (i32.const 65521))
        (global (export "whamm_buffer:max") i32 (i32.const 15))
        (global $next (mut i32) (i32.const 0))
        (func $keep (param $at i32) (param $len i32)
            (memory.copy $seen $own (global.get $next) (local.get $at) (local.get $len))
            (global.set $next (i32.add (global.get $next) (local.get $len)))
            (i32.store8 $seen (global.get $next) (i32.const 10))
            (global.set $next (i32.add (global.get $next) (i32.const 1))))
        (func $overwrite (memory.fill $own (i32.const 65521) (i32.const 120) (i32.const 15)))
        {more})"#
    )
}

fn observed(monitor: &str, calls: ProbeCalls, ready: impl Fn(&mut Observer)) -> Run {
    let bytes = wat::parse_str(monitor).expect("it is text");
    run_with(&[("monitor", &bytes)], &[], PROGRAM.as_bytes(), calls, ready)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The texts that it has seen.
fn seen(run: &mut Run) -> String {
    let seen = run.memory("seen");
    let end = seen.iter().position(|byte| *byte == 0).expect("a page is more");
    String::from_utf8_lossy(&seen[..end]).replace('\n', " ")
}

#[test]
fn texts_are_written_before_each_call_and_cut_to_the_buffer() {
    // The two texts of a call follow one another, and the second one has less room.
    let monitor = monitor(
        r#"(func (export "$place") (param i32 i32 i32) (result i32) (call $overwrite) (local.get 2))
        (func (export "wasm:opcode:call ($place(fname, pc), fname, target_fn_name)")
                (param i32 i32 i32 i32 i32)
            (call $keep (local.get 1) (local.get 2)) (call $keep (local.get 3) (local.get 4))
            (call $overwrite)
            (if (i32.ne (memory.size $own) (i32.const 1)) (then (unreachable))))"#,
    );
    let monitor = monitor.replace("(i32.const 15))\n", "(i32.const 10))\n");
    let manners: [fn(&mut Observer); 4] = [
        |_| {},
        |observer| observer.set_toggled(true),
        |observer| observer.set_contained(Duration::from_secs(10)),
        Observer::set_threads,
    ];
    for (calls, ready) in BOTH.iter().flat_map(|calls| manners.map(|ready| (*calls, ready))) {
        let mut run = observed(&monitor, calls, ready);
        run.call("main", &[Val::I32(2)]).expect("it runs");
        assert_eq!(seen(&mut run), "main one main second main one main second ");
        let cut = run.observation.shortened();
        assert!(cut[0].1.starts_with("`second_one` does not fit into the 6 bytes"), "{cut:?}");
    }
}

#[test]
fn texts_are_written_for_a_probe_behind_one_that_traps() {
    let monitor = monitor(
        r#"(func (export "wasm:opcode:call (fname)") (param i32 i32)
            (call $keep (local.get 0) (local.get 1)) (unreachable))
        (func (export "wasm:opcode:call (target_fn_name)") (param i32 i32)
            (call $keep (local.get 0) (local.get 1)))"#,
    );
    for calls in BOTH {
        let mut run = observed(&monitor, calls, |_| {});
        run.call("main", &[Val::I32(2)]).expect_err("the monitor fails");
        assert_eq!(seen(&mut run), "main one ");
    }
}

#[test]
fn texts_are_written_for_probes_that_a_monitor_inserts() {
    let inserts = r#"(data (i32.const 0) "(fname)(opname)")
        (elem declare func $say)
        (func $say (param i32 i32) (call $keep (local.get 0) (local.get 1)) (call $overwrite))
        (func (export "engine:instantiated")
            (drop (call $insert
                (i32.const 0) (i32.const 1) (ref.func $say) (i32.const 7) (i32.const 8)))
            (drop (call $insert
                (i32.const 1) (i32.const 0) (ref.func $say) (i32.const 0) (i32.const 7))))"#;
    let imports = r#"(import "wasm-aot:ext" "v1" (func))
        (import "wasm-aot:ext" "insert_probe"
            (func $insert (param i32 i32 funcref i32 i32) (result i32)))"#;
    let monitor = monitor(inserts).replace("(module", &format!("(module {imports}"));
    let mut run = observed(&monitor, ProbeCalls::Inlined, |_| {});
    run.call("main", &[Val::I32(2)]).expect("it runs");
    assert_eq!(seen(&mut run), "nop second_one nop second_one ");
}

#[test]
fn a_buffer_that_exceeds_its_memory_is_refused_before_the_program_runs() {
    let monitor = monitor(r#"(func (export "wasm:opcode:call (target_fn_name)") (param i32 i32))"#);
    let monitor = monitor.replace("i32.const 65521", "i32.const 65530");
    let bytes = wat::parse_str(monitor).expect("it is text");
    let refused = run_with(&[("m", &bytes)], &[], PROGRAM.as_bytes(), ProbeCalls::Inlined, |_| {});
    let why = refused.err().expect("it is refused").to_string();
    assert!(why.contains("10 bytes at 65530 are outside of a memory"), "{why}");
}
