//! One module, several engines: the engine's machine code has to behave like an interpreter, in
//! every configuration.
//!
//! A module is made from arbitrary bytes, together with the arguments of its functions. It
//! terminates by itself, since every loop and every function takes from a finite supply, and it
//! produces no NaNs, whose bits engines may choose. After each call, the results or the kind of
//! trap, and all memories, tables and globals are compared.

#[path = "interpreter_faults.rs"]
mod interpreter_faults;

use arbtest::arbitrary::{Result, Unstructured};
use std::fmt::Debug;
use wasm_aot::{
    Config, Engine, Error, Extern, ExternType, Instance, Limits, Linker, Module, Optimize, Sites,
    Store, Trap, Val, ValType,
};

/// The importable module: host functions that return their arguments, or zeroes.
const HOST: &str = r#"(module
    (import "host" "number" (func (param i32) (result i32)))
    (import "host" "wide" (func (param i64 f64) (result f64 i64)))
    (import "host" "vector" (func (param v128 i32) (result v128)))
    (import "host" "reference" (func (param funcref externref) (result externref)))"#;
/// A function without parameters and results. The interpreter (wasmi 2.0.0) loses the stack of a
/// caller whose callee ends in a tail call of such a function, if that stack was empty, and faults;
/// this module shows it:
///
/// ```text
/// (module (import "host" "nothing" (func $nothing)) (memory 1)
///     (func $leave (return_call $nothing))
///     (func (export "f") (result v128) (call $leave) (v128.load16x4_s (i32.const 0))))
/// ```
const NOTHING: &str = r#"(import "host" "nothing" (func))"#;
/// The number of loop turns and calls that a module may make: few, or, one time in eight, many, so
/// that its variants are switched while it runs.
const SUPPLY: [u32; 2] = [2_000, 200_000];
/// The total number of calls of a module's functions.
const CALLS: usize = 12;
/// The time limit of code that should have terminated by itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// The comparable outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The bits of results.
    Values(Vec<u128>),
    /// The kind of trap.
    Trap(&'static str),
    /// An uncaught exception.
    Exception,
    /// A difference that is allowed between engines, such as the depth of their stacks: the
    /// following calls are not compared.
    Incomparable,
}

/// A module in one engine.
trait Subject {
    /// Calls an exported function.
    fn call(&mut self, name: &str, args: &[u128]) -> Outcome;
    /// The values of all readable exports.
    fn state(&mut self) -> Vec<(String, u128)>;
}

/// A module in an engine, or the outcome of its instantiation.
type Start = std::result::Result<Box<dyn Subject>, Outcome>;
/// Exported functions, and the bits of their arguments.
type Plan = Vec<(String, Vec<u128>)>;

/// Makes a module, runs it in all engines, and compares; returns whether an interpreter took part.
///
/// # Panics
/// If two engines differ.
pub(crate) fn compare(engines: &[(String, Engine)], u: &mut Unstructured<'_>) -> Result<bool> {
    let with_oracle = u.ratio(3, 4)?;
    let mut module = wasm_smith::Module::new(shape(u, with_oracle)?, u)?;
    let supply = SUPPLY[usize::from(u.ratio(1, 8)?)];
    if module.ensure_termination(supply).is_err() {
        return Ok(false);
    }
    let bytes = module.to_bytes();
    let Some(plan) = plan(&engines[0].1, &bytes, u)? else { return Ok(false) };
    Ok(run_everywhere(engines, &bytes, &plan, with_oracle))
}

/// Runs a module in all engines and compares; returns whether an interpreter took part.
pub(crate) fn run_everywhere(
    engines: &[(String, Engine)],
    bytes: &[u8],
    plan: &[(String, Vec<u128>)],
    with_oracle: bool,
) -> bool {
    let mut subjects: Vec<(&str, Start)> = Vec::new();
    let has_oracle = with_oracle && !interpreter_faults::may_be_met(bytes);
    if has_oracle && let Some(interpreted) = interpreter::instantiate(bytes) {
        subjects.push(("wasmi", interpreted));
    }
    let is_interpreted = !subjects.is_empty();
    for (name, engine) in engines {
        subjects.push((name, compiled::instantiate(engine, bytes)));
    }
    run(bytes, plan, subjects);
    is_interpreted
}

