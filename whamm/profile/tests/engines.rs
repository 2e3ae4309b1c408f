//! Runs profiled programs on other engines: features that the interpreters here lack, and real
//! WASI.

use profiler::Profile;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use test_support::{Browser, Folder, View, require};
use whamm_profile::{Clock, Options, profile};

fn is_node_there() -> bool {
    let mut there = Command::new("node");
    // Earlier versions support only one memory.
    there.args(["-e", "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)"]);
    require(there.output().is_ok_and(|output| output.status.success()), "node 22")
}

/// Node's results for the modules of a folder; none if it is missing and not required.
fn node(folder: &Path) -> Option<serde_json::Value> {
    if !is_node_there() {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/run.mjs");
    let output = Command::new("node")
        .args(["--no-warnings", "--experimental-wasm-exnref"])
        .arg(script)
        .arg(folder)
        .output()
        .expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn put(folder: &Folder, name: &str, text: &str, options: &Options) {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let module = profile(&module, options).unwrap_or_else(|e| panic!("{e}")).module;
    std::fs::write(folder.join(name).with_extension("wasm"), module).expect("it is written");
}

/// Calls by caller and callee, from a profile.
fn arcs(told: &serde_json::Value) -> BTreeMap<(String, String), u64> {
    let profile = Profile::from_file(told.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
    let mut arcs = BTreeMap::new();
    for function in &profile.functions {
        for arc in &function.arcs {
            let caller = arc.caller.as_ref().map_or("", |caller| &caller.name).to_owned();
            arcs.insert((caller, function.label.name.clone()), arc.samples);
        }
    }
    arcs
}

fn expected(list: &[(&str, &str, u64)]) -> BTreeMap<(String, String), u64> {
    let arc = |(caller, callee, n): &(&str, &str, u64)| (((*caller).into(), (*callee).into()), *n);
    list.iter().map(arc).collect()
}

/// Functions that throw, several frames up, to a handler after which calls continue; and out of the
/// module. `HANDLE` is the body of `handle`.
const THROWS: &str = r#"(module (import "host" "tag" (tag $tag (param i32)))
    (import "host" "throw" (func $throw (param i32)))
    (func $inner (param i32) (call $leaf) (throw $tag (local.get 0)))
    (func $leaf)
    (func $middle (param i32) (call $inner (local.get 0)) (call $leaf))
    (func $foreign (param i32) (call $throw (local.get 0)))
    (func $handle (param i32) HANDLE)
    (func $after (call $leaf))
    (func (export "f1")
        (call $handle (i32.const 0)) (call $handle (i32.const 1)) (call $handle (i32.const 1))
        (call $middle (i32.const 3))))"#;

const LEGACY: &str = r"
    try
        (if (local.get 0) (then (call $middle (i32.const 7))) (else (call $foreign (i32.const 7))))
    catch $tag
        drop (call $after)
    end
    try (call $middle (i32.const 8)) catch_all (call $after) end
    (call $leaf)";

const STANDARD: &str = r"
    (block $caught (result i32)
        (try_table (catch $tag $caught)
            (if (local.get 0) (then (call $middle (i32.const 7)))
                (else (call $foreign (i32.const 7)))))
        (i32.const 0))
    (drop) (call $after)
    (loop $again (if (i32.ne (local.get 0) (i32.const 9)) (then
        (local.set 0 (i32.const 9))
        (try_table (catch_all $again) (call $middle (i32.const 8))))))
    (call $after) (call $leaf)";

#[test]
fn exceptions_of_both_encodings_leave_contexts() {
    let folder = Folder::new("whamm-profile-exceptions");
    for (name, handle) in [("legacy", LEGACY), ("standard", STANDARD)] {
        for (clock, suffix) in [(Clock::None, "counted"), (Clock::Prof, "timed")] {
            let options = Options { clock: Some(clock), time_all: true, ..Options::default() };
            put(&folder, &format!("{name}-{suffix}"), &THROWS.replace("HANDLE", handle), &options);
        }
    }
    let Some(found) = node(&folder) else { return };
    let expected = expected(&[
        ("", "f1", 1),
        ("f1", "handle", 3),
        ("f1", "middle", 1),
        ("handle", "foreign", 1),
        ("handle", "middle", 5),
        ("handle", "after", 6),
        ("handle", "leaf", 3),
        ("foreign", "throw", 1),
        ("middle", "inner", 6),
        ("inner", "leaf", 6),
        ("after", "leaf", 6),
    ]);
    for name in ["legacy-counted", "legacy-timed", "standard-counted", "standard-timed"] {
        assert_eq!(arcs(&found[name]["kept"]), expected, "{name}");
        assert_ne!(found[name]["thrown"], "", "{name}");
    }
}

const REFERENCES: &str = r#"(module (type $f (func)) (import "host" "back" (func $back (param i32)))
    (global $held (ref $f) (ref.func $held))
    (elem declare func $called)
    (func $held (call $leaf)) (func $leaf) (func $called (call $leaf))
    (func $tails (return_call_ref $f (ref.func $called)))
    (func (export "f2") (call $leaf))
    (func (export "f1")
        (call_ref $f (global.get $held)) (call_ref $f (ref.func $called)) (call $tails)
        (call $back (i32.const 2)) (call $back (i32.const 5))))"#;

#[test]
fn references_and_callbacks_are_known() {
    let folder = Folder::new("whamm-profile-references");
    put(
        &folder,
        "references",
        REFERENCES,
        &Options { clock: Some(Clock::Prof), ..Options::default() },
    );
    let Some(found) = node(&folder) else { return };
    let expected = expected(&[
        ("", "f1", 1),
        ("f1", "held", 1),
        ("f1", "called", 2),
        ("f1", "tails", 1),
        ("f1", "back", 2),
        ("back", "f2", 1),
        ("held", "leaf", 1),
        ("called", "leaf", 2),
        ("f2", "leaf", 1),
    ]);
    assert_eq!(arcs(&found["references"]["kept"]), expected);
}

const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
    (memory (export "memory") 1)
    (func $add (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func $sum (param $n i32) (result i32) (local $sum i32)
        (loop $next
            (local.set $sum (call $add (local.get $sum) (local.get $n)))
            (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $sum))
    (func (export "_start")
        (drop (call $sum (i32.const 100000))) (drop (call $sum (i32.const 300000)))
        (call $proc_exit (i32.const 3))))"#;

#[test]
fn programs_tell_their_profiles_through_wasi_as_it_is() {
    let folder = Folder::new("whamm-profile-wasi");
    put(&folder, "text", PROGRAM, &Options::default());
    put(
        &folder,
        "file",
        PROGRAM,
        &Options { file: Some("p.profile".into()), ..Options::default() },
    );
    let Some(found) = node(&folder) else { return };
    let all = expected(&[
        ("", "_start", 1),
        ("_start", "sum", 2),
        ("_start", "proc_exit", 1),
        ("sum", "add", 400_000),
    ]);
    assert_eq!(found["text"]["code"], 3);
    assert_eq!(arcs(&found["text"]["kept"]), all);
    let read = |name: &str| std::fs::read(folder.join(name)).expect("it was written");
    let text = String::from_utf8(read("text.wasm.stderr")).expect("text");
    assert!(text.contains("400000/400000"), "{text}");
    let file = Profile::from_file(&read("p.profile")).unwrap_or_else(|e| panic!("{e}"));
    // Nearly all time is spent in the loops, whose callees are only counted.
    let own = |name: &str| {
        let function = file.functions.iter().find(|function| function.label.name == name);
        function.expect("it was called").own.map(|own| own.value)
    };
    assert_eq!(own("add"), None);
    assert!(own("sum").is_some_and(|own| own > 0.0));
    assert_eq!(read("file.wasm.stderr"), b"");
}

const ARCS: &str = r#"(module (import "host" "back" (func $back))
    (func $leaf) (func $f (call $leaf) (call $leaf))
    (func (export "g") (call $f))
    (func (export "main") (call $f) (call $back)))"#;

/// A program that reports arcs, in a folder with the glue and a script that instantiates programs
/// in all ways.
fn with_glue(name: &str) -> Folder {
    let folder = Folder::new(name);
    let options = Options { host_api: true, time_all: true, ..Options::default() };
    put(&folder, "program", ARCS, &options);
    std::fs::write(folder.join("glue.js"), whamm_profile::GLUE).expect("it is written");
    let all = include_str!("engine/instantiate.js");
    std::fs::write(folder.join("instantiate.js"), all).expect("it is written");
    folder
}

/// Checks the script's results.
fn assert_told(told: &serde_json::Value) {
    assert_eq!(told["is_instance"], true, "{told}");
    let runs = told["found"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for (run, found) in (1..).zip(runs) {
        let arcs = found["arcs"].as_array().expect("arcs").iter().map(|arc| {
            let text = |key: &str| arc[key].as_str().expect("a name").to_owned();
            ((text("from"), text("to")), arc["count"].as_u64().expect("a number"))
        });
        let expected = expected(&[
            ("<spontaneous>", "main", run),
            ("main", "f", run),
            ("main", "back", run),
            ("back", "g", run),
            ("g", "f", run),
            ("f", "leaf", 4 * run),
        ]);
        assert_eq!(arcs.collect::<BTreeMap<_, _>>(), expected);
        let own = found["functions"].as_array().expect("functions").iter();
        let own: f64 = own.map(|function| function["self"].as_f64().expect("a time")).sum();
        let total = found["total"].as_f64().expect("a time");
        assert!((own - total).abs() < 1e-6, "{own} of {total}");
    }
    let said = told["said"].as_str().expect("text");
    assert!(said.contains("Total time: ") && said.contains("<spontaneous>"), "{said}");
    assert!(said.contains("16/16") && said.contains("leaf ["), "{said}");
}

#[test]
fn the_glue_offers_the_host_interface_to_whatever_is_instantiated() {
    let folder = with_glue("whamm-profile-glue");
    if !is_node_there() {
        return;
    }
    let run = |script: &str| -> serde_json::Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine").join(script);
        let mut node = Command::new("node");
        node.arg("--no-warnings").arg(script);
        node.args(["glue.js", "instantiate.js", "program.wasm"].map(|name| folder.join(name)));
        let output = node.output().expect("node starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    assert_told(&run("glue.mjs"));
    // Two workers have called four instances each, once.
    assert_eq!(run("workers.mjs"), serde_json::json!({ "main": 2 * 4, "leaf": 2 * 16 }));
}

#[test]
fn the_glue_works_in_pages_and_their_workers() {
    let folder = with_glue("whamm-profile-page");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was written");
    let scripts = serde_json::json!([text("glue.js"), text("instantiate.js")]).to_string();
    let scripts = scripts.replace("</", r"<\/");
    let module = std::fs::read(folder.join("program.wasm")).expect("it was written");
    // A page opened from a file may not fetch: it contains the module.
    let page = format!(
        r#"<!doctype html><script src="glue.js"></script><script src="instantiate.js"></script>
        <script>
            globalThis.bytes = new Uint8Array({module:?});
            const does = "onmessage = async ({{ data }}) => postMessage(await instantiateAll(data))";
            globalThis.inWorker = () => new Promise((done, fail) => {{
                const scripts = {scripts};
                const text = new Blob([...scripts, does], {{ type: "text/javascript" }});
                const worker = new Worker(URL.createObjectURL(text));
                worker.onmessage = (event) => done(event.data);
                worker.onerror = (event) => fail(new Error(event.message));
                worker.postMessage(bytes);
            }});
        </script>"#
    );
    std::fs::write(folder.join("page.html"), page).expect("it is written");
    let Some(mut browser) = Browser::start() else { return };
    let view = View { width: 800, height: 600, dark: false };
    browser.open(&folder.join("page.html"), view);
    assert_told(&browser.value("instantiateAll(bytes)"));
    assert_told(&browser.value("inWorker()"));
    // The page receives what its worker has reported.
    let main = "WasmProf.saveResults().functions.find((f) => f.name === 'main').called";
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while browser.value(main) != 8 && std::time::Instant::now() < until {
        browser.value("new Promise((done) => setTimeout(done, 20))");
    }
    assert_eq!(browser.value(main), 8);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
