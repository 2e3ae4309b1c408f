//! One script, one program, both targets: the report of a script about a program must be the same,
//! whether its probes are rewritten into the program or in an attached monitor, and in every
//! engine.
//!
//! A program is made from arbitrary bytes, with the arguments of its functions, and then a script
//! for its instructions. The original program runs in an interpreter, and in the engine with the
//! script as a monitor whose functions are inlined or called. The rewritten program runs in the
//! interpreter and in the engine. All must yield the same results and traps, and the same report.

#[path = "generator.rs"]
mod generator;
#[path = "../differential/interpreter_faults.rs"]
mod interpreter_faults;
#[path = "../observers/stage.rs"]
#[allow(dead_code, reason = "other tests ask for more")]
mod stage;

use arbtest::arbitrary::{Result, Unstructured};
use wasm_aot::observer::ProbeCalls;
use wasm_aot::{Engine, Error, Linker, Module, Store, Trap, Val};
use wasmi::TrapCode;
use whamm::{Destination, Options, Source};

/// The number of loop turns and calls that a program may make.
const SUPPLY: u32 = 3_000;
/// The total number of calls of a program's functions.
const CALLS: usize = 8;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All agreed, including monitors.
    Everywhere,
    /// All agreed; the script is not supported for monitors.
    Rewritten,
    /// The script is refused, or the program cannot be compared.
    Nothing,
}

/// What can be compared of a call: the bits of its results, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    With(Vec<u128>),
    Trap(&'static str),
    /// Engines differ in the depth of their stacks: the following calls are not compared.
    Incomparable,
}

/// A call: an exported function, and its arguments.
type Call = (String, Vec<Given>);

/// An argument.
#[derive(Clone, Copy, Debug)]
enum Given {
    I32(u32),
    I64(u64),
    F32(u32),
    F64(u64),
    V128(u128),
    Func,
    Extern,
}

/// The outcome of a run: the ends of calls, and the rows of the report.
type Outcome = (Vec<Ended>, Vec<String>);

/// Makes a program and a script, runs them in all ways, and compares.
///
/// # Panics
/// If they differ.
pub(crate) fn compare(u: &mut Unstructured<'_>) -> Result<Compared> {
    let mut module = wasm_smith::Module::new(shape(u)?, u)?;
    if module.ensure_termination(SUPPLY).is_err() {
        return Ok(Compared::Nothing);
    }
    let program = module.to_bytes();
    if interpreter_faults::may_be_met(&program) {
        return Ok(Compared::Nothing);
    }
    let Some(calls) = calls(&program, u)? else { return Ok(Compared::Nothing) };
    let script = Source::new("random.mm", generator::script(&generator::present(&program), u)?);
    Ok(run_everywhere(&program, &script, &calls))
}

/// The same for a script, and a program whose functions have no parameters.
#[allow(dead_code, reason = "an example goes through seeds only")]
pub(crate) fn compare_without_arguments(program: &[u8], script: &str) -> Compared {
    let module =
        wasmi::Module::new(&interpreter(), program).expect("the interpreter has what it uses");
    let calls: Vec<Call> =
        module.exports().map(|export| (export.name().to_owned(), Vec::new())).collect();
    run_everywhere(program, &Source::new("once.mm", script), &calls)
}

fn run_everywhere(program: &[u8], script: &Source, calls: &[Call]) -> Compared {
    let about = || shown(program, script);
    let options =
        Options { exact_traps: true, destination: Destination::Host, ..Options::default() };
    let scripts = std::slice::from_ref(script);
    if whamm::check_scripts(scripts, &[]).has_errors() {
        return Compared::Nothing;
    }
    let rewritten = match whamm::instrument(scripts, &[], program, &options) {
        Ok(output) => output.module,
        Err(said) => {
            // After a replaced branch there may be code without operands.
            let replaces = |name| {
                [":alt", "("]
                    .map(|rest| format!("wasm:opcode:{name}{rest}"))
                    .iter()
                    .any(|rule| script.text.contains(rule))
            };
            let is_behind = ["br", "br_table", "return"].into_iter().any(replaces);
            let is_invalid = said.to_string().contains("would not be valid");
            assert!(is_behind || !is_invalid, "{said}{}", about());
            return Compared::Nothing;
        }
    };
    let Some((plain, _)) = interpreted(program, calls, &about) else { return Compared::Nothing };
    let replaces = script.text.contains(":alt");
    let Some(interpreted) = interpreted(&rewritten, calls, &about) else {
        // The replacement of calls may make the start function call itself for ever.
        assert!(replaces, "the rewritten program does not start{}", about());
        return Compared::Nothing;
    };
    if plain.contains(&Ended::Incomparable) || interpreted.0.contains(&Ended::Incomparable) {
        return Compared::Nothing;
    }
    assert!(
        replaces || plain == interpreted.0,
        "rewriting changes what the program does: {plain:?}, {:?}{}",
        interpreted.0,
        about()
    );
    let Some(compiled) = compiled(&rewritten, calls) else { return Compared::Nothing };
    assert!(interpreted == compiled, "engines differ:\n{interpreted:#?}\n{compiled:#?}{}", about());
    let Ok(monitor) = whamm::compile_monitor(scripts, &[], &Options::default()) else {
        return Compared::Rewritten;
    };
    let interpreted = if replaces { without_zeros(interpreted) } else { interpreted };
    for how in [ProbeCalls::Inlined, ProbeCalls::Direct] {
        let Some(attached) = attached(&monitor.module, program, calls, how) else {
            return Compared::Rewritten;
        };
        let attached = if replaces { without_zeros(attached) } else { attached };
        assert!(
            interpreted == attached,
            "targets differ ({how:?}): {}{}",
            difference(&interpreted, &attached),
            about()
        );
    }
    Compared::Everywhere
}

