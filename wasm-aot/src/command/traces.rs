//! Traces: files of either format, and `wasm-aot trace`.

use super::replay::recorded_module;
use super::{Failure, input, print};
use clap::{Args, Subcommand};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasm_aot::instrument::runtime::binary;
use wasm_aot::trace::{
    Declared, Ending, Error, Event, MAGIC, Program, R3Reader, R3Writer, Reader, TEXT_MAGIC,
    TextReader, heading, is_r3, is_text,
};
use wasm_aot_body::report::several;

/// Show and compare traces
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a trace as text: a line for each event
    Show {
        /// Format; Wasm-R3's refuses events that it cannot express
        #[arg(long, value_enum, default_value = "text")]
        format: Form,
        /// Write events that the format cannot express as well as possible, and report how much was
        /// lost
        #[arg(long)]
        lossy: bool,
        /// The trace; also in Wasm-R3's format
        file: PathBuf,
        /// The recorded module, if the trace does not contain it
        module: Option<PathBuf>,
    },
    /// Compare the events of two traces; the exit code is 1 if they differ
    Diff {
        /// First trace
        a: PathBuf,
        /// Second trace
        b: PathBuf,
    },
}

/// Forms of traces in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// fi-trace text
    Text,
    /// Wasm-R3's text
    R3,
}

impl Trace {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Show { format: Form::Text, file, module, .. } => show(file, module.as_deref()),
            Command::Show { format: Form::R3, lossy, file, module } => {
                show_r3(file, module.as_deref(), *lossy)
            }
            Command::Diff { a, b } => diff(a, b),
        }
    }
}

/// A trace that is being read, in either format.
pub(crate) enum Events {
    Binary(Box<Reader<BufReader<File>>>),
    Text(TextReader<File>),
    R3(Box<R3Reader<File>>, Program),
}

impl Events {
    /// Opens a trace, which may be in the format of Wasm-R3 if its module is named.
    pub(crate) fn open_of(path: &Path, module: Option<&Path>) -> Result<Self, Failure> {
        let (true, Some(module)) = (has_r3_form(path), module) else { return Self::open(path) };
        let failed = |error: Error| Failure::new(format!("{}: {error}", path.display()));
        let bytes = super::read(module)?;
        let bytes = binary(&bytes)
            .map_err(|error| Failure::new(format!("{}: {error}", module.display())))?;
        let file = input::open(path).map_err(|error| failed(error.into()))?;
        let reader = R3Reader::new(&bytes, file).map_err(failed)?;
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let mut program = Program::new(bytes.to_vec(), name);
        program.module = None;
        program.recorder = "Wasm-R3".into();
        Ok(Self::R3(Box::new(reader), program))
    }

    /// Whether it lacks arguments and some of the results.
    pub(crate) fn is_partial(&self) -> bool {
        matches!(self, Self::R3(..))
    }

    /// Opens a trace.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if has_r3_form(path) {
            return Err(Failure::usage(format!(
                "{}: a trace in the form of Wasm-R3, which does not name its module: name it after the trace, with `replay -o` or `trace show`",
                path.display()
            )));
        }
        let failed = |error: Error| Failure::new(format!("{}: {error}", path.display()));
        let mut file = input::open(path).map_err(|error| failed(error.into()))?;
        let mut head = [0; TEXT_MAGIC.len()];
        let len = file.read(&mut head).map_err(|error| failed(error.into()))?;
        file.rewind().map_err(|error| failed(error.into()))?;
        match is_text(&head[..len]) {
            true => TextReader::new(file).map(Self::Text),
            false => Reader::new(BufReader::new(file)).map(|reader| Self::Binary(Box::new(reader))),
        }
        .map_err(failed)
    }

    /// The recorded program.
    pub(crate) fn program(&self) -> &Program {
        match self {
            Self::Binary(reader) => reader.program(),
            Self::Text(reader) => reader.program(),
            Self::R3(_, program) => program,
        }
    }

    /// The time that the host had control in calls of the program, if the trace contains it; known
    /// when all of it was read.
    pub(crate) fn host_time(&self) -> Option<Duration> {
        if let Self::Binary(reader) = self { reader.host_time() } else { None }
    }

    /// A message about how it ends; known when all of it was read.
    pub(crate) fn ending(&self) -> Option<String> {
        let Self::Binary(reader) = self else { return None };
        match reader.ending()? {
            Ending::Whole => None,
            Ending::Cut => Some("the trace was cut off here".into()),
            Ending::Stopped(why) => Some(format!("recording ended here: {why}")),
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Binary(reader) => reader.next(),
            Self::Text(reader) => reader.next(),
            Self::R3(reader, _) => reader.next(),
        }
    }
}

