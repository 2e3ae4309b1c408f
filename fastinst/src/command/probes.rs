//! `fastinst probes`: the probes of a program, a library or a process.

mod points;
mod prospects;

use super::mapped::code_files;
use super::{Failure, launch, say};
use fastinst::Kind;
use fastinst::discovery::{Discovery, FoundSite, Module, discover};
use fastinst::spelling::question;
use fastinst::symbols::{Pattern, Subject, Symbol, Symbols, demangled};
use profiler::human::several;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A program, a library, or a process ID: all files that the process has loaded
    #[arg(value_name = "FILE|PID")]
    target: PathBuf,
    /// List only these functions: a glob, /regex/, @library, file: or 'size<64' (may be repeated)
    #[arg(short = 'F', long = "include", value_name = "PATTERN")]
    include: Vec<String>,
    /// Exclude these (may be repeated)
    #[arg(short = 'N', long = "exclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Read debug information from this file, too, for the file that has its build ID (may be
    /// repeated)
    #[arg(long = "debug-file", value_name = "FILE")]
    debug_files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fastinst probes ./app
  fastinst probes -F 'std::*' ./app | tail -1
  fastinst probes --json ./app | jq '.probes | length'

If a compiler has prepared no functions, unmodified functions are listed that
can get probes, provided that their landing addresses are free. Static
tracepoints (--provider usdt) are listed after them.

Exit status: 1 if there are none.";

/// A probe, as it is listed.
struct Line<'m> {
    module: &'m Module,
    site: FoundSite,
    function: String,
    place: Option<(String, u32)>,
    size: Option<usize>,
}

impl Line<'_> {
    fn subject(&self) -> Subject<'_> {
        let file = self.place.as_ref().map(|place| place.0.as_str());
        Subject { name: &self.function, module: &self.module.name, file, size: self.size }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let parse = |patterns: &[String]| {
        let parsed =
            patterns.iter().map(|pattern| Pattern::parse(pattern)).collect::<Result<Vec<_>, _>>();
        parsed.map_err(|error| Failure::Usage(error.to_string()))
    };
    let (include, exclude) = (parse(&args.include)?, parse(&args.exclude)?);
    launch::debug_files(&args.debug_files)?;
    let modules = modules(&args.target)?;
    let mut lines = Vec::new();
    for module in &modules {
        let found = discover(module).map_err(|error| Failure::Refused(error.to_string()))?;
        list(module, &found, &mut lines);
    }
    let named = |patterns: &[Pattern], line: &Line<'_>| {
        patterns.iter().any(|pattern| pattern.matches(&line.subject()))
    };
    if lines.is_empty() {
        return prospects::run(args, &modules, &include, &exclude);
    }
    let names: Vec<String> = lines.iter().map(|line| line.function.clone()).collect();
    lines.retain(|line| (include.is_empty() || named(&include, line)) && !named(&exclude, line));
    let points = points::list(&modules, &include, &exclude)?;
    let text = match args.json {
        true => pretty(&json!({ "probes": as_json(&lines), "points": points::as_json(&points) })),
        false => as_text(&lines) + &points::as_text(&points),
    };
    io::stdout().write_all(text.as_bytes())?;
    let is_empty = lines.is_empty() && points.is_empty();
    if is_empty {
        say(&args.nothing_matches(&names));
    }
    Ok(if is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

impl Args {
    /// The message if the filters match none of the functions with these names.
    fn nothing_matches(&self, names: &[String]) -> String {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        match self.include.as_slice() {
            [] => "-N leaves no function".to_owned(),
            [one] => {
                let meant = question(one.trim_matches(['*', '/', '^', '$']), &known);
                format!("no function matches '{one}'{meant}")
            }
            many => format!("no function matches any of '{}'", many.join("', '")),
        }
    }
}

/// A file, or the loaded modules of a process.
fn modules(target: &Path) -> Result<Vec<Module>, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::Refused(error.to_string());
    let process =
        target.to_str().and_then(|text| text.parse::<u32>().ok()).filter(|_| !target.exists());
    let Some(process) = process else {
        return Ok(vec![Module::of_file(target).map_err(|error| refused(&error))?]);
    };
    // No process has a larger number, and none has this one.
    let paths = code_files(i32::try_from(process).unwrap_or(i32::MAX));
    let paths = paths.map_err(|error| Failure::Refused(unseen(process, &error)))?;
    // The kernel lists memory that is shared without a file as deleted, too.
    const NO_FILES: [&str; 3] = ["/memfd:", "/dev/zero", "/SYSV"];
    let deleted = paths.iter().filter_map(|path| path.strip_suffix(" (deleted)"));
    for path in deleted.filter(|path| !NO_FILES.iter().any(|other| path.starts_with(other))) {
        say(&format!(
            "note: {path} was deleted or replaced after process {process} had loaded it: its functions are left out"
        ));
    }
    Ok(paths.into_iter().filter_map(|path| Module::of_file(Path::new(&path)).ok()).collect())
}