/// An outcome without rows of zero counts: replaced code has no rows in a rewritten program.
fn without_zeros((ends, mut rows): Outcome) -> Outcome {
    rows.retain(|row| !row.ends_with(" 0") && !row.ends_with(" empty map"));
    (ends, rows)
}

/// The entries of one outcome that are missing in the other.
fn difference(one: &Outcome, other: &Outcome) -> String {
    let only = |a: &Outcome, b: &Outcome| {
        let mut rest = b.1.clone();
        // A row may occur several times, once for each site.
        let is_only_here = |row: &&String| {
            let found = rest.iter().position(|other| other == *row);
            found.map(|at| rest.swap_remove(at)).is_none()
        };
        a.1.iter().filter(is_only_here).cloned().collect::<Vec<_>>()
    };
    let ends = if one.0 == other.0 { String::new() } else { format!("{:?}\n{:?}", one.0, other.0) };
    format!("{ends}\nrewritten: {:#?}\nattached: {:#?}", only(one, other), only(other, one))
}

/// The paths to which both were written, for the analysis of a difference.
fn shown(program: &[u8], script: &Source) -> String {
    let place = std::env::temp_dir().join(format!("wasm-aot-scripts-{}", std::process::id()));
    let kept = std::fs::write(place.with_extension("wasm"), program)
        .and_then(|()| std::fs::write(place.with_extension("mm"), &script.text));
    match kept {
        Ok(()) => {
            format!("\n{}\nprogram and script are {}.wasm and .mm", script.text, place.display())
        }
        Err(error) => format!("\n{}\n(the program cannot be kept: {error})", script.text),
    }
}

/// The features that a program may have: those of the interpreter.
fn shape(u: &mut Unstructured<'_>) -> Result<wasm_smith::Config> {
    Ok(wasm_smith::Config {
        canonicalize_nans: true,
        export_everything: true,
        exceptions_enabled: false,
        threads_enabled: false,
        relaxed_simd_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        compact_imports_enabled: false,
        wide_arithmetic_enabled: false,
        max_imports: 0,
        max_funcs: 6,
        max_instructions: u.int_in_range(10..=200)?,
        min_memories: 1,
        max_memories: 2,
        max_tables: u.int_in_range(0..=2)?,
        max_memory32_bytes: 4 << 16,
        max_table_elements: 100,
        memory_max_size_required: true,
        table_max_size_required: true,
        min_funcs: 1,
        min_exports: 1,
        ..wasm_smith::Config::default()
    })
}

/// The calls and their arguments; `None` if the interpreter lacks a feature of the program.
fn calls(program: &[u8], u: &mut Unstructured<'_>) -> Result<Option<Vec<Call>>> {
    let Ok(module) = wasmi::Module::new(&interpreter(), program) else { return Ok(None) };
    let functions: Vec<(String, Vec<wasmi::ValType>)> = module
        .exports()
        .filter_map(|export| {
            Some((export.name().to_owned(), export.ty().func()?.params().to_vec()))
        })
        .collect();
    let mut calls = Vec::new();
    for _ in 0..if functions.is_empty() { 0 } else { CALLS } {
        let (name, params) = u.choose(&functions)?;
        calls
            .push((name.clone(), params.iter().map(|ty| argument(*ty, u)).collect::<Result<_>>()?));
    }
    Ok(Some(calls))
}

