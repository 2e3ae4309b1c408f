//! Scripts that access the memories and data of the program mean the same on both targets.

use super::place::{Place, errors};
use super::running::Running;
use super::{output_of, run};
use std::process::Output;

/// A program with data, two memories of which one has addresses of 64 bits, and all bulk
/// operations. Its first memory grows.
const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory $a (export "memory") 1 5) (memory $b i64 2)
    (data (memory $a) (i32.const 500) "middle") (data (memory $a) (i32.const 20) "first")
    (data (memory $b) (i64.const 70000) "wide")
    (data $passive "0123456789")
    (func $f (param i32) (result i32) (i32.load8_u (local.get 0)))
    (func (export "_start") (local $i i32)
        (memory.init $a $passive (i32.const 100) (i32.const 2) (i32.const 5))
        (data.drop $passive)
        (memory.copy $a $a (i32.const 200) (i32.const 500) (i32.const 6))
        (memory.fill $a (i32.const 300) (i32.const 42) (i32.const 4))
        (memory.fill $b (i64.const 131000) (i32.const 43) (i64.const 3))
        (memory.copy $a $b (i32.const 400) (i64.const 70000) (i32.const 4))
        (loop $again
            (drop (memory.grow $a (i32.const 1)))
            (if (i32.eq (call $f (i32.const 20)) (i32.const 88)) (then (nop)))
            (br_if $again
                (i32.lt_u
                    (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                    (i32.const 3))))))"#;

/// Runs a script's monitor, and the program that it is rewritten into.
fn both(place: &Place, script: &str, program: &str) -> [Output; 2] {
    let app = place.file("program.wat", program);
    let source = whamm::Source::new("s.mm", script);
    let bytes = wat::parse_str(program).expect("it is text");
    let rewritten = whamm::instrument(&[source], &[], &bytes, &whamm::Options::default())
        .unwrap_or_else(|error| panic!("{script}: {error}"));
    let rewritten = place.file("rewritten.wasm", rewritten.module);
    let script = place.file("s.mm", script);
    [run(place, &[], &[], &rewritten), run(place, &["--report-format", "whamm"], &[&script], &app)]
}

/// What is printed, and the rows of the report without their addresses and modes.
fn rows(output: &Output) -> Vec<String> {
    let text = output_of(output).replace(":before, ", ", ");
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut list: Vec<String> = lines
        .map(|line| {
            let cells: Vec<&str> = line.split(", ").collect();
            if cells.len() > 9 { cells[2..].join(", ") } else { line.to_owned() }
        })
        .collect();
    list.sort();
    list
}

