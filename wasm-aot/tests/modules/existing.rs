//! Modules in the format of the existing compiler, and written by hand in Rust.

use super::output_of;
use super::place::{Place, errors};

/// A library with the name that modules of the existing compiler import: it prints numbers and
/// words, and contains the memory of the words.
pub(crate) const CORE: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func $puts (export "puts") (param $at i32) (param $len i32)
        (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $len))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func $putc (export "putc") (param i32)
        (i32.store8 (i32.const 16) (local.get 0)) (call $puts (i32.const 16) (i32.const 1)))
    (func $putu32 (export "putu32") (param $n i32)
        (if (i32.ge_u (local.get $n) (i32.const 10)) (then (call $putu32 (i32.div_u (local.get $n) (i32.const 10)))))
        (call $putc (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))))"#;

/// A module in the format of the existing compiler: a record of each site in its own memory,
/// chained by offsets; names of functions through a buffer; export names with two blanks and a
/// comma too many.
pub(crate) const EXISTING: &str = r#"(module
    (import "whamm_core" "putc" (func $putc (param i32))) (import "whamm_core" "putu32" (func $putu32 (param i32)))
    (import "whamm_core" "memory" (memory $core 1))
    (memory $texts (export "whamm_buffer") 1) (memory $records 1)
    (global $next (mut i32) (i32.const 4)) (global $last (mut i32) (i32.const -1)) (global $first (mut i32) (i32.const -1))
    (global (export "whamm_buffer:start") i32 (i32.const 0)) (global (export "whamm_buffer:max") i32 (i32.const 1024))
    ;; next, length of the name, fid, pc, value
    (func $__whamm_alloc (export "$20") (param $at i32) (param $len i32) (param $fid i32) (param $pc i32) (result i32) (local $new i32)
        (local.set $new (global.get $next))
        (if (i32.eq (global.get $first) (i32.const -1)) (then (global.set $first (local.get $new))))
        (if (i32.ne (global.get $last) (i32.const -1))
            (then (i32.store $records (global.get $last) (i32.sub (local.get $new) (global.get $last)))))
        (i32.store $records (local.get $new) (i32.const -1))
        (i32.store $records offset=4 (local.get $new) (local.get $len))
        (i32.store $records offset=8 (local.get $new) (local.get $fid))
        (i32.store $records offset=12 (local.get $new) (local.get $pc))
        (global.set $last (local.get $new))
        (global.set $next (i32.add (local.get $new) (i32.const 20)))
        (local.get $new))
    (func $__whamm_predicate (export "$70") (param $pc i32) (param $fid i32) (result i32)
        (i32.and (i32.gt_u (local.get $pc) (i32.const 4)) (i32.eq (local.get $fid) (i32.const 1))))
    (func $count (param $at i32)
        (i32.store $records offset=16 (local.get $at) (i32.add (i32.load $records offset=16 (local.get $at)) (i32.const 1))))
    (func (export "wasm:opcode:call / $70(pc, fid) / ($20(fname, fid, pc), )") (param i32) (call $count (local.get 0)))
    (func (export "wasm:opcode:if  ($20(fname, fid, pc), arg0)") (param $at i32) (param $arg i32)
        (if (local.get $arg) (then (call $count (local.get $at)))))
    (func $number (param i32) (call $putu32 (local.get 0)) (call $putc (i32.const 32)))
    (func (export "wasm:exit") (local $at i32)
        (local.set $at (global.get $first))
        (block $done (loop $again
            (br_if $done (i32.eq (local.get $at) (i32.const -1)))
            (call $number (i32.load $records offset=4 (local.get $at)))
            (call $number (i32.load $records offset=8 (local.get $at)))
            (call $number (i32.load $records offset=12 (local.get $at)))
            (call $number (i32.load $records offset=16 (local.get $at)))
            (call $putc (i32.const 10))
            (br_if $done (i32.eq (i32.load $records (local.get $at)) (i32.const -1)))
            (local.set $at (i32.add (local.get $at) (i32.load $records (local.get $at))))
            (br $again)))))"#;

