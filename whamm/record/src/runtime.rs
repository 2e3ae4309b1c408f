//! The run-time support of a recording program, assembled from text as far as it is needed:
//! `runtime/events.wat` writes events, one of `out_*.wat` outputs blocks, `shadow.wat` or `raw.wat`
//! exists once for each memory, `table.wat` or `objects.wat` for each table, and `function.wat` for
//! each type of functions of the host.
//!
//! ```text
//!     0 what is handed to WASI   2048 a table for checks   4096 texts, the trace's heading
//!     $head a block that is written, up to 64 KiB         $save bytes that are lent, or kept
//! ```

use crate::app::{App, WASI};
use crate::trap::Reason;
use crate::{Error, Options};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wasm_aot_trace::Program as Traced;
use wasm_encoder::{BlockType, ConstExpr, EntityType, ExportKind, GlobalType, ValType};
use whamm_rewrite::{Plan, Program, folder};

/// The address of the first text.
const TEXTS: u32 = 4096;
/// A block's head, and the maximum size of its contents.
const BLOCK: u32 = 18 + (64 << 10);
/// The number of bytes that are lent.
const LENT: u32 = 32 << 10;

/// Why a trace ends before its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Foreign,
    Reference,
    Trapped,
    Thrown,
    Growth,
}

impl Why {
    pub(crate) const ALL: [Self; 5] =
        [Self::Foreign, Self::Reference, Self::Trapped, Self::Thrown, Self::Growth];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Foreign => "a function that is not the program's is called through a table",
            Self::Reference => "a reference to a function goes to the host or comes from it",
            Self::Trapped => "the host goes on after a trap or an exception of the program's",
            Self::Thrown => "an exception that has none of the program's tags",
            Self::Growth => {
                "the program cannot grow a memory, which its type allows: other machines may"
            }
        }
    }
}

/// Where calls of the host's have not ended when it ends the trace.
const UNENDED: &str = "calls of the host's have not returned";

/// A recorded memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    /// Its index in the output, and its shadow's.
    pub(crate) place: u32,
    pub(crate) shadow: u32,
    /// The functions that record reads and writes: they take address and length, of 64 bits.
    pub(crate) read: u32,
    pub(crate) wrote: u32,
    /// The function that records its initial contents.
    pub(crate) begin: u32,
}

/// The indices in the program that bodies and gateways need.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) functions: BTreeMap<String, u32>,
    pub(crate) inside: u32,
    /// Whether the trace continues.
    pub(crate) alive: u32,
    pub(crate) depth: u32,
    pub(crate) via: u32,
    pub(crate) via_index: u32,
    pub(crate) memories: BTreeMap<u32, Recorded>,
    /// The index of each of the program's memories in the output.
    pub(crate) places: Vec<u32>,
    /// Globals that hold the last recorded values of the program's globals.
    pub(crate) global_shadows: BTreeMap<u32, u32>,
    /// Addresses and lengths of texts.
    pub(crate) texts: BTreeMap<Vec<u8>, (i32, i32)>,
    own: u32,
    types: BTreeMap<Vec<u8>, u32>,
}

/// How the trace leaves the program.
fn sink(app: &App, options: &Options) -> Result<String, Error> {
    let Some(path) = &options.file else {
        return Ok(include_str!("runtime/out_host.wat").to_owned());
    };
    let to = |out: &str, memory: &str| folder::below_for(path, memory) + out;
    match app.wasi_memory() {
        Some(memory) if app.is_wide(memory) => Err(Error::File(
            "the memory that WASI uses has 64-bit addresses, which WASI does not support",
        )),
        Some(_) => Ok(to(include_str!("runtime/out_lent.wat"), "app")),
        None if app.declared.memories.is_empty() => {
            Ok(to(include_str!("runtime/out_own.wat"), "own"))
        }
        None => Err(Error::File("the program exports no memory named `memory`, which WASI needs")),
    }
}

const FUNCTIONS: [(&str, &[ValType]); 3] = [
    ("fd_write", &[ValType::I32; 4]),
    ("fd_close", &[ValType::I32]),
    (
        "path_open",
        &[
            ValType::I32,
            ValType::I32,
            ValType::I32,
            ValType::I32,
            ValType::I32,
            ValType::I64,
            ValType::I64,
            ValType::I32,
            ValType::I32,
        ],
    ),
];

/// The functions of WASI that write the trace; each returns a word.
fn imports(options: &Options) -> Vec<(&'static str, &'static [ValType])> {
    let Some(path) = &options.file else { return Vec::new() };
    [&FUNCTIONS, folder::imports(path)].concat()
}

