//! The command, from its arguments to its exit code.

#[path = "command/place.rs"]
mod place;

use place::{Place, errors};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use test_support::{finished, send};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

const ADD: &str = "(module (func (export \"add\") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func (export \"all\") (param i64 f32 f64 v128) (result i64 f32 f64 v128) (local.get 0) (local.get 1) (local.get 2) (local.get 3)))";
/// Prints `hello` and ends with code 7.
const HELLO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1) (data (i32.const 16) "hello\n")
    (data (i32.const 0) "\10\00\00\00\06\00\00\00")
    (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))) (call $exit (i32.const 7))))"#;
const FOREVER: &str =
    "(module $spin (func $turn (loop $l (br $l))) (func (export \"_start\") (call $turn)))";

#[test]
fn programs_scripts_and_traces_may_come_through_pipes() {
    let place = Place::new("pipes");
    place.file("hello.wat", HELLO);
    place.file("calls.mm", "wasm:opcode:call:before { report var calls: u32; calls++; }");
    for (line, code, output, told) in [
        ("cat hello.wat | \"$0\" run /dev/stdin", 7, "hello\n", ""),
        ("\"$0\" run --monitor <(cat calls.mm) <(cat hello.wat)", 7, "hello\n", "calls"),
        ("\"$0\" record -o hello.r3 <(cat hello.wat)", 7, "hello\n", "events recorded"),
        ("\"$0\" run <(cat hello.r3)", 7, "hello\n", ""),
        ("\"$0\" trace show <(cat hello.r3)", 0, "fi-trace text", ""),
        ("\"$0\" trace diff <(cat hello.r3) hello.r3", 0, "equal: ", ""),
        ("\"$0\" replay --check <(cat hello.r3) <(cat hello.wat)", 0, "as recorded\n", ""),
        ("\"$0\" reduce -o less.r3 <(cat hello.r3)", 0, "", ""),
    ] {
        let done = place.shell(line);
        let (printed, error) = (String::from_utf8_lossy(&done.stdout), errors(&done));
        assert_eq!(done.status.code(), Some(code), "{line}: {error}");
        assert!(printed.contains(output) && error.contains(told), "{line}: {printed}{error}");
    }
}

#[test]
fn the_verdict_on_a_replay_says_how_far_it_goes_and_knows_exceptions() {
    let place = Place::new("verdicts");
    let hello = place.file("hello.wat", HELLO);
    place.run(&["record", "-o", "hello.r3", &hello]);
    let whole = fs::read(place.0.join("hello.r3")).expect("a trace");
    let said = place.good(&["replay", "--check", "hello.r3"]);
    assert!(said.ends_with(": the program behaves as recorded\n"), "{said}");
    place.file("cut.r3", &whole[..whole.len() - 4]);
    let said = place.good(&["replay", "--check", "cut.r3"]);
    assert!(said.ends_with("behaves as recorded so far: the trace was cut off here\n"), "{said}");
    let throws = place.file("throw.wat", "(module (tag $e) (func (export \"_start\") (throw $e)))");
    place.run(&["record", "-o", "throw.r3", &throws]);
    let said = place.good(&["replay", "--check", "throw.r3"]);
    assert!(said.ends_with(": the program behaves as recorded\n"), "{said}");
}

#[test]
fn a_profiled_program_that_traps_tells_its_profile() {
    let place = Place::new("profiled-trap");
    let text = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func $divide (param i32) (result i32) (local $n i32)
            (loop $l (br_if $l (i32.lt_u
                (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 9))))
            (i32.div_u (i32.const 6) (local.get 0)))
        (func (export "_start")
            (drop (call $divide (i32.const 2))) (drop (call $divide (i32.const 0)))))"#;
    let module = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    for file in [None, Some("calls.profile".to_owned())] {
        let options = whamm_profile::Options { file: file.clone(), ..Default::default() };
        let program = whamm_profile::profile(&module, &options).unwrap_or_else(|e| panic!("{e}"));
        let program = place.file("program.wasm", program.module);
        let done = place.run(&["run", "--dir", ".", &program]);
        let said = errors(&done);
        assert_eq!(done.status.code(), Some(134), "{said}");
        assert!(said.contains("divide by zero"), "{said}");
        let Some(file) = file else {
            assert!(said.contains("3 calls of 2 functions") && said.contains("2/2"), "{said}");
            continue;
        };
        let written = fs::read(place.0.join(file)).expect("it was written");
        let profile = profiler::Profile::from_file(&written).unwrap_or_else(|e| panic!("{e}"));
        let calls = profile.functions.iter().map(|function| function.calls.value);
        assert_eq!(calls.sum::<f64>(), 3.0);
    }
}

