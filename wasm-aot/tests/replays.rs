//! The commands that record programs and repeat their runs, from their arguments to their exit
//! codes.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "the tests of the command use more of it")]
mod place;

use place::{Place, errors};
use std::fs;
use std::path::Path;
use std::process::Command;
use test_support::{eventually, require, send, succeed};

/// Prints four letters that depend on the clock and on random numbers, and ends with code 3, two
/// calls deep.
const LETTERS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\64\00\00\00\05\00\00\00") (data (i32.const 104) "\n")
    (func $main (local $i i32)
        (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 16)))
        (drop (call $random (i32.const 24) (i32.const 4)))
        (loop $l
            (i32.store8 (i32.add (i32.const 100) (local.get $i))
                (i32.add (i32.const 97) (i32.rem_u
                    (i32.xor (i32.load8_u (i32.add (i32.const 16) (local.get $i)))
                        (i32.load8_u (i32.add (i32.const 24) (local.get $i))))
                    (i32.const 26))))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4))))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $exit (i32.const 3)))
    (func (export "_start") (call $main) (unreachable)))"#;

/// The output of a command, and its exit code.
fn said(place: &Place, args: &[&str]) -> (String, Option<i32>) {
    let output = place.run(args);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[test]
fn a_recorded_run_is_repeated_with_its_output_its_counts_and_its_code() {
    let place = Place::new("record");
    let app = place.file("letters.wat", LETTERS);
    let first = place.run(&["record", "--monitor", "hotness,top=all", &app]);
    let (head, counts) = ("wasm-aot: letters.r3: 13 events recorded\n", errors(&first));
    let counts = counts.strip_prefix(head).unwrap_or_else(|| panic!("{counts}"));
    assert!(first.status.code() == Some(3) && counts.lines().count() > 40, "{counts}");
    let recorded = String::from_utf8_lossy(&first.stdout).into_owned();
    let replayed = place.run(&["run", "--monitor", "hotness,top=all", "letters.r3"]);
    assert_eq!((&*errors(&replayed), replayed.status.code()), (counts, Some(3)));
    assert_eq!(said(&place, &["run", "letters.r3"]), (recorded, Some(3)));
    let checked = place.good(&["replay", "--check", "letters.r3"]);
    assert_eq!(checked, "letters.r3: the program behaves as recorded\n");
    for args in [
        &["replay", "letters.r3", "-o", "bench.wasm"][..],
        &["replay", "--check", "letters.r3", &app, "-o", "checked.wasm"],
    ] {
        assert_eq!(place.good(args), "");
        assert_eq!(place.good(&["run", args.last().expect("a file")]), "");
    }
    // A replay exports what the program exports.
    assert!(place.good(&["inspect", "bench.wasm"]).contains("memory"));
}

#[test]
fn a_summary_compares_what_a_run_and_its_replay_execute() {
    let place = Place::new("summary");
    // It exits two calls deep: its replay has more instructions, which belong to the host.
    let app = place.file("letters.wat", LETTERS);
    assert_eq!(place.run(&["record", "-o", "exits.r3", &app]).status.code(), Some(3));
    // Callbacks, growth, a table of branches; and a trap.
    let traps = place.file(
        "traps.wat",
        r#"(module (import "wasi_snapshot_preview1" "random_get"
                (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 1 9)
            (func $pick (param i32) (result i32)
                (block (block (block (br_table 0 1 2 (local.get 0)))
                    (return (i32.const 5))) (return (i32.const 7)))
                (i32.const 9))
            (func (export "_start") (local $i i32)
                (drop (memory.grow (i32.const 2)))
                (loop $l
                    (drop (call $random (i32.const 8) (i32.const 2)))
                    (drop (call $pick (i32.and (i32.load8_u (i32.const 8)) (i32.const 3))))
                    (br_if $l (i32.lt_u
                        (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 50))))
                (drop (i32.div_u (i32.const 1) (i32.const 0)))))"#,
    );
    assert_eq!(place.run(&["record", "-o", "traps.r3", &traps]).status.code(), Some(134));
    for (trace, calls, pages) in [("exits.r3", 4, "1"), ("traps.r3", 50, "3")] {
        let told = place.good(&["replay", "--summary", trace]);
        let rows: Vec<Vec<&str>> =
            told.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |name: &str| {
            let line = told.lines().position(|line| line.starts_with(name));
            rows[line.unwrap_or_else(|| panic!("{name}: {told}"))].clone()
        };
        for name in ["instructions", "opcodes", "ways of branches", "places executed"] {
            let row = row(name);
            let [.., record, replay, equal] = row[..] else { panic!("{told}") };
            assert!(record == replay && equal == "equal" && record != "0", "{told}");
        }
        assert_eq!(row("pages of memory 0")[4..], [pages, pages, "equal"], "{told}");
        assert!(told.contains(&format!("host: {calls} calls, ")), "{told}");
        assert!(!told.contains("not measured"), "{told}");
    }
    // A trace from another host has no times; a replay that diverges from its trace has no summary.
    let text = place.good(&["trace", "show", "exits.r3"]);
    let shown = place.file("exits.txt", &text);
    assert!(place.good(&["replay", "--summary", &shown, &app]).contains("not measured"));
    let other = place.file("other.txt", text.replace("call 2 i32:24 i32:4", "call 2 i32:24 i32:5"));
    let refused = place.bad(&["replay", "--summary", &other, &app]).0;
    assert!(refused.contains("what differs has no summary"), "{refused}");
}

