//! Outlined bodies: bodies that call libraries, shared by sites.
//!
//! Such a body needs only a few numbers from a site, computed from operands. So it is a function of
//! its own with these numbers as parameters. Where no other probe reads the operands, the function
//! takes and returns them, so that they need not be saved. Where the program is likely to spend its
//! time, the body is inlined, library and all; but the rarer case of a choice stays an outlined
//! call.

use super::*;
use crate::fold::Nothing;
use crate::hir::{Body, Builtin, Stmt};
use crate::syntax::ast::BinOp;
use crate::types::Ty;

/// What is known of a site except for the offset from its operand's address, which is a parameter.
pub(super) struct WithoutOffset<'s>(pub(super) &'s Site<'s>);

impl Known for WithoutOffset<'_> {
    fn bound(&self, bound: Bound, ty: &Ty) -> Option<ExprKind> {
        if bound == Bound::Offset { None } else { self.0.bound(bound, ty) }
    }

    fn builtin(&self, builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
        self.0.builtin(builtin, args)
    }

    fn library(&self, call: &crate::hir::LibraryCall, args: &[Expr]) -> Option<ExprKind> {
        self.0.library(call, args)
    }
}

/// Whether a body calls a library, and uses only operands and global variables.
pub(crate) fn is_shared(body: &Body) -> bool {
    let (mut calls, mut more) = (false, false);
    body.walk(&mut |e| match &e.kind {
        ExprKind::Bound(b) => more |= !(b.is_static() || matches!(b, Bound::Arg(_))),
        ExprKind::Var(Var::Local(_) | Var::Site(_) | Var::Frame(_))
        | ExprKind::Builtin(..)
        | ExprKind::Call(..) => more = true,
        ExprKind::Library(call, _) => calls |= !call.at_match,
        _ => {}
    });
    let plain = body.sites.is_empty()
        && body.locals.is_empty()
        && body.assigned.is_empty()
        && body.inits.is_empty();
    plain && calls && !more
}

/// The parameters of a function that returns operands: their types, the deepest first, and perhaps
/// the offset.
struct Way {
    types: Vec<ValType>,
    offset: bool,
}

/// Statements in which operands are replaced by parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shared {
    pub(super) stmts: Vec<Stmt>,
    pub(super) types: Vec<ValType>,
    /// Amounts added to sums before them.
    pub(super) increments: region::Increments,
}

/// The arguments, as the site computes them, and the type of each.
#[derive(Default)]
struct Handing {
    values: Vec<Expr>,
    /// Whether constant arguments of libraries are parameters too, so that all sites share one
    /// function.
    constants: bool,
}

impl Handing {
    /// Statements in which values computed from operands are parameters; none if the statements are
    /// not of the simple kinds.
    fn stmts(&mut self, stmts: &[Stmt], known: &dyn Known) -> Option<Vec<Stmt>> {
        let stmt = |stmt: &Stmt| {
            Some(match stmt {
                Stmt::If(cond, yes, no) => Stmt::If(
                    self.expr(fold::fold(cond.clone(), known))?,
                    self.stmts(yes, known)?,
                    self.stmts(no, known)?,
                ),
                Stmt::Update(place @ Place::Var(..), op, e) => {
                    Stmt::Update(place.clone(), *op, self.expr(fold::fold(e.clone(), known))?)
                }
                Stmt::Assign(place @ Place::Var(..), e) => {
                    Stmt::Assign(place.clone(), self.expr(fold::fold(e.clone(), known))?)
                }
                Stmt::Do(e) => Stmt::Do(self.expr(fold::fold(e.clone(), known))?),
                _ => return None,
            })
        };
        stmts.iter().map(stmt).collect()
    }

    fn expr(&mut self, e: Expr) -> Option<Expr> {
        self.with(e, false)
    }

    /// An expression; perhaps its constants become parameters too.
    fn with(&mut self, e: Expr, constant: bool) -> Option<Expr> {
        let Expr { kind, ty, span } = e;
        let kind = match kind {
            kind if (depends(&kind) || constant)
                && is_arithmetic(&kind)
                && ty.slots().len() == 1 =>
            {
                self.value(Expr { kind, ty: ty.clone(), span })?
            }
            ExprKind::Bound(_) => return None,
            ExprKind::Unary(op, a) => ExprKind::Unary(op, Box::new(self.expr(*a)?)),
            ExprKind::Binary(op, a, b) => {
                ExprKind::Binary(op, Box::new(self.expr(*a)?), Box::new(self.expr(*b)?))
            }
            ExprKind::Cast(a) => ExprKind::Cast(Box::new(self.expr(*a)?)),
            ExprKind::Library(call, args) => ExprKind::Library(
                call,
                args.into_iter().map(|e| self.with(e, self.constants)).collect::<Option<_>>()?,
            ),
            kind if is_constant_or_global(&kind) => kind,
            _ => return None,
        };
        Some(Expr { kind, ty, span })
    }

