//! The files of a program and of its library are replaced while it runs, as an upgrade or a build
//! does. What lies at their paths then says nothing about the code that is executed.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Victim, clean, compile, fastinst, folder, preloaded, profile, run};

/// A folder with a program, its library, and second versions of both.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn make(name: &str, flags: &[&str]) -> Self {
        let folder = folder(name);
        let make = |to: &str, own: &[&str]| {
            let flags = [&["-O1", "-g"], flags, own].concat();
            let made = compile("replaced.c", &folder, &flags);
            std::fs::rename(made, folder.join(to)).unwrap();
        };
        let library = ["-DLIBRARY", "-shared", "-fPIC"];
        make("app", &[]);
        make("app.2", &["-DSECOND"]);
        make("lib.so", &library);
        make("lib.so.2", &[&library[..], &["-DSECOND"]].concat());
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What replaces both files; `how` is a part of a command.
    fn command(&self, how: &str) -> String {
        format!("cd '{}' && {how}", self.folder.display())
    }
}

const REPLACED: &str = "mv app.2 app && mv lib.so.2 lib.so";
const RENAMED: &str = "mv app app.1 && mv lib.so lib.so.1 && mv app.2 app && mv lib.so.2 lib.so";

/// Rows of functions: names, counts and lines.
fn rows(profile: &Path) -> Vec<(String, f64, Option<u64>)> {
    let profile = support::profile(profile);
    let row = |row: &serde_json::Value| {
        let calls = row["calls"]["value"].as_f64().unwrap_or(0.0);
        (row["name"].as_str().unwrap().to_owned(), calls, row["line"].as_u64())
    };
    profile["functions"].as_array().unwrap().iter().map(row).collect()
}

/// The kernel shows files that were deleted to privileged users only: whether it shows any.
fn is_privileged() -> bool {
    let files = std::fs::read_dir("/proc/self/map_files").unwrap();
    files.filter_map(Result::ok).any(|file| std::fs::File::open(file.path()).is_ok())
}

/// No function may have a name or a line of the second version.
fn assert_of_first(rows: &[(String, f64, Option<u64>)]) {
    for (name, _, line) in rows {
        assert!(name != "second" && name != "another", "{rows:?}");
        assert!(line.is_none_or(|line| line < 200), "{rows:?}");
    }
    assert!(rows.iter().any(|(name, ..)| name == "first"), "{rows:?}");
}

/// And the library's functions have names, where its file can be had.
fn assert_both_of_first(rows: &[(String, f64, Option<u64>)]) {
    assert_of_first(rows);
    let named = rows.iter().filter(|(name, ..)| name == "first").count();
    assert_eq!(named, if is_privileged() { 2 } else { 1 }, "{rows:?}");
}

#[test]
fn functions_have_the_names_of_the_files_that_were_loaded() {
    for (build_id, how) in ["-Wl,--build-id", "-Wl,--build-id=none"]
        .iter()
        .flat_map(|id| [(id, REPLACED), (id, RENAMED)])
    {
        let files = Files::make("replaced-preloaded", &["-finstrument-functions", build_id]);
        let to = files.at("profile");
        let mut app = preloaded(&files.at("app"), "adaptive", &to);
        let output = run(app.arg(files.at("lib.so")).arg(files.command(how)).arg("go on"));
        assert!(output.status.success(), "{output:?}");
        let rows = rows(&to);
        assert_both_of_first(&rows);
        let counts: Vec<f64> = rows.iter().map(|(_, calls, _)| *calls).collect();
        assert_eq!(counts.iter().filter(|&&calls| calls == 40.0).count(), 3, "{rows:?}");
    }
}

#[test]
fn a_report_reads_no_lines_of_another_build() {
    for build_id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let files = Files::make("replaced-recorded", &["-finstrument-functions", build_id]);
        let to = files.at("profile");
        let mut record = fastinst();
        record.args(["run", "-o"]).arg(&to).arg(files.at("app"));
        let output = run(record.arg(files.at("lib.so")).arg(files.command(REPLACED)).arg("go on"));
        assert!(output.status.success(), "{output:?}");
        let report = files.at("report.json");
        let mut command = fastinst();
        let output = run(command.args(["report", "--format", "json", "-o"]).arg(&report).arg(&to));
        assert!(output.status.success(), "{output:?}");
        assert_both_of_first(&rows(&report));
    }
}

