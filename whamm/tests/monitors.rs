//! The library of monitors, on both targets: inserted into programs, and attached to an interpreter
//! that counts independently.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "an interpreter of 32 bits"
)]

mod engine;
#[path = "engine/interpreter.rs"]
mod interpreter;

use interpreter::{Monitor, Run, Truth};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use test_support::rustc_for_wasi;
use whamm::{LibraryFile, Options, Source};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn program(name: &str) -> Vec<u8> {
    wat::parse_file(folder("tests/apps").join(name)).expect("it is text")
}

const PROGRAMS: [&str; 2] = ["fac.wat", "sieve.wat"];

/// The cache of `cache.rs` as text, for machines whose compiler lacks the target.
const CACHE: &str = include_str!("apps/cache_lines.wat");

/// The library of the cache simulation, compiled from its source where the compiler can.
fn cache() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let source = std::fs::read_to_string(folder("monitors").join("cache.rs")).expect("a file");
        let flags = ["--crate-type=cdylib", "-Copt-level=2"];
        rustc_for_wasi("whamm-cache", &source, &flags)
            .unwrap_or_else(|| wat::parse_str(CACHE).expect("it is text"))
    })
}

fn libraries() -> Vec<LibraryFile> {
    vec![LibraryFile { name: "cache".into(), module: "cache".into(), bytes: cache().into() }]
}

/// Rows without values that depend on the implementation: addresses, and the number and mode of a
/// probe.
fn rows(report: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for line in
        report.lines().filter(|l| !l.is_empty() && !l.starts_with('=') && !l.starts_with("id, "))
    {
        let (left, _) = line.split_once(", script").expect("a row names its script");
        let name = left.split(", ").nth(2).expect("a row names its variable");
        let right: Vec<&str> = line
            .rsplit_once(", script")
            .expect("a row names its script")
            .1
            .splitn(6, ", ")
            .collect();
        // At a function's beginning, a rewritten program reports the place of its first
        // instruction, and a monitor reports 0.
        let pc = if right[4].contains("func:entry") { "" } else { right[3] };
        list.push(format!("{name} {}:{pc} {}", right[2], right[5]));
    }
    list.sort();
    list
}

fn rewritten(script: &Source, app: &[u8]) -> Vec<String> {
    rewritten_with(script, app, &Options::default())
}

fn rewritten_with(script: &Source, app: &[u8], options: &Options) -> Vec<String> {
    let output = whamm::instrument(std::slice::from_ref(script), &libraries(), app, options)
        .unwrap_or_else(|e| panic!("{e}"));
    let outcome = engine::run(&output.module, &[("cache", cache())]);
    rows(&outcome.kept)
}

/// The report of a monitor, with its rows as they are compared.
fn attached(script: &Source, app: &[u8]) -> (Vec<String>, Truth, Vec<i32>) {
    attached_with(script, app, &Options::default())
}

fn attached_with(script: &Source, app: &[u8], options: &Options) -> (Vec<String>, Truth, Vec<i32>) {
    let (report, truth, results) = report_of(script, app, options);
    (rows(&report), truth, results)
}

/// The report of a monitor, as it is printed.
fn report_of(script: &Source, app: &[u8], options: &Options) -> (String, Truth, Vec<i32>) {
    let make = || {
        whamm::compile_monitor(std::slice::from_ref(script), &libraries(), options)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let output = make();
    assert_eq!(output.module, make().module, "a monitor is the same each time it is made");
    let core = program("whamm_core.wat");
    let (store, instance) =
        engine::instantiate(&output.module, &[("cache", cache()), ("whamm_core", &core)]);
    let mut monitor = Monitor::new(store, instance);
    let mut program = interpreter::read(app);
    let (results, truth) = {
        let mut run = Run::new(&mut program, Some(&mut monitor));
        (run.main(), std::mem::take(&mut run.truth))
    };
    (engine::written(&monitor.finish()), truth, results)
}

fn monitors() -> Vec<Source> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(folder("monitors"))
        .expect("it exists")
        .map(|e| e.expect("it can be read").path())
        .collect();
    list.retain(|p| p.extension().is_some_and(|e| e == "mm"));
    list.sort();
    list.iter()
        .map(|p| {
            Source::new(
                p.file_stem().expect("it has a name").to_string_lossy(),
                std::fs::read_to_string(p).expect("it can be read"),
            )
        })
        .collect()
}

