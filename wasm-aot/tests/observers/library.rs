//! Scripts on both targets: attached to programs here, and rewritten into programs that another
//! engine runs.

use crate::engine;
use crate::stage::run;
use std::path::{Path, PathBuf};
use wasm_aot::Val;
use wasm_aot::observer::ProbeCalls;
use whamm::{LibraryFile, Options, Source};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../whamm").join(name)
}

pub(crate) fn program(name: &str) -> Vec<u8> {
    wat::parse_file(folder("tests/apps").join(name)).expect("it is text")
}

pub(crate) const PROGRAMS: [&str; 4] = ["fac.wat", "sieve.wat", "control.wat", "tables.wat"];

fn libraries() -> Vec<LibraryFile> {
    vec![LibraryFile {
        name: "cache".into(),
        module: "cache".into(),
        bytes: program("cache_lines.wat"),
    }]
}

/// Rows without implementation-specific values: addresses, and the number and mode of a probe. At a
/// function's beginning, a rewritten program reports the offset of its first instruction, and a
/// monitor reports 0.
pub(crate) fn rows(report: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for line in
        report.lines().filter(|l| !l.is_empty() && !l.starts_with('=') && !l.starts_with("id, "))
    {
        let (left, right) = line.rsplit_once(", script").expect("a row names its script");
        let name = left.split(", ").nth(2).expect("a row names its variable");
        let right: Vec<&str> = right.splitn(6, ", ").collect();
        let pc = if right[4].contains("func:entry") { "" } else { right[3] };
        list.push(format!("{name} {}:{pc} {}", right[2], right[5]));
    }
    list.sort();
    list
}

pub(crate) fn rewritten(script: &Source, app: &[u8]) -> Vec<String> {
    let output =
        whamm::instrument(std::slice::from_ref(script), &libraries(), app, &Options::default())
            .unwrap_or_else(|e| panic!("{e}"));
    let outcome = engine::run(&output.module, &[("cache", &program("cache_lines.wat"))]);
    // Programs that use WASI print the report themselves.
    rows(if outcome.kept.is_empty() { &outcome.written } else { &outcome.kept })
}

fn attached(script: &Source, app: &[u8], calls: ProbeCalls) -> Vec<String> {
    let output =
        whamm::compile_monitor(std::slice::from_ref(script), &libraries(), &Options::default());
    let monitor = output.unwrap_or_else(|e| panic!("{e}")).module;
    let cache = program("cache_lines.wat");
    let mut run = run(&[("monitor", &monitor)], &[("cache", &cache)], app, calls)
        .unwrap_or_else(|e| panic!("{}: {e}", script.name));
    let entry = if run.has("_start") { "_start" } else { "main" };
    let _ = run.call(entry, &[] as &[Val]);
    rows(&run.report())
}

pub(crate) fn monitors() -> Vec<Source> {
    let files = std::fs::read_dir(folder("monitors"))
        .expect("it exists")
        .map(|e| e.expect("it can be read").path());
    let mut list: Vec<PathBuf> =
        files.filter(|p| p.extension().is_some_and(|e| e == "mm")).collect();
    list.sort();
    let read = |p: &PathBuf| {
        Source::new(
            p.file_stem().expect("a name").to_string_lossy(),
            std::fs::read_to_string(p).expect("it can be read"),
        )
    };
    list.iter().map(read).collect()
}

fn agree(script: &Source) {
    PROGRAMS.iter().for_each(|name| drop(agree_on(script, name, &program(name))));
}

/// The rows, on which both targets must agree.
fn agree_on(script: &Source, name: &str, app: &[u8]) -> Vec<String> {
    let expected = rewritten(script, app);
    for calls in [ProbeCalls::Inlined, ProbeCalls::Direct] {
        let found = attached(script, app, calls);
        let more: Vec<&String> = found.iter().filter(|row| !expected.contains(row)).collect();
        let less: Vec<&String> = expected.iter().filter(|row| !found.contains(row)).collect();
        assert!(
            found == expected,
            "{} on {name}, {calls:?}: {more:?} instead of {less:?}",
            script.name
        );
    }
    expected
}

