//! Emits what scripts do with memories: of the program, of libraries, and of our own.
//!
//! In a rewritten program all of them are memories of one module, and each function of the language
//! is an instruction. A monitor is a module apart: it reaches the program's memories through
//! functions of the engine, with the meaning of those instructions ([`Access`]). They take memories
//! by numbers: the program's from 0 on, and the monitor's own below 0 (-1 is its first).

use super::code::{Emitter, written};
use super::storage::Storage;
use crate::check::CORE;
use crate::events::{Bound, Event, Function as EventFunction};
use crate::hir::{Body, Builtin, Expr, ExprKind, Program, Stmt};
use crate::source::Span;
use crate::types::Ty;
use std::collections::BTreeSet;
use wasm_encoder::{BlockType, ValType};

/// The engine's module for what only it provides.
pub(crate) const ENGINE: &str = "wasm-aot:ext";

/// The module of an engine that describes programs, and its function that counts their memories.
const REFLECTION: (&str, &str) = ("whamm:reflect", "get_num_memories");

/// A function of the engine that a monitor reaches the program's memories by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// A memory's size in pages. It fails if there is no such memory.
    Size,
    /// `memory.copy`.
    Copy,
    /// `memory.fill`.
    Fill,
    /// `memory.init`, of a data segment of the program.
    Init,
    /// Where the active data of a memory begin.
    DataStart,
    /// How long the range of all active data is.
    DataLen,
    /// How many memories the program has.
    Count,
}

/// A function, the module and the name that it is imported from, its parameters and its results.
type Row = (Access, (&'static str, &'static str), &'static [ValType], &'static [ValType]);

/// In the order of the functions.
const IMPORTS: [Row; 7] = {
    use ValType::{I32, I64};
    [
        (Access::Size, (ENGINE, "memory_size"), &[I32], &[I64]),
        (Access::Copy, (ENGINE, "memory_copy"), &[I32, I64, I32, I64, I64], &[]),
        (Access::Fill, (ENGINE, "memory_fill"), &[I32, I64, I32, I64], &[]),
        (Access::Init, (ENGINE, "memory_init"), &[I32, I64, I32, I64, I64], &[]),
        (Access::DataStart, (ENGINE, "active_data_start"), &[I32], &[I64]),
        (Access::DataLen, (ENGINE, "active_data_len"), &[I32], &[I64]),
        (Access::Count, REFLECTION, &[], &[I32]),
    ]
};

impl Access {
    /// The module and the name that it is imported from.
    pub(crate) fn import(self) -> (&'static str, &'static str) {
        IMPORTS[self as usize].1
    }

    /// The type of the function that is imported under a name.
    pub(crate) fn shape(module: &str, name: &str) -> Option<super::support::Shape> {
        let row = IMPORTS.iter().find(|row| row.1 == (module, name))?;
        Some((row.2.to_vec(), row.3.to_vec()))
    }

    /// Those that the whole of a script needs.
    pub(crate) fn needed(program: &Program) -> BTreeSet<Self> {
        let mut all = BTreeSet::new();
        let mut look = |e: &Expr| all.extend(of_expr(e, None));
        let functions = program.functions.iter().flat_map(|f| &f.stmts);
        functions.chain(&program.start).for_each(|stmt| stmt.walk(&mut look));
        let variables = program.frames.iter().chain(&program.globals);
        variables.filter_map(|variable| variable.init.as_ref()).for_each(|e| e.walk(&mut look));
        for probe in &program.probes {
            probe.body.walk(&mut |e| all.extend(of_expr(e, Some(probe.matched.event))));
        }
        all
    }
}

/// Whether a memory may be one of the program's, seen from a monitor.
fn is_outside(memory: &Expr) -> bool {
    !matches!(memory.kind, ExprKind::Builtin(Builtin::MemId(_), _))
}

/// The memories that a function of the language names.
fn named<'a>(builtin: &Builtin, args: &'a [Expr]) -> Vec<&'a Expr> {
    let numbers: &[usize] = match builtin {
        Builtin::MemCpy => &[0, 2],
        Builtin::MemSize
        | Builtin::PageSize
        | Builtin::ActiveDataStart
        | Builtin::ActiveDataLen
        | Builtin::WriteStr
        | Builtin::ReadStr
        | Builtin::Event(EventFunction::DupAt) => &[0],
        _ => &[],
    };
    numbers.iter().filter_map(|n| args.get(*n)).collect()
}

