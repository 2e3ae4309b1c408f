//! The values that a probe leaves in place of an instruction: the results of a function that it
//! calls instead, and the values that its body returns.

use super::code::Emitter;
use crate::events::Function as EventFunction;
use crate::fold;
use crate::hir::{Builtin, Expr, ExprKind, Stmt};
use crate::source::Span;
use crate::types::Ty;
use std::collections::HashMap;
use std::rc::Rc;
use wasm_aot_body::replacement::kept_of_call;
use wasm_encoder::{BlockType, ValType};

/// A function of the program: its final index, and its type.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    /// Its index in the output.
    pub index: u32,
    /// Its parameters.
    pub params: Vec<ValType>,
    /// Its results.
    pub results: Vec<ValType>,
}

/// The functions of the program that can be called instead of an instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callees {
    /// By their indices in the original program.
    pub functions: Vec<Callee>,
    /// Their indices, by name.
    pub names: HashMap<String, u32>,
}

impl Callees {
    /// The function with a constant index or name.
    pub(crate) fn find(&self, which: &Expr) -> Option<&Callee> {
        let number = match &which.kind {
            ExprKind::Int(n) => u32::try_from(*n).ok()?,
            ExprKind::Str(name) => *self.names.get(&**name)?,
            _ => return None,
        };
        self.functions.get(number as usize)
    }
}

/// The caller of a program's function that is called in place of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// The probe.
    Here {
        /// The functions that can be called.
        callees: Rc<Callees>,
        /// The number of operands left, counted from the top, because the probe dropped the others;
        /// 0 if it dropped none.
        left: usize,
    },
    /// The engine, which reads the function's number in a list from a local.
    Engine {
        /// The local, if there is a decision.
        decision: Option<u32>,
        /// What identifies these functions, known when a site is matched.
        list: Vec<Expr>,
    },
}

/// The decision that an engine reads: use the probe's values, or the first function's results, and
/// so on. With 0, the engine executes the instruction.
const GIVEN: i32 = 1;
const FIRST: i32 = 2;

/// Where a probe stores the values that it leaves instead of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    /// How functions are called instead.
    pub calls: Calls,
    /// Locals for these values, in order.
    pub results: Vec<(u32, ValType)>,
    /// How many of them, the last ones, `return` sets.
    pub returned: usize,
}

impl Replacement {
    /// The results of a function that replaces an instruction for an engine.
    pub(crate) fn left(&self) -> Vec<(u32, ValType)> {
        let decision = match self.calls {
            Calls::Engine { decision, .. } => decision,
            Calls::Here { .. } => None,
        };
        let decision = decision.map(|local| (local, ValType::I32));
        self.results.iter().copied().chain(decision).collect()
    }
}

/// The actions of a replacement's body, anywhere in it.
#[derive(Debug, Default)]
pub(crate) struct Deeds<'a> {
    /// Whether it drops the operands.
    pub drops: bool,
    /// The functions that it calls instead.
    pub calls: Vec<&'a Expr>,
    /// The values that it returns.
    pub returns: Vec<&'a Expr>,
}

impl<'a> Deeds<'a> {
    /// Collects those of a body.
    pub(crate) fn of(stmts: &'a [Stmt]) -> Self {
        let mut deeds = Self::default();
        deeds.look(stmts);
        deeds
    }

    fn look(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match stmt {
                Stmt::Return(Some(e)) => self.returns.push(e),
                Stmt::Do(Expr {
                    kind: ExprKind::Builtin(Builtin::Event(function), args), ..
                }) => match function {
                    EventFunction::DropArgs => self.drops = true,
                    EventFunction::AltCallById | EventFunction::AltCallByName => {
                        self.calls.extend(args.first());
                    }
                    EventFunction::DupAt => {}
                },
                Stmt::If(_, yes, no) => {
                    self.look(yes);
                    self.look(no);
                }
                Stmt::Count(_, _, _, body)
                | Stmt::Each(_, _, _, body)
                | Stmt::While(_, _, body) => self.look(body),
                _ => {}
            }
        }
    }
}

/// Whether every path through a body calls a function instead, or returns a value.
pub(crate) fn always_gives(stmts: &[Stmt], fold: &dyn Fn(&Expr) -> Expr) -> bool {
    stmts.iter().any(|stmt| match stmt {
        Stmt::Return(value) => value.is_some(),
        Stmt::Do(Expr { kind: ExprKind::Builtin(Builtin::Event(function), _), .. }) => {
            matches!(function, EventFunction::AltCallById | EventFunction::AltCallByName)
        }
        Stmt::If(condition, yes, no) => match fold(condition).kind {
            ExprKind::Bool(true) => always_gives(yes, fold),
            ExprKind::Bool(false) => always_gives(no, fold),
            _ => always_gives(yes, fold) && always_gives(no, fold),
        },
        _ => false,
    })
}

