//! Small programs and their runs, one for each kind of boundary crossing: the files in `micro`.
//! Each is a module in text, followed by its trace, whose lines begin with `;; `.
//!
//! If the program exits, a call that has not returned is written as FUNCTION@NUMBER. The calls of a
//! function are numbered because offsets in bytes are not visible in the text.

use std::fs;
use std::path::{Path, PathBuf};
use wasm_aot_trace::{End, Event, Program, TextReader, heading};

/// A program, and a run of it.
pub(super) struct Micro {
    /// The name of its file.
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) events: Vec<Event>,
}

impl Micro {
    /// Whether the run ends by a trap.
    #[allow(dead_code, reason = "one of the tests that use these programs does not ask")]
    pub(super) fn traps(&self) -> bool {
        matches!(self.events.last(), Some(Event::Leave(End::Trap(_))))
    }
}

/// Returns all programs, by name.
pub(super) fn programs() -> Vec<Micro> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder: PathBuf = folder
        .map(|base| base.join("wasm-aot/trace/tests/micro"))
        .find(|folder| folder.is_dir())
        .expect("the programs' folder");
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a program");
        let trace = text.lines().filter_map(|line| line.strip_prefix(";; "));
        let trace: String = trace.map(|line| format!("{line}\n")).collect();
        let module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let events = events(&module, &trace);
        Micro { name, module, events }
    };
    paths.iter().map(read).collect()
}

/// Reads events from their text, with calls as numbers.
pub(super) fn events(module: &[u8], trace: &str) -> Vec<Event> {
    let text = heading(&Program::new(Vec::new(), "app.wasm")) + trace;
    let reader = TextReader::new(text.as_bytes()).expect("a heading");
    let all: Result<Vec<Event>, _> = reader.collect();
    let mut all = all.unwrap_or_else(|error| panic!("{error}: {trace}"));
    for event in &mut all {
        if let Event::Return(End::Exit { frames, .. }) = event {
            for frame in frames {
                let calls = calls(module, frame.function);
                frame.offset = calls.get(frame.offset as usize).copied().unwrap_or(frame.offset);
            }
        }
    }
    all
}

/// The offset of each call instruction of a function.
fn calls(module: &[u8], function: u32) -> Vec<u32> {
    let (mut at, mut found) = (0, Vec::new());
    for payload in wasmparser::Parser::new(0).parse_all(module) {
        match payload.expect("valid") {
            wasmparser::Payload::ImportSection(imports) => at = imports.count(),
            wasmparser::Payload::CodeSectionEntry(body) => {
                let operators =
                    body.get_operators_reader().expect("valid").into_iter_with_offsets();
                for operator in operators.filter(|_| at == function) {
                    let (operator, offset) = operator.expect("valid");
                    if matches!(operator, wasmparser::Operator::Call { .. }) {
                        found.push(offset as u32);
                    }
                }
                at += 1;
            }
            _ => {}
        }
    }
    found
}