/// Texts and the trace's heading in the support's memory.
struct Pool {
    bytes: Vec<u8>,
    known: BTreeMap<Vec<u8>, (i32, i32)>,
}

impl Pool {
    fn put(&mut self, bytes: &[u8]) -> (i32, i32) {
        let place = (TEXTS as i32 + self.bytes.len() as i32, bytes.len() as i32);
        self.bytes.extend_from_slice(bytes);
        self.known.insert(bytes.to_vec(), place);
        place
    }
}

impl Runtime {
    /// Adds the imports that are needed; has to be called before anything else is added to the
    /// plan.
    pub(crate) fn import(
        plan: &mut Plan,
        program: &Program<'_>,
        app: &App,
        options: &Options,
    ) -> Result<(), Error> {
        sink(app, options)?;
        for (name, params) in imports(options) {
            let ty = program.types + plan.types.len() as u32;
            plan.types.push((params.to_vec(), vec![ValType::I32]));
            plan.indices.import_function(WASI, name);
            plan.imports.push((WASI.to_owned(), name.to_owned(), EntityType::Function(ty)));
        }
        Ok(())
    }

    /// Links the run-time support.
    pub(crate) fn link(
        plan: &mut Plan,
        program: &Program<'_>,
        app: &App,
        traced: &Traced,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut pool = Pool { bytes: Vec::new(), known: BTreeMap::new() };
        let text = text(app, traced, options, &mut pool)?;
        let module = wat::parse_str(text).map_err(|error| Error::Runtime(error.to_string()))?;
        let (first, imported) = plan.indices.imported();
        let functions: BTreeMap<(String, String), u32> =
            imported.iter().cloned().zip(first..).collect();
        let indices = plan.indices.clone();
        let linked = plan.link(program, &module, &|module, name| match module {
            "program" => name.parse().ok().map(|memory| indices.memory(memory)),
            _ => functions.get(&(module.to_owned(), name.to_owned())).copied(),
        })?;
        let missing = || Error::Runtime("an export is missing".into());
        let global = |name: &str| linked.globals.get(name).copied().ok_or_else(missing);
        let mut this = Self {
            inside: global("inside")?,
            alive: global("alive")?,
            depth: global("depth")?,
            via: global("via")?,
            via_index: global("via_index")?,
            memories: BTreeMap::new(),
            places: (0..app.declared.memories.len() as u32)
                .map(|memory| plan.indices.memory(memory))
                .collect(),
            global_shadows: BTreeMap::new(),
            texts: pool.known,
            own: *linked.memories.get("own").ok_or_else(missing)?,
            types: BTreeMap::new(),
            functions: linked.functions,
        };
        for memory in &app.memories {
            let function = |name: &str| {
                let name = format!("{name}:{memory}");
                this.functions.get(&name).copied().ok_or_else(missing)
            };
            let recorded = Recorded {
                place: plan.indices.memory(*memory),
                shadow: linked.memories.get(&format!("shadow:{memory}")).copied().unwrap_or(0),
                read: function("read")?,
                wrote: function("wrote")?,
                begin: function("begin")?,
            };
            this.memories.insert(*memory, recorded);
        }
        if options.raw {
            this.block_types(plan, program, app)?;
        } else {
            for global in &app.globals {
                let ty = app.declared.globals[*global as usize].content_type;
                // Of a function, its index and 1.
                let ty = match app.declared.is_of_functions(ty) {
                    true => ValType::I32,
                    false => app.val_type(ty)?,
                };
                let shadow = variable(plan, program, ty);
                this.global_shadows.insert(*global, shadow);
            }
        }
        Ok(this)
    }

    /// Types of blocks with several results.
    fn block_types(
        &mut self,
        plan: &mut Plan,
        program: &Program<'_>,
        app: &App,
    ) -> Result<(), Error> {
        for body in &program.bodies {
            let ty = app.declared.function(body.function).expect("a valid module");
            let results = ty.results();
            if results.len() > 1 && !self.types.contains_key(&key(results)) {
                let index = program.types + plan.types.len() as u32;
                plan.types.push((Vec::new(), app.val_types(results)?));
                self.types.insert(key(results), index);
            }
        }
        Ok(())
    }

    /// The type of a block that is a whole body.
    pub(crate) fn block_of(&self, app: &App, results: &[wasmparser::ValType]) -> BlockType {
        match results {
            [] => BlockType::Empty,
            [one] => BlockType::Result(app.val_type(*one).expect("a valid module")),
            several => BlockType::FunctionType(self.types[&key(several)]),
        }
    }