/// What an expression needs of the engine itself, in a probe for an event.
fn of_expr(e: &Expr, event: Option<Event>) -> Vec<Access> {
    let ExprKind::Builtin(builtin, args) = &e.kind else { return Vec::new() };
    let outside: Vec<&Expr> =
        named(builtin, args).into_iter().filter(|memory| is_outside(memory)).collect();
    let mut list = Vec::new();
    if *builtin == Builtin::Event(EventFunction::DupAt) {
        list.extend(match event.map(|event| event.names().1) {
            Some("memory.init") => Some(Access::Init),
            Some("memory.copy") => Some(Access::Copy),
            _ => (!outside.is_empty()).then_some(Access::Fill),
        });
    }
    if outside.is_empty() {
        return list;
    }
    list.push(Access::Size);
    list.extend(match builtin {
        Builtin::MemCpy | Builtin::WriteStr | Builtin::ReadStr => Some(Access::Copy),
        Builtin::ActiveDataStart => Some(Access::DataStart),
        Builtin::ActiveDataLen => Some(Access::DataLen),
        _ => None,
    });
    let is_number = |memory: &&Expr| memory.kind != ExprKind::Bound(Bound::AppMemId);
    list.extend(outside.iter().any(is_number).then_some(Access::Count));
    list
}

/// Whether an expression accesses a memory of the program while that runs, seen from a monitor:
/// its size or its contents.
pub(crate) fn is_access(e: &Expr) -> bool {
    let ExprKind::Builtin(builtin, args) = &e.kind else { return false };
    let is_known =
        matches!(builtin, Builtin::PageSize | Builtin::ActiveDataStart | Builtin::ActiveDataLen);
    !is_known && named(builtin, args).into_iter().any(is_outside)
}

/// Whether statements access a memory of the program while that runs, themselves or by calling a
/// function of the script.
pub(crate) fn access(stmts: &[Stmt], program: &Program) -> bool {
    let of_list = |list: &[Stmt]| {
        let (mut found, mut calls) = (false, false);
        list.iter().for_each(|stmt| {
            stmt.walk(&mut |e| {
                found |= is_access(e);
                calls |= matches!(e.kind, ExprKind::Call(..));
            });
        });
        (found, calls)
    };
    let (found, calls) = of_list(stmts);
    found || calls && program.functions.iter().any(|function| of_list(&function.stmts).0)
}

/// For each memory that may be the program's and is named by some code: its size. An engine that
/// computes it when a site is matched finds out that there is no such memory.
pub(crate) fn sizes<'a>(exprs: impl Iterator<Item = &'a Expr>, stmts: &[Stmt]) -> Vec<Expr> {
    let mut list: Vec<Expr> = Vec::new();
    let mut look = |e: &Expr| {
        let ExprKind::Builtin(builtin, args) = &e.kind else { return };
        for memory in named(builtin, args) {
            let args = vec![memory.clone()];
            let size = ExprKind::Builtin(Builtin::MemSize, args);
            let size = Expr { kind: size, ty: Ty::U32, span: memory.span };
            let is_new = list.iter().all(|known| !known.same(&size));
            if is_outside(memory) && memory.is_static() && is_new {
                list.push(size);
            }
        }
    };
    exprs.for_each(|e| e.walk(&mut look));
    stmts.iter().for_each(|stmt| stmt.walk(&mut look));
    list
}

/// Whether a body repeats a bulk operation.
pub(crate) fn repeats(stmts: &[Stmt]) -> bool {
    let mut found = false;
    let repeated =
        |e: &Expr| matches!(e.kind, ExprKind::Builtin(Builtin::Event(EventFunction::DupAt), _));
    stmts.iter().for_each(|stmt| stmt.walk(&mut |e| found |= repeated(e)));
    found
}

/// The first access in the initial values of a site's variables to what a memory contains, which is
/// not known when the site is matched.
pub(crate) fn early(body: &Body) -> Option<Span> {
    let mut found = None;
    let mut look = |e: &Expr| {
        let is_size = matches!(e.kind, ExprKind::Builtin(Builtin::MemSize, _));
        if is_access(e) && !is_size {
            found = found.or(Some(e.span));
        }
    };
    let inits = body.sites.iter().filter_map(|site| site.init.as_ref());
    inits.chain(&body.inits).for_each(|e| e.walk(&mut look));
    found
}

