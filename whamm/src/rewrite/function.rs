//! One function, rewritten.
//!
//! The code of a probe goes to one of two places of an instruction: in front of it, or behind it. Before an `end` and before a `loop` is
//! behind them: a branch to a block lands on its end, a branch to a loop on the loop, and there it is counted. At one place, first come the
//! beginnings of functions, then those of blocks, then ends of blocks, then instructions, then ends of functions. If branches leave the
//! function's body it is wrapped in a block, so that they land on its last end too.

use super::known::{Site, access};
use super::rows::Source;
use super::tally::{self, Part, Stretch};
use super::walk::{self, Nesting, Op};
use super::{Rewriter, frames_of};
use crate::emit::code::{Bulk, Emitter, Scope, Storage, replaces};
use crate::emit::locals::Locals;
use crate::emit::support::val;
use crate::events::{Bound, Event, Mode};
use crate::fold::{self, Known};
use crate::hir::{Expr, ExprKind, Place, Probe, Var};
use crate::types::Ty;
use std::collections::{BTreeSet, HashMap};
use wasm_encoder::{BlockType, Catch, InstructionSink, ValType};
use wasmparser::{
    FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator as O, ValType as W, ValidatorResources,
};

/// A probe that matched a site.
#[derive(Clone)]
struct Action<'p> {
    probe: &'p Probe,
    sites: Vec<Storage>,
    predicate: Option<Expr>,
}

/// A rewritten function.
pub(crate) struct Rewritten {
    /// Its locals, beyond the parameters.
    pub(crate) locals: Vec<(u32, ValType)>,
    /// Its code.
    pub(crate) code: Vec<u8>,
    /// Where instructions went: places in the file, and in the code.
    pub(crate) moved: Vec<(u64, usize)>,
    /// What the validator can use again.
    pub(crate) allocations: FuncValidatorAllocations,
}

type Validator = FuncValidator<ValidatorResources>;

/// A function while it is rewritten.
struct Walker<'r, 'a> {
    r: &'r mut Rewriter<'a>,
    fid: u32,
    ops: Vec<Op<'a>>,
    validator: Validator,
    locals: Locals,
    out: Vec<u8>,
    moved: Vec<(u64, usize)>,
    inserts: Vec<(usize, Vec<u8>)>,
    stretch: Option<Stretch>,
    deferred: HashMap<usize, Vec<(Action<'a>, usize)>>,
    frames: Vec<Storage>,
    reported: BTreeSet<u32>,
    entry: Vec<&'a Probe>,
    exit: Vec<&'a Probe>,
    block_start: Vec<&'a Probe>,
    block_end: Vec<&'a Probe>,
}

/// The operands that a body asks for, and whether it changes them.
fn asked(actions: &[&Action<'_>], pick: fn(Bound) -> Option<u8>) -> (Option<u8>, bool) {
    let mut most = None;
    let mut changed = false;
    for action in actions {
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Bound(b) = e.kind {
                let implied = match b {
                    Bound::RefTaken | Bound::TargetFuncref | Bound::ResolvedFid => Some(0),
                    _ => pick(b),
                };
                most = most.max(implied);
            }
        });
        for b in &action.probe.body.assigned {
            most = most.max(pick(*b));
            changed |= pick(*b).is_some();
        }
    }
    (most, changed)
}

fn argument(b: Bound) -> Option<u8> {
    if let Bound::Arg(n) = b { Some(n) } else { None }
}

fn result(b: Bound) -> Option<u8> {
    if let Bound::Res(n) = b { Some(n) } else { None }
}

/// Rewrites a function.
pub(crate) fn rewrite<'a>(
    r: &mut Rewriter<'a>,
    fid: u32,
    to_validate: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'a>,
    allocations: FuncValidatorAllocations,
) -> Result<Rewritten, wasmparser::Error> {
    let mut validator = to_validate.into_validator(allocations);
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader)?;
    let declared = body.get_locals_reader()?.into_iter().collect::<Result<Vec<_>, _>>()?;
    let ops = walk::walk(r.app.bytes, body)?;
    let probes = |event| r.probes_of(event);
    let (entry, exit) = (probes(Event::FuncEntry), probes(Event::FuncExit));
    let (block_start, block_end) = (probes(Event::BlockStart), probes(Event::BlockEnd));
    let base = validator.len_locals();
    let reported: BTreeSet<u32> = (0..).zip(&r.program.frames).filter(|f| f.1.report).map(|f| f.0).collect();
    let mut walker = Walker {
        fid,
        ops,
        validator,
        locals: Locals::new(base),
        out: vec![],
        moved: vec![],
        inserts: vec![],
        stretch: None,
        deferred: HashMap::new(),
        frames: vec![],
        reported,
        entry,
        exit,
        block_start,
        block_end,
        r,
    };
    walker.function()?;
    let mut locals: Vec<(u32, ValType)> = declared.into_iter().map(|(n, t)| (n, val(t))).collect();
    locals.extend(walker.locals.types().iter().map(|&t| (1, t)));
    let (code, moved) = merge(&walker.out, &walker.inserts, &walker.moved);
    Ok(Rewritten { locals, code, moved, allocations: walker.validator.into_allocations() })
}

/// Puts in what was to be added up at places that had been passed.
fn merge(out: &[u8], inserts: &[(usize, Vec<u8>)], moved: &[(u64, usize)]) -> (Vec<u8>, Vec<(u64, usize)>) {
    let extra: usize = inserts.iter().map(|i| i.1.len()).sum();
    let mut code = Vec::with_capacity(out.len() + extra);
    let mut places = Vec::with_capacity(moved.len());
    let (mut done, mut shift, mut at) = (0, 0, 0);
    for (place, bytes) in inserts {
        while at < moved.len() && moved[at].1 < *place {
            places.push((moved[at].0, moved[at].1 + shift));
            at += 1;
        }
        code.extend_from_slice(&out[done..*place]);
        code.extend_from_slice(bytes);
        (done, shift) = (*place, shift + bytes.len());
    }
    code.extend_from_slice(&out[done..]);
    places.extend(moved[at..].iter().map(|m| (m.0, m.1 + shift)));
    (code, places)
}

