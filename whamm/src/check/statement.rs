//! Checks statements: the storage of variables, assignments, and loops.

use super::Checker;
use super::scope::{Context, Meaning};
use crate::diagnostic::Kind;
use crate::events::{Event, Mode};
use crate::fold;
use crate::hir::{Expr, ExprKind, Place, Stmt, Var};
use crate::source::Span;
use crate::syntax::ast::{self, Class, Name, StmtKind, Storage, When};
use crate::types::Ty;

/// Whether control cannot reach the end of a block.
pub(super) fn always_returns(block: &[ast::Stmt]) -> bool {
    block.iter().any(|s| match &s.kind {
        StmtKind::Return(_) => true,
        StmtKind::If { arms, otherwise: Some(last) } => {
            arms.iter().all(|a| always_returns(&a.1)) && always_returns(last)
        }
        _ => false,
    })
}

/// The same within a loop: statements that end an iteration end the block.
fn always_leaves(block: &[ast::Stmt]) -> bool {
    block.iter().any(|s| match &s.kind {
        StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { arms, otherwise: Some(last) } => {
            arms.iter().all(|a| always_leaves(&a.1)) && always_leaves(last)
        }
        _ => false,
    })
}

impl Checker<'_> {
    pub(super) fn block(&mut self, block: &[ast::Stmt]) -> Vec<Stmt> {
        self.scopes.enter();
        let list = block.iter().filter_map(|s| self.stmt(s)).collect();
        self.scopes.leave();
        let last = block.iter().position(|s| always_leaves(std::slice::from_ref(s)));
        if let Some(behind) = last.and_then(|n| block.get(n + 1)) {
            let message = "this is never reached: control does not come past the statement before";
            self.said.push_help(
                Kind::TypeCheckWarning,
                Some(behind.span),
                message,
                "leave it out, or put it in front",
            );
        }
        list
    }

    fn looped(&mut self, block: &[ast::Stmt]) -> Vec<Stmt> {
        self.loops += 1;
        let list = self.block(block);
        self.loops -= 1;
        list
    }

    /// Checks a statement outside of probes: declarations, assignments and calls.
    pub(super) fn start_stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        match &stmt.kind {
            StmtKind::Decl { storage, name, ty, init } => {
                let global = self.global(*storage, name, ty, init.as_ref());
                if !self.globals.contains_key(&name.text) {
                    self.broken.insert(name.text.clone());
                }
                global
            }
            StmtKind::Assign { .. } | StmtKind::Call(_) => self.stmt(stmt),
            _ => {
                self.error_help(
                    stmt.span,
                    "this statement has no place outside of probes",
                    "use `wasm:begin { ... }` for what happens before the program starts",
                );
                None
            }
        }
    }

    fn global(
        &mut self,
        storage: Storage,
        name: &Name,
        ty: &Ty,
        init: Option<&ast::Expr>,
    ) -> Option<Stmt> {
        if !self.type_fits(ty, storage, name.span) {
            self.look_over(init);
            return None;
        }
        let mut variable = self.variable(name, ty, storage.report);
        let value = match init {
            Some(e) => Some(fold::pure(self.expr_of(e, ty)?)),
            None => None,
        };
        if storage.class == Some(Class::Frame) {
            variable.init = value;
            let var = self.new_frame(variable);
            self.declare(name, var, ty);
            return None;
        }
        let constant = value.as_ref().is_none_or(fold::is_constant);
        if constant {
            variable.init.clone_from(&value);
        }
        let var = self.new_global(variable);
        self.declare(name, var, ty);
        value.filter(|_| !constant).map(|v| Stmt::Assign(Place::Var(var, ty.clone()), v))
    }

    fn type_fits(&mut self, ty: &Ty, storage: Storage, span: Span) -> bool {
        // The values of type parameters depend on the head, which is wrong.
        if ty.is_open() && matches!(self.context, Context::Stray(_)) {
            return false;
        }
        let reason = match ty {
            Ty::Map(kv) if !kv.0.is_key() => {
                "the key of a map is a number, a bool, a str or a tuple of such"
            }
            _ if ty.is_unit() => "a variable of the empty tuple holds nothing",
            _ if ty.is_open() => "this type parameter is not declared by the rule",
            Ty::FuncRef
                if storage.report
                    || storage.class.is_some()
                    || matches!(self.context, Context::Start) =>
            {
                "a funcref is kept only in local variables"
            }
            Ty::Map(_) if storage.class == Some(Class::Frame) => {
                "a variable of a frame holds numbers, truths and texts"
            }
            Ty::FuncRef => return true,
            _ if !ty.is_storable() => "a tuple holds no map, and a map no funcref",
            _ => return true,
        };
        self.error(span, format!("there is no variable of type {ty} here: {reason}"));
        false
    }

    pub(super) fn stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        match &stmt.kind {
            StmtKind::Decl { storage, name, ty, init } => {
                let ty = self.closed(ty);
                let decl = self.decl(*storage, name, &ty, init.as_ref());
                if !self.scopes.innermost(&name.text) {
                    self.broken.insert(name.text.clone());
                }
                decl
            }
            StmtKind::Assign { target, op, value } => self.assign(target, *op, value, stmt.span),
            StmtKind::Call(call) => self.call_stmt(call),
            StmtKind::Return(value) => self.return_stmt(value.as_ref(), stmt.span),
            StmtKind::If { arms, otherwise } => self.choices(arms, otherwise.as_deref()),
            StmtKind::Count { name, low, high, body } => {
                let (low, high) = (self.expr(low, None), self.expr(high, None));
                let (Some(low), Some(high)) = (low, high) else {
                    return self.unclear_loop([name], body);
                };
                let ty = if fold::is_constant(&low) { high.ty.clone() } else { low.ty.clone() };
                let adapt = |e: Expr| {
                    if fold::is_constant(&e) && e.ty.is_int() {
                        Expr { ty: ty.clone(), ..e }
                    } else {
                        e
                    }
                };
                let (low, high) = (adapt(low), adapt(high));
                if !ty.is_int() || low.ty != high.ty {
                    self.error(
                        stmt.span,
                        format!(
                            "a loop counts between two whole numbers of one type, not {} and {}",
                            low.ty, high.ty
                        ),
                    );
                    return self.unclear_loop([name], body);
                }
                self.scopes.enter();
                let counter = self.declare_local(name, &ty);
                let body = self.looped(body);
                self.scopes.leave();
                Some(Stmt::Count(counter, low, high, body))
            }
            StmtKind::Each { key, value, map, body } => {
                let map = self.expr(map, None);
                let types = map.as_ref().and_then(|map| self.map_types(&map.ty, map.span));
                let (Some(map), Some((k, v))) = (map, types) else {
                    return self.unclear_loop(std::iter::once(key).chain(value), body);
                };
                self.scopes.enter();
                let key = self.declare_local(key, &k);
                let value = value.as_ref().map(|name| self.declare_local(name, &v));
                let body = self.looped(body);
                self.scopes.leave();
                Some(Stmt::Each(key, value, map, body))
            }
            StmtKind::While { cond, bound, body } => {
                let cond = self.expr_of(cond, &Ty::Bool);
                let body = self.looped(body);
                Some(Stmt::While(cond?, *bound, body))
            }
            StmtKind::Break | StmtKind::Continue if self.loops == 0 => {
                self.error(stmt.span, "there is no loop here");
                None
            }
            StmtKind::Break => Some(Stmt::Break),
            StmtKind::Continue => Some(Stmt::Continue),
        }
    }

    /// Checks the body of a loop whose variables have no types.
    fn unclear_loop<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n Name>,
        body: &[ast::Stmt],
    ) -> Option<Stmt> {
        let before = self.broken.clone();
        self.broken.extend(names.into_iter().map(|name| name.text.clone()));
        self.looped(body);
        self.broken = before;
        None
    }

    fn decl(
        &mut self,
        storage: Storage,
        name: &Name,
        ty: &Ty,
        init: Option<&ast::Expr>,
    ) -> Option<Stmt> {
        if !self.type_fits(ty, storage, name.span) {
            self.look_over(init);
            return None;
        }
        let value = match init {
            Some(e) => Some(self.expr_of(e, ty)?),
            None => None,
        };
        if !storage.report && storage.class.is_none() {
            let number = self.declare_local(name, ty);
            return Some(Stmt::Declare(number, value));
        }
        let sited = match &self.context {
            Context::Probe(site) => site.matched.event.has_sites(),
            Context::Stray(stray) if !stray.function => stray.event().is_none_or(Event::has_sites),
            _ => {
                self.error_help(
                    name.span,
                    "variables that outlive an execution are declared in probes or outside",
                    "declare it outside of the function",
                );
                return None;
            }
        };
        let value = value.map(|v| self.with_first_texts(v));
        if let Some(value) = &value
            && !self.before_start(value)
        {
            return None;
        }
        let mut variable = self.variable(name, ty, storage.report);
        variable.init = value.map(fold::pure);
        let var = match storage.class {
            Some(Class::Shared) => self.shared(name, variable),
            Some(Class::Frame) => self.framed(name, variable),
            _ if !sited => {
                self.error_help(
                    name.span,
                    "this event has no sites",
                    "use `shared`, or declare it outside of the probe",
                );
                return None;
            }
            _ => {
                self.body.sites.push(variable);
                Var::Site(u32::try_from(self.body.sites.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.declare(name, var, ty);
        None
    }

    /// Declares one instance for all events that a rule matches: the first event creates it.
    fn shared(&mut self, name: &Name, variable: crate::hir::Variable) -> Var {
        if let Some(found) =
            self.program.globals.iter().position(|g| g.span == name.span && g.ty == variable.ty)
        {
            return Var::Global(u32::try_from(found).unwrap_or(u32::MAX));
        }
        if let Some(init) = variable.init.as_ref().filter(|i| !fold::is_constant(i)) {
            let message = "a shared variable begins with a constant: it belongs to no site";
            self.error(init.span, message);
        }
        self.new_global(variable)
    }

    fn framed(&mut self, name: &Name, variable: crate::hir::Variable) -> Var {
        match self.program.frames.iter().position(|g| g.span == name.span && g.ty == variable.ty) {
            Some(found) => Var::Frame(u32::try_from(found).unwrap_or(u32::MAX)),
            None => self.new_frame(variable),
        }
    }

    fn place(&mut self, e: &ast::Expr) -> Option<Place> {
        match &e.kind {
            ast::ExprKind::Name(name) => match self.resolve(name, e.span)? {
                Meaning::Var(var, ty) => Some(Place::Var(var, ty)),
                Meaning::Event(found) if !found.bound.is_static() => {
                    let value = self.expr(e, None)?;
                    let ExprKind::Bound(bound) = value.kind else {
                        self.error_help(
                            e.span,
                            format!("`{name}` is computed and cannot be assigned"),
                            "assign to argN, resN or localN",
                        );
                        return None;
                    };
                    self.body.assigned.push(bound);
                    Some(Place::Bound(bound, value.ty))
                }
                _ => {
                    self.error(e.span, format!("`{name}` cannot be assigned"));
                    None
                }
            },
            ast::ExprKind::Field(inner, n) => {
                let inner = self.place(inner)?;
                self.part(&inner.ty(), *n, e.span)?;
                Some(Place::Field(Box::new(inner), *n))
            }
            ast::ExprKind::Index(map, key) => {
                let (map, key, _) = self.element(map, key, e.span)?;
                Some(Place::Element(Box::new(map), Box::new(key)))
            }
            _ => {
                self.error(e.span, "this cannot be assigned to");
                None
            }
        }
    }

    fn assign(
        &mut self,
        target: &ast::Expr,
        op: Option<ast::BinOp>,
        value: &ast::Expr,
        span: Span,
    ) -> Option<Stmt> {
        let Some(place) = self.place(target) else {
            self.look_over([value]);
            return None;
        };
        let ty = place.ty();
        let value = self.expr_of(value, &ty)?;
        if matches!(&place, Place::Var(_, Ty::Map(_))) {
            self.error_help(
                span,
                "a map is not assigned as a whole",
                "assign to its elements: `m[key] = value;`",
            );
            return None;
        }
        let Some(op) = op else { return Some(Stmt::Assign(place, value)) };
        if !self.operator_fits(op, &ty) {
            self.error(span, format!("`{}=` does not apply to {ty}", op.symbol()));
            return None;
        }
        Some(Stmt::Update(place, op, value))
    }

    fn call_stmt(&mut self, call: &ast::Expr) -> Option<Stmt> {
        let value = self.expr(call, None)?;
        if let ast::ExprKind::Method(_, _, _, When::Init) = call.kind
            && matches!(self.context, Context::Probe(_) | Context::Stray(_))
        {
            self.body.inits.push(value);
            return None;
        }
        Some(Stmt::Do(value))
    }

    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<Stmt> {
        let wanted = match &self.context {
            Context::Function(ty) => ty.clone(),
            Context::Probe(site) if matches!(site.matched.mode, Mode::Alt | Mode::BlockAlt) => {
                return self.return_instead(value, span);
            }
            Context::Probe(_) => return self.return_unasked(value, span),
            Context::Stray(_) => {
                self.look_over(value);
                return None;
            }
            Context::Start => Ty::unit(),
        };
        match value {
            None if wanted.is_unit() => Some(Stmt::Return(None)),
            None => {
                self.error(span, format!("this function gives {}", wanted.with_article()));
                None
            }
            Some(_) if wanted.is_unit() => {
                self.said.push(
                    Kind::TypeCheckError,
                    Some(span),
                    "there is nothing that a value could be returned to",
                );
                None
            }
            Some(e) => Some(Stmt::Return(Some(self.expr_of(e, &wanted)?))),
        }
    }

    /// The end of a probe that replaces nothing. A value has no use: it may have been meant for an
    /// instruction.
    fn return_unasked(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<Stmt> {
        let Some(e) = value else { return Some(Stmt::Return(None)) };
        self.said.push_help(
            Kind::TypeCheckWarning,
            Some(span),
            "there is nothing that this value could be returned to",
            "a probe gives values in place of an instruction: write the mode `alt`",
        );
        Some(Stmt::Return(Some(self.expr(e, None)?)))
    }

    /// Checks the value that a body returns in place of the instruction's results.
    fn return_instead(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<Stmt> {
        let Some(e) = value else { return Some(Stmt::Return(None)) };
        let value = self.expr(e, None)?;
        let single = |ty: &Ty| ty.is_numeric() || matches!(ty, Ty::Bool | Ty::FuncRef);
        let fits = match &value.ty {
            Ty::Tuple(parts) => !parts.is_empty() && parts.iter().all(single),
            one => single(one),
        };
        if !fits {
            let message = format!("an instruction does not give {}", value.ty.with_article());
            self.error_help(
                span,
                message,
                "return a number, or a tuple of numbers where it gives several",
            );
            return None;
        }
        Some(Stmt::Return(Some(value)))
    }

    fn choices(
        &mut self,
        arms: &[(ast::Expr, Vec<ast::Stmt>)],
        otherwise: Option<&[ast::Stmt]>,
    ) -> Option<Stmt> {
        let mut checked: Vec<_> = Vec::new();
        for (cond, block) in arms {
            let cond = self.expr_of(cond, &Ty::Bool);
            checked.push((cond, self.block(block)));
        }
        let mut rest = otherwise.map(|b| self.block(b)).unwrap_or_default();
        for (cond, block) in checked.into_iter().rev() {
            rest = vec![Stmt::If(cond?, block, rest)];
        }
        rest.pop()
    }
}
