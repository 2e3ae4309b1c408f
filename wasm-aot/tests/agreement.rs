//! Every monitor agrees with an interpreter that shares no code with the engine, for programs that
//! trap in the middle of a block, exit inside of a loop, throw exceptions, branch by tables, and
//! make tail calls.

#[path = "agreement/interpreter.rs"]
mod interpreter;
#[path = "agreement/reports.rs"]
mod reports;

use interpreter::{Interpreter, Stop};
use reports::{COUNTED, Sums, Table, sums};
use wasm_aot::monitor::{Choices, MonitorSet};
use wasm_aot::{Config, Engine, Error, Linker, Store, Val};

/// The parts of programs besides their functions.
const AROUND: &str = r#"(import "host" "exit" (func $exit)) (type $t (func (param i32) (result i32)))
    (memory 2) (global $turns (mut i32) (i32.const 0)) (global $last (mut i32) (i32.const 7))
    (tag $e (param i32)) (tag $other)
    (func $note (param i32) (global.set $turns (i32.add (global.get $turns) (i32.const 1))) (global.set $last (local.get 0)))"#;

/// The programs; the tests call `f` with several numbers.
const PROGRAMS: [(&str, &str); 6] = [
    (
        "traps in the middle of blocks",
        r#"(func $divide (type $t) (nop) (i32.div_s (i32.const 100) (i32.sub (local.get 0) (i32.const 5))) (call $note (i32.const 1)) (nop))
        (func $reach (type $t) (nop) (i32.load offset=65530 (i32.mul (local.get 0) (i32.const 9000))) (nop))
        (func (export "f") (type $t) (local $i i32)
            (loop $l
                (nop)
                (i32.store (i32.mul (local.get $i) (i32.const 20000)) (call $divide (local.get $i)))
                (drop (call $reach (local.get $i)))
                (if (i32.eq (local.get $i) (i32.const 4)) (then (nop) (unreachable) (nop)))
                (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get 0))))
            (local.get $i))"#,
    ),
    (
        "an exit inside of loops",
        r#"(func $leave (type $t) (loop $l (if (i32.eqz (local.get 0)) (then (nop) (call $exit) (nop)))
                (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (i32.const 1))
        (func (export "f") (type $t) (local $i i32)
            (loop $outer
                (call $note (local.get $i))
                (i32.store (i32.const 8) (local.get $i))
                (if (i32.eq (local.get $i) (local.get 0)) (then (drop (call $leave (i32.const 0))) (nop)))
                (drop (call $leave (i32.add (local.get $i) (i32.const 2))))
                (br_if $outer (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 6))))
            (local.get $i))"#,
    ),
    (
        "exceptions",
        r#"(func $throws (type $t) (nop) (if (i32.and (local.get 0) (i32.const 1)) (then (throw $e (local.get 0)))) (nop)
                (if (i32.eq (local.get 0) (i32.const 6)) (then (throw $other))) (local.get 0))
        (func $between (type $t) (local $i i32)
            (loop $l (drop (call $throws (i32.mul (local.get $i) (i32.const 2)))) (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get $i) (i32.const 2))))
            (i32.add (call $throws (local.get 0)) (i32.const 1)))
        (func $again (type $t)
            (block $h (result exnref)
                (return (try_table (result i32) (catch_all_ref $h) (nop) (call $between (local.get 0)))))
            (call $note (i32.const 3)) (throw_ref))
        (func (export "f") (type $t) (local $i i32)
            (loop $l
                (block $done
                    (block $h (result i32)
                        (try_table (catch $e $h)
                            (loop $inside (drop (call $again (i32.add (local.get 0) (local.get $i))))
                                (br_if $inside (i32.eq (local.get $i) (i32.const 100)))))
                        (br $done))
                    (global.set $last))
                (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4))))
            (i32.load (i32.const 4)))"#,
    ),
    (
        "tables of branches",
        r#"(func (export "f") (type $t) (local $i i32) (local $j i32)
            (loop $outer
                (local.set $j (i32.const 0))
                (block $middle
                    (loop $inner
                        (local.set $j (i32.add (local.get $j) (i32.const 1)))
                        (i32.store (i32.shl (local.get $j) (i32.const 14)) (local.get $i))
                        (if (i32.and (local.get $j) (i32.const 1)) (then (nop)) (else (br_if $middle (i32.eq (local.get $j) (local.get $i)))))
                        (drop (br_if 3 (i32.const 9) (i32.gt_u (local.get $i) (i32.const 40))))
                        (block $c (block $b (block $a (br_table $a $b $inner $c $middle
                            (i32.rem_u (i32.mul (local.get $i) (local.get $j)) (i32.const 6))))
                            (br $c)) (call $note (local.get $j)))
                        (br_if $inner (i32.lt_u (local.get $j) (local.get 0)))
                        (if (i32.eq (local.get $i) (i32.const 30)) (then (return (local.get $j)))))
                    (nop))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $outer (i32.lt_u (local.get $i) (i32.mul (local.get 0) (i32.const 5)))))
            (local.get $i))"#,
    ),
    (
        "calls in place of the caller",
        r#"(table funcref (elem $odd $leaf $note))
        (func $even (type $t) (if (i32.eqz (local.get 0)) (then (return (i32.const 1))))
            (drop (call_indirect (type $t) (local.get 0) (i32.const 1)))
            (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
        (func $odd (type $t) (loop $l (br_if $l (i32.eq (global.get $last) (i32.const -1)))
                (return_call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.and (local.get 0) (i32.const 3)))) (i32.const 0))
        (func $leaf (type $t) (call $note (local.get 0)) (i32.load (i32.shl (local.get 0) (i32.const 2))))
        (func (export "f") (type $t) (drop (call $even (local.get 0))) (call $leaf (i32.const 6)))"#,
    ),
    (
        "memory that is given out",
        r#"(global $next (mut i32) (i32.const 64))
        (func $malloc (export "malloc") (type $t) (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
        (func $free (export "free") (param i32) (nop))
        (func (export "f") (type $t) (local $i i32) (local $p i32)
            (loop $l
                (local.set $p (call $malloc (i32.add (local.get $i) (i32.const 8))))
                (i32.store (local.get $p) (local.get $i))
                (if (i32.and (local.get $i) (i32.const 1)) (then (call $free (local.get $p))))
                (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get 0))))
            (local.get $p))"#,
    ),
];

