//! Runs the output on other engines: for every monitor, Wasmtime and node report the same as the
//! interpreter here.

mod engine;

use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::{Folder, require};
use whamm::{LibraryFile, Options, Source};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder of modules that is removed at the end.
struct Place(Folder);

impl Place {
    fn new(name: &str) -> Self {
        let path = Folder::new(&format!("whamm-engines-{name}"));
        std::fs::create_dir(path.join("lib")).expect("a folder can be made");
        Self(path)
    }

    fn put(&self, name: &str, module: &[u8]) {
        std::fs::write(self.0.join(name).with_extension("wasm"), module)
            .expect("a file can be written");
    }
}

/// Runs a command on a folder of modules and returns the outcomes. None if the engine is missing
/// and not required.
fn outcomes(
    engine: &str,
    there: &mut Command,
    run: &mut Command,
    place: &Place,
) -> Option<serde_json::Value> {
    if !require(there.output().is_ok_and(|o| o.status.success()), engine) {
        return None;
    }
    let output = run.arg(&place.0).output().expect("the engine starts");
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("its answer is JSON"))
}

fn wasmtime(place: &Place) -> Option<serde_json::Value> {
    let mut there = Command::new("python3");
    there.args(["-c", "import wasmtime"]);
    outcomes(
        "Wasmtime for Python",
        &mut there,
        Command::new("python3").arg(here("tests/engine/run.py")),
        place,
    )
}

fn node(place: &Place) -> Option<serde_json::Value> {
    // Earlier versions support only one memory.
    let mut there = Command::new("node");
    there.args(["-e", "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)"]);
    outcomes("node 22", &mut there, Command::new("node").arg(here("tests/engine/run.mjs")), place)
}

/// Every monitor in some programs, with the interpreter's outcome.
fn monitors(place: &Place) -> Vec<(String, engine::Outcome)> {
    let cache = wat::parse_str(
        std::fs::read_to_string(here("tests/apps/cache_lines.wat")).expect("it is there"),
    )
    .expect("it is text");
    place.put("lib/cache", &cache);
    let libraries =
        [LibraryFile { name: "cache".into(), module: "cache".into(), bytes: cache.clone() }];
    let mut list = Vec::new();
    for entry in std::fs::read_dir(here("monitors")).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|e| e != "mm") {
            continue;
        }
        let script =
            Source::new("monitor", std::fs::read_to_string(&path).expect("it can be read"));
        for program in ["fac", "sieve", "exit", "control"] {
            let app = std::fs::read(here("tests/apps").join(program).with_extension("wat"))
                .expect("it is there");
            let output = whamm::instrument(
                std::slice::from_ref(&script),
                &libraries,
                &app,
                &Options::default(),
            )
            .unwrap_or_else(|e| panic!("{e}"));
            let name =
                format!("{}-{program}", path.file_stem().expect("it has a name").to_string_lossy());
            place.put(&name, &output.module);
            list.push((name, engine::run(&output.module, &[("cache", &cache)])));
        }
    }
    assert!(list.len() >= 60);
    list
}

fn agrees(found: &serde_json::Value, expected: &[(String, engine::Outcome)]) {
    for (name, outcome) in expected {
        assert_eq!(found[name]["written"], outcome.written, "{name}");
        assert_eq!(found[name]["kept"], outcome.kept, "{name}");
        assert_eq!(found[name]["trapped"], outcome.trapped, "{name}");
    }
}

#[test]
fn wasmtime_says_of_every_monitor_what_the_interpreter_says() {
    let place = Place::new("wasmtime");
    let expected = monitors(&place);
    if let Some(found) = wasmtime(&place) {
        agrees(&found, &expected);
    }
}

#[test]
fn node_says_of_every_monitor_what_the_interpreter_says() {
    let place = Place::new("node");
    let expected = monitors(&place);
    if let Some(found) = node(&place) {
        agrees(&found, &expected);
    }
}

