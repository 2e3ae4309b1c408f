//! Modules of the existing compiler are attached to programs, and compared with the same scripts in
//! rewritten programs that an interpreter runs.

use super::library::{PROGRAMS, monitors, program, rewritten, rows};
use crate::stage::run;
use std::path::{Path, PathBuf};
use std::process::Command;
use wasm_aot::Val;
use wasm_aot::observer::ProbeCalls;
use whamm::Source;

/// Scripts of the library that it accepts.
const ACCEPTED: [&str; 10] = [
    "blocks",
    "branches",
    "call_graph",
    "calls",
    "functions",
    "hotness",
    "icount",
    "imix",
    "imix_fast",
    "loops",
];

/// Scripts with one variable each, among those that few engines provide.
const ASKING: [(&str, &str); 8] = [
    ("memory", "wasm:opcode:i32.load8_u:before { report var n: u32; n = memory; }"),
    ("default", "wasm:opcode:br_table:before { report var n: u32; n = default_target; }"),
    ("number", "wasm:opcode:br_table:before { report var n: u32; n = num_targets; }"),
    (
        "imported",
        "wasm:opcode:call:before / target_fn_type == \"import\" / { report var n: u32; n++; }",
    ),
    (
        "module",
        "wasm:opcode:call:before / target_imp_module == \"env\" / { report var n: u32; n++; }",
    ),
    ("called", "wasm:opcode:call:before { report var n: u32; n = target_fn_name.len(); }"),
    ("length", "wasm:opcode:i32.add:before { report var n: u32; n = fname.len(); }"),
    ("named", "wasm:opcode:i32.add:before { report var n: bool; n = fname == \"add\"; }"),
];

const VERSION: &str = "2.0.1";

/// Its command, and the module that its output imports, which is part of the package that cargo has
/// unpacked.
fn existing() -> Option<(PathBuf, Vec<u8>)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/whamm/bin/whamm");
    let said = |command: &PathBuf| Command::new(command).arg("--version").output().ok();
    let is_it = |command: &PathBuf| {
        said(command).is_some_and(|said| {
            String::from_utf8_lossy(&said.stdout).trim() == format!("whamm {VERSION}")
        })
    };
    let command = [own, "whamm".into()].into_iter().find(is_it)?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let file = format!("whamm-{VERSION}/embedded/release/whamm_core.wasm");
    let mut registries = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let core = registries.find_map(|registry| std::fs::read(registry.path().join(&file)).ok())?;
    Some((command, core))
}

/// Its module for a script.
fn made(command: &Path, name: &str, text: &str) -> Vec<u8> {
    let folder = test_support::Folder::new(&format!("wasm-aot-existing-{name}"));
    let (script, module) = (folder.join("script.mm"), folder.join("module.wasm"));
    std::fs::write(&script, text).expect("written");
    let arguments = ["instr", "--wei", "-s"].map(std::ffi::OsStr::new).into_iter();
    let arguments = arguments.chain([script.as_os_str(), "-o".as_ref(), module.as_os_str()]);
    let done =
        Command::new(command).args(arguments).current_dir(&folder).output().expect("it starts");
    std::fs::read(&module)
        .unwrap_or_else(|_| panic!("{name}: {}", String::from_utf8_lossy(&done.stdout)))
}

#[test]
fn modules_of_the_existing_compiler_say_what_an_interpreter_says() {
    let Some((command, core)) = existing() else {
        test_support::skip(&format!("whamm {VERSION} is missing: scripts/test installs it"));
        return;
    };
    let asking = ASKING.iter().map(|(name, text)| Source::new(*name, *text));
    let known = monitors().into_iter().filter(|script| ACCEPTED.contains(&script.name.as_str()));
    for script in &known.chain(asking).collect::<Vec<_>>() {
        let monitor = made(&command, &script.name, &script.text);
        for (name, calls) in
            PROGRAMS.into_iter().zip([ProbeCalls::Inlined, ProbeCalls::Direct].into_iter().cycle())
        {
            let app = program(name);
            let libraries: [(&str, &[u8]); 1] = [("whamm_core", &core)];
            let run = run(&[("monitor", &monitor)], &libraries, &app, calls);
            let mut run = run.unwrap_or_else(|error| panic!("{}: {error}", script.name));
            let _ = run.call("main", &[] as &[Val]);
            assert_eq!(
                rows(&run.report()),
                rewritten(script, &app),
                "{} on {name}, {calls:?}",
                script.name
            );
        }
    }
}