/// Two functions with names, calls and conditions.
pub(crate) const PROGRAM: &str = r#"(module
    (func $even (param $n i32) (result i32) (i32.eqz (i32.and (local.get $n) (i32.const 1))))
    (func $main (export "main") (param $n i32) (result i32) (local $found i32)
        (loop $next
            (if (call $even (local.get $n)) (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
            (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $found)))"#;

#[test]
fn modules_of_the_existing_compiler_are_recognised_and_run() {
    let place = Place::new("modules-existing");
    place.file("whamm_core.wat", CORE);
    let core = place.0.join("whamm_core.wat").display().to_string();
    let monitor = format!("{}+{core}", place.file("existing.wat", EXISTING));
    let program = place.file("program.wat", PROGRAM);
    let done = place.run(&["run", "--invoke", "main", "--monitor", &monitor, &program, "7"]);
    assert!(done.status.success(), "{}", errors(&done));
    assert!(errors(&done).contains("the existing compiler has made it"), "{}", errors(&done));
    // The names' lengths, functions, places, and counts.
    assert_eq!(output_of(&done), "3\n4 1 7 7 \n4 1 9 3 \n");
}

#[test]
fn its_probes_of_the_report_are_called_before_the_report() {
    let place = Place::new("modules-existing-report");
    let monitor = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
        (func (export "wasm:exit") (call $print (global.get $n)))
        (func (export "wasm:opcode:call  ()") (global.set $n (i32.add (global.get $n) (i32.const 1))))
        (func (export "wasm:report:  ()") (global.set $n (i32.add (global.get $n) (i32.const 100)))))"#;
    let monitor = place.file("report.wat", monitor);
    let program = place
        .file("program.wat", r#"(module (func $f) (func (export "_start") (call $f) (call $f)))"#);
    let done = place.run(&["run", "--monitor", &monitor, &program]);
    assert_eq!((errors(&done).as_str(), output_of(&done).as_str()), ("", "102"));
    // What that compiler itself exports as the end contains these probes.
    let text = std::fs::read_to_string(&monitor).expect("written just now");
    let own = text
        .replace(r#"(func (export "wasm:exit")"#, r#"(func $__whamm_on_exit (export "wasm:exit")"#);
    let done = place.run(&["run", "--monitor", &place.file("own.wat", own), &program]);
    assert_eq!(output_of(&done), "2", "{}", errors(&done));
    let wrong = r#"(module (func (export "wasm:report:  ()") (param i32)))"#;
    let wrong = place.file("wrong.wat", wrong);
    let refused = place.run(&["run", "--monitor", &wrong, &program]);
    assert!(errors(&refused).contains("is given nothing"), "{}", errors(&refused));
    assert!(!refused.status.success());
}

#[test]
fn what_its_names_ask_for_at_calls_is_given_without_a_mode() {
    let place = Place::new("modules-existing-results");
    let monitor = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (import "wizeng" "putc" (func $put (param i32)))
        (func (export "$18") (param i32) (result i32) (local.get 0))
        (func (export "wasm:opcode:call  ($18(opidx), res0)") (param $index i32) (param $result i32)
            (call $print (local.get $index)) (call $put (i32.const 58))
            (call $print (local.get $result)) (call $put (i32.const 32))))"#;
    let monitor = place.file("results.wat", monitor);
    let program = r#"(module (func $seven (result i32) (i32.const 7))
        (func (export "_start") nop (drop (call $seven)) nop (drop (call $seven))))"#;
    let done = place.run(&["run", "--monitor", &monitor, &place.file("program.wat", program)]);
    assert_eq!((errors(&done).as_str(), output_of(&done).as_str()), ("", "1:7 4:7 "));
}

#[test]
fn a_monitor_is_written_in_rust() {
    let library = std::process::Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-wasip1"])
        .output();
    let folder = library.expect("rustc").stdout;
    if !std::path::Path::new(String::from_utf8_lossy(&folder).trim()).exists() {
        eprintln!(
            "skipped: the library of Rust for WASI is not there (rustup target add wasm32-wasip1)"
        );
        return;
    }
    let place = Place::new("modules-rust");
    let source = place.file(
        "calls.rs",
        r#"use std::{cell::RefCell, collections::BTreeMap};
        thread_local! { static CALLS: RefCell<BTreeMap<(u32, u32), u64>> = RefCell::default(); }
        #[unsafe(export_name = "wasm:opcode:call (fid, pc)")]
        pub extern "C" fn called(fid: u32, pc: u32) {
            CALLS.with_borrow_mut(|calls| *calls.entry((fid, pc)).or_default() += 1);
        }
        #[unsafe(export_name = "wasm:exit")]
        pub extern "C" fn report() {
            CALLS.with_borrow(|calls| calls.iter().for_each(|((fid, pc), count)| println!("{fid} {pc} {count}")));
        }"#,
    );
    let module = place.0.join("calls.wasm").display().to_string();
    let mut rustc = std::process::Command::new("rustc");
    rustc.args([
        "--edition=2024",
        "--target=wasm32-wasip1",
        "--crate-type=cdylib",
        "-Copt-level=2",
        "-o",
        &module,
        &source,
    ]);
    assert!(rustc.status().expect("rustc starts").success());
    let program = place.file("program.wat", PROGRAM);
    for monitor in [module.clone(), format!("{module},toggle")] {
        let told = place.good(&["run", "--invoke", "main", "--monitor", &monitor, &program, "7"]);
        assert_eq!(told, "3\n1 7 7\n");
    }
}