fn ends_function(op: &O<'_>) -> bool {
    matches!(op, O::Return | O::ReturnCall { .. } | O::ReturnCallIndirect { .. } | O::ReturnCallRef { .. })
}

impl<'a> Walker<'_, 'a> {
    fn put(&mut self) -> InstructionSink<'_> {
        InstructionSink::new(&mut self.out)
    }

    fn reachable(&self) -> bool {
        self.validator.get_control_frame(0).is_some_and(|f| !f.unreachable)
    }

    fn site(&self, index: usize, at_entry: bool) -> (u32, u32, bool) {
        let op = &self.ops[index];
        (if at_entry { 0 } else { op.pc }, u32::try_from(index).unwrap_or(0), index + 1 == self.ops.len())
    }

    fn function(&mut self) -> Result<(), wasmparser::Error> {
        self.begin_frames();
        let unwinds = self.r.probes_of(Event::FuncUnwind);
        let catches = !unwinds.is_empty() && self.r.app.exceptions;
        let results = self.results_type();
        let entries = self.structural(&self.entry.clone(), 0, true);
        self.emit(&entries, 0, &[], &[], false);
        if catches {
            let handler = self.handler_type();
            self.put().block(handler).try_table(results, [Catch::AllRef { label: 0 }]);
        }
        let wrapped = self.ops.last().is_some_and(|op| op.targeted);
        if wrapped {
            self.put().block(results);
        }
        let mut i = 0;
        while i + 1 < self.ops.len() {
            i = self.instruction(i)?;
        }
        self.last(wrapped)?;
        if catches {
            self.put().end().return_().end();
            let actions = self.structural(&unwinds, self.ops.len() - 1, false);
            self.emit(&actions, self.ops.len() - 1, &[], &[], false);
            self.put().throw_ref();
        }
        self.put().end();
        Ok(())
    }

    fn results_type(&mut self) -> BlockType {
        let results: Vec<ValType> = self.r.app.shape(self.fid).1.iter().map(|&t| val(t)).collect();
        match results[..] {
            [] => BlockType::Empty,
            [one] => BlockType::Result(one),
            _ => BlockType::FunctionType(self.r.support.ty(&(vec![], results))),
        }
    }

    fn handler_type(&mut self) -> BlockType {
        BlockType::Result(ValType::Ref(wasm_encoder::RefType {
            nullable: true,
            heap_type: wasm_encoder::HeapType::Abstract { shared: false, ty: wasm_encoder::AbstractHeapType::Exn },
        }))
    }

    /// Variables of this activation are locals, and begin as they are declared.
    fn begin_frames(&mut self) {
        if !self.r.uses_frames() {
            return;
        }
        let mut used: BTreeSet<u32> = BTreeSet::new();
        for probe in &self.r.program.probes {
            used.extend(frames_of(&probe.body.stmts, probe.body.predicate.as_ref()));
        }
        for (n, variable) in (0..).zip(&self.r.program.frames) {
            if !used.contains(&n) {
                self.frames.push(Storage::Constant(0));
                self.reported.remove(&n);
                continue;
            }
            let slots: Vec<u32> = variable.ty.slots().into_iter().map(|s| self.locals.keep(s)).collect();
            let storage = Storage::Locals(slots.first().copied().unwrap_or(0));
            self.frames.push(storage);
            if let Some(init) = &variable.init {
                let (pc, index, last) = self.site(0, true);
                let site = Site { facts: &self.r.facts, fid: self.fid, op: None, pc, index, last };
                let scope = Scope { globals: self.r.globals.clone(), ..Scope::default() };
                let mut emitter =
                    Emitter::new(&mut self.r.support, &mut self.locals, &scope, &site, self.r.program, self.r.libraries);
                emitter.expr(init);
                emitter.store(storage, &variable.ty);
                let code = std::mem::take(&mut emitter.out);
                self.out.extend(code);
            }
        }
    }

    /// At every end of an activation, what its variables hold is added to the function's sums.
    fn end_frames(&mut self) {
        for n in self.reported.clone() {
            let variable = &self.r.program.frames[n as usize];
            let slots = variable.ty.slots();
            let (support, fid) = (&mut self.r.support, self.fid);
            let first = *self.r.framed.entry((fid, n)).or_insert_with(|| {
                let all: Vec<u32> = slots.iter().map(|&s| support.global(s, 0)).collect();
                all.first().copied().unwrap_or(0)
            });
            let known = fold::Nothing;
            let scope = Scope::default();
            let mut emitter =
                Emitter::new(&mut self.r.support, &mut self.locals, &scope, &known, self.r.program, self.r.libraries);
            if variable.ty.is_numeric() {
                emitter.load(Storage::Globals(first), &variable.ty);
            }
            emitter.load(self.frames[n as usize], &variable.ty);
            if variable.ty.is_numeric() {
                emitter.operator(crate::syntax::ast::BinOp::Add, &variable.ty);
            }
            emitter.store(Storage::Globals(first), &variable.ty);
            let code = std::mem::take(&mut emitter.out);
            self.out.extend(code);
        }
    }

    /// Matches probes whose event is no instruction.
    fn structural(&mut self, probes: &[&'a Probe], index: usize, at_entry: bool) -> Vec<Action<'a>> {
        probes.iter().filter_map(|p| self.matched(p, index, at_entry, &[], &[])).collect()
    }

    /// Whether a probe matches a site; then its variables for the site come into being.
    fn matched(&mut self, probe: &'a Probe, index: usize, at_entry: bool, args: &[W], results: &[W]) -> Option<Action<'a>> {
        let body = &probe.body;
        for (bound, ty) in &body.bounds {
            let wasm = match bound {
                Bound::Arg(n) => args.get(usize::from(*n)).copied(),
                Bound::Res(n) => results.get(usize::from(*n)).copied(),
                Bound::Local(n) => self.validator.get_local_type(u32::from(*n)),
                _ => continue,
            };
            if !wasm.is_some_and(|w| ty.accepts(w)) {
                return None;
            }
        }
        let (pc, number, last) = self.site(index, at_entry);
        let op = (!at_entry).then(|| &self.ops[index]);
        let site = Site { facts: &self.r.facts, fid: self.fid, op, pc, index: number, last };
        let predicate = body.predicate.as_ref().map(|p| fold::fold(p.clone(), &site));
        if let Some(ExprKind::Bool(false)) = predicate.as_ref().map(|p| &p.kind) {
            return None;
        }
        let predicate = predicate.filter(|p| p.kind != ExprKind::Bool(true));
        let inits: Vec<Expr> = body.inits.iter().map(|e| fold::fold(e.clone(), &site)).collect();
        let values: Vec<Option<Expr>> =
            body.sites.iter().map(|v| v.init.as_ref().map(|e| fold::fold(e.clone(), &site))).collect();
        let sums = if predicate.is_none() { self.sums(body, &site, &values) } else { None };
        self.r.matched.insert(probe.rule);
        self.r.first.extend(inits.into_iter().map(|e| (None, e)));
        if let Some(sums) = sums.filter(|_| probe.matched.mode != Mode::Alt && probe.matched.mode != Mode::BlockAlt) {
            let inline = matches!(probe.matched.mode, Mode::Before | Mode::None)
                && matches!(probe.matched.event, Event::Opcode(_) | Event::BlockStart);
            if inline && self.reachable() {
                self.sum_up(probe, pc, sums);
                return None;
            }
        }
        let sites = body.sites.iter().zip(values).map(|(variable, value)| self.variable(variable, value, probe, pc)).collect();
        Some(Action { probe, sites, predicate })
    }

    /// A variable of a site.
    fn variable(&mut self, variable: &crate::hir::Variable, value: Option<Expr>, probe: &Probe, pc: u32) -> Storage {
        let mut own = variable.clone();
        own.init = value;
        let constant = own.init.as_ref().is_none_or(fold::is_constant);
        let late = if constant { None } else { own.init.take() };
        let storage = crate::emit::report::place(&mut self.r.support, &own);
        if let Some(e) = late {
            self.r.first.push((Some((storage, own.ty.clone())), e));
        }
        if variable.report {
            let words: Vec<Source> = match storage {
                Storage::Constant(handle) => vec![Source::Constant(handle)],
                Storage::Globals(first) => (first..).zip(own.ty.slots()).map(|(g, s)| Source::Global(g, s)).collect(),
                _ => vec![],
            };
            self.r.rows.add(&mut self.r.support, variable, Some(probe), (self.fid, pc), &words);
        }
        storage
    }

    /// What a body adds to what, if that is all it does.
    fn sums(&self, body: &'a crate::hir::Body, site: &Site<'_>, values: &[Option<Expr>]) -> Option<Vec<(Addend<'a>, i64)>> {
        if body.stmts.is_empty() || !body.locals.is_empty() || !body.inits.is_empty() {
            return None;
        }
        let mut list: Vec<(Addend<'a>, i64)> = Vec::new();
        for stmt in &body.stmts {
            let (place, amount) = tally::addition(stmt)?;
            let addend = match place {
                Place::Var(Var::Site(n), ty) => {
                    let begins = values.get(*n as usize)?.as_ref().is_none_or(|v| v.kind == ExprKind::Int(0));
                    let once = !list.iter().any(|l| matches!(l.0, Addend::Site(m, _) if m == *n));
                    (begins && once).then_some(Addend::Site(*n, ty))?
                }
                Place::Var(Var::Global(n), ty) if self.r.added_only.contains(n) => Addend::Global(*n, ty),
                Place::Element(map, key) => {
                    let ExprKind::Var(Var::Global(n)) = map.kind else { return None };
                    let key = fold::fold((**key).clone(), site);
                    let (ExprKind::Int(k), true) = (&key.kind, self.r.added_only.contains(&n)) else { return None };
                    Addend::Element(n, i64::try_from(*k).ok()?, map, place.ty())
                }
                _ => return None,
            };
            list.push((addend, amount));
        }
        let all_used = (0..body.sites.len()).all(|n| list.iter().any(|l| matches!(l.0, Addend::Site(m, _) if m as usize == n)));
        all_used.then_some(list)
    }

    /// Adds to the current stretch.
    fn sum_up(&mut self, probe: &Probe, pc: u32, sums: Vec<(Addend<'a>, i64)>) {
        let at = self.out.len();
        let mut stretch = self.stretch.take().unwrap_or_else(|| Stretch::new(at));
        for (addend, amount) in sums {
            match addend {
                Addend::Site(n, ty) => {
                    let slot = ty.slots()[0];
                    let global = stretch.counter(amount, slot == ValType::I64, || self.r.support.global(slot, 0));
                    let variable = &probe.body.sites[n as usize];
                    if variable.report {
                        self.r.rows.add(
                            &mut self.r.support,
                            variable,
                            Some(probe),
                            (self.fid, pc),
                            &[Source::Global(global, slot)],
                        );
                    }
                }
                Addend::Global(n, ty) => {
                    if let Storage::Globals(global) = self.r.globals[n as usize] {
                        stretch.add((global, tally::is_wide(ty)), amount);
                    }
                }
                Addend::Element(n, key, map, ty) => {
                    let (slot, support) = (ty.slots()[0], &mut self.r.support);
                    let wide = slot == ValType::I64;
                    let entry = self.r.elements.entry((n, key)).or_insert_with(|| (map.clone(), support.global(slot, 0), wide));
                    stretch.add((entry.1, wide), amount);
                }
            }
        }
        self.stretch = Some(stretch);
    }

    /// Ends a stretch: its runs are counted, and what they add is noted for the report.
    fn end_stretch(&mut self) {
        let Some(mut stretch) = self.stretch.take() else { return };
        let sums = std::mem::take(&mut stretch.sums);
        if !sums.is_empty() {
            let wide = sums.keys().any(|s| s.1);
            let slot = if wide { ValType::I64 } else { ValType::I32 };
            let runs = (stretch.counter(1, wide, || self.r.support.global(slot, 0)), wide);
            for (sum, amount) in sums {
                self.r.parts.entry(sum).or_default().push(Part { runs, amount });
            }
        }
        self.inserts.push((stretch.at, stretch.code()));
    }

    /// Types on the operand stack, the top first.
    fn stack(&self, n: usize) -> Vec<W> {
        (0..n).map_while(|i| self.validator.get_operand_type(i).flatten()).collect()
    }

    /// Probes of an instruction in some modes.
    fn probes(&self, index: usize, modes: &[Mode]) -> Vec<&'a Probe> {
        let Some(event) = self.ops[index].event else { return Vec::new() };
        self.r.by_event[event.index].iter().copied().filter(|p| modes.contains(&p.matched.mode)).collect()
    }

    fn match_all(&mut self, probes: &[&'a Probe], index: usize, args: &[W], results: &[W]) -> Vec<Action<'a>> {
        probes.iter().filter_map(|p| self.matched(p, index, false, args, results)).collect()
    }

    /// How many operands an instruction takes, and the types of its results.
    fn takes(&self, index: usize) -> usize {
        match self.ops[index].operator.operator_arity(&self.validator) {
            Some((n, _)) => n as usize,
            None => 0,
        }
    }

    /// Rewrites an instruction, or a block that is replaced: the number of the next.
    fn instruction(&mut self, i: usize) -> Result<usize, wasmparser::Error> {
        let (nesting, offset) = (self.ops[i].nesting, self.ops[i].offset);
        if self.ops[i].leads {
            self.end_stretch();
        }
        let mark = self.locals.mark();
        let reachable = self.reachable();
        let behind = matches!(nesting, Nesting::End | Nesting::Loop);
        if let Some(alt) = self.block_replacement(i) {
            return self.replace_block(i, &alt);
        }
        let args = if reachable { self.stack(self.takes(i)) } else { vec![] };
        let mut saved = Vec::new();
        let mut later = Vec::new();
        if !behind {
            let mut first = self.blocks(i, reachable);
            first.extend(self.match_all(&self.probes(i, &[Mode::Before]), i, &args, &[]));
            let (alts, targets) = (self.probes(i, &[Mode::Alt]), self.at_target(i));
            let alts = self.match_all(&alts, i, &args, &[]);
            let targets = self.match_all(&targets, i, &args, &[]);
            later = self.later(i, &args, reachable);
            if ends_function(&self.ops[i].operator) {
                first.extend(self.structural(&self.exit.clone(), i, false));
            }
            if reachable {
                let wants: Vec<&Action<'_>> = first.iter().chain(&targets).chain(&later).collect();
                saved = self.save(&wants, &args, !alts.is_empty());
                self.emit(&first, i, &saved, &[], false);
                self.emit_targets(&targets, i, &saved);
                self.restore(&wants, &saved, alts.is_empty());
                if ends_function(&self.ops[i].operator) {
                    self.end_frames();
                }
                if let (O::Unreachable, Some(flush)) = (&self.ops[i].operator, self.r.flush) {
                    self.unwinding(i);
                    self.put().call(flush);
                }
                if !alts.is_empty() {
                    self.replace(i, &alts, &saved)?;
                    self.after(i, later, &saved, reachable);
                    self.locals.release(mark);
                    return Ok(i + 1);
                }
            }
        }
        self.moved.push((offset, self.out.len()));
        let op = &self.ops[i];
        self.r.remap.write(&op.operator, op.bytes, &mut self.out);
        let operator = op.operator.clone();
        self.validator.op(offset, &operator)?;
        if behind {
            self.behind(i);
        }
        self.after(i, later, &saved, reachable);
        self.locals.release(mark);
        Ok(i + 1)
    }

    /// Probes at `unreachable` for the way out that no wrapper sees.
    fn unwinding(&mut self, i: usize) {
        let unwinds = self.r.probes_of(Event::FuncUnwind);
        let actions = self.structural(&unwinds, i, false);
        self.emit(&actions, i, &[], &[], false);
    }

    /// Beginning and end of a basic block.
    fn blocks(&mut self, i: usize, reachable: bool) -> Vec<Action<'a>> {
        let mut list = Vec::new();
        if self.ops[i].leads {
            list.extend(self.structural(&self.block_start.clone(), i, false));
        }
        if self.ops[i].closes && (reachable || self.ops[i].leads) {
            list.extend(self.structural(&self.block_end.clone(), i, false));
        }
        list
    }

    /// What happens behind an `end` or a `loop` on account of coming to it.
    fn behind(&mut self, i: usize) {
        let reachable = self.reachable();
        let args = self.stack(16);
        let mut actions = self.blocks(i, reachable);
        actions.extend(self.match_all(&self.probes(i, &[Mode::Before]), i, &args, &[]));
        if reachable {
            let saved = self.save(&actions.iter().collect::<Vec<_>>(), &args, false);
            self.emit(&actions, i, &saved, &[], false);
            self.restore(&actions.iter().collect::<Vec<_>>(), &saved, true);
        }
    }

    fn at_target(&self, i: usize) -> Vec<&'a Probe> {
        let branch = matches!(self.ops[i].operator, O::Br { .. } | O::BrIf { .. } | O::BrTable { .. });
        if branch { self.probes(i, &[Mode::SemanticAfter]) } else { Vec::new() }
    }

    /// Probes whose code comes behind the instruction. Those that ask for results are matched once these are known.
    fn later(&mut self, i: usize, args: &[W], reachable: bool) -> Vec<Action<'a>> {
        let opens = !matches!(self.ops[i].nesting, Nesting::Plain | Nesting::End);
        let modes: &[Mode] = if opens { &[Mode::Exit, Mode::SemanticAfter] } else { &[Mode::After] };
        let probes = self.probes(i, modes);
        if probes.is_empty() {
            return Vec::new();
        }
        let results = if reachable { self.result_types(i) } else { vec![] };
        self.match_all(&probes, i, args, &results)
    }

    /// The types of what an instruction will leave, the top first.
    fn result_types(&self, i: usize) -> Vec<W> {
        let op = &self.ops[i].operator;
        let app = self.r.app;
        let of_type = |ty: u32| {
            app.types
                .get(ty as usize)
                .and_then(Option::as_ref)
                .map(|t| t.1.iter().rev().copied().collect::<Vec<_>>())
                .unwrap_or_default()
        };
        match op {
            O::Call { function_index } => app.shape(*function_index).1.iter().rev().copied().collect(),
            O::CallIndirect { type_index, .. } | O::CallRef { type_index } => of_type(*type_index),
            O::LocalTee { local_index } | O::LocalGet { local_index } => {
                self.validator.get_local_type(*local_index).into_iter().collect()
            }
            O::Select => self.stack(3).get(1).copied().into_iter().collect(),
            _ => self.listed_result(i).into_iter().collect(),
        }
    }

    fn listed_result(&self, i: usize) -> Option<W> {
        let event = self.ops[i].event?;
        let found = Event::Opcode(event).variable("res0")?;
        match found.ty.slots()[..] {
            _ if found.ty == Ty::Any => self.computed_result(i),
            [ValType::I32] => Some(W::I32),
            [ValType::I64] => Some(W::I64),
            [ValType::F32] => Some(W::F32),
            [ValType::F64] => Some(W::F64),
            _ => None,
        }
    }

    /// The type of a result that depends on more than the opcode.
    fn computed_result(&self, i: usize) -> Option<W> {
        match &self.ops[i].operator {
            O::TypedSelect { ty } => Some(*ty),
            O::RefIsNull | O::RefEq | O::I31GetS | O::I31GetU | O::ArrayLen | O::TableGrow { .. } | O::TableSize { .. } => {
                Some(W::I32)
            }
            O::RefTestNonNull { .. } | O::RefTestNullable { .. } => Some(W::I32),
            O::MemoryAtomicNotify { .. } | O::MemoryAtomicWait32 { .. } | O::MemoryAtomicWait64 { .. } => Some(W::I32),
            O::GlobalGet { global_index } => {
                use wasmparser::WasmModuleResources;
                self.validator.resources().global_at(*global_index).map(|g| g.content_type)
            }
            O::I32x4ExtractLane { .. } | O::V128AnyTrue => Some(W::I32),
            O::I64x2ExtractLane { .. } => Some(W::I64),
            O::F32x4ExtractLane { .. } => Some(W::F32),
            O::F64x2ExtractLane { .. } => Some(W::F64),
            _ => None,
        }
    }

    /// Keeps operands that probes ask for; they stay on the stack, unless they are changed or the instruction is replaced.
    fn save(&mut self, actions: &[&Action<'_>], args: &[W], all: bool) -> Vec<(u32, ValType)> {
        let (most, changed) = asked(actions, argument);
        let count = if all { args.len() } else { most.map_or(0, |n| usize::from(n) + 1).min(args.len()) };
        let types: Vec<ValType> = args[..count].iter().map(|&t| val(t)).collect();
        let saved: Vec<(u32, ValType)> = types.into_iter().map(|t| (self.locals.take(t), t)).collect();
        if all || changed {
            for &(local, _) in &saved {
                self.put().local_set(local);
            }
            return saved;
        }
        for (n, &(local, _)) in saved.iter().enumerate() {
            if n + 1 == saved.len() {
                self.put().local_tee(local);
            } else {
                self.put().local_set(local);
            }
        }
        for &(local, _) in saved.iter().rev().skip(1) {
            self.put().local_get(local);
        }
        saved
    }

    /// Puts operands back that were taken off to be changed.
    fn restore(&mut self, actions: &[&Action<'_>], saved: &[(u32, ValType)], kept: bool) {
        if kept && asked(actions, argument).1 {
            for &(local, _) in saved.iter().rev() {
                self.put().local_get(local);
            }
        }
    }

    /// Writes what probes do.
    fn emit(&mut self, actions: &[Action<'a>], i: usize, args: &[(u32, ValType)], results: &[(u32, ValType)], alt: bool) {
        for action in actions {
            self.action(action, i, args, results, alt, None);
        }
    }

    /// Before a branch, under the condition that it is taken.
    fn emit_targets(&mut self, actions: &[Action<'a>], i: usize, saved: &[(u32, ValType)]) {
        if actions.is_empty() {
            return;
        }
        let conditional = matches!(self.ops[i].operator, O::BrIf { .. });
        if conditional {
            let held = saved.first().map_or_else(|| self.locals.take(ValType::I32), |s| s.0);
            if saved.is_empty() {
                self.put().local_tee(held);
            }
            self.put().local_get(held).if_(BlockType::Empty);
        }
        self.emit(actions, i, saved, &[], false);
        if conditional {
            self.put().end();
        }
    }

    /// What is behind the instruction: the beginnings of blocks, ends that were waited for, and probes after it.
    fn after(&mut self, i: usize, later: Vec<Action<'a>>, saved: &[(u32, ValType)], was_reachable: bool) {
        let entries = self.probes(i, &[Mode::Entry]);
        let args = if entries.is_empty() { vec![] } else { self.stack(8) };
        let entries = self.match_all(&entries, i, &args, &[]);
        let reachable = self.reachable();
        if reachable {
            let held = self.save(&entries.iter().collect::<Vec<_>>(), &args, false);
            self.emit(&entries, i, &held, &[], false);
        }
        if self.ops[i].nesting == Nesting::End && reachable {
            for (action, opener) in self.deferred.remove(&i).unwrap_or_default() {
                self.action(&action, opener, &[], &[], false, None);
            }
        }
        let opens = !matches!(self.ops[i].nesting, Nesting::Plain | Nesting::End);
        if opens {
            let end =
                if self.ops[i].nesting == Nesting::Else { self.ops[self.ops[i].partner].partner } else { self.ops[i].partner };
            let mut waiting = later;
            if self.ops[i].nesting == Nesting::Loop {
                waiting = self.later(i, &[], was_reachable);
            }
            self.deferred.entry(end).or_default().extend(waiting.into_iter().map(|a| (a, i)));
        } else {
            let mut later = later;
            if self.ops[i].nesting == Nesting::End {
                later = self.later(i, &[], reachable);
            }
            if reachable && was_reachable {
                let results = self.stack(8);
                let refs: Vec<&Action<'_>> = later.iter().collect();
                let (most, changed) = asked_results(&refs);
                let held = self.hold_results(most, &results, changed);
                self.emit(&later, i, saved, &held, false);
                if changed {
                    for &(local, _) in held.iter().rev() {
                        self.put().local_get(local);
                    }
                }
            }
        }
        let op = &self.ops[i];
        let trapping = self.r.options.exact_traps && op.event.is_some_and(|e| !never_traps(e));
        if walk::interrupts(&op.operator) || trapping {
            self.end_stretch();
        }
    }

    fn hold_results(&mut self, most: Option<u8>, types: &[W], changed: bool) -> Vec<(u32, ValType)> {
        let count = most.map_or(0, |n| usize::from(n) + 1).min(types.len());
        let held: Vec<(u32, ValType)> = types[..count].iter().map(|&t| (self.locals.take(val(t)), val(t))).collect();
        for (n, &(local, _)) in held.iter().enumerate() {
            if n + 1 == held.len() && !changed {
                self.put().local_tee(local);
            } else {
                self.put().local_set(local);
            }
        }
        if !changed {
            for &(local, _) in held.iter().rev().skip(1) {
                self.put().local_get(local);
            }
        }
        held
    }

    /// The last end of the function.
    fn last(&mut self, wrapped: bool) -> Result<(), wasmparser::Error> {
        let i = self.ops.len() - 1;
        if self.ops[i].leads {
            self.end_stretch();
        }
        self.moved.push((self.ops[i].offset, self.out.len()));
        if wrapped {
            self.put().end();
        }
        let reachable = wrapped || self.reachable();
        let results: Vec<W> = self.r.app.shape(self.fid).1.iter().rev().copied().collect();
        let mut actions = self.blocks(i, reachable);
        actions.extend(self.match_all(&self.probes(i, &[Mode::Before]), i, &results, &[]));
        actions.extend(self.structural(&self.exit.clone(), i, false));
        let after = self.probes(i, &[Mode::After]);
        actions.extend(self.match_all(&after, i, &results, &[]));
        if reachable {
            let refs: Vec<&Action<'_>> = actions.iter().collect();
            let saved = self.save(&refs, &results, false);
            self.emit(&actions, i, &saved, &[], false);
            let refs: Vec<&Action<'_>> = actions.iter().collect();
            self.restore(&refs, &saved, true);
            self.end_frames();
        }
        self.end_stretch();
        self.validator.op(self.ops[i].offset, &self.ops[i].operator.clone())
    }

    /// Where everything is that an action refers to, and code that fetches what has to be fetched.
    fn scope(&mut self, action: &Action<'a>, i: usize, args: &[(u32, ValType)], results: &[(u32, ValType)]) -> Scope {
        let mut bounds: HashMap<Bound, Storage> = HashMap::new();
        for (n, &(local, _)) in (0..).zip(args) {
            bounds.insert(Bound::Arg(n), Storage::Locals(local));
        }
        for (n, &(local, _)) in (0..).zip(results) {
            bounds.insert(Bound::Res(n), Storage::Locals(local));
        }
        let mut wanted = BTreeSet::new();
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Bound(b) = e.kind {
                wanted.insert(b);
            }
        });
        wanted.extend(action.probe.body.assigned.iter().copied());
        for bound in wanted {
            if let Some(storage) = self.fetch(bound, i, args) {
                bounds.insert(bound, storage);
            }
        }
        Scope {
            sites: action.sites.clone(),
            globals: self.r.globals.clone(),
            frames: self.frames.clone(),
            bounds,
            ..Scope::default()
        }
    }

    fn fetch(&mut self, bound: Bound, i: usize, args: &[(u32, ValType)]) -> Option<Storage> {
        let first = args.first().map(|a| a.0);
        match bound {
            Bound::Local(n) => Some(Storage::Locals(n.into())),
            Bound::MemoryBytes => {
                let memory = self.r.remap.memory(access(&self.ops[i])?.memory);
                let local = self.locals.take(ValType::I64);
                let wide = self.r.app.memories.get(access(&self.ops[i])?.memory as usize).copied().unwrap_or(false);
                self.put().memory_size(memory);
                if !wide {
                    self.put().i64_extend_i32_u();
                }
                self.put().i64_const(16).i64_shl().local_set(local);
                Some(Storage::Locals(local))
            }
            Bound::TableSize => {
                let O::TableGet { table } = self.ops[i].operator else { return None };
                let local = self.locals.take(ValType::I32);
                self.put().table_size(table).local_set(local);
                Some(Storage::Locals(local))
            }
            Bound::RefTaken => self.ref_taken(i, first?),
            Bound::TargetFuncref => {
                let table = table_of(&self.ops[i].operator)?;
                let local = self.locals.take(ValType::FUNCREF);
                self.put().local_get(first?).table_get(table).local_set(local);
                Some(Storage::Locals(local))
            }
            Bound::ResolvedFid => self.resolved(i, first?),
            _ => None,
        }
    }

    fn ref_taken(&mut self, i: usize, operand: u32) -> Option<Storage> {
        let operator = self.ops[i].operator.clone();
        let local = self.locals.take(ValType::I32);
        self.put().local_get(operand);
        match operator {
            O::BrOnNull { .. } => {
                self.put().ref_is_null();
            }
            O::BrOnNonNull { .. } => {
                self.put().ref_is_null().i32_eqz();
            }
            O::BrOnCast { to_ref_type, .. } | O::BrOnCastFail { to_ref_type, .. } => {
                use wasm_encoder::reencode::Reencode;
                let ty = wasm_encoder::reencode::RoundtripReencoder.ref_type(to_ref_type).ok()?;
                if ty.nullable {
                    self.put().ref_test_nullable(ty.heap_type);
                } else {
                    self.put().ref_test_non_null(ty.heap_type);
                }
                if matches!(operator, O::BrOnCastFail { .. }) {
                    self.put().i32_eqz();
                }
            }
            _ => {}
        }
        self.put().local_set(local);
        Some(Storage::Locals(local))
    }

    /// The index of the function in a table's entry, from a copy of what the program puts there when it starts.
    fn resolved(&mut self, i: usize, entry: u32) -> Option<Storage> {
        let table = table_of(&self.ops[i].operator)?;
        let (at, len) = self.r.table_copy(table)?;
        let local = self.locals.take(ValType::I32);
        let memory = self.r.support.layout().memory;
        self.put().local_get(entry).i32_const(len.cast_signed()).i32_lt_u().if_(BlockType::Result(ValType::I32));
        self.put().local_get(entry).i32_const(2).i32_shl().i32_load(crate::emit::code::word(at, memory));
        self.put().else_().i32_const(-1).end().local_set(local);
        Some(Storage::Locals(local))
    }

    fn action(
        &mut self,
        action: &Action<'a>,
        i: usize,
        args: &[(u32, ValType)],
        results: &[(u32, ValType)],
        alt: bool,
        replacing: Option<Scope>,
    ) {
        let mark = self.locals.mark();
        let at_entry = action.probe.matched.event == Event::FuncEntry;
        let (pc, index, last) = self.site(i, at_entry);
        let mut scope = self.scope(action, i, args, results);
        scope.operands = args.to_vec();
        scope.bulk = bulk(&self.ops[i].operator).map(|b| self.moved_bulk(b));
        if let Some(more) = replacing {
            scope.operands = more.operands;
            scope.callees = more.callees;
            scope.results = more.results;
            scope.callee_names = more.callee_names;
        }
        let site = Site { facts: &self.r.facts, fid: self.fid, op: (!at_entry).then(|| &self.ops[i]), pc, index, last };
        let body = &action.probe.body;
        let mut emitter =
            Emitter::new(&mut self.r.support, &mut self.locals, &scope, &site as &dyn Known, self.r.program, self.r.libraries);
        emitter.enter(&body.locals);
        let predicate = if alt { None } else { action.predicate.as_ref() };
        emitter.body(predicate, &body.stmts);
        let code = std::mem::take(&mut emitter.out);
        self.out.extend(code);
        self.locals.release(mark);
    }

    fn moved_bulk(&self, bulk: Bulk) -> Bulk {
        match bulk {
            Bulk::Copy(memory) => Bulk::Copy(self.r.remap.memory(memory)),
            other => other,
        }
    }

    /// Writes probes instead of an instruction. Where a predicate is left to be tested, the instruction is the other arm.
    fn replace(&mut self, i: usize, alts: &[Action<'a>], saved: &[(u32, ValType)]) -> Result<(), wasmparser::Error> {
        let operator = self.ops[i].operator.clone();
        let span = alts[0].probe.span;
        if alts.len() > 1 {
            self.r.support.refused.push((
                span,
                "two probes replace the same instruction".into(),
                "make their predicates exclude each other, or write one probe".into(),
            ));
        }
        let action = &alts[0];
        let results = {
            let mut list = self.result_types(i);
            list.reverse();
            list.into_iter().map(val).collect::<Vec<_>>()
        };
        let held: Vec<u32> = results.iter().map(|&t| self.locals.take(t)).collect();
        let callees = (0..u32::try_from(self.r.app.functions.len()).unwrap_or(0))
            .map(|f| {
                let (p, r) = self.r.app.shape(f);
                (self.r.remap.function(f), p.iter().map(|&t| val(t)).collect(), r.iter().map(|&t| val(t)).collect())
            })
            .collect();
        let mut names: HashMap<String, u32> = (0..).zip(&self.r.app.imports).map(|(n, i)| (i.name.to_string(), n)).collect();
        names.extend(
            self.r.app.exports.iter().filter(|e| e.kind == wasmparser::ExternalKind::Func).map(|e| (e.name.to_string(), e.index)),
        );
        names.extend(self.r.app.names.iter().map(|(&n, name)| (name.to_string(), n)));
        let operands: Vec<(u32, ValType)> = saved.iter().rev().copied().collect();
        let more = Scope { operands: operands.clone(), callees, results: held.clone(), callee_names: names, ..Scope::default() };
        let (drops, calls) = replaces(&action.probe.body.stmts);
        if let Some(predicate) = &action.predicate {
            let site_code = self.condition(action, i, saved, predicate);
            self.out.extend(site_code);
            let ty = match results[..] {
                [] => BlockType::Empty,
                [one] => BlockType::Result(one),
                _ => BlockType::FunctionType(self.r.support.ty(&(vec![], results.clone()))),
            };
            self.put().if_(ty);
        }
        self.action(action, i, saved, &[], true, Some(more));
        if calls {
            for local in &held {
                self.put().local_get(*local);
            }
        } else if !drops {
            for (local, _) in &operands {
                self.put().local_get(*local);
            }
        }
        let left = if calls {
            results.len()
        } else if drops {
            0
        } else {
            operands.len()
        };
        if left != results.len() && !never_returns(&operator) {
            let message = format!("the instruction gives {} values, and its replacement leaves {left}", results.len());
            let help = "use `drop_args()` if it gives none, or `alt_call_by_name(...)` to call a function of the same type";
            self.r.support.refused.push((span, message, help.into()));
        }
        self.moved.push((self.ops[i].offset, self.out.len()));
        if action.predicate.is_some() {
            self.put().else_();
            for (local, _) in &operands {
                self.put().local_get(*local);
            }
            let labels =
                !walk::interrupts(&operator) || matches!(operator, O::Call { .. } | O::CallIndirect { .. } | O::CallRef { .. });
            if !labels {
                let message = "a branch cannot be replaced under a condition that is known only at run time";
                self.r.support.refused.push((span, message.into(), "put the condition into the body of a `before` probe".into()));
            }
            let op = &self.ops[i];
            self.r.remap.write(&op.operator, op.bytes, &mut self.out);
            self.put().end();
        }
        self.validator.op(self.ops[i].offset, &operator)
    }

    fn condition(&mut self, action: &Action<'a>, i: usize, saved: &[(u32, ValType)], predicate: &Expr) -> Vec<u8> {
        let scope = self.scope(action, i, saved, &[]);
        let (pc, index, last) = self.site(i, false);
        let site = Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let mut emitter = Emitter::new(&mut self.r.support, &mut self.locals, &scope, &site, self.r.program, self.r.libraries);
        emitter.expr(predicate);
        std::mem::take(&mut emitter.out)
    }

    /// A probe that replaces the whole block which begins here.
    fn block_replacement(&mut self, i: usize) -> Option<Action<'a>> {
        let probes = self.probes(i, &[Mode::BlockAlt]);
        let args = if probes.is_empty() { vec![] } else { self.stack(self.takes(i)) };
        let mut actions = self.match_all(&probes, i, &args, &[]);
        (!actions.is_empty()).then(|| actions.remove(0))
    }

    fn replace_block(&mut self, i: usize, action: &Action<'a>) -> Result<usize, wasmparser::Error> {
        let span = action.probe.span;
        let mut end = self.ops[i].partner;
        if self.ops[i].nesting == Nesting::Else {
            end = self.ops[self.ops[i].partner].partner;
        }
        let takes = self.ops[i].operator.operator_arity(&self.validator).map_or(0, |a| a.0);
        let condition = u32::from(self.ops[i].nesting == Nesting::If);
        let gives = self.block_results(i);
        if action.predicate.is_some() || takes != condition || gives != 0 || self.ops[i].nesting == Nesting::Else {
            let message = "this block cannot be replaced: its condition is known only at run time, or it takes or gives values";
            self.r.support.refused.push((
                span,
                message.into(),
                "replace the instructions in it, or match a block without parameters and results".into(),
            ));
        }
        let mark = self.locals.mark();
        if condition == 1 {
            self.put().drop();
        }
        self.action(action, i, &[], &[], true, None);
        for k in i..=end {
            self.moved.push((self.ops[k].offset, self.out.len()));
            let operator = self.ops[k].operator.clone();
            self.validator.op(self.ops[k].offset, &operator)?;
        }
        self.locals.release(mark);
        Ok(end + 1)
    }

    fn block_results(&self, i: usize) -> usize {
        let ty = match &self.ops[i].operator {
            O::Block { blockty } | O::Loop { blockty } | O::If { blockty } => *blockty,
            O::TryTable { try_table } => try_table.ty,
            _ => return 0,
        };
        match ty {
            wasmparser::BlockType::Empty => 0,
            wasmparser::BlockType::Type(_) => 1,
            wasmparser::BlockType::FuncType(n) => {
                self.r.app.types.get(n as usize).and_then(Option::as_ref).map_or(0, |t| t.1.len())
            }
        }
    }
}

/// What a sum is added to.
enum Addend<'p> {
    /// A variable of the site.
    Site(u32, &'p Ty),
    /// A global variable.
    Global(u32, &'p Ty),
    /// An element of a global map with a known key.
    Element(u32, i64, &'p Expr, Ty),
}

fn asked_results(actions: &[&Action<'_>]) -> (Option<u8>, bool) {
    let mut most = None;
    let mut changed = false;
    for action in actions {
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Bound(b) = e.kind {
                most = most.max(result(b));
            }
        });
        for b in &action.probe.body.assigned {
            most = most.max(result(*b));
            changed |= result(*b).is_some();
        }
    }
    (most, changed)
}

fn never_returns(op: &O<'_>) -> bool {
    matches!(
        op,
        O::Unreachable
            | O::Return
            | O::Br { .. }
            | O::BrTable { .. }
            | O::ReturnCall { .. }
            | O::ReturnCallIndirect { .. }
            | O::ReturnCallRef { .. }
    )
}

/// Whether an instruction is sure not to trap.
fn never_traps(event: &crate::events::Instruction) -> bool {
    let plain = matches!(event.category, 2 | 3 | 4 | 8 | 10 | 12 | 13);
    let arith = event.category == 0 && !event.name.contains("div") && !event.name.contains("rem_");
    let convert = event.category == 5 && (!event.name.contains("trunc_") || event.name.contains("sat"));
    let simd = event.category == 14 && event.accessed().is_none();
    plain || arith || convert || simd
}

fn table_of(op: &O<'_>) -> Option<u32> {
    match op {
        O::CallIndirect { table_index, .. } | O::ReturnCallIndirect { table_index, .. } => Some(*table_index),
        O::TableGet { table } => Some(*table),
        _ => None,
    }
}

fn bulk(op: &O<'_>) -> Option<Bulk> {
    match op {
        O::MemoryInit { data_index, .. } => Some(Bulk::Init(*data_index)),
        O::MemoryCopy { src_mem, .. } => Some(Bulk::Copy(*src_mem)),
        O::MemoryFill { .. } => Some(Bulk::Fill),
        _ => None,
    }
}
