//! `wasm-aot verify`

use super::{Failure, about, print, read};
use clap::Args;
use std::path::PathBuf;
use wasm_aot::verify;

/// Compile the module inside a file of machine code again, and compare
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The file of machine code
    file: PathBuf,
    /// The module that it should be of; without, only the code is compared with the module that the
    /// file holds
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
