//! Groups of events with the same code, which share functions.

use super::elements::Element;
use super::name::{self, Event as EventName};
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::cells::{self, SiteRow};
use crate::emit::memories::{self, Bulk};
use crate::emit::storage::{Storage, WORD};
use crate::events::{self, Bound, Event, Instruction, Mode};
use crate::fold::{self, OfEvent};
use crate::hir::{Builtin, Expr, ExprKind, Probe, Program, Stmt, Translate, Var, Variable};
use crate::rewrite::region::is_added_only;
use crate::types::Ty;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Events of a rule that have the same code left, after folding with the facts about the event.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) events: Vec<&'a Probe>,
    pub(super) predicate: Option<Expr>,
    pub(super) stmts: Vec<Stmt>,
    pub(super) locals: Vec<Ty>,
    pub(super) sites: Vec<Variable>,
    pub(super) inits: Vec<Expr>,
    pub(super) bounds: BTreeMap<Bound, Ty>,
    /// Elements of maps that variables of its sites replace.
    pub(super) put_off: Vec<Element>,
}

/// Names and values that cannot be parameters of a site's function become variables of the site,
/// which are initialised with them.
struct Hoist<'a> {
    /// Whether texts and calls become variables of sites: code that runs when a site is matched
    /// needs none.
    keeps: bool,
    event: &'a OfEvent,
    sites: Vec<Variable>,
    script: u16,
}

impl Translate for Hoist<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        let e = fold::fold(e.clone(), self.event);
        self.hoisted(e)
    }

    /// An expression without a value. Which function is called instead of an instruction is known
    /// when a site is matched.
    fn done(&mut self, e: &Expr) -> Expr {
        let calls_instead = matches!(
            e.kind,
            ExprKind::Builtin(
                Builtin::Event(events::Function::AltCallById | events::Function::AltCallByName),
                _
            )
        );
        let keeps = self.keeps;
        self.keeps &= !calls_instead;
        let done = self.expr(e);
        self.keeps = keeps;
        done
    }
}

impl Hoist<'_> {
    fn hoisted(&mut self, e: Expr) -> Expr {
        let kept = match &e.kind {
            ExprKind::Bound(
                Bound::Fname
                | Bound::File
                | Bound::Targets
                | Bound::Opname
                | Bound::TargetFnName
                | Bound::TargetFnType
                | Bound::TargetImpModule,
            ) => true,
            ExprKind::Library(call, _) => call.at_match,
            // The bytes of the program tell it.
            ExprKind::Builtin(Builtin::ActiveDataStart | Builtin::ActiveDataLen, args) => {
                args.iter().all(Expr::is_static)
            }
            _ => false,
        };
        if kept && self.keeps {
            let number = self.site(&e);
            return Expr { kind: ExprKind::Var(Var::Site(number)), ..e };
        }
        if let ExprKind::Index(map, key) = &e.kind
            && map.kind == ExprKind::Bound(Bound::Targets)
        {
            // An engine passes all labels of a table as one text.
            let labels = Expr { kind: map.kind.clone(), ty: Ty::Str, span: map.span };
            let key = self.hoisted((**key).clone());
            let kind = ExprKind::Builtin(Builtin::StrNumber, vec![self.hoisted(labels), key]);
            return Expr { kind, ..e };
        }
        let Expr { kind, ty, span } = e;
        let mut sub = |e: Box<Expr>| Box::new(self.hoisted(*e));
        let kind = match kind {
            ExprKind::Bound(Bound::Align) => {
                let flags = Expr { kind: ExprKind::Bound(Bound::Align), ty: Ty::U32, span };
                let int = |n| Box::new(Expr { kind: ExprKind::Int(n), ty: Ty::U32, span });
                let exponent = Expr {
                    kind: ExprKind::Binary(
                        crate::syntax::ast::BinOp::BitAnd,
                        Box::new(flags),
                        int(31),
                    ),
                    ty: Ty::U32,
                    span,
                };
                ExprKind::Binary(crate::syntax::ast::BinOp::Shl, int(1), Box::new(exponent))
            }
            ExprKind::Field(a, n) => ExprKind::Field(sub(a), n),
            ExprKind::Unary(op, a) => ExprKind::Unary(op, sub(a)),
            ExprKind::Cast(a) => ExprKind::Cast(sub(a)),
            ExprKind::Index(a, b) => ExprKind::Index(sub(a), sub(b)),
            ExprKind::Binary(op, a, b) => ExprKind::Binary(op, sub(a), sub(b)),
            ExprKind::Choice(three) => {
                ExprKind::Choice(Box::new((*three).map(|e| self.hoisted(e))))
            }
            ExprKind::Tuple(list) => {
                ExprKind::Tuple(list.into_iter().map(|e| self.hoisted(e)).collect())
            }
            ExprKind::Call(n, list) => {
                ExprKind::Call(n, list.into_iter().map(|e| self.hoisted(e)).collect())
            }
            ExprKind::Builtin(b, list) => {
                ExprKind::Builtin(b, list.into_iter().map(|e| self.hoisted(e)).collect())
            }
            ExprKind::Library(call, list) => {
                ExprKind::Library(call, list.into_iter().map(|e| self.hoisted(e)).collect())
            }
            other => other,
        };
        Expr { kind, ty, span }
    }

    fn site(&mut self, e: &Expr) -> u32 {
        let found = self
            .sites
            .iter()
            .position(|s| !s.report && s.name.is_empty() && s.init.as_ref() == Some(e));
        let number = found.unwrap_or_else(|| {
            let variable = Variable {
                name: Rc::from(""),
                ty: e.ty.clone(),
                report: false,
                init: Some(e.clone()),
                script: self.script,
                span: e.span,
            };
            self.sites.push(variable);
            self.sites.len() - 1
        });
        u32::try_from(number).unwrap_or(0)
    }
}