fn run(bytes: &[u8], plan: &[(String, Vec<u128>)], subjects: Vec<(&str, Start)>) {
    let mut live = Vec::new();
    let mut ends = Vec::new();
    for (name, subject) in subjects {
        match subject {
            Ok(subject) => live.push((name, subject)),
            Err(outcome) => ends.push((name, outcome)),
        }
    }
    if ends.iter().any(|(_, outcome)| *outcome == Outcome::Incomparable) {
        return;
    }
    assert!(
        live.is_empty() || ends.is_empty(),
        "some engines instantiate it: {ends:?}{}",
        shown(bytes)
    );
    agree(bytes, "instantiation", &ends);
    let states: Vec<_> = live.iter_mut().map(|(name, subject)| (*name, subject.state())).collect();
    agree(bytes, "the state at first", &states);
    for (function, args) in plan {
        let outcomes: Vec<_> =
            live.iter_mut().map(|(name, subject)| (*name, subject.call(function, args))).collect();
        if outcomes.iter().any(|(_, outcome)| *outcome == Outcome::Incomparable) {
            return;
        }
        agree(bytes, &format!("{function}{args:x?}"), &outcomes);
        let states: Vec<_> =
            live.iter_mut().map(|(name, subject)| (*name, subject.state())).collect();
        agree(bytes, &format!("the state after {function}{args:x?}"), &states);
    }
}

fn agree<T: PartialEq + Debug>(bytes: &[u8], about: &str, found: &[(&str, T)]) {
    for pair in found.windows(2) {
        assert!(
            pair[0].1 == pair[1].1,
            "engines differ in {about}:\n{:?}\n{:?}{}",
            pair[0],
            pair[1],
            shown(bytes)
        );
    }
}

/// The path to which the module was written, for the analysis of a difference.
fn shown(bytes: &[u8]) -> String {
    let path =
        std::env::temp_dir().join(format!("wasm-aot-difference-{}.wasm", std::process::id()));
    match std::fs::write(&path, bytes) {
        Ok(()) => format!("\nthe module is {}", path.display()),
        Err(error) => format!("\n(the module cannot be kept: {error})"),
    }
}

/// The compared configurations.
pub(crate) fn engines() -> Vec<(String, Engine)> {
    let choices = [
        (Optimize::None, false, true, Sites::NONE),
        (Optimize::Speed, true, true, Sites::NONE),
        (Optimize::Speed, true, true, Sites::LOOPS),
        (Optimize::Speed, true, true, Sites::ALL),
        (Optimize::Speed, false, false, Sites::FUNCTIONS),
    ];
    choices
        .iter()
        .map(|(optimize, reservations, spectre, sites)| {
            let mut config = Config::new();
            config.optimize(*optimize).reservations(*reservations).spectre(*spectre).sites(*sites);
            let name = format!("{optimize:?}, reservations: {reservations}, mitigations: {spectre}, sites: {sites:?}");
            (name, Engine::new(&config).expect("an engine"))
        })
        .collect()
}

/// The features that a module may have.
fn shape(u: &mut Unstructured<'_>, with_oracle: bool) -> Result<wasm_smith::Config> {
    Ok(wasm_smith::Config {
        available_imports: Some(
            wat::parse_str(format!("{HOST}{})", if with_oracle { "" } else { NOTHING }))
                .expect("a module"),
        ),
        canonicalize_nans: true,
        export_everything: true,
        // Features that the interpreter lacks are compared among the engine's own configurations.
        exceptions_enabled: !with_oracle,
        threads_enabled: !with_oracle,
        relaxed_simd_enabled: false,
        gc_enabled: false,
        compact_imports_enabled: false,
        max_funcs: 8,
        max_instructions: u.int_in_range(10..=300)?,
        max_imports: u.int_in_range(0..=4)?,
        max_memories: u.int_in_range(1..=3)?,
        min_memories: 1,
        max_tables: u.int_in_range(0..=3)?,
        max_memory32_bytes: 10 << 16,
        max_memory64_bytes: 10 << 16,
        max_table_elements: 200,
        memory_max_size_required: true,
        table_max_size_required: true,
        min_funcs: 1,
        min_exports: 1,
        ..wasm_smith::Config::default()
    })
}

/// The calls and their arguments; `None` if the engine does not support the module.
fn plan(engine: &Engine, bytes: &[u8], u: &mut Unstructured<'_>) -> Result<Option<Plan>> {
    let module = match Module::new(engine, bytes) {
        Ok(module) => module,
        Err(Error::Compile(
            wasm_aot::CompileError::Unsupported { .. } | wasm_aot::CompileError::TooLarge { .. },
        )) => {
            return Ok(None);
        }
        Err(error) => panic!("a valid module is refused: {error}{}", shown(bytes)),
    };
    let functions: Vec<_> = module
        .exports()
        .filter_map(|export| match export.ty {
            ExternType::Func(ty) => Some((export.name.to_owned(), ty)),
            _ => None,
        })
        .collect();
    let mut calls = Vec::new();
    for _ in 0..if functions.is_empty() { 0 } else { CALLS } {
        let (name, ty) = u.choose(&functions)?;
        let args = ty.params().iter().map(|ty| argument(*ty, u)).collect::<Result<_>>()?;
        calls.push((name.clone(), args));
    }
    Ok(Some(calls))
}

