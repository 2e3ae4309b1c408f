//! Scripts as files: `pass/` has valid scripts, `fail/` invalid scripts with their diagnostics,
//! `run/` scripts with their program and its output, and `rewritten/` such programs after
//! rewriting. `BLESS=1` records the current results.

mod engine;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use whamm::{Options, Source};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn scripts(name: &str) -> Vec<PathBuf> {
    let mut list: Vec<_> = std::fs::read_dir(folder(name))
        .expect("the folder exists")
        .map(|e| e.expect("it can be read").path())
        .collect();
    list.retain(|p| p.extension().is_some_and(|e| e == "mm"));
    list.sort();
    assert!(!list.is_empty(), "{name} has scripts");
    list
}

fn read(path: &Path) -> Source {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    Source::new(name, std::fs::read_to_string(path).expect("a script can be read"))
}

/// Compares with the recorded result, or records it.
fn compare(path: &Path, found: &str, differing: &mut Vec<String>) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, found).expect("it can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected != found {
        differing
            .push(format!("{}:\n--- expected\n{expected}\n--- found\n{found}", path.display()));
    }
}

/// Addresses of rows depend on the implementation: they are not compared.
fn without_addresses(report: &str) -> String {
    let row = |line: &str| match line.split_once(", ") {
        Some((id, rest)) if id.parse::<u32>().is_ok() => format!("-, {rest}\n"),
        _ => format!("{line}\n"),
    };
    report.lines().map(row).collect()
}

/// The values of a script's notes: `// app: file.wat`, `// option: name`.
fn notes<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|l| l.strip_prefix("// ")?.strip_prefix(key)?.strip_prefix(": "))
        .collect()
}