pub(super) fn of<'a>(probe: &'a Probe) -> Option<Group<'a>> {
    let (body, event) = (&probe.body, OfEvent(probe.matched.event));
    let known = |e: &Expr| {
        Hoist { keeps: false, event: &event, sites: Vec::new(), script: probe.script }.expr(e)
    };
    let predicate = body.predicate.as_ref().map(known);
    if let Some(ExprKind::Bool(false)) = predicate.as_ref().map(|p| &p.kind) {
        return None;
    }
    let sites = body
        .sites
        .iter()
        .map(|s| Variable { init: s.init.as_ref().map(known), ..s.clone() })
        .collect();
    let mut hoist = Hoist { keeps: true, event: &event, sites, script: probe.script };
    let stmts = hoist.stmts(&body.stmts);
    // A memory that is not there is found where a site is matched.
    let sizes = memories::sizes(predicate.iter(), &stmts);
    Some(Group {
        events: vec![probe],
        predicate: predicate.filter(|p| p.kind != ExprKind::Bool(true)),
        stmts,
        locals: body.locals.clone(),
        sites: hoist.sites,
        inits: body.inits.iter().map(known).chain(sizes).collect(),
        bounds: body
            .bounds
            .iter()
            .filter(|b| body.declared.contains(b.0))
            .map(|(b, t)| (*b, t.clone()))
            .collect(),
        put_off: Vec::new(),
    })
}

fn same(a: &Group<'_>, b: &Group<'_>) -> bool {
    let (x, y) = (a.events[0], b.events[0]);
    let alike = |s: &Variable, t: &Variable| {
        s.name == t.name && s.ty == t.ty && s.init == t.init && s.report == t.report
    };
    x.rule == y.rule
        && x.matched.mode == y.matched.mode
        && matches!((x.matched.event, y.matched.event), (Event::Opcode(_), Event::Opcode(_)))
        && a.predicate == b.predicate
        && a.stmts == b.stmts
        && a.inits == b.inits
        && a.bounds == b.bounds
        && a.sites.len() == b.sites.len()
        && a.sites.iter().zip(&b.sites).all(|(s, t)| alike(s, t))
        && (skipped(x) == skipped(y) || !a.asks_immediates())
        && (x.matched.event == y.matched.event || !memories::repeats(&a.stmts))
}

/// How many immediates engines number before those that scripts number: for `br_table` the count of
/// its labels, for an access to a lane those that define its address.
fn skipped(probe: &Probe) -> u32 {
    match probe.matched.event {
        Event::Opcode(op) if op.name == "br_table" => 1,
        Event::Opcode(op) if op.accessed().is_some() => 3,
        _ => 0,
    }
}

