//! The command: its output, its diagnostics, and its exit codes.

use std::path::Path;
use std::process::{Command, Output};
use test_support::Folder;

fn whamm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whamm")).args(args).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}

/// A folder that is removed at the end.
struct Place(Folder);

impl Place {
    fn new(name: &str) -> Self {
        let path = Folder::new(&format!("whamm-{name}"));
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }
}

#[test]
fn manual_pages_and_completions_are_printed() {
    assert!(printed(&whamm(&["manual"])).contains("Instruments WebAssembly"));
    assert!(printed(&whamm(&["manual", "instr"])).contains("report"));
    let script = printed(&whamm(&["completions", "bash"]));
    assert!(
        script.contains("whamm") && script == printed(&whamm(&["manual", "--completions", "bash"]))
    );
    let nothing = whamm(&["manual", "nothing"]);
    assert!(
        nothing.status.code() == Some(2)
            && said(&nothing).contains("unknown command nothing: see whamm --help")
    );
}

#[test]
fn programs_and_monitors_are_written_and_can_be_read_as_modules() {
    let place = Place::new("targets");
    let (program, script) = (repository("tests/apps/fac.wat"), repository("monitors/hotness.mm"));
    for (name, args) in [
        ("out.wasm", vec!["-a", &program]),
        ("linked.wasm", vec!["-a", &program, "--link-strategy", "imported"]),
        ("monitor.wasm", vec!["--wei"]),
    ] {
        let output = place.path(name);
        let all = [&["instr", "-s", &script, "-o", &output], &args[..]].concat();
        assert_eq!(printed(&whamm(&all)), "");
        let bytes = std::fs::read(&output).expect("the output is written");
        wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
            .validate_all(&bytes)
            .expect("it is valid");
    }
}

#[test]
fn a_failure_is_one_line_and_an_exit_code() {
    let place = Place::new("failures");
    let (good, bad) = (
        place.file("good.mm", "wasm:begin { println(1); }"),
        place.file("bad.mm", "wasm:opcode:cal:before { }"),
    );
    let program = repository("tests/apps/fac.wat");
    let (component, cut) = (
        place.file("component.wasm", "\0asm\x0d\0\x01\0"),
        place.file("cut.wasm", "\0asm\x01\0\0\0\x01\x7f"),
    );
    let misspelt = place.file("misspelt.wat", "(module (func\n  (nopp)))");
    let (library, noise, folder) =
        (place.file("lib.wat", "(module)"), place.path("noise"), place.path(""));
    std::fs::write(&noise, [0xff, 0xfe]).expect("a file can be written");
    let (twice, unread) = (format!("lib={library},lib={library}"), format!("noise={noise}"));
    for (args, message) in [
        (vec!["check", "nowhere.mm"], "nowhere.mm cannot be read"),
        (vec!["check", &bad], "near are call"),
        (vec!["instr", "-s", &good, "-a", &good], "good.mm is not a module"),
        (
            vec!["instr", "-s", &good, "-a", &program, "-o", "/nowhere/out.wasm"],
            "/nowhere/out.wasm cannot be written: No such file or directory (os error 2)\n",
        ),
        (vec!["instr", "-s", &good, "-a", &program, "-u", "cache"], "`cache` is not a library"),
        (
            vec!["instr", "-s", &good, "-a", &program, "-l", "imported", "--report-to", "x"],
            "leave out `--report-to`",
        ),
        (vec!["instr", "-s", &good, "-a", &program, "-u", "=x.wasm"], "`=x.wasm` is not a library"),
        (vec!["instr", "-s", &good, "-a", &program, "-u", "cache="], "`cache=` is not a library"),
        (vec!["instr", "-s", &good, "-a", &program, "-u", &twice], "`lib` is given twice"),
        (
            vec!["instr", "-s", &good, "-a", &program, "-u", &unread],
            "neither in binary, which begins with \\0asm, nor text",
        ),
        (vec!["instr", "-s", &good, "-a", &component], "it is a component"),
        (
            vec!["instr", "-s", &good, "-a", &misspelt],
            "unknown operator or unexpected token, line 2, column 4",
        ),
        (vec!["profile", &misspelt, "-o", "out.wasm"], "misspelt.wat is not a module: unknown"),
        (vec!["record", &folder, "-o", "out.wasm"], "cannot be read"),
        (vec!["instr", "-s", &good, "-a", &cut], "the program is not a valid module"),
        (vec!["instr", "-s", &good, "-a", &folder], "cannot be read"),
        (vec!["check", &noise], "is not text in UTF-8"),
        (vec!["info", "-r", "wasm:opcode:nothing"], "nothing"),
    ] {
        let output = whamm(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(message), "{args:?}: {}", said(&output));
        assert!(!said(&output).contains("panicked"));
    }
}

