//! Other tools can read the files that are written for them.

mod support;

use profiler::{Callee, Exemplar, FuncId, Profile};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::profile;
use test_support::{Browser, Folder, View, require};

/// A tool that scripts/test installs: in the search path, or in a folder below `target`.
fn installed(name: &str, below: &str) -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(below).join(name);
    let works = |tool: &PathBuf| Command::new(tool).arg("--help").output().is_ok();
    let found = [PathBuf::from(name), ours].into_iter().find(works);
    require(found.is_some(), name);
    found
}

/// The output of a command, which must print no errors.
fn printed(command: &mut Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "{said}\n{}",
        String::from_utf8_lossy(input)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The synthetic program with slow calls, one inside of the other.
fn slow() -> Profile {
    let mut profile = profile();
    profile.header.process = 7;
    profile.header.command = vec!["/usr/bin/app".to_owned()];
    for (at, function) in profile.functions.iter_mut().enumerate() {
        function.id = FuncId(at as u32 + 1);
    }
    let call =
        |time: f64, at: f64, inside: Vec<Callee>| vec![Exemplar { time, thread: 7, at, inside }];
    let inside = vec![Callee { function: FuncId(4), calls: 3, time: 2e6 }];
    profile.functions[1].exemplars = call(9e6, 20e6, inside);
    profile.functions[3].exemplars = call(2e6, 19e6, Vec::new());
    profile
}

#[test]
fn gprof2dot_reads_the_call_graphs_without_a_complaint() {
    let Some(tool) = installed("gprof2dot", "python/bin") else { return };
    let profile = profile();
    let drawn = |format: &str, text: &str| {
        let mut command = Command::new(&tool);
        printed(command.args(["-f", format, "-n", "0", "-e", "0"]), text.as_bytes())
    };
    // Its sums of self times and calls equal the printed total, self and calls; and an arc has its
    // calls.
    let main = "main\\n90.00%\\n(5.00%)\\n1×";
    let parse = "parse\\n50.00%\\n(20.00%)\\n100×";
    let (serve, walk) = ("serve(int)\\n15.00%\\n(5.00%)\\n10×", "walk\\n10.00%\\n(10.00%)\\n30×");
    let of_gprof = drawn("prof", &profile.gprof());
    for wanted in [main, parse, serve, walk, "even\\n10.00%\\n", "[system]", "\\n3000×", "\\n1000×"]
    {
        assert!(of_gprof.contains(wanted), "{wanted}: {of_gprof}");
    }
    let of_callgrind = drawn("callgrind", &profile.callgrind());
    for wanted in [parse, serve, "[system]", "\\n3000×", "\\n1000×"] {
        assert!(of_callgrind.contains(wanted), "{wanted}: {of_callgrind}");
    }
}

#[test]
fn graphviz_draws_the_call_graph() {
    if !require(Command::new("dot").arg("-V").output().is_ok(), "graphviz") {
        return;
    }
    let mut profile = profile();
    profile.rename(|name| name.replace("walk", "walk(\"\\\\<b>&\")"));
    let drawn = printed(Command::new("dot").arg("-Tsvg"), profile.dot().as_bytes());
    let drawing = roxmltree::Document::parse_with_options(
        &drawn,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    );
    let drawing = drawing.unwrap();
    let of_class = |class: &str| {
        drawing.descendants().filter(|node| node.attribute("class") == Some(class)).count()
    };
    // Seven functions, the kernel's time and the unknown time; eight pairs, one with itself.
    assert_eq!((of_class("node"), of_class("edge")), (9, 9), "{drawn}");
    assert!(drawn.contains("walk(&quot;\\\\&lt;b&gt;&amp;&quot;)"), "{drawn}");
}

#[test]
fn pprof_prints_the_same_times() {
    let Some(go) = installed("go", "python/bin") else { return };
    let folder = Folder::new("pprof");
    std::fs::write(folder.join("app.pb"), profile().pprof()).unwrap();
    let mut command = Command::new(go);
    // It compiles its tool once, and keeps it.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    command.env("GOTOOLCHAIN", "local").env("GOCACHE", kept).current_dir(&*folder);
    let output =
        command.args(["tool", "pprof", "-top", "-nodecount=20", "app.pb"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let row = |name: &str| {
        let line = told
            .lines()
            .find(|line| line.ends_with(name))
            .unwrap_or_else(|| panic!("{name}: {told}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((row(" hash")[0].as_str(), row(" hash")[1].as_str()), ("400ms", "40.00%"));
    assert_eq!((row(" parse")[0].as_str(), row(" parse")[3].as_str()), ("200ms", "500ms"));
}

#[test]
fn inferno_draws_folded_stacks() {
    let (folded, mut drawn) = (slow().folded(), Vec::new());
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut drawn).unwrap();
    let drawn = String::from_utf8(drawn).unwrap();
    let allowed = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let drawing = roxmltree::Document::parse_with_options(&drawn, allowed).unwrap();
    let titles = drawing.descendants().filter(|node| node.has_tag_name("title"));
    let titles: Vec<&str> = titles.filter_map(|title| title.text()).collect();
    let wanted = ["parse (500,000 samples, 50.00%)", "hash (300,000 samples, 30.00%)"];
    assert!(wanted.iter().all(|wanted| titles.contains(wanted)), "{titles:?}");
}

#[test]
fn speedscope_opens_every_form_that_it_knows() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/node/node_modules");
    let release = modules.join("speedscope/dist/release");
    if !require(release.is_dir(), "speedscope") {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let folder = Folder::new("speedscope");
    for file in std::fs::read_dir(release).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let profile = slow();
    let forms: [(&str, Vec<u8>, &[&str]); 5] = [
        (
            "app.speedscope.json",
            profile.speedscope().into_bytes(),
            &["hash", "400.00ms (40%)", "500.00ms (50%)"],
        ),
        ("app.folded", profile.folded().into_bytes(), &["hash", "400,000 (40%)"]),
        ("app.pb", profile.pprof(), &["hash", "400.00ms (40%)", "500.00ms (50%)"]),
        (
            "callgrind.out.7",
            profile.callgrind().into_bytes(),
            &["hash", "400,000,000", "500,000,000"],
        ),
        ("app.trace.json", profile.trace().into_bytes(), &["parse", "hash", "7.00ms", "2.00ms"]),
    ];
    for (name, bytes, wanted) in &forms {
        let numbers =
            format!("[{}]", bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(","));
        let script = format!(
            "speedscope.loadFileFromBase64({}, btoa(String.fromCharCode(...{numbers})))",
            json!(name)
        );
        std::fs::write(folder.join("profile.js"), script).unwrap();
        // A different address each time, so that it is loaded again.
        let script = folder.join("profile.js");
        let end = format!("?{name}#view=sandwich&localProfilePath={}", script.display());
        browser.open_at(
            &folder.join("index.html"),
            &end,
            View { width: 1600, height: 1200, dark: false },
        );
        // The view of functions is a table.
        let told = browser.value(
            "new Promise((done) => { let left = 2000; const look = () => { \
             const rows = document.querySelectorAll('tr').length; \
             rows > 1 || --left < 0 ? done(document.body.innerText) : setTimeout(look, 20); }; look(); })",
        );
        let told = told.as_str().unwrap().to_owned();
        for wanted in *wanted {
            assert!(told.contains(wanted), "{name}: {wanted}: {told}");
        }
    }
}

/// A session of the Firefox Profiler's own reader, which keeps a profile in a process of its own.
struct FirefoxProfiler {
    script: PathBuf,
    folder: Folder,
    process: Child,
}

impl FirefoxProfiler {
    /// Opens a profile.
    fn open(contents: &str) -> Option<Self> {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/node/node_modules");
        let script = modules.join("@firefox-devtools/profiler-cli/dist/profiler-cli.js");
        if !require(script.is_file(), "profiler-cli") {
            return None;
        }
        let folder = Folder::new("firefox");
        let profile = folder.join("app.json");
        std::fs::write(&profile, contents).unwrap();
        // Its command `load` starts the same process, and gives up after half a second, which is
        // too short on a busy machine.
        let arguments = ["--daemon", profile.to_str().unwrap()];
        let mut command = Self::command(&script, &folder, &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let opened = Self { process: command.spawn().unwrap(), script, folder };
        opened.wait_until_it_answers();
        Some(opened)
    }

    fn command(script: &Path, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(installed("node", "python/bin").expect("node"));
        command.arg(script).args(arguments).args(["--session", "fastinst"]);
        command.env("PROFILER_CLI_SESSION_DIR", folder);
        command.env("PROFILER_CLI_NO_SYMBOLICATE", "1");
        command
    }

    /// Each try takes a fraction of a second.
    fn wait_until_it_answers(&self) {
        let mut command = Self::command(&self.script, &self.folder, &["profile", "info"]);
        let mut tries = std::iter::repeat_with(|| command.output().unwrap()).take(200);
        let Some(refused) = tries.next().filter(|told| !told.status.success()) else { return };
        assert!(tries.any(|told| told.status.success()), "profiler-cli: {refused:?}");
    }

    /// Its answer to a question.
    fn ask(&self, question: &[&str]) -> Value {
        let mut command = Self::command(&self.script, &self.folder, question);
        serde_json::from_str(&printed(command.arg("--json"), b"")).unwrap()
    }
}

impl Drop for FirefoxProfiler {
    fn drop(&mut self) {
        let told = Self::command(&self.script, &self.folder, &["stop"]).output();
        if !told.is_ok_and(|told| told.status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

#[test]
fn the_firefox_profilers_own_reader_finds_the_same_times_and_the_slow_calls() {
    let Some(reader) = FirefoxProfiler::open(&slow().firefox()) else { return };
    let functions = reader.ask(&["thread", "functions"]);
    let time_of = |name: &str, column: &str| {
        let mut rows = functions["functions"].as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("{functions}"));
        row[column].as_f64().unwrap().round()
    };
    assert_eq!(functions["weightType"], "tracing-ms");
    assert_eq!((time_of("hash", "selfSamples"), time_of("hash", "selfPercentage")), (400.0, 40.0));
    assert_eq!((time_of("parse", "selfSamples"), time_of("parse", "totalSamples")), (200.0, 500.0));
    reader.ask(&["thread", "select", "t-1"]);
    let markers = reader.ask(&["thread", "markers"]);
    let longest = |name: &str| {
        let mut types = markers["byType"].as_array().unwrap().iter();
        let found = types.find(|one| one["markerName"] == name);
        found.unwrap_or_else(|| panic!("{markers}"))["durationStats"]["max"].as_f64().unwrap()
    };
    assert_eq!((longest("parse").round(), longest("hash").round()), (9.0, 2.0), "{markers}");
}
