//! The core library of version 2.0.1, for programs that will be linked with it.
//!
//! With `--link-strategy imported`, scripts print through the library's functions, which choose the
//! destination. Maps are the library's if it has the pair of key and value: integers of up to 32
//! bits, held as i32, and texts. The library can neither count, remove nor iterate over elements,
//! holds no maps in maps, and writes maps in one way only. So maps for which a script needs such
//! operations, and all maps of a report in JSON, stay with the run-time support. Only used items
//! are imported.

use super::code::Emitter;
use super::report::Format;
use super::storage::Storage;
use super::support::{Outlet, Shape};
use crate::check::CORE;
use crate::hir::{Builtin, Expr, ExprKind, Place, Program, Stmt};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::BTreeSet;
use wasm_encoder::ValType;

/// The module whose functions and memory are imported.
pub(crate) const MODULE: &str = "whamm_core";

/// The library's names for a kind of maps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// In the names of functions that read and write values.
    pub key: &'static str,
    /// In the names of functions that create maps.
    pub kind: &'static str,
    /// How many words a key has.
    words: usize,
}

const PAIRS: [Pair; 4] = [
    Pair { key: "i32", kind: "i32", words: 1 },
    Pair { key: "string", kind: "string", words: 2 },
    Pair { key: "i32i32tuple", kind: "tuple", words: 2 },
    Pair { key: "i32i32i32tuple", kind: "tuple", words: 3 },
];

fn is_word(ty: &Ty) -> bool {
    ty.bits().is_some_and(|b| b.0 <= 32)
}

/// The library's names for maps of a type, if it has them.
pub(crate) fn pair(ty: &Ty) -> Option<&'static Pair> {
    let Ty::Map(kv) = ty else { return None };
    let found = match &kv.0 {
        Ty::Str => 1,
        Ty::Tuple(parts) if parts.iter().all(is_word) && (2..=3).contains(&parts.len()) => {
            parts.len()
        }
        key if is_word(key) => 0,
        _ => return None,
    };
    is_word(&kv.1).then(|| &PAIRS[found])
}

impl Pair {
    /// The function that creates a map, and returns its number.
    pub(crate) fn create(&self) -> String {
        format!("create_{}_i32", self.kind)
    }

    /// The function that creates the map with a given number.
    pub(crate) fn create_with_id(&self) -> String {
        format!("create_{}_i32_with_id", self.kind)
    }

    /// The function that returns the value of a key, or 0.
    pub(crate) fn get(&self) -> String {
        format!("get_{}_i32", self.key)
    }

    /// The function that sets the value of a key.
    pub(crate) fn insert(&self) -> String {
        format!("insert_{}_i32", self.key)
    }
}

/// The type of a function of the library.
pub(crate) fn shape(name: &str) -> Shape {
    let word = ValType::I32;
    let of = |prefix: &str| {
        name.strip_prefix(prefix).and_then(|n| PAIRS.iter().find(|p| n == format!("{}_i32", p.key)))
    };
    if let Some(pair) = of("get_") {
        return (vec![word; 1 + pair.words], vec![word]);
    }
    if let Some(pair) = of("insert_") {
        return (vec![word; 2 + pair.words], vec![]);
    }
    match name {
        "puts" => (vec![word; 2], vec![]),
        "mem_alloc" => (vec![word], vec![word]),
        "puti64" | "putu64" => (vec![ValType::I64], vec![]),
        "putf32" => (vec![ValType::F32], vec![]),
        "putf64" => (vec![ValType::F64], vec![]),
        _ if name.starts_with("create_") && !name.ends_with("_with_id") => (vec![], vec![word]),
        _ => (vec![word], vec![]),
    }
}

/// The kind of output: in a program the sites are known; a monitor creates their maps when they are
/// matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A program with probes.
    Program,
    /// A module for an engine.
    Monitor,
}

/// The items of the library that a program uses.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// Functions.
    pub functions: BTreeSet<String>,
    /// Types of maps that the library cannot hold here.
    pub own_maps: BTreeSet<Ty>,
    /// Whether its memory is used.
    pub memory: bool,
}

