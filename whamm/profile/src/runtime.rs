//! The run-time support of a profiled program, assembled from text as far as it is needed.
//!
//! `runtime/tree.wat` implements the tree, `calls.wat` direct calls, `time.wat` and `reading.wat`
//! charge time to nodes, `sum.wat` adds them up; `text.wat` and `file.wat` write reports, `end.wat`
//! determines when. Each clock, and each destination of the report, has its own file, of which one
//! is used.
//!
//! ```text
//!     8 a report's totals            128 the host's node   208 that of what there was no room for
//!   320 what is handed to WASI  336 numbers  512 what is to be written  1536 bytes that are lent
//!  2560 frames of a stack   3584 texts, tables, names; behind them the tree
//! ```

use crate::app::{App, PROF, WASI};
use crate::shape::{HEADER, Shape, Shapes, Telling};
use crate::{Clock, Error, Options, parts, texts};
use std::collections::BTreeMap;
use std::fmt::Write;
use wasm_encoder::{EntityType, ValType};
use whamm_rewrite::{Linked, Plan, Program, folder};

/// The address of the data about a program.
const DATA: u32 = 3584;
/// The size of a function's row in bytes: see `runtime/tree.wat`.
pub(crate) const ROW: u32 = 28;
/// The node of the host; that of contexts for which there was no room is behind it.
const HOST: u32 = 128;
/// Offsets in a node of its parent, and of whether it is timed.
const PARENT: usize = 4;
const TIMED: usize = 48;
/// A function of the run-time support that the program does not need.
const NEEDLESS: u32 = u32::MAX;
/// The suffix of the name of an incomplete file.
const PART: &str = ".part";
/// Pages in a megabyte.
const PAGES: u64 = 16;
/// Sums of addresses are limited to 32 bits.
const MOST_PAGES: u64 = 32768;

/// How the clock is read and where reports are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) clock: Clock,
    /// How data is passed to and from WASI: `None` without it.
    pub(crate) wasi: Option<Way>,
}

/// How data is passed to and from WASI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the profile's memory, which is exported as the one that WASI uses.
    Own,
    /// Through the program's memory, which has this index.
    Lent(u32),
}

impl Ways {
    /// The imports, with the types of parameters and results.
    fn imports(&self, options: &Options) -> Vec<Import> {
        let (word, long) = (ValType::I32, ValType::I64);
        let mut list = Vec::new();
        let mut wasi = |name, params: &[ValType]| {
            let (params, results) = (params.to_vec(), vec![word]);
            list.push(Import { module: WASI, name, params, results });
        };
        if self.clock == Clock::Wasi {
            wasi("clock_time_get", &[word, long, word]);
        }
        if self.wasi.is_some() {
            wasi("fd_write", &[word; 4]);
            if let Some(path) = &options.file {
                folder::imports(path).iter().for_each(|(name, params)| wasi(name, params));
                wasi("path_open", &[word, word, word, word, word, long, long, word, word]);
                wasi("path_rename", &[word; 6]);
                wasi("fd_close", &[word]);
            }
        }
        let mut prof = |name, params: &[ValType], results: &[ValType]| {
            let (params, results) = (params.to_vec(), results.to_vec());
            list.push(Import { module: PROF, name, params, results });
        };
        if self.clock == Clock::Prof {
            prof("getTime", &[], &[ValType::F64]);
        }
        if options.host_api {
            let arc = [word, word, word, ValType::F64];
            prof("clearResults", &[], &[]);
            prof("addArcData", &arc, &[]);
            prof("setArcData", &arc, &[]);
            prof("printResults", &[], &[]);
        }
        list
    }

    /// The imports as text.
    fn import_fields(&self, options: &Options) -> String {
        let types = |list: &[ValType]| -> String {
            list.iter().map(|ty| format!(" {}", spelled(*ty))).collect()
        };
        let mut out = String::new();
        for import in self.imports(options) {
            let (id, params) = (import.identifier(), types(&import.params));
            let results = types(&import.results);
            let _ = writeln!(
                out,
                "(import \"{}\" \"{}\" (func ${id} (param{params}) (result{results})))",
                import.module, import.name
            );
        }
        if let Some(Way::Lent(_)) = self.wasi {
            out += "(import \"program\" \"memory\" (memory $app 0))\n";
        }
        out
    }

