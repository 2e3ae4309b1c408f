//! What is written runs on engines that others made: Wasmtime and node say of every monitor what the interpreter here says.

mod engine;

use std::path::{Path, PathBuf};
use std::process::Command;
use whamm::{LibraryFile, Options, Source};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder of modules that is gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("whamm-engines-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("lib")).expect("a folder can be made");
        Self(path)
    }

    fn put(&self, name: &str, module: &[u8]) {
        std::fs::write(self.0.join(name).with_extension("wasm"), module).expect("a file can be written");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command on a folder of modules: what it says of them. Nothing if the engine is missing and need not be there.
fn outcomes(engine: &str, there: &mut Command, run: &mut Command, place: &Place) -> Option<serde_json::Value> {
    if !there.output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("FASTINST_TEST_REQUIRE").is_none(), "{engine} is missing: run scripts/test, which installs it");
        println!("SKIPPED: {engine} is missing");
        return None;
    }
    let output = run.arg(&place.0).output().expect("the engine starts");
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("its answer is JSON"))
}

fn wasmtime(place: &Place) -> Option<serde_json::Value> {
    let mut there = Command::new("python3");
    there.args(["-c", "import wasmtime"]);
    outcomes("Wasmtime for Python", &mut there, Command::new("python3").arg(here("tests/engine/run.py")), place)
}

fn node(place: &Place) -> Option<serde_json::Value> {
    // Earlier ones know only one memory.
    let mut there = Command::new("node");
    there.args(["-e", "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)"]);
    outcomes("node 22", &mut there, Command::new("node").arg(here("tests/engine/run.mjs")), place)
}

/// Every monitor in some programs, with what the interpreter says of it.
fn monitors(place: &Place) -> Vec<(String, engine::Outcome)> {
    let cache =
        wat::parse_str(std::fs::read_to_string(here("tests/apps/cache_lines.wat")).expect("it is there")).expect("it is text");
    place.put("lib/cache", &cache);
    let libraries = [LibraryFile { name: "cache".into(), module: "cache".into(), bytes: cache.clone() }];
    let mut list = Vec::new();
    for entry in std::fs::read_dir(here("monitors")).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|e| e != "mm") {
            continue;
        }
        let script = Source::new("monitor", std::fs::read_to_string(&path).expect("it can be read"));
        for program in ["fac", "sieve", "exit", "control"] {
            let app = std::fs::read(here("tests/apps").join(program).with_extension("wat")).expect("it is there");
            let output = whamm::instrument(std::slice::from_ref(&script), &libraries, &app, &Options::default())
                .unwrap_or_else(|e| panic!("{e}"));
            let name = format!("{}-{program}", path.file_stem().expect("it has a name").to_string_lossy());
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

/// Instructions of WebAssembly 3.0 that trap or do not, which the interpreter does not know.
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
        let script = Source::new("trap.mm", "report var foretold: u32; wasm:opcode:*:before / trap / { foretold++; }");
        let output = whamm::instrument(&[script], &[], &app, &Options { exact_traps: true, ..Options::default() })
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
        assert!(probed["kept"].as_str().is_some_and(|kept| kept.ends_with(&row)), "{body}: {probed}");
        traps += trapped;
    }
    assert!(traps > 10 && traps < 24, "{traps}");
}