#[test]
fn functions_are_invoked_with_numbers_of_every_type() {
    let place = Place::new("invoke");
    let add = place.file("add.wat", ADD);
    assert_eq!(place.good(&["run", "--invoke", "add", &add, "40", "2"]), "42\n");
    assert_eq!(place.good(&["run", "--invoke", "add", &add, "--", "-1", "0xffffffff"]), "-2\n");
    let all =
        place.good(&["run", "--invoke", "all", &add, "0xffffffffffffffff", "1.5", "-inf", "0x10"]);
    assert_eq!(all, "-1\n1.5\n-inf\n0x00000000000000000000000000000010\n");
    for (args, part) in [
        (["--invoke", "sub", &add, "1", "2"], "exported are: add, all"),
        (["--invoke", "add", &add, "1", "two"], "two: not a value of type i32"),
        (["--invoke", "add", &add, "1", "99999999999"], "99999999999: not a value"),
    ] {
        let (text, code) = place.bad(&[&["run"], &args[..]].concat());
        assert!(text.contains(part) && text.contains("add.wat") && code == 126, "{code} {text}");
    }
    let (text, code) = place.bad(&["run", "--invoke", "add", &add, "1"]);
    assert!(text.contains("[i32 i32] -> [i32]") && code == 126, "{text}");
    let none = place.file("none.wat", "(module)");
    let (text, code) = place.bad(&["run", "--invoke", "sub", &none]);
    assert!(text.contains("the module exports none") && code == 126, "{code} {text}");
}

#[test]
fn programs_print_and_exit_as_they_like() {
    let place = Place::new("exit");
    let hello = place.file("hello.wat", HELLO);
    let output = place.run(&["run", &hello]);
    assert_eq!(
        (output.stdout.as_slice(), output.status.code(), errors(&output)),
        (&b"hello\n"[..], Some(7), String::new())
    );
}

#[test]
fn a_program_that_exits_with_an_error_never_ends_with_0() {
    let place = Place::new("exit-codes");
    for (asked, code) in
        [("0", 0), ("1", 1), ("126", 126), ("255", 255), ("256", 1), ("257", 1), ("-1", 255)]
    {
        let file =
            place.file("exit.wat", HELLO.replace("(i32.const 7)", &format!("(i32.const {asked})")));
        assert_eq!(place.run(&["run", &file]).status.code(), Some(code), "{asked}");
    }
    let file = place.file("exit.wat", HELLO.replace("(i32.const 7)", "(i32.const 0x80000000)"));
    assert_eq!(place.run(&["run", &file]).status.code(), Some(1));
}

#[test]
fn traps_and_exceptions_exit_with_134_and_say_where() {
    let place = Place::new("traps");
    let traps = place.file(
        "trap.wat",
        "(module $m (func $inner unreachable) (func (export \"_start\") (call $inner)))",
    );
    let output = place.run(&["run", &traps]);
    let text = errors(&output);
    assert_eq!(output.status.code(), Some(134));
    assert!(
        text.contains("trap.wat") && text.contains("unreachable") && text.contains(" - inner\n"),
        "{text}"
    );
    // A report names the function in the same way.
    let reported = errors(&place.run(&["run", "--monitor", "functions", &traps]));
    assert!(
        reported.lines().any(|line| line.split_whitespace().last() == Some("inner"))
            && reported.contains(" - inner\n"),
        "{reported}"
    );
    let throws = place.file("throw.wat", "(module (tag $e) (func (export \"_start\") (throw $e)))");
    let output = place.run(&["run", &throws]);
    assert!(
        output.status.code() == Some(134) && errors(&output).contains("uncaught exception"),
        "{}",
        errors(&output)
    );
    let deep = place.file("deep.wat", "(module (func $f (export \"_start\") (call $f)))");
    let output = place.run(&["run", "--max-stack", "200000", &deep]);
    assert!(
        output.status.code() == Some(134)
            && errors(&output).contains("call stack exhausted (--max-stack allows more)\n"),
        "{}",
        errors(&output)
    );
    let start = place.file("start.wat", "(module (func $boot unreachable) (start $boot))");
    assert_eq!(
        place.run(&["run", "--preload", &format!("a={start}"), &traps]).status.code(),
        Some(134)
    );
}

