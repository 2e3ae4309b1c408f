//! `wasm-aot inspect`

use super::{Failure, Making, about, print, read_module};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use wasm_aot::Module;
use wasm_aot::inspection::{Inspection, inspect};
use wasm_aot_engine::instrument::Printable;

/// Show the contents of a module or an .aot file
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A .wasm, .wat or .aot file
    file: PathBuf,
    /// Show one function's machine code beside its Wasm (a name or an index)
    #[arg(long, value_name = "FUNCTION", conflicts_with = "json")]
    disas: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    making: Making,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let engine = self.making.engine()?;
        let bytes = match Module::is_machine_code(&self.file) {
            true => None,
            false => Some(read_module(&self.file)?),
        };
        let inspection = inspect(&engine, &self.file, || bytes).map_err(about(&self.file))?;
        if let Some(wanted) = &self.disas {
            let listing = inspection
                .listing(wanted)
                .map_err(|why| Failure::new(format!("{}: {why}", self.file.display())))?;
            return print(listing);
        }
        print(match self.json {
            true => {
                serde_json::to_string(&inspection.summary()).expect("a summary can be written")
                    + "\n"
            }
            false => table(&inspection),
        })
    }
}

/// The summary of a module, as lines.
fn table(inspection: &Inspection) -> String {
    let summary = inspection.summary();
    let mut out = String::new();
    let _ = writeln!(out, "module      {}", summary.name.as_deref().unwrap_or("(no name)"));
    let _ = writeln!(out, "wasm        {} bytes", summary.wasm_bytes);
    let _ = writeln!(
        out,
        "code        {} bytes in {} functions and {} trampolines",
        summary.code_bytes,
        summary.functions.len(),
        summary.trampolines
    );
    let _ = writeln!(out, "traps       {}", summary.traps);
    let _ = writeln!(out, "sites       {}", summary.sites);
    let _ = writeln!(out, "handlers    {}", summary.handlers);
    for import in &summary.imports {
        let _ = writeln!(out, "import      {}", Printable(import));
    }
    for export in &summary.exports {
        let _ = writeln!(out, "export      {}", Printable(export));
    }
    for section in &summary.custom {
        let _ = writeln!(out, "section     {}", Printable(section));
    }
    let _ = writeln!(
        out,
        "{:>8} {:>10} {:>10} {:>6} {:>5}  name",
        "function", "wasm", "code", "bytes", "traps"
    );
    for function in &summary.functions {
        let _ = writeln!(
            out,
            "{:>8} {:>#10x} {:>#10x} {:>6} {:>5}  {}",
            function.index,
            function.wasm_offset,
            function.code_offset,
            function.code_bytes,
            function.traps,
            function.name
        );
    }
    out
}
