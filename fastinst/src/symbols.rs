//! Symbols: names and source locations of functions.
//!
//! Names come from the symbol tables of the file, or of the debug file that belongs to it by its
//! build ID; lines come from debug information, which is read only when a line is requested. A
//! stripped module has neither: then names are the module and an offset.

mod demangle;
mod pattern;

pub use demangle::demangled;
pub use pattern::{Pattern, PatternError, Subject};

use crate::discovery::points::PointNames;
use crate::discovery::registered::Registered;
use crate::discovery::{Contents, DiscoveryError, Image, Module};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use wordpatch::CodeAddr;

/// A function's symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name in the table.
    pub name: String,
    /// Where it begins.
    pub start: CodeAddr,
    /// How long it is; 0 where its table does not say.
    pub size: usize,
}

impl Symbol {
    /// How long it is, where its table says.
    pub fn known_size(&self) -> Option<usize> {
        (self.size > 0).then_some(self.size)
    }
}

/// The symbols of a module.
pub struct Symbols {
    functions: Table,
    module: Module,
    /// The separate debug file.
    debug: Option<PathBuf>,
    lines: Option<Option<addr2line::Loader>>,
    /// Of code that a runtime has made: its functions, which get variants while it runs, and their
    /// lines.
    registered: Option<Arc<Registered>>,
    /// Points that have probes.
    points: Option<Arc<PointNames>>,
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
        let mut functions = Table::default();
        if module.registered.is_some() {
            let (registered, lines) = (module.registered.clone(), Some(None));
            let (module, debug, points) = (module.clone(), None, None);
            return Ok(Self { module, functions, debug, lines, registered, points });
        }
        let separate = with_images(module, |image| functions.read(image, module.bias))?;
        functions.sort();
        Ok(Self {
            module: module.clone(),
            functions,
            debug: separate,
            lines: None,
            registered: None,
            points: module.points.clone(),
        })
    }

    /// The function of a module that an address lies in, as [`name_at`](Self::name_at) says,
    /// without a table: for one address or two.
    pub(crate) fn look_up(
        module: &Module,
        address: CodeAddr,
    ) -> Result<Option<Symbol>, DiscoveryError> {
        let mut nearest = Nearest::to(module, address);
        with_images(module, |image| nearest.visit(image))?;
        Ok(nearest.symbol())
    }

    /// The same by the module's own file. A separate debug file is twenty times as large: what a
    /// program waits for is not searched there.
    pub(crate) fn look_up_in_own_file(
        module: &Module,
        address: CodeAddr,
    ) -> Result<Option<Symbol>, DiscoveryError> {
        let mut nearest = Nearest::to(module, address);
        with_own_image(module, |image| nearest.visit(image))?;
        Ok(nearest.symbol())
    }

    /// Points of a library that is loaded later are found after it was first seen, and perhaps after
    /// its symbols were read.
    pub(crate) fn learn_points(&mut self, module: &Module) {
        if module.points.is_some() {
            self.points.clone_from(&module.points);
        }
    }

    /// The point that is there, or the function that an address lies in.
    pub fn name_at(&self, address: CodeAddr) -> Option<Symbol> {
        let point = self.points.as_ref().and_then(|points| points.get(&address));
        match (&self.registered, point) {
            (_, Some(name)) => Some(Symbol { name: name.clone(), start: address, size: 0 }),
            (Some(registered), _) => registered.at(address).map(|function| Symbol {
                size: function.size(),
                name: function.name,
                start: function.start,
            }),
            (None, _) => self.functions.at(address),
        }
    }

    /// Where the function begins that an address lies in.
    pub fn start_of(&self, address: CodeAddr) -> Option<CodeAddr> {
        match &self.registered {
            Some(registered) => registered.at(address).map(|function| function.start),
            None => self.functions.row_at(address).map(|row| row.start),
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.functions.rows.is_empty() && self.registered.is_none()
    }

    /// The source file and line of an address, where the program has debug information.
    pub fn line_of(&mut self, address: CodeAddr) -> Option<(String, u32)> {
        if let Some(registered) = &self.registered {
            let function = registered.at(address)?;
            return Some((function.file?, function.line.unwrap_or(0)));
        }
        let probe = self.in_file(address);
        let location = self.lines()?.find_location(probe).ok()??;
        Some((location.file?.to_owned(), location.line.unwrap_or(0)))
    }
}