/// A memory that a script names.
enum Named {
    /// One of the module that is written.
    Here(u32),
    /// The program's first, seen from a monitor.
    First,
    /// One whose number is known when a site is matched, seen from a monitor.
    Numbered(Expr),
}

/// An index that an instruction contains.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Immediate {
    /// It is known while compiling.
    Known(u32),
    /// A variable of the event.
    Variable(Bound),
}

/// A bulk operation on memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bulk {
    /// From a data segment.
    Init(Immediate),
    /// From a memory.
    Copy(Immediate),
    /// One byte many times.
    Fill,
}

impl Bulk {
    /// The operation of an event, in a monitor.
    pub(crate) fn of(event: Event) -> Option<Self> {
        Some(match event.names().1 {
            "memory.init" => Self::Init(Immediate::Variable(Bound::Imm(0))),
            "memory.copy" => Self::Copy(Immediate::Variable(Bound::Imm(1))),
            "memory.fill" => Self::Fill,
            _ => return None,
        })
    }

    /// The variables of the event that say what it does, but for where it writes.
    pub(crate) fn variables(self) -> Vec<Bound> {
        let named = match self {
            Self::Init(Immediate::Variable(bound)) | Self::Copy(Immediate::Variable(bound)) => {
                Some(bound)
            }
            _ => None,
        };
        [Bound::Arg(0), Bound::Arg(1)].into_iter().chain(named).collect()
    }
}