/// A program with debug information, if the compiler supports it.
fn compiled() -> Option<Vec<u8>> {
    let text = "fn main() {
        let square = |n: u32| n * n + 1;
        std::hint::black_box((0..std::hint::black_box(10)).map(|n| std::hint::black_box(square)(n)).sum::<u32>());
    }";
    test_support::rustc_for_wasi("wasm-aot-lines", text, &["-Copt-level=1", "-g"])
}

#[test]
fn source_lines_say_the_same() {
    let Some(app) = compiled() else { return };
    let text = "wasm:opcode:i32.mul|call:before / file != \"\" / { report var n: u32; n++; report var at: u32; at = line; report var of: str; of = file; }
        report var lines: map<u32, u32>; wasm:opcode:i32.mul|local.get:before { lines[line]++; }";
    let said = agree_on(&Source::new("lines", text), "a program with debug information", &app);
    assert!(
        said.iter().any(|row| row.starts_with("of ") && row.contains("wasm-aot-lines")),
        "{said:?}"
    );
    let none = agree_on(&Source::new("lines", text), "one without", &program("sieve.wat"));
    assert!(none.iter().any(|row| row.starts_with("lines ") && row.contains("0->")), "{none:?}");
}

#[test]
fn every_monitor_of_the_library_says_the_same_as_in_a_rewritten_program_on_another_engine() {
    let all = monitors();
    assert!(all.len() >= 15);
    all.iter().for_each(agree);
}

