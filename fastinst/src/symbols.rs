//! Symbols: what functions are called, and where their source is.
//!
//! Names come from the tables of symbols of the file, or of the debug file that belongs to it by its build id; lines from debug
//! information, which is read only when a line is asked for. A stripped module has neither: then there is the module and an offset.

mod demangle;
mod pattern;

pub use demangle::demangled;
pub use pattern::{Pattern, PatternError};

use crate::discovery::{Contents, DiscoveryError, Image, Module};
use std::ops::Range;
use std::path::PathBuf;
use wordpatch::CodeAddr;

/// A function's symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name in the table.
    pub name: String,
    /// Where it begins.
    pub start: CodeAddr,
    /// How long it is; 0 if nobody knows.
    pub size: usize,
}

/// The symbols of a module.
pub struct Symbols {
    bias: usize,
    functions: Table,
    debug: PathBuf,
    lines: Option<Option<addr2line::Loader>>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols")
            .field("functions", &self.functions.rows.len())
            .field("debug", &self.debug)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    /// Reads the symbols of a module.
    pub fn load(module: &Module) -> Result<Self, DiscoveryError> {
        let contents = module.contents()?;
        let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
        let image = Image::parse(&contents).map_err(failed)?;
        let separate = debug_file(&image.build_id().unwrap_or_default());
        let mut functions = Table::default();
        functions.read(&image, module.bias);
        if let Some(debug) = &separate
            && let Ok(contents) = Contents::of(debug)
            && let Ok(image) = Image::parse(&contents)
        {
            functions.read(&image, module.bias);
        }
        functions.sort();
        Ok(Self { bias: module.bias, functions, debug: separate.unwrap_or_else(|| module.path.clone()), lines: None })
    }

    /// The function that an address lies in.
    pub fn name_at(&self, address: CodeAddr) -> Option<Symbol> {
        self.functions.at(address)
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.functions.rows.is_empty()
    }

    /// The source file and line of an address, where the program has debug information.
    pub fn line_of(&mut self, address: CodeAddr) -> Option<(String, u32)> {
        let debug = &self.debug;
        let lines = self.lines.get_or_insert_with(|| addr2line::Loader::new(debug).ok());
        let location = lines.as_ref()?.find_location(address.get().wrapping_sub(self.bias) as u64).ok()??;
        Some((location.file?.to_owned(), location.line.unwrap_or(0)))
    }
}

impl Symbols {
    /// The functions that an address is in by debug information, innermost first: those that were inlined, then the one that they were
    /// inlined into. Names are as the linker knows them. Empty where there is no debug information.
    pub fn inlined_at(&mut self, address: CodeAddr) -> Vec<String> {
        let debug = &self.debug;
        let lines = self.lines.get_or_insert_with(|| addr2line::Loader::new(debug).ok());
        let probe = address.get().wrapping_sub(self.bias) as u64;
        let Some(mut frames) = lines.as_ref().and_then(|lines| lines.find_frames(probe).ok()) else { return Vec::new() };
        let mut names = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|function| function.raw_name().ok().map(std::borrow::Cow::into_owned));
            names.extend(name);
        }
        names
    }
}

/// Functions by address. Their names lie in one text: a library has thousands, of which a profile asks for one or two.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    names: String,
}

/// A function, and where its name lies.
struct Row {
    start: CodeAddr,
    size: usize,
    name: Range<usize>,
}

impl Table {
    /// Adds the functions of an image.
    fn read(&mut self, image: &Image<'_>, bias: usize) {
        for (name, address, size) in image.functions() {
            let at = self.names.len();
            self.names.push_str(name);
            let start = CodeAddr::new(bias.wrapping_add(address as usize));
            self.rows.push(Row { start, size: size as usize, name: at..self.names.len() });
        }
    }

    /// Makes [`at`](Self::at) right. Of several names of a function the first in the alphabet stays.
    fn sort(&mut self) {
        let Self { rows, names } = self;
        rows.sort_unstable_by(|a, b| (a.start, &names[a.name.clone()]).cmp(&(b.start, &names[b.name.clone()])));
        rows.dedup_by(|a, b| a.start == b.start);
    }

    fn at(&self, address: CodeAddr) -> Option<Symbol> {
        let at = self.rows.partition_point(|row| row.start <= address).checked_sub(1)?;
        let row = &self.rows[at];
        let offset = address.distance_from(row.start) as usize;
        let holds = row.size == 0 || offset < row.size;
        holds.then(|| Symbol { name: self.names[row.name.clone()].to_owned(), start: row.start, size: row.size })
    }
}

/// Where distributions put the debug information that was split off: by build id.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"));
    path.is_file().then_some(path)
}