#[test]
fn every_monitor_says_the_same_on_both_targets() {
    let all = monitors();
    assert!(all.len() >= 15);
    for script in &all {
        for name in PROGRAMS {
            let app = program(name);
            let (from_engine, _, _) = attached(script, &app);
            let from_program = rewritten(script, &app);
            assert_eq!(from_program, from_engine, "{} on {name}", script.name);
        }
    }
}

#[test]
fn rows_name_the_same_probes_on_both_targets() {
    let ids = |report: &str| {
        let fields = report
            .lines()
            .filter(|l| l.contains("memaddr"))
            .map(|l| l.split(", ").nth(9).expect("a row names its probe"));
        let mut list: Vec<String> =
            fields.map(|id| id.replace(":before", "").replace(":<no-mode>", "")).collect();
        list.sort();
        list
    };
    let text = "wasm:opcode:*:before { report var n: i32; n++; } wasm:opcode:local.*|i32.*|br*:before / opname != \"i32.add\" / { report var m: i32; m++; }
        wasm:func:entry|exit { report var k: i32; k++; } wasm:opcode:i32.const:before { report var last: i32; last++; }";
    let (script, app) = (Source::new("ids", text), program("sieve.wat"));
    let output = whamm::instrument(std::slice::from_ref(&script), &[], &app, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let from_program = ids(&engine::run(&output.module, &[]).kept);
    let monitor = whamm::compile_monitor(&[script], &[], &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let (store, instance) = engine::instantiate(&monitor.module, &[]);
    let mut monitor = Monitor::new(store, instance);
    let mut program = interpreter::read(&app);
    Run::new(&mut program, Some(&mut monitor)).main();
    assert_eq!(from_program, ids(&engine::written(&monitor.finish())));
    assert!(from_program.len() > 50, "{from_program:?}");
}

#[test]
fn rows_are_in_the_same_order_on_both_targets() {
    let text = std::fs::read_to_string(folder("tests/run/order_of_rows.mm")).expect("a file");
    let (script, app) = (Source::new("order_of_rows.mm", text), program("fac.wat"));
    let variables = |report: &str| -> Vec<String> {
        let fields = |line: &str| line.split(", ").skip(2).take(2).collect::<Vec<_>>().join(" ");
        report.lines().map(fields).filter(|variable| !variable.is_empty()).collect()
    };
    let (attached, ..) = report_of(&script, &app, &Options::default());
    let output = whamm::instrument(&[script], &[], &app, &Options::default()).expect("valid");
    let rewritten = variables(&engine::run(&output.module, &[]).kept);
    assert!(rewritten.len() > 50, "{rewritten:?}");
    assert_eq!(variables(&attached), rewritten);
}

#[test]
fn every_monitor_says_the_same_beside_the_core_library() {
    let beside = Options { link: whamm::Link::Imported, ..Options::default() };
    // The interpreter has no floats, so monitors that compute with them report less there.
    for script in &monitors() {
        let app = program("sieve.wat");
        let (alone, _, _) = attached(script, &app);
        let (linked, _, _) = attached_with(script, &app, &beside);
        assert_eq!(alone, linked, "{}", script.name);
    }
}

#[test]
fn every_monitor_says_the_same_where_globals_are_few() {
    for (app, most_globals) in [("sieve.wat", 0), ("sieve.wat", 12), ("fac.wat", 30)] {
        let few = Options { most_globals: Some(most_globals), ..Options::default() };
        for script in &monitors() {
            let (all, some) =
                (rewritten(script, &program(app)), rewritten_with(script, &program(app), &few));
            assert_eq!(all, some, "{} with {most_globals} globals", script.name);
        }
    }
}

#[test]
fn every_monitor_is_laid_out_in_the_usual_way() {
    for script in monitors() {
        assert_eq!(
            whamm::layout(&script).unwrap_or_else(|e| panic!("{e}")),
            script.text,
            "{}",
            script.name
        );
    }
}

#[test]
fn what_is_counted_is_what_the_interpreter_counts() {
    for name in PROGRAMS {
        let app = program(name);
        let script = monitors().into_iter().find(|m| m.name == "hotness").expect("it is there");
        let (_, truth, results) = attached(&script, &app);
        assert_eq!(
            results.iter().map(ToString::to_string).collect::<Vec<_>>(),
            engine::run(&app, &[]).results,
            "the interpreter is right"
        );
        let counted: BTreeMap<String, u64> = rewritten(&script, &app)
            .iter()
            .map(|row| {
                let mut words = row.split(' ').skip(1);
                (
                    words.next().expect("a place").to_string(),
                    words.next().expect("a count").parse().expect("a number"),
                )
            })
            .filter(|row: &(String, u64)| row.1 > 0)
            .collect();
        let expected: BTreeMap<String, u64> =
            truth.hotness.iter().map(|((fid, pc), n)| (format!("{fid}:{pc}"), *n)).collect();
        assert_eq!(counted, expected, "hotness of {name}");
        let total: u64 = truth.mix.values().sum();
        let script = monitors().into_iter().find(|m| m.name == "icount").expect("it is there");
        assert_eq!(
            rewritten(&script, &app),
            [format!("executed : {total}")],
            "instructions of {name}"
        );
    }
}

#[test]
fn variables_of_activations_are_the_same_on_both_targets() {
    let texts = [
        "report frame var n: u32; wasm:opcode:*:before { n++; }",
        "report frame var n: i64 = 5; report frame var half: f64 = 0.5; report frame var f: f32 = -1.5;
         wasm:opcode:call:before { n += 2; half = half * 2.0; f += 1.0; }
         wasm:opcode:*load*:before { report var at: u32; at++; report var late: i64; late = n; }",
        "report frame var who: str = \"nobody\"; report frame var both: (i32, bool) = (7, true);
         wasm:opcode:call:before { report frame var name: str = fname; if (name == fname) { both.0++; } who = \"caller\"; name = who; }",
        "var begun: i32; frame var number: i32 = begun; report var last: i32;
         wasm:func:entry { begun++; } wasm:func:exit { last = number * 1000 + begun; }",
    ];
    for text in texts {
        for name in PROGRAMS {
            let (script, app) = (Source::new("frames", text), program(name));
            let (from_engine, _, _) = attached(&script, &app);
            assert_eq!(rewritten(&script, &app), from_engine, "{text} on {name}");
            assert!(!from_engine.is_empty());
        }
    }
}

#[test]
fn a_probe_that_takes_itself_away_fires_no_more_on_both_targets() {
    let texts = [
        "use dyninstr; wasm:opcode:*:before { report var reached: bool; reached = true; dyninstr.remove_probe(probe_id); }",
        "use dyninstr; wasm:opcode:*:before { report var n: i32; n++; if (n == 3) { dyninstr.remove_probe(probe_id); } }",
        "use dyninstr; report var all: i32;
         wasm:opcode:br_if:before / arg0 != 0 / { all++; dyninstr.remove_probe(probe_id); all += 100; }",
    ];
    for text in texts {
        for name in PROGRAMS {
            let (script, app) = (Source::new("removal", text), program(name));
            let (from_engine, _, _) = attached(&script, &app);
            assert_eq!(rewritten(&script, &app), from_engine, "{text} on {name}");
        }
    }
    let (script, app) = (Source::new("removal", texts[1]), program("sieve.wat"));
    let most = rewritten(&script, &app)
        .iter()
        .filter_map(|row| row.rsplit(' ').next()?.parse().ok())
        .max();
    assert_eq!(most, Some(3), "nothing is counted after the third time");
}

#[test]
fn libraries_are_called_once_for_a_site_on_both_targets() {
    // The first call for a site misses in the cache; later calls hit.
    let text = "use cache; report var hits: i32; wasm:opcode:call:before { @init cache.access(pc as i32 * 64, 4); }
        wasm:opcode:call:before { if (cache.access(pc as i32 * 64, 4) == 0) { hits++; } cache.access(1, 1); }";
    for name in PROGRAMS {
        let (script, app) = (Source::new("init", text), program(name));
        let (from_engine, _, _) = attached(&script, &app);
        assert_eq!(rewritten(&script, &app), from_engine, "{name}");
        assert!(!from_engine[0].ends_with(" 0"), "{from_engine:?}");
    }
}

/// The imports of a module.
fn imported(bytes: &[u8]) -> Vec<String> {
    let sections =
        wasmparser::Parser::new(0).parse_all(bytes).map(|payload| payload.expect("it is valid"));
    let imports = sections.filter_map(|p| {
        if let wasmparser::Payload::ImportSection(s) = p { Some(s.into_imports()) } else { None }
    });
    imports.flatten().map(|import| import.expect("it is valid").name.to_string()).collect()
}

#[test]
fn a_library_that_needs_nothing_becomes_part_of_the_program() {
    let script = Source::new(
        "s.mm",
        "use lib; report var sum: i32; wasm:opcode:nop:before { sum += lib.next(); }",
    );
    let text = r#"(module (memory (export "memory") 1) (data (i32.const 8) "\05") (global $n (mut i32) (i32.const 2))
        (func (export "next") (result i32)
            (global.set $n (i32.add (global.get $n) (i32.const 1)))
            (i32.add (global.get $n) (i32.load8_u (i32.const 8)))))"#;
    let app = br#"(module (func (export "main") (local i32)
        nop (loop nop (br_if 0 (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 3))))))"#;
    let imports = |text: &str| {
        let libraries =
            [LibraryFile { name: "lib".into(), module: "lib".into(), bytes: text.into() }];
        let output =
            whamm::instrument(std::slice::from_ref(&script), &libraries, app, &Options::default())
                .unwrap();
        (imported(&output.module), output.module)
    };
    let (alone, module) = imports(text);
    assert_eq!(alone, Vec::<String>::new());
    // 3 to 6, and 5 from its memory each time.
    let kept = engine::run(&module, &[]).kept;
    assert!(kept.contains("sum, i32, i32, script0, , , , , 38"), "{kept}");
    let asking = text.replace("(module ", r#"(module (import "world" "time" (func)) "#);
    assert!(imports(&asking).0.iter().any(|import| import.contains("next")));
}