/// The possible types of the returned values, in all combinations: the instruction's own result
/// types, or types that the values fit.
pub(crate) fn types_returned(
    returns: &[&Expr],
    natural: impl Fn(usize) -> Option<ValType>,
) -> Vec<Vec<ValType>> {
    const NUMBERS: [ValType; 4] = [ValType::I32, ValType::I64, ValType::F32, ValType::F64];
    let Some(first) = returns.first() else { return vec![vec![]] };
    let own = first.ty.slots();
    let parts = |e: &Expr| match &e.kind {
        ExprKind::Tuple(parts) if parts.len() == own.len() => parts.clone(),
        _ => vec![e.clone()],
    };
    let parts: Vec<Vec<Expr>> = returns.iter().map(|e| parts(e)).collect();
    let fits = |at: usize, ty: ValType| {
        own.get(at) == Some(&ty)
            || parts.iter().all(|list| list.get(at).is_some_and(|e| adapted(e, ty).is_some()))
    };
    let mut all = vec![vec![]];
    for at in 0..own.len() {
        let types = match natural(own.len() - 1 - at) {
            Some(ty) => vec![ty],
            None => NUMBERS.into_iter().filter(|&ty| fits(at, ty)).collect(),
        };
        let types = if types.is_empty() { vec![own[at]] } else { types };
        all = all
            .iter()
            .flat_map(|list: &Vec<ValType>| {
                types.iter().map(move |ty| [&list[..], &[*ty]].concat())
            })
            .collect();
    }
    all
}

/// Whether code follows a call that replaces the instruction; `more` indicates that code follows
/// these statements.
pub(crate) fn goes_on_after_call(stmts: &[Stmt], more: bool) -> bool {
    let calls = |stmt: &Stmt| !Deeds::of(std::slice::from_ref(stmt)).calls.is_empty();
    stmts.iter().enumerate().filter(|(_, stmt)| calls(stmt)).any(|(at, stmt)| {
        let more = match &stmts[at + 1..] {
            [] => more,
            [Stmt::Return(None), ..] => false,
            [Stmt::Return(Some(e)), ..] => !is_settled(e),
            _ => true,
        };
        match stmt {
            Stmt::Do(_) => more,
            Stmt::If(_, yes, no) => goes_on_after_call(yes, more) || goes_on_after_call(no, more),
            _ => true,
        }
    })
}

/// Whether the value of an expression cannot change in the meantime.
fn is_settled(e: &Expr) -> bool {
    let mut settled = true;
    e.walk(&mut |e| {
        settled &= !matches!(
            e.kind,
            ExprKind::Var(_) | ExprKind::Call(..) | ExprKind::Library(..) | ExprKind::Index(..)
        );
    });
    settled
}

