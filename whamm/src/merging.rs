//! Which variables of a script can be merged from several instances of a monitor, one for each
//! thread, so that the engine can write one report.
//!
//! For a variable that is only added to, the sum over the instances is the value that one instance
//! would have if it had seen all events; the same holds for a boolean that only ever becomes true.
//! If the amounts depend on what a monitor has seen before, as with the misses of a cache, the
//! result is the sum of what each thread's instance has seen. Other variables cannot be merged: the
//! meaning of a last value or a maximum cannot be derived from the script.

use crate::Source;
use crate::events::Bound;
use crate::hir::{Builtin, Expr, ExprKind, Place, Probe, Program, Stmt, Var, Variable};
use crate::source::Span;
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use wasm_aot_body::report::{Declaration, Merging};

/// Declares a program's variables; the names of map keys come from the scripts.
pub(crate) fn declaration(program: &Program, scripts: &[Source]) -> Declaration {
    let mut declared = Declaration::default();
    let mut note = |variable: &Variable, merging: Merging| {
        declared.declare(variable.script, &variable.name, merging);
    };
    let everywhere: Vec<&Stmt> = program
        .start
        .iter()
        .chain(program.functions.iter().flat_map(|f| &f.stmts))
        .chain(program.probes.iter().flat_map(|p| &p.body.stmts))
        .collect();
    let numbered = |list: &'_ [Variable], var: fn(u32) -> Var| {
        (0..).zip(list.to_vec()).map(move |(n, v)| (var(n), v)).collect::<Vec<_>>()
    };
    for (var, variable) in
        numbered(&program.globals, Var::Global).iter().chain(&numbered(&program.frames, Var::Frame))
    {
        if variable.report {
            note(variable, merging(variable, *var, &everywhere));
        }
    }
    for probe in &program.probes {
        let own: Vec<&Stmt> = probe.body.stmts.iter().collect();
        for (var, variable) in
            numbered(&probe.body.sites, Var::Site).iter().filter(|(_, variable)| variable.report)
        {
            note(variable, merging(variable, *var, &own));
        }
    }
    for probe in &program.probes {
        for (var, variable) in numbered(&probe.body.sites, Var::Site) {
            if variable.report {
                name_keys(&mut declared, &variable, var, &[probe], scripts);
            }
        }
    }
    let probes: Vec<&Probe> = program.probes.iter().collect();
    for (var, variable) in numbered(&program.globals, Var::Global) {
        if variable.report {
            name_keys(&mut declared, &variable, var, &probes, scripts);
        }
    }
    declared
}

/// Declares names for the parts of a map's keys, if all statements that write to it agree on them.
fn name_keys(
    declared: &mut Declaration,
    map: &Variable,
    var: Var,
    probes: &[&Probe],
    scripts: &[Source],
) {
    let mut found: Vec<Vec<String>> = Vec::new();
    for probe in probes {
        let is_call = ["call", "return_call"].contains(&probe.matched.event.names().1);
        probe.body.stmts.iter().for_each(|stmt| {
            stmt.visit(&mut |stmt| {
                if let Stmt::Assign(place, _) | Stmt::Update(place, ..) = stmt
                    && let Some(key) = key_of(place, var)
                {
                    let parts = if let ExprKind::Tuple(parts) = &key.kind {
                        parts
                    } else {
                        std::slice::from_ref(key)
                    };
                    found.push(parts.iter().map(|part| label(part, is_call, scripts)).collect());
                }
            });
        });
    }
    if let Some((first, others)) = found.split_first()
        && others.iter().all(|other| other == first)
    {
        declared.declare_keys(map.script, &map.name, first);
    }
}

/// The key of a place that is an element of a map.
fn key_of(place: &Place, map: Var) -> Option<&Expr> {
    match place {
        Place::Element(own, key) if is(own, map) => Some(key),
        Place::Field(place, _) => key_of(place, map),
        Place::Element(..) | Place::Var(..) | Place::Bound(..) => None,
    }
}