/// Whether a file is a trace in the format of Wasm-R3.
fn has_r3_form(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = input::open(path).map(|file| file.take(1 << 12).read_to_end(&mut head));
    file.is_ok() && is_r3(&head)
}

/// Whether a file is a trace.
pub(crate) fn is_trace(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    input::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && head == *MAGIC
}

/// Returns the module inside a trace.
pub(crate) fn module_inside(path: &Path) -> Result<Vec<u8>, Failure> {
    let events = Events::open(path)?;
    let module = events.program().module_or(None).map(Cow::into_owned);
    module.map_err(|_| {
        Failure::new(format!(
            "{}: the trace does not contain the module: make a module that needs no host with `wasm-aot replay TRACE MODULE -o BENCH.wasm`",
            path.display()
        ))
    })
}

fn show_r3(path: &Path, module: Option<&Path>, is_lossy: bool) -> Result<(), Failure> {
    let failed = |error: Error| Failure::new(format!("{}: {error}", path.display()));
    let mut events = Events::open_of(path, module)?;
    let module = recorded_module(events.program(), path, module)?;
    let declared = Declared::read(&module).map_err(failed)?;
    let mut writer = R3Writer::new(&declared, is_lossy);
    let mut lines = String::new();
    for event in &mut events {
        lines += &writer.push(&event.map_err(failed)?).map_err(failed)?;
        if lines.len() > 1 << 16 {
            print(std::mem::take(&mut lines))?;
        }
    }
    print(lines)?;
    for (what, count) in writer.losses() {
        super::complain(format!("{}: lost {}: {what}", path.display(), several(*count, "time")));
    }
    Ok(())
}

fn show(path: &Path, module: Option<&Path>) -> Result<(), Failure> {
    let mut events = Events::open_of(path, module)?;
    print(heading(events.program()))?;
    let (mut lines, mut count) = (String::new(), 0u64);
    for event in &mut events {
        let event = event.map_err(|error| Failure::new(format!("{}: {error}", path.display())));
        match event {
            Ok(event) => lines += &format!("{event}\n"),
            Err(failure) => {
                print(&lines)?;
                return Err(failure);
            }
        }
        count += 1;
        if lines.len() > 1 << 16 {
            print(std::mem::take(&mut lines))?;
        }
    }
    let ending = events.ending().map(|ending| format!("# {ending}\n")).unwrap_or_default();
    print(format!("{lines}{ending}# {}\n", several(count, "event")))
}

fn diff(a: &Path, b: &Path) -> Result<(), Failure> {
    let (mut first, mut second) = (Events::open(a)?, Events::open(b)?);
    let (one, other) = (first.program().hash, second.program().hash);
    if one != other {
        let text =
            format!("the modules differ\n  {}: {one}\n  {}: {other}\n", a.display(), b.display());
        print(text)?;
        return Err(Failure::silent(1));
    }
    let mut number = 0u64;
    loop {
        let next = |events: &mut Events, path: &Path| {
            let event = events.next().transpose();
            event.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
        };
        match (next(&mut first, a)?, next(&mut second, b)?) {
            (None, None) => return print(format!("equal: {}\n", several(number, "event"))),
            (one, other) if one == other => number += 1,
            (one, other) => {
                let shown = |event: Option<Event>| {
                    event
                        .map_or_else(|| "the trace has ended".to_owned(), |event| event.to_string())
                };
                let (one, other) = (shown(one), shown(other));
                print(format!(
                    "event {number} differs\n  {}: {one}\n  {}: {other}\n",
                    a.display(),
                    b.display()
                ))?;
                return Err(Failure::silent(1));
            }
        }
    }
}