/// Instructions of WebAssembly 3.0 with and without traps, which the interpreter does not support.
const REFERENCES: [&str; 24] = [
    "(struct.get $s 0 (struct.new $s (i32.const 1))) drop",
    "(struct.get $s 0 (ref.null $s)) drop",
    "(struct.set $s 0 (struct.new_default $s) (i32.const 1))",
    "(struct.set $s 0 (ref.null $s) (i32.const 1))",
    "(array.get $a (array.new $a (i32.const 1) (i32.const 3)) (i32.const 2)) drop",
    "(array.get $a (array.new $a (i32.const 1) (i32.const 3)) (i32.const 3)) drop",
    "(array.get $a (ref.null $a) (i32.const 0)) drop",
    "(array.set $a (array.new_default $a (i32.const 3)) (i32.const -1) (i32.const 7))",
    "(array.len (ref.null $a)) drop",
    "(array.fill $a (array.new_default $a (i32.const 3)) (i32.const 2) (i32.const 7) (i32.const 1))",
    "(array.fill $a (array.new_default $a (i32.const 3)) (i32.const 2) (i32.const 7) (i32.const 2))",
    "(array.copy $a $a (array.new_default $a (i32.const 3)) (i32.const 0) (array.new_default $a (i32.const 2)) (i32.const 1) (i32.const 2))",
    "(array.copy $a $a (array.new_default $a (i32.const 3)) (i32.const 1) (array.new_default $a (i32.const 2)) (i32.const 0) (i32.const 2))",
    "(drop (array.new_data $a $d (i32.const 2) (i32.const 2)))",
    "(drop (array.new_data $a $d (i32.const 3) (i32.const 2)))",
    "(array.init_data $a $d (array.new_default $a (i32.const 3)) (i32.const 0) (i32.const 0) (i32.const 2))",
    "(data.drop $d) (array.init_data $a $d (array.new_default $a (i32.const 3)) (i32.const 0) (i32.const 0) (i32.const 1))",
    "(drop (ref.cast (ref $s) (array.new_default $a (i32.const 3))))",
    "(drop (ref.cast (ref null $s) (ref.null none)))",
    "(drop (ref.as_non_null (ref.null $s)))",
    "(drop (i31.get_s (ref.i31 (i32.const 5))))",
    "(call_ref $f (ref.null $f))",
    "(table.set $t (i32.const 0) (global.get $g)) (call_indirect $t (type $f) (i32.const 0))",
    "(table.set $t (i32.const 0) (global.get $g)) (call_indirect $t (type $other) (i32.const 1) (i32.const 0))",
];

#[test]
fn traps_of_references_are_foretold() {
    let place = Place::new("references");
    for (n, body) in REFERENCES.iter().enumerate() {
        let text = format!(
            r#"(module (type $s (struct (field (mut i32)))) (type $a (array (mut i32))) (type $f (func)) (type $other (func (param i32)))
                (memory 1) (data $d "0123456789") (table $t 2 funcref) (elem declare func $nothing)
                (global $g (mut funcref) (ref.func $nothing)) (func $nothing) (func (export "main") {body}))"#
        );
        let app = wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}: {body}"));
        let script = Source::new(
            "trap.mm",
            "report var foretold: u32; wasm:opcode:*:before / trap / { foretold++; }",
        );
        let output = whamm::instrument(
            &[script],
            &[],
            &app,
            &Options { exact_traps: true, ..Options::default() },
        )
        .unwrap_or_else(|e| panic!("{e}: {body}"));
        place.put(&format!("plain{n}"), &app);
        place.put(&format!("probed{n}"), &output.module);
    }
    let Some(found) = wasmtime(&place) else { return };
    let mut traps = 0;
    for (n, body) in REFERENCES.iter().enumerate() {
        let (plain, probed) = (&found[format!("plain{n}")], &found[format!("probed{n}")]);
        assert_eq!(plain["trapped"], probed["trapped"], "the probe changes nothing: {body}");
        let trapped = u32::from(plain["trapped"] == true);
        let row = format!(", {trapped}\n");
        assert!(
            probed["kept"].as_str().is_some_and(|kept| kept.ends_with(&row)),
            "{body}: {probed}"
        );
        traps += trapped;
    }
    assert!(traps > 10 && traps < 24, "{traps}");
}

/// Rows of a report, without places: variable, function, value.
fn rows(report: &str) -> Vec<String> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.splitn(11, ", ").collect();
        (fields.len() == 11 && fields[0] != "id")
            .then(|| format!("{} {} {}", fields[2], fields[6], fields[10]))
    };
    report.lines().filter_map(row).collect()
}

