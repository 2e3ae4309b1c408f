//! Checks calls: functions of the script, of the language, of libraries, and methods of values.

use super::scope::{Context, Meaning, is_of_events};
use super::{CORE, Checker, DYNINSTR};
use crate::diagnostic::Kind;
use crate::events::Function as EventFunction;
use crate::hir::{Builtin, Expr, ExprKind, LibraryCall, Var, numbered_maps};
use crate::source::Span;
use crate::syntax::ast::{self, Name, When};
use crate::types::Ty;
use std::rc::Rc;

/// Functions that are in scope everywhere: name, parameters, result.
fn everywhere(name: &str) -> Option<(Builtin, Vec<Ty>, Ty)> {
    let span = || Ty::Tuple([Ty::I32, Ty::I32].into());
    let (u, s) = (|| Ty::U32, || Ty::Str);
    Some(match name {
        "strcmp" => (Builtin::StrCmp, vec![span(), s()], Ty::Bool),
        "strcontains" => (Builtin::StrContains, vec![span(), s()], Ty::Bool),
        "memcpy" => (Builtin::MemCpy, vec![u(), u(), u(), u(), u()], Ty::unit()),
        "mem_size" => (Builtin::MemSize, vec![u()], u()),
        "page_size" => (Builtin::PageSize, vec![u()], u()),
        "active_data_start" => (Builtin::ActiveDataStart, vec![u()], u()),
        "active_data_len" => (Builtin::ActiveDataLen, vec![u()], u()),
        "write_str" => (Builtin::WriteStr, vec![u(), Ty::I32, s()], Ty::unit()),
        "read_str" => (Builtin::ReadStr, vec![u(), Ty::I32, u()], s()),
        _ => return None,
    })
}

/// Functions of the core library that are also functions of the language.
fn core(name: &str) -> Option<(Builtin, Vec<Ty>, Ty)> {
    if let Some(ty) =
        name.strip_prefix("put").and_then(Ty::named).filter(|t| t.is_numeric() || *t == Ty::Bool)
    {
        let pieces: Rc<[(Rc<str>, bool)]> = [("".into(), false), ("".into(), false)].into();
        return Some((Builtin::Print(pieces), vec![ty], Ty::unit()));
    }
    Some(match name {
        "putc" => (Builtin::PutC, vec![Ty::I32], Ty::unit()),
        "puts" => (Builtin::PutS, vec![Ty::I32, Ty::I32], Ty::unit()),
        "mem_alloc" => (Builtin::MemAlloc, vec![Ty::I32], Ty::I32),
        "mem_free" => (Builtin::MemFree, vec![Ty::I32], Ty::unit()),
        _ => return None,
    })
}

/// The placeholder of a value in formats of C: `%d`, `%08x`, `%ld`.
fn percent(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let flags = rest.find(|c: char| !"0123456789.+-#lhzj".contains(c))?;
        rest[flags..]
            .starts_with(['d', 'i', 'u', 'x', 'X', 's', 'f', 'g', 'p', 'c'])
            .then(|| &text[at..at + flags + 2])
    })
}

/// Whether a name is a function of the language.
pub(super) fn is_builtin(name: &str) -> bool {
    everywhere(name).is_some()
        || matches!(
            name,
            "memid"
                | "resolve_funcref"
                | "drop_args"
                | "alt_call_by_id"
                | "alt_call_by_name"
                | "dup_at"
        )
}

/// A number of things, in words.
fn counted(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}s"),
        _ => wasm_aot_body::report::several(count as u64, thing),
    }
}

