//! Programs that no compiler has prepared: they behave as before, and the counts equal their own.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Output;
use support::{calls, clean, compile_with, fastinst, folder, function, has, profile, run};

/// Compiler options, from the simplest to those of production builds.
const FLAVOURS: [(&str, &[&str]); 8] = [
    ("gcc", &["-O0", "-g"]),
    ("gcc", &["-O1", "-fno-omit-frame-pointer"]),
    ("gcc", &["-O2"]),
    ("gcc", &["-O3", "-fno-plt", "-Wl,-z,now"]),
    ("gcc", &["-O2", "-fcf-protection=full"]),
    ("gcc", &["-Os", "-no-pie", "-fno-pie"]),
    ("clang", &["-O2"]),
    ("clang", &["-O1", "-fcf-protection=full"]),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program plain and with probes in its own functions, and checks that output and exit
/// status are the same.
fn observed(program: &Path, arguments: &[&str], to: &Path, options: &[&str]) -> Output {
    let plain = run(clean(std::process::Command::new(program)).args(arguments));
    let mut command = fastinst();
    command.args(["run", "--provider", "symbols", "--follow", "none", "--format", "json", "-o"]);
    command.arg(to).args(options);
    let observed = run(command.arg(program).args(arguments));
    assert_eq!(text(&observed.stdout), text(&plain.stdout), "{options:?} {}", program.display());
    assert_eq!(observed.status.code(), plain.status.code(), "{}", text(&observed.stderr));
    assert!(to.exists(), "no profile of {} {options:?}: {observed:?}", program.display());
    observed
}

/// The counts that a program prints: a name and a number per line.
fn told(output: &Output, separator: char) -> Vec<(String, f64)> {
    let stdout = text(&output.stdout);
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(separator).unwrap();
        (name.to_owned(), count.parse().unwrap())
    };
    stdout.lines().skip(1).map(line).collect()
}

#[test]
fn every_call_is_counted_in_whatever_a_compiler_makes() {
    let to = folder("unmodified-counts");
    for (turn, (compiler, flags)) in FLAVOURS.iter().enumerate() {
        if !has(compiler) {
            continue;
        }
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compile_with(compiler, "unmodified.c", &place, flags);
        for policy in ["count", "exact", "adaptive"] {
            let file = place.join(policy);
            let output =
                observed(&program, &["500"], &file, &["--plant", "all", "--policy", policy]);
            let profile = profile(&file);
            let mut probed = 0;
            for (name, expected) in told(&output, ' ') {
                let functions = profile["functions"].as_array().unwrap();
                if functions.iter().any(|function| function["name"] == name.as_str()) {
                    probed += 1;
                    if policy != "adaptive" {
                        assert_eq!(calls(&profile, &name), expected, "{flags:?} {policy} {name}");
                    }
                }
            }
            // The possible places of landings differ from run to run; all functions of unoptimised
            // code begin alike.
            assert!(probed >= 5, "{compiler} {flags:?}: {probed} of 15 have probes");
        }
    }
}

/// A thread has space for the functions that are known at its first event, and for some more.
#[test]
fn functions_by_the_thousand_get_probes_while_a_thread_runs() {
    let to = folder("unmodified-thousands");
    let program = compile_with("gcc", "late_thousands.c", &to, &["-O1"]);
    for policy in ["count", "exact", "adaptive"] {
        let file = to.join(policy);
        observed(&program, &[], &file, &["--witness", "none", "--policy", policy]);
        let profile = profile(&file);
        let functions = profile["functions"].as_array().unwrap();
        let with = |what: &str| {
            let figure = |function: &Value| match &function[what] {
                Value::Object(estimate) => estimate["value"].as_f64(),
                plain => plain.as_f64(),
            };
            functions.iter().filter(|function| figure(function) > Some(0.0)).count()
        };
        assert!(with("calls") > 3000, "{policy}: {} were called", with("calls"));
        if policy == "exact" {
            assert!(with("samples") > 3000, "{policy}: {} were timed", with("samples"));
        }
    }
}