#[test]
fn a_program_is_recorded_with_its_libraries_as_one_module() {
    let place = Place::new("preloaded");
    let library = place.file(
        "random.wat",
        r#"(module (import "wasi_snapshot_preview1" "random_get"
                (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 8) "\07")
            (func (export "number") (result i32) (drop (call $random (i32.const 0) (i32.const 4)))
                (i32.add (i32.load (i32.const 0)) (i32.load (i32.const 8)))))"#,
    );
    let app = place.file(
        "app.wat",
        r#"(module (import "random" "number" (func $number (result i32)))
            (func (export "run") (result i32) (i32.sub (call $number) (call $number))))"#,
    );
    let preload = format!("random={library}");
    let first = place.good(&["record", "--preload", &preload, "--invoke", "run", &app]);
    assert!(first.trim().parse::<i32>().is_ok(), "{first}");
    let text = place.good(&["trace", "show", "app.r3"]);
    assert!(text.contains(&format!("leave i32:{first}")), "{text}");
    place.good(&["replay", "--check", "app.r3"]);
    place.good(&["replay", "--check", "app.r3", "-o", "bench.wasm"]);
    place.good(&["run", "bench.wasm"]);
}

/// How many events a trace has.
fn count(place: &Place, trace: &str) -> u64 {
    let text = place.good(&["trace", "show", trace]);
    let last = text.lines().last().and_then(|line| line.split(' ').nth(1));
    last.and_then(|count| count.parse().ok()).expect("a count")
}