/// The function that prints a value of a type.
pub(crate) fn printer(ty: &Ty) -> Option<String> {
    (ty.is_numeric() || *ty == Ty::Bool).then(|| format!("put{ty}"))
}

fn stmts(program: &Program) -> impl Iterator<Item = &Stmt> {
    let probes = program.probes.iter().flat_map(|p| &p.body.stmts);
    probes.chain(program.functions.iter().flat_map(|f| &f.stmts)).chain(&program.start)
}

/// Types of maps that need operations which the library does not have.
fn own_maps(program: &Program, format: Format) -> BTreeSet<Ty> {
    let mut own = BTreeSet::new();
    let mut nested = |ty: &Ty| {
        let mut ty = ty;
        while let Ty::Map(kv) = ty {
            if format == Format::Json {
                own.insert(ty.clone());
            }
            ty = &kv.1;
            own.insert(ty.clone());
        }
    };
    let sites = program.probes.iter().flat_map(|p| &p.body.sites);
    program.globals.iter().chain(&program.frames).chain(sites).for_each(|v| nested(&v.ty));
    let locals = program.probes.iter().flat_map(|p| &p.body.locals);
    locals
        .chain(program.functions.iter().flat_map(|f| &f.locals))
        .chain(&program.start_locals)
        .for_each(nested);
    crate::rewrite::each_expr(program, &mut |e| {
        if let ExprKind::Builtin(
            Builtin::MapContains | Builtin::MapDelete | Builtin::MapSize,
            args,
        ) = &e.kind
        {
            own.insert(args[0].ty.clone());
        }
    });
    stmts(program).for_each(|stmt| {
        stmt.visit(&mut |s| {
            if let Stmt::Each(_, _, map, _) = s {
                own.insert(map.ty.clone());
            }
        });
    });
    own
}

impl Used {
    /// The items that a program uses, if it prints.
    pub(crate) fn by(program: &Program, printing: bool, format: Format, target: Target) -> Self {
        let mut used = Self { own_maps: own_maps(program, format), ..Self::default() };
        if printing {
            used.texts();
            used.functions.insert("puts".into());
        }
        used.variables(program, target);
        crate::rewrite::each_expr(program, &mut |e| used.expr(e));
        stmts(program).for_each(|stmt| stmt.visit(&mut |s| used.stmt(s)));
        used
    }

    fn texts(&mut self) {
        self.memory = true;
        self.functions.extend(["mem_alloc", "mem_free"].map(String::from));
    }

