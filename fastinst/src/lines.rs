//! Data that readers of a profile find in the files of its modules: source lines of functions, and
//! names of callers in separate debug files. They are looked up when the profile is shown, not in
//! the profiled process.

use crate::discovery::{Module, module_name};
use crate::symbols::{Symbols, demangled};
use profiler::{Label, Profile};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wordpatch::CodeAddr;

/// The symbols of a profile's modules, read on demand.
struct Files {
    modules: Vec<profiler::Module>,
    /// When the profile began.
    started: SystemTime,
    read: HashMap<u32, Option<Symbols>>,
}

impl Files {
    fn of(profile: &Profile) -> Self {
        let started = UNIX_EPOCH + Duration::from_nanos(profile.header.started);
        Self { modules: profile.modules.clone(), started, read: HashMap::new() }
    }

    /// Those of a module, if its file is still the one that was profiled.
    fn symbols(&mut self, number: u32) -> Option<&mut Symbols> {
        let Self { modules, started, .. } = self;
        let symbols = self.read.entry(number).or_insert_with(|| {
            let told = modules.get(number as usize)?;
            let module = Module::of_file(Path::new(&told.path)).ok()?;
            let is_same = module.build_id() == told.build_id
                && (!told.build_id.is_empty() || is_older(&module.path, *started));
            is_same.then(|| Symbols::load(&module).ok())?
        });
        symbols.as_mut()
    }

    /// Gives a label without a name the one that the debug file has.
    fn name(&mut self, label: &mut Label) {
        if !label.name.contains("+0x") {
            return;
        }
        let Some(number) = label.module else { return };
        let Some(module) = self.modules.get(number as usize) else { return };
        let place = format!("{}+{:#x}", module_name(Path::new(&module.path)), label.offset);
        if label.name != place {
            return;
        }
        let address = CodeAddr::new(label.offset as usize);
        let symbol = self.symbols(number).and_then(|symbols| symbols.name_at(address));
        if let Some(symbol) = symbol {
            label.name = demangled(&symbol.name);
            label.offset = symbol.start.get() as u64;
        }
    }
}

/// Whether a file was last written to before that.
fn is_older(path: &Path, than: SystemTime) -> bool {
    std::fs::metadata(path).and_then(|data| data.modified()).is_ok_and(|written| written <= than)
}

/// Finds the source file and line of every function whose module is still the one that was
/// profiled.
pub fn find(profile: &mut Profile) {
    let mut files = Files::of(profile);
    for label in profile.functions.iter_mut().map(|function| &mut function.label) {
        let symbols = label.module.and_then(|number| files.symbols(number));
        let line =
            symbols.and_then(|symbols| symbols.line_of(CodeAddr::new(label.offset as usize)));
        if let Some((file, line)) = line {
            (label.file, label.line) = (Some(file), Some(line));
        }
    }
}

/// Names functions and callers as people write them. A process that is profiled leaves names as its
/// tables of symbols have them, and callers without a name where only a debug file has one.
pub fn name(profile: &mut Profile) {
    profile.rename(demangled);
    let mut files = Files::of(profile);
    let arcs = profile.functions.iter_mut().flat_map(|function| &mut function.arcs);
    arcs.filter_map(|arc| arc.caller.as_mut()).for_each(|caller| files.name(caller));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The label of a place of this program, `bytes` behind where a function of ours begins; and
    /// what reads the program's file.
    fn place(bytes: u64, build_id: Option<&str>) -> (Label, Files) {
        let path = std::env::current_exe().unwrap();
        let module = Module::of_file(&path).unwrap();
        let begin = place as fn(_, _) -> _ as usize - Module::loaded()[0].bias;
        let offset = begin as u64 + bytes;
        let name = format!("{}+{offset:#x}", module.name);
        let build_id = build_id.map_or_else(|| module.build_id(), str::to_owned);
        let module = profiler::Module { path: path.display().to_string(), build_id };
        let label = Label { name, module: Some(0), offset, ..Label::default() };
        (label, Files { modules: vec![module], started: UNIX_EPOCH, read: HashMap::new() })
    }

    #[test]
    fn a_caller_without_a_name_gets_that_of_its_function() {
        let (mut label, mut files) = place(3, None);
        let begin = label.offset - 3;
        files.name(&mut label);
        assert!(label.name.ends_with("lines::tests::place"), "{}", label.name);
        assert_eq!(label.offset, begin);
    }

    #[test]
    fn a_caller_with_a_name_and_one_of_another_file_stay() {
        let (mut named, mut files) = place(3, None);
        named.name = "here".to_owned();
        let before = named.clone();
        files.name(&mut named);
        assert_eq!(named, before);
        let (mut foreign, mut files) = place(3, Some("00"));
        let before = foreign.clone();
        files.name(&mut foreign);
        assert_eq!(foreign, before);
    }
}