/// The label of a key's part: its source text, or `callee` if it is the called function.
fn label(part: &Expr, is_call: bool, scripts: &[Source]) -> String {
    if is_call && part.kind == ExprKind::Bound(Bound::Imm(0)) {
        return "callee".into();
    }
    let Span { script, start, end } = part.span;
    let text = scripts.get(usize::from(script)).and_then(|source| {
        source.text.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    });
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How a variable is merged, derived from all statements that change it.
fn merging(variable: &Variable, var: Var, stmts: &[&Stmt]) -> Merging {
    let value = if let Ty::Map(kv) = &variable.ty { kv.1.clone() } else { variable.ty.clone() };
    let begins = match variable.init.as_ref().map(|init| &init.kind) {
        None | Some(ExprKind::Int(0) | ExprKind::Bool(false)) => true,
        Some(ExprKind::Float(x)) => *x == 0.0,
        _ => false,
    };
    let how = match value {
        Ty::Bool => Merging::Any,
        ref ty if ty.is_numeric() => Merging::Sum,
        ref other => return Merging::Not(format!("values of type {other} are not added up")),
    };
    if !begins {
        return Merging::Not("it begins with something else than nothing".into());
    }
    let mut why = None;
    for stmt in stmts {
        stmt.visit(&mut |stmt| why = why.take().or_else(|| objection(stmt, var, &how)));
        stmt.walk(&mut |e| {
            if let ExprKind::Builtin(Builtin::MapDelete, args) = &e.kind
                && is(&args[0], var)
            {
                why.get_or_insert_with(|| "keys are taken out of it".into());
            }
            if let ExprKind::Call(_, args) | ExprKind::Library(_, args) = &e.kind
                && args.iter().any(|arg| is(arg, var) && matches!(arg.ty, Ty::Map(_)))
            {
                why.get_or_insert_with(|| "it is handed on to others".into());
            }
        });
    }
    why.map_or(how, Merging::Not)
}

/// Why a statement prevents a variable from being merged.
fn objection(stmt: &Stmt, var: Var, how: &Merging) -> Option<String> {
    let replaced = || Some("it is given values that do not depend on the one before".to_owned());
    match (stmt, how) {
        (Stmt::Update(place, BinOp::Add | BinOp::Sub, _), Merging::Sum) if root(place, var) => None,
        (Stmt::Update(place, BinOp::Or | BinOp::BitOr, _), Merging::Any) if root(place, var) => {
            None
        }
        (Stmt::Assign(place, value), Merging::Any)
            if root(place, var) && value.kind == ExprKind::Bool(true) =>
        {
            None
        }
        (Stmt::Update(place, ..) | Stmt::Assign(place, _), _) if root(place, var) => replaced(),
        (Stmt::Assign(_, value) | Stmt::Declare(_, Some(value)) | Stmt::Return(Some(value)), _)
            if is(value, var) && matches!(value.ty, Ty::Map(_)) =>
        {
            Some("it is handed on to others".into())
        }
        _ => None,
    }
}

fn is(e: &Expr, var: Var) -> bool {
    matches!(&e.kind, ExprKind::Var(other) if *other == var)
}

/// Whether a place belongs to a variable.
fn root(place: &Place, var: Var) -> bool {
    match place {
        Place::Var(other, _) => *other == var,
        Place::Element(map, _) => is(map, var),
        Place::Field(place, _) => root(place, var),
        Place::Bound(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use wasm_aot_body::report::{Declaration, SECTION};

    fn declared(script: &str) -> Declaration {
        let sources = [crate::Source::new("test.mm", script)];
        let module = crate::compile_monitor(&sources, &[], &crate::Options::default())
            .unwrap_or_else(|e| panic!("{e}"))
            .module;
        let sections = wasmparser::Parser::new(0).parse_all(&module);
        let own = |payload| match payload {
            Ok(wasmparser::Payload::CustomSection(section)) if section.name() == SECTION => {
                Some(section.data().to_vec())
            }
            _ => None,
        };
        sections
            .into_iter()
            .find_map(own)
            .and_then(|section| Declaration::read(&section))
            .expect("it is declared")
    }

    #[test]
    fn keys_of_maps_are_called_as_they_are_written() {
        for (script, wanted) in [
            (
                "report var m: map<(u32, u32), u32>; wasm:opcode:call:before { m[(fid, imm0)]++; }",
                Some("fid, callee"),
            ),
            (
                "wasm:opcode:i32.load:before { report var m: map<u32, u32>; \
                 m[effective_addr  / 64]++; }",
                Some("effective_addr / 64"),
            ),
            (
                "report var m: map<u32, u32>; wasm:opcode:call:before { m[imm0]++; } \
                 wasm:opcode:nop:before { m[pc]++; }",
                None,
            ),
        ] {
            let declared = declared(script);
            let keys = declared.keys("script0", "m").map(|keys| keys.join(", "));
            assert_eq!(keys.as_deref(), wanted, "{script}");
            assert_eq!(Declaration::read(declared.to_string().as_bytes()), Some(declared));
        }
    }

    #[test]
    fn what_is_only_added_to_is_a_sum_and_all_else_is_refused_with_its_name() {
        for (script, said) in [
            ("report var n: u64; wasm:opcode:call:before { n += 2; n--; }", None),
            ("report var m: map<u32, u32>; wasm:opcode:call:before { m[pc]++; }", None),
            ("wasm:opcode:call:before { report var seen: bool; seen = true; }", None),
            ("wasm:opcode:call:before { report unshared var f: f64; f += 0.5; }", None),
            (
                "report var n: u64; wasm:opcode:call:before { n = 7; }",
                Some("n: it is given values"),
            ),
            (
                "report var n: u64 = 3; wasm:opcode:call:before { n++; }",
                Some("n: it begins with something"),
            ),
            (
                "report var m: map<u32, u32>; wasm:opcode:call:before { m[pc] = 1; }",
                Some("m: it is given values"),
            ),
            (
                "report var s: str; wasm:opcode:call:before { s = \"x\"; }",
                Some("s: values of type str"),
            ),
            (
                "wasm:opcode:call:before { report unshared var seen: bool; seen = pc == 3; }",
                Some("seen: it is given"),
            ),
        ] {
            let refused = declared(script).refused();
            match said {
                None => assert_eq!(refused, None, "{script}"),
                Some(said) => assert!(
                    refused.as_ref().is_some_and(|why| why.starts_with(said)),
                    "{script}: {refused:?}"
                ),
            }
        }
    }
}