/// The report of a script about a program that the interpreter does not support; none if the
/// required engine is missing.
fn told(name: &str, program: &str, script: &str) -> Option<Vec<String>> {
    let place = Place::new(name);
    let app = wat::parse_str(program).unwrap_or_else(|e| panic!("{e}"));
    let output = whamm::instrument(&[Source::new(name, script)], &[], &app, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(output.diagnostics.is_empty(), "{}", output.diagnostics);
    place.put("probed", &output.module);
    let found = wasmtime(&place)?;
    assert_eq!(found["probed"]["trapped"], false);
    Some(rows(found["probed"]["kept"].as_str().expect("the report is a text")))
}

#[test]
fn activations_that_exceptions_leave_are_told_from_those_that_end() {
    let program = r#"(module (tag $e (param i32))
        (func $throws (param $n i32) (result i32)
            (if (i32.eq (local.get $n) (i32.const 3)) (then (throw $e (i32.const 42))))
            (local.get $n))
        (func $between (param $n i32) (result i32) (call $throws (local.get $n)))
        (func $catches (param $n i32) (result i32)
            (block $caught (result i32)
                (try_table (result i32) (catch $e $caught) (call $between (local.get $n)))
                (return))
            (i32.add (i32.const 100)))
        (func $main (export "main") (local $n i32)
            (loop $again
                (drop (call $catches (local.get $n)))
                (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5))))))"#;
    let script = "report frame var own: u32;
        wasm:func:entry { report var begun: u32; begun++; }
        wasm:func:exit / fname != \"main\" / { report var ended: u32; ended++; }
        wasm:func:unwind { report var left: u32; left++; }
        wasm:opcode:local.get:before { own++; }
        wasm:opcode:throw(arg0: i32):before { report var thrown: i32; thrown = arg0; }
        wasm:opcode:call:after / fname != \"main\" / { report var back: u32; back++; }
        wasm:opcode:try_table:before { report var tried: u32; tried++; }
        wasm:opcode:try_table:entry { report var entered: u32; entered++; }
        wasm:opcode:try_table:exit { report var through: u32; through++; }";
    let Some(found) = told("exceptions", program, script) else { return };
    let has = |row: &str| assert!(found.iter().any(|r| r == row), "{row}: {found:#?}");
    for function in ["throws", "between"] {
        for (variable, count) in [("begun", 5), ("ended", 4), ("left", 1)] {
            let counts = found.iter().filter_map(|r| {
                r.strip_prefix(&format!("{variable} {function} "))?.parse::<u32>().ok()
            });
            assert_eq!(counts.sum::<u32>(), count, "{variable} {function}: {found:#?}");
        }
    }
    // An activation that an exception leaves counts, too: of five, four read twice, and the fifth
    // once.
    for row in [
        "begun catches 5",
        "left catches 0",
        "own throws 9",
        "own between 5",
        "own catches 5",
        "thrown throws 42",
    ] {
        has(row);
    }
    for row in [
        "back between 4",
        "back catches 4",
        "tried catches 5",
        "entered catches 5",
        "through catches 4",
    ] {
        has(row);
    }
    let ended = found.iter().filter_map(|r| r.strip_prefix("ended catches ")?.parse::<u32>().ok());
    assert_eq!(ended.sum::<u32>(), 5, "{found:#?}");
}

