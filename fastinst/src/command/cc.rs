//! `fastinst cc` and `fastinst c++`: gcc or clang, with the flags that make probes and keep
//! inlining.
//!
//! clang can insert the hooks after inlining; gcc has options that exclude functions. Switching
//! probes off cannot regain that cost: a function that is not inlined because it has hooks costs a
//! call.

use super::Failure;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The compiler's own arguments; --with=gcc or --with=clang chooses it, --print-command shows
    /// what would be run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// What is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
}

/// Whose flags it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Gcc,
    Clang,
}

const HELP: &str = "\
Compile with probes: gcc or clang, with flags that keep inlining

Usage: fastinst cc [--with=gcc|clang] [--print-command] ARGS…
       fastinst c++ [--with=gcc|clang] [--print-command] ARGS…

All other arguments are passed to the compiler unchanged, so it can replace a
compiler:

  make CC='fastinst cc' CXX='fastinst c++'
  CC='fastinst cc' CXX='fastinst c++' cmake …
  fastinst cc -O2 -g app.c -o app

FASTINST_CC and FASTINST_CXX name other compilers. clang gets
-finstrument-functions-after-inlining; gcc gets -finstrument-functions and a
list that excludes the C++ standard library's headers. Pass
-fno-instrument-functions to compile a file without probes.

With clang, code that uses std::string may fail to link (undefined symbols of
standard library functions that should have been inlined): compile those files
with -O1 or higher, or with --with=gcc.
";

pub(crate) fn run(args: &Args, language: Language) -> Result<ExitCode, Failure> {
    let mut rest = Vec::new();
    let (mut with, mut print) = (None, false);
    for arg in &args.args {
        match arg.to_str() {
            Some("--with=gcc") => with = Some(Family::Gcc),
            Some("--with=clang") => with = Some(Family::Clang),
            Some("--print-command") => print = true,
            Some("--help") if args.args.len() == 1 => {
                super::report::print(HELP.as_bytes())?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(other) if other.starts_with("--with=") => {
                return Err(Failure::Usage(format!("{other}: unknown compiler; use gcc or clang")));
            }
            _ => rest.push(arg.clone()),
        }
    }
    let (compiler, family) = choose(language, with)?;
    let mut words = compiler.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let program = words.remove(0);
    words.extend(flags(&rest, family, language).into_iter().map(OsString::from));
    words.extend(rest);
    if print {
        let all: Vec<String> =
            std::iter::once(&program).chain(&words).map(|word| quoted(word)).collect();
        super::report::print((all.join(" ") + "\n").as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let error = Command::new(&program).args(&words).exec();
    Err(Failure::Refused(format!(
        "cannot run {}: {error}; install it, or name another in FASTINST_CC",
        PathBuf::from(program).display()
    )))
}

/// The requested compiler, or the best one that is installed.
fn choose(language: Language, with: Option<Family>) -> Result<(String, Family), Failure> {
    let key = if language == Language::C { "FASTINST_CC" } else { "FASTINST_CXX" };
    if let Some(named) = std::env::var(key).ok().filter(|named| !named.trim().is_empty()) {
        let family =
            with.unwrap_or(if named.contains("clang") { Family::Clang } else { Family::Gcc });
        return Ok((named, family));
    }
    let names: &[(&str, Family)] = match language {
        Language::C => &[("clang", Family::Clang), ("gcc", Family::Gcc), ("cc", Family::Gcc)],
        Language::Cxx => &[("clang++", Family::Clang), ("g++", Family::Gcc), ("c++", Family::Gcc)],
    };
    let wanted = names.iter().filter(|(_, family)| with.is_none_or(|with| with == *family));
    let found = wanted.clone().find(|(name, _)| is_there(name));
    found.map(|(name, family)| ((*name).to_owned(), *family)).ok_or_else(|| {
        let names: Vec<&str> = wanted.map(|(name, _)| *name).collect();
        Failure::Refused(format!(
            "no compiler found ({}): install gcc or clang, or name one in {key}",
            names.join(", ")
        ))
    })
}

fn is_there(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
}

/// The flags to add: none where nothing is compiled, or where the user's flags say otherwise.
fn flags(args: &[OsString], family: Family, language: Language) -> Vec<&'static str> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let is_source = |arg: &OsString| {
        let end = PathBuf::from(arg).extension().and_then(OsStr::to_str).map(str::to_owned);
        end.is_some_and(|end| {
            ["c", "cc", "cpp", "cxx", "c++", "C", "i", "ii", "m", "mm"].contains(&end.as_str())
        })
    };
    let in_file = args.iter().any(|arg| arg.to_string_lossy().starts_with('@'));
    let compiles = has("-c") || has("-S") || has("-x") || in_file || args.iter().any(is_source);
    if !compiles || has("-E") || has("-fno-instrument-functions") {
        return Vec::new();
    }
    // The program then contains its compiler flags, which `fastinst doctor` reads.
    const NOTE: &str = "-frecord-gcc-switches";
    match (family, language) {
        (Family::Clang, _) => vec![NOTE, "-finstrument-functions-after-inlining"],
        (Family::Gcc, Language::C) => vec![NOTE, "-finstrument-functions"],
        (Family::Gcc, Language::Cxx) => vec![
            NOTE,
            "-finstrument-functions",
            "-finstrument-functions-exclude-function-list=std::,__gnu_cxx::",
            "-finstrument-functions-exclude-file-list=/usr/include/c++",
        ],
    }
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(args: &str, family: Family, language: Language) -> usize {
        let args: Vec<OsString> = args.split_whitespace().map(OsString::from).collect();
        flags(&args, family, language).len()
    }

    #[test]
    fn flags_are_added_where_something_is_compiled() {
        for (args, compiled) in [
            ("-O2 -c app.c -o app.o", true),
            ("app.cc -o app", true),
            ("app.o util.o -o app", false),
            ("-E app.c", false),
            ("-x c -", true),
            ("@args", true),
            ("--version", false),
            ("-c app.c -fno-instrument-functions", false),
        ] {
            assert_eq!(added(args, Family::Gcc, Language::C), 2 * usize::from(compiled), "{args}");
            let by_clang = added(args, Family::Clang, Language::Cxx);
            assert_eq!(by_clang, 2 * usize::from(compiled), "{args}");
        }
        assert_eq!(added("-c app.cc", Family::Gcc, Language::Cxx), 4);
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(OsStr::new("-DNAME=it's")), "'-DNAME=it'\\''s'");
        assert_eq!(quoted(OsStr::new("-I/usr/include")), "-I/usr/include");
    }
}