#[test]
fn memories_are_read_and_written_alike_on_both_targets() {
    let place = Place::new("modules-memories");
    let scripts = [
        // Sizes, which change, and facts.
        (
            "wasm:opcode:br_if:before { report var n: u32; n += mem_size(APP_MEMID); report var \
             first: u32 = mem_size(APP_MEMID); report var page: u32 = page_size(APP_MEMID); }",
            "first, u32",
        ),
        (
            "wasm:opcode:nop|memory.fill:before { report var at: u32 = \
             active_data_start(APP_MEMID); report var len: u32; len = \
             active_data_len(APP_MEMID); report var b: u32; b = active_data_start(1) + \
             active_data_len(1); }",
            "486",
        ),
        (
            "report var pages: u32 = mem_size(APP_MEMID); report var other: u32; var page: u32 \
             = page_size(APP_MEMID); other = mem_size(1) * page; wasm:opcode:nop:before { \
             pages++; }",
            "131072",
        ),
        // What memories contain, at the beginning and later.
        (
            "use whamm_core; var len: u32 = 6; var at: i32 = whamm_core.mem_alloc(8); \
             memcpy(APP_MEMID, 500, memid(whamm_core), at as u32, len); println(\"{}\", \
             read_str(memid(whamm_core), at, 6)); wasm:opcode:memory.copy:before { \
             whamm_core.puts(at, 6); }",
            "middlemiddle",
        ),
        (
            "wasm:begin { println(\"{}\", read_str(APP_MEMID, 20, 5)); } \
             wasm:opcode:call:before { report var s: str; s = read_str(APP_MEMID, 100, 5); \
             report var t: str; t = read_str(1, 70000, 4); }",
            "23456",
        ),
        // What a script writes is what the program reads.
        (
            "wasm:opcode:memory.init:before { write_str(APP_MEMID, 20, \"X\"); } \
             wasm:opcode:nop:before { report var n: u32; n++; }",
            "nop, 3",
        ),
        (
            "use whamm_core; wasm:opcode:memory.init:before { var s: str = \"XYZ\"; \
             memcpy(memid(whamm_core), s.addr(), APP_MEMID, 20, s.len()); memcpy(0, 20, 0, 21, \
             3); memcpy(0, 20, 1, 90000, 4); } wasm:opcode:nop:before { report var s: str; s = \
             read_str(1, 90000, 4); }",
            "XXYZ",
        ),
        // The number behind the program's memories is our own.
        (
            "use whamm_core; wasm:opcode:memory.init:before { var s: str = \"own\"; memcpy(2, \
             s.addr(), 0, 20, s.len()); println(\"{}\", read_str(0, 20, 5)); }",
            "ownst",
        ),
        // A number that is known for each site.
        (
            "wasm:opcode:memory.size|memory.fill|memory.grow:before { report var n: u32; n = \
             mem_size(imm0 as u32); }",
            "n, u32",
        ),
        (
            "wasm:opcode:i32.load8_u:before { report var s: str; s = read_str(memory, \
             effective_addr as i32, 3); }",
            "fir",
        ),
        // Bulk operations are executed a second time.
        (
            "use whamm_core; wasm:opcode:memory.init|memory.copy|memory.fill(arg0: i32, arg1: \
             i32, arg2: i32):before { var at: i32 = whamm_core.mem_alloc(arg0 as i32); \
             dup_at(memid(whamm_core), at as u32); whamm_core.puts(at, arg0 as i32); \
             whamm_core.putc(10); }",
            "****",
        ),
        (
            "wasm:opcode:memory.init|memory.copy|memory.fill(arg0: i32, arg1: i32, arg2: \
             i32):before { dup_at(APP_MEMID, 1000); println(\"{}\", read_str(0, 1000, arg0 as \
             u32)); }",
            "23456",
        ),
        (
            "wasm:opcode:memory.init|memory.copy|memory.fill(arg0: i32, arg1: i32, arg2: \
             i32):before { dup_at(1, 1000); println(\"{}\", read_str(1, 1000, arg0 as u32)); }",
            "middle",
        ),
        (
            "use whamm_core; wasm:opcode:memory.fill(arg0: i64):before { var at: i32 = \
             whamm_core.mem_alloc(8); dup_at(memid(whamm_core), at as u32); dup_at(1, 5); \
             println(\"{}{}\", read_str(1, 5, 2), read_str(memid(whamm_core), at, 3)); }",
            "+++++",
        ),
        (
            "wasm:opcode:memory.copy(arg1: i64):before { dup_at(0, 30); dup_at(1, 6); \
             println(\"{}{}\", read_str(0, 30, 4), read_str(1, 6, 4)); }",
            "widewide",
        ),
        // In functions of the script, under conditions, and at the end.
        (
            "fn pages() -> u32 { return mem_size(APP_MEMID) + page_size(0); } \
             wasm:opcode:br_if:before / mem_size(APP_MEMID) > 2 / { report var n: u32; n = \
             pages() + active_data_len(1); } wasm:end { println(\"{}\", read_str(0, 200, 6)); }",
            "middle",
        ),
        (
            "wasm:opcode:br_if:before / page_size(APP_MEMID) == 65536 && active_data_len(0) > \
             100 / { report var n: u32; n = APP_MEMID + 7; }",
            "n, u32",
        ),
    ];
    for (script, wanted) in scripts {
        let [rewritten, attached] = both(&place, script, PROGRAM);
        assert!(rewritten.status.success(), "{script}: {}", errors(&rewritten));
        assert!(attached.status.success(), "{script}: {}", errors(&attached));
        assert_eq!(rows(&rewritten), rows(&attached), "{script}");
        assert!(output_of(&attached).contains(wanted), "{script}: {}", output_of(&attached));
    }
}

