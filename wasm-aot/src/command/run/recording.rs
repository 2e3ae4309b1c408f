//! Recording the run.

use super::super::output::TraceFile;
use super::super::traces::{self, Events};
use super::super::{Failure, about, read_module};
use super::{Run, World};
use std::borrow::Cow;
use std::path::Path;
use wasm_aot::instrument::runtime::binary;
use wasm_aot::recording::Recorder;
use wasm_aot::trace::{Linked, Part, canonical};
use wasm_aot::{Error, Module, Store};

impl Run {
    /// Starts a recording.
    pub(super) fn recorder(
        &self,
        path: &Path,
        store: &mut Store<World>,
        libraries: &[(String, Module)],
        module: &Module,
    ) -> Result<Recorder<TraceFile>, Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = self.module.file_name().unwrap_or_default().to_string_lossy();
        // Modules that import from each other are recorded as one.
        let all = libraries.iter().map(|(name, module)| (&**name, module)).chain([("", module)]);
        let parts: Vec<_> =
            all.map(|(name, module)| Part { name, module: &module.inner().bytes }).collect();
        let linked = (parts.len() > 1).then(|| Linked::new(&parts)).transpose();
        let linked = linked.map_err(|error| {
            Failure::new(format!("{}: --preload: {error}", self.module.display()))
        })?;
        let whole = linked.as_ref().map_or(&*module.inner().bytes, |linked| &linked.module);
        let mut program = wasm_aot::trace::Program::new(whole.to_vec(), name);
        let own = self.arg0.as_deref().unwrap_or(self.module.as_os_str());
        let args = std::iter::once(own).chain(self.args.iter().map(|arg| &**arg));
        program.args = args.map(|arg| arg.as_bytes().to_vec()).collect();
        // A recording of a replay names the program that was recorded originally.
        if traces::is_trace(&self.module) {
            program = Events::open(&self.module)?.program().clone();
        }
        let file = TraceFile::growing(path)?;
        match linked {
            None => Recorder::new(store, module, &program, file),
            Some(linked) => {
                let modules = libraries.iter().map(|(_, module)| module).chain([module]);
                let modules: Vec<&Module> = modules.collect();
                Recorder::linked(store, &modules, linked, &program, file)
            }
        }
        .map_err(|error| match error {
            Error::Host(why) if why.is::<std::io::Error>() => {
                Failure::new(format!("{}: {why}", path.display()))
            }
            other => about(&self.module)(other),
        })
    }

    /// The program in a file, or in a trace. A program that is recorded has no relaxed vector
    /// instructions: what they give depends on the processor.
    pub(super) fn program_in(&self, path: &Path) -> Result<Vec<u8>, Failure> {
        if traces::is_trace(path) {
            return traces::module_inside(path);
        }
        let bytes = read_module(path)?;
        if self.is_recorded {
            let module = binary(&bytes).map_err(|error| about(path)(error.into()))?;
            // What is not valid is refused when it is compiled.
            if let Ok(Cow::Owned(recorded)) = canonical(&module) {
                return Ok(recorded);
            }
        }
        Ok(bytes)
    }
}