#[test]
fn everything_that_is_wrong_is_told_in_one_run() {
    let place = Place::new("everything");
    let bad = place.file("bad.mm", "use lost; wasm:opcode:cal:before { lost.f(); nowhere++; }");
    let noise = place.file("noise.wasm", "\0asm no module");
    let lost = format!("lost={noise}");
    for (args, messages) in [
        (
            vec!["check", "first.mm", &bad, "second.mm"],
            vec![
                "first.mm cannot",
                "`lost` was not given",
                "near are call",
                "`nowhere`",
                "second.mm cannot",
            ],
        ),
        (
            vec!["check", "-u", &lost, &bad],
            vec!["`lost` is not a Wasm module", "near are call", "`nowhere`"],
        ),
        (
            vec!["instr", "-w", "-s", "first.mm", "-s", "second.mm", "-u", "a=third.wasm,b"],
            vec![
                "first.mm cannot",
                "second.mm cannot",
                "third.wasm cannot",
                "`b` is not a library",
            ],
        ),
        (
            vec!["fmt", "--check", "first.mm", &bad, "second.mm"],
            vec!["first.mm cannot", "second.mm cannot"],
        ),
    ] {
        let output = whamm(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        for message in messages {
            assert!(said(&output).contains(message), "{message}: {}", said(&output));
        }
    }
}

/// The text on the other stream, and the exit code, if one stream has no reader.
fn unheard(args: &[&str], stdout: bool) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_whamm"));
    command.args(args);
    if stdout {
        command.stdout(writer);
    } else {
        command.stderr(writer);
    }
    let output = command.output().expect("the command runs");
    (output.status.code(), said(&output))
}

#[test]
fn no_command_minds_a_closed_pipe() {
    let place = Place::new("pipes");
    let (good, bad) = (
        place.file("good.mm", "wasm:begin { println(1); }"),
        place.file("bad.mm", "wasm:opcode:cal:before { }"),
    );
    let unread = place.file("unread.mm", "wasm:opcode:call:before {");
    let (program, output) = (repository("tests/apps/fac.wat"), place.path("out.wasm"));
    for (args, code) in [
        (vec!["info", "-v", "-f", "-r", "wasm:*"], 0),
        (vec!["--json", "info", "-r", "wasm:*"], 0),
        (vec!["manual"], 0),
        (vec!["completions", "bash"], 0),
        (vec!["--help"], 0),
        (vec!["--version"], 0),
        (vec!["check", &good], 0),
        (vec!["check", &bad], 1),
        (vec!["--json", "check", &bad], 1),
        (vec!["fmt", "--check", &good], 1),
        (vec!["instr", "-s", &bad, "-a", &program, "-o", &output], 1),
        (vec!["instr", "-m", "-s", &good, "-a", &program, "-o", &output], 0),
        (vec!["instr", "-w", "-m", "-s", &good, "-o", &output], 0),
        (vec!["fmt", &unread], 1),
        (vec!["profile", &program, "-o", &output], 0),
        (vec!["record", &program, "-o", &output], 0),
        (vec!["record", "nowhere.wasm", "-o", &output], 1),
    ] {
        for stdout in [true, false] {
            let (ended, said) = unheard(&args, stdout);
            assert!(
                ended == Some(code) && !said.contains("panicked"),
                "{args:?}: {ended:?} {said}"
            );
        }
    }
}