#[test]
fn an_access_outside_of_a_memory_ends_the_program_or_only_the_monitor() {
    let place = Place::new("modules-memories-outside");
    let app = place.file("program.wat", PROGRAM);
    for access in [
        "println(\"{}\", read_str(APP_MEMID, 65534, 3));",
        "println(\"{}\", read_str(APP_MEMID, 0xFFFFFFFF as i32, 3));",
        "println(\"{}\", read_str(1, 131070, 3));",
        "memcpy(0, 0, 1, 131070, 3);",
        "write_str(APP_MEMID, 65535, \"ab\");",
        "dup_at(APP_MEMID, 65533);",
        "dup_at(1, 0xFFFFFFFF);",
    ] {
        let script = format!("wasm:opcode:memory.init:before {{ {access} }}");
        let [rewritten, attached] = both(&place, &script, PROGRAM);
        for output in [&rewritten, &attached] {
            assert_eq!(output.status.code(), Some(134), "{script}: {}", errors(output));
            assert!(errors(output).contains("out of bounds"), "{script}: {}", errors(output));
        }
        let said = errors(&attached);
        assert!(said.contains("monitor s: wasm:opcode:memory.init"), "{said}");
        let contained = run(&place, &[], &["s.mm,on-trap=off"], &app);
        assert!(contained.status.success(), "{script}: {}", errors(&contained));
        assert!(errors(&contained).contains("out of bounds"), "{}", errors(&contained));
    }
}