    /// The files of the run-time support that are needed.
    fn parts(&self, options: &Options) -> Vec<&'static str> {
        let mut parts = vec![
            include_str!("runtime/tree.wat"),
            include_str!("runtime/calls.wat"),
            include_str!("runtime/time.wat"),
            include_str!("runtime/write.wat"),
            include_str!("runtime/sum.wat"),
            include_str!("runtime/text.wat"),
            include_str!("runtime/file.wat"),
            include_str!("runtime/end.wat"),
        ];
        parts.push(match self.wasi {
            Some(Way::Own) => include_str!("runtime/out_own.wat"),
            Some(Way::Lent(_)) => include_str!("runtime/out_lent.wat"),
            None => include_str!("runtime/out_none.wat"),
        });
        match (&options.file, self.wasi) {
            (Some(_), Some(way)) => {
                parts.push(include_str!("runtime/print_file.wat"));
                parts.push(match way {
                    Way::Own => include_str!("runtime/open_own.wat"),
                    Way::Lent(_) => include_str!("runtime/open_lent.wat"),
                });
            }
            _ if options.host_api => parts.push(include_str!("runtime/print_arcs.wat")),
            _ => parts.push(include_str!("runtime/print_text.wat")),
        }
        parts
    }

    /// The code that reads the clock, which stands where it is read.
    fn now(&self) -> &'static str {
        match (self.clock, self.wasi) {
            (Clock::Wasi, Some(Way::Own)) => include_str!("runtime/clock_wasi_own.wat"),
            (Clock::Wasi, _) => include_str!("runtime/clock_wasi_lent.wat"),
            (Clock::Prof, _) => include_str!("runtime/clock_prof.wat"),
            (Clock::None, _) => include_str!("runtime/clock_none.wat"),
        }
    }

    /// A file with the parts that a program needs.
    fn filled(&self, part: &str, app: &App, options: &Options) -> Result<String, Error> {
        let holds = |condition: &str| {
            Some(match condition {
                "time_all" => options.time_all,
                "file" => options.file.is_some(),
                "start" => app.starts_quietly(),
                "tails" => app.tails,
                "tails_indirectly" => app.tails_indirectly,
                "exceptions" => app.catches,
                "indirect" => app.calls_indirectly,
                "may_be_empty" => match self.wasi {
                    Some(Way::Lent(memory)) => app.memories[memory as usize].may_be_empty,
                    _ => true,
                },
                _ => return None,
            })
        };
        let text = |name: &str| match name {
            "now" => Some(self.now()),
            "reading" => Some(include_str!("runtime/reading.wat")),
            _ => None,
        };
        parts::chosen(part, &holds, &text)
    }

    /// The note about times in a file: a text in JSON.
    fn clock_note(&self, options: &Options) -> String {
        let clock = match self.clock {
            Clock::Prof => "the host's prof.getTime",
            _ => "WASI's clock",
        };
        let shortest = match options.time_all {
            true => "; those of functions that take less than a reading of it are uncertain",
            false => "",
        };
        format!("\"times are the wall clock's, by {clock}{shortest}\"")
    }
}

struct Import {
    module: &'static str,
    name: &'static str,
    params: Vec<ValType>,
    results: Vec<ValType>,
}

impl Import {
    /// Its name in the text: `fd_write`, `get_time`.
    fn identifier(&self) -> String {
        let mut all = String::new();
        for c in self.name.chars() {
            if c.is_ascii_uppercase() {
                all.push('_');
            }
            all.push(c.to_ascii_lowercase());
        }
        all
    }
}

/// The indices in the program that bodies and gateways need.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    pub(crate) memory: u32,
    pub(crate) cur: u32,
    pub(crate) via: u32,
    /// The globals that stand-ins read: see `stand_in.rs`.
    pub(crate) from: u32,
    pub(crate) slot: u32,
    /// The row of the first function; each has [`ROW`] bytes.
    pub(crate) rows: u32,
    pub(crate) enter: u32,
    pub(crate) enter_child: u32,
    pub(crate) enter_gate: u32,
    pub(crate) leave: u32,
    pub(crate) tail: u32,
    pub(crate) tail_via: u32,
    pub(crate) tail_gate: u32,
    pub(crate) caught: u32,
    pub(crate) foreign: u32,
    pub(crate) origin: u32,
    pub(crate) starting: u32,
    pub(crate) ended: u32,
    pub(crate) ending: u32,
    pub(crate) exiting: u32,
    /// The function that the host calls after a trap.
    pub(crate) end: u32,
    pub(crate) profile: u32,
    pub(crate) report: u32,
    /// Sends all arcs to the host.
    pub(crate) export_data: Option<u32>,
    /// Whether the program reports its profile when it ends.
    pub(crate) tells_ends: bool,
}