#[test]
fn calls_that_are_put_off_are_made_in_their_order() {
    let library = r#"(module (memory 1) (global $trail (mut i32) (i32.const 0))
        (func (export "known") (param i32 i32) (result i32)
            (i32.xor (i32.load (i32.and (local.get 0) (i32.const 60))) (i32.add (local.get 0) (local.get 1))))
        (func (export "note") (param i32 i32) (result i32)
            (i32.store (i32.and (local.get 0) (i32.const 60)) (i32.add (local.get 0) (local.get 1)))
            (global.set $trail (i32.add (i32.mul (global.get $trail) (i32.const 31)) (local.get 0)))
            (global.get $trail)))"#;
    let app = br#"(module (memory 1)
        (func $read (param i32) (result i32) (i32.load8_u offset=3 (local.get 0)))
        (func (export "main") (local $p i32) (local $n i32)
            (local.set $p (i32.const 16))
            (i32.store (local.get $p) (i32.const 1))
            (i32.store offset=20 (local.get $p) (i32.load (local.tee $p (i32.const 48))))
            (drop (i32.add (i32.load (local.get $p)) (i32.load offset=4 (local.get $p))))
            (drop (i32.add (i32.load (i32.const 100)) (call $read (i32.load offset=8 (local.get $p)))))
            (loop $again
                (i64.store offset=8 (local.get $p) (i64.load (local.get $n)))
                (drop (i32.load (local.get $n)))
                (local.set $n (i32.add (local.get $n) (i32.const 12)))
                (drop (i32.load (local.get $n)))
                (if (i32.and (local.get $n) (i32.const 8)) (then (i32.store (local.get $n) (local.get $p))))
                (drop (i32.add (i32.load8_u (local.get $n)) (i32.load8_u offset=1 (local.get $n))))
                (drop (call $read (local.get $n)))
                (br_if $again (i32.lt_u (local.get $n) (i32.const 300))))))"#;
    let accesses =
        "use trail; report var last: i32; report var known: u32; wasm:opcode:*load*|*store*:before";
    let bodies = [
        "{ last = trail.note(effective_addr as i32, data_size as i32); known++; }",
        "{ if (trail.known(effective_addr as i32, data_size as i32) == 0) { known++; }
           else { last = trail.note(effective_addr as i32, data_size as i32); } }",
    ];
    for body in bodies {
        let script = Source::new("s.mm", format!("{accesses} {body}"));
        let report = |exact_traps| {
            let libraries = [LibraryFile {
                name: "trail".into(),
                module: "trail".into(),
                bytes: library.into(),
            }];
            let options = Options { exact_traps, ..Options::default() };
            let output =
                whamm::instrument(std::slice::from_ref(&script), &libraries, app, &options)
                    .unwrap_or_else(|e| panic!("{e}"));
            engine::run(&output.module, &[]).kept
        };
        assert_eq!(report(false), report(true), "{body}");
        assert!(!report(false).contains(", , , , , 0\n"), "{}", report(false));
    }
}