const ARGS: [i32; 8] = [0, 1, 2, 3, 5, 6, 8, 9];

/// Monitors whose reports contain more than execution counts of instructions.
const OTHERS: [&str; 8] = [
    "memory",
    "functions",
    "profile",
    "const",
    "loop-traces",
    "latency,function=*,policy=exact",
    "alloc",
    "calls,graph",
];

#[test]
fn every_monitor_agrees_with_an_interpreter() {
    for (what, functions) in PROGRAMS {
        let bytes = wat::parse_str(format!("(module {AROUND} {functions})"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        check(what, &bytes);
    }
}

fn check(what: &str, bytes: &[u8]) {
    let mut interpreter = Interpreter::new(bytes);
    let trace = std::env::temp_dir().join(format!("wasm-aot-agreement-{}", std::process::id()));
    let trace_to = format!("trace,file={}", trace.display());
    let monitors: Vec<&str> = COUNTED.into_iter().chain(OTHERS).chain([&trace_to[..]]).collect();
    // All of them at once: they are independent of each other.
    let monitors = MonitorSet::new(Choices::new(monitors).expect("monitors")).expect("ready");
    let engine = Engine::new(Config::new().counts(true).call_targets(true)).expect("an engine");
    let module = monitors.compile(&engine, bytes).expect("a module");
    let (mut store, mut linker) = (Store::new(&engine, ()), Linker::new(&engine));
    linker.func_wrap("host", "exit", || Err::<(), _>(Error::Exit(3))).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    for arg in ARGS {
        let expected = interpreter.enter(interpreter.exports["f"], vec![arg.into()]);
        match (function.call(&mut store, &[Val::I32(arg)]), expected) {
            (Ok(found), Ok(expected)) => assert!(
                matches!(found[..], [Val::I32(found)] if [i64::from(found)] == expected[..])
            ),
            (Err(Error::Trap(_)), Err(Stop::Trap)) | (Err(Error::Exit(3)), Err(Stop::Exit)) => {}
            (Err(Error::Exception(_)), Err(Stop::Thrown(_))) => {}
            (found, expected) => panic!("{what}: f({arg}): {found:?} instead of {expected:?}"),
        }
    }
    let reports = monitors.reports(None);
    let counts = module.counts().expect("counted");
    let functions: Vec<_> = counts
        .functions()
        .map(|function| {
            let mut instructions = function.instructions();
            for instruction in &mut instructions {
                let place = (function.index(), instruction.offset);
                instruction.count =
                    interpreter.record.counts.get(&place).copied().unwrap_or_default();
            }
            (function.label(), instructions)
        })
        .collect();
    reports::compare(what, &reports, &functions);
    let table =
        |name: &str| Table(reports.iter().find(|report| report.monitor == name).expect("a report"));
    compare_calls(what, &interpreter, table);
    compare_values(what, &interpreter, table);
    let lines = std::fs::read_to_string(&trace).expect("written");
    std::fs::remove_file(&trace).expect("there");
    let shown = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [">", name, ..] => format!("> {name}"),
        [first, ..] => first.to_owned(),
        [] => String::new(),
    };
    let found: Vec<String> = lines.lines().map(shown).collect();
    let expected: Vec<String> = interpreter.record.lines.iter().map(|line| shown(line)).collect();
    let first = || {
        found
            .iter()
            .zip(&expected)
            .position(|(found, expected)| found != expected)
            .unwrap_or_default()
    };
    assert!(
        found == expected,
        "{what}: trace: {:?} instead of {:?}",
        &found[first()..][..3],
        &expected[first()..][..3]
    );
}

/// Functions, and the calls between them.
fn compare_calls<'a>(what: &str, interpreter: &Interpreter<'_>, table: impl Fn(&str) -> Table<'a>) {
    let record = &interpreter.record;
    let name = |function: &u32| interpreter.name(*function);
    let contexts = record.contexts.iter();
    let ways: Sums = sums(
        contexts.map(|(way, count)| (way.iter().map(name).collect::<Vec<_>>().join(";"), *count)),
    );
    assert_eq!(table("profile").sums(&["way"], "calls"), ways, "{what}: profile");
    let all = sums(
        record.contexts.iter().map(|(way, count)| (name(way.last().expect("somebody")), *count)),
    );
    assert_eq!(table("functions").sums(&["function"], "calls"), all, "{what}: functions");
    let mut defined = all.clone();
    defined.remove("exit");
    assert_eq!(table("latency").sums(&["function"], "calls"), defined, "{what}: latency");
    let graph =
        sums(record.calls.iter().map(|((caller, callee), count)| {
            (format!("{} {}", name(caller), name(callee)), *count)
        }));
    assert_eq!(table("calls").sums(&["caller", "callee"], "count"), graph, "{what}: calls");
}