fn argument(ty: wasmi::ValType, u: &mut Unstructured<'_>) -> Result<Given> {
    let small = u.ratio(1, 2)?;
    let bits = if small { u.int_in_range(0..=40)? } else { u.arbitrary::<u64>()? };
    Ok(match ty {
        wasmi::ValType::I32 => Given::I32(bits as u32),
        wasmi::ValType::I64 => Given::I64(bits),
        // Few numbers, and no NaN, whose bits engines may choose.
        wasmi::ValType::F32 => Given::F32((bits as i16 as f32 / 4.0).to_bits()),
        wasmi::ValType::F64 => Given::F64((bits as i32 as f64 / 4.0).to_bits()),
        wasmi::ValType::V128 => Given::V128(u128::from(bits) << 50 | u128::from(bits)),
        wasmi::ValType::FuncRef => Given::Func,
        wasmi::ValType::ExternRef => Given::Extern,
    })
}

/// The last report without implementation-specific values: addresses, names, and the number and
/// mode of a probe. At a function's beginning, a rewritten program reports the offset of its first
/// instruction, and a monitor reports 0.
fn rows(report: &str) -> Vec<String> {
    let last = report.rsplit_once("\nid, ").map_or("", |(_, rest)| rest);
    let mut list: Vec<String> = Vec::new();
    for line in last.lines().skip(1).filter(|line| !line.is_empty()) {
        let (left, right) = line.rsplit_once(", script").expect("a row names its script");
        let name = left.split(", ").nth(2).expect("a row names its variable");
        let right: Vec<&str> = right.splitn(6, ", ").collect();
        let pc = if right[4].contains("func:entry") { "" } else { right[3] };
        list.push(format!("{name} {}:{pc} {}", right[2], right[5]));
    }
    list.sort();
    list
}

fn interpreter() -> wasmi::Engine {
    let mut config = wasmi::Config::default();
    config.wasm_multi_memory(true).wasm_simd(true).wasm_extended_const(true).wasm_tail_call(true);
    wasmi::Engine::new(&config)
}

/// A run in the interpreter, with a report if the program prints one; `None` if it does not start.
fn interpreted(bytes: &[u8], calls: &[Call], about: &dyn Fn() -> String) -> Option<Outcome> {
    let engine = interpreter();
    let module = wasmi::Module::new(&engine, bytes).ok()?;
    let mut store = wasmi::Store::new(&engine, ());
    let instance = wasmi::Linker::new(&engine).instantiate_and_start(&mut store, &module).ok()?;
    let mut ends = Vec::new();
    for (name, args) in calls {
        let function = instance.get_func(&store, name).expect("exported");
        let args: Vec<wasmi::Val> = args.iter().map(|given| for_interpreter(*given)).collect();
        let mut results: Vec<wasmi::Val> = function
            .ty(&store)
            .results()
            .iter()
            .map(|ty| wasmi::Val::default_for_ty(*ty))
            .collect();
        ends.push(match function.call(&mut store, &args, &mut results) {
            Ok(()) => Ended::With(results.iter().map(bits_there).collect()),
            Err(error) => Ended::trap_there(error.as_trap_code()),
        });
    }
    let mut report = String::new();
    if let Some(flush) = instance.get_func(&store, "whamm:flush") {
        flush
            .call(&mut store, &[], &mut [])
            .unwrap_or_else(|error| panic!("no report comes out: {error}{}", about()));
        let mut place = [wasmi::Val::I32(0), wasmi::Val::I32(0)];
        let kept = instance.get_func(&store, "whamm:report").expect("it is kept");
        kept.call(&mut store, &[], &mut place).expect("it only gives numbers");
        let memory = instance.get_memory(&store, "whamm:memory").expect("it is exported");
        let [at, len] = place.map(|word| word.i32().expect("a number") as usize);
        report = String::from_utf8_lossy(&memory.data(&store)[at..at + len]).into_owned();
    }
    Some((ends, rows(&report)))
}

fn for_interpreter(given: Given) -> wasmi::Val {
    match given {
        Given::I32(bits) => wasmi::Val::I32(bits as i32),
        Given::I64(bits) => wasmi::Val::I64(bits as i64),
        Given::F32(bits) => wasmi::Val::F32(wasmi::F32::from_bits(bits)),
        Given::F64(bits) => wasmi::Val::F64(wasmi::F64::from_bits(bits)),
        Given::V128(bits) => wasmi::Val::V128(wasmi::V128::from(bits)),
        Given::Func => wasmi::Val::default_for_ty(wasmi::ValType::FuncRef),
        Given::Extern => wasmi::Val::default_for_ty(wasmi::ValType::ExternRef),
    }
}

