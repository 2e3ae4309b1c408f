//! `wasm-aot inspect`

use super::{Failure, Making, about, read};
use clap::Args;
use std::path::PathBuf;
use wasm_aot::inspection::{Inspection, inspect};

/// Show what a module or a file of machine code consists of
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// .wasm, .wat or .aot
    file: PathBuf,
    /// One function's machine code beside its Wasm: a name, or an index
    #[arg(long, value_name = "FUNCTION")]
    disas: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    making: Making,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let engine = self.making.engine()?;
        let inspection = inspect(&engine, &self.file, || read(&self.file).ok()).map_err(about(&self.file))?;
        if let Some(wanted) = &self.disas {
            let listing = inspection.listing(wanted).map_err(|why| Failure::new(format!("{}: {why}", self.file.display())))?;
            print!("{listing}");
            return Ok(());
        }
        match self.json {
            true => println!("{}", serde_json::to_string(&inspection.summary()).expect("a summary can be written")),
            false => print(&inspection),
        }
        Ok(())
    }
}

fn print(inspection: &Inspection) {
    let summary = inspection.summary();
    println!("module      {}", summary.name.as_deref().unwrap_or("(no name)"));
    println!("wasm        {} bytes", summary.wasm_bytes);
    println!(
        "code        {} bytes in {} functions and {} trampolines",
        summary.code_bytes,
        summary.functions.len(),
        summary.trampolines
    );
    println!("traps       {}", summary.traps);
    println!("handlers    {}", summary.handlers);
    for import in &summary.imports {
        println!("import      {import}");
    }
    for export in &summary.exports {
        println!("export      {export}");
    }
    for section in &summary.custom {
        println!("section     {section}");
    }
    println!("{:>8} {:>10} {:>10} {:>6} {:>5}  name", "function", "wasm", "code", "bytes", "traps");
    for function in &summary.functions {
        println!(
            "{:>8} {:>#10x} {:>#10x} {:>6} {:>5}  {}",
            function.index, function.wasm_offset, function.code_offset, function.code_bytes, function.traps, function.name
        );
    }
}