#[test]
fn what_cannot_be_run_is_told_in_one_line() {
    let place = Place::new("bad");
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.wat", b"(module)", "nothing to run"),
        ("library.wat", ADD.as_bytes(), "--invoke: add, all"),
        ("short.wasm", b"\0asm\x01\0", "offset"),
        ("wrong.wat", b"(module (func $f (result i32)))", "function 0 (f), offset 0x"),
        ("noise.wasm", &[0x80, 1, 2, 3], "\\0asm"),
        ("nothing.wasm", b"", "it is empty"),
        ("component.wasm", b"\0asm\x0d\0\x01\0", "not supported: components"),
        ("fake.aot", b"\x7fELF and nothing else", "not a compiled module"),
        (
            "imports.wat",
            b"(module (import \"a\" \"b\" (func (param i32))) (func (export \"_start\")))",
            "\"a\" \"b\" (func [i32] -> [])",
        ),
        (
            "large.wat",
            b"(module (memory i64 0x1000000000000) (func (export \"_start\")))",
            "memory",
        ),
    ];
    for (name, contents, part) in cases {
        let path = place.file(name, contents);
        let (text, code) = place.bad(&["run", &path]);
        assert!(text.contains(part) && text.contains(name) && code == 126, "{name}: {code} {text}");
    }
    let (text, code) = place.bad(&["run", "missing.wasm"]);
    assert!(text.contains("missing.wasm") && code == 127, "{text}");
    assert_eq!(place.bad(&["run", &place.0.display().to_string()]).1, 126);
    let add = place.file("add.wat", ADD);
    for args in [
        &["run", "--timeout", "soon", &add][..],
        &["run", "--timeout=-1s", &add],
        &["run", "--monitor", "icount", "--monitor-timeout", "0s", &add],
        // Meaningless arguments are reported before a program is searched for.
        &["ctl", "report", "--every=-1s"],
        &["ctl", "report", "--every", "0s"],
        &["ctl", "budget", "much"],
        &["run", "--env", "NO_SUCH_VARIABLE_AT_ALL", &add],
        &["run", "--env", "=value", &add],
        &["run", "--preload", "nothing", &add],
        &["compile", "--without", "magic", &add],
        &["manual", "nothing"],
        &["compile", "-o", &add, &add],
    ] {
        let (text, code) = place.bad(args);
        assert_eq!(code, 2, "{args:?}: {text}");
    }
    assert_eq!(place.run(&["run"]).status.code(), Some(2));
}

#[test]
fn files_that_are_wrong_for_a_command_are_told_by_their_names() {
    let place = Place::new("wrong");
    let (add, folder) = (place.file("add.wat", ADD), place.0.display().to_string());
    let (noise, script) =
        (place.file("noise.txt", "noise"), place.file("none.wast", "(invoke \"f\")"));
    let (compiled, missing) = (format!("{folder}/add.aot"), format!("{folder}/missing"));
    place.good(&["compile", &add]);
    for (args, name, part) in [
        (
            &["compile", &compiled, "-o", &missing][..],
            &compiled,
            "machine code: compile what it was made from",
        ),
        (
            &["compile", &add, "-o", &format!("{missing}/add.aot")],
            &missing,
            "No such file or directory",
        ),
        (&["compile", &add, "-o", &folder], &folder, "directory"),
        (&["inspect", &missing], &missing, "No such file or directory"),
        (&["inspect", &folder], &folder, "directory"),
        (&["inspect", "--disas", "subtract", &compiled], &compiled, "\"subtract\""),
        (&["inspect", "--disas", "", &compiled], &compiled, "\"\""),
        (
            &["inspect", "--disas", "9", &compiled],
            &compiled,
            "no function 9 is defined: there are 0 to",
        ),
        (&["verify", &folder], &folder, "not a file"),
        (&["verify", &add], &add, "not a compiled module"),
        (&["verify", &compiled, "--module", &noise], &compiled, "compared with is no module"),
        (&["wast", &missing], &missing, "No such file or directory"),
        (&["wast", &noise], &noise, "line 1"),
        (&["wast", &compiled], &compiled, "not text"),
    ] {
        let (text, code) = place.bad(args);
        assert!(
            text.contains(name.as_str()) && text.contains(part) && code == 1,
            "{args:?}: {code} {text}"
        );
    }
    assert!(errors(&place.run(&["wast", &script])).contains("a module has to come before it"));
}