    fn value(&mut self, e: Expr) -> Option<ExprKind> {
        let at = self.values.iter().position(|known| known.same(&e)).unwrap_or_else(|| {
            self.values.push(e);
            self.values.len() - 1
        });
        Some(ExprKind::Bound(Bound::Arg(u8::try_from(at).ok()?)))
    }
}

fn is_constant_or_global(kind: &ExprKind) -> bool {
    matches!(
        kind,
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Var(Var::Global(_))
    )
}

fn depends(kind: &ExprKind) -> bool {
    let inside = |e: &Expr| depends(&e.kind);
    match kind {
        ExprKind::Bound(_) => true,
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => inside(a),
        ExprKind::Binary(_, a, b) => inside(a) || inside(b),
        _ => false,
    }
}

/// Whether it is computed from operands and constants, without a possible trap.
fn is_arithmetic(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Bound(Bound::Arg(_) | Bound::Offset) | ExprKind::Int(_) => true,
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => is_arithmetic(&a.kind),
        ExprKind::Binary(op, a, b) => {
            !op.is_logic()
                && !matches!(op, BinOp::Div | BinOp::Rem)
                && is_arithmetic(&a.kind)
                && is_arithmetic(&b.kind)
        }
        _ => false,
    }
}

/// If only the rarer case of a choice is left: the condition under which it is skipped, and its
/// statements.
pub(super) fn rare(stmts: &[Stmt]) -> Option<(&Expr, &[Stmt])> {
    let [Stmt::If(unless, yes, no)] = stmts else { return None };
    let mut calls = false;
    no.iter().for_each(|stmt| stmt.walk(&mut |e| calls |= matches!(e.kind, ExprKind::Library(..))));
    (yes.is_empty() && calls).then_some((unless, no))
}

/// Maps parameters to the locals that hold them.
pub(super) fn bound_to(locals: &[u32]) -> HashMap<Bound, Storage> {
    (0..).zip(locals).map(|(n, &local)| (Bound::Arg(n), Storage::Locals(local))).collect()
}