impl Symbols {
    /// An address, as the file has it.
    fn in_file(&self, address: CodeAddr) -> u64 {
        address.get().wrapping_sub(self.module.bias) as u64
    }

    /// The debug information, which is read now.
    fn lines(&mut self) -> Option<&addr2line::Loader> {
        let (module, debug) = (&self.module, &self.debug);
        let load = || {
            let debug = debug.clone().or_else(|| Some(module.file().ok()?.0))?;
            addr2line::Loader::new(debug).ok()
        };
        self.lines.get_or_insert_with(load).as_ref()
    }

    /// The functions that an address is in by debug information, innermost first: those that were
    /// inlined, then the one that they were inlined into. Names are as the linker knows them. Empty
    /// where there is no debug information.
    pub fn inlined_at(&mut self, address: CodeAddr) -> Vec<String> {
        let probe = self.in_file(address);
        let Some(mut frames) = self.lines().and_then(|lines| lines.find_frames(probe).ok()) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame
                .function
                .and_then(|function| function.raw_name().ok().map(std::borrow::Cow::into_owned));
            names.extend(name);
        }
        names
    }
}

/// The search for the function that begins last before an address.
struct Nearest {
    /// What is added to addresses of the file.
    bias: usize,
    /// The address, in the file.
    wanted: u64,
    /// Where the function begins, how long it is, and its name.
    best: Option<(u64, u64, Vec<u8>)>,
}

impl Nearest {
    fn to(module: &Module, address: CodeAddr) -> Self {
        let wanted = address.get().wrapping_sub(module.bias) as u64;
        Self { bias: module.bias, wanted, best: None }
    }

    /// Of several names of a function the first in the alphabet stays.
    fn visit(&mut self, image: &Image<'_>) {
        for table in image.function_tables() {
            for function in table.named().filter(|function| function.address <= self.wanted) {
                let nearest = self.best.as_ref().map_or(0, |best| best.0);
                if function.address < nearest {
                    continue;
                }
                let Some(name) = name_in(table.text(), function.name) else { continue };
                let is_better = self
                    .best
                    .as_ref()
                    .is_none_or(|best| function.address > nearest || name < &best.2[..]);
                if is_better {
                    self.best = Some((function.address, function.size, name.to_vec()));
                }
            }
        }
    }

    /// The function, if the address lies in it.
    fn symbol(self) -> Option<Symbol> {
        let (start, size, name) = self.best?;
        (size == 0 || self.wanted - start < size).then(|| Symbol {
            name: String::from_utf8_lossy(&name).into_owned(),
            start: CodeAddr::new(self.bias.wrapping_add(start as usize)),
            size: size as usize,
        })
    }
}

/// Functions by address. Their names stay where they were, in copies of the texts of the file's
/// tables: a library has thousands, of which a profile asks for one or two.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    texts: Vec<Box<[u8]>>,
}

/// A function, and where its name lies: in which text, from which byte on.
#[derive(Clone, Copy)]
struct Row {
    start: CodeAddr,
    size: usize,
    text: u32,
    name: u32,
}

impl Table {
    /// Adds the functions of an image.
    fn read(&mut self, image: &Image<'_>, bias: usize) {
        for table in image.function_tables() {
            let text = self.texts.len() as u32;
            self.texts.push(table.text().into());
            self.rows.extend(table.named().map(|function| Row {
                start: CodeAddr::new(bias.wrapping_add(function.address as usize)),
                size: function.size as usize,
                text,
                name: function.name,
            }));
        }
    }

