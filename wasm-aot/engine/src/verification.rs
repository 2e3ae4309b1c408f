//! Verifies that a file of machine code is what its module compiles to, by compiling it again.

use crate::compile::{self, Target};
use crate::error::Error;
use crate::{artifact, runtime};
use std::path::Path;

/// Compiles the module inside a file of machine code again, with the options that the file names,
/// and compares. If `module` is given, the file has to be of that module.
pub fn verify(path: &Path, module: Option<&[u8]>) -> Result<(), Error> {
    let refused = |why: &str| Error::Artifact(format!("{}: {why}", path.display()));
    let native = Target::new(crate::Options::default())?;
    let artifact::FileOrigin { options, module: inside, monitors } =
        artifact::origin(path, &native)?;
    if let Some(module) = module {
        let wanted = runtime::binary(module)
            .map_err(|error| refused(&format!("what it is compared with is no module: {error}")))?;
        if *wanted != inside {
            return Err(refused("it was compiled from another module"));
        }
    }
    let target = Target::new(options)?;
    let compilation = compile::compile(&inside, &target, &compile::Plan::default())?;
    let again = artifact::write(&compilation, &target, &inside, &monitors);
    let found = std::fs::read(path).map_err(|error| refused(&error.to_string()))?;
    if again != found {
        return Err(refused("its module compiles to other bytes: compile it again"));
    }
    Ok(())
}