fn argument(ty: ValType, u: &mut Unstructured<'_>) -> Result<u128> {
    let edges =
        [0u64, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x7ff0_0000_0000_0000, 1 << 63, u64::MAX];
    let any = if u.ratio(1, 2)? { *u.choose(&edges)? } else { u.arbitrary()? };
    Ok(match ty {
        ValType::I32 | ValType::F32 => u128::from(any as u32),
        ValType::I64 | ValType::F64 => u128::from(any),
        ValType::V128 => u128::from(any) << 64 | u128::from(u.arbitrary::<u64>()?),
        ValType::Ref(_) => 0,
    })
}

/// FNV-1a, 64 bits: enough to distinguish memories.
fn digest(bytes: &[u8]) -> u128 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    u128::from(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The engine's machine code.
mod compiled {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use wasm_aot::monitor::MonitorSet;
    use wasm_aot::probe::{Place, ProbeId, Probes};

    struct Compiled {
        store: Store<()>,
        instance: Instance,
        _restless: Option<Restless>,
    }

    /// A thread that switches a module back and forth.
    struct Restless {
        stop: Arc<AtomicBool>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Restless {
        fn new(module: &Module) -> Self {
            let (stop, module) = (Arc::new(AtomicBool::new(false)), module.clone());
            let stopped = Arc::clone(&stop);
            let thread = std::thread::spawn(move || {
                let (live, probes) = (MonitorSet::of(&module), Probes::new(&module));
                let mut counters = Vec::new();
                for turn in 0.. {
                    if stopped.load(Relaxed) {
                        break;
                    }
                    match turn % 12 {
                        0 if turn > 0 && counters.is_empty() => {
                            counters = everywhere(&module, &probes);
                        }
                        1 | 7 => drop(live.attach("hotness").expect("attached")),
                        // It has hooks in some functions only; variants share the others.
                        2 | 8 => drop(live.attach("memory").expect("attached")),
                        3 => drop(live.attach("coverage").expect("attached")),
                        4 | 10 => drop(live.detach("hotness").expect("detached")),
                        5 => drop(live.attach("latency,function=*").expect("attached")),
                        9 => drop(live.detach("memory").expect("detached")),
                        11 => live.detach_all().expect("detached"),
                        _ => {}
                    }
                    probes.switch(&counters, turn % 2 == 0);
                }
            });
            Self { stop, thread: Some(thread) }
        }
    }

    /// Counters before all instructions that have patchable sites.
    fn everywhere(module: &Module, probes: &Probes) -> Vec<ProbeId> {
        let mut counters = Vec::new();
        if module.patchable_sites() == 0 {
            return counters;
        }
        for function in module.counts().expect("attached once").functions() {
            for instruction in function.instructions() {
                counters.push(
                    probes
                        .count(Place::before(function.index(), instruction.offset))
                        .expect("an instruction"),
                );
            }
        }
        counters
    }

    impl Drop for Restless {
        fn drop(&mut self) {
            self.stop.store(true, Relaxed);
            self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
        }
    }

    pub(super) fn instantiate(engine: &Engine, bytes: &[u8]) -> Start {
        let module = Module::new(engine, bytes).expect("compiled by the first engine");
        let restless =
            (module.sites() > 0 && engine.has_reservations()).then(|| Restless::new(&module));
        let mut store = Store::new(engine, ());
        store.set_deadline(Some(PATIENCE));
        store.set_limits(Limits { memory: 64 << 20, ..Limits::default() });
        let mut linker = Linker::new(engine);
        for import in module.imports() {
            let ExternType::Func(ty) = import.ty else { panic!("only functions are offered") };
            let of = ty.clone();
            let body = move |_: wasm_aot::Caller<'_, ()>, args: &[Val], results: &mut [Val]| {
                for (result, ty) in results.iter_mut().zip(of.results()) {
                    let given =
                        of.params().iter().position(|param| param == ty).map(|at| args[at].clone());
                    *result = given.or_else(|| Val::default_for(*ty)).expect("a value");
                }
                Ok(())
            };
            linker
                .allow_shadowing(true)
                .func_new(import.module, import.name, ty, body)
                .expect("shadowing is allowed");
        }
        match linker.instantiate(&mut store, &module) {
            Ok(instance) => Ok(Box::new(Compiled { store, instance, _restless: restless })),
            Err(error) => Err(outcome(&error)),
        }
    }

    fn outcome(error: &Error) -> Outcome {
        match error {
            Error::Trap(report) => match report.trap {
                Trap::StackOverflow => Outcome::Incomparable,
                Trap::Interrupted => panic!("it does not end"),
                Trap::MemoryOutOfBounds => Outcome::Trap("memory"),
                Trap::TableOutOfBounds | Trap::UndefinedElement => Outcome::Trap("table"),
                Trap::UninitializedElement => Outcome::Trap("null"),
                Trap::IndirectCallType => Outcome::Trap("type"),
                Trap::IntegerDivideByZero => Outcome::Trap("zero"),
                Trap::IntegerOverflow => Outcome::Trap("overflow"),
                Trap::InvalidConversion => Outcome::Trap("conversion"),
                Trap::Unreachable => Outcome::Trap("unreachable"),
                Trap::UnalignedAtomic => Outcome::Trap("unaligned"),
                Trap::SharedMemoryExpected => Outcome::Trap("not shared"),
                _ => Outcome::Trap("other"),
            },
            Error::Exception(_) => Outcome::Exception,
            Error::Resource(_) => Outcome::Incomparable,
            other => panic!("no way for a program to end: {other}"),
        }
    }

    fn bits(value: &Val) -> u128 {
        match value {
            Val::I32(value) => u128::from(*value as u32),
            Val::I64(value) => u128::from(*value as u64),
            Val::F32(bits) => u128::from(*bits),
            Val::F64(bits) => u128::from(*bits),
            Val::V128(value) => *value,
            Val::FuncRef(None) | Val::ExternRef(None) | Val::ExnRef(None) | Val::AnyNull => 0,
            _ => 1,
        }
    }

    impl Subject for Compiled {
        fn call(&mut self, name: &str, args: &[u128]) -> Outcome {
            let function = self.instance.get_func(&mut self.store, name).expect("exported");
            let ty = function.ty(&mut self.store).expect("of this store");
            let each = args.iter().zip(ty.params());
            let args: Vec<Val> = each
                .map(|(bits, ty)| match ty {
                    ValType::I32 => Val::I32(*bits as i32),
                    ValType::I64 => Val::I64(*bits as i64),
                    ValType::F32 => Val::F32(*bits as u32),
                    ValType::F64 => Val::F64(*bits as u64),
                    ValType::V128 => Val::V128(*bits),
                    ValType::Ref(_) => Val::default_for(*ty).expect("nullable"),
                })
                .collect();
            match function.call(&mut self.store, &args) {
                Ok(results) => Outcome::Values(results.iter().map(bits).collect()),
                Err(error) => outcome(&error),
            }
        }

        fn state(&mut self) -> Vec<(String, u128)> {
            let mut state = Vec::new();
            for (name, item) in self.instance.exports(&mut self.store) {
                match item {
                    Extern::Memory(memory) => {
                        let pages = memory.size(&mut self.store).expect("of this store");
                        let mut bytes = vec![0; pages as usize * 65536];
                        memory.read(&mut self.store, 0, &mut bytes).expect("inside");
                        state.push((name, digest(&bytes)));
                    }
                    Extern::Global(global) => state
                        .push((name, bits(&global.get(&mut self.store).expect("of this store")))),
                    Extern::Table(table) => {
                        let len = table.size(&mut self.store).expect("of this store");
                        let each = (0..len).map(|i| {
                            table.get(&mut self.store, i).expect("of this store").expect("inside")
                        });
                        let nulls: Vec<u8> = each.map(|value| bits(&value) as u8).collect();
                        state.push((name, digest(&nulls)));
                    }
                    _ => {}
                }
            }
            state.sort();
            state
        }
    }
}

/// The interpreter.
mod interpreter {
    use super::{Outcome, Start, Subject, digest};
    use wasmi::{Extern, Instance, Linker, Module, Nullable, Ref, Store, TrapCode, Val, ValType};

    struct Interpreted {
        store: Store<()>,
        instance: Instance,
    }

    /// `None` if it does not support a feature of the module.
    pub(super) fn instantiate(bytes: &[u8]) -> Option<Start> {
        let mut config = wasmi::Config::default();
        config
            .wasm_multi_memory(true)
            .wasm_memory64(true)
            .wasm_wide_arithmetic(true)
            .wasm_simd(true)
            .wasm_extended_const(true);
        config.wasm_tail_call(true).wasm_relaxed_simd(false);
        let engine = wasmi::Engine::new(&config);
        let module = Module::new(&engine, bytes).ok()?;
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.allow_shadowing(true);
        for import in module.imports() {
            let wasmi::ExternType::Func(ty) = import.ty() else { return None };
            let of = ty.clone();
            let body = move |_: wasmi::Caller<'_, ()>, args: &[Val], results: &mut [Val]| {
                for (result, ty) in results.iter_mut().zip(of.results()) {
                    let given =
                        of.params().iter().position(|param| param == ty).map(|at| args[at].clone());
                    *result = given.unwrap_or_else(|| Val::default_for_ty(*ty));
                }
                Ok(())
            };
            linker.func_new(import.module(), import.name(), ty.clone(), body).ok()?;
        }
        Some(match linker.instantiate_and_start(&mut store, &module) {
            Ok(instance) => Ok(Box::new(Interpreted { store, instance })),
            Err(error) => Err(outcome(&error)),
        })
    }

    fn outcome(error: &wasmi::Error) -> Outcome {
        let Some(code) = error.as_trap_code() else { return instantiation(error) };
        match code {
            TrapCode::UnreachableCodeReached => Outcome::Trap("unreachable"),
            TrapCode::MemoryOutOfBounds => Outcome::Trap("memory"),
            TrapCode::TableOutOfBounds => Outcome::Trap("table"),
            TrapCode::IndirectCallToNull => Outcome::Trap("null"),
            TrapCode::BadSignature => Outcome::Trap("type"),
            TrapCode::IntegerDivisionByZero => Outcome::Trap("zero"),
            TrapCode::IntegerOverflow => Outcome::Trap("overflow"),
            TrapCode::BadConversionToInteger => Outcome::Trap("conversion"),
            _ => Outcome::Incomparable,
        }
    }

    /// Segments that do not fit are errors of another kind there.
    fn instantiation(error: &wasmi::Error) -> Outcome {
        let text = error.to_string();
        match text {
            _ if text.contains("table") || text.contains("element") => Outcome::Trap("table"),
            _ if text.contains("memory") || text.contains("data") => Outcome::Trap("memory"),
            _ => Outcome::Incomparable,
        }
    }

    fn bits(value: &Val) -> u128 {
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

    impl Subject for Interpreted {
        fn call(&mut self, name: &str, args: &[u128]) -> Outcome {
            let function = self.instance.get_func(&self.store, name).expect("exported");
            let ty = function.ty(&self.store);
            let each = args.iter().zip(ty.params());
            let args: Vec<Val> = each
                .map(|(bits, ty)| match ty {
                    ValType::I32 => Val::I32(*bits as i32),
                    ValType::I64 => Val::I64(*bits as i64),
                    ValType::F32 => Val::F32(wasmi::F32::from_bits(*bits as u32)),
                    ValType::F64 => Val::F64(wasmi::F64::from_bits(*bits as u64)),
                    ValType::V128 => Val::V128(wasmi::V128::from(*bits)),
                    other => Val::default_for_ty(*other),
                })
                .collect();
            let mut results: Vec<Val> =
                ty.results().iter().map(|ty| Val::default_for_ty(*ty)).collect();
            match function.call(&mut self.store, &args, &mut results) {
                Ok(()) => Outcome::Values(results.iter().map(bits).collect()),
                Err(error) => outcome(&error),
            }
        }

        fn state(&mut self) -> Vec<(String, u128)> {
            let mut state = Vec::new();
            for export in self.instance.exports(&self.store) {
                let name = export.name().to_owned();
                match export.into_extern() {
                    Extern::Memory(memory) => state.push((name, digest(memory.data(&self.store)))),
                    Extern::Global(global) => state.push((name, bits(&global.get(&self.store)))),
                    Extern::Table(table) => {
                        let is_null = |item| {
                            matches!(item, Ref::Func(Nullable::Null) | Ref::Extern(Nullable::Null))
                        };
                        let each = (0..table.size(&self.store))
                            .map(|i| table.get(&self.store, i).expect("inside"));
                        let nulls: Vec<u8> = each.map(|item| u8::from(!is_null(item))).collect();
                        state.push((name, digest(&nulls)));
                    }
                    Extern::Func(_) => {}
                }
            }
            state.sort();
            state
        }
    }
}
