//! `whamm record`: a program that records its own run.

use super::write;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use whamm::{Diagnostics, Kind};
use whamm_record::{Options, Server, glue};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  whamm record app.wasm -o app.rec.wasm        app.rec.wasm writes app.r3 …
  wasmtime run --dir . app.rec.wasm            … on any engine, to a folder
  wasm-aot replay app.r3 app.wasm -o bench.wasm

  whamm record app.wasm --glue js -o glue.js   a script for pages and node …
  wasm-aot record --serve 7433 glue.js         … sends traces to this …
  node --require ./glue.js app.js              … of whatever runs app.wasm")]
pub(super) struct Record {
    /// The program, in binary or text format.
    app: PathBuf,
    /// Output file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Trace file: a path as the program sees it, in a folder that it may write to. Default: the
    /// program's name with .r3, if it uses WASI.
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    to: Option<String>,
    /// Keep the trace for the host, which fetches it in pieces with `record:fetch`.
    #[arg(long, conflicts_with = "to")]
    host: bool,
    /// Record every access of memories and globals and every function entry, without omitting
    /// redundant events; `wasm-aot reduce` turns this into the usual trace.
    #[arg(long)]
    raw: bool,
    /// Write a script for browsers, workers and node instead of a module. JavaScript that loads it
    /// and then compiles the program gets the rewritten program; traces are sent to
    /// `wasm-aot record --serve`.
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["to", "host"])]
    glue: Option<Glue>,
    /// Port of that server, on this machine.
    #[arg(long, value_name = "PORT", requires = "glue", default_value_t = 7433,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// Kinds of scripts.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Glue {
    /// JavaScript
    Js,
}

impl Record {
    pub(super) fn run(&self) -> Result<Diagnostics, Diagnostics> {
        let module = super::module(&self.app)?;
        let name = self.app.display().to_string();
        let wrong = |kind: Kind, what: &dyn std::fmt::Display| {
            Diagnostics::general(kind, format!("{name}: {what}"))
        };
        let file = match (&self.to, self.host || self.glue.is_some()) {
            (Some(file), _) => Some(file.clone()),
            (None, false) if uses_wasi(&module) => {
                let stem = self.app.file_stem().unwrap_or_default().to_string_lossy();
                Some(format!("{stem}.r3"))
            }
            (None, _) => None,
        };
        let own = self.app.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let options = Options { name: own, file, raw: self.raw };
        let recording = whamm_record::record(&module, &options)
            .map_err(|error| wrong(Kind::GeneralError, &error))?;
        if self.glue.is_some() {
            let stem = self.app.file_stem().unwrap_or_default().to_string_lossy();
            let server = Server { port: self.port, token: token()? };
            let script = glue(&module, &recording.module, &stem, &server);
            write(&self.output, script.as_bytes())?;
            let output = self.output.display();
            super::note(format_args!(
                "{output}: traces go to `wasm-aot record --serve {} {output}`, which knows them by \
                 the token in the script",
                self.port
            ));
        } else {
            write(&self.output, &recording.module)?;
        }
        if options.file.is_none() && self.glue.is_none() {
            super::note(format_args!(
                "{name}: the host fetches the trace, by `record:fetch`; --to FILE has it written"
            ));
        }
        for note in recording.notes {
            super::note(format_args!("{name}: {note}"));
        }
        Ok(Diagnostics::default())
    }
}

/// A random number, as text.
fn token() -> Result<String, Diagnostics> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        Diagnostics::general(Kind::GeneralError, format!("/dev/urandom: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a module has imports from WASI.
fn uses_wasi(module: &[u8]) -> bool {
    let sections = wasmparser::Parser::new(0).parse_all(module).filter_map(Result::ok);
    let mut imports = sections.filter_map(|payload| match payload {
        wasmparser::Payload::ImportSection(section) => Some(section),
        _ => None,
    });
    imports.any(|section| {
        section
            .into_imports()
            .filter_map(Result::ok)
            .any(|import| import.module.starts_with("wasi_snapshot_preview"))
    })
}