#[test]
fn right_scripts_are_accepted_without_a_word() {
    let mut wrong = Vec::new();
    for path in scripts("pass") {
        let said = whamm::check_scripts(&[read(&path)], &[]);
        if !said.is_empty() {
            wrong.push(said.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_scripts_are_told_what_is_wrong() {
    let mut differing = Vec::new();
    for path in scripts("fail") {
        let source = read(&path);
        let libraries: Vec<_> = notes(&source.text, "library").into_iter().map(library).collect();
        let said = whamm::check_scripts(&[source], &libraries);
        assert!(!said.is_empty(), "{} is accepted", path.display());
        compare(&path.with_extension("txt"), &said.to_string(), &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The columns of the table of differences.
fn differences() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("doc/differences.md");
    let document = std::fs::read_to_string(path).expect("it can be read");
    let rows =
        document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| subject"));
    let columns = |row: &str| {
        row.replace("\\|", "\u{1}")
            .split(" | ")
            .map(|column| column.replace('\u{1}', "|"))
            .collect()
    };
    rows.map(columns).filter(|row: &Vec<String>| row.len() == 5).collect()
}

#[test]
fn scripts_that_show_differences_are_accepted_or_refused_as_is_said_there() {
    let rows = differences();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows {
        let script = Source::new(row[0].as_str(), row[3].trim_matches('`'));
        let said = whamm::check_scripts(&[script], &[library("cache")]);
        let refused = row[2].starts_with("an error") && !row[2].contains("except");
        assert_eq!(said.has_errors(), refused, "{row:?}: {said}");
        assert_eq!(
            !said.is_empty() && !said.has_errors(),
            row[2].contains("a warning"),
            "{row:?}: {said}"
        );
    }
}

/// The options that a script's notes request.
fn options_of(source: &Source) -> Options {
    let mut options = Options::default();
    for option in notes(&source.text, "option") {
        match option {
            "json" => options.format = whamm::Format::Json,
            "exact-traps" => options.exact_traps = true,
            "env" => options.destination = whamm::Destination::Environment,
            "file" => options.destination = whamm::Destination::File("out/report.csv".into()),
            "rooted-file" => {
                options.destination = whamm::Destination::File("/data//out/report.csv".into());
            }
            "elsewhere" => {
                options.destination = whamm::Destination::File("/database/report.csv".into());
            }
            "imported" => options.link = whamm::Link::Imported,
            other => panic!("there is no option {other}"),
        }
    }
    options
}

/// The functions of a module in text, without those of the run-time support.
fn functions_of_the_program(module: &[u8]) -> String {
    let text = wasmprinter::print_bytes(module).expect("a module can be printed");
    let mut kept = String::new();
    let mut is_ours = false;
    for line in text.lines() {
        if line.starts_with("  (func ") {
            is_ours = line.starts_with("  (func $whamm.") || line.starts_with("  (func $lib.");
        } else if line.starts_with("  (") {
            is_ours = true;
        }
        if !is_ours && line.starts_with("  ") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn rewritten_programs_are_byte_for_byte_what_was_written_down() {
    let (mut table, mut differing) = (String::new(), Vec::new());
    for path in scripts("run") {
        let source = read(&path);
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let app = std::fs::read(folder("apps").join(notes(&source.text, "app")[0]))
            .expect("a script names its program");
        let libraries: Vec<_> = notes(&source.text, "library").into_iter().map(library).collect();
        let mut options = options_of(&source);
        for counters in ["globals", "memory"] {
            let script = std::slice::from_ref(&source);
            let Ok(output) = whamm::instrument(script, &libraries, &app, &options) else {
                continue;
            };
            let (bytes, digest) = (output.module.len(), blake3::hash(&output.module).to_hex());
            let _ = writeln!(table, "{name} {counters} {bytes} {digest}");
            if options.most_globals.is_none() {
                let text = functions_of_the_program(&output.module);
                let place = folder("rewritten").join(format!("{name}.wat"));
                compare(&place, &text, &mut differing);
            }
            options.most_globals = Some(0);
        }
    }
    for path in scripts("../monitors") {
        let (source, libraries) = (read(&path), [library("cache_lines")]);
        for app in ["cache", "control", "odd", "replaced", "sieve", "tables", "traps", "wide"] {
            let program = library(app).bytes;
            for exact_traps in [false, true] {
                let options = Options { exact_traps, ..Options::default() };
                let script = std::slice::from_ref(&source);
                let done = whamm::instrument(script, &libraries, &program, &options);
                let bytes = done.map(|output| output.module).unwrap_or_default();
                let digest = &blake3::hash(&bytes).to_hex()[..16];
                let _ = writeln!(table, "{} {app} {exact_traps} {digest}", source.name);
            }
        }
    }
    compare(&folder("rewritten").join("digests.txt"), &table, &mut differing);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn scripts_say_of_programs_what_was_written_down() {
    let mut differing = Vec::new();
    for path in scripts("run") {
        let source = read(&path);
        let app = std::fs::read(folder("apps").join(notes(&source.text, "app")[0]))
            .expect("a script names its program");
        let mut options = options_of(&source);
        let found = said_of(&path, &source, &app, &options);
        options.most_globals = Some(0);
        // The other format contains addresses, too.
        let comparable = options.format == whamm::Format::Csv;
        assert!(
            !comparable || said_of(&path, &source, &app, &options) == found,
            "{} with counters in memory",
            path.display()
        );
        compare(&path.with_extension("txt"), &found, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Runs a program with the probes of a script: returns the script's diagnostics, the program's
/// output, and the report.
fn said_of(path: &Path, source: &Source, app: &[u8], options: &Options) -> String {
    let libraries: Vec<_> = notes(&source.text, "library").into_iter().map(library).collect();
    let output = match whamm::instrument(std::slice::from_ref(source), &libraries, app, options) {
        Err(said) => return said.to_string(),
        Ok(output) => output,
    };
    let core = (options.link == whamm::Link::Imported).then(|| library("whamm_core"));
    let binary =
        |l: &whamm::LibraryFile| wat::parse_bytes(&l.bytes).expect("it is text").into_owned();
    let binaries: Vec<_> =
        libraries.iter().chain(&core).map(|l| (l.module.as_str(), binary(l))).collect();
    let linked: Vec<_> = binaries.iter().map(|b| (b.0, &b.1[..])).collect();
    let before = engine::run(&wat::parse_bytes(app).expect("it is text"), &linked);
    let world = engine::World::with(&notes(&source.text, "environment"));
    let after = engine::run_in(world, &output.module, &linked);
    if !source.text.contains("alt") && !source.text.contains("// changes") {
        assert_eq!(
            before.results,
            after.results,
            "{} changes what the program gives",
            path.display()
        );
        let same = before.memory.is_empty() || before.memory == after.memory;
        assert!(same, "{} changes the program's memory", path.display());
    }
    let end = if after.trapped { "trapped\n" } else { "" };
    let [written, kept] = [&after.written, &after.kept].map(|said| without_addresses(said));
    format!("{}{}\n{end}{written}{kept}", output.diagnostics, after.results.join(" "))
}

fn library(name: &str) -> whamm::LibraryFile {
    let bytes =
        std::fs::read(folder("apps").join(format!("{name}.wat"))).expect("a library is there");
    whamm::LibraryFile { name: name.into(), module: name.into(), bytes }
}