#[test]
fn options_of_the_former_version_are_taken() {
    let place = Place::new("former");
    let (script, program) = (
        place.file("s.mm", "var seen: i32; wasm:opcode:call:before { seen++; }"),
        repository("tests/apps/fac.wat"),
    );
    let output = place.path("out.wasm");
    let all = [
        "instr",
        "-s",
        &script,
        "-a",
        &program,
        "-o",
        &output,
        "-d",
        "yamls",
        "-c",
        "core.wasm",
        "-m",
        "-t",
    ];
    let taken = whamm(&all);
    printed(&taken);
    for option in ["--defs-path", "--core-lib", "--metrics"] {
        assert!(said(&taken).contains(&format!("`{option}` has no effect")), "{}", said(&taken));
    }
    let module = std::fs::read(&output).expect("the output is written");
    assert!(String::from_utf8_lossy(&module).contains("__whamm_get_seen"));
    assert_eq!(printed(&whamm(&["instr", "-w", "-s", &script, "-a", &program, "-o", &output])), "");
    let told = whamm(&["info", "-d", "yamls", "-r", "wasm:opcode:nop"]);
    assert!(printed(&told).contains("wasm:opcode:nop:before"));
    assert!(said(&told).contains("`--defs-path` has no effect"), "{}", said(&told));
}

#[test]
fn info_explains_variables_and_modes() {
    let all = printed(&whamm(&["info", "-v", "-r", "wasm:opcode:call"]));
    let (before, after) = all.split_once("wasm:opcode:call:after").expect("both modes are listed");
    assert!(
        !before.contains("res0") && after.contains("res0: any (dynamic)\n        a result"),
        "{all}"
    );
    assert!(after.contains("without `res0`"), "{all}");
    assert!(
        before.contains("immediately before the instruction")
            && before.contains("the name of the function that is called")
    );
    let modes = printed(&whamm(&["info", "-v", "-r", "wasm:opcode:block|br_if"]));
    for line in [
        "wasm:opcode:block:alt\n    instead of the whole block",
        "wasm:opcode:br_if:at_target\n    where the branch is taken",
    ] {
        assert!(modes.contains(line), "{modes}");
    }
    let engine = printed(&whamm(&["info", "-v", "-r", "engine:trap"]));
    assert!(engine.contains("code: i32") && !engine.contains("APP_MEMID"), "{engine}");
}

#[test]
fn diagnostics_for_editors_are_objects_with_places() {
    let place = Place::new("json");
    let script = place.file("x.mm", "wasm:opcode:call:before { foo = 1; }");
    let output = whamm(&["check", "--json", &script]);
    let object: serde_json::Value =
        serde_json::from_str(said(&output).lines().next().expect("a line")).expect("an object");
    assert!(
        object["file"].as_str().is_some_and(|f| f.ends_with("x.mm")) && object["line"] == 1,
        "{object}"
    );
}

#[test]
fn diagnostics_show_whole_lines_and_have_colours_where_they_are_asked_for() {
    let place = Place::new("excerpt");
    let rule = format!("wasm:opcode:call:before {{ var {}: i32; foo = 1; }}", "x".repeat(80));
    let script = place.file("x.mm", &rule);
    let plain = said(&whamm(&["check", &script]));
    assert!(plain.starts_with("error[") && plain.contains(&format!("1 | {rule}\n")), "{plain}");
    let coloured = said(&whamm(&["check", "--color", "always", &script]));
    let marks = ["\x1b[1;31merror[TypeCheckError]\x1b[0m: ", "\x1b[1;31m^^^\x1b[0m\n"];
    assert!(marks.iter().all(|mark| coloured.contains(mark)), "{coloured}");
    // Of a very long line, the excerpt shows the part around the place.
    let long = place.file("long.mm", &rule.replacen("x", &"x".repeat(1 << 20), 1));
    let shown = said(&whamm(&["check", &long]));
    assert!(shown.len() < 1000 && shown.contains("foo = 1;"), "{shown}");
}