fn bits_there(value: &wasmi::Val) -> u128 {
    use wasmi::{Nullable, Val};
    match value {
        Val::I32(value) => u128::from(*value as u32),
        Val::I64(value) => u128::from(*value as u64),
        Val::F32(value) => u128::from(value.to_bits()),
        Val::F64(value) => u128::from(value.to_bits()),
        Val::V128(value) => value.as_u128(),
        Val::FuncRef(Nullable::Null) | Val::ExternRef(Nullable::Null) => 0,
        _ => 1,
    }
}

impl Ended {
    fn trap_there(code: Option<TrapCode>) -> Self {
        Self::Trap(match code {
            Some(TrapCode::UnreachableCodeReached) => "unreachable",
            Some(TrapCode::MemoryOutOfBounds) => "memory",
            Some(TrapCode::TableOutOfBounds) => "table",
            Some(TrapCode::IndirectCallToNull) => "null",
            Some(TrapCode::BadSignature) => "type",
            Some(TrapCode::IntegerDivisionByZero) => "zero",
            Some(TrapCode::IntegerOverflow) => "overflow",
            Some(TrapCode::BadConversionToInteger) => "conversion",
            _ => return Self::Incomparable,
        })
    }

    fn here(done: std::result::Result<Vec<Val>, Error>) -> Self {
        let trap = match done {
            Ok(results) => return Self::With(results.iter().map(bits_here).collect()),
            Err(Error::Trap(report)) => report.trap,
            Err(_) => return Self::Incomparable,
        };
        Self::Trap(match trap {
            Trap::Unreachable => "unreachable",
            Trap::MemoryOutOfBounds => "memory",
            Trap::TableOutOfBounds | Trap::UndefinedElement => "table",
            Trap::UninitializedElement => "null",
            Trap::IndirectCallType => "type",
            Trap::IntegerDivideByZero => "zero",
            Trap::IntegerOverflow => "overflow",
            Trap::InvalidConversion => "conversion",
            _ => return Self::Incomparable,
        })
    }
}

fn for_engine(given: Given) -> Val {
    match given {
        Given::I32(bits) => Val::I32(bits as i32),
        Given::I64(bits) => Val::I64(bits as i64),
        Given::F32(bits) => Val::F32(bits),
        Given::F64(bits) => Val::F64(bits),
        Given::V128(bits) => Val::V128(bits),
        Given::Func => Val::FuncRef(None),
        Given::Extern => Val::ExternRef(None),
    }
}

fn bits_here(value: &Val) -> u128 {
    match value {
        Val::I32(value) => u128::from(*value as u32),
        Val::I64(value) => u128::from(*value as u64),
        Val::F32(bits) => u128::from(*bits),
        Val::F64(bits) => u128::from(*bits),
        Val::V128(value) => *value,
        Val::FuncRef(None) | Val::ExternRef(None) => 0,
        _ => 1,
    }
}

/// A run of a rewritten program in the engine; `None` if the engine lacks a feature of the program,
/// or has a smaller stack.
fn compiled(bytes: &[u8], calls: &[Call]) -> Option<Outcome> {
    let engine = Engine::default();
    let module = Module::new(&engine, bytes).ok()?;
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine)
        .instantiate(&mut store, &module)
        .expect("it starts in the interpreter");
    let mut ends = Vec::new();
    for (name, args) in calls {
        let function = instance.get_func(&mut store, name).expect("exported");
        let args: Vec<Val> = args.iter().map(|given| for_engine(*given)).collect();
        ends.push(Ended::here(function.call(&mut store, &args)));
    }
    if ends.contains(&Ended::Incomparable) {
        return None;
    }
    let Some(flush) = instance.get_func(&mut store, "whamm:flush") else {
        return Some((ends, Vec::new()));
    };
    flush.call(&mut store, &[]).expect("a report comes out");
    let kept = instance.get_func(&mut store, "whamm:report").expect("it is kept");
    let place = kept.call(&mut store, &[]).expect("it only gives numbers");
    let [Val::I32(at), Val::I32(len)] = place[..] else { panic!("{place:?}") };
    let memory = instance.get_memory(&mut store, "whamm:memory").expect("it is exported");
    let mut report = vec![0; len as usize];
    memory.read(&mut store, at as usize, &mut report).expect("it is there");
    Some((ends, rows(&String::from_utf8_lossy(&report))))
}

/// A run of a program with an attached monitor.
fn attached(monitor: &[u8], program: &[u8], calls: &[Call], how: ProbeCalls) -> Option<Outcome> {
    let mut run = stage::run(&[("monitor", monitor)], &[], program, how)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut ends = Vec::new();
    for (name, args) in calls {
        let args: Vec<Val> = args.iter().map(|given| for_engine(*given)).collect();
        ends.push(Ended::here(run.call(name, &args)));
    }
    (!ends.contains(&Ended::Incomparable)).then(|| (ends, rows(&run.report())))
}
