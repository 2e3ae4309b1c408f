//! `fastinst doctor`: what this kernel, this processor and a program allow, and what to do.

use super::Failure;
use fastinst::discovery::{Discovery, Module, discover, unmodified};
use fastinst::symbols::{Symbols, demangled};
use profiler::human::several;
use serde_json::json;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wordpatch::os::perf::{self, Ring, Sampling};
use wordpatch::os::threads::Tid;
use wordpatch::os::{cpu, membarrier, spare_stacks, stacks};
use wordpatch::{Access, Calibration, CodeMemory};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A program or library to check, too
    program: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fastinst doctor              this machine
  fastinst doctor ./app        this machine and a program

Exit status: 1 if a problem prevents profiling.";

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Note,
    Problem,
}

/// What was found, and what to do about it.
#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    what: String,
    remedy: String,
}

fn ok(what: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Ok, what: what.into(), remedy: String::new() }
}

fn note(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Note, what: what.into(), remedy: remedy.into() }
}

fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Problem, what: what.into(), remedy: remedy.into() }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut findings = vec![
        processor(),
        barrier(),
        counter(),
        sampling(),
        text(),
        code_memory(),
        signal_stacks(),
        calibration(),
    ];
    if let Some(program) = &args.program {
        findings.extend(of_program(program)?);
    }
    let text = if args.json { as_json(&findings) } else { as_text(&findings) };
    io::stdout().write_all(text.as_bytes())?;
    let stands = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    Ok(if stands { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn processor() -> Finding {
    let brand = cpu::brand();
    match &cpu::vendor_id() {
        b"AuthenticAMD" => {
            ok(format!("processor: {brand}; its vendor documents that one-byte switches are safe"))
        }
        b"GenuineIntel" => note(
            format!(
                "processor: {brand}; its vendor does not document one-byte switches, but Linux and XRay rely on them"
            ),
            "OK. Run `fastinst calibrate` to verify",
        ),
        _ => note(
            format!("processor: {brand}; this vendor is untested"),
            "run fastinst calibrate before you rely on it",
        ),
    }
}

fn barrier() -> Finding {
    match membarrier::offered() {
        Ok(true) => ok("kernel: membarrier with SYNC_CORE is available"),
        Ok(false) | Err(_) => note(
            "kernel: no membarrier with SYNC_CORE (Linux 4.16), or a seccomp filter forbids it",
            "signals are used instead and interrupt every thread when probes are found; allow membarrier(2)",
        ),
    }
}

fn counter() -> Finding {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|known| known == flag);
    match (has("constant_tsc"), has("nonstop_tsc")) {
        (true, true) => ok("clock: the time-stamp counter is constant and never stops"),
        _ => note(
            "clock: the processor does not promise a constant time-stamp counter",
            "times are wrong if its frequency changes: set a fixed frequency, or only count (--policy count)",
        ),
    }
}

/// Whether the kernel's sampling clock, which measures CPU time, is available.
fn sampling() -> Finding {
    let open = |kernel| {
        let sampling = Sampling {
            period: Duration::from_millis(4),
            kernel,
            stack: 8 << 10,
            inherit: true,
            is_paused: false,
        };
        Ring::open(sampling, Tid(0), 0, 256 << 10, 32 << 10)
    };
    match (open(true), open(false)) {
        (Ok(_), _) => {
            ok("sampling: the kernel's clock samples CPU time, including the kernel's own")
        }
        (Err(_), Ok(_)) => note(
            "sampling: the kernel's clock samples user time; time in the kernel is one row, [system]",
            "sysctl kernel.perf_event_paranoid=1 allows it to sample the kernel, too",
        ),
        (Err(_), Err(error)) => note(
            format!(
                "sampling: the kernel's clock is not available ({error}): only completely timed functions have shares of CPU time"
            ),
            perf::remedy(&error),
        ),
    }
}

fn text() -> Finding {
    let policy = wordpatch::Config::from_env().and_then(|config| config.policy());
    match policy.map(|policy| policy.access) {
        Ok(Access::Rwx) => note(
            "text: pages that hold probes are made writable and stay executable (WORDPATCH_ACCESS=rwx)",
            "if this is forbidden (SELinux execmod, systemd's MemoryDenyWriteExecute), set WORDPATCH_ACCESS=procmem, which costs a system call per switch",
        ),
        Ok(access) => ok(format!("text: {access:?} is how probes are written")),
        Err(error) => problem(error.to_string(), "mend the environment"),
    }
}

fn code_memory() -> Finding {
    match CodeMemory::new(4096) {
        Ok(_) => ok("trampolines: executable memory is available"),
        Err(error) => problem(
            format!("trampolines: executable memory is not available ({error})"),
            "allow anonymous executable mappings and mremap(2): SELinux (execmem) or a seccomp filter forbids them",
        ),
    }
}

/// The size that programs have always given a signal stack (`SIGSTKSZ` before glibc 2.34).
const USUAL_SIGNAL_STACK: usize = 8192;

fn signal_stacks() -> Finding {
    let frame = stacks::largest_frame();
    let needed = frame + spare_stacks::MOST;
    if needed <= USUAL_SIGNAL_STACK {
        return ok(format!(
            "signal stacks: a signal takes at most {frame} bytes here, and fastinst's handlers {} more",
            spare_stacks::MOST
        ));
    }
    note(
        format!(
            "signal stacks: a signal takes up to {frame} bytes here, more than the {USUAL_SIGNAL_STACK} that programs used to reserve"
        ),
        format!(
            "give signal stacks at least sysconf(_SC_SIGSTKSZ) bytes; fastinst's handlers need {needed}"
        ),
    )
}

/// Loads the calibration file, as the library does if it is configured to use one.
fn calibration() -> Finding {
    let named = std::env::var_os("WORDPATCH_CALIBRATION").map(PathBuf::from);
    let there = named.or_else(|| Calibration::default_path().filter(|path| path.exists()));
    let Some(path) = there else {
        return note(
            "calibration: none for this machine",
            "documented defaults are used; fastinst calibrate checks them on this machine",
        );
    };
    match Calibration::load(&path) {
        Ok(_) => ok(format!("calibration: {}", path.display())),
        Err(why) => note(
            format!("calibration: refused: {why}"),
            "documented defaults are used; run fastinst calibrate again, or remove the file",
        ),
    }
}

fn of_program(path: &Path) -> Result<Vec<Finding>, Failure> {
    let module = Module::of_file(path).map_err(|error| Failure::Refused(error.to_string()))?;
    let found = discover(&module).map_err(|error| Failure::Refused(error.to_string()))?;
    let mut findings = Vec::new();
    if module.is_static {
        findings.push(problem(
            format!("{}: it is statically linked, so no library can be preloaded", path.display()),
            "link it dynamically, or link libfastinst into it and use its interface",
        ));
    }
    if std::fs::metadata(path).is_ok_and(|data| data.mode() & 0o6000 != 0) {
        findings.push(problem(
            format!("{}: it is setuid or setgid, so the loader ignores LD_PRELOAD", path.display()),
            "profile a copy without that bit, as the user that it runs as",
        ));
    }
    findings.extend(of_probes(path, &module, &found));
    findings.extend(of_signal_stacks(path, &module));
    findings.extend(of_runtime(path, &module));
    Ok(findings)
}

/// What a compiler has prepared other than by calls. Nothing is to be compiled then.
fn of_prepared(path: &Path, module: &Module) -> Option<Finding> {
    let makers = unmodified::makers(module).unwrap_or_default();
    let options: Vec<&str> = makers.iter().map(|maker| maker.option()).collect();
    (!options.is_empty()).then(|| {
        ok(format!(
            "{}: functions are prepared by {}, and have probes from the first call on",
            path.display(),
            options.join(" and ")
        ))
    })
}

fn of_probes(path: &Path, module: &Module, found: &Discovery) -> Vec<Finding> {
    let shown = path.display();
    if found.sites.is_empty() {
        if let Some(prepared) = of_prepared(path, module) {
            return vec![prepared];
        }
        let remedy = "fastinst run gives its functions probes once they are seen to run; for probes from the first call on, compile it with -finstrument-functions (fastinst cc, fastinst c++), or add --plant all";
        return vec![note(format!("{shown}: it has no compiled-in probes"), remedy)];
    }
    let tails = found.sites.iter().filter(|site| site.role == callpatch::Role::TailJump).count();
    let across =
        found.sites.iter().filter(|site| site.address.get() % 64 + site.form.len() > 64).count();
    let mut findings = vec![ok(format!(
        "{shown}: {} in {}; {tails} are tail jumps, {across} lie across a cache line: all can be switched",
        several(found.sites.len() as u64, "probe"),
        several(found.functions as u64, "function")
    ))];
    if !found.refused.is_empty() {
        findings.push(note(
            format!("{shown}: {} places look like probes but are not", found.refused.len()),
            "OK: they are not touched",
        ));
    }
    if !found.conditional.is_empty() {
        findings.push(note(
            format!(
                "{shown}: {} conditional jumps to a hook cannot be switched",
                found.conditional.len()
            ),
            "each costs a call; another optimisation level may avoid them",
        ));
    }
    if found.sites.iter().any(|site| site.own) {
        findings.push(problem(
            format!("{shown}: it defines its own hooks, which its probes call"),
            "remove __cyg_profile_func_enter and __cyg_profile_func_exit from it",
        ));
    }
    findings.extend(of_symbols(path, module, found));
    findings
}

/// Whether the signal stacks that a program allocates itself may be too small. Their size is not
/// known before the program runs.
fn of_signal_stacks(path: &Path, module: &Module) -> Option<Finding> {
    let needed = stacks::largest_frame() + spare_stacks::MOST;
    if !module.imports("sigaltstack") {
        return None;
    }
    let what = format!(
        "{}: it installs signal stacks, each of which needs {needed} bytes here",
        path.display()
    );
    Some(if needed <= USUAL_SIGNAL_STACK {
        ok(what)
    } else {
        note(
            what,
            "check the sizes that it passes to sigaltstack: sysconf(_SC_SIGSTKSZ) is enough, a constant may not be",
        )
    })
}

/// Whether it generates code at run time, and how that code gets names.
fn of_runtime(path: &Path, module: &Module) -> Option<Finding> {
    // Names as symbol tables have them.
    let runtimes = [
        ("\0_ZN4node5StartEiPPc\0", "node --perf-basic-prof"),
        ("\0JLI_Launch\0", "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"),
    ];
    let (_, option) = runtimes.into_iter().find(|(symbol, _)| module.mentions(symbol))?;
    Some(note(
        format!("{}: it generates functions at run time, which are in no file", path.display()),
        format!("{option} names them for the sampling clock"),
    ))
}

/// Findings from its symbols: names, and how many probes are not in the user's own code.
fn of_symbols(path: &Path, module: &Module, found: &Discovery) -> Vec<Finding> {
    let shown = path.display();
    let Ok(mut symbols) = Symbols::load(module) else { return Vec::new() };
    if symbols.is_empty() {
        return vec![note(
            format!("{shown}: it is stripped: functions are shown by their addresses"),
            "keep its symbols, or its debug file",
        )];
    }
    let is_foreign = |address, symbols: &mut Symbols| {
        let name =
            symbols.name_at(address).map(|symbol| demangled(&symbol.name)).unwrap_or_default();
        let by_name = ["std::", "__gnu_cxx::"].iter().any(|space| name.starts_with(space));
        by_name
            || symbols.line_of(address).is_some_and(|(file, _)| file.starts_with("/usr/include/"))
    };
    let functions = found.sites.iter().filter_map(|site| site.function.or(site.within));
    let foreign = functions.filter(|&function| is_foreign(function, &mut symbols)).count();
    let share = 100 * foreign / found.sites.len().max(1);
    if share < 10 {
        return vec![ok(format!("{shown}: {foreign} probes ({share} %) are in system headers"))];
    }
    // The compiler's record of its flags: flags that are in use are not advised.
    let left_out = ["-finstrument-functions-after-inlining", "-finstrument-functions-exclude-f"];
    let lines = module.command_lines();
    if lines.iter().any(|line| left_out.iter().any(|option| line.contains(option))) {
        return vec![ok(format!(
            "{shown}: {foreign} probes ({share} %) are in system headers, in functions that are not inlined without probes either"
        ))];
    }
    let clang = module.compilers().iter().any(|compiler| compiler.contains("clang"));
    let remedy = if clang {
        "compile with -finstrument-functions-after-inlining instead (fastinst c++ does)"
    } else {
        "compile with -finstrument-functions-exclude-function-list=std::,__gnu_cxx:: and -finstrument-functions-exclude-file-list=/usr/include/c++ \
         (fastinst c++ does), or with clang's -finstrument-functions-after-inlining"
    };
    vec![note(
        format!(
            "{shown}: {foreign} probes ({share} %) are in system headers: these small functions are no longer inlined; that cost remains even when probes are off"
        ),
        remedy,
    )]
}

fn as_text(findings: &[Finding]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok      ",
            Verdict::Note => "note    ",
            Verdict::Problem => "PROBLEM ",
        };
        let _ = writeln!(text, "{mark} {}", finding.what);
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "         → {}", finding.remedy);
        }
    }
    text
}

fn as_json(findings: &[Finding]) -> String {
    let verdict = |finding: &Finding| match finding.verdict {
        Verdict::Ok => "ok",
        Verdict::Note => "note",
        Verdict::Problem => "problem",
    };
    let object = |finding: &Finding| json!({ "verdict": verdict(finding), "what": finding.what, "remedy": finding.remedy });
    let findings: Vec<_> = findings.iter().map(object).collect();
    serde_json::to_string_pretty(&json!({ "findings": findings })).unwrap_or_default() + "\n"
}
