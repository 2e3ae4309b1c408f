//! Monitors as users use them: their reports are correct, and the program behaves the same.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::collections::HashMap;
use std::fs;

/// Adds up 0 to 9, odd numbers twice, prints a line, and exits with 7 from inside of a loop.
const PROGRAM: &str = r#"(module $sum
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\06\00\00\00") (data (i32.const 16) "hello\n")
    (global $total (mut i32) (i32.const 0))
    (func $add (param i32) (global.set $total (i32.add (global.get $total) (local.get 0))))
    (func $never (unreachable))
    (func (export "_start") (local $i i32)
        (loop $turn
            (call $add (local.get $i))
            (if (i32.and (local.get $i) (i32.const 1)) (then (call $add (local.get $i))))
            (if (i32.eq (local.get $i) (i32.const 9)) (then
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32)))
                (call $exit (i32.const 7))
                (nop)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $turn))))"#;

/// The rows of one monitor, read from CSV without quotes.
fn rows(text: &str) -> Vec<HashMap<String, String>> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("a line of names").split(',').collect();
    let row = |line: &str| {
        columns
            .iter()
            .zip(line.split(','))
            .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

fn observe(place: &Place, monitor: &str) -> Vec<HashMap<String, String>> {
    let program = place.file("sum.wat", PROGRAM);
    let output =
        place.run(&["run", "--monitor", monitor, "--csv", "--report", "report.csv", &program]);
    assert_eq!(
        (output.status.code(), &output.stdout[..], errors(&output)),
        (Some(7), &b"hello\n"[..], String::new())
    );
    rows(&fs::read_to_string(place.0.join("report.csv")).expect("a report"))
}

/// The first row with these values.
fn find<'a>(
    rows: &'a [HashMap<String, String>],
    wanted: &[(&str, &str)],
) -> &'a HashMap<String, String> {
    let fits = |row: &&HashMap<String, String>| {
        wanted.iter().all(|(column, value)| row[*column] == *value)
    };
    rows.iter().find(fits).unwrap_or_else(|| panic!("no row {wanted:?} in {rows:#?}"))
}

#[test]
fn instructions_are_counted_up_to_the_exit_in_the_middle_of_a_block() {
    let place = Place::new("monitor-hotness");
    let rows = observe(&place, "hotness,code");
    assert_eq!(find(&rows, &[("instruction", "loop")])["count"], "10");
    assert_eq!(find(&rows, &[("instruction", "global.set 0")])["count"], "15");
    assert_eq!(find(&rows, &[("instruction", "call 1")])["count"], "1");
    assert_eq!(find(&rows, &[("instruction", "nop")])["count"], "0");
    assert_eq!(find(&rows, &[("instruction", "br 0")])["count"], "9");
    assert_eq!(find(&rows, &[("function", "never"), ("instruction", "unreachable")])["count"], "0");
}

#[test]
fn every_monitor_says_what_the_program_does() {
    let place = Place::new("monitor-all");
    let branches = observe(&place, "branches");
    assert_eq!(
        branches.iter().map(|row| row["ways"].clone()).collect::<Vec<_>>(),
        ["[5 5]", "[9 1]"]
    );
    let opcodes = observe(&place, "opcodes");
    let call = find(&opcodes, &[("instruction", "call")]);
    assert_eq!((&call["static"][..], &call["dynamic"][..]), ("4", "17"));
    let icount = observe(&place, "icount");
    assert_eq!(find(&icount, &[("function", "add")])["dynamic"], (15 * 5).to_string());
    assert_eq!(find(&icount, &[("function", "add")])["calls"], "15");
    let loops = observe(&place, "loops");
    assert_eq!((&loops[0]["iterations"][..], &loops[0]["entries"][..]), ("10", "1"));
    let globals = observe(&place, "globals");
    assert_eq!((&globals[0]["reads"][..], &globals[0]["writes"][..]), ("15", "15"));
    let coverage = observe(&place, "coverage");
    assert_eq!(find(&coverage, &[("function", "never")])["covered"], "0");
    assert_eq!(find(&coverage, &[("function", "add")])["share"], "1");
    let missed = observe(&place, "coverage,missed,function=never");
    assert_eq!((missed.len(), &missed[0]["from"][..]), (1, "+1"));
    let calls = observe(&place, "calls,graph");
    let pairs: Vec<[&str; 3]> =
        calls.iter().map(|row| [&row["caller"][..], &row["callee"], &row["count"]]).collect();
    assert_eq!(pairs, [["_start", "add", "15"], ["_start", "exit", "1"], ["_start", "write", "1"]]);
    let blocks = observe(&place, "blocks,function=add");
    assert_eq!((blocks.len(), &blocks[0]["count"][..]), (1, "15"));
    let edges = observe(&place, "control-flow,function=add");
    assert_eq!(find(&edges, &[("way", "call")])["count"], "15");
    assert_eq!(find(&edges, &[("way", "return")])["count"], "15");
}