    /// Exports what the host needs. `finish` is another function that ends the trace.
    pub(crate) fn export(&self, plan: &mut Plan, finish: Option<u32>, options: &Options) {
        let finish = finish.unwrap_or(self.functions["finish"]);
        plan.exports.push(("record:finish".to_owned(), ExportKind::Func, finish));
        if let Some(fetch) = self.functions.get("fetch") {
            plan.exports.push(("record:fetch".to_owned(), ExportKind::Func, *fetch));
            plan.exports.push(("record:memory".to_owned(), ExportKind::Memory, self.own));
        } else if options.file.is_some() && plan.indices.memories() == 0 {
            plan.exports.push(("memory".to_owned(), ExportKind::Memory, self.own));
        }
    }
}

fn key(types: &[wasmparser::ValType]) -> Vec<u8> {
    format!("{types:?}").into_bytes()
}

impl From<wasm_encoder::reencode::Error> for Error {
    fn from(error: wasm_encoder::reencode::Error) -> Self {
        Self::Rewrite(error.into())
    }
}

/// Adds a variable that is zero at first; returns its index.
pub(crate) fn variable(plan: &mut Plan, program: &Program<'_>, val_type: ValType) -> u32 {
    let index = program.globals + plan.globals.len() as u32;
    let zero = match val_type {
        ValType::I64 => ConstExpr::i64_const(0),
        ValType::F32 => ConstExpr::f32_const(0.0.into()),
        ValType::F64 => ConstExpr::f64_const(0.0.into()),
        ValType::V128 => ConstExpr::v128_const(0),
        ValType::Ref(ty) => ConstExpr::ref_null(ty.heap_type),
        ValType::I32 => ConstExpr::i32_const(0),
    };
    plan.globals.push((GlobalType { val_type, mutable: true, shared: false }, zero));
    index
}

/// The run-time support as a module in text.
fn text(app: &App, traced: &Traced, options: &Options, pool: &mut Pool) -> Result<String, Error> {
    let path = options.file.as_deref().unwrap_or_default();
    if path.len() > 1000 {
        return Err(Error::File("the file name is too long: use less than 1000 bytes"));
    }
    let unopened = format!(
        "record: {path}: not recorded: the file cannot be created; give the program a folder \
         (--dir)\n"
    );
    let cut = format!(
        "record: {path}: the trace ends here, because the file cannot be written; the program goes \
         on\n"
    );
    let heading =
        wasm_aot_trace::beginning(traced).map_err(|error| Error::Invalid(error.into()))?;
    let mut globals = Vec::new();
    let texts = [
        ("path", path.as_bytes()),
        ("unopened", unopened.as_bytes()),
        ("cut", cut.as_bytes()),
        ("heading", &heading),
        ("unended", UNENDED.as_bytes()),
    ];
    for (name, bytes) in texts {
        let (at, len) = pool.put(bytes);
        globals.extend([(name.to_owned(), at as u32), (format!("{name}_len"), len as u32)]);
    }
    for why in Why::ALL {
        pool.put(why.text().as_bytes());
    }
    for reason in Reason::ALL {
        pool.put(reason.text().as_bytes());
    }
    for (name, ..) in &app.declared.exports {
        if name.len() > 4096 {
            return Err(Error::Unsupported("names of more than 4096 bytes"));
        }
        pool.put(name.as_bytes());
    }
    for (_, event) in app.host_types() {
        pool.put(&event);
    }
    for elements in &app.placed {
        pool.put(&elements.functions);
    }
    let head = (TEXTS + pool.bytes.len() as u32).next_multiple_of(16);
    let save = (head + BLOCK).next_multiple_of(16);
    let pages = (save + LENT).div_ceil(1 << 16);
    globals.extend([
        ("head".to_owned(), head),
        ("plain".to_owned(), head + 18),
        ("save".to_owned(), save),
    ]);
    let mut out = String::from("(module\n");
    if options.file.is_some() {
        for (name, params) in imports(options) {
            let params: Vec<&str> =
                params.iter().map(|ty| if *ty == ValType::I64 { "i64" } else { "i32" }).collect();
            let params = params.join(" ");
            let _ = writeln!(
                out,
                "(import \"{WASI}\" \"{name}\" (func ${name} (param {params}) (result i32)))"
            );
        }
        if let Some(memory) = app.wasi_memory() {
            let _ = writeln!(out, "(import \"program\" \"{memory}\" (memory $app 0))");
        }
    }
    for memory in &app.memories {
        let wide = if app.is_wide(*memory) { "i64 " } else { "" };
        let _ = writeln!(out, "(import \"program\" \"{memory}\" (memory $m{memory} {wide}0))");
    }
    let _ = writeln!(out, "(memory $own (export \"own\") {pages})");
    for (name, value) in &globals {
        let _ = writeln!(out, "(global ${name} i32 (i32.const {value}))");
    }
    out += &["$at", "$mark"].iter().fold(
        include_str!("runtime/events.wat").to_owned(),
        |text, own| {
            let global = |value| format!("(global {own} (mut i32) (i32.const {value}))");
            text.replace(&global(0), &global(head + 18))
        },
    );
    out += &sink(app, options)?;
    for memory in &app.memories {
        out += &memory_text(app, *memory, options.raw);
    }
    for table in app.objects.iter().copied().chain(app.function_tables()) {
        out += &table_text(app, table, options.raw);
    }
    let first = app.declared.functions() + 1;
    let _ = writeln!(out, "(global $next_host (mut i32) (i32.const {first}))");
    for (ty, event) in app.host_types() {
        let (at, len) = pool.known[&event];
        out += &include_str!("runtime/function.wat")
            .replace("{N}", &host_name(ty))
            .replace("{AT}", &at.to_string())
            .replace("{LEN}", &len.to_string());
    }
    let _ = write!(out, "(data (memory $own) (i32.const {TEXTS}) \"{}\"))", escaped(&pool.bytes));
    Ok(out)
}