    /// Makes [`at`](Self::at) right. Of several names of a function the first in the alphabet
    /// stays.
    fn sort(&mut self) {
        let Self { rows, texts } = self;
        rows.retain(|row| (row.name as usize) < texts[row.text as usize].len());
        rows.sort_unstable_by(|a, b| {
            a.start.cmp(&b.start).then_with(|| name(texts, a).cmp(&name(texts, b)))
        });
        rows.dedup_by(|a, b| a.start == b.start);
    }

    fn at(&self, address: CodeAddr) -> Option<Symbol> {
        let row = self.row_at(address)?;
        let name = name(&self.texts, row)?;
        let name = str::from_utf8(name)
            .map_or_else(|_| String::from_utf8_lossy(name).into_owned(), str::to_owned);
        Some(Symbol { name, start: row.start, size: row.size })
    }

    /// The function that holds an address.
    fn row_at(&self, address: CodeAddr) -> Option<&Row> {
        let at = self.rows.partition_point(|row| row.start <= address).checked_sub(1)?;
        let row = &self.rows[at];
        let offset = address.distance_from(row.start) as usize;
        (row.size == 0 || offset < row.size).then_some(row)
    }
}

fn name<'t>(texts: &'t [Box<[u8]>], row: &Row) -> Option<&'t [u8]> {
    name_in(&texts[row.text as usize], row.name)
}

/// The name that begins there.
fn name_in(text: &[u8], at: u32) -> Option<&[u8]> {
    let rest = text.get(at as usize..)?;
    rest.get(..memchr::memchr(0, rest)?)
}

