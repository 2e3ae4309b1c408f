//! Functions without compiled-in hooks: how they can be probed.

use super::{Args, Failure, points, pretty, say};
use fastinst::discovery::Module;
use fastinst::discovery::unmodified::{Maker, Prospect, prospects};
use fastinst::symbols::{Pattern, Subject, Symbol, Symbols, demangled};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// A function, as it is listed.
struct Line<'m> {
    module: &'m Module,
    function: String,
    prospect: Prospect,
    size: Option<usize>,
}

impl Line<'_> {
    /// How it is probed, and why no better.
    fn outcome(&self) -> (&'static str, Option<String>) {
        match self.prospect.outcome {
            Ok(None) => ("timed", None),
            Ok(Some(why)) => ("counted", Some(why.to_string())),
            Err(why) => ("none", Some(why.to_string())),
        }
    }
}

pub(super) fn run(
    args: &Args,
    modules: &[Module],
    include: &[Pattern],
    exclude: &[Pattern],
) -> Result<ExitCode, Failure> {
    let mut lines = Vec::new();
    for module in modules {
        list(module, &mut lines)?;
    }
    let points = points::list(modules, include, exclude)?;
    if lines.is_empty() && points.is_empty() {
        return Err(Failure::Refused(format!(
            "{} has no probes, and no unwind information to find its functions: compile it with -finstrument-functions, or with fastinst cc",
            args.target.display()
        )));
    }
    let named = |patterns: &[Pattern], line: &Line<'_>| {
        let Line { module, function: name, size, .. } = line;
        let subject = Subject { name, module: &module.name, file: None, size: *size };
        patterns.iter().any(|pattern| pattern.matches(&subject))
    };
    let names: Vec<String> = lines.iter().map(|line| line.function.clone()).collect();
    lines.retain(|line| (include.is_empty() || named(include, line)) && !named(exclude, line));
    let text = match args.json {
        true => {
            pretty(&json!({ "functions": as_json(&lines), "points": points::as_json(&points) }))
        }
        false => as_text(&lines) + &points::as_text(&points),
    };
    io::stdout().write_all(text.as_bytes())?;
    if !lines.is_empty() || !points.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say(&args.nothing_matches(&names));
    Ok(ExitCode::FAILURE)
}

fn list<'m>(module: &'m Module, lines: &mut Vec<Line<'m>>) -> Result<(), Failure> {
    let symbols = Symbols::load(module).ok();
    let found = prospects(module).map_err(|error| Failure::Refused(error.to_string()))?;
    for prospect in found {
        let symbol = symbols.as_ref().and_then(|symbols| symbols.name_at(prospect.address));
        let size = symbol.as_ref().and_then(Symbol::known_size);
        let name = symbol.map(|symbol| demangled(&symbol.name));
        let offset = prospect.address.get() - module.bias;
        let function = name.unwrap_or_else(|| format!("{}+{offset:#x}", module.name));
        lines.push(Line { module, function, prospect, size });
    }
    Ok(())
}

fn as_text(lines: &[Line<'_>]) -> String {
    let mut text = format!("{:7}  {:9}  {:>12}  function\n", "probe", "prepared", "address");
    let mut sums: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for line in lines {
        let (what, why) = line.outcome();
        let address = line.prospect.address.get();
        let maker = line.prospect.maker.map_or_else(|| "-".to_owned(), |maker| maker.to_string());
        let because = why.as_ref().map_or_else(String::new, |why| format!("  ({why})"));
        let _ = writeln!(text, "{what:7}  {maker:9}  {address:>#12x}  {}{because}", line.function);
        *sums.entry((what, why.unwrap_or_default())).or_default() += 1;
    }
    let of = |kind: &str| {
        sums.iter().filter(|((what, _), _)| *what == kind).map(|(_, count)| count).sum::<usize>()
    };
    let _ = writeln!(
        text,
        "{} functions without compiled-in hooks: {} can be timed, {} counted, {} have no probe",
        lines.len(),
        of("timed"),
        of("counted"),
        of("none")
    );
    for maker in Maker::ALL {
        let count = lines.iter().filter(|line| line.prospect.maker == Some(maker)).count();
        if count > 0 {
            let _ = writeln!(text, "  {count} prepared by a compiler ({maker})");
        }
    }
    for ((what, why), count) in sums.iter().filter(|((_, why), _)| !why.is_empty()) {
        let _ = writeln!(text, "  {count} {what}: {why}");
    }
    text
}

fn as_json(lines: &[Line<'_>]) -> Vec<serde_json::Value> {
    let function = |line: &Line<'_>| {
        let (outcome, why) = line.outcome();
        json!({
            "function": line.function,
            "module": line.module.path,
            "address": line.prospect.address.get(),
            "prepared": line.prospect.maker.map(|maker| maker.to_string()),
            "probe": outcome,
            "why": why,
        })
    };
    lines.iter().map(function).collect()
}