/// Arguments, pages, loops and allocations.
fn compare_values<'a>(
    what: &str,
    interpreter: &Interpreter<'_>,
    table: impl Fn(&str) -> Table<'a>,
) {
    let record = &interpreter.record;
    let argument = |value: &Option<i64>| value.map_or("?".to_owned(), |value| value.to_string());
    let expected: Vec<(String, String)> = record
        .arguments
        .iter()
        .filter(|(_, arguments)| !arguments.is_empty())
        .map(|(function, arguments)| {
            let all: Vec<String> = arguments.iter().map(argument).collect();
            (interpreter.name(*function), format!("({})", all.join(", ")))
        })
        .collect();
    let constant = table("const");
    let mut found: Vec<(String, String)> =
        constant.words("function").into_iter().zip(constant.words("arguments")).collect();
    found.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(found, expected, "{what}: const");
    for (column, side) in [("reads", 0), ("writes", 1)] {
        let pages = sums(
            record.pages.iter().map(|(page, counts)| (format!("{:08x}", page << 16), counts[side])),
        );
        assert_eq!(table("memory").sums(&["from"], column), pages, "{what}: memory: {column}");
    }
    let place =
        |(function, offset): &(u32, u32)| format!("{} +{offset}", interpreter.name(*function));
    let entries = sums(record.entries.iter().map(|(at, count)| (place(at), *count)));
    assert_eq!(
        table("loops").sums(&["function", "pc"], "entries"),
        entries,
        "{what}: loops: entries"
    );
    let whole =
        |at: &(u32, u32)| record.counts[at] - record.cut.get(at).copied().unwrap_or_default();
    let whole = sums(record.entries.keys().map(|at| (place(at), whole(at))));
    assert_eq!(
        table("loop-traces").sums(&["function", "pc"], "count"),
        whole,
        "{what}: loop-traces"
    );
    let mut ways: std::collections::BTreeMap<String, Vec<u64>> = std::collections::BTreeMap::new();
    for ((function, offset, way), count) in &record.ways {
        let ways = ways.entry(place(&(*function, *offset))).or_default();
        ways.resize(ways.len().max(way + 1), 0);
        ways[*way] = *count;
    }
    let branches = table("branches");
    for ((function, pc), found) in
        branches.words("function").iter().zip(branches.words("pc")).zip(branches.words("ways"))
    {
        let mut expected = ways[&format!("{function} {pc}")].clone();
        // Branches that were never taken are listed, too.
        expected.resize(expected.len().max(found.split(',').count()), 0);
        assert_eq!(found, format!("{expected:?}"), "{what}: branches: {function} {pc}");
    }
    let given: u64 =
        ARGS.iter().map(|arg| (0..(*arg).max(1)).map(|i| i as u64 + 8).sum::<u64>()).sum();
    let bytes: u64 = table("alloc").counts("bytes").iter().sum();
    assert_eq!(bytes, if what == "memory that is given out" { given } else { 0 }, "{what}: alloc");
}