#[test]
fn a_script_that_is_no_text_is_refused_at_its_place() {
    let place = Place::new("no-text");
    let script = place.path("latin.mm");
    std::fs::write(&script, b"// a\nwasm:opcode:call:before { // caf\xe9\n}")
        .expect("it is written");
    for command in ["check", "fmt"] {
        let refused = whamm(&[command, &script]);
        let said = said(&refused);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("is not text in UTF-8") && said.contains("latin.mm:2:33"), "{said}");
    }
}

#[test]
fn a_program_that_is_not_valid_is_told_with_function_and_instruction() {
    let place = Place::new("not-valid");
    let script = place.file("x.mm", "wasm:opcode:call:before { report var n: u32; n++; }");
    for (function, told) in [
        (
            "$bad (param i32) (result i64) (i64.add (local.get 0) (i64.const 1))",
            "(function 1 (bad), i64.add at offset 0x",
        ),
        ("(export \"runs\") (call 7)", "(function 1 (runs), call at offset 0x"),
        ("(result i32) (f32.const 1)", "(function 1, end at offset 0x"),
    ] {
        let app = place.file("app.wat", &format!("(module (func) (func {function}))"));
        let refused = whamm(&["instr", "-s", &script, "-a", &app, "-o", &place.path("out.wasm")]);
        let said = said(&refused);
        assert!(!refused.status.success() && said.contains(told), "{said}");
    }
}

#[test]
fn scripts_are_laid_out_in_place() {
    let place = Place::new("fmt");
    let empty = place
        .file("empty.mm", "wasm:opcode:br: / imm0 == 1 / {var x:i32;x++;} wasm:opcode:nop: { }");
    printed(&whamm(&["fmt", &empty]));
    printed(&whamm(&["fmt", "--check", &empty]));
    let script = place.file("x.mm", "wasm:opcode:call:before{var x:i32;x++;}");
    assert!(!whamm(&["fmt", "--check", &script]).status.success());
    printed(&whamm(&["fmt", &script]));
    printed(&whamm(&["fmt", "--check", &script]));
    assert!(std::fs::read_to_string(&script).expect("it is there").contains("before {"));
}

#[test]
fn a_file_that_cannot_be_written_whole_stays_as_it_was() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("whamm-full");
    let script = folder.join("long.mm");
    let text = format!("// {}\nwasm:opcode:call:before{{ }}\n", "-".repeat(4096));
    std::fs::write(&script, &text).unwrap();
    // Files are limited to one block, as on a full disk: a write fails, and does not kill the
    // process.
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" fmt long.mm";
    let mut shell = Command::new("bash");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_whamm")]).current_dir(&*folder);
    let output = shell.output().unwrap();
    let said = said(&output);
    let told = "long.mm cannot be written: File too large (os error 27)\n";
    assert!(said.ends_with(told), "no name that the user never gave: {said}");
    assert!(output.status.code() == Some(1) && said.lines().count() == 1, "{said}");
    assert_eq!(std::fs::read_to_string(&script).unwrap(), text);
    assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 1);
    // A file that is replaced keeps its permissions, and a link still refers to it.
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o750)).unwrap();
    let link = folder.join("link.mm");
    std::os::unix::fs::symlink("long.mm", &link).unwrap();
    assert!(whamm(&["fmt", link.to_str().unwrap()]).status.success());
    assert_ne!(std::fs::read_to_string(&script).unwrap(), text);
    assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    assert!(link.symlink_metadata().unwrap().is_symlink());
}

