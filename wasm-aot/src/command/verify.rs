//! `wasm-aot verify`

use super::{Failure, about, print, read};
use clap::Args;
use std::path::PathBuf;
use wasm_aot::verify;

/// Check that an .aot file's code is what the module inside compiles to
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The .aot file
    file: PathBuf,
    /// The module that the file should contain; without this option, only the code is compared with
    /// the module in the file
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let module = self.module.as_deref().map(read).transpose()?;
        verify(&self.file, module.as_deref()).map_err(about(&self.file))?;
        print(format!("{}: is what its module compiles to\n", self.file.display()))
    }
}