impl Emitter<'_> {
    /// Writes a function of the language that names a memory.
    pub(super) fn memories(&mut self, builtin: &Builtin, args: &[Expr], e: &Expr) {
        match builtin {
            Builtin::MemCpy => self.memory_copy(args),
            Builtin::MemSize => self.memory_size(&args[0]),
            Builtin::PageSize => self.page_size(&args[0]),
            Builtin::ActiveDataStart => self.active_data(Access::DataStart, &args[0], e),
            Builtin::ActiveDataLen => self.active_data(Access::DataLen, &args[0], e),
            Builtin::WriteStr => self.write_str(args),
            Builtin::ReadStr => self.read_str(args),
            _ => self.zero(&e.ty),
        }
    }

    fn named(&mut self, memory: &Expr) -> Named {
        let is_apart = self.support.layout().apart;
        match &memory.kind {
            ExprKind::Bound(Bound::AppMemId) if is_apart => Named::First,
            _ if is_apart && is_outside(memory) && memory.is_static() => {
                Named::Numbered(memory.clone())
            }
            _ => Named::Here(self.constant_memory(memory)),
        }
    }

    /// The index of a memory of this module, which has to be constant.
    fn constant_memory(&mut self, e: &Expr) -> u32 {
        let known = match &e.kind {
            ExprKind::Int(n) => u32::try_from(*n).ok(),
            ExprKind::Builtin(Builtin::MemId(library), _) => {
                if let Some(memory) = self.library_memory(*library) {
                    return memory;
                }
                None
            }
            _ => None,
        };
        // The number after the program's memories is the support's, as scripts for 2.0.1 assume.
        if let Some(memory) = known {
            let all = &self.support.layout().app_memories;
            if let Some(&index) = all.get(memory as usize) {
                return index;
            }
            let message = match all.len() {
                count if memory as usize == count => {
                    return self.library_memory(CORE).unwrap_or_default();
                }
                0 => format!("there is no memory {memory}: the program has none"),
                1 => format!("there is no memory {memory}: the program has one, memory 0"),
                count => format!("there is no memory {memory}: the program has {count}"),
            };
            let help = "use `memid(library)` or `APP_MEMID`";
            self.support.refused.push((e.span, message, help.into()));
            return 0;
        }
        let message = match e.kind {
            ExprKind::Bound(Bound::AppMemId) => "there is no memory of the program here",
            _ => "which memory this is must be known while compiling",
        };
        let help = "use `memid(library)`, or `APP_MEMID` where the program has a memory";
        self.support.refused.push((e.span, message.into(), help.into()));
        0
    }

    /// The index of a library's memory; for the core library it is the support's, unless the
    /// library is linked separately.
    pub(super) fn library_memory(&self, library: u32) -> Option<u32> {
        let found = self.support.layout().library_memories.get(&library).copied();
        found.or_else(|| (library == CORE).then(|| self.memory()))
    }

    /// Calls a function of the engine.
    fn call_engine(&mut self, access: Access) {
        let (module, name) = access.import();
        match self.support.imported(module, name) {
            Some(callee) => written(self.put().call(callee)),
            None => unreachable!("a monitor imports what its script needs: {name}"),
        }
    }

    /// Pushes the number by which the engine knows a memory. The number after the program's
    /// memories is our own memory's, as in a rewritten program.
    fn number(&mut self, memory: &Named) {
        match memory {
            Named::Here(index) => {
                self.put().i32_const(!index.cast_signed());
            }
            Named::First => {
                self.put().i32_const(0);
            }
            Named::Numbered(which) => {
                let (own, number) = (self.memory(), self.locals.take(ValType::I32));
                self.put().i32_const(!own.cast_signed());
                self.value(which);
                self.put().local_tee(number).local_get(number);
                self.call_engine(Access::Count);
                self.put().i32_eq().select();
            }
        }
    }

    fn is_wide(&self, memory: u32) -> bool {
        self.support.layout().wide_memories.contains(&memory)
    }

    /// Pushes an address or a length of 32 bits with the width that an instruction takes.
    fn unsigned(&mut self, e: &Expr, wide: bool) {
        self.value(e);
        if wide {
            self.put().i64_extend_i32_u();
        }
    }

    fn memory_size(&mut self, memory: &Expr) {
        match self.named(memory) {
            Named::Here(index) => {
                self.put().memory_size(index);
                if self.is_wide(index) {
                    self.put().i32_wrap_i64();
                }
            }
            outside => {
                self.number(&outside);
                self.call_engine(Access::Size);
                self.put().i32_wrap_i64();
            }
        }
    }

    fn page_size(&mut self, memory: &Expr) {
        // Where it is executed for a site, it was found when that was matched.
        if !matches!(self.named(memory), Named::Here(_)) && !self.scope.running {
            self.memory_size(memory);
            self.put().drop();
        }
        self.put().i32_const(65536);
    }

    fn active_data(&mut self, access: Access, memory: &Expr, e: &Expr) {
        let said = self.support.refused.len();
        match self.named(memory) {
            Named::Here(_) => {
                if self.support.refused.len() == said {
                    let message = "the data of this memory are not known here".into();
                    let help = "only those of the program's own memories are known".into();
                    self.support.refused.push((e.span, message, help));
                }
                self.zero(&e.ty);
            }
            outside => {
                self.number(&outside);
                self.call_engine(access);
                self.put().i32_wrap_i64();
            }
        }
    }

    fn memory_copy(&mut self, args: &[Expr]) {
        let (from, to) = (self.named(&args[0]), self.named(&args[2]));
        if let (Named::Here(from), Named::Here(to)) = (&from, &to) {
            let (wide_from, wide_to) = (self.is_wide(*from), self.is_wide(*to));
            self.unsigned(&args[3], wide_to);
            self.unsigned(&args[1], wide_from);
            self.unsigned(&args[4], wide_from && wide_to);
            self.put().memory_copy(*to, *from);
            return;
        }
        self.number(&to);
        self.unsigned(&args[3], true);
        self.number(&from);
        self.unsigned(&args[1], true);
        self.unsigned(&args[4], true);
        self.call_engine(Access::Copy);
    }

    fn write_str(&mut self, args: &[Expr]) {
        let own = self.memory();
        match self.named(&args[0]) {
            Named::Here(to) => {
                let wide = self.is_wide(to);
                self.unsigned(&args[1], wide);
                self.value(&args[2]);
                self.put().memory_copy(to, own);
            }
            outside => {
                self.number(&outside);
                self.unsigned(&args[1], true);
                let Storage::Locals(text) = self.hold(&args[2]) else { return };
                self.number(&Named::Here(own));
                self.put().local_get(text).i64_extend_i32_u();
                self.put().local_get(text + 1).i64_extend_i32_u();
                self.call_engine(Access::Copy);
            }
        }
    }

    fn read_str(&mut self, args: &[Expr]) {
        let (from, own) = (self.named(&args[0]), self.memory());
        let [source, len, at] = [(); 3].map(|()| self.locals.take(ValType::I32));
        self.value(&args[1]);
        self.put().local_set(source);
        self.value(&args[2]);
        self.put().local_tee(len);
        let alloc = self.support.runtime("alloc");
        self.put().call(alloc);
        match from {
            Named::Here(from) => {
                self.put().local_tee(at).local_get(source);
                if self.is_wide(from) {
                    self.put().i64_extend_i32_u();
                }
                self.put().local_get(len).memory_copy(own, from);
            }
            outside => {
                self.put().local_set(at);
                self.number(&Named::Here(own));
                self.put().local_get(at).i64_extend_i32_u();
                self.number(&outside);
                self.put().local_get(source).i64_extend_i32_u();
                self.put().local_get(len).i64_extend_i32_u();
                self.call_engine(Access::Copy);
            }
        }
        self.put().local_get(at).local_get(len);
    }

    /// Executes the bulk operation of the site a second time, on another memory.
    pub(super) fn dup_at(&mut self, args: &[Expr], span: Span) {
        let target = self.fold(&args[0]);
        let (Some(bulk), [.., source, len]) = (self.scope.bulk, &self.scope.operands[..]) else {
            let help = "use it in a probe of memory.init, memory.copy or memory.fill";
            let message = "the operation is not known here".into();
            return self.support.refused.push((span, message, help.into()));
        };
        let (source, len) = (*source, *len);
        let to = self.named(&target);
        let at = &args[1];
        match (&to, bulk) {
            (Named::Here(to), Bulk::Init(Immediate::Known(data))) => {
                self.target(at, *to);
                self.put().local_get(source.0).local_get(len.0).memory_init(*to, data);
            }
            (Named::Here(to), Bulk::Copy(Immediate::Known(from))) => {
                self.target(at, *to);
                self.put().local_get(source.0);
                self.length(len, self.is_wide(*to) && self.is_wide(from));
                self.put().memory_copy(*to, from);
            }
            (Named::Here(to), Bulk::Fill) => {
                self.target(at, *to);
                self.put().local_get(source.0);
                self.length(len, self.is_wide(*to));
                self.put().memory_fill(*to);
            }
            (_, bulk) => self.dup_outside(&to, at, bulk, [source, len]),
        }
    }

    /// The same by the engine, in a monitor.
    fn dup_outside(
        &mut self,
        to: &Named,
        at: &Expr,
        bulk: Bulk,
        [source, len]: [(u32, ValType); 2],
    ) {
        self.number(to);
        self.expr(at);
        self.put().i64_extend_i32_u();
        match bulk {
            Bulk::Init(from) | Bulk::Copy(from) => {
                match from {
                    Immediate::Known(index) => written(self.put().i32_const(index.cast_signed())),
                    Immediate::Variable(bound) => {
                        let kind = ExprKind::Bound(bound);
                        self.value(&Expr { kind, ty: Ty::U32, span: at.span });
                    }
                }
                self.length(source, true);
            }
            Bulk::Fill => written(self.put().local_get(source.0)),
        }
        self.length(len, true);
        self.call_engine(match bulk {
            Bulk::Init(_) => Access::Init,
            Bulk::Copy(_) => Access::Copy,
            Bulk::Fill => Access::Fill,
        });
    }

    fn target(&mut self, at: &Expr, memory: u32) {
        self.expr(at);
        if self.is_wide(memory) {
            self.put().i64_extend_i32_u();
        }
    }

    /// Pushes an operand with the width that an instruction takes. A length that does not fit is
    /// outside of every memory with addresses of 32 bits.
    fn length(&mut self, (local, ty): (u32, ValType), wide: bool) {
        match (ty, wide) {
            (ValType::I64, false) => {
                self.put().local_get(local).i64_const(32).i64_shr_u().i64_eqz().i32_eqz();
                self.put().if_(BlockType::Empty).unreachable().end();
                self.put().local_get(local).i32_wrap_i64();
            }
            (ValType::I32, true) => {
                self.put().local_get(local).i64_extend_i32_u();
            }
            _ => {
                self.put().local_get(local);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_engine_are_in_order() {
        assert!(IMPORTS.iter().enumerate().all(|(at, row)| row.0 as usize == at));
    }
}