/// Shows the image of a module, and that of the debug file that belongs to it, which is returned.
pub(crate) fn with_images(
    module: &Module,
    mut visit: impl FnMut(&Image<'_>),
) -> Result<Option<PathBuf>, DiscoveryError> {
    let build_id = with_own_image(module, &mut visit)?;
    let separate = given_debug_file(&given(), &build_id)
        .or_else(|| debug_file(Path::new(DEBUG_FILES), &build_id));
    if let Some((_, contents)) = &separate
        && let Ok(image) = Image::parse(contents)
    {
        visit(&image);
    }
    Ok(separate.map(|(path, _)| path))
}

/// Shows the image of a module's own file; returns its build id.
fn with_own_image(
    module: &Module,
    mut visit: impl FnMut(&Image<'_>),
) -> Result<Vec<u8>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let image = Image::parse(&contents).map_err(failed)?;
    visit(&image);
    Ok(image.build_id().unwrap_or_default())
}

/// Additional files that the user has named.
static GIVEN: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// They are replaced while nothing reads symbols; in a child that was forked at that moment there
/// are none.
fn given() -> Vec<PathBuf> {
    GIVEN.try_read().map_or_else(|_| Vec::new(), |files| files.clone())
}

/// Debug information is read from these files, too, each for the module that has its build ID.
pub fn use_debug_files(files: &[PathBuf]) {
    if let Ok(mut given) = GIVEN.try_write() {
        *given = files.to_vec();
    }
}

/// Why a file cannot be used as debug information, if it cannot.
pub fn check_debug_file(path: &Path) -> Result<(), String> {
    let contents = Contents::of(path).map_err(|error| error.to_string())?;
    let image = Image::parse(&contents).map_err(|error| error.to_string())?;
    match image.build_id() {
        Some(_) => Ok(()),
        None => Err("it has no build ID, which would show the file that it belongs to".to_owned()),
    }
}

/// Those of the files that the user has named whose build ID none of these modules has.
pub(crate) fn unused_debug_files(modules: &[&Module]) -> Vec<PathBuf> {
    let mut given = given();
    if given.is_empty() {
        return given;
    }
    let ids: Vec<String> = modules.iter().map(|module| module.build_id()).collect();
    given.retain(|path| !Module::of_file(path).is_ok_and(|file| ids.contains(&file.build_id())));
    given
}

/// The one of these files for a build.
fn given_debug_file(files: &[PathBuf], build_id: &[u8]) -> Option<(PathBuf, Contents)> {
    if build_id.is_empty() {
        return None;
    }
    files.iter().find_map(|path| {
        let contents = Contents::of(path).ok()?;
        let is_its = Image::parse(&contents).ok()?.build_id().as_deref() == Some(build_id);
        is_its.then(|| (path.clone(), contents))
    })
}

/// Where distributions put the debug information that was split off.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// The file for a build. A file with another build ID is refused: it would name functions that do
/// not exist.
fn debug_file(root: &Path, build_id: &[u8]) -> Option<(PathBuf, Contents)> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = root.join(format!(".build-id/{first:02x}/{rest}.debug"));
    let contents = Contents::of(&path).ok()?;
    let found = Image::parse(&contents).ok()?.build_id();
    found.is_none_or(|found| found == build_id).then_some((path, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_says_what_the_table_says() {
        let module = Module::loaded().into_iter().next().unwrap();
        let symbols = Symbols::load(&module).unwrap();
        let rows = &symbols.functions.rows;
        assert!(rows.len() > 1000);
        let (first, last) = (rows[0].start, rows[rows.len() - 1]);
        let within = rows
            .iter()
            .step_by(rows.len() / 20)
            .flat_map(|row| [row.start, row.start.offset(row.size as isize)]);
        for address in within.chain([first.offset(-1), last.start.offset(last.size as isize)]) {
            assert_eq!(
                Symbols::look_up(&module, address).unwrap(),
                symbols.name_at(address),
                "{address}"
            );
        }
    }

    #[test]
    fn debug_information_of_another_build_is_left_alone() {
        if !["cc", "objcopy"].into_iter().all(test_support::is_there) {
            return;
        }
        let folder = test_support::Folder::new("debug-files");
        let built = |name: &str| {
            let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
            std::fs::write(&source, format!("int {name}(void) {{ return 1; }}\n")).unwrap();
            let mut cc = std::process::Command::new("cc");
            cc.args(["-g", "-shared", "-Wl,--build-id", "-o"]).arg(&program).arg(&source);
            test_support::succeed(&mut cc);
            let debug = folder.join(format!("{name}.debug"));
            let mut split = std::process::Command::new("objcopy");
            test_support::succeed(split.arg("--only-keep-debug").arg(&program).arg(&debug));
            let contents = Contents::of(&program).unwrap();
            (Image::parse(&contents).unwrap().build_id().unwrap(), debug)
        };
        let (id, own) = built("one");
        let (_, other) = built("two");
        assert!(debug_file(&folder, &id).is_none());
        let name: String = id[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        let place = folder.join(format!(".build-id/{:02x}", id[0]));
        std::fs::create_dir_all(&place).unwrap();
        let place = place.join(format!("{name}.debug"));
        for (file, is_its) in [(&own, true), (&other, false)] {
            std::fs::copy(file, &place).unwrap();
            assert_eq!(debug_file(&folder, &id).is_some(), is_its);
        }
        std::fs::write(&place, "no image").unwrap();
        assert!(debug_file(&folder, &id).is_none());
    }

    #[test]
    fn points_that_are_found_after_symbols_were_read_have_their_names() {
        let mut module = Module::loaded().into_iter().next().unwrap();
        let mut symbols = Symbols::load(&module).unwrap();
        let at = symbols.functions.rows[0].start;
        module.points = Some(Arc::new([(at, "app:begin".to_owned())].into()));
        symbols.learn_points(&module);
        assert_eq!(symbols.name_at(at).unwrap().name, "app:begin");
        // Loaded again, and not yet looked at.
        module.points = None;
        symbols.learn_points(&module);
        assert_eq!(symbols.name_at(at).unwrap().name, "app:begin");
    }
}