/// The threads' blocks had no records of so many functions when they were made.
#[test]
fn functions_of_a_library_that_comes_later_are_timed_however_many_there_are() {
    let to = folder("unmodified-loads");
    let flags = ["-O1", "-shared", "-fPIC", "-Dmain=run", "-DONCE"];
    let library = compile_with("gcc", "late_thousands.c", &to, &flags);
    let program = compile_with("gcc", "loads_thousands.c", &to, &["-O1"]);
    let file = to.join("exact");
    let library = library.to_str().unwrap();
    observed(&program, &[library], &file, &["--plant", "all", "--policy", "exact"]);
    let profile = profile(&file);
    let functions = profile["functions"].as_array().unwrap().iter();
    let timed = functions.filter(|function| {
        let module = function["module"].as_str().unwrap_or_default();
        module.ends_with("late_thousands") && function["samples"].as_u64() > Some(0)
    });
    assert!(timed.count() > 3000);
}

/// Functions in which one return follows another, a branch leads past one, memory is read before a
/// branch, or a part was split off.
#[test]
fn functions_whose_ends_have_little_room_are_timed() {
    let to = folder("unmodified-ends");
    let program = compile_with("gcc", "ends.c", &to, &["-O2"]);
    for policy in ["exact", "adaptive"] {
        let file = to.join(policy);
        let output = observed(&program, &["3000"], &file, &["--plant", "all", "--policy", policy]);
        let profile = profile(&file);
        for (name, expected) in told(&output, ' ') {
            let function = function(&profile, &name);
            assert_eq!(calls(&profile, &name), expected, "{policy} {name}");
            let timed = function["samples"].as_f64().unwrap();
            assert!(if policy == "exact" { timed == expected } else { timed > 0.0 }, "{function}");
        }
    }
    let listed = text(&run(fastinst().arg("probes").arg(&program)).stdout);
    assert!(listed.contains("split") && !listed.contains("split.cold"), "{listed}");
}

#[test]
fn exceptions_pass_through() {
    let to = folder("unmodified-exceptions");
    for (compiler, flags) in [("g++", ["-O1"]), ("g++", ["-O3"]), ("clang++", ["-O2"])] {
        if !has(compiler) {
            continue;
        }
        let place = to.join(format!("{compiler}{}", flags[0]));
        std::fs::create_dir_all(&place).unwrap();
        let program = compile_with(compiler, "unmodified.cc", &place, &flags);
        let file = place.join("profile");
        let output = observed(&program, &[], &file, &["--plant", "all", "--policy", "exact"]);
        let profile = profile(&file);
        let counted = told(&output, '\t');
        let known = |name: &str| {
            let functions = profile["functions"].as_array().unwrap();
            functions.iter().any(|function| function["name"] == name)
        };
        let known: Vec<_> = counted.iter().filter(|(name, _)| known(name)).collect();
        assert!(known.len() >= 2, "{counted:?}");
        for (name, expected) in known {
            assert_eq!(calls(&profile, name), *expected, "{compiler} {flags:?} {name}");
        }
    }
}

/// A symbol table is used for names only.
#[test]
fn symbol_tables_that_lie_do_no_harm() {
    use goblin::elf::{Elf, sym::STT_FUNC};
    let to = folder("unmodified-lies");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2", "-fcf-protection=none"]);
    let bytes = std::fs::read(&program).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let table = elf.section_headers.iter().find(|section| section.sh_type == 2).unwrap();
    let places: Vec<usize> = (0..elf.syms.len())
        .filter(|&at| {
            elf.syms.get(at).is_some_and(|sym| sym.st_type() == STT_FUNC && sym.st_value != 0)
        })
        .map(|at| table.sh_offset as usize + at * 24)
        .collect();
    assert!(places.len() > 10);
    // Bytes 0 to 3 are the name, 8 to 15 the value, 16 to 23 the size: `Elf64_Sym` (elf.h).
    type Tell = fn(&mut [u8], usize);
    let lies: [(&str, bool, Tell); 6] = [
        ("no-size", true, |symbol, _| symbol[16..].fill(0)),
        ("endless", true, |symbol, _| symbol[16..].fill(0xff)),
        ("overlapping", true, |symbol, _| symbol[17] = 1),
        ("no-name", false, |symbol, _| symbol[..4].fill(0xf0)),
        ("in-data", false, |symbol, at| symbol[8..10].copy_from_slice(&[at as u8, 0x50])),
        ("nowhere", false, |symbol, _| symbol[8..16].fill(0xfe)),
    ];
    for (lie, has_names, tell) in lies {
        let mut bytes = bytes.clone();
        places.iter().enumerate().for_each(|(at, place)| tell(&mut bytes[*place..*place + 24], at));
        let lying = to.join(lie);
        std::fs::copy(&program, &lying).unwrap();
        std::fs::write(&lying, &bytes).unwrap();
        for policy in ["count", "adaptive"] {
            let file = to.join(format!("{lie}.{policy}"));
            let options = ["--plant", "all", "--policy", policy];
            let output = observed(&lying, &["100"], &file, &options);
            let profile = profile(&file);
            let functions = profile["functions"].as_array().unwrap();
            let mut known = 0;
            for (name, expected) in told(&output, ' ') {
                if functions.iter().any(|function| function["name"] == name.as_str()) {
                    known += 1;
                    if policy == "count" {
                        assert_eq!(calls(&profile, &name), expected, "{lie} {name}");
                    }
                }
            }
            assert!(!has_names || known >= 5, "{lie}: {known}");
        }
        let listed = run(fastinst().arg("probes").arg(&lying));
        assert!(listed.status.success(), "{lie}: {}", text(&listed.stderr));
    }
}