impl Runtime {
    /// Adds the imports that are needed; has to be called before anything else is added to the
    /// plan.
    pub(crate) fn import(plan: &mut Plan, program: &Program<'_>, ways: &Ways, options: &Options) {
        for import in ways.imports(options) {
            let ty = program.types + plan.types.len() as u32;
            plan.types.push((import.params, import.results));
            plan.indices.import_function(import.module, import.name);
            let (module, name) = (import.module.to_owned(), import.name.to_owned());
            plan.imports.push((module, name, EntityType::Function(ty)));
        }
    }

    /// Links the run-time support.
    pub(crate) fn link(
        plan: &mut Plan,
        program: &Program<'_>,
        app: &App,
        shapes: &Shapes,
        ways: &Ways,
        options: &Options,
    ) -> Result<Self, Error> {
        let (text, rows) = text(app, shapes, ways, options)?;
        let module = wat::parse_str(text).map_err(|error| Error::Runtime(error.to_string()))?;
        let (first, imported) = plan.indices.imported();
        let functions: BTreeMap<(String, String), u32> =
            imported.iter().cloned().zip(first..).collect();
        let lent = match ways.wasi {
            Some(Way::Lent(memory)) => Some(plan.indices.memory(memory)),
            _ => None,
        };
        let named = plan.names.len();
        let linked = plan.link(program, &module, &|module, name| match module {
            "program" => lent,
            _ => functions.get(&(module.to_owned(), name.to_owned())).copied(),
        })?;
        for (_, name) in &mut plan.names[named..] {
            name.insert_str(0, "fastinst.");
        }
        Self::of(&linked, ways, rows).ok_or_else(|| Error::Runtime("an export is missing".into()))
    }

    fn of(linked: &Linked, ways: &Ways, rows: u32) -> Option<Self> {
        let function = |name: &str| linked.functions.get(name).copied();
        Some(Self {
            memory: *linked.memories.get("own")?,
            cur: *linked.globals.get("cur")?,
            via: *linked.globals.get("via")?,
            from: *linked.globals.get("from")?,
            slot: *linked.globals.get("slot")?,
            rows,
            enter: function("enter")?,
            enter_child: function("enter_child")?,
            enter_gate: function("enter_gate")?,
            leave: function("leave")?,
            tail: function("tail").unwrap_or(NEEDLESS),
            tail_via: function("tail_via").unwrap_or(NEEDLESS),
            tail_gate: function("tail_gate").unwrap_or(NEEDLESS),
            caught: function("caught").unwrap_or(NEEDLESS),
            foreign: function("foreign").unwrap_or(NEEDLESS),
            origin: function("origin")?,
            starting: function("starting").unwrap_or(NEEDLESS),
            ended: function("ended")?,
            ending: function("ending")?,
            exiting: function("exiting")?,
            end: function("end")?,
            profile: function("profile")?,
            report: function("report")?,
            export_data: function("export_data"),
            tells_ends: ways.wasi.is_some() || function("export_data").is_some(),
        })
    }

    /// Whether a function ends the program, so that the profile has to be reported before.
    pub(crate) fn ends(&self, app: &App, function: u32) -> bool {
        self.tells_ends && app.is_exit(function)
    }
}

/// Initial contents of the memory, and their addresses.
struct Data {
    bytes: Vec<u8>,
}