#[test]
fn a_program_that_records_itself_has_the_same_replay() {
    let place = Place::new("itself");
    let app = place.file("letters.wat", LETTERS);
    let original = wat::parse_str(LETTERS).expect("a module");
    let file = Some("itself.r3".to_owned());
    let options = whamm_record::Options { name: "letters".into(), file, raw: false };
    let recording = whamm_record::record(&original, &options).expect("it can be recorded");
    let rewritten = place.file("rewritten.wasm", recording.module);
    let (printed, code) = said(&place, &["run", "--dir", ".", &rewritten]);
    assert_eq!((printed.len(), code), (5, Some(3)), "{printed}");
    let checked = place.good(&["replay", "--check", "itself.r3", &app]);
    assert_eq!(checked, "itself.r3: the program behaves as recorded\n");
    place.good(&["replay", "--check", "itself.r3", &app, "-o", "bench.wasm"]);
    assert_eq!(place.good(&["run", "bench.wasm"]), "");
    // A raw trace is reduced to the host's actions and the program's exit.
    let file = Some("raw.r3".to_owned());
    let options = whamm_record::Options { name: "letters".into(), file, raw: true };
    let raw = whamm_record::record(&original, &options).expect("it can be recorded");
    let raw = place.file("raw.wasm", raw.module);
    assert_eq!(said(&place, &["run", "--dir", ".", &raw]).1, Some(3));
    let refused = place.bad(&["replay", "--check", "raw.r3", &app]).0;
    assert!(refused.contains("a raw recording: make the usual trace of it"), "{refused}");
    let effect = place.good(&["reduce", "raw.r3", &app, "-o", "reduced.r3"]);
    let line = |name: &str| {
        let line = effect.lines().find(|line| line.ends_with(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("  functions' entries and returns")[..2], ["2", "0"], "{effect}");
    // A byte that is zero by chance is what was there before.
    let loads = line("  loads");
    assert!(loads[0] == "8" && loads[1].parse::<u32>().is_ok_and(|kept| kept > 3), "{effect}");
    assert_eq!(line("  stores")[..2], ["4", "0"], "{effect}");
    // Of nothing, nothing is removed.
    let text = place.good(&["trace", "show", "itself.r3"]);
    let heading: String = text.split_inclusive('\n').take(2).collect();
    let nothing = place.file("nothing.txt", heading);
    let effect = place.good(&["reduce", &nothing, &app, "-o", "nothing.r3"]);
    assert!(effect.ends_with("    0               0    0.000%  all\n"), "{effect}");
    let checked = place.good(&["replay", "--check", "reduced.r3", &app]);
    assert_eq!(checked, "reduced.r3: the program behaves as recorded\n");
    // Two runs, since a random byte may equal the one before it, and is then not detected.
    let calls = |trace: &str| {
        let text = place.good(&["trace", "show", trace]);
        text.lines().filter(|line| !line.starts_with("found ") && !line.starts_with('#')).count()
    };
    assert_eq!(calls("reduced.r3"), calls("itself.r3"));
    // This engine records about the same number of events.
    assert_eq!(place.run(&["record", "-o", "seen.r3", &app]).status.code(), Some(3));
    let (itself, seen) = (count(&place, "itself.r3"), count(&place, "seen.r3"));
    assert!(itself <= 2 * seen && seen <= 2 * itself, "{itself} and {seen} events");
    // If it may not write, the program still behaves the same.
    let output = place.run(&["run", &rewritten]);
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("record: itself.r3: not recorded: "), "{}", errors(&output));
}

#[test]
fn traces_are_shown_as_text_which_is_a_trace_and_compared() {
    let place = Place::new("trace");
    let app = place.file("letters.wat", LETTERS);
    for name in ["a.r3", "b.r3"] {
        assert_eq!(place.run(&["record", "-o", name, &app]).status.code(), Some(3));
    }
    let text = place.good(&["trace", "show", "a.r3"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.starts_with("fi-trace text 1\nprogram "), "{text}");
    assert_eq!(lines[3], "enter 5 export \"_start\"");
    assert!(lines.contains(&"call 3 i32:3") && lines.contains(&"leave exit 3"), "{text}");
    assert_eq!(lines.last(), Some(&"# 13 events"));
    let in_text = place.file("a.txt", &text);
    assert_eq!(place.good(&["trace", "diff", "a.r3", &in_text]), "equal: 13 events\n");
    assert_eq!(
        place.good(&["replay", "--check", &in_text, &app]),
        format!("{in_text}: the program behaves as recorded\n")
    );
    let (differ, code) = said(&place, &["trace", "diff", "a.r3", "b.r3"]);
    assert!(
        code == Some(1) && differ.starts_with("event 2 differs\n  a.r3: write 0 16 "),
        "{differ}"
    );
    // A second recording of the run is the same.
    assert_eq!(place.run(&["record", "-o", "again.r3", "a.r3"]).status.code(), Some(3));
    assert_eq!(place.good(&["trace", "diff", "a.r3", "again.r3"]), "equal: 13 events\n");
    let changed =
        place.file("changed.txt", text.replace("call 2 i32:24 i32:4", "call 2 i32:24 i32:5"));
    let output = place.run(&["replay", "--check", &changed, &app]);
    let told = errors(&output);
    let expected = "the replay leaves the trace at event 4, a call of function 2, \
                    \"wasi_snapshot_preview1\" \"random_get\", argument 1: expected i32:5, found i32:4";
    assert!(output.status.code() == Some(1) && told.contains(expected), "{told}");
}

/// A run in the format of Wasm-R3: that of the tool, and that of the thesis.
const R3: [&str; 2] = [
    "IG;0;7\nEC;1;run;3\nIC;0\nIR;0;2.5\nL;0;4;1,2\nMG;0;1\nG;0;8\nER\nEC1;run;4\nIC;0\nEC;2;inner;\nIR;0;-Infinity\nER\n",
    "IG;0;h;g;i32;1;7\nEC;1;run;3\nIC;0;f\nIR;0;f;2.5\nL;0;m;4;1,2\nMG;0;m;1\nG;0;g;8;i32\nER\nEC;1;run;4\nIC;0;f\nEC;2;inner;\nIR;0;f;-Infinity\nER\n",
];
const R3_APP: &str = r#"(module (import "h" "f" (func $f (param i32) (result f64))) (import "h" "g" (global $g (mut i32)))
    (memory (export "m") 1)
    (func (export "run") (param i32) (result i32) (drop (call $f (local.get 0)))
        (i32.add (global.get $g) (i32.load16_u (i32.const 4))))
    (func (export "inner")))"#;

#[test]
fn traces_of_wasm_r3_are_read_in_both_dialects_and_written() {
    let place = Place::new("wasm-r3");
    let app = place.file("app.wat", R3_APP);
    let mut shown = Vec::new();
    for (number, text) in R3.iter().enumerate() {
        let trace = place.file(&format!("{number}.txt"), text);
        shown.push(place.good(&["trace", "show", &trace, &app]));
        place.good(&["replay", &trace, &app, "-o", "bench.wasm"]);
        assert_eq!(place.good(&["run", "bench.wasm"]), "");
        let again = place.good(&["trace", "show", "--format", "r3", &trace, &app]);
        assert_eq!(again, R3[0].replace("EC1", "EC;1"));
        let refused = place.bad(&["replay", "--check", &trace, &app]).0;
        assert!(refused.contains("omit --check"), "{refused}");
        assert!(place.bad(&["run", &trace]).1 != 0);
    }
    assert_eq!(shown[0], shown[1]);
    let events = ["found write 0 4 0102", "return f64:0xfff0000000000000", "found grow 0 1"];
    assert!(events.iter().all(|event| shown[0].contains(&format!("\n{event}\n"))), "{}", shown[0]);
    // Events that the format cannot represent are named, or counted.
    let wide = place.file("wide.wat", r#"(module (func (export "a;b") (param i64)))"#);
    let args = ["record", "-o", "wide.r3", "--invoke", "a;b", &wide, "9007199254740993"];
    assert_eq!(place.good(&args), "");
    let refused = place.bad(&["trace", "show", "--format", "r3", "wide.r3"]).0;
    assert!(refused.contains("event 0: the form of Wasm-R3 cannot hold a name with"), "{refused}");
    let output = place.run(&["trace", "show", "--format", "r3", "--lossy", "wide.r3"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "EC;0;a_b;9007199254740992\nER\n");
    assert!(errors(&output).contains("lost 1 time: an integer of 64 bits"), "{}", errors(&output));
}

#[test]
fn what_is_no_trace_of_the_program_is_refused_in_a_line() {
    let place = Place::new("no-trace");
    let app = place.file("letters.wat", LETTERS);
    let other = place.file("other.wat", "(module)");
    assert_eq!(place.run(&["record", "-o", "a.r3", &app]).status.code(), Some(3));
    let whole = fs::read(place.0.join("a.r3")).expect("a trace");
    let refused = |args: &[&str], code: i32, part: &str| {
        let (text, found) = place.bad(args);
        assert!(text.contains(part) && found == code, "{args:?}: {found}: {text}");
    };
    refused(
        &["replay", "a.r3", &other, "-o", "x.wasm"],
        1,
        "other.wat: another module than was recorded",
    );
    refused(
        &["replay", "a.r3"],
        2,
        "name a file for the module with -o, or use --check or --summary",
    );
    refused(
        &["replay", &app, "-o", "x.wasm"],
        1,
        "not a trace: it does not begin with \"fi-trace\"",
    );
    refused(&["replay", "missing.r3", "-o", "x.wasm"], 1, "missing.r3: No such file");
    refused(&["replay", "a.r3", "-o", "no/folder/x.wasm"], 1, "no/folder/x.wasm: No such file");
    refused(
        &["record", "a.r3"],
        2,
        "it would be read and written at once: name another file with -o",
    );
    let empty = format!("a={other}");
    let wanting = place.file("wanting.wat", r#"(module (import "a" "f" (func)))"#);
    refused(
        &["record", "--preload", &empty, &wanting],
        1,
        "--preload: \"a\" \"f\": a exports nothing of that name and kind",
    );
    refused(&["run", "a.r3", "argument"], 2, "a trace contains its arguments");
    refused(&["record", "-o", "no/folder/a.r3", &app], 1, "name a writable file with -o");
    refused(&["record", "-o", "/dev/full", &app], 1, "No space left on device");
    let mut newer = whole.clone();
    newer[8] = 9;
    refused(&["run", &place.file("newer.r3", newer)], 126, "a trace of version 9");
    let text = place.good(&["trace", "show", "a.r3"]).replacen("text 1", "text 9", 1);
    refused(&["trace", "show", &place.file("newer.txt", text)], 1, "a trace of version 9");
    let mut damaged = whole.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 4;
    refused(&["replay", &place.file("damaged.r3", damaged), "-o", "x.wasm"], 1, "damaged at byte");
    let empty = place.file("empty.r3", &whole[..20]);
    refused(&["replay", &empty, "-o", "x.wasm"], 1, "cut off before the program");
    // Without its last block it is a trace of the run's beginning.
    let cut = place.file("cut.r3", &whole[..whole.len() - 5]);
    let text = place.good(&["trace", "show", &cut]);
    assert!(text.ends_with("# the trace was cut off here\n# 13 events\n"), "{text}");
    assert_eq!(place.run(&["run", &cut]).status.code(), Some(3));
}

/// Prints dots, as many as its memory has room for numbers, and then spins.
const DOTS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\10\00\00\00\01\00\00\00") (data (i32.const 16) ".")
    (func (export "spin") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))) (loop $l (br $l)))
    (func (export "_start") (local $i i32)
        (loop $l
            (drop (call $random (i32.const 32) (i32.const 64)))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2000))))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn a_full_disk_ends_the_trace_and_not_the_program() {
    let place = Place::new("full");
    place.file("dots.wat", DOTS);
    let output = place.shell("ulimit -f 64; exec \"$0\" record --no-cache -o full.r3 dots.wat");
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout), output.status.code()),
        (".".into(), Some(0))
    );
    let told = errors(&output);
    assert!(
        told.contains("full.r3: the trace ends after ") && told.contains("File too large"),
        "{told}"
    );
    let text = place.good(&["trace", "show", "full.r3"]);
    assert!(text.contains("\n# recording ended here: File too large"), "{text}");
    // The truncated trace can be replayed up to its end.
    place.good(&["replay", "full.r3", "-o", "bench.wasm"]);
    let output = place.run(&["run", "full.r3"]);
    assert!(errors(&output).contains("the trace ends here, after "), "{}", errors(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_program_that_is_stopped_is_not_reported_to_have_gone_on() {
    let place = Place::new("stopped");
    let app = place.file("dots.wat", DOTS);
    let output = place.run(&[
        "record",
        "--max-instructions",
        "1000000",
        "--invoke",
        "spin",
        "-o",
        "cut.r3",
        &app,
    ]);
    assert_ne!(output.status.code(), Some(0));
    let told = errors(&output);
    let line = told.lines().find(|line| line.contains("cut.r3: the trace ends after "));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(": the program was stopped from outside: "), "{line}");
    assert!(!line.contains("went on"), "{line}");
    // Nor is it said to differ from its trace.
    assert_eq!(place.run(&["record", "-o", "dots.r3", &app]).status.code(), Some(0));
    let output = place.run(&["run", "--max-instructions", "1000", "dots.r3"]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(134), "{told}");
    assert!(told.contains("the budget of instructions is used up"), "{told}");
    assert!(!told.contains("leaves the trace"), "{told}");
}

/// Reads random bytes, which programs that record themselves record.
const READS: &str = r#"(module
    (import "wasi_snapshot_preview1" "random_get"
        (func $random (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start") (local $i i32)
        (loop $l
            (drop (call $random (i32.const 32) (i32.const 8)))
            (drop (i64.load (i32.const 32)))
            (br_if $l
                (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 9000))))))"#;

#[test]
fn a_full_disk_ends_the_trace_of_a_program_that_records_itself() {
    let place = Place::new("full-itself");
    let app = place.file("reads.wat", READS);
    let original = wat::parse_str(READS).expect("a module");
    let file = Some("full.r3".to_owned());
    let options = whamm_record::Options { name: "reads".into(), file, raw: false };
    let recording = whamm_record::record(&original, &options).expect("it can be recorded");
    place.file("rewritten.wasm", recording.module);
    let output = place
        .shell("trap '' XFSZ; ulimit -f 64; exec \"$0\" run --no-cache --dir . rewritten.wasm");
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("full.r3: the trace ends here, because the file cannot be"), "{told}");
    let (told, code) = place.bad(&["replay", "--check", "full.r3", &app]);
    assert!(told.contains("the trace ends here, after ") && code == 1, "{code}: {told}");
}