fn memory_text(app: &App, memory: u32, is_raw: bool) -> String {
    let ty = app.declared.memories[memory as usize];
    let is_imported = memory < app.declared.imported.memories;
    let mut out = String::new();
    if !is_raw {
        let most = ty.maximum.map(|most| format!(" {most}")).unwrap_or_default();
        let wide = if ty.memory64 { "i64 " } else { "" };
        let least = ty.initial;
        let _ =
            writeln!(out, "(memory $s{memory} (export \"shadow:{memory}\") {wide}{least}{most})");
    }
    let (size, address, len) = match ty.memory64 {
        true => ("(memory.size $m{K})", "(local.get $a)", "(local.get $n)"),
        false => (
            "(i64.extend_i32_u (memory.size $m{K}))",
            "(i32.wrap_i64 (local.get $a))",
            "(i32.wrap_i64 (local.get $n))",
        ),
    };
    let begin = match (is_raw, is_imported) {
        (true, true) => "(call $all{K} (i32.const 0x30) (i64.const 0) (local.get $n))",
        (true, false) => "",
        (false, true) => "(call $check{K} (i64.const 0) (local.get $n))",
        (false, false) => "(memory.copy $s{K} $m{K} {A} {A} {N})",
    };
    let part =
        if is_raw { include_str!("runtime/raw.wat") } else { include_str!("runtime/shadow.wat") };
    out += include_str!("runtime/memory.wat");
    out += part;
    if app.wasi_memory() == Some(memory) && !ty.memory64 {
        out += include_str!("runtime/filled.wat");
    }
    out.replace("{BEGIN}", begin)
        .replace("{SIZE}", size)
        .replace("{A}", address)
        .replace("{N}", len)
        .replace("{K}", &memory.to_string())
}

fn table_text(app: &App, table: u32, is_raw: bool) -> String {
    let (kind, same) = if is_raw { ("0x33", "") } else { ("0x23", "(return)") };
    let part = match app.objects.contains(&table) {
        true => include_str!("runtime/objects.wat"),
        false => include_str!("runtime/table.wat"),
    };
    let known = app.elements.get(&table).filter(|_| !app.objects.contains(&table));
    let known = known.map(Vec::as_slice).unwrap_or_default();
    let bytes: Vec<u8> = known.iter().flat_map(|function| function.to_le_bytes()).collect();
    let pages = (bytes.len() as u32).div_ceil(1 << 16);
    let mut out = format!("(memory $t{table} {pages})\n");
    if !bytes.is_empty() {
        let _ = writeln!(out, "(data (memory $t{table}) (i32.const 0) \"{}\")", escaped(&bytes));
    }
    out += part;
    out.replace("{T}", &table.to_string()).replace("{KIND}", kind).replace("{SAME}", same)
}

/// The name of a type of functions of the host in the run-time support.
pub(crate) fn host_name(ty: Option<u32>) -> String {
    ty.map_or("other".to_owned(), |ty| ty.to_string())
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 3);
    for byte in bytes {
        let _ = write!(out, "\\{byte:02x}");
    }
    out
}