#[test]
fn what_cannot_be_written_is_told_by_its_name() {
    let place = Place::new("unwritten");
    let program = place.file("program.wat", r#"(module (func (export "_start")))"#);
    let (text, code) = place.bad(&["compile", &program, "-o", "nowhere/program.aot"]);
    let expected = "wasm-aot: nowhere/program.aot: No such file or directory (os error 2)\n";
    assert_eq!((text.as_str(), code), (expected, 1));
    for args in [
        &["record", "-o", "/dev/full", &program][..],
        &["run", "--monitor", "icount", "--report", "/dev/full", &program],
    ] {
        let (text, code) = place.bad(args);
        assert!(text.contains("/dev/full: No space left") && code == 1, "{args:?}: {code} {text}");
    }
    // The program's own end takes precedence.
    let trap = place.file("trap.wat", r#"(module (func (export "_start") unreachable))"#);
    let done = place.run(&["run", "--monitor", "icount", "--report", "/dev/full", &trap]);
    let text = errors(&done);
    assert!(text.contains("/dev/full") && done.status.code() == Some(134), "{text}");
}

#[test]
fn neither_a_module_nor_a_device_is_replaced_by_what_it_compiles_to() {
    let place = Place::new("output");
    let add = place.file("add.wat", ADD);
    let folder = place.0.display();
    std::os::unix::fs::symlink("add.wat", format!("{folder}/link.wat")).expect("a link");
    for (module, output) in [
        ("add.wat", "add.wat"),
        ("add.wat", "./add.wat"),
        ("link.wat", "add.wat"),
        ("add.wat", "link.wat"),
    ] {
        let (text, code) = place.bad(&[
            "compile",
            &format!("{folder}/{module}"),
            "-o",
            &format!("{folder}/{output}"),
        ]);
        assert!(code == 2 && text.contains("overwritten"), "{module} to {output}: {text}");
        assert_eq!(fs::read_to_string(&add).expect("still there"), ADD);
    }
    place.good(&["compile", &add, "-o", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").expect("the device").is_file());
    assert!(place.run(&["compile", &add, "-o", "/dev/stdout"]).stdout.starts_with(b"\x7fELF"));
    let kept = format!("{folder}/kept.aot");
    std::os::unix::fs::symlink("real.aot", format!("{folder}/kept.aot")).expect("a link");
    fs::write(format!("{folder}/real.aot"), "").expect("a file");
    place.good(&["compile", &add, "-o", &kept]);
    assert!(fs::symlink_metadata(&kept).expect("a link").is_symlink());
    place.good(&["verify", &kept, "--module", &add]);
}

#[test]
fn an_output_file_stays_if_nothing_can_take_its_place() {
    let place = Place::new("kept");
    let needs = r#"(module (import "a" "b" (func)) (func (export "_start")))"#;
    let needs = place.file("needs.wat", needs);
    let broken = place.file("broken.wat", "(module (func (export \"_start\") i32.add))");
    let app = place.file("app.wat", HELLO);
    place.run(&["record", "-o", "run.r3", &app]);
    let trace = fs::read(place.0.join("run.r3")).expect("a trace");
    let damaged = place.file("damaged.r3", &trace[..trace.len() / 2]);
    let kept = place.file("kept", "yesterday's");
    let names = |place: &Place| {
        let entries = fs::read_dir(&*place.0).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = names(&place);
    for args in [
        &["record", "-o", &kept, "missing.wasm"][..],
        &["record", "-o", &kept, &broken],
        &["record", "-o", &kept, &needs],
        &["record", "-o", &kept, "--preload", "x=missing.wasm", &app],
        &["replay", "-o", &kept, &damaged],
        &["reduce", "-o", &kept, &damaged],
        &["compile", "-o", &kept, &broken],
    ] {
        place.bad(args);
        assert!(fs::read(&kept).expect("a file") == b"yesterday's", "{args:?}");
        assert_eq!(names(&place), before, "{args:?}");
    }
    // A program that ends at once counts as run.
    place.good(&[
        "record",
        "-o",
        &kept,
        &place.file("ends.wat", "(module (func (export \"_start\")))"),
    ]);
    assert!(place.good(&["replay", "--check", &kept]).contains("behaves as recorded"));
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).expect("it is ours");
    place.good(&["reduce", "-o", &kept, &kept]);
    assert_eq!(fs::metadata(&kept).expect("a file").permissions().mode() & 0o777, 0o600);
    // A trace may be reduced in place.
    place.good(&["reduce", "-o", "run.r3", "run.r3"]);
    place.good(&["replay", "--check", "run.r3"]);
}

#[test]
fn what_is_compiled_runs_is_inspected_and_verified() {
    let place = Place::new("compile");
    let add = place.file("add.wat", ADD);
    place.good(&["compile", &add]);
    let compiled = place.0.join("add.aot").display().to_string();
    assert_eq!(place.good(&["run", "--invoke", "add", &compiled, "1", "2"]), "3\n");
    assert!(place.good(&["verify", &compiled]).contains("is what its module compiles to"));
    place.good(&["verify", "--module", &add, &compiled]);
    let other = place.file("other.wat", "(module)");
    assert_eq!(place.bad(&["verify", "--module", &other, &compiled]).1, 1);
    for file in [&add, &compiled] {
        let table = place.good(&["inspect", file]);
        assert!(table.contains("export      \"add\" func [i32 i32] -> [i32]"), "{table}");
        let json: serde_json::Value =
            serde_json::from_str(&place.good(&["inspect", "--json", file])).expect("JSON");
        assert_eq!(json["functions"].as_array().map(Vec::len), Some(2));
        let listing = place.good(&["inspect", "--disas", "0", file]);
        assert!(listing.contains("I32Add") || listing.contains("i32.add"), "{listing}");
        assert!(listing.contains("ret"), "{listing}");
    }
    assert_eq!(place.bad(&["inspect", "--disas", "nothing", &compiled]).1, 1);
    let mut damaged = fs::read(&compiled).expect("the file");
    damaged[8200] ^= 1;
    let damaged = place.file("damaged.aot", damaged);
    assert!(place.bad(&["run", "--invoke", "add", &damaged, "1", "2"]).0.contains("damaged"));
    fs::set_permissions(&compiled, PermissionsExt::from_mode(0o777)).expect("our file");
    assert!(
        place.bad(&["run", "--invoke", "add", &compiled, "1", "2"]).0.contains("others may write")
    );
}

#[test]
fn scripts_are_counted() {
    let place = Place::new("wast");
    let good = place.file(
        "good.wast",
        format!("{ADD} (assert_return (invoke \"add\" (i32.const 1) (i32.const 2)) (i32.const 3))"),
    );
    let wrong = place.file(
        "wrong.wast",
        format!("{ADD} (assert_return (invoke \"add\" (i32.const 1) (i32.const 2)) (i32.const 4))"),
    );
    assert!(place.good(&["wast", &good]).ends_with("0 failed\n"));
    let output = place.run(&["wast", &good, &wrong]);
    assert!(
        output.status.code() == Some(1)
            && String::from_utf8_lossy(&output.stdout).ends_with("1 failed\n")
    );
    assert!(errors(&output).contains("wrong.wast:"), "{}", errors(&output));
    let broken = place.file("broken.wast", "(module (func");
    assert_eq!(place.bad(&["wast", &broken]).1, 1);
}

#[test]
fn preloaded_modules_are_imported_by_name() {
    let place = Place::new("preload");
    let add = place.file("add.wat", ADD);
    let text = "(module (import \"math\" \"add\" (func $add (param i32 i32) (result i32)))
        (func (export \"f\") (result i32) (call $add (i32.const 20) (i32.const 22))))";
    let user = place.file("user.wat", text);
    assert_eq!(
        place.good(&["run", "--preload", &format!("math={add}"), "--invoke", "f", &user]),
        "42\n"
    );
}

#[test]
fn what_runs_too_long_is_stopped_with_134() {
    let place = Place::new("timeout");
    let forever = place.file("forever.wat", FOREVER);
    let output = place.run(&["run", "--timeout", "100ms", &forever]);
    let text = errors(&output);
    assert!(
        output.status.code() == Some(134)
            && text.contains("its time is over")
            && text.contains(" - turn\n"),
        "{text}"
    );
    // A time limit that is never reached has no effect.
    let add = place.file("add.wat", ADD);
    assert_eq!(
        place.good(&["run", "--timeout", "500000000years", "--invoke", "add", &add, "1", "1"]),
        "2\n"
    );
}

#[test]
fn signals_stop_the_program_and_tell_where_it_was() {
    let place = Place::new("signals");
    let forever = place.file("forever.wat", FOREVER);
    place.run(&["run", "--timeout", "1ms", &forever]);
    for signal in [SIGINT, SIGTERM] {
        let mut command = place.command();
        command.args(["run", &forever]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(600));
        send(child.id(), signal);
        let output = finished(child, "an interrupted program");
        assert_eq!(output.status.code(), Some(128 + signal), "{}", errors(&output));
        assert!(errors(&output).contains(" - turn\n"), "{}", errors(&output));
    }
}

#[test]
fn a_program_is_compiled_once_and_kept() {
    let place = Place::new("cache");
    let add = place.file("add.wat", ADD);
    let count = || fs::read_dir(place.cache()).map_or(0, Iterator::count);
    place.good(&["run", "--no-cache", "--invoke", "add", &add, "1", "1"]);
    assert_eq!(count(), 0);
    for _ in 0..2 {
        place.good(&["run", "--invoke", "add", &add, "1", "1"]);
        assert_eq!(count(), 1);
    }
    place.good(&["run", "--opt", "none", "--invoke", "add", &add, "1", "1"]);
    assert_eq!(count(), 2);
    let children: Vec<Child> = (0..6)
        .map(|i| {
            place.start(&["run", "--no-spectre", "--invoke", "add", &add, "1", &i.to_string()])
        })
        .collect();
    for (i, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{}\n", i + 1),
            "{}",
            errors(&output)
        );
    }
    assert_eq!(count(), 3);
}

#[test]
fn too_little_address_space_is_told_once_and_accesses_are_checked() {
    let place = Place::new("space");
    let text = "(module (memory 1) (func (export \"f\") (param i32) (result i32) (i32.load (local.get 0))))";
    let module = place.file("load.wat", text);
    let script = |index: &str| {
        let line = format!("ulimit -v 3000000; exec \"$0\" run --invoke f {module} {index}");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &line, env!("CARGO_BIN_EXE_wasm-aot")])
            .env("XDG_CACHE_HOME", place.0.join("cache"));
        shell.output().expect("a shell")
    };
    let output = script("65532");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", errors(&output));
    assert_eq!(
        errors(&output).matches("every access is checked instead").count(),
        1,
        "{}",
        errors(&output)
    );
    let output = script("65533");
    assert!(
        output.status.code() == Some(134)
            && errors(&output).contains("out of bounds memory access"),
        "{}",
        errors(&output)
    );
}

#[test]
fn whoever_stops_reading_is_no_reason_to_panic() {
    let place = Place::new("pipe");
    let functions: String =
        (0..4000).map(|i| format!("(func (export \"a rather long name {i}\"))")).collect();
    let module = place.file("long.wat", format!("(module {functions})"));
    let line = format!(
        "\"$0\" inspect --opt none {module} | head -n 1; \"$0\" inspect --opt none {module} > /dev/full"
    );
    let output = Command::new("sh")
        .args(["-c", &line, env!("CARGO_BIN_EXE_wasm-aot")])
        .output()
        .expect("a shell");
    let text = errors(&output);
    assert!(
        !text.contains("panicked") && text.starts_with("wasm-aot: cannot write to stdout: "),
        "{text}"
    );
}

#[test]
fn manual_pages_and_completions_are_printed() {
    let place = Place::new("manual");
    assert!(place.good(&["manual"]).starts_with(".ie"));
    assert!(place.good(&["manual", "run"]).contains("preload"));
    assert!(place.good(&["manual", "--completions", "bash"]).contains("wasm-aot"));
}

/// Runs shell lines with a private file system at `mount`, made with `options`; `None` if that is
/// not permitted.
fn with_mount(place: &Place, options: &str, lines: &str) -> Option<Output> {
    let mount = place.0.join("mount");
    fs::create_dir_all(&mount).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o {options} tmpfs {0} || exit 99; cd {0}; {lines}",
        mount.display()
    );
    let mut shell = Command::new("unshare");
    shell
        .args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_wasm-aot")])
        .env("XDG_CACHE_HOME", mount.join("cache"));
    let output = shell.stdin(Stdio::null()).output().ok()?;
    (output.status.code() != Some(99) && !errors(&output).starts_with("unshare:")).then_some(output)
}

#[test]
fn folders_without_leave_to_execute_hold_artifacts_and_caches_all_the_same() {
    let place = Place::new("noexec");
    let add = place.file("add.wat", ADD);
    let lines = format!(
        "\"$0\" compile {add} -o add.aot && \"$0\" run --invoke add add.aot 1 2 && \"$0\" run --invoke add {add} 3 4 && \"$0\" run --invoke add {add} 5 6"
    );
    match with_mount(&place, "noexec,mode=700", &lines) {
        Some(output) => {
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "3\n7\n11\n",
                "{}",
                errors(&output)
            );
        }
        None => println!("SKIPPED: no mounts of our own here"),
    }
}

#[test]
fn folders_that_are_full_or_read_only_hold_no_cache_and_programs_run() {
    let place = Place::new("full");
    let add = place.file("add.wat", ADD);
    let run = format!("\"$0\" run --invoke add {add} 3 4");
    for (options, before) in
        [("size=8k,mode=700", ""), ("mode=700", "mkdir cache; mount -o remount,ro . || exit 99;")]
    {
        match with_mount(
            &place,
            options,
            &format!("{before} {run}; {run}; \"$0\" compile {add} -o add.aot"),
        ) {
            Some(output) => {
                assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n7\n");
                let text = errors(&output);
                assert!(
                    output.status.code() == Some(1)
                        && text.starts_with("wasm-aot: add.aot: ")
                        && text.lines().count() == 1,
                    "{text}"
                );
            }
            None => println!("SKIPPED: no mounts of our own here"),
        }
    }
}

#[test]
fn programs_see_the_folders_and_variables_they_are_given() {
    let place = Place::new("world");
    let text = r#"(module
        (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "variables") (result i32) (drop (call $sizes (i32.const 0) (i32.const 4))) (i32.load (i32.const 0)))
        (func (export "folder") (result i32) (call $prestat (i32.const 3) (i32.const 0))))"#;
    let module = place.file("world.wat", text);
    assert_eq!(place.good(&["run", "--invoke", "variables", &module]), "0\n");
    assert_eq!(
        place.good(&["run", "--env", "A=1", "--env", "B=", "--invoke", "variables", &module]),
        "2\n"
    );
    assert_eq!(place.good(&["run", "--invoke", "folder", &module]), "8\n");
    assert_eq!(place.good(&["run", "--dir", ".", "--invoke", "folder", &module]), "0\n");
    let (text, _) = place.bad(&["run", "--dir", "no/such/folder", "--invoke", "folder", &module]);
    assert!(text.contains("no/such/folder"), "{text}");
}