/// All groups, in the order of scripts; reports what no engine can do.
pub(super) fn collect<'a>(program: &'a Program, said: &mut Diagnostics) -> Vec<Group<'a>> {
    let mut list: Vec<Group<'a>> = Vec::new();
    // An engine rejects a rule if it does not find an operand's type: a rule without a bound is for
    // addresses of 32 bits.
    for probe in program.probes.iter().filter(|p| p.matched.event.has_sites() && !p.alternative) {
        // What the predicate excludes needs nothing of an engine.
        let Some(group) = of(probe) else { continue };
        if !probe.body.assigned.is_empty() {
            let message = "assigning to what the program computes is not possible in an engine";
            said.push_help(
                Kind::WeiError,
                Some(probe.span),
                message,
                "the rewriting target can: give the program with `-a`",
            );
            continue;
        }
        if let Some(name) = kept_operand(probe) {
            let message = format!("`{name}` is known only before the instruction in an engine");
            said.push_help(
                Kind::WeiError,
                Some(probe.span),
                message,
                "the rewriting target keeps it: give the program with `-a`",
            );
            continue;
        }
        if let Some(span) = memories::early(&probe.body) {
            let message = "the program's memories do not exist yet when a site is matched";
            let help = "assign the value in the body, or in a variable outside of probes";
            said.push_help(Kind::WeiError, Some(span), message, help);
            continue;
        }
        if asks(probe, Bound::Trap) {
            let message = format!(
                "whether `{}` is going to trap is not known in an engine",
                probe.matched.event.names().1
            );
            said.push_help(
                Kind::WeiError,
                Some(probe.span),
                message,
                "the rewriting target knows it: give the program with `-a`",
            );
            continue;
        }
        match list
            .iter_mut()
            .rev()
            .take_while(|g| g.events[0].rule == probe.rule)
            .find(|g| same(g, &group))
        {
            Some(found) => found.events.push(probe),
            None => list.push(group),
        }
    }
    list
}

/// Whether a probe reads a variable.
fn asks(probe: &Probe, bound: Bound) -> bool {
    let mut found = false;
    probe.body.walk(&mut |e| found |= e.kind == ExprKind::Bound(bound));
    found
}

/// An operand of a block that a probe reads after the block has consumed it.
fn kept_operand(probe: &Probe) -> Option<String> {
    if !probe.matched.event.has_kept_operands(probe.matched.mode) {
        return None;
    }
    let operand = |bound: &Bound| match bound {
        Bound::Arg(n) => Some(format!("arg{n}")),
        _ => None,
    };
    let mut found = probe.body.bounds.iter().find_map(|(bound, _)| operand(bound));
    probe.body.walk(&mut |e| {
        if let (ExprKind::Bound(bound), None) = (&e.kind, &found) {
            found = operand(bound);
        }
    });
    found
}

/// Whether only the `wasm-aot` engine provides this.
fn is_extension(bound: Bound) -> bool {
    matches!(
        bound,
        Bound::File
            | Bound::Targets
            | Bound::Line
            | Bound::AppMemId
            | Bound::Res(_)
            | Bound::DefaultTarget
            | Bound::TargetFnName
            | Bound::TargetFnType
            | Bound::TargetImpModule
            | Bound::TargetFuncref
            | Bound::ResolvedFid
            | Bound::RefTaken
            | Bound::MemoryBytes
            | Bound::Trap
    )
}