#[test]
fn a_memory_that_is_not_there_is_an_error_before_the_program_begins() {
    let place = Place::new("modules-memories-lacking");
    let program = |memories: &str| {
        let program =
            format!(r#"(module {memories} (func (export "_start") (nop) (unreachable)))"#);
        place.file("program.wat", program)
    };
    let one = r#"(memory (export "memory") 1)"#;
    for (script, memories, said) in [
        (
            "wasm:opcode:nop:before { report var n: u32; n = mem_size(99); }",
            one,
            "there is no memory 99: the program has one, memory 0",
        ),
        ("wasm:opcode:nop:before { report var n: u32; n = page_size(99); }", one, "no memory 99"),
        ("wasm:opcode:nop:before { report var n: u32 = active_data_len(2); }", one, "no memory 2"),
        (
            "wasm:opcode:nop:before / mem_size(APP_MEMID) > 3 / { report var n: u32; n++; }",
            "",
            "there is no memory 0: the program has none",
        ),
        (
            "wasm:opcode:nop:before { if (fid == 77) { write_str(2, 5, \"x\"); } }",
            one,
            "no memory 2",
        ),
        (
            "wasm:opcode:nop:before { println(\"{}\", read_str(APP_MEMID, 0, 4)); }",
            "",
            "no memory 0",
        ),
        (
            "report var n: u32 = mem_size(APP_MEMID); wasm:opcode:nop:before { n++; }",
            "",
            "no memory 0",
        ),
        (
            "report var n: u32; wasm:begin { n = page_size(5); } wasm:opcode:nop:before { n++; }",
            one,
            "no memory 5",
        ),
    ] {
        let app = program(memories);
        let output = run(&place, &[], &[&place.file("s.mm", script)], &app);
        let text = errors(&output);
        assert!(text.contains("monitor s") && text.contains(said), "{script}: {text}");
        assert!(!text.contains("unreachable"), "{script}: {text}");
    }
    // Where no site matches, none is needed.
    let script = "wasm:opcode:i32.add:before { report var n: u32; n = mem_size(APP_MEMID); }";
    let app = place.file("program.wat", r#"(module (func (export "_start")))"#);
    let output = run(&place, &[], &[&place.file("s.mm", script)], &app);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn a_monitor_that_is_attached_later_begins_with_the_memory_as_it_is_then() {
    let place = Place::new("modules-memories-later");
    let program = place.file(
        "program.wat",
        r#"(module (memory (export "memory") 1) (func $turn (nop))
            (func (export "_start")
                (drop (memory.grow (i32.const 2)))
                (i32.store8 (i32.const 5) (i32.const 51))
                (loop (call $turn) (br 0))))"#,
    );
    let script = place.file(
        "later.mm",
        "var pages: u32 = mem_size(APP_MEMID); var text: str = read_str(APP_MEMID, 5, 1);
        wasm:opcode:nop:before { var seen: bool = true; seen = !seen; }
        wasm:report { println(\"{}{}\", pages, text); }",
    );
    let running = Running::start(&place, &[], &program);
    running.good(&["attach", &script]);
    assert_eq!(running.number(&["report", "later"]), 33);
}

/// Accesses of a module that a compiler would not write.
#[test]
fn a_module_that_asks_wrongly_is_told_what_is_wrong() {
    let place = Place::new("modules-memories-wrong");
    let app = place.file("program.wat", PROGRAM);
    let monitor = |call: &str| {
        format!(
            r#"(module
            (import "wasm-aot:ext" "v1" (func))
            (import "wasm-aot:ext" "memory_size" (func $size (param i32) (result i64)))
            (import "wasm-aot:ext" "memory_copy" (func $copy (param i32 i64 i32 i64 i64)))
            (import "wasm-aot:ext" "memory_fill" (func $fill (param i32 i64 i32 i64)))
            (import "wasm-aot:ext" "memory_init" (func $init (param i32 i64 i32 i64 i64)))
            (import "wasm-aot:ext" "active_data_len" (func $len (param i32) (result i64)))
            (memory 1)
            (func (export "wasm:opcode:memory.grow") {call}))"#
        )
    };
    let long = "(i64.const 0x7fffffffffffffff)";
    for (call, said) in [
        ("(drop (call $size (i32.const -1)))".into(), ""),
        ("(drop (call $size (i32.const -2)))".into(), "the monitor has no memory 1"),
        ("(drop (call $size (i32.const 2)))".into(), "there is no memory 2: the program has 2"),
        ("(drop (call $size (i32.const 0x80000000)))".into(), "the monitor has no memory"),
        ("(drop (call $len (i32.const -1)))".into(), "there is no memory -1"),
        (
            "(call $init (i32.const 0) (i64.const 0) (i32.const 4) (i64.const 0) (i64.const 0))"
                .into(),
            "no data segment 4",
        ),
        (
            "(call $init (i32.const 0) (i64.const 0) (i32.const -1) (i64.const 0) (i64.const 0))"
                .into(),
            "no data segment",
        ),
        // The segment was dropped.
        (
            "(call $init (i32.const 0) (i64.const 0) (i32.const 3) (i64.const 0) (i64.const 1))"
                .into(),
            "out of bounds",
        ),
        (
            "(call $init (i32.const 0) (i64.const 0) (i32.const 3) (i64.const 0) (i64.const 0))"
                .into(),
            "",
        ),
        (
            "(call $fill (i32.const -1) (i64.const 65535) (i32.const 1) (i64.const 2))".into(),
            "out of bounds",
        ),
        (format!("(call $copy (i32.const 0) {long} (i32.const 1) {long} {long})"), "out of bounds"),
        (
            "(call $copy (i32.const -1) (i64.const 0) (i32.const 0) (i64.const -1) (i64.const 2))"
                .into(),
            "out of bounds",
        ),
    ] {
        let output = run(&place, &[], &[&place.file("m.wat", monitor(&call))], &app);
        assert_eq!(output.status.success(), said.is_empty(), "{call}: {}", errors(&output));
        assert!(errors(&output).contains(said), "{call}: {}", errors(&output));
    }
    let early = monitor("").replace(
        "(memory 1)",
        "(memory 1) (start $early) (func $early (call $fill (i32.const 0) (i64.const 0) \
         (i32.const 1) (i64.const 2)))",
    );
    let output = run(&place, &[], &[&place.file("m.wat", early)], &app);
    assert!(errors(&output).contains("do not exist yet"), "{}", errors(&output));
}