#[test]
fn input_reaches_the_program() {
    let place = Place::new("input");
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\40\00\00\00")
        (func (export "_start")
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (i32.store (i32.const 4) (i32.load (i32.const 8)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let module = place.file("cat.wat", text);
    let mut child = place
        .command()
        .args(["run", &module])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"through\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"through\n");
    assert!(Path::new(&module).exists());
}

#[test]
fn imports_that_nothing_defines_trap_if_that_is_wanted_and_the_way_there_is_told() {
    let place = Place::new("command-unknown");
    let text = r#"(module (import "env" "lacks" (func $lacks)) (func $calls (call $lacks))
        (func (export "_start") (call $calls)) (func (export "idle")))"#;
    let program = place.file("program.wat", text);
    let refused = place.run(&["run", &program]);
    assert!(
        refused.status.code() == Some(126)
            && errors(&refused).contains("unknown import: \"env\" \"lacks\""),
        "{}",
        errors(&refused)
    );
    place.good(&["run", "--unknown-imports", "trap", "--invoke", "idle", &program]);
    let done = place.run(&["run", "--unknown-imports", "trap", &program]);
    assert_eq!(done.status.code(), Some(134));
    let told = errors(&done);
    assert!(
        told.contains("the program calls \"env\" \"lacks\"")
            && told.contains(" - calls\n")
            && told.contains(" - _start\n"),
        "{told}"
    );
}

#[test]
fn a_budget_of_instructions_ends_programs_exactly() {
    let place = Place::new("budget");
    let add = place.file("add.wat", ADD);
    let compiled = place.0.join("add.aot").display().to_string();
    place.good(&["compile", "-o", &compiled, &add]);
    for program in [&add, &compiled] {
        assert_eq!(
            place.good(&["run", "--max-instructions", "4", "--invoke", "add", program, "40", "2"]),
            "42\n"
        );
        let output =
            place.run(&["run", "--max-instructions", "3", "--invoke", "add", program, "40", "2"]);
        assert_eq!(output.status.code(), Some(134));
        assert!(
            errors(&output).contains("the budget of instructions is used up"),
            "{}",
            errors(&output)
        );
    }
    // Instructions of a monitor do not count as the program's.
    let monitor =
        place.file("count.mm", "report var count: i32;\nwasm:opcode:*:before { count++; }\n");
    let run = [
        "run",
        "--max-instructions",
        "4",
        "--monitor",
        &monitor,
        "--invoke",
        "add",
        &add,
        "1",
        "2",
    ];
    let output = place.run(&run);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n");
    assert!(errors(&output).ends_with("\ncount         4\n"), "{}", errors(&output));
}

#[test]
fn a_trap_leaves_a_dump_where_one_is_wanted() {
    let place = Place::new("dump");
    let trap = "(module (func $f (param i32) (drop (i32.div_u (i32.const 1) (local.get 0))))
        (func (export \"f\") (param i32) (call $f (local.get 0))))";
    let trap = place.file("trap.wat", trap);
    let (compiled, dump) =
        (place.0.join("trap.aot").display().to_string(), place.0.join("core.wasm"));
    place.good(&["compile", "-o", &compiled, &trap]);
    for program in [&trap, &compiled] {
        place.good(&["run", "--dump", &dump.display().to_string(), "--invoke", "f", program, "1"]);
        assert!(!dump.exists());
        let output = place.run(&[
            "run",
            "--dump",
            &dump.display().to_string(),
            "--invoke",
            "f",
            program,
            "0",
        ]);
        assert_eq!(output.status.code(), Some(134));
        let bytes = fs::read(&dump).expect("a dump");
        assert!(bytes.starts_with(b"\0asm") && bytes.windows(9).any(|part| part == b"corestack"));
        fs::remove_file(&dump).expect("it is there");
    }
    // A dump that cannot be written is refused before the program runs.
    let folder = place.0.display().to_string();
    for (file, help) in [
        ("/nowhere/at/all".to_owned(), "name a file in a folder that exists"),
        (folder, "name a file in it"),
        (format!("{trap}/file"), "name a file in a folder that exists"),
        (trap.clone(), "the program would be overwritten: name another file"),
    ] {
        let (text, code) = place.bad(&["run", "--dump", &file, "--invoke", "f", &trap, "0"]);
        assert_eq!(code, 2, "{text}");
        assert!(text.starts_with(&format!("wasm-aot: --dump {file}: ")), "{text}");
        assert!(text.ends_with(&format!(": {help}\n")), "{text}");
    }
    assert!(fs::read(&trap).expect("it is as before").starts_with(b"(module"));
}

#[test]
fn a_call_of_an_import_that_nothing_defines_leaves_a_dump_of_each_process() {
    let place = Place::new("dump-unknown");
    let program = r#"(module (import "env" "lacks" (func $lacks)) (func $calls (param i32) (call $lacks))
        (func (export "_start") (call $calls (i32.const 7))))"#;
    let program = place.file("program.wat", program);
    let dump = place.0.join("core-%p.wasm").display().to_string();
    let done = place.run(&["run", "--unknown-imports", "trap", "--dump", &dump, &program]);
    assert_eq!(done.status.code(), Some(134), "{}", errors(&done));
    let dumps: Vec<_> = fs::read_dir(&*place.0)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    let [dump] = &dumps[..] else { panic!("{dumps:?}") };
    assert!(!dump.display().to_string().contains("%p"), "{dump:?}");
    // Two frames: of function 1 with an argument, and of function 2.
    let bytes = fs::read(dump).expect("a dump");
    let stack = bytes.windows(9).position(|part| part == b"corestack").expect("a stack");
    assert!(bytes[stack + 9..].starts_with(b"\0\x04main\x02\0\0\x01"), "{:?}", &bytes[stack..]);
    assert!(bytes.windows(4).any(|part| part == [1, 0x7f, 7, 0]), "{:?}", &bytes[stack..]);
}

#[test]
fn reports_and_replays_do_not_replace_what_is_executed() {
    let place = Place::new("spared");
    let app = place.file("app.wat", HELLO);
    let (text, code) = place.bad(&["run", "--monitor", "icount", "--report", &app, &app]);
    assert!(code == 2 && text.contains(": the program would be overwritten: "), "{text}");
    let library = place.file("library.wat", ADD);
    let (text, code) =
        place.bad(&["run", "--preload", &format!("l={library}"), "--dump", &library, &app]);
    assert!(code == 2 && text.contains(": the program would be overwritten: "), "{text}");
    assert_eq!(fs::read_to_string(&library).expect("it is as before"), ADD);
    assert_eq!(fs::read_to_string(&app).expect("it is as before"), HELLO);
    let trace = place.0.join("run.r3").display().to_string();
    place.run(&["record", "-o", &trace, &app]);
    let before = fs::read(&trace).expect("a trace");
    let (text, code) = place.bad(&["replay", &trace, "-o", &trace]);
    assert!(code == 2 && text.contains("would be overwritten"), "{text}");
    assert_eq!(fs::read(&trace).expect("it is as before"), before);
}

#[test]
fn the_command_line_follows_the_rules_of_all_commands() {
    test_support::follows_the_rules(Path::new(env!("CARGO_BIN_EXE_wasm-aot")), &[]);
}

#[test]
fn a_file_that_is_no_module_is_named_as_what_it_is() {
    let place = Place::new("languages");
    for (name, text, said) in [
        (
            "app.c",
            "#include <stdio.h>\nint main(void) { return 0; }\n",
            "this is C, not WebAssembly",
        ),
        ("app.rs", "fn main() {}\n", "rustc --target wasm32-wasip1"),
        ("calls.mm", "report var n: u32;\n", "calls.mm PROGRAM"),
        ("notes.txt", "hello\n", "nor the text of one"),
    ] {
        let file = place.file(name, text);
        for (arguments, expected) in [
            (&["run", &file][..], 126),
            (&["compile", &file, "-o", "out.aot"], 1),
            (&["inspect", &file], 1),
        ] {
            let (told, code) = place.bad(arguments);
            assert!(code == expected && told.starts_with(&format!("wasm-aot: {file}: ")), "{told}");
            assert!(told.contains(said) && told.lines().count() == 1, "{told}");
        }
    }
    let (file, app) = (place.file("monitor.c", "int main;\n"), place.file("app.wat", HELLO));
    let (told, code) = place.bad(&["run", "--monitor", &file, &app]);
    assert!(code == 1 && told.contains("monitor.c: this is C, not WebAssembly"), "{told}");
}