#[test]
fn a_recorder_that_is_killed_leaves_what_it_has_seen() {
    let place = Place::new("killed");
    let app = place.file("dots.wat", DOTS);
    let mut child = place.start(&["record", "-o", "killed.r3", "--invoke", "spin", &app]);
    eventually("the event is on the disk", || {
        let shown = place.run(&["trace", "show", "killed.r3"]);
        String::from_utf8_lossy(&shown.stdout).contains("return i32:0")
    });
    let process = child.id();
    child
        .kill()
        .or_else(|_| {
            send(process, 9);
            Ok::<(), std::io::Error>(())
        })
        .expect("it is killed");
    child.wait().expect("it ends");
    let text = place.good(&["trace", "show", "killed.r3"]);
    assert!(
        text.ends_with(
            "write 0 8 01000000\nreturn i32:0\n# the trace was cut off here\n# 4 events\n"
        ),
        "{text}"
    );
}

const WORK: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
int main(int argc, char **argv) {
    static char text[65536]; static char *lines[1024]; int count = 0;
    FILE *file = fopen(argv[1], "r");
    if (!file) { perror(argv[1]); return 1; }
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (char *line = strtok(text, "\n"); line && count < 1024; line = strtok(NULL, "\n")) lines[count++] = line;
    qsort(lines, count, sizeof *lines, compare);
    unsigned seed; getentropy(&seed, sizeof seed);
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    FILE *out = fopen(argv[2], "w");
    for (int i = 0; i < count; i++) fprintf(out, "%s\n", lines[i]);
    fclose(out);
    printf("%s: %d lines, %zu bytes, %u, %ld.%09ld, HOME=%s\n", argv[0], count, len, seed, (long)now.tv_sec, now.tv_nsec, getenv("HOME"));
    if (argc > 3) exit(atoi(argv[3]));
    return 0;
}
"#;

