//! Counts and coverage beside a monitor that replaces blocks and branches: control that is led
//! around them is counted as it went.

use super::BOTH;
use super::replaced_programs::{BLOCKS, JUMPS};
use super::stage::{Run, run};
use wasm_aot::observer::ProbeCalls;

/// What each monitor replaces, in both programs.
const REPLACEMENTS: [&str; 12] = [
    "wasm:opcode:block:alt / fname == \"block\" / { return 7; }",
    "wasm:opcode:block:alt / fname == \"table\" / { report var n: u32; n++; }",
    "wasm:opcode:loop(arg0: i32):alt / fname == \"loop\" / { return (arg0 + 1, 2.5); }",
    "wasm:opcode:if:alt / fname == \"if\" / { return arg0 + 3; }",
    "wasm:opcode:else:alt / fname == \"if\" / { return 70; }",
    "wasm:opcode:try_table:alt { report var n: u32; n++; }",
    "wasm:opcode:br_if:alt / fname == \"block\" && arg0 == 1 / { drop_args(); }",
    "wasm:opcode:br:alt / fname == \"br\" / { report var n: u32; n++; }",
    "wasm:opcode:br_table:alt / arg0 == 1 / { report var n: u32; n++; }",
    "wasm:opcode:br_table:alt { drop_args(); }",
    "wasm:opcode:return:alt { report var n: u32; n++; }",
    "wasm:opcode:br:alt / fname == \"loop\" && opidx < 12 / { report var n: u32; n++; }",
];

/// A monitor with a word for each instruction, at `fid << 12 | pc << 2`.
fn observing(imports: &str, parameters: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module {imports} (memory (export "seen") 1) (global $last (mut i32) (i32.const 0))
        (func (export "wasm:opcode:* (fid, pc{parameters})") (param i32 i32 i32) (local $at i32)
            (local.set $at (i32.add (i32.shl (local.get 0) (i32.const 12)) (i32.shl (local.get 1) (i32.const 2))))
            {body}))"#
    );
    wat::parse_str(text).expect("it is text")
}

const ADD: &str = "(i32.store (local.get $at) (i32.add (i32.load (local.get $at)) (i32.const 1)))";

/// Runs a program under a monitor, which stands before or behind the one that replaces.
fn observed(own: &[u8], script: &str, program: &str, is_first: bool, calls: ProbeCalls) -> Run {
    let script = whamm::Source::new("alt.mm", script);
    let options = whamm::Options::default();
    let other = whamm::compile_monitor(&[script], &[], &options).expect("a script").module;
    let mut monitors = vec![("seen", own), ("alt", &other[..])];
    if !is_first {
        monitors.reverse();
    }
    let mut run =
        run(&monitors, &[], program.as_bytes(), calls).unwrap_or_else(|error| panic!("{error}"));
    run.call("_start", &[]).unwrap_or_else(|error| panic!("{error}"));
    run
}

/// What a monitor has seen at each place: as words.
fn words(run: &mut Run, is_first: bool) -> Vec<u32> {
    let bytes = run.memory_of(usize::from(!is_first), "seen");
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect()
}

#[test]
fn what_is_computed_is_what_a_monitor_sees_that_is_called() {
    // The order of these is visible, so they are called.
    let called = observing("", ", fid", &format!("{ADD} (global.set $last (local.get $at))"));
    let counted = observing("", ", fid", ADD);
    let remove = r#"(import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))"#;
    let once = "(i32.store (local.get $at) (i32.const 1)) (call $remove (local.get 2))";
    let covered = observing(remove, ", probe_id", once);
    for (program, script) in
        [BLOCKS, JUMPS].iter().flat_map(|program| REPLACEMENTS.map(|script| (program, script)))
    {
        for (calls, is_first) in BOTH.iter().flat_map(|calls| [(*calls, true), (*calls, false)]) {
            let seen = |monitor: &[u8], counts: bool| {
                let mut run = observed(monitor, script, program, is_first, calls);
                let counts = counts && calls == ProbeCalls::Inlined;
                assert_eq!(run.observation.module().counts().is_some(), counts);
                words(&mut run, is_first)
            };
            let wanted = seen(&called, false);
            assert!(wanted.iter().sum::<u32>() > 100, "{script}");
            assert_eq!(differences(&seen(&counted, true), &wanted), [], "{script}");
            let reached: Vec<u32> = wanted.iter().map(|count| u32::from(*count > 0)).collect();
            assert_eq!(differences(&seen(&covered, false), &reached), [], "{script}: covered");
        }
    }
}

/// Function, place, and what is seen and wanted, where these differ.
fn differences(seen: &[u32], wanted: &[u32]) -> Vec<(usize, usize, u32, u32)> {
    let each = seen.iter().zip(wanted).enumerate().filter(|(_, (seen, wanted))| seen != wanted);
    each.map(|(at, (seen, wanted))| (at >> 10, at & 1023, *seen, *wanted)).collect()
}