impl<'a> Walker<'_, 'a> {
    /// The statements of an action in a form that other sites can share, and the arguments of this
    /// site.
    pub(super) fn handed(
        &self,
        action: &Action<'a>,
        i: usize,
        offset: bool,
    ) -> Option<(Shared, Vec<Expr>)> {
        if !is_shared(&action.probe.body) {
            return None;
        }
        let (pc, index, last) = self.site(i, false);
        let site =
            Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let known: &dyn Known = if offset { &site } else { &WithoutOffset(&site) };
        let mut handing = Handing::default();
        let mut stmts =
            handing.stmts(action.rest.as_ref().unwrap_or(&action.probe.body.stmts), known)?;
        if let Some(predicate) = &action.predicate {
            stmts =
                vec![Stmt::If(handing.expr(fold::fold(predicate.clone(), known))?, stmts, vec![])];
        }
        let types = handing.values.iter().map(|e| e.ty.slots()[0]).collect();
        Some((Shared { stmts, types, increments: action.increments.clone() }, handing.values))
    }

    /// The code of statements, given where the numbers are; the rarer case of a choice is a call,
    /// unless everything is to be inlined.
    pub(super) fn written(
        &mut self,
        stmts: &[Stmt],
        at: &[u32],
        locals: &mut Locals,
        in_place: bool,
    ) -> Option<Vec<u8>> {
        let scope = Scope {
            globals: self.r.globals.clone(),
            bounds: bound_to(at),
            repeated: true,
            ..Scope::default()
        };
        let call = match rare(stmts).filter(|_| !in_place) {
            Some((unless, no)) => Some((unless, self.apart(no)?)),
            None => None,
        };
        let (program, libraries) = (self.r.program, self.r.libraries);
        let mut emitter =
            Emitter::new(&mut self.r.support, locals, &scope, &Nothing, program, libraries);
        if let Some((unless, (callee, values))) = call {
            emitter.expr(unless);
            emitter.put().i32_eqz().if_(BlockType::Empty);
            values.iter().for_each(|value| emitter.expr(value));
            emitter.put().call(callee).end();
        } else {
            emitter.body(None, stmts);
        }
        Some(std::mem::take(&mut emitter.out))
    }

    /// The function of a rare case, for all sites, and its arguments.
    pub(super) fn apart(&mut self, stmts: &[Stmt]) -> Option<(u32, Vec<Expr>)> {
        let mut handing = Handing { constants: true, ..Handing::default() };
        let stmts = handing.stmts(stmts, &Nothing)?;
        let types = handing.values.iter().map(|e| e.ty.slots()[0]).collect();
        Some((self.callee(&Shared { stmts, types, increments: vec![] }, 1, false)?, handing.values))
    }

    /// The function that executes statements several times, each time with other arguments; perhaps
    /// even with the rare case inlined.
    pub(super) fn callee(&mut self, shared: &Shared, times: usize, in_place: bool) -> Option<u32> {
        let params = shared.types.repeat(times);
        let mut locals = Locals::new(u32::try_from(params.len()).ok()?);
        let reach = self.r.support.reach();
        let mut code: Vec<u8> = shared
            .increments
            .iter()
            .flat_map(|&(sum, amount)| {
                region::increase(sum, amount * i64::try_from(times).unwrap_or(0), reach)
            })
            .collect();
        let own: Vec<u32> = (0..u32::try_from(params.len()).ok()?).collect();
        for n in 0..times {
            let at = &own[n * shared.types.len()..][..shared.types.len()];
            code.extend(self.written(&shared.stmts, at, &mut locals, in_place)?);
        }
        Some(self.r.support.shared_body("whamm.probe", (params, vec![]), locals.types(), &code))
    }

    /// Writes the arguments of a call, given where operands are.
    pub(super) fn hand_over(&mut self, values: &[Expr], operands: &HashMap<Bound, Storage>) {
        let scope = Scope { bounds: operands.clone(), ..Scope::default() };
        let (program, libraries) = (self.r.program, self.r.libraries);
        let mut emitter = Emitter::new(
            &mut self.r.support,
            &mut self.locals,
            &scope,
            &Nothing,
            program,
            libraries,
        );
        values.iter().for_each(|value| emitter.expr(value));
        let code = std::mem::take(&mut emitter.out);
        self.plan.code.extend(code);
    }

    /// Writes a call of a function with the body of an action, unless it cannot be one or is better
    /// inlined.
    pub(super) fn call_body(
        &mut self,
        action: &Action<'a>,
        i: usize,
        args: &[(u32, ValType)],
        at_entry: bool,
    ) -> bool {
        if at_entry || self.is_hot(i) {
            return false;
        }
        let Some((shared, values)) = self.handed(action, i, true) else { return false };
        let Some(callee) = self.callee(&shared, 1, false) else { return false };
        let operands: Vec<u32> = args.iter().map(|a| a.0).collect();
        self.hand_over(&values, &bound_to(&operands));
        self.put().call(callee);
        true
    }

    /// Writes a call of a function that executes the only action at an instruction and returns the
    /// instruction's operands.
    pub(super) fn pass(&mut self, action: &Action<'a>, i: usize, args: &[W]) -> bool {
        if self.is_hot(i) {
            return false;
        }
        let Some((shared, values)) = self.handed(action, i, false) else { return false };
        let Some(deepest) = deepest(&values) else { return false };
        let Some(taken) = args.get(..=usize::from(deepest)) else { return false };
        let types: Vec<ValType> = taken.iter().rev().map(|&t| self.val(t)).collect();
        let offset = asks_offset(&values).then(|| self.offset(i)).flatten();
        let way = Way { types, offset: offset.is_some() };
        let Some(callee) = self.passing(&shared, &values, &way, false) else { return false };
        if let Some(offset) = offset {
            self.put().i64_const(offset);
        }
        self.put().call(callee);
        true
    }

    /// The function that computes numbers from its parameters, executes statements with them, and
    /// returns the operands. The rarer case of a choice is another such function, so that nothing
    /// has to be saved while it runs.
    fn passing(
        &mut self,
        shared: &Shared,
        values: &[Expr],
        way: &Way,
        seldom: bool,
    ) -> Option<u32> {
        let stmts = &shared.stmts[..];
        let given = u32::try_from(way.types.len()).ok()?;
        let mut params = way.types.clone();
        params.extend(way.offset.then_some(ValType::I64));
        let mut locals = Locals::new(u32::try_from(params.len()).ok()?);
        let own: Vec<u32> = values.iter().map(|e| locals.take(e.ty.slots()[0])).collect();
        let other = match rare(stmts) {
            Some((_, no)) => {
                let rarely =
                    Shared { stmts: no.to_vec(), types: shared.types.clone(), increments: vec![] };
                Some(self.passing(&rarely, values, way, true)?)
            }
            None => None,
        };
        let operands = (0..given).map(|n| Storage::Locals(given - 1 - n));
        let mut bounds: HashMap<Bound, Storage> = (0..).map(Bound::Arg).zip(operands).collect();
        bounds.insert(Bound::Offset, Storage::Locals(given));
        let scope = Scope { bounds, ..Scope::default() };
        let reach = self.r.support.reach();
        let mut computed = self.emitted(&mut locals, &scope, |emitter| {
            for (value, &local) in values.iter().zip(&own) {
                emitter.expr(value);
                emitter.put().local_set(local);
            }
        });
        let increments = shared.increments.iter();
        let mut code: Vec<u8> =
            increments.flat_map(|&(sum, amount)| region::increase(sum, amount, reach)).collect();
        code.append(&mut computed);
        if let (Some((unless, _)), Some(other)) = (rare(stmts), other) {
            let ty = self.r.support.block(&way.types);
            let scope = Scope {
                globals: self.r.globals.clone(),
                bounds: bound_to(&own),
                repeated: true,
                ..Scope::default()
            };
            code.append(&mut self.emitted(&mut locals, &scope, |emitter| emitter.expr(unless)));
            InstructionSink::new(&mut code).if_(ty);
            give_back(&mut code, given);
            InstructionSink::new(&mut code).else_();
            give_back(&mut code, u32::try_from(params.len()).ok()?);
            InstructionSink::new(&mut code).call(other).end();
        } else if seldom {
            let (callee, numbers) = self.apart(stmts)?;
            let scope = Scope { bounds: bound_to(&own), ..Scope::default() };
            code.append(&mut self.emitted(&mut locals, &scope, |emitter| {
                numbers.iter().for_each(|number| emitter.expr(number));
                emitter.put().call(callee);
            }));
            give_back(&mut code, given);
        } else {
            code.extend(self.written(stmts, &own, &mut locals, false)?);
            give_back(&mut code, given);
        }
        Some(self.r.support.shared_body(
            "whamm.probe",
            (params, way.types.clone()),
            locals.types(),
            &code,
        ))
    }

    /// The code that an emitter writes.
    fn emitted(
        &mut self,
        locals: &mut Locals,
        scope: &Scope,
        write: impl FnOnce(&mut Emitter<'_>),
    ) -> Vec<u8> {
        let (program, libraries) = (self.r.program, self.r.libraries);
        let mut emitter =
            Emitter::new(&mut self.r.support, locals, scope, &Nothing, program, libraries);
        write(&mut emitter);
        std::mem::take(&mut emitter.out)
    }

    fn offset(&self, i: usize) -> Option<i64> {
        let (pc, index, last) = self.site(i, false);
        let site =
            Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        match site.bound(Bound::Offset, &Ty::U64) {
            Some(ExprKind::Int(offset)) => u64::try_from(offset).ok().map(u64::cast_signed),
            _ => None,
        }
    }
}

/// The deepest operand that is read.
pub(super) fn deepest(values: &[Expr]) -> Option<u8> {
    let mut most = None;
    values.iter().for_each(|e| {
        e.walk(&mut |e| {
            most = most.max(if let ExprKind::Bound(b) = e.kind { argument(b) } else { None });
        });
    });
    most
}

fn asks_offset(values: &[Expr]) -> bool {
    let mut asks = false;
    values.iter().for_each(|e| e.walk(&mut |e| asks |= e.kind == ExprKind::Bound(Bound::Offset)));
    asks
}

/// Pushes the first parameters again.
fn give_back(code: &mut Vec<u8>, parameters: u32) {
    for local in 0..parameters {
        InstructionSink::new(code).local_get(local);
    }
}