/// An instruction that may fault stays in place, since the compiler's unwind tables refer to it.
#[test]
fn faults_that_become_exceptions_pass_through() {
    let to = folder("unmodified-faults");
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2")] {
        if !has(compiler) {
            continue;
        }
        let place = to.join(format!("{compiler}{level}"));
        std::fs::create_dir_all(&place).unwrap();
        let flags = [level, "-fnon-call-exceptions"];
        let program = compile_with(compiler, "faults.cc", &place, &flags);
        for policy in ["count", "exact", "adaptive"] {
            let file = place.join(policy);
            let output = observed(&program, &[], &file, &["--plant", "all", "--policy", policy]);
            assert!(text(&output.stdout).starts_with("200 "), "{output:?}");
        }
    }
}

/// A thread may be unwound from any instruction; it could not be from inside a trampoline.
#[test]
fn threads_that_are_cancelled_anywhere_clean_up() {
    let to = folder("unmodified-cancelled");
    let flags = ["-O2", "-fnon-call-exceptions", "-pthread"];
    let program = compile_with("g++", "cancelled.cc", &to, &flags);
    for (policy, plant) in [("exact", "all"), ("count", "all"), ("adaptive", "seen")] {
        let mut command = fastinst();
        command.args(["run", "--provider", "symbols", "--policy", policy, "--plant", plant]);
        let output = run(command.arg(&program));
        assert_eq!(text(&output.stdout), "200 of 200 cleaned up\n", "{policy}");
        let said = text(&output.stderr);
        assert!(said.contains("PTHREAD_CANCEL_ASYNCHRONOUS"), "{policy}: {said}");
    }
}

/// No return address lies in a trampoline while the program's code runs.
#[test]
fn backtraces_lead_through_functions_with_probes() {
    let to = folder("unmodified-backtraces");
    for (turn, flags) in
        [&["-O2"][..], &["-O0"], &["-O2", "-no-pie", "-fno-pie"]].iter().enumerate()
    {
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compile_with("gcc", "unwound.c", &place, &[&["-rdynamic"], *flags].concat());
        for policy in ["exact", "count"] {
            let file = place.join(policy);
            let output = observed(&program, &[], &file, &["--plant", "all", "--policy", policy]);
            let said = text(&output.stdout);
            assert!(said.contains(" deep deep ") && said.contains(" main "), "{said}");
            assert_eq!(calls(&profile(&file), "last"), 3.0);
        }
    }
}

/// Compiled-in probes need 256 bytes; here there is also a red zone, and the called code saves
/// registers.
#[test]
fn handlers_on_the_smallest_signal_stacks_have_room() {
    let to = folder("unmodified-small-stacks");
    let program = compile_with("gcc", "smallstacks.c", &to, &["-O2", "-Wl,-z,now", "-DHOOKS=320"]);
    for how in ["return", "leave"] {
        for policy in ["exact", "count", "adaptive"] {
            let file = to.join(policy);
            let output = observed(&program, &[how], &file, &["--plant", "all", "--policy", policy]);
            assert!(!text(&output.stdout).contains("bytes"), "{}", text(&output.stdout));
        }
    }
}