    fn pair(&self, ty: &Ty) -> Option<&'static Pair> {
        if self.own_maps.contains(ty) { None } else { pair(ty) }
    }

    /// Adds the functions that create maps: with numbers from the start, or while a probe runs.
    fn variables(&mut self, program: &Program, target: Target) {
        let sites = program.probes.iter().flat_map(|p| &p.body.sites);
        let known = program
            .globals
            .iter()
            .map(|g| (g, true))
            .chain(sites.map(|s| (s, target == Target::Program)));
        for (variable, numbered) in known {
            if let Some(pair) = self.pair(&variable.ty) {
                self.functions.insert(if numbered { pair.create_with_id() } else { pair.create() });
                if variable.report {
                    self.functions.insert("print_map".into());
                }
            }
        }
        let locals = program.probes.iter().flat_map(|p| &p.body.locals);
        for ty in locals
            .chain(program.functions.iter().flat_map(|f| &f.locals))
            .chain(&program.start_locals)
        {
            if let Some(pair) = self.pair(ty) {
                self.functions.insert(pair.create());
            }
        }
    }

    fn found(&mut self, map: &Ty, name: fn(&Pair) -> String) {
        if let Some(pair) = self.pair(map) {
            self.functions.insert(name(pair));
            if pair.key == "string" {
                self.texts();
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Index(map, _) => self.found(&map.ty, Pair::get),
            ExprKind::Builtin(Builtin::PutC, _) => {
                self.functions.insert("putc".into());
            }
            ExprKind::Builtin(Builtin::PutS, _) => {
                self.functions.insert("puts".into());
            }
            ExprKind::Builtin(Builtin::Print(pieces), args) => {
                let plain = args.iter().zip(pieces.iter()).filter(|(_, p)| !p.1);
                self.functions.extend(plain.filter_map(|(a, _)| printer(&a.ty)));
            }
            ExprKind::Builtin(Builtin::PrintMap, args) if self.pair(&args[0].ty).is_some() => {
                self.functions.insert("print_map".into());
            }
            ExprKind::Builtin(Builtin::PrintMapCsv(_), args)
                if self.pair(&args[0].ty).is_some() =>
            {
                self.functions.insert("print_map_as_csv".into());
            }
            ExprKind::Builtin(Builtin::MemAlloc, _) => {
                self.functions.insert("mem_alloc".into());
            }
            ExprKind::Builtin(Builtin::MemFree, _) => {
                self.functions.insert("mem_free".into());
            }
            ExprKind::Builtin(Builtin::MemId(CORE), _) => self.memory = true,
            _ => {}
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let (Stmt::Assign(place, _) | Stmt::Update(place, _, _)) = stmt else { return };
        if let Place::Element(map, _) = place {
            self.found(&map.ty, Pair::insert);
            if matches!(stmt, Stmt::Update(..)) {
                self.found(&map.ty, Pair::get);
            }
        }
    }
}

/// An element of a map of the library: the map and the words of the key, in locals.
struct Element {
    map: u32,
    key: Vec<u32>,
    pair: &'static Pair,
}

impl Emitter<'_> {
    /// Whether the core library is linked with the program.
    pub(super) fn has_core(&self) -> bool {
        matches!(self.support.outlet(), Outlet::Core(_))
    }

    /// Calls a function of the library.
    pub(super) fn core_call(&mut self, name: &str) {
        let callee = self
            .support
            .imported(MODULE, name)
            .expect("what is used of the library was found before");
        self.put().call(callee);
    }

    fn core_element(&mut self, map: &Expr, key: &Expr, pair: &'static Pair) -> Element {
        let map = self.fold(map);
        self.value(&map);
        let handle = self.locals.take(ValType::I32);
        self.put().local_set(handle);
        let key = self.fold(key);
        let Storage::Locals(first) = self.hold(&key) else {
            unreachable!("a value is held in locals")
        };
        let mut words: Vec<u32> = (first..).take(pair.words).collect();
        if key.ty == Ty::Str {
            let (copy, text) = (self.support.runtime("core_text"), self.locals.take(ValType::I32));
            self.put().local_get(first).local_get(first + 1).call(copy).local_set(text);
            words[0] = text;
        }
        Element { map: handle, key: words, pair }
    }

    fn core_push(&mut self, element: &Element) {
        for &local in [&element.map].into_iter().chain(&element.key) {
            self.put().local_get(local);
        }
    }

    fn core_free(&mut self, element: &Element) {
        if element.pair.key == "string" {
            self.put().local_get(element.key[0]);
            self.core_call("mem_free");
        }
    }

    /// Pushes the value of a key in a map of the library.
    pub(super) fn core_index(&mut self, map: &Expr, key: &Expr, pair: &'static Pair) {
        let element = self.core_element(map, key, pair);
        self.core_push(&element);
        self.core_call(&pair.get());
        self.core_free(&element);
    }

    /// Sets a key to the value on the stack, or combines it with the old value.
    pub(super) fn core_insert(
        &mut self,
        map: &Expr,
        key: &Expr,
        pair: &'static Pair,
        update: Option<(BinOp, &Ty)>,
    ) {
        let value = self.locals.take(ValType::I32);
        self.put().local_set(value);
        let element = self.core_element(map, key, pair);
        if let Some((op, ty)) = update {
            self.core_push(&element);
            self.core_call(&pair.get());
            self.put().local_get(value);
            self.operator(op, ty);
            self.put().local_set(value);
        }
        self.core_push(&element);
        self.put().local_get(value);
        self.core_call(&pair.insert());
        self.core_free(&element);
    }

    /// Creates the maps that have numbers from the start.
    pub(crate) fn core_maps(&mut self) {
        for (id, pair) in (0..).zip(self.support.core_maps.clone()) {
            self.put().i32_const(id);
            self.core_call(&pair.create_with_id());
        }
    }
}