/// Converts a constant to another type, as a literal of that type.
#[expect(clippy::cast_precision_loss, reason = "the nearest fraction is what a literal means")]
fn adapted(e: &Expr, slot: ValType) -> Option<Expr> {
    if e.ty.slots() == [slot] {
        return Some(e.clone());
    }
    let (kind, ty) = match (&e.kind, slot) {
        (ExprKind::Int(n), ValType::I32)
            if (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(n) =>
        {
            (ExprKind::Int(Ty::I32.wrap(*n)), Ty::I32)
        }
        (ExprKind::Int(n), ValType::I64) => (ExprKind::Int(Ty::I64.wrap(*n)), Ty::I64),
        (ExprKind::Int(n), ValType::F32) => (ExprKind::Float(*n as f64), Ty::F32),
        (ExprKind::Int(n), ValType::F64) => (ExprKind::Float(*n as f64), Ty::F64),
        (ExprKind::Float(x), ValType::F32) => (ExprKind::Float(*x), Ty::F32),
        (ExprKind::Float(x), ValType::F64) => (ExprKind::Float(*x), Ty::F64),
        _ => return None,
    };
    Some(Expr { kind, ty, span: e.span })
}

fn names(types: &[ValType]) -> String {
    let one = |ty: &ValType| match *ty {
        ValType::I32 => "i32",
        ValType::I64 => "i64",
        ValType::F32 => "f32",
        ValType::F64 => "f64",
        ValType::V128 => "v128",
        ValType::Ref(_) => "a reference",
    };
    if types.is_empty() {
        "nothing".into()
    } else {
        types.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Emitter<'_> {
    /// Writes a whole body that an engine calls in place of an instruction.
    pub(crate) fn instead(&mut self, condition: Option<&Expr>, stmts: &[Stmt]) {
        let scope = self.scope;
        let Some(Replacement { calls: Calls::Engine { decision: Some(decision), .. }, .. }) =
            scope.replacement
        else {
            return self.body(None, stmts);
        };
        match condition.map(|condition| self.fold(condition)) {
            // A condition that is true has the value of `GIVEN`.
            Some(condition) => {
                self.value(&condition);
                self.put().local_tee(decision);
                self.open_if(BlockType::Empty);
                self.body(None, stmts);
                self.close();
            }
            None => {
                self.put().i32_const(GIVEN).local_set(decision);
                self.body(None, stmts);
            }
        }
    }

    fn refuse(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.support.refused.push((span, message.into(), help.into()));
    }

    /// Calls a function of the program instead of the instruction, or makes the engine call it.
    pub(super) fn call_instead(&mut self, replacement: &Replacement, which: &Expr, span: Span) {
        match &replacement.calls {
            Calls::Here { callees, left } => {
                let which = self.fold(which);
                match is_constant(&which) {
                    true => self.call_here(replacement, (callees, *left), &which, span),
                    false => self.refuse_unknown(span),
                }
            }
            Calls::Engine { decision, list } => {
                let number = list.iter().position(|known| known.same(which));
                let (Some(number), Some(decision)) = (number, decision) else {
                    return self.refuse_unknown(span);
                };
                let number = FIRST + i32::try_from(number).unwrap_or(0);
                self.put().i32_const(number).local_set(*decision);
            }
        }
    }

    fn refuse_unknown(&mut self, span: Span) {
        let help = "give the index or the name of a function of the program, or what is known at \
                    the site; `if` chooses between several";
        self.refuse(span, "which function is called instead must be known while compiling", help);
    }

    fn call_here(
        &mut self,
        replacement: &Replacement,
        (callees, left): (&Callees, usize),
        which: &Expr,
        span: Span,
    ) {
        let Some(callee) = callees.find(which) else {
            let help = "give the constant index or the name of a function of the program";
            return self.refuse(span, "there is no such function to call instead", help);
        };
        let scope = self.scope;
        let operands = &scope.operands;
        let fits =
            |some: &[(u32, ValType)]| some.iter().map(|o| o.1).eq(callee.params.iter().copied());
        let last = &operands[operands.len() - left..];
        // The callee operand of an indirect call is the last one, and is left out.
        let passed = match operands.get(..callee.params.len()) {
            _ if left > 0 && fits(last) => last,
            Some(first) if fits(first) => first,
            _ => {
                let help = "it must take what the instruction takes";
                return self.refuse(
                    span,
                    "the function to be called instead has another type than the instruction",
                    help,
                );
            }
        };
        let wanted: Vec<ValType> = replacement.results.iter().map(|r| r.1).collect();
        let Some(kept) = kept_of_call(&callee.results, &wanted, replacement.returned) else {
            let help = "it must give what the instruction gives, or what `return` leaves over";
            return self.refuse(
                span,
                "the function to be called instead has another type than the instruction",
                help,
            );
        };
        for (local, _) in passed {
            self.put().local_get(*local);
        }
        self.put().call(callee.index);
        if kept < callee.results.len() {
            for _ in &callee.results {
                self.put().drop();
            }
        }
        for &(local, _) in
            replacement.results[..kept].iter().rev().filter(|_| kept == callee.results.len())
        {
            self.put().local_set(local);
        }
    }

    /// Stores the value that a body returns instead of the instruction's result.
    pub(super) fn give_instead(&mut self, replacement: &Replacement, value: &Expr) {
        // What is known only at the site is no literal: it keeps its type, as in a monitor.
        let value = fold::pure(value.clone());
        let given = &replacement.results[replacement.results.len() - replacement.returned..];
        let wanted: Vec<ValType> = given.iter().map(|r| r.1).collect();
        let parts: Vec<Expr> = match &value.kind {
            ExprKind::Tuple(parts) => parts.clone(),
            _ => vec![value.clone()],
        };
        let adapted: Option<Vec<Expr>> =
            parts.iter().zip(&wanted).map(|(e, &slot)| adapted(e, slot)).collect();
        match adapted.filter(|list| list.len() == wanted.len() && parts.len() == wanted.len()) {
            Some(list) => list.iter().for_each(|e| self.folded(e)),
            None if value.ty.slots() == wanted => self.folded(&value),
            None => {
                let is_number = |ty: &ValType| !matches!(ty, ValType::V128 | ValType::Ref(_));
                let help = match wanted.iter().all(is_number) {
                    true => "convert it with `as`; several values are a tuple: `return (1, 2);`",
                    false => "call a function that gives it, with `alt_call_by_name(...)`",
                };
                let (found, wanted) = (names(&value.ty.slots()), names(&wanted));
                let message = format!("{wanted} has to be returned here, and this is {found}");
                return self.refuse(value.span, message, help);
            }
        }
        for &(local, _) in given.iter().rev() {
            self.put().local_set(local);
        }
    }

    /// Writes a value, as far as it is known at the site.
    fn folded(&mut self, e: &Expr) {
        let e = self.fold(e);
        self.value(&e);
    }
}

/// Whether it is the index or the name of a function.
pub(crate) fn is_constant(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Int(_) | ExprKind::Str(_))
}
