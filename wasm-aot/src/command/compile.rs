//! `wasm-aot compile`

use super::{Failure, Making, about, read};
use clap::Args;
use std::io::Write as _;
use std::path::PathBuf;
use wasm_aot::Module;

/// Compile a module to a file of machine code
#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// The module: .wasm or .wat
    module: PathBuf,
    /// Where the machine code goes
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    making: Making,
}

impl Compile {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let output = self.output.unwrap_or_else(|| self.module.with_extension("aot"));
        if output == self.module {
            return Err(Failure::usage(format!("{}: the module would be overwritten: say where to with -o", output.display())));
        }
        let bytes = read(&self.module)?;
        let compiled = Module::precompile(&self.making.engine()?, bytes).map_err(about(&self.module))?;
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", output.display()));
        // Whoever runs the file meanwhile keeps the old one.
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
        let mut draft = tempfile::Builder::new().prefix(".wasm-aot").tempfile_in(folder).map_err(failed)?;
        draft.write_all(&compiled).map_err(failed)?;
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        draft.as_file().set_permissions(permissions).map_err(failed)?;
        draft.persist(&output).map_err(|error| failed(error.error))?;
        Ok(())
    }
}
