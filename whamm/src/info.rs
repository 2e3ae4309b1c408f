//! Lists what a rule matches, and which variables and functions it can use.

use crate::diagnostic::Diagnostics;
use crate::events::{Bound, Definition, Event, explanation};
use crate::rule::{self, Match};
use crate::source::Source;

/// Selects what is printed about a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Also the variables, with their types.
    pub variables: bool,
    /// Also the functions.
    pub functions: bool,
    /// As JSON, one object per line.
    pub json: bool,
}

/// Lists what a rule, or the beginning of one as in `wasm:opcode:call`, matches, and what it can
/// use there.
pub fn info(rule: &str, asked: Asked) -> Result<String, Diagnostics> {
    let matches = expand(rule)?;
    let mut text = String::new();
    let mut before: Option<(Event, Vec<(String, Definition)>)> = None;
    for m in matches {
        let variables = variables(m);
        let functions: Vec<_> = ["drop_args", "alt_call_by_id", "alt_call_by_name", "dup_at"]
            .iter()
            .filter_map(|n| signature(m, n))
            .collect();
        if asked.json {
            text += &format!("{}\n", object(m, &variables, &functions));
            continue;
        }
        text += &format!("{}\n", m.path());
        let shown = before.as_ref().filter(|(event, _)| *event == m.event).map(|(_, list)| list);
        if asked.variables {
            text += &format!("    {}\n", explanation::mode(m.event, m.mode));
            for (name, definition) in
                variables.iter().filter(|v| shown.is_none_or(|list| !list.contains(v)))
            {
                text += &line(m, name, definition);
            }
            if let Some(gone) = shown.and_then(|list| list.iter().find(|v| !variables.contains(v)))
            {
                text += &format!("    without `{}`\n", gone.0);
            }
        }
        if asked.functions {
            functions.iter().for_each(|function| text += &format!("    {function}\n"));
        }
        before = Some((m.event, variables));
    }
    if asked.functions && !asked.json {
        text += "everywhere:\n";
        EVERYWHERE.iter().for_each(|line| text += &format!("    {line}\n"));
    }
    Ok(text)
}

/// Completes a rule with the missing parts.
fn completed(rule: &str) -> Vec<String> {
    let parts = rule.split(':').count();
    let fill = |n: usize| format!("{rule}{}", ":*".repeat(n.saturating_sub(parts)));
    match parts {
        0 | 1 => [2, 3, 4].map(fill).into(),
        2 => [2, 3, 4].map(fill).into(),
        3 => [3, 4].map(fill).into(),
        _ => vec![rule.into()],
    }
}

fn expand(rule: &str) -> Result<Vec<Match>, Diagnostics> {
    let mut found: Vec<Match> = Vec::new();
    let mut first = None;
    for full in completed(rule) {
        let source = Source::new("--rule", format!("{full} {{ }}"));
        let mut said = Diagnostics::new(std::slice::from_ref(&source));
        let script = crate::syntax::parse(0, &source, &mut said);
        for item in &script.items {
            if let crate::syntax::ast::Item::Probe(probe) = item {
                found.extend(rule::expand(&probe.rule, &mut said));
            }
        }
        if said.has_errors() {
            first = first.or(Some(said));
        }
    }
    match first {
        Some(said) if found.is_empty() => Err(said),
        _ => Ok(found),
    }
}

fn kind(bound: Bound) -> &'static str {
    match bound {
        Bound::Formula(_) => "derived",
        b if b.is_static() => "static",
        _ => "dynamic",
    }
}

fn signature(m: Match, name: &str) -> Option<String> {
    let (_, types) = m.event.function(m.mode, name)?;
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    Some(format!("{name}({})", types.join(", ")))
}

/// The variables of an event that exist in a mode. Where only monitors are told of an event, no
/// memory of the program is known.
fn variables(m: Match) -> Vec<(String, Definition)> {
    let is_known =
        |d: &Definition| d.bound != Bound::AppMemId || !matches!(m.event, Event::Engine(_));
    let all = m.event.variables().into_iter().filter(|(_, d)| is_known(d));
    all.filter(|(name, _)| m.event.variable_at(name, m.mode, 0).is_some()).collect()
}

fn object(m: Match, variables: &[(String, Definition)], functions: &[String]) -> serde_json::Value {
    let one = |(name, d): &(String, Definition)| {
        let meaning = explanation::variable(name);
        serde_json::json!({"name": name, "type": d.ty.to_string(), "kind": kind(d.bound), "meaning": meaning})
    };
    let list: Vec<_> = variables.iter().map(one).collect();
    let meaning = explanation::mode(m.event, m.mode);
    serde_json::json!({"rule": m.path(), "meaning": meaning, "variables": list, "functions": functions})
}

/// A variable: its name, type and kind, how it is computed, and what it means.
fn line(m: Match, name: &str, definition: &Definition) -> String {
    let formula = if let Bound::Formula(text) = definition.bound {
        format!(" = {text}")
    } else {
        String::new()
    };
    let wide =
        m.event.variable_in(name, m.event.widths()).map(|d| d.ty).filter(|ty| *ty != definition.ty);
    let wide = wide.map(|ty| format!(", {ty} where addresses have 64 bits")).unwrap_or_default();
    let (ty, meaning) = (&definition.ty, explanation::variable(name));
    format!("    {name}: {ty}{wide} ({}){formula}\n        {meaning}\n", kind(definition.bound))
}

const EVERYWHERE: [&str; 14] = [
    "strcmp((i32, i32), str) -> bool",
    "strcontains((i32, i32), str) -> bool",
    "memid(library) -> u32",
    "memcpy(u32, u32, u32, u32, u32)",
    "mem_size(u32) -> u32",
    "page_size(u32) -> u32",
    "active_data_start(u32) -> u32, active_data_len(u32) -> u32",
    "write_str(u32, i32, str), read_str(u32, i32, u32) -> str",
    "resolve_funcref(target_funcref, table_entry_idx) -> i32",
    "dyninstr.remove_probe(probe_id), after `use dyninstr;`",
    "print(format, values...), println(format, values...)",
    "text.addr() text.len() text.starts_with(str) text.ends_with(str) text.contains(str)",
    "map.contains(key) map.delete(key) map.size()",
    "library.function(...), @static library.function(...), @init library.function(...)",
];