impl Group<'_> {
    /// Whether it needs more than all engines of the family provide.
    pub(super) fn is_extended(&self) -> bool {
        let mut found = self.events.iter().any(|p| {
            !matches!(p.matched.mode, Mode::Before | Mode::None)
                || p.matched.event == Event::FuncUnwind
        });
        let mut look = |e: &Expr| {
            if let ExprKind::Bound(b) = e.kind {
                found |= is_extension(b);
            }
        };
        for e in self
            .predicate
            .iter()
            .chain(&self.inits)
            .chain(self.sites.iter().filter_map(|s| s.init.as_ref()))
        {
            e.walk(&mut look);
        }
        self.stmts.iter().for_each(|s| s.walk(&mut look));
        found || self.bounds.keys().any(|b| is_extension(*b))
    }

    /// The bulk operation that its body repeats.
    pub(super) fn repeated(&self) -> Option<Bulk> {
        let bulk = Bulk::of(self.events[0].matched.event);
        bulk.filter(|_| memories::repeats(&self.stmts))
    }

    /// The variables of the event that its functions take, under what is left of its predicate.
    pub(super) fn given(&self, residue: Option<&Expr>) -> BTreeMap<Bound, Ty> {
        let mut given = name::given_body(residue, &self.stmts, &self.bounds);
        let event = self.events[0].matched.event;
        let ty = |bound: &Bound| match bound {
            // Not every immediate has a name in scripts.
            Bound::Imm(_) => Some(Ty::U32),
            _ => event.variable(&bound.name()).map(|known| known.ty),
        };
        for bound in self.repeated().map(Bulk::variables).unwrap_or_default() {
            if let Some(ty) = self.events[0].body.bounds.get(&bound).cloned().or(ty(&bound)) {
                given.entry(bound).or_insert(ty);
            }
        }
        given
    }

    /// Whether it reads immediates, which `br_table` numbers in its own way.
    fn asks_immediates(&self) -> bool {
        let mut found = false;
        let mut look = |e: &Expr| found |= matches!(e.kind, ExprKind::Bound(Bound::Imm(_)));
        for e in self
            .predicate
            .iter()
            .chain(&self.inits)
            .chain(self.sites.iter().filter_map(|s| s.init.as_ref()))
        {
            e.walk(&mut look);
        }
        self.stmts.iter().for_each(|s| s.walk(&mut look));
        found
    }

    /// Whether it has data of single sites.
    pub(super) fn needs_record(&self) -> bool {
        !self.sites.is_empty() || !self.inits.is_empty()
    }

    /// The size of a site's variables in words.
    pub(super) fn words(&self) -> u32 {
        self.sites.iter().map(|s| u32::try_from(s.ty.slots().len()).unwrap_or(0)).sum()
    }

    /// The locations of the variables, relative to the record, whose address is the first
    /// parameter.
    pub(super) fn places(&self, header: u32) -> Vec<Storage> {
        let mut at = header;
        let mut list = Vec::new();
        for site in &self.sites {
            list.push(Storage::Memory(Some(0), at));
            at += u32::try_from(site.ty.slots().len()).unwrap_or(0) * WORD;
        }
        list
    }

    /// The row of cells that follows its sites' records, if one of its maps is `ours`.
    pub(super) fn row(&self, header: u32, ours: impl Fn(&Ty) -> bool) -> Option<SiteRow> {
        let free = |variable: u32| {
            let is_ours = self.sites.get(variable as usize).is_some_and(|site| ours(&site.ty));
            is_ours && is_added_only(&self.events[0].body, variable)
        };
        cells::site_row(&self.stmts, header + self.words() * WORD, free)
    }

    /// The identity of its probe in a report: number and event, without a mode.
    pub(super) fn identity(&self) -> String {
        format!("{}_wasm:{}", self.events[0].number, self.events[0].matched.event.path())
    }

    /// The numbers of its probes by the names of their instructions: the number of those that are
    /// not listed, the first of the others, then names with their lengths, each one number further;
    /// an empty name skips a number.
    pub(super) fn numbers(&self) -> Vec<u8> {
        let listed = || self.events.iter().filter(|p| !p.matched.event.is_new());
        let first = self.events[0].number;
        let mut next = listed().next().map_or(first, |p| p.number);
        let mut bytes: Vec<u8> = [first, next].into_iter().flat_map(u32::to_le_bytes).collect();
        for probe in listed() {
            let Event::Opcode(op) = probe.matched.event else { continue };
            let gap = probe.number.saturating_sub(next);
            bytes.extend((0..gap).map(|_| 0));
            next = probe.number + 1;
            bytes.push(u8::try_from(op.opname().len()).unwrap_or(0));
            bytes.extend(op.opname().bytes());
        }
        bytes.push(u8::MAX);
        bytes
    }

    /// The events as engines spell them: one for all, if the rule matches all instructions.
    pub(super) fn names(&self, said: &mut Diagnostics) -> Vec<EventName> {
        let mode = match self.events[0].matched.mode {
            Mode::Before | Mode::None => String::new(),
            Mode::BlockAlt => format!(":{}", Mode::Alt.name()),
            other => format!(":{}", other.name()),
        };
        if self.events.len() == events::instructions().len() {
            return vec![EventName { text: format!("wasm:opcode:*{mode}"), skipped: 0 }];
        }
        let mut list = Vec::new();
        for probe in &self.events {
            let path = match probe.matched.event {
                Event::Opcode(op) if op.name == "typed_select" => {
                    let message =
                        "other engines than ours have no name for `typed_select`, and leave it out";
                    let help = "`*` alone means all instructions, also there";
                    said.push_help(Kind::ProbeWarning, Some(probe.span), message, help);
                    format!("opcode:{}", op.name)
                }
                Event::Opcode(op) => format!("opcode:{}", mnemonic(op)),
                other => other.path(),
            };
            list.push(EventName { text: format!("wasm:{path}{mode}"), skipped: skipped(probe) });
        }
        list
    }
}

fn mnemonic(op: &Instruction) -> &'static str {
    op.opname()
}
