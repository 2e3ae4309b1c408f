//! Filters are checked before the program starts, or before a process is attached to: one that is
//! malformed, or matches no function, would lead to an empty profile.

use super::launch::{Options, POINTS};
use super::mapped::code_files;
use super::{Failure, say};
use fastinst::arguments::Question;
use fastinst::discovery::points::points;
use fastinst::discovery::{Module, discover, unmodified};
use fastinst::spelling::nearest;
use fastinst::symbols::{Pattern, Subject, Symbol, Symbols, demangled};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Functions with which a program loads libraries that it does not name.
const LOADING: [&str; 2] = ["dlopen", "dlmopen"];
/// Functions with which it starts other programs.
const STARTING: [&str; 10] = [
    "execve",
    "execv",
    "execvp",
    "execl",
    "execlp",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "fexecve",
];

/// A program in which a runtime registers generated code contains this text.
const REGISTERING: &str = "fastinst_register_code";

/// A function that has probes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    name: String,
    module: String,
    file: Option<String>,
    size: Option<usize>,
}

impl Candidate {
    fn subject(&self) -> Subject<'_> {
        let Self { name, module, file, size } = self;
        Subject { name, module, file: file.as_deref(), size: *size }
    }
}

/// All patterns of the options; one that is malformed is refused.
pub(super) fn patterns(options: &Options) -> Result<Vec<(String, Pattern)>, Failure> {
    let triggers = options.triggers()?;
    let asked = questioned(options);
    let needed = options.include.iter().chain(&options.under).chain(&triggers).chain(&asked);
    let parse = |text: &String| Pattern::parse(text).map(|pattern| (text.clone(), pattern));
    let patterns: Result<Vec<_>, _> = needed.chain(&options.exclude).map(parse).collect();
    patterns.map_err(|error| Failure::Usage(error.to_string()))
}

/// The functions whose arguments are to be read.
fn questioned(options: &Options) -> Vec<String> {
    options.arguments.iter().map(Question::function).collect()
}

/// Refuses a filter that includes nothing, and filters that leave nothing. If the program can load
/// libraries, their functions are not known yet: then the first is only reported, as is a filter
/// that excludes nothing.
pub(super) fn check(options: &Options, program: &Path) -> Result<(), Failure> {
    check_with(options, program, || libraries(program))
}

/// The same for a running process, and the libraries that it has loaded.
pub(super) fn check_process(options: &Options, process: i32) -> Result<(), Failure> {
    patterns(options)?;
    let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { return Ok(()) };
    let root = PathBuf::from(format!("/proc/{process}/root"));
    // In another mount namespace, files are reached through the process's root.
    let reached = |path: &Path| {
        let inside = root.join(path.strip_prefix("/").unwrap_or(path));
        if is_same(&inside, path) || !inside.exists() { path.to_owned() } else { inside }
    };
    check_with(options, &reached(&program), || {
        let files = code_files(process).unwrap_or_default();
        let libraries = files.iter().map(Path::new).filter(|path| *path != program);
        libraries.map(reached).collect()
    })
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|of| (of.dev(), of.ino())).ok();
    identity(one) == identity(other)
}

fn check_with(
    options: &Options,
    program: &Path,
    libraries: impl Fn() -> Vec<PathBuf>,
) -> Result<(), Failure> {
    let patterns = patterns(options)?;
    let triggers = options.triggers()?;
    let asked = questioned(options);
    let needed = options.include.iter().chain(&options.under).chain(&triggers).chain(&asked);
    let Ok(module) = Module::of_file(program) else { return Ok(()) };
    if options.provider == POINTS {
        return check_points(options, &patterns, program, &module, &libraries());
    }
    let takes_any = matches!(&*options.provider, "auto" | "symbols");
    if patterns.is_empty() {
        return Ok(());
    }
    let has_hooks = module.has_hooks();
    if !takes_any && !has_hooks {
        // The program has no probes, but programs that it starts may have some.
        return Ok(());
    }
    let needs_files = patterns.iter().any(|(_, pattern)| pattern.needs_file());
    let mut candidates = functions_of(&module, needs_files);
    let matches = |pattern: &Pattern, candidates: &BTreeSet<Candidate>| {
        candidates.iter().any(|one| pattern.matches(&one.subject()))
    };
    let (included, excluded) =
        (&patterns[..options.include.len()], &patterns[needed.clone().count()..]);
    let leave_some = |candidates: &BTreeSet<Candidate>| leave_some(included, excluded, candidates);
    if patterns.iter().all(|(_, pattern)| matches(pattern, &candidates)) && leave_some(&candidates)
    {
        return Ok(());
    }
    let registers = module.mentions(REGISTERING)
        | add_libraries(&libraries(), takes_any, needs_files, &mut candidates);
    let later = registers
        || LOADING.iter().any(|name| module.imports(name))
        || !has_hooks && STARTING.iter().any(|name| module.imports(name));
    for (at, (text, _)) in
        patterns.iter().enumerate().filter(|(_, (_, pattern))| !matches(pattern, &candidates))
    {
        let near = near(text, &candidates);
        let why = format!(
            "no function with probes matches '{text}'{near}; fastinst probes {} lists them",
            program.display()
        );
        if at < needed.clone().count() && !later {
            return Err(Failure::Refused(why));
        }
        say(&if later {
            format!("{why}; code that the program loads, generates or starts later may match")
        } else {
            why
        });
    }
    // Where there are no hooks, the profile says by a note why it is empty.
    if has_hooks && !later && !leave_some(&candidates) {
        let why = format!("the filters leave no function of {} with probes", program.display());
        return Err(Failure::Refused(why));
    }
    Ok(())
}