#[test]
fn a_compiled_program_is_observed_as_the_module_is() {
    let place = Place::new("monitor-compiled");
    let program = place.file("sum.wat", PROGRAM);
    place.good(&["compile", &program, "-o", "sum.aot"]);
    let counted = [
        "hotness",
        "opcodes",
        "branches",
        "loops",
        "blocks",
        "globals",
        "icount",
        "calls",
        "control-flow",
        "coverage",
    ];
    for monitors in counted.iter().map(|name| vec![*name]).chain([vec!["memory", "icount"]]) {
        let report = |program: &str| {
            let each = monitors.iter().flat_map(|name| ["--monitor", name]);
            let options: Vec<&str> = each.chain(["--csv", program]).collect();
            let output = place.run(&[&["run"], &options[..]].concat());
            assert_eq!(output.status.code(), Some(7));
            errors(&output)
        };
        let expected = report(&program);
        assert!(expected.lines().count() > 1, "{monitors:?}: {expected}");
        assert_eq!(report("sum.aot"), expected, "{monitors:?}");
    }
}

#[test]
fn several_monitors_write_one_object() {
    let place = Place::new("monitor-json");
    let program = place.file("sum.wat", PROGRAM);
    let output =
        place.run(&["run", "--monitor", "hotness,top=1", "--monitor", "loops", "--json", &program]);
    let reports: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an object");
    assert_eq!(reports["loops"]["rows"][0]["iterations"], 10);
    assert!(
        reports["hotness"]["rows"].as_array().expect("rows").len() > 20,
        "programs read all rows"
    );
}

#[test]
fn programs_are_told_indices_numbers_and_totals() {
    let place = Place::new("monitor-numbers");
    let program = place.file("sum.wat", PROGRAM);
    let output = place.run(&["run", "--monitor", "hotness", "--json", &program]);
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an object");
    let (rows, totals) =
        (report["hotness"]["rows"].as_array().expect("rows"), &report["hotness"]["totals"]);
    let number = |row: &serde_json::Value, key: &str| {
        row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
    };
    assert_eq!(totals["executions"], rows.iter().map(|row| number(row, "count")).sum::<u64>());
    assert_eq!(totals["executed"], rows.len());
    // The body of a function begins at one place of the module.
    let mut starts: Vec<_> = rows
        .iter()
        .map(|row| (number(row, "function index"), number(row, "pc offset") - number(row, "pc")))
        .collect();
    starts.sort_unstable();
    starts.dedup();
    let mut functions: Vec<u64> = starts.iter().map(|(function, _)| *function).collect();
    functions.dedup();
    assert_eq!(functions.len(), starts.len(), "{starts:?}");
}

#[test]
fn totals_are_sums_of_columns_and_functions_have_indices_in_all_monitors() {
    let place = Place::new("monitor-totals");
    let program = place.file("sum.wat", PROGRAM);
    for (monitor, columns) in [
        ("alloc", &["bytes", "blocks", "live bytes", "live"][..]),
        ("blocks", &["count"]),
        ("branches", &[]),
        ("calls", &[]),
        ("const", &["calls", "constant"]),
        ("control-flow", &["count"]),
        ("coverage", &["instructions", "covered", "blocks", "reached"]),
        ("functions", &["calls", "nanoseconds"]),
        ("globals", &["reads", "writes"]),
        ("icount", &["dynamic"]),
        ("latency,policy=exact", &["calls", "samples", "total ns"]),
        ("loops", &["iterations", "entries"]),
        ("memory", &["reads", "writes"]),
        ("opcodes", &["static"]),
        ("profile", &["calls"]),
    ] {
        let output = place.run(&["run", "--monitor", monitor, "--json", &program]);
        let reports: serde_json::Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|error| panic!("{monitor}: {error}: {}", errors(&output)));
        let report = &reports[monitor.split(',').next().expect("a name")];
        let rows = report["rows"].as_array().expect("rows");
        assert!(!report["totals"].as_object().expect("an object").is_empty(), "{monitor}");
        for column in columns {
            let sum: u64 = rows.iter().filter_map(|row| row[column].as_u64()).sum();
            assert_eq!(report["totals"][column], sum, "{monitor}: {column} of {report}");
        }
        for row in rows {
            let named =
                ["function", "caller", "callee"].into_iter().filter(|key| !row[key].is_null());
            for key in named {
                assert!(row[format!("{key} index")].is_u64(), "{monitor}: {key} of {row}");
            }
        }
    }
}

