//! Variables of activations, which the engine keeps in slots.
//!
//! A slot is zero when a function begins. A variable with a constant initial value is stored in its
//! slot with that constant's bits flipped, so that zero means the constant; other values are stored
//! by a probe at the function's entry, before all others there. Variables with `report frame` are
//! added up by probes where the function is left, by its exit or an exception, after all others
//! there; their records, one for each function, follow those of sites.

use super::Maker;
use super::group::Group;
use crate::diagnostic::Diagnostics;
use crate::emit::code::Emitter;
use crate::emit::report;
use crate::emit::storage::{Storage, WORD, word};
use crate::events::{Bound, Event, Mode};
use crate::fold;
use crate::hir::{Body, Expr, ExprKind, Place, Probe, Program, Stmt, Var, Variable};
use crate::rewrite::frames_of;
use crate::rule::Match;
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use wasm_encoder::ValType;

/// The slots of variables, and the bits that are flipped in them.
pub(super) fn storage(
    program: &Program,
    constants: &mut dyn FnMut(&Expr) -> Vec<i64>,
) -> (Vec<Storage>, BTreeMap<u32, i64>) {
    let (mut list, mut flipped, mut next) = (Vec::new(), BTreeMap::new(), 0);
    for variable in &program.frames {
        list.push(Storage::Frame(next));
        if let Some(init) = variable.init.as_ref().filter(|e| fold::is_constant(e)) {
            flipped.extend((next..).zip(constants(init)).filter(|(_, bits)| *bits != 0));
        }
        next += u32::try_from(variable.ty.slots().len()).unwrap_or(0);
    }
    (list, flipped)
}

/// A probe that does not occur in a script.
fn probe(event: Event, stmts: Vec<Stmt>, span: crate::source::Span) -> Probe {
    let matched = Match { event, mode: Mode::None };
    Probe {
        script: 0,
        number: 0,
        rule: u32::MAX,
        matched,
        body: Rc::new(Body { stmts, ..Body::default() }),
        span,
        alternative: false,
    }
}

/// The probe at a function's entry that initialises variables whose initial values are not
/// constant.
pub(super) fn beginning(program: &Program) -> Option<Probe> {
    let computed = (0..).zip(&program.frames).filter_map(|(n, v)| Some((n, v, v.init.as_ref()?)));
    let stmts: Vec<Stmt> = computed
        .filter(|(_, _, init)| !fold::is_constant(init))
        .map(|(n, v, init)| Stmt::Assign(Place::Var(Var::Frame(n), v.ty.clone()), init.clone()))
        .collect();
    let span = program.frames.first()?.span;
    (!stmts.is_empty()).then(|| probe(Event::FuncEntry, stmts, span))
}

/// The probes at a function's exits that add its variables to the function's sums.
pub(super) fn endings(program: &Program) -> Vec<Probe> {
    let mut used = BTreeSet::new();
    for probe in &program.probes {
        used.extend(frames_of(&probe.body.stmts, probe.body.predicate.as_ref()));
    }
    let (mut sites, mut stmts) = (Vec::new(), Vec::new());
    for (n, variable) in (0..).zip(&program.frames).filter(|(n, v)| v.report && used.contains(n)) {
        let (ty, span) = (variable.ty.clone(), variable.span);
        let place = Place::Var(Var::Site(u32::try_from(sites.len()).unwrap_or(0)), ty.clone());
        let value = Expr { kind: ExprKind::Var(Var::Frame(n)), ty: ty.clone(), span };
        stmts.push(if ty.is_numeric() {
            Stmt::Update(place, BinOp::Add, value)
        } else {
            Stmt::Assign(place, value)
        });
        sites.push(Variable { init: None, ..variable.clone() });
    }
    let Some(span) = sites.first().map(|site| site.span) else { return Vec::new() };
    // Not before an `unreachable`: an activation that a trap leaves does not end.
    let by_exception = Expr { kind: ExprKind::Bound(Bound::AtFuncEnd), ty: Ty::Bool, span };
    let ends = [(Event::FuncExit, None), (Event::FuncUnwind, Some(by_exception))];
    let ending = |(event, predicate)| {
        let (sites, stmts) = (sites.clone(), stmts.clone());
        let body = Rc::new(Body { sites, stmts, predicate, ..Body::default() });
        Probe { body, ..probe(event, Vec::new(), span) }
    };
    ends.map(ending).into()
}