/// Adds the functions of libraries. Returns whether one of these registers generated code.
fn add_libraries(
    libraries: &[PathBuf],
    takes_any: bool,
    needs_files: bool,
    candidates: &mut BTreeSet<Candidate>,
) -> bool {
    let mut registers = false;
    for library in libraries.iter().filter_map(|path| Module::of_file(path).ok()) {
        registers |= library.mentions(REGISTERING);
        if takes_any || library.has_hooks() {
            candidates.extend(functions_of(&library, needs_files));
        }
    }
    registers
}

/// Whether patterns leave any of these functions.
fn leave_some(
    included: &[(String, Pattern)],
    excluded: &[(String, Pattern)],
    candidates: &BTreeSet<Candidate>,
) -> bool {
    let is_named = |patterns: &[(String, Pattern)], one: &Candidate| {
        patterns.iter().any(|(_, pattern)| pattern.matches(&one.subject()))
    };
    candidates
        .iter()
        .any(|one| (included.is_empty() || is_named(included, one)) && !is_named(excluded, one))
}

/// The same where points have probes: those of the program and of its libraries.
fn check_points(
    options: &Options,
    patterns: &[(String, Pattern)],
    program: &Path,
    module: &Module,
    libraries: &[PathBuf],
) -> Result<(), Failure> {
    let libraries = libraries.iter().filter_map(|path| Module::of_file(path).ok());
    let mut candidates = BTreeSet::new();
    for module in std::iter::once(module.clone()).chain(libraries) {
        let candidate =
            |name| Candidate { name, module: module.name.clone(), file: None, size: None };
        candidates.extend(points(&module).into_iter().flatten().map(|p| candidate(p.title())));
    }
    if candidates.is_empty() {
        say(&format!(
            "{} and the libraries that it names have no tracepoints; programs that it starts may have some",
            program.display()
        ));
        return Ok(());
    }
    let is_there = |title: &String| candidates.iter().any(|one| one.name == *title);
    let mut missing: Vec<&String> =
        options.pairs.iter().flat_map(|pair| [&pair.begin, &pair.end]).collect();
    missing.retain(|title| !is_there(title));
    let unmatched = patterns
        .iter()
        .take(options.include.len())
        .filter(|(_, pattern)| !candidates.iter().any(|one| pattern.matches(&one.subject())));
    missing.extend(unmatched.map(|(text, _)| text));
    let starts = STARTING.iter().any(|name| module.imports(name));
    for text in missing {
        let why = format!(
            "no tracepoint matches '{text}'{}; fastinst probes {} lists those of a file",
            near(text, &candidates),
            program.display()
        );
        if !starts {
            return Err(Failure::Refused(why));
        }
        say(&format!("{why}; programs that it starts may match"));
    }
    Ok(())
}

fn functions_of(module: &Module, needs_files: bool) -> BTreeSet<Candidate> {
    let Ok(mut symbols) = Symbols::load(module) else { return BTreeSet::new() };
    let functions: BTreeSet<_> = if module.has_hooks() {
        let sites = discover(module).map(|found| found.sites).unwrap_or_default();
        sites.iter().filter_map(|site| site.function.or(site.within)).collect()
    } else {
        unmodified::functions(module).into_iter().flatten().collect()
    };
    let candidate = |address| {
        let symbol = symbols.name_at(address);
        let size = symbol.as_ref().and_then(Symbol::known_size);
        let name = symbol.map(|symbol| demangled(&symbol.name));
        let offset = address.get() - module.bias;
        let name = name.unwrap_or_else(|| format!("{}+{offset:#x}", module.name));
        let file = if needs_files { symbols.line_of(address).map(|(file, _)| file) } else { None };
        Candidate { name, module: module.name.clone(), file, size }
    };
    functions.into_iter().map(candidate).collect()
}

/// Near misses.
fn near(text: &str, candidates: &BTreeSet<Candidate>) -> String {
    let file =
        |file: &'_ str| file.rsplit('/').next().map(|name| format!("{name}:")).unwrap_or_default();
    let known: BTreeSet<String> = match text {
        _ if text.starts_with('@') => {
            candidates.iter().map(|one| format!("@{}", one.module)).collect()
        }
        _ if text.ends_with(':') => {
            candidates.iter().filter_map(|one| one.file.as_deref().map(file)).collect()
        }
        _ => candidates.iter().map(|one| one.name.clone()).collect(),
    };
    let plain = text.trim_matches(['*', '/', '^', '$']);
    let nearest = nearest(plain, known.iter().map(String::as_str), 3);
    if nearest.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", nearest.join(", "))
    }
}

/// The libraries that the loader would load with the program, as the loader lists them without
/// running anything.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let mut loader = Command::new(program);
    loader
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let listed = loader
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let path = |line: &str| line.split_once("=> ")?.1.split(" (").next().map(PathBuf::from);
    listed.lines().filter_map(path).collect()
}