#[test]
fn what_was_never_executed_has_no_report() {
    let place = Place::new("monitor-never");
    for (program, said) in [
        (r#"(module (import "no" "where" (func)) (func (export "_start")))"#, "unknown import"),
        (r#"(module (func (export "other")))"#, "nothing to run"),
    ] {
        let output =
            place.run(&["run", "--monitor", "hotness", &place.file("program.wat", program)]);
        let told = errors(&output);
        assert!(!output.status.success() && told.contains(said) && !told.contains("=="), "{told}");
    }
}

#[test]
fn programs_that_trap_or_run_out_of_time_are_reported_too() {
    let place = Place::new("monitor-trap");
    let trap =
        place.file("trap.wat", "(module (func (export \"_start\") (nop) (drop (i32.div_u (i32.const 1) (i32.const 0))) (nop)))");
    let output = place.run(&["run", "--monitor", "icount", &trap]);
    assert_eq!(output.status.code(), Some(134));
    // The first instruction, two constants, and the division.
    assert!(errors(&output).contains("dynamic 4\n"), "{}", errors(&output));
    let spin = place.file("spin.wat", "(module (func (export \"_start\") (loop $l (br $l))))");
    let output = place.run(&["run", "--timeout", "100ms", "--monitor", "loops", &spin]);
    assert_eq!(output.status.code(), Some(134));
    assert!(errors(&output).contains("== loops =="), "{}", errors(&output));
}

#[test]
fn wrong_choices_are_refused_before_the_program_runs() {
    let place = Place::new("monitor-bad");
    let program = place.file("sum.wat", PROGRAM);
    for (args, wanted) in [
        (&["--monitor", "hottness"][..], "did you mean hotness?"),
        (&["--monitor", "loops,deep"], "loops has no option deep"),
        (&["--monitor", "loops,top=many"], "expected a number"),
        (&["--monitor", "loops", "--monitor", "loops"], "loops is chosen twice"),
        (&["--csv"], "belong to --monitor"),
        (
            &["--monitor", "hotness,branches"],
            "choose several with --monitor hotness --monitor branches",
        ),
        (
            &["--monitor", "loops", "--report", "no/such/folder"],
            "--report no/such/folder: No such file",
        ),
    ] {
        let (text, code) = place.bad(&[&["run"], args, &[&program]].concat());
        assert!(text.contains(wanted), "{args:?}: {text}");
        assert!(code == 1 || code == 2, "{args:?}: {code}");
    }
    let full = place.run(&["run", "--monitor", "loops", "--report", "/dev/full", &program]);
    assert_eq!((full.status.code(), &full.stdout[..]), (Some(7), &b"hello\n"[..]));
    assert!(errors(&full).contains("--report /dev/full: No space left"), "{}", errors(&full));
    let full = place.run(&["run", "--monitor", "profile,pprof=/dev/full", &program]);
    assert!(errors(&full).contains("pprof: No space left"), "{}", errors(&full));
}

#[test]
fn a_filter_that_matches_nothing_is_refused_before_the_program_runs() {
    let place = Place::new("monitor-filter");
    let text = "(module (func $parse_line) (func (export \"_start\") (call $parse_line)))";
    let program = place.file("program.wat", text);
    for (monitor, hint) in [
        ("hotness,function=prase_line", " (did you mean parse_line?)"),
        ("profile,function=nosuch*", ""),
        ("latency,function=nosuch*", ""),
        ("hotness,exclude=prase_line", " (did you mean parse_line?)"),
        ("latency,exclude=nosuch*", ""),
    ] {
        let (_, option) = monitor.split_once(',').expect("an option");
        let (_, pattern) = option.split_once('=').expect("a pattern");
        let (text, code) = place.bad(&["run", "--monitor", monitor, &program]);
        let line = format!("--monitor: {option}: no function is called {pattern}{hint}");
        assert_eq!((code, text), (2, format!("wasm-aot: {line}\n")));
    }
    place.good(&["run", "--monitor", "hotness,function=parse*", &program]);
}

#[test]
fn a_report_that_finds_no_room_leaves_the_earlier_one() {
    let place = Place::new("monitor-room");
    let text = format!("(module (func $begin (export \"_start\") {}))", "nop ".repeat(200));
    place.file("program.wat", text);
    let file = place.file("report", "what was found before");
    // Files are limited to one block, as on a full disk: a write fails, and does not kill the
    // process.
    let done = place.shell(
        "trap '' XFSZ; ulimit -f 1
         exec \"$0\" run --monitor hotness,top=all --report report program.wat",
    );
    let told = errors(&done);
    assert!(told.contains("--report report: File too large"), "{told}");
    assert_eq!((done.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "what was found before");
    let names =
        fs::read_dir(&*place.0).expect("a folder").map(|entry| entry.expect("one").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>();
    assert!(!names.iter().any(|name| name.contains("draft")), "{names:?}");
}

#[test]
fn a_run_that_is_refused_leaves_files_of_earlier_ones_as_they_are() {
    let place = Place::new("monitor-files");
    let program = place.file("program.wat", "(module (func $begin (export \"_start\")))");
    let file = place.file("earlier", "what was found before");
    let found = || fs::read_to_string(&file).expect("it is there");
    for monitor in [
        format!("latency,file={file}"),
        format!("profile,svg={file}"),
        format!("calls,file={file}"),
        format!("memory,trace={file}"),
        format!("trace,form=csv,file={file}"),
    ] {
        let filtered = format!("{monitor},function=nosuch");
        place.bad(&["run", "--monitor", &filtered, &program]);
        place.bad(&["run", "--monitor", &filtered, "--report", &file, &program]);
        assert_eq!(found(), "what was found before", "{monitor}");
    }
    place.good(&["run", "--monitor", &format!("trace,form=csv,file={file}"), &program]);
    assert!(found().starts_with("depth,event,"), "{}", found());
    // The program has read and written nothing.
    place.good(&["run", "--monitor", &format!("memory,trace={file}"), &program]);
    assert_eq!(found(), "");
    fs::write(&file, "what was found before").expect("a file");
    place.good(&["run", "--monitor", "hotness", "--report", &file, &program]);
    assert!(found().starts_with("== hotness =="), "{}", found());
}

#[test]
fn the_list_of_monitors_names_each_with_its_options() {
    let place = Place::new("monitor-list");
    let list = place.good(&["monitors"]);
    assert!(list.contains("hotness       execution count of each instruction"), "{list}");
    let kinds: serde_json::Value =
        serde_json::from_str(&place.good(&["monitors", "--json"])).expect("a list");
    let kinds = kinds.as_array().expect("a list");
    assert!(kinds.iter().any(|kind| kind["name"] == "coverage"));
    for option in kinds.iter().flat_map(|kind| kind["options"].as_array().expect("a list")) {
        let name = option["name"].as_str().expect("text");
        assert!(
            list.contains(&format!("{name}  ")),
            "{name} stands apart from what it means: {list}"
        );
    }
}

#[test]
fn programs_that_tell_arcs_to_their_host_have_them_printed() {
    let place = Place::new("arcs");
    // Arcs to the host, and functions without names, are accepted.
    let text = |ends: &str| {
        format!(
            r#"(module (@custom "fastinst:functions" "1 exit\n2 inner\n3 run\nx y\n\n")
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "prof" "getTime" (func $time (result f64)))
            (import "prof" "clearResults" (func $clear))
            (import "prof" "setArcData" (func $set (param i32 i32 i32 f64)))
            (import "prof" "addArcData" (func $add (param i32 i32 i32 f64)))
            (import "prof" "printResults" (func $print))
            (memory (export "memory") 1)
            (func $inner) (func $run (export "_start")
                (call $set (i32.const 9) (i32.const 8) (i32.const 7) (f64.const 6)) (call $clear)
                (if (f64.lt (call $time) (f64.const 0)) (then (unreachable)))
                (call $set (i32.const 0) (i32.const 3) (i32.const 1) (f64.const 250))
                (call $set (i32.const 3) (i32.const 2) (i32.const 40) (f64.const 100))
                (call $add (i32.const 3) (i32.const 2) (i32.const 2) (f64.const 50))
                (call $set (i32.const 2) (i32.const 0) (i32.const 1) (f64.const 1))
                (call $add (i32.const 2) (i32.const 9) (i32.const -1) (f64.const nan))
                {ends}))"#
        )
    };
    let (asked, ended) = (text("(call $print)"), text("(call $exit (i32.const 3))"));
    for (name, program, code) in [("asked.wat", asked, 0), ("ended.wat", ended, 3)] {
        let program = place.file(name, program);
        let output = place.run(&["run", &program]);
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        let said = errors(&output);
        assert_eq!(said.matches("Flat profile:").count(), 1, "{said}");
        let line = |name: &str| said.lines().find(|line| line.ends_with(name)).unwrap_or("");
        assert!(line("  inner").contains("0.150000") && line("  inner").contains("42"), "{said}");
        assert!(line("  run").contains("0.100000"), "{said}");
        assert!(said.contains("42/42") && said.contains("<spontaneous>"), "{said}");
        assert!(line("  function 8").contains("4294967295"), "{said}");
    }
    let silent = place.file("silent.wat", r#"(module (func (export "_start")))"#);
    assert_eq!(errors(&place.run(&["run", &silent])), "");
}
