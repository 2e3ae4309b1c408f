//! Programs whose types of functions have subtypes, which this engine does not support: they record
//! themselves in node, where their replays run, too.

use super::placed;
use std::path::Path;
use std::process::Command;
use test_support::{Folder, is_there, require, succeed};
use wasm_aot::trace::{Event, Generation, Reader, generate};
use whamm_record::{Options, record};

/// A program, its host, and its trace.
struct Case {
    program: &'static str,
    host: &'static str,
    events: &'static [&'static str],
}

/// What the host passes: functions, and a table of an open type.
const LIBRARY: &str = r#"(module (type $t (sub (func (param i32) (result i32))))
    (type $s (sub $t (func (param i32) (result i32))))
    (func (export "plain") (result i32) (i32.const 50))
    (table (export "t") 4 (ref null $t)) (func (export "s") (type $s) (i32.const 51)))"#;

const CASES: [Case; 4] = [
    // A hierarchy in a recursion group: casts, and calls of subtypes by their supertypes.
    Case {
        program: r#"(module
            (rec (type $a (sub (func (param (ref null $b)) (result i32))))
                (type $b (sub (func (param i32) (result (ref null $a))))))
            (type $c (sub $a (func (param (ref null $b)) (result i32))))
            (type $plain (func (result i32)))
            (import "h" "f" (func $f (param funcref) (result funcref)))
            (elem declare func $one $two $three)
            (func $one (type $a) (i32.const 1)) (func $two (type $b) (ref.func $one))
            (func $three (type $c)
                (call_ref $a (ref.null $b)
                    (call_ref $b (i32.const 3) (ref.as_non_null (local.get 0)))))
            (func (export "run") (result i32 i32 i32) (local $r funcref)
                (local.set $r (call $f (ref.func $three)))
                (ref.test (ref $a) (local.get $r)) (ref.test (ref $c) (local.get $r))
                (call $of (local.get $r)))
            (func $of (param funcref) (result i32)
                (block $no (result funcref)
                    (return (call $a
                        (br_on_cast_fail $no funcref (ref $a) (local.get 0)))))
                (drop) (call_ref $plain (ref.cast (ref $plain) (local.get 0))))
            (func $a (param (ref $a)) (result i32)
                (call_ref $a (ref.func $two) (local.get 0)))
            (func (export "give") (param i32) (result (ref null $a) (ref $b))
                (if (result (ref null $a)) (local.get 0) (then (ref.func $one))
                    (else (ref.null $a)))
                (ref.func $two)))"#,
        host: r#"let given, got;
            const f = (own) => { got = own; return given ?? own; };
            const { run, give } = start({ h: { f } });
            run(); given = give(1)[0]; run(); given = library.plain; run();
            given = give(0)[1]; try { run(); } catch { }"#,
        events: &[
            "enter 4 export \"run\"",
            "call 0 func:3",
            "return func:3",
            "leave i32:1 i32:1 i32:1",
            "enter 7 export \"give\" i32:1",
            "leave func:1 func:2",
            "enter 4 export \"run\"",
            "call 0 func:3",
            "return func:1",
            "leave i32:1 i32:0 i32:1",
            "enter 4 export \"run\"",
            "call 0 func:3",
            "function -> i32",
            "return func:8",
            "call 8",
            "return i32:50",
            "leave i32:0 i32:0 i32:50",
            "enter 7 export \"give\" i32:0",
            "leave func:null func:2",
            "enter 4 export \"run\"",
            "call 0 func:3",
            "return func:2",
            "leave trap \"\"",
        ],
    },
    // The host demands and gives references of an open type.
    Case {
        program: r#"(module (type $t (sub (func (param i32) (result i32))))
            (type $s (sub final $t (func (param i32) (result i32))))
            (import "h" "f" (func $f (param (ref null $t)) (result (ref null $t))))
            (import "h" "any" (func $any (param funcref) (result funcref)))
            (elem declare func $one $two)
            (func $one (type $t) (i32.add (local.get 0) (i32.const 1)))
            (func $two (type $s) (i32.add (local.get 0) (i32.const 2)))
            (func (export "run") (param (ref $t)) (result i32 i32 (ref null $t))
                (call_ref $t (i32.const 10) (call $f (ref.func $two)))
                (call_ref $s (i32.const 20) (ref.cast (ref $s) (call $any (local.get 0))))
                (local.get 0))
            (func (export "pick") (param i32) (result (ref $t))
                (if (result (ref $t)) (local.get 0) (then (ref.func $one))
                    (else (ref.func $two)))))"#,
        host: r#"let last, back = true;
            const f = (own) => { last = own; return back ? one : null; };
            const { run, pick } = start({ h: { f, any: () => last } });
            const one = pick(1); const results = run(one); results[2](5);
            back = false; try { run(last); } catch { }"#,
        events: &[
            "enter 5 export \"pick\" i32:1",
            "leave func:2",
            "enter 4 export \"run\" func:2",
            "call 0 func:3",
            "return func:2",
            "call 1 func:2",
            "return func:3",
            "leave i32:11 i32:22 func:2",
            "enter 2 reference i32:5",
            "leave i32:6",
            "enter 4 export \"run\" func:3",
            "call 0 func:3",
            "return func:null",
            "leave trap \"\"",
        ],
    },
    // An imported table of an open type, and its elements in the program's own.
    Case {
        program: r#"(module (type $t (sub (func (param i32) (result i32))))
            (import "h" "t" (table $t 4 (ref null $t))) (import "h" "f" (func $f))
            (table $own 4 (ref null $t)) (elem declare func $one)
            (func $one (type $t) (i32.add (local.get 0) (i32.const 1)))
            (func (export "give") (result (ref $t)) (ref.func $one))
            (func (export "run") (result i32 i32)
                (table.copy $own $t (i32.const 0) (i32.const 1) (i32.const 2)) (call $f)
                (call_ref $t (i32.const 6) (table.get $own (i32.const 0)))
                (call_indirect $t (type $t) (i32.const 8) (i32.const 3))))"#,
        host: r#"const { t } = library;
            const { run, give } = start({ h: { t, f: () => t.set(3, t.get(1)) } });
            t.set(1, give()); run();"#,
        events: &[
            "enter 2 export \"give\"",
            "leave func:1",
            "element 0 1 func:1",
            "enter 3 export \"run\"",
            "call 0",
            "element 0 3 func:1",
            "return",
            "leave i32:7 i32:9",
        ],
    },
    // A function of a subtype that no trace describes ends the trace.
    Case {
        program: r#"(module (type $t (sub (func (param i32) (result i32))))
            (import "h" "f" (func $f (result funcref)))
            (func (export "run") (result i32)
                (call_ref $t (i32.const 1) (ref.cast (ref $t) (call $f)))))"#,
        host: r#"const { run } = start({ h: { f: () => library.s } });
            if (run() !== 51) throw new Error('the program does what it did');"#,
        events: &["enter 1 export \"run\"", "call 0"],
    },
];