#[test]
fn a_library_that_was_replaced_and_loaded_anew_has_other_functions() {
    let files = Files::make("replaced-reloaded", &["-finstrument-functions"]);
    let to = files.at("profile");
    let mut command = fastinst();
    command.args(["run", "--format", "json", "-o"]).arg(&to).arg(files.at("app"));
    let replace = files.command("mv lib.so.2 lib.so");
    let output = run(command.arg(files.at("lib.so")).arg(replace).arg("reload"));
    assert!(output.status.success(), "{output:?}");
    let rows = rows(&to);
    let of = |name: &str| rows.iter().filter(|row| row.0 == name).collect::<Vec<_>>();
    // The library's second version; and the program's own `first`.
    assert_eq!(of("second").len(), 1, "{rows:?}");
    assert!(of("second")[0].1 == 20.0 && of("second")[0].2 >= Some(200), "{rows:?}");
    assert!(of("first").iter().any(|row| row.1 == 20.0), "{rows:?}");
    assert_eq!(of("work").iter().filter(|row| row.1 == 20.0).count(), of("work").len(), "{rows:?}");
    let profile = profile(&to);
    let second = support::function(&profile, "second");
    assert_eq!(second["callers"][0]["caller"]["name"], "work", "{second}");
    // Their names are known only if they were read in time.
    let is_former = |row: &&serde_json::Value| {
        let is_librarys = row["module"].as_str().unwrap().contains("lib.so");
        is_librarys && row["name"] != "second" && row["name"] != "work"
    };
    let functions = profile["functions"].as_array().unwrap();
    let former: Vec<_> = functions.iter().filter(is_former).collect();
    assert!(!former.is_empty(), "{profile}");
    for row in former {
        let caller = row["callers"][0]["caller"]["name"].as_str().unwrap();
        assert!(caller.starts_with("lib.so") || ["main", "work"].contains(&caller), "{row}");
        if profile["header"]["clock"]["clock"] == "kernel" {
            // It has taken a twentieth of the turns that the second version has.
            let most = row["total"]["value"].as_f64().unwrap();
            assert!(most < second["total"]["value"].as_f64().unwrap() / 2.0, "{profile}");
        }
    }
}

#[test]
fn probes_go_where_functions_are_in_the_code_that_runs() {
    for flag in ["-finstrument-functions", "-fno-plt"] {
        let files = Files::make("replaced-attached", &[flag]);
        let mut app = clean(Command::new(files.at("app")));
        app.arg(files.at("lib.so")).arg(files.command(REPLACED)).arg("wait");
        let running = Victim::start(&mut app);
        let to = files.at("profile");
        let mut attach = fastinst();
        attach
            .args(["attach", "--plant", "all", "--for", "500ms", "--format", "json", "-o"])
            .arg(&to);
        let output = run(attach.arg(running.number().to_string()));
        assert!(output.status.success(), "{output:?}");
        let rows = rows(&to);
        if flag == "-finstrument-functions" {
            assert_both_of_first(&rows);
            assert!(rows.iter().any(|row| row.0 == "first" && row.1 > 10.0), "{rows:?}");
            let notes = profile(&to)["header"]["notes"].to_string();
            assert_eq!(notes.contains("another file lies there"), !is_privileged(), "{notes}");
        } else {
            assert_of_first(&rows);
        }
        let output = run(fastinst().arg("probes").arg(running.number().to_string()));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        for file in ["app", "lib.so"] {
            let said = format!("{} was deleted or replaced", files.at(file).display());
            assert!(errors.contains(&said), "{errors}");
        }
        assert_eq!(errors.matches("was deleted or replaced").count(), 2, "{errors}");
    }
}