#[test]
fn programs_that_leave_their_functions_in_other_ways_do_what_they_did() {
    let to = folder("unmodified-ways");
    for source in ["jumps.c", "contexts.c", "signals.c", "frames.c", "threads.c", "forks.c"] {
        let program = compile_with("gcc", source, &to, &["-O2"]);
        for policy in ["exact", "count", "adaptive"] {
            let file = to.join(format!("{source}.{policy}"));
            observed(&program, &[], &file, &["--plant", "all", "--policy", policy]);
        }
    }
}

#[test]
fn functions_of_libraries_that_are_loaded_later_are_counted_from_their_first_call_on() {
    let to = folder("unmodified-later");
    let plugin = compile_with("gcc", "plugin.c", &to, &["-O0", "-shared", "-fPIC"]);
    let host = compile_with("gcc", "host.c", &to, &["-O2"]);
    for policy in ["exact", "count", "adaptive"] {
        let file = to.join(policy);
        let plugin = plugin.to_str().unwrap();
        observed(&host, &[plugin], &file, &["--plant", "all", "--policy", policy]);
        let profile = profile(&file);
        if policy != "adaptive" {
            // Loaded thirty times, it is one library.
            assert_eq!((calls(&profile, "plugin"), calls(&profile, "plugged")), (30.0, 30_000.0));
        }
        let notes = profile["header"]["notes"].to_string();
        assert!(notes.contains("when their library was loaded"), "{notes}");
    }
    // Selected by name, without other functions.
    let file = to.join("named");
    observed(&host, &[plugin.to_str().unwrap()], &file, &["-F", "plug*", "--policy", "count"]);
    assert_eq!(calls(&profile(&file), "plugged"), 30_000.0);
}

/// Whatever its address is.
#[test]
fn a_library_that_comes_and_goes_leaves_nothing_behind() {
    let to = folder("unmodified-churn");
    let plugin = compile_with("gcc", "plugin.c", &to, &["-O0", "-shared", "-fPIC"]);
    let host = compile_with("gcc", "churn.c", &to, &["-O2"]);
    for place in ["here", "elsewhere"] {
        for plant in ["all", "seen"] {
            let file = to.join(format!("{place}.{plant}"));
            let arguments = [plugin.to_str().unwrap(), "1000", place];
            observed(&host, &arguments, &file, &["--plant", plant, "--policy", "exact"]);
            if plant == "all" {
                assert_eq!(calls(&profile(&file), "plugged"), 3000.0, "{place}");
            }
        }
    }
}

#[test]
fn functions_that_were_seen_to_run_get_probes_while_they_do() {
    let to = folder("unmodified-seen");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let file = to.join("profile");
    // Long enough for a clock of a few hundred hertz, and for a term (sampling window) after a
    // counting window.
    observed(&program, &["10000000"], &file, &[]);
    let profile = profile(&file);
    let functions = profile["functions"].as_array().unwrap();
    assert!(!functions.is_empty(), "{profile}");
    let notes = profile["header"]["notes"].to_string();
    assert!(notes.contains("their counts begin there"), "{notes}");
    assert!(functions.iter().any(|function| function["p50"].is_number()));
    assert!(functions.iter().all(|function| function["calls"]["how"] == "estimated"), "{profile}");
}

#[test]
fn without_a_clock_all_functions_get_probes() {
    let to = folder("unmodified-no-clock");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let file = to.join("profile");
    observed(&program, &["1500000"], &file, &["--witness", "frames"]);
    let profile = profile(&file);
    assert!(calls(&profile, "first") > 0.0 && calls(&profile, "many") > 0.0);
}