impl<'a> Maker<'a> {
    /// Defines the functions that add up the values of activations when they end.
    pub(super) fn sums(&mut self, groups: &[Group<'a>], said: &mut Diagnostics) {
        let Some(group) = groups.first() else { return };
        let chain = (self.support.global(ValType::I32, 0), self.support.global(ValType::I32, 0));
        let kind = self.kind(group, "", report::Owner::Frame);
        let record = self.frame_record(group, kind, chain);
        self.frame_chain = Some(chain.0);
        for group in groups {
            self.probe(group, Some(&record), None, said);
        }
    }

    /// Defines the function that returns the record of a function: each function has its own,
    /// however many exits it has.
    fn frame_record(
        &mut self,
        group: &Group<'a>,
        kind: u32,
        chain: (u32, u32),
    ) -> (u32, BTreeMap<Bound, Ty>) {
        let given = BTreeMap::from([(Bound::Fid, Ty::U32), (Bound::Fname, Ty::Str)]);
        let known = self.support.map(&Ty::Map(Rc::new((Ty::U64, Ty::U64))));
        let size = super::RECORD + group.words() * WORD;
        let (index, _) = self.function("frame", false, &given, vec![ValType::I32], |e, scope| {
            let (place, record) = (e.locals.keep(ValType::I32), e.locals.keep(ValType::I32));
            let [alloc, get, intern] =
                ["alloc", "map_get", "intern"].map(|name| e.support.runtime(name));
            let memory = e.support.layout().memory;
            let at = |bound: Bound| {
                if let Some(Storage::Locals(n)) = scope.bounds.get(&bound) { *n } else { 0 }
            };
            let (fid, name) = (at(Bound::Fid), at(Bound::Fname));
            e.put().i32_const(0).local_get(fid).i64_extend_i32_u().i64_store(word(16, memory));
            e.put()
                .i32_const(known.cast_signed())
                .call(get)
                .local_tee(place)
                .i32_load(word(0, memory))
                .local_tee(record);
            e.put().if_(wasm_encoder::BlockType::Empty).local_get(record).return_().end();
            e.put()
                .local_get(place)
                .i32_const(size.cast_signed())
                .call(alloc)
                .local_tee(record)
                .i32_store(word(0, memory));
            e.put().local_get(record).i32_const(kind.cast_signed()).i32_store(word(4, memory));
            e.put()
                .local_get(record)
                .local_get(name)
                .local_get(name + 1)
                .call(intern)
                .i32_store(word(8, memory));
            e.put().local_get(record).local_get(name + 1).i32_store(word(12, memory));
            e.put().local_get(record).local_get(fid).i32_store(word(16, memory));
            append(e, chain, record);
        });
        self.helpers.insert(index);
        (index, given)
    }
}

/// Appends a record to a chain, and pushes its address.
pub(super) fn append(e: &mut Emitter<'_>, chain: (u32, u32), record: u32) {
    let next = word(0, e.support.layout().memory);
    e.put().global_get(chain.1).if_(wasm_encoder::BlockType::Empty);
    e.put().global_get(chain.1).local_get(record).i32_store(next).else_();
    e.put()
        .local_get(record)
        .global_set(chain.0)
        .end()
        .local_get(record)
        .global_set(chain.1)
        .local_get(record);
}

/// Pushes the address of the first record: those of frames follow those of sites.
pub(super) fn chained(e: &mut Emitter<'_>, sites: Option<(u32, u32)>, frames: Option<u32>) {
    let next = word(0, e.support.layout().memory);
    match (sites, frames) {
        (Some((head, last)), Some(frames)) => {
            e.put().global_get(last).if_(wasm_encoder::BlockType::Result(ValType::I32));
            e.put().global_get(last).global_get(frames).i32_store(next).global_get(head);
            e.put().else_().global_get(frames).end();
        }
        (Some((head, _)), None) => {
            e.put().global_get(head);
        }
        (None, Some(frames)) => {
            e.put().global_get(frames);
        }
        (None, None) => {
            e.put().i32_const(0);
        }
    }
}