#[test]
fn a_program_in_c_with_files_clocks_and_arguments_runs_without_them() {
    let found = Command::new("python3").args(["-c", "import ziglang, wasmtime"]).output();
    if !require(found.is_ok_and(|output| output.status.success()), "zig cc or Wasmtime") {
        return;
    }
    let place = Place::new("in-c");
    let (source, app) =
        (place.file("work.c", WORK), place.0.join("work.wasm").display().to_string());
    succeed(Command::new("python3").args([
        "-m",
        "ziglang",
        "cc",
        "--target=wasm32-wasi",
        "-O2",
        &source,
        "-o",
        &app,
    ]));
    let text: String = (0..800).map(|i| format!("{:x} a line\n", i * 7919 % 1009)).collect();
    fs::create_dir(place.0.join("files")).expect("a folder");
    fs::write(place.0.join("files/in.txt"), text).expect("a file");
    for (name, code) in [("done", None), ("exits", Some("5"))] {
        let trace = format!("{name}.r3");
        let mut args = vec![
            "record",
            "--dir",
            "files::/",
            "--env",
            "HOME=/home/somebody",
            "-o",
            &trace,
            &app,
            "/in.txt",
            "/out.txt",
        ];
        args.extend(code);
        let first = place.run(&args);
        let output = String::from_utf8_lossy(&first.stdout).into_owned();
        let expected = code.map_or(0, |code| code.parse().expect("a code"));
        assert!(
            output.contains("800 lines") && first.status.code() == Some(expected),
            "{}",
            errors(&first)
        );
        fs::remove_file(place.0.join("files/out.txt")).expect("it was written");
        assert_eq!(said(&place, &["run", &trace]), (output, Some(expected)));
        assert!(!Path::new(&place.0.join("files/out.txt")).exists(), "a replay touches nothing");
        let bench = format!("{name}.wasm");
        place.good(&["replay", "--check", &trace, "-o", &bench]);
        let count = place.good(&["trace", "show", &trace]);
        let count = count
            .lines()
            .last()
            .and_then(|line| line.split(' ').nth(1))
            .expect("a count")
            .to_owned();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recording/engines.py");
        succeed(
            Command::new("python3")
                .arg(script)
                .args([&place.0.join(&bench).display().to_string(), &count]),
        );
    }
}
