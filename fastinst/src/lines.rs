//! Source lines of a profile's functions, found when it is shown: the process that was profiled is
//! not made to read them.

use crate::discovery::Module;
use crate::symbols::Symbols;
use profiler::Profile;
use std::collections::HashMap;
use std::path::Path;
use wordpatch::CodeAddr;

/// Finds the source file and line of every function whose module is still the one that was
/// profiled.
pub fn find(profile: &mut Profile) {
    let mut known = HashMap::<u32, Option<Symbols>>::new();
    let modules = profile.modules.clone();
    for label in profile.functions.iter_mut().map(|function| &mut function.label) {
        let Some(number) = label.module else { continue };
        let symbols = known.entry(number).or_insert_with(|| {
            let told = modules.get(number as usize)?;
            let module = Module::of_file(Path::new(&told.path)).ok()?;
            (module.build_id() == told.build_id).then(|| Symbols::load(&module).ok())?
        });
        let line = symbols
            .as_mut()
            .and_then(|symbols| symbols.line_of(CodeAddr::new(label.offset as usize)));
        if let Some((file, line)) = line {
            (label.file, label.line) = (Some(file), Some(line));
        }
    }
}