#[test]
fn recording_programs_are_written_and_what_is_wrong_is_one_line() {
    let place = Place::new("record");
    let app =
        place.file("app.wat", "(module (memory (export \"memory\") 1) (func (export \"f\")))");
    let out = place.path("out.wasm");
    let done = whamm(&["record", &app, "-o", &out]);
    assert!(done.status.success() && said(&done).contains("record:fetch"), "{done:?}");
    let done = whamm(&["record", &app, "-o", &out, "--to", "app.r3", "--raw"]);
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    let shared = place.file("shared.wat", "(module (memory (export \"memory\") 1 1 shared))");
    let again = place.path("again.wasm");
    for (args, part) in [
        (vec!["record", &out, "-o", &again], "was already rewritten for recording"),
        (vec!["record", &shared, "-o", &again], "a memory that threads share"),
        (vec!["record", "nowhere.wasm", "-o", &again], "nowhere.wasm"),
        (vec!["record", &app, "-o", &again, "--to", ""], "'--to <FILE>'"),
    ] {
        let done = whamm(&args);
        let told = said(&done);
        assert!(!done.status.success() && told.contains(part), "{args:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn profiled_programs_are_written_and_what_is_wrong_is_one_line() {
    let place = Place::new("profile");
    let app = place.file(
        "app.wat",
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
            (memory (export "memory") 1) (func (export "_start") (call 0 (i32.const 0))))"#,
    );
    let out = place.path("out.wasm");
    let done = whamm(&["profile", &app, "-o", &out, "--to", "p.profile", "--exclude", "std::*"]);
    assert_eq!((printed(&done), said(&done)), (String::new(), String::new()));
    assert!(std::fs::read(&out).expect("it was written").starts_with(b"\0asm"));

    let glue = place.path("glue.js");
    let plain = ["profile", &app, "-o", &out, "--host-api", "prof", "--glue", &glue];
    assert_eq!(printed(&whamm(&plain)), "");
    assert!(std::fs::read_to_string(&glue).expect("it was written").contains("WasmProf"));

    let mapped = r#"(module (@custom "sourceMappingURL" "\05a.map") (func (export "f") (nop)))"#;
    let mapped = place.file("mapped.wat", mapped);
    let count = ["profile", &mapped, "-o", &out, "--clock", "none"];
    assert!(said(&whamm(&count)).contains("source map speaks of the program as it was"));
    place.file("a.map", r#"{"version":3,"sources":["a.c"],"names":[],"mappings":"mBAAA"}"#);
    assert!(!said(&whamm(&count)).contains("source map"));
    let map = std::fs::read_to_string(format!("{out}.map")).expect("it was written");
    assert!(map.contains("a.c") && !map.contains("mBAAA"), "{map}");

    let again = whamm(&["profile", &out, "-o", &place.path("twice.wasm")]);
    assert!(
        !again.status.success() && said(&again).contains("use the original"),
        "{}",
        said(&again)
    );
    let plain = place.file("plain.wat", "(module (func (export \"f\")))");
    let counted = whamm(&["profile", &plain, "-o", &out]);
    assert!(counted.status.success() && said(&counted).contains("counted and not timed"));
    for wrong in [
        ["profile", &app, "-o", &out, "--to", ""],
        ["profile", &app, "-o", &out, "--exclude", "["],
        ["profile", &plain, "-o", &out, "--memory", "0"],
        ["profile", "nowhere.wasm", "-o", &out, "--clock", "none"],
    ] {
        let refused = whamm(&wrong);
        assert!(!refused.status.success() && !said(&refused).is_empty(), "{wrong:?}");
    }
}

#[test]
fn the_command_line_follows_the_rules_of_all_commands() {
    test_support::follows_the_rules(Path::new(env!("CARGO_BIN_EXE_whamm")), &[]);
}

#[test]
fn check_warns_of_what_an_engine_refuses() {
    let place = Place::new("engines");
    let output =
        whamm(&["check", &place.file("alt.mm", "wasm:opcode:i32.add:before { arg0 = 1; }")]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.starts_with("warning[WeiWarning]: assigning to what the program computes"),
        "{said}"
    );
    assert!(said.contains("the rewriting target can"), "{said}");
}