#[test]
fn variables_of_activations_and_of_rules_say_the_same() {
    for text in [
        "report frame var n: u32; wasm:opcode:*:before { n++; }",
        "report frame var n: i64 = 5; report frame var half: f64 = 0.5; report frame var f: f32 = -1.5;
         wasm:opcode:call:before { n += 2; half = half * 2.0; f += 1.0; }
         wasm:opcode:*load*:before { report var at: u32; at++; report var late: i64; late = n; }",
        "report frame var who: str = \"nobody\"; report frame var both: (i32, bool) = (7, true);
         wasm:opcode:call:before { report frame var name: str = fname; if (name == fname) { both.0++; } who = \"caller\"; name = who; }",
        "var begun: i32; frame var number: i32 = begun; report var last: i32;
         wasm:func:entry { begun++; } wasm:func:exit { last = number * 1000 + begun; }",
        "wasm:opcode:local.get:before { report shared var n: u32; n++; unshared var m: u32; m++; report var k: u32; k = m; }",
    ] {
        agree(&Source::new("variables", text));
    }
}

#[test]
fn modes_results_and_what_is_known_of_callees_say_the_same() {
    for text in [
        "wasm:opcode:call|call_indirect:after { report var n: u32; n++; }",
        "wasm:opcode:call(res0: i32):after { report var sum: i32; sum += res0; }",
        "wasm:opcode:i32.add:after { report var sum: i32; sum += res0 - arg0; }",
        "wasm:opcode:block|loop|if:after { report var n: u32; n++; }",
        "wasm:opcode:block|loop|if|else:entry { report var n: u32; n++; }",
        "wasm:opcode:block|loop|if|else:exit { report var n: u32; n++; }",
        "wasm:opcode:br|br_if|br_table:at_target { report var n: u32; n++; }",
        "wasm:opcode:br_if:after { report var n: u32; n++; }",
        "wasm:opcode:end:after { report var n: u32; n++; }",
        "wasm:opcode:call:before / target_fn_type == \"local\" / { report var n: u32; n++; report var who: str = target_fn_name; }",
        "wasm:opcode:*:before / opidx == 2 || at_func_end / { report var n: u32; n++; }",
        "wasm:opcode:*load*|*store*:before { report var n: u32; n = align + memory; }",
        "wasm:func:entry|exit { report var n: u32; n++; } wasm:block:start|end { report var k: u32; k++; }",
        "wasm:opcode:br_table:before { report var ways: map<u32, u32>; ways[target]++; report var n: u32; n = imm0 + num_targets; }",
    ] {
        agree(&Source::new(text, text));
    }
}

#[test]
fn probes_that_take_themselves_away_say_the_same() {
    for text in [
        "use dyninstr; wasm:opcode:*:before { report var reached: bool; reached = true; dyninstr.remove_probe(probe_id); }",
        "use dyninstr; wasm:opcode:*:before { report var n: i32; n++; if (n == 3) { dyninstr.remove_probe(probe_id); } }",
        "use dyninstr; report var all: i32;
         wasm:opcode:br_if:before / arg0 != 0 / { all++; dyninstr.remove_probe(probe_id); all += 100; }",
    ] {
        agree(&Source::new("removal", text));
    }
}

#[test]
fn maps_that_are_only_added_to_say_the_same_whatever_their_keys() {
    let cells = std::fs::read_to_string(folder("tests/run/cells.mm")).expect("it can be read");
    for text in [
        cells.as_str(),
        "wasm:opcode:br_table:before { report var ways: map<u32, u32>; ways[target]++; ways[1] += 5; ways[arg0 + 9]++; }",
        "wasm:opcode:br_table:before { report var wide: map<u64, i64>; wide[target as u64] += 3; report var low: map<u8, u32>; low[target as u8]++; }",
        "wasm:opcode:br_table:before { report var ways: map<u32, u32>; ways[target]++; report var most: u32; if (ways[target] > most) { most = ways[target]; } }",
        "wasm:opcode:i32.add|i32.sub:before { report var low: map<u32, u32>; low[(arg0 & 15) as u32]++; report var high: map<u32, u32>; high[arg0 as u32 >> 28]++; }",
        "report var sites: map<(u32, u32), u32>; wasm:opcode:*:before { sites[(fid, pc)]++; sites[(fid, 0)] += 2; }",
        "report var names: map<str, u64>; wasm:opcode:call|local.get:before { names[fname] += 3; names[\"all\"]++; }",
        "report var kinds: map<u32, i32>; wasm:opcode:local.get:before / imm0 < 2 / { kinds[imm0 + 1]++; kinds[7]++; if (pc > 4) { kinds[fid & 1]++; } }",
        "report var both: map<u32, u32>; wasm:opcode:i32.add:before { both[pc]++; both[arg0 as u32 & 3]++; }",
        "report var pages: map<u32, u64>; wasm:opcode:*load*|*store*:before { pages[(effective_addr >> 16) as u32]++; pages[65535]++; }",
        "report var pages: map<u32, u32>; wasm:opcode:*load*:before { pages[effective_addr >> 15]++; } wasm:end { pages[2] += 7; }",
    ] {
        agree(&Source::new("cells", text));
    }
}

#[test]
fn what_has_come_together_in_cells_is_told_once_and_goes_on() {
    let text = "report var pages: map<u32, u32>; wasm:opcode:br_table:before { report var ways: map<u32, u32>; ways[target]++; pages[arg0 & 1]++; }";
    let output = whamm::compile_monitor(&[Source::new("twice", text)], &[], &Options::default());
    let monitor = output.unwrap_or_else(|e| panic!("{e}")).module;
    for calls in [ProbeCalls::Inlined, ProbeCalls::Direct] {
        let mut run = run(&[("monitor", &monitor)], &[], &program("control.wat"), calls)
            .unwrap_or_else(|e| panic!("{e}"));
        let mut told = || {
            let _ = run.call("main", &[] as &[Val]);
            rows(&run.report())
        };
        assert_eq!(told(), ["pages : 0->3;1->2", "ways 3:11 0->1;1->1;2->1;3->2"]);
        assert_eq!(told(), ["pages : 0->6;1->4", "ways 3:11 0->2;1->2;2->2;3->4"]);
    }
}