#[test]
fn branches_on_references_are_taken_as_was_foretold() {
    let program = r#"(module (type $s (struct)) (type $a (array i32)) (type $n (struct (field i8)))
        (func $gets
            (drop (struct.get_u $n 0 (struct.new $n (i32.const 300))))
            (drop (array.get $a (array.new $a (i32.const 7) (i32.const 2)) (i32.const 1))))
        (func $on_null (param (ref null $s)) (block $out (drop (br_on_null $out (local.get 0)))))
        (func $on_non_null (param (ref null $s))
            (drop (block $out (result (ref null $s)) (br_on_non_null $out (local.get 0)) (ref.null $s))))
        (func $on_cast (param eqref) (drop (block $out (result eqref) (br_on_cast $out eqref (ref $s) (local.get 0)))))
        (func $on_cast_fail (param eqref)
            (drop (block $out (result eqref) (br_on_cast_fail $out eqref (ref null $s) (local.get 0)))))
        (func (export "main") (call $gets)
            (call $on_null (ref.null $s)) (call $on_null (struct.new $s)) (call $on_null (ref.null $s))
            (call $on_non_null (ref.null $s)) (call $on_non_null (struct.new $s)) (call $on_non_null (ref.null $s))
            (call $on_cast (ref.null $s)) (call $on_cast (struct.new $s)) (call $on_cast (array.new_default $a (i32.const 1)))
            (call $on_cast_fail (ref.null $s)) (call $on_cast_fail (struct.new $s))
            (call $on_cast_fail (array.new_default $a (i32.const 1)))))"#;
    let script = "wasm:opcode:br_on_*:before {
            report var yes: u32; report var no: u32;
            if (taken) { yes++; } else { no++; }
        }
        wasm:opcode:br_on_*:after { report var fell: u32; fell++; }
        wasm:opcode:struct.get*|array.get*(res0: i32):after { report var got: i32; got = res0; }
        wasm:opcode:struct.new:before { report var made: u32; made = made + tid + 1; }";
    let Some(found) = told("references", program, script) else { return };
    let counts = [("on_null", 2), ("on_non_null", 1), ("on_cast", 1), ("on_cast_fail", 1)];
    for (function, taken) in counts {
        for (variable, count) in [("yes", taken), ("no", 3 - taken), ("fell", 3 - taken)] {
            let row = format!("{variable} {function} {count}");
            assert!(found.contains(&row), "{row}: {found:#?}");
        }
    }
    assert_eq!(found.iter().filter(|row| row.starts_with("made ")).count(), 5, "{found:#?}");
    let got: Vec<&String> = found.iter().filter(|row| row.starts_with("got ")).collect();
    assert_eq!(got, ["got gets 44", "got gets 7"]);
}

#[test]
fn vectors_and_atomics_are_events_with_places_and_results() {
    let program = r#"(module (memory 1)
        (data (i32.const 16) "\01\00\00\00\02\00\00\00\03\00\00\00\04\00\00\00")
        (func $main (export "main") (local $v v128)
            (local.set $v (v128.load offset=8 (i32.const 8)))
            (local.set $v (i32x4.add (local.get $v) (v128.const i32x4 10 20 30 40)))
            (v128.store offset=4 (i32.const 60) (local.get $v))
            (drop (i32x4.extract_lane 2 (local.get $v)))
            (drop (i8x16.extract_lane_u 15 (v128.const i8x16 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 200)))
            (drop (f64x2.extract_lane 1 (v128.const f64x2 0.5 2.5)))
            (drop (i16x8.bitmask (v128.const i16x8 -1 0 -1 0 0 0 0 0)))
            (drop (v128.any_true (local.get $v)))
            (drop (i32.atomic.rmw.add offset=16 (i32.const 0) (i32.const 5)))
            (drop (i32.atomic.rmw.cmpxchg (i32.const 20) (i32.const 2) (i32.const 9)))
            (drop (i32.atomic.load (i32.const 20)))))"#;
    let script = "wasm:opcode:v128.load|v128.store:before {
            report var at: u32; at = effective_addr; report var bytes: u32; bytes = data_size; report var bad: bool; bad = trap;
        }
        wasm:opcode:i32x4.*:before { report var lanes: u32; lanes++; }
        wasm:opcode:i32x4.extract_lane(res0: i32):after { report var lane: i32; lane = res0; report var number: u32; number = imm0; }
        wasm:opcode:i32.atomic.*:before { report var atom: u32; atom = effective_addr; }
        wasm:opcode:*_lane_u|*.bitmask|*.any_true(res0: i32):after { report var whole: i32; whole = res0; }
        wasm:opcode:f64x2.extract_lane(res0: f64):after { report var half: f64; half = res0; }
        wasm:opcode:i32.atomic.*(res0: i32):after { report var value: i32; value = res0; }
        wasm:opcode:*:before / category_name == \"simd\" / { report var all: u32; all++; }";
    let Some(found) = told("vectors", program, script) else { return };
    for row in [
        "at main 16",
        "at main 64",
        "bytes main 16",
        "bad main false",
        "lane main 33",
        "number main 2",
    ] {
        assert!(found.iter().any(|r| r == row), "{row}: {found:#?}");
    }
    let values = |name: &str| {
        found
            .iter()
            .filter_map(|r| Some(r.strip_prefix(name)?.to_string()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(values("atom main "), "16 20 20");
    assert_eq!(
        (values("value main "), values("whole main "), values("half main ")),
        ("1 2 9".into(), "200 5 1".into(), "+2.5e0".into())
    );
    assert_eq!(
        (values("lanes main "), values("all main ")),
        ("1 1".into(), "1 1 1 1 1 1 1 1 1 1 1 1".into())
    );
}