/// Writes a file; returns its path.
fn written(folder: &Folder, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a folder that can be written");
    path
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Whether a node is installed that supports subtypes.
fn has_node() -> bool {
    let is_new = "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)";
    let new = || Command::new("node").args(["-e", is_new]).status();
    require(is_there("node") && new().is_ok_and(|status| status.success()), "node 22")
}

#[test]
fn programs_with_subtypes_record_themselves_in_node_and_are_repeated_there() {
    if !has_node() {
        return;
    }
    let folder = Folder::new("wasm-aot-subtypes");
    let library = wat::parse_str(LIBRARY).expect("it is text");
    let library = written(&folder, "library.wasm", &library);
    for (number, case) in CASES.iter().enumerate() {
        let original = wat::parse_str(case.program).expect("it is text");
        let recording = record(&original, &Options::default()).expect("it can be recorded");
        let program = written(&folder, "program.wasm", &recording.module);
        let host = written(&folder, "host.js", case.host.as_bytes());
        let trace = folder.join("trace.r3");
        let mut node = Command::new("node");
        node.arg(script("rewritten_recording/subtypes.js"));
        succeed(node.args([&program, &library, &host, &trace]));
        let trace = std::fs::read(trace).expect("it was written");
        let events = Reader::new(&trace[..]).expect("a trace").collect::<Result<Vec<Event>, _>>();
        let events = placed(events.expect("it is whole"));
        let shown: Vec<String> = events.iter().map(ToString::to_string).collect();
        assert_eq!(shown, case.events, "{number}");
        let traps = shown.last().is_some_and(|last| last.starts_with("leave trap"));
        let is_cut = !shown.last().is_some_and(|last| last.starts_with("leave"));
        let count = if traps || is_cut { -1 } else { events.len() as i64 };
        let made = generate(&original, events.into_iter().map(Ok), Generation { is_checked: true });
        let replay = written(&folder, "replay.wasm", &made.expect("a replay"));
        let mut node = Command::new("node");
        node.arg(script("recording/engines.js")).arg(replay).arg(count.to_string());
        // The replay of a trace that ends before its program ends by an event too many.
        if !is_cut {
            succeed(&mut node);
        }
    }
}