impl Checker<'_> {
    fn arguments(
        &mut self,
        name: &str,
        args: &[ast::Expr],
        types: &[Ty],
        span: Span,
    ) -> Option<Vec<Expr>> {
        if args.len() != types.len() {
            let taken = counted(types.len(), "argument");
            self.error(span, format!("`{name}` takes {taken}, not {}", args.len()));
            self.look_over(args);
            return None;
        }
        let checked: Vec<_> = args.iter().zip(types).map(|(a, t)| self.expr_of(a, t)).collect();
        checked.into_iter().collect()
    }

    fn builtin(
        &mut self,
        found: (Builtin, Vec<Ty>, Ty),
        name: &str,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        let args = self.arguments(name, args, &found.1, span)?;
        Some(Expr { kind: ExprKind::Builtin(found.0, args), ty: found.2, span })
    }

    pub(super) fn call(&mut self, name: &Name, args: &[ast::Expr], span: Span) -> Option<Expr> {
        if let Some((number, types, result)) = self.functions.get(&name.text).cloned() {
            if matches!(self.context, Context::Start) {
                self.error_help(
                    span,
                    format!("`{}` cannot be called before the program starts", name.text),
                    "functions are called from probes and functions",
                );
                self.look_over(args);
                return None;
            }
            let args = self.arguments(&name.text, args, &types, span)?;
            return Some(Expr { kind: ExprKind::Call(number, args), ty: result, span });
        }
        if let Some(found) = everywhere(&name.text) {
            return self.builtin(found, &name.text, args, span);
        }
        match name.text.as_str() {
            "print" | "println" => return self.print(name, args, span),
            "memid" => return self.memid(args, span),
            "resolve_funcref" => return self.resolve_funcref(args, span),
            _ => {}
        }
        if let Context::Probe(site) = &self.context
            && let Some((function, mut types)) =
                site.matched.event.function(site.matched.mode, &name.text)
        {
            if let (EventFunction::AltCallById, [which]) = (function, args) {
                // Indices of functions are u32 where the program provides them, as in `imm0` and
                // `fid`.
                let which = self.expr(which, None)?;
                types = vec![if which.ty == Ty::U32 { Ty::U32 } else { Ty::I32 }];
            }
            return self.builtin(
                (Builtin::Event(function), types, Ty::unit()),
                &name.text,
                args,
                span,
            );
        }
        self.look_over(args);
        let known = is_builtin(&name.text);
        // The available functions of events depend on the head, which is wrong.
        if self.broken.contains(&name.text) || known && matches!(self.context, Context::Stray(_)) {
            return None;
        }
        let help = if known {
            "`drop_args` and `alt_call_by_...` exist in the alt modes, `dup_at` at memory.init, memory.copy and memory.fill"
                .into()
        } else {
            let names: Vec<_> = self
                .functions
                .keys()
                .map(String::as_str)
                .chain(["print", "println", "memid", "read_str", "write_str", "memcpy"])
                .collect();
            crate::rule::nearest(&name.text, names.into_iter())
                .first()
                .map_or("declare it with `fn name(...) { ... }`".into(), |n| {
                    format!("did you mean `{n}`?")
                })
        };
        self.error_help(name.span, format!("there is no function `{}` here", name.text), help);
        None
    }

    /// The index of the function in the table's entry: the same as `resolved_fid`.
    fn resolve_funcref(&mut self, args: &[ast::Expr], span: Span) -> Option<Expr> {
        let named = |e: &ast::Expr, names: &[&str]| matches!(&e.kind, ast::ExprKind::Name(n) if names.contains(&n.as_str()));
        if let [reference, entry] = args
            && named(reference, &["target_funcref"])
            && named(entry, &["table_entry_idx", "arg0"])
        {
            let same = ast::Expr { kind: ast::ExprKind::Name("resolved_fid".into()), span };
            return self.expr(&same, None);
        }
        let help = "write `resolve_funcref(target_funcref, table_entry_idx)`, or the variable `resolved_fid`";
        self.error_help(span, "only the entry that the instruction uses can be resolved", help);
        None
    }

    fn memid(&mut self, args: &[ast::Expr], span: Span) -> Option<Expr> {
        let library = match args {
            [ast::Expr { kind: ast::ExprKind::Name(name), .. }] => self.uses.get(name).copied(),
            _ => None,
        };
        let Some(library) = library else {
            self.error_help(
                span,
                "`memid` takes the name of a library",
                "for example `use cache;` and `memid(cache)`",
            );
            return None;
        };
        if library == DYNINSTR {
            self.error(span, "`dyninstr` is part of the engine and has no memory");
            return None;
        }
        if library != CORE && self.libraries[library as usize].memory.is_none() {
            self.error(
                span,
                format!(
                    "the library `{}` exports no memory",
                    self.libraries[library as usize].name
                ),
            );
            return None;
        }
        Some(Expr { kind: ExprKind::Builtin(Builtin::MemId(library), vec![]), ty: Ty::U32, span })
    }

    fn print(&mut self, name: &Name, args: &[ast::Expr], span: Span) -> Option<Expr> {
        let end = if name.text == "println" { "\n" } else { "" };
        let (pieces, values) = match args.split_first() {
            Some((ast::Expr { kind: ast::ExprKind::Str(format), span }, rest)) => {
                match pieces(format) {
                    Some(pieces) => (pieces, rest),
                    None => {
                        self.error_help(
                        *span,
                        "this format cannot be read",
                        "`{}` stands for a value, `{:x}` for one in hexadecimal, `{{` and `}}` for braces",
                    );
                        return None;
                    }
                }
            }
            Some(_) if args.len() == 1 => {
                (vec![(String::new(), false), (String::new(), false)], args)
            }
            None => (vec![(String::new(), false)], args),
            Some((first, _)) => {
                self.error(
                    first.span,
                    "the first of several arguments is the format, a text in quotes",
                );
                return None;
            }
        };
        if pieces.len() != values.len() + 1 {
            let wanted = counted(pieces.len() - 1, "value");
            let message = format!("the format wants {wanted}, not {}", values.len());
            match pieces.iter().find_map(|(text, _)| percent(text)) {
                Some(habit) => {
                    let help = format!("`{{}}` stands for a value: write it instead of `{habit}`");
                    self.error_help(span, message, help);
                }
                None => self.error(span, message),
            }
            self.look_over(values);
            return None;
        }
        let mut list = Vec::new();
        for (value, piece) in values.iter().zip(&pieces) {
            let Some(value) = self.expr(value, None) else { continue };
            if !value.ty.is_storable() || (piece.1 && !value.ty.is_int()) {
                self.error(value.span, format!("{} cannot be printed so", value.ty));
                continue;
            }
            list.push(value);
        }
        if list.len() < values.len() {
            return None;
        }
        let last = pieces.len() - 1;
        let pieces = pieces
            .into_iter()
            .enumerate()
            .map(|(i, (t, hex))| ((if i == last { t + end } else { t }).into(), hex))
            .collect();
        Some(Expr { kind: ExprKind::Builtin(Builtin::Print(pieces), list), ty: Ty::unit(), span })
    }

    pub(super) fn method(
        &mut self,
        receiver: &ast::Expr,
        name: &Name,
        args: &[ast::Expr],
        when: When,
        span: Span,
    ) -> Option<Expr> {
        if let ast::ExprKind::Name(library) = &receiver.kind {
            match self.meaning(library) {
                Some(Meaning::Library(CORE)) => return self.core_call(name, args, span),
                Some(Meaning::Library(DYNINSTR)) => return self.removal(name, args, span),
                Some(Meaning::Library(number)) => {
                    return self.library_call(number, name, args, when, span);
                }
                None if self.broken.contains(library)
                    || self.context.is_unclear() && is_of_events(library) =>
                {
                    self.look_over(args);
                    return None;
                }
                None => {
                    self.look_over(args);
                    let help = format!("a library is made known with `use {library};`");
                    self.error_help(
                        receiver.span,
                        format!("there is no library or variable `{library}` here"),
                        help,
                    );
                    return None;
                }
                Some(_) => {}
            }
        }
        let Some(value) = self.expr(receiver, None) else {
            self.look_over(args);
            return None;
        };
        if when != When::Now {
            self.error(span, "only functions of libraries are called with `@static` or `@init`");
            return None;
        }
        let (builtin, types, result) = match (&value.ty, name.text.as_str()) {
            (Ty::Str, "addr") => (Builtin::StrAddr, vec![], Ty::U32),
            (Ty::Str, "len") => (Builtin::StrLen, vec![], Ty::U32),
            (Ty::Str, "starts_with") => (Builtin::StartsWith, vec![Ty::Str], Ty::Bool),
            (Ty::Str, "ends_with") => (Builtin::EndsWith, vec![Ty::Str], Ty::Bool),
            (Ty::Str, "contains") => (Builtin::Contains, vec![Ty::Str], Ty::Bool),
            (Ty::Map(kv), "contains") => (Builtin::MapContains, vec![kv.0.clone()], Ty::Bool),
            (Ty::Map(kv), "delete") => (Builtin::MapDelete, vec![kv.0.clone()], Ty::unit()),
            (Ty::Map(_), "size") => (Builtin::MapSize, vec![], Ty::U32),
            (ty, _) => {
                let help = "a str has addr, len, starts_with, ends_with, contains; a map has contains, delete, size";
                let message = format!("{ty} has no function `{}`", name.text);
                self.error_help(name.span, message, help);
                self.look_over(args);
                return None;
            }
        };
        let mut all = vec![value];
        all.extend(self.arguments(&name.text, args, &types, span)?);
        Some(Expr { kind: ExprKind::Builtin(builtin, all), ty: result, span })
    }

    fn removal(&mut self, name: &Name, args: &[ast::Expr], span: Span) -> Option<Expr> {
        if name.text == "remove_probe" {
            return self.builtin(
                (Builtin::RemoveProbe, vec![Ty::I32], Ty::unit()),
                "remove_probe",
                args,
                span,
            );
        }
        self.look_over(args);
        let message = format!("`dyninstr` has no function `{}` that a script can call", name.text);
        self.error_help(
            name.span,
            message,
            "`remove_probe(probe_id)` takes a probe away from its site",
        );
        None
    }

    fn core_call(&mut self, name: &Name, args: &[ast::Expr], span: Span) -> Option<Expr> {
        if let ("print_map" | "print_map_as_csv", [map]) = (name.text.as_str(), args) {
            return self.print_map(map, name.text == "print_map_as_csv", span);
        }
        if let ("putbool", [value]) = (name.text.as_str(), args) {
            return self.print_truth(value, span);
        }
        if let Some(found) = core(&name.text) {
            return self.builtin(found, &name.text, args, span);
        }
        self.look_over(args);
        let help = "there are putc, puts, putu8 ... putf64, putbool, mem_alloc, mem_free, print_map and print_map_as_csv; maps are part of the language";
        self.said.push_help(
            Kind::TypeCheckError,
            Some(name.span),
            format!("`whamm_core` has no function `{}` here", name.text),
            help,
        );
        None
    }

    /// Prints a boolean, or an i32 that represents one, as the core library accepts it.
    fn print_truth(&mut self, value: &ast::Expr, span: Span) -> Option<Expr> {
        let found = core("putbool")?;
        let given = self.expr(value, None)?;
        if given.ty != Ty::I32 {
            return self.builtin(found, "putbool", std::slice::from_ref(value), span);
        }
        let zero = Expr { kind: ExprKind::Int(0), ty: Ty::I32, span };
        let kind = ExprKind::Binary(ast::BinOp::Ne, Box::new(given), Box::new(zero));
        let truth = Expr { kind, ty: Ty::Bool, span };
        Some(Expr { kind: ExprKind::Builtin(found.0, vec![truth]), ty: found.2, span })
    }

    /// Prints a map, given itself or by its number.
    fn print_map(&mut self, map: &ast::Expr, rows: bool, span: Span) -> Option<Expr> {
        let value = if let ast::ExprKind::Int(n) | ast::ExprKind::Bits(n) = map.kind {
            let maps = numbered_maps(&self.program.globals);
            let found = usize::try_from(n).ok().and_then(|n| maps.get(n));
            found.map(|&i| Expr {
                kind: ExprKind::Var(Var::Global(u32::try_from(i).unwrap_or(0))),
                ty: self.program.globals[i].ty.clone(),
                span,
            })
        } else {
            Some(self.expr(map, None)?)
        };
        let Some(value) = value.filter(|v| matches!(v.ty, Ty::Map(_))) else {
            self.error(map.span, "this is no map, and no number of one");
            return None;
        };
        let builtin =
            if rows { Builtin::PrintMapCsv(self.map_number(&value)) } else { Builtin::PrintMap };
        Some(Expr { kind: ExprKind::Builtin(builtin, vec![value]), ty: Ty::unit(), span })
    }

    /// The number of a map: the next one for maps of sites.
    fn map_number(&self, map: &Expr) -> u32 {
        let maps = numbered_maps(&self.program.globals);
        let of_global = match map.kind {
            ExprKind::Var(Var::Global(n)) => maps.iter().position(|i| *i == n as usize),
            _ => None,
        };
        u32::try_from(of_global.unwrap_or(maps.len())).unwrap_or(0)
    }

    fn library_call(
        &mut self,
        number: u32,
        name: &Name,
        args: &[ast::Expr],
        when: When,
        span: Span,
    ) -> Option<Expr> {
        let libraries = self.libraries;
        let library = &libraries[number as usize];
        let signature = match library.functions.get(name.text.as_str()) {
            Some(Some(signature)) => signature.clone(),
            Some(None) => {
                self.look_over(args);
                let message = format!(
                    "`{}.{}` takes or gives what the language has no type for",
                    library.name, name.text
                );
                self.error_help(
                    name.span,
                    message,
                    "functions of libraries take i32, i64, f32, f64 and give at most one of them",
                );
                return None;
            }
            None => {
                self.look_over(args);
                let near = crate::rule::nearest(&name.text, library.functions.keys().map(|k| &**k));
                let help = near.first().map_or_else(
                    || "it exports no function of a similar name".into(),
                    |n| format!("did you mean `{n}`?"),
                );
                self.error_help(
                    name.span,
                    format!("the library `{}` has no function `{}`", library.name, name.text),
                    help,
                );
                return None;
            }
        };
        let args = self.arguments(&name.text, args, &signature.params, span)?;
        if !self.when_fits(when, &args, span) {
            return None;
        }
        let call = LibraryCall {
            library: number,
            function: name.text.as_str().into(),
            at_match: when == When::Static,
        };
        Some(Expr {
            kind: ExprKind::Library(call, args),
            ty: signature.result.unwrap_or_else(Ty::unit),
            span,
        })
    }
}

/// The texts of a format before, between and after its values, each with the notation of the value
/// after it.
fn pieces(format: &str) -> Option<Vec<(String, bool)>> {
    let (mut list, mut text, mut rest) = (Vec::new(), String::new(), format);
    while let Some(c) = rest.chars().next() {
        let (taken, shown) = if rest.starts_with("{{") || rest.starts_with("}}") {
            text.push(c);
            (2, None)
        } else if rest.starts_with("{}") {
            (2, Some(false))
        } else if rest.starts_with("{:x}") {
            (4, Some(true))
        } else if matches!(c, '{' | '}') {
            return None;
        } else {
            text.push(c);
            (c.len_utf8(), None)
        };
        if let Some(hex) = shown {
            list.push((std::mem::take(&mut text), hex));
        }
        rest = &rest[taken..];
    }
    list.push((text, false));
    Some(list)
}