impl Data {
    /// Appends data, and returns its address.
    fn put(&mut self, bytes: &[u8]) -> u32 {
        let at = DATA + self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn text(&mut self, text: &str) -> u32 {
        let at = self.put(text.as_bytes());
        self.bytes.push(0);
        at
    }

    /// The numbers of all leaves that functions call, function by function.
    fn leaves(&mut self, shapes: &Shapes) -> u32 {
        self.align();
        let leaves = shapes.shapes.iter().flat_map(|shape| &shape.leaves);
        let ids: Vec<u8> = leaves.flat_map(|leaf| (leaf + 1).to_le_bytes()).collect();
        self.put(&ids)
    }

    /// A row for the host, each function, and both others that have names: see `runtime/tree.wat`.
    /// Returns the address behind the nodes that rows refer to, which follow the rows.
    fn rows(&mut self, shapes: &Shapes, names: &[u32]) -> u64 {
        let rows = u64::from(DATA) + self.bytes.len() as u64;
        let mut node = (rows + u64::from(ROW) * names.len() as u64).next_multiple_of(8);
        let mut first = 0;
        let none = Shape::default();
        for (at, name) in names.iter().enumerate() {
            let function = at.checked_sub(1);
            let shape = function.and_then(|at| shapes.shapes.get(at)).unwrap_or(&none);
            let telling = function.and_then(|at| shapes.tellings.get(at));
            let is_untimed = telling.is_some_and(|telling| *telling != Telling::Timed);
            let leaves = shape.leaves.len() as u32;
            let of_leaves = leaves | u32::from(is_untimed) << 16;
            for word in [first, of_leaves, shape.size() as u32, node as u32, 0, 0, *name] {
                self.put(&word.to_le_bytes());
            }
            first += leaves;
            node += shape.size();
        }
        node
    }

    fn align(&mut self) {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
    }
}

/// The run-time support as a module in text, and the address of the functions' rows.
fn text(
    app: &App,
    shapes: &Shapes,
    ways: &Ways,
    options: &Options,
) -> Result<(String, u32), Error> {
    let mut data = Data { bytes: Vec::new() };
    let mut parts = String::new();
    for part in ways.parts(options) {
        parts += &texts::replace(&ways.filled(part, app, options)?, |text| data.put(text))?;
    }
    let clock_note = data.text(&ways.clock_note(options));
    let no_clock_note = data.text("\"calls are counted, and not timed\"");
    let path = options.file.as_deref().unwrap_or_default();
    let path_at = data.put(path.as_bytes());
    data.put(PART.as_bytes());
    data.align();
    let leaves = data.leaves(shapes);
    let labels = ["[contexts beyond memory]", "[other modules]"].map(str::to_owned);
    let names = [options.name.clone()].into_iter().chain((0..app.len()).map(|at| app.name(at)));
    let names: Vec<u32> = names.chain(labels).map(|name| data.text(&name)).collect();
    data.align();
    let rows = DATA + data.bytes.len() as u32;
    let used = data.rows(shapes, &names);
    let functions = u64::from(app.len());
    let pages = used.div_ceil(65536);
    let most = (u64::from(options.memory) * PAGES).min(MOST_PAGES);
    // A part is reserved for reports.
    let for_nodes = most * 65536 / 8 * 7;
    if used > for_nodes {
        return Err(Error::TooLarge(used.div_ceil(7 << 17)));
    }
    let mut out = format!("(module\n{}", ways.import_fields(options));
    let _ = writeln!(out, "(memory $own (export \"own\") {pages} {most})");
    let globals = [
        ("functions", functions as i64),
        ("imports", i64::from(app.imported())),
        ("leaf_ids", leaves.into()),
        ("rows", rows.into()),
        ("node_end", for_nodes as i64),
        ("has_clock", i64::from(ways.clock != Clock::None)),
        ("time_all", options.time_all.into()),
        ("force_print", options.force_print.into()),
        ("tells_always", options.tells_always().into()),
        ("top", options.top.into()),
        ("clock_note", clock_note.into()),
        ("no_clock_note", no_clock_note.into()),
        ("path", path_at.into()),
        ("path_len", path.len() as i64),
        ("part_len", (path.len() + PART.len()) as i64),
    ];
    for (name, value) in globals {
        let _ = writeln!(out, "(global ${name} i32 (i32.const {value}))");
    }
    let _ = writeln!(out, "(global $heap (mut i32) (i32.const {used}))");
    out += &parts;
    match (&options.file, ways.wasi) {
        (Some(path), Some(Way::Own)) => out += &folder::below_for(path, "own"),
        (Some(path), Some(Way::Lent(_))) => out += &folder::below_for(path, "app"),
        _ => {}
    }
    let nodes = first_nodes(app.len());
    for (at, bytes) in [(HOST, nodes.as_slice()), (DATA, &data.bytes)] {
        let _ = writeln!(out, "(data (memory $own) (i32.const {at}) \"{}\")", escaped(bytes));
    }
    out.push(')');
    Ok((out, rows))
}

fn spelled(ty: ValType) -> &'static str {
    match ty {
        ValType::I64 => "i64",
        ValType::F64 => "f64",
        _ => "i32",
    }
}

/// The nodes of the host and of contexts for which there was no room, which are next to each other.
fn first_nodes(functions: u32) -> Vec<u8> {
    let size = HEADER as usize;
    let mut nodes = vec![0; 2 * size];
    for (at, word) in [(TIMED, 1), (size, functions + 1), (size + PARENT, HOST), (size + TIMED, 1)]
    {
        nodes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    nodes
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\') => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:02x}");
            }
        }
    }
    out
}