#[test]
fn a_program_with_hooks_keeps_to_them_unless_others_are_wanted() {
    let to = folder("unmodified-hooks");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2", "-finstrument-functions"]);
    for (provider, has_probes) in [("auto", true), ("hooks", true)] {
        let file = to.join(provider);
        let mut command = fastinst();
        command.args([
            "run",
            "--provider",
            provider,
            "--policy",
            "count",
            "--format",
            "json",
            "-o",
        ]);
        let output = run(command.arg(&file).arg(&program).arg("100"));
        assert_eq!(output.status.code(), Some(3));
        let profile = profile(&file);
        assert_eq!(profile["functions"].as_array().is_some_and(|all| !all.is_empty()), has_probes);
        assert_eq!(calls(&profile, "first"), 100.0);
        let notes = profile["header"]["notes"].to_string();
        assert!(!notes.contains("no compiler has prepared"), "{notes}");
    }
    let plain = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let output = run(fastinst().args(["run", "--provider", "hooks"]).arg(&plain).arg("100"));
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("has no probes"), "{}", text(&output.stderr));
}

#[test]
fn where_no_function_gets_a_probe_a_note_says_why() {
    let to = folder("unmodified-none");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    for (options, says) in [
        (&["--plant", "all", "-N", "*"][..], "-F and -N"),
        (&["--plant", "seen", "-N", "*"], "--plant all"),
    ] {
        let output = run(fastinst().arg("run").args(options).arg(&program).arg("1"));
        assert_eq!(output.status.code(), Some(3));
        let said = text(&output.stderr);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn functions_that_are_asked_for_by_name_are_counted_from_their_first_call_on() {
    let to = folder("unmodified-named");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let file = to.join("profile");
    let output = observed(&program, &["300"], &file, &["-F", "first", "--policy", "count"]);
    let profile = profile(&file);
    let expected = told(&output, ' ').into_iter().find(|(name, _)| name == "first").unwrap();
    assert_eq!(calls(&profile, "first"), expected.1);
    assert_eq!(profile["functions"].as_array().unwrap().len(), 1);
}

#[test]
fn functions_that_are_asked_about_have_their_probes_before_and_a_note_says_so() {
    let to = folder("unmodified-asked");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let mut command = fastinst();
    command.args(["run", "--provider", "symbols", "-A", "first@arg1"]).arg(&program).arg("100");
    let said = text(&run(&mut command).stderr);
    let note =
        "Note: 1 function that no compiler has prepared got a probe before the program began";
    assert!(said.contains(note), "{said}");
}

#[test]
fn a_filter_that_names_no_function_is_refused_before_the_program_starts() {
    let to = folder("unmodified-filter");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let output = run(fastinst().args(["run", "-F", "slect_one"]).arg(&program).arg("1"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty() && said.contains("did you mean select_one"), "{said}");
    // A program that starts others continues, since those may have such functions.
    let output = run(fastinst().args(["run", "-F", "slect_one", "sh", "-c", "echo here"]));
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "here\n", "{said}");
    assert!(said.contains("starts later may match"), "{said}");
}

#[test]
fn code_that_must_not_be_written_to_is_left_alone_with_a_reason() {
    let to = folder("unmodified-batch");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let mut command = fastinst();
    command.args(["run", "--provider", "symbols"]).env("WORDPATCH_ACCESS", "batch");
    let output = run(command.arg(&program).arg("100"));
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("WORDPATCH_ACCESS=rwx"), "{said}");
}

#[test]
fn installed_programs_do_what_they_did() {
    let to = folder("unmodified-installed");
    let script = "f() { local i; for ((i = 0; i < 3000; i++)); do s=$((s + i % 7)); done; echo $s; }; f; \
                  x=$(echo hi | tr a-z A-Z); echo $x; trap 'echo bye' EXIT; [[ abc =~ b ]] && echo ${BASH_REMATCH[0]}";
    let sql = "create table t(a integer primary key, b text); \
               with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) \
               insert into t select i, 'x' || (i * 7919 % 10007) from n; create index tb on t(b); \
               select b, count(*) from t group by b order by 2 desc, 1 limit 5; \
               update t set b = b || 'y' where a % 3 = 0; select count(*), max(b) from t";
    let input = to.join("input");
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    std::fs::write(&input, bytes).unwrap();
    let input = input.to_str().unwrap();
    let programs: [(&str, Vec<&str>); 4] = [
        ("bash", vec!["--norc", "-c", script]),
        ("xz", vec!["-k", "-c", "-2", input]),
        ("sqlite3", vec![":memory:", sql]),
        (
            "perl",
            vec![
                "-e",
                "my %h; $h{$_ % 97} .= 'a' for 1..20000; print join ',', map { length } @h{1..9}",
            ],
        ),
    ];
    for (name, arguments) in programs {
        if !has(name) {
            continue;
        }
        let found =
            run(std::process::Command::new("sh").args(["-c", &format!("command -v {name}")]));
        let program = std::fs::canonicalize(text(&found.stdout).trim()).unwrap();
        for policy in ["count", "exact", "adaptive"] {
            let file = to.join(format!("{name}.{policy}"));
            observed(&program, &arguments, &file, &["--plant", "all", "--policy", policy]);
            let profile = profile(&file);
            let functions = profile["functions"].as_array().unwrap();
            assert!(functions.len() > 20, "{name}: {}", functions.len());
        }
    }
}

#[test]
fn the_functions_of_a_file_are_listed_with_what_can_be_done() {
    let to = folder("unmodified-listed");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2"]);
    let output = run(fastinst().arg("probes").arg(&program));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let listed = text(&output.stdout);
    assert!(listed.contains("functions without compiled-in hooks"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("timed") && line.contains("recurse")));
    let output = run(fastinst().args(["probes", "--json", "-F", "recurse"]).arg(&program));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &listed["functions"][0];
    assert_eq!((&first["function"], &first["probe"]), (&"recurse".into(), &"timed".into()));
}

#[test]
fn functions_are_selected_by_their_size() {
    let to = folder("unmodified-size");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O2", "-static-pie"]);
    let count = |pattern: Option<&str>| {
        let mut command = fastinst();
        command
            .args(["probes", "--json"])
            .args(pattern.map(|pattern| ["-F", pattern]).into_iter().flatten());
        let output = run(command.arg(&program));
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        listed["functions"].as_array().unwrap().len()
    };
    let [small, large, exactly] = ["size<64", "size>=64", "size>63"].map(|size| count(Some(size)));
    assert!(small > 0 && large > 0 && large == exactly);
    // Some functions of the C library have no size.
    assert!(small + large <= count(None));
}

/// Names and lines come from a file of debug information in any folder, if it belongs to the
/// program.
#[test]
fn a_debug_file_of_the_program_names_its_functions() {
    if !has("objcopy") {
        return;
    }
    let to = folder("unmodified-debug");
    let program = compile_with("gcc", "unmodified.c", &to, &["-O1", "-g"]);
    let objcopy = |arguments: &[&str], from: &Path, made: &Path| {
        let mut command = std::process::Command::new("objcopy");
        let output = run(command.args(arguments).arg(from).arg(made));
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let (debug, stripped, bare) = (to.join("app.debug"), to.join("app"), to.join("bare.debug"));
    objcopy(&["--only-keep-debug"], &program, &debug);
    objcopy(&["--strip-all"], &program, &stripped);
    objcopy(&["--remove-section=.note.gnu.build-id"], &debug, &bare);
    let observed_with = |file: &Path, to: &Path| {
        let options = ["--plant", "all", "--debug-file", file.to_str().unwrap()];
        observed(&stripped, &["50"], to, &options);
        profile(to)
    };
    let named = observed_with(&debug, &to.join("named"));
    let leaf = function(&named, "leaf");
    assert!(leaf["file"].as_str().is_some_and(|file| file.ends_with("unmodified.c")), "{leaf}");
    // A debug file of another build.
    let other = compile_with("gcc", "ends.c", &to, &["-O1", "-g"]);
    let unnamed = observed_with(&other, &to.join("unnamed"));
    let functions = unnamed["functions"].as_array().unwrap();
    assert!(!functions.is_empty() && functions.iter().all(|function| function["name"] != "leaf"));
    let notes = unnamed["header"]["notes"].to_string();
    assert!(notes.contains("build ID differs"), "{notes}");
    let listed = run(fastinst().args(["probes", "--debug-file"]).arg(&debug).arg(&stripped));
    assert!(text(&listed.stdout).contains("recurse"));
    for file in [&bare, &to.join("missing")] {
        let refused = run(fastinst().args(["run", "--debug-file"]).arg(file).arg(&stripped));
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains("--debug-file") && said.contains(file.to_str().unwrap()), "{said}");
    }
}