/// Why a process cannot be inspected, and what helps.
fn unseen(process: u32, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no process {process}"),
        io::ErrorKind::PermissionDenied => format!(
            "process {process} may not be inspected: run this as its user or as root, or give a file"
        ),
        _ => format!("cannot inspect process {process}: {error}"),
    }
}

fn list<'m>(module: &'m Module, found: &Discovery, lines: &mut Vec<Line<'m>>) {
    let mut symbols = Symbols::load(module).ok();
    for site in &found.sites {
        let function = site.function.or(site.within).unwrap_or(site.address);
        let symbol = symbols.as_ref().and_then(|symbols| symbols.name_at(function));
        let size = symbol.as_ref().and_then(Symbol::known_size);
        let name = symbol.map(|symbol| demangled(&symbol.name));
        let name =
            name.unwrap_or_else(|| format!("{}+{:#x}", module.name, function.get() - module.bias));
        let place = symbols.as_mut().and_then(|symbols| symbols.line_of(function));
        lines.push(Line { module, site: *site, function: name, place, size });
    }
}

fn kind(site: &FoundSite) -> &'static str {
    if site.kind == Kind::Enter { "enter" } else { "exit" }
}

fn as_text(lines: &[Line<'_>]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:>6}  {:5}  {:12}  {:>12}  function",
        "id", "kind", "instruction", "address"
    );
    for (id, line) in lines.iter().enumerate() {
        let form = format!("{:?}", line.site.form);
        let place =
            line.place.as_ref().map_or_else(String::new, |(file, line)| format!("  {file}:{line}"));
        let own = if line.site.own { "  (the program's own hook)" } else { "" };
        let address = line.site.address.get();
        let _ = writeln!(
            text,
            "{id:>6}  {:5}  {form:12}  {address:>#12x}  {}{place}{own}",
            kind(&line.site),
            line.function
        );
    }
    let enters = lines.iter().filter(|line| line.site.kind == Kind::Enter).count();
    let tails = lines.iter().filter(|line| line.site.role == callpatch::Role::TailJump).count();
    let functions: std::collections::BTreeSet<&str> =
        lines.iter().map(|line| line.function.as_str()).collect();
    let _ = writeln!(
        text,
        "{} of {}: {enters} entries, {} exits, {tails} of them tail jumps",
        several(lines.len() as u64, "probe"),
        several(functions.len() as u64, "function"),
        lines.len() - enters
    );
    text
}

fn as_json(lines: &[Line<'_>]) -> Vec<serde_json::Value> {
    lines
        .iter()
        .enumerate()
        .map(|(id, line)| {
            json!({
                "id": id,
                "kind": kind(&line.site),
                "instruction": format!("{:?}", line.site.form),
                "address": line.site.address.get(),
                "module": line.module.path,
                "function": line.function,
                "file": line.place.as_ref().map(|place| &place.0),
                "line": line.place.as_ref().map(|place| place.1),
                "own": line.site.own,
            })
        })
        .collect()
}
