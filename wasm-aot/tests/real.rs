//! Every monitor agrees with the own counts of real programs. They are compiled from C, C++, Zig
//! and Rust, with a counter before each instruction, and run by an interpreter that shares no code
//! with the engine, except the WASI implementation.

#[path = "agreement/reports.rs"]
mod reports;
#[path = "counts/spelled.rs"]
mod spelled;

use reports::{COUNTED, Table, sums};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::{Folder, require};
use wasm_aot::monitor::{Choices, MonitorSet, Report};
use wasm_aot::wasi::{
    self, Buffer, Guest, Outcome, Permissions, Randomness, Sink, Source, WasiCtx,
};
use wasm_aot::{Config, Engine, Error, Linker, Module, Store};

const INPUT: &str = "the first line\nand the second\nthe third, and the last\n";

/// A folder of a program, which is removed at the end of the test.
struct Workshop(Folder);

impl Workshop {
    fn new(name: &str) -> Self {
        let path = Folder::new(&format!("wasm-aot-real-{}", name.replace(['/', '.'], "-")));
        ["one", "other", "profiled"]
            .iter()
            .for_each(|folder| fs::create_dir_all(path.join(folder)).expect("a folder"));
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Compiles a program for WASI.
fn compile(source: &str, program: &Path) -> Vec<u8> {
    let mut command = match Path::new(source).extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Command::new("rustc"),
        _ => Command::new("python3"),
    };
    match source.rsplit('.').next() {
        Some("rs") => command
            .args(["--edition", "2024", "--target", "wasm32-wasip1", "-O", "-o"])
            .arg(program),
        Some("zig") => command
            .args(["-m", "ziglang", "build-exe", "-target", "wasm32-wasi", "-OReleaseSafe"])
            .arg(format!("-femit-bin={}", program.display())),
        Some("cpp") => command
            .args(["-m", "ziglang", "c++", "--target=wasm32-wasi", "-fno-exceptions", "-O", "-o"])
            .arg(program),
        _ => command.args(["-m", "ziglang", "cc", "--target=wasm32-wasi", "-O", "-o"]).arg(program),
    };
    let output = command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    fs::read(program).expect("a program")
}

/// The WASI world of a program, and the buffer of its output.
fn world(place: &Workshop, directory: &str) -> (WasiCtx, Buffer) {
    let said = Buffer::default();
    let world = WasiCtx::builder()
        .args(["program", "one", "two"])
        .env("NAME", "value")
        .stdin(Source::Bytes(INPUT.into()))
        .stdout(Sink::Buffer(said.clone()))
        .stderr(Sink::Buffer(said.clone()))
        .randomness(Randomness::Seeded(7))
        .preopened_dir(place.path(directory), "/", Permissions::ReadWrite);
    (world.build().expect("a world"), said)
}

/// The WASI functions, for the interpreter.
fn linked(engine: &wasmi::Engine) -> wasmi::Linker<WasiCtx> {
    let mut linker = wasmi::Linker::new(engine);
    for function in wasi::functions() {
        let ty = |ty: &wasi::ValueType| match ty {
            wasi::ValueType::I32 => wasmi::ValType::I32,
            wasi::ValueType::I64 => wasmi::ValType::I64,
        };
        let signature =
            wasmi::FuncType::new(function.params.iter().map(ty), function.results.iter().map(ty));
        let call = |mut caller: wasmi::Caller<'_, WasiCtx>,
                    args: &[wasmi::Val],
                    results: &mut [wasmi::Val]| {
            let args: Vec<u64> = args
                .iter()
                .map(|arg| match arg {
                    wasmi::Val::I32(value) => u64::from(value.cast_unsigned()),
                    wasmi::Val::I64(value) => value.cast_unsigned(),
                    other => panic!("no integer: {other:?}"),
                })
                .collect();
            let memory = caller
                .get_export("memory")
                .and_then(wasmi::Extern::into_memory)
                .expect("programs export it");
            let (bytes, world) = memory.data_and_store_mut(&mut caller);
            match (function.call)(world, &Guest::exclusive(bytes), &args) {
                Outcome::Errno(errno) => results
                    .iter_mut()
                    .for_each(|result| *result = wasmi::Val::I32(errno.number().into())),
                Outcome::Exit(code) => return Err(wasmi::Error::i32_exit(code.cast_signed())),
                other => panic!("nobody waits: {other:?}"),
            }
            Ok(())
        };
        linker.func_new(wasi::MODULE, function.name, signature, call).expect("the only one");
    }
    linker
}

/// The execution counts of each instruction, by defined function and offset, as counted by the
/// program itself; and its output.
fn counted(place: &Workshop, bytes: &[u8]) -> (BTreeMap<(usize, u32), u64>, Vec<u8>) {
    let spelled = spelled::spell(bytes);
    let engine = wasmi::Engine::default();
    let module = wasmi::Module::new(&engine, &spelled.bytes[..]).expect("valid");
    let (world, said) = world(place, "one");
    let mut store = wasmi::Store::new(&engine, world);
    let instance = linked(&engine).instantiate_and_start(&mut store, &module).expect("an instance");
    let start = instance.get_func(&store, "_start").expect("a program");
    if let Err(error) = start.call(&mut store, &[], &mut []) {
        assert!(error.i32_exit_status().is_some(), "{error}");
    }
    let count = |(counter, at)| {
        let global = instance.get_global(&store, &spelled::name(counter)).expect("exported");
        (at, global.get(&store).i64().expect("a number").cast_unsigned())
    };
    (spelled.instructions.into_iter().enumerate().map(count).collect(), said.take())
}

/// Runs a program to its end; returns its output.
fn run(engine: &Engine, module: &Module, (world, said): (WasiCtx, Buffer)) -> Vec<u8> {
    let mut store = Store::new(engine, world);
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker, |world: &mut WasiCtx| world).expect("the only one");
    let instance = linker.instantiate(&mut store, module).expect("an instance");
    match instance.get_func(&mut store, "_start").expect("a program").call(&mut store, &[]) {
        Ok(_) | Err(Error::Exit(_)) => {}
        Err(error) => panic!("{error}"),
    }
    said.take()
}

/// Runs a program under monitors; returns its output and their reports.
fn observed(place: &Workshop, bytes: &[u8], monitors: &[&str]) -> (Module, Vec<Report>, Vec<u8>) {
    let monitors =
        MonitorSet::new(Choices::new(monitors.iter().copied()).expect("monitors")).expect("ready");
    let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
    let module = monitors.compile(&engine, bytes).expect("a module");
    let said = run(&engine, &module, world(place, "other"));
    let reports = monitors.reports(None);
    (module, reports, said)
}

/// The calls of a program's functions by their names, as the rewritten program reports them, and
/// its output.
fn profiled(place: &Workshop, bytes: &[u8]) -> (BTreeMap<String, u64>, Vec<u8>) {
    let options =
        whamm_profile::Options { file: Some("calls.profile".into()), ..Default::default() };
    let program = whamm_profile::profile(bytes, &options).unwrap_or_else(|e| panic!("{e}"));
    let engine = Engine::new(&Config::new()).expect("an engine");
    let module = Module::new(&engine, program.module).unwrap_or_else(|e| panic!("{e}"));
    let said = run(&engine, &module, world(place, "profiled"));
    let file = fs::read(place.path("profiled/calls.profile")).expect("it was written");
    let profile = profiler::Profile::from_file(&file).unwrap_or_else(|e| panic!("{e}"));
    assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
    let mut calls = BTreeMap::new();
    for function in &profile.functions {
        *calls.entry(function.label.name.clone()).or_default() += function.calls.value as u64;
    }
    (calls, said)
}

/// Monitors that report more than execution counts of instructions.
const OTHERS: [&str; 8] = [
    "functions",
    "profile",
    "memory",
    "const",
    "latency,function=*,policy=exact",
    "calls,graph",
    "loop-traces",
    "alloc",
];

/// Compares all reports of monitors about a program with the program's own counts.
fn check(source: &str) {
    let place = Workshop::new(source);
    let bytes = compile(source, &place.path("program.wasm"));
    let (expected, said) = counted(&place, &bytes);
    let trace = place.path("trace");
    let trace_to = format!("trace,calls,file={}", trace.display());
    let monitors: Vec<&str> = COUNTED.into_iter().chain(OTHERS).chain([&trace_to[..]]).collect();
    let (module, reports, repeated) = observed(&place, &bytes, &monitors);
    assert!(
        !said.is_empty() && said == repeated,
        "{source}: {}",
        String::from_utf8_lossy(&repeated)
    );
    let counts = module.counts().expect("counted");
    let imported = module
        .imports()
        .filter(|import| matches!(import.ty, wasm_aot::ExternType::Func(_)))
        .count();
    let (mut calls, mut reads, mut writes, mut copies) = (BTreeMap::new(), 0, 0, 0);
    let mut with_parameters = BTreeMap::new();
    for function in counts.functions() {
        let instructions = function.instructions();
        for instruction in &instructions {
            let expected = expected[&(function.index() as usize - imported, instruction.offset)];
            let place = format!(
                "{source}: {} +{} {}",
                function.label(),
                instruction.offset,
                instruction.mnemonic
            );
            assert_eq!(instruction.count, expected, "{place}");
            let is = |part: &str| {
                instruction.mnemonic.contains(part) && !instruction.mnemonic.starts_with("memory.")
            };
            reads += if is(".load") { expected } else { 0 };
            writes += if is(".store") { expected } else { 0 };
            copies +=
                if matches!(instruction.mnemonic, "memory.copy" | "memory.fill" | "memory.init") {
                    expected
                } else {
                    0
                };
        }
        // A loop at the beginning of a function begins with every turn. Then the engine's count of
        // calls applies, whose instruction counts agree one by one.
        let began = match &instructions[0] {
            first if first.mnemonic != "loop" => {
                expected[&(function.index() as usize - imported, first.offset)]
            }
            _ => function.calls(),
        };
        if began > 0 {
            *calls.entry(function.label()).or_default() += began;
            *with_parameters.entry(function.label()).or_default() += began;
        }
    }
    // Calls of WASI are no functions of the program.
    let defined: Vec<String> = counts.functions().map(|function| function.label()).collect();
    let own = |mut sums: BTreeMap<String, u64>| {
        sums.retain(|name, _| defined.contains(name));
        sums
    };
    let table =
        |name: &str| Table(reports.iter().find(|report| report.monitor == name).expect("a report"));
    let called = |name: &str| own(table(name).sums(&["function"], "calls"));
    for name in ["icount", "functions", "profile", "latency"] {
        assert_eq!(called(name), calls, "{source}: {name}");
    }
    let (of_profile, by_profiled) = profiled(&place, &bytes);
    assert_eq!(own(of_profile), calls, "{source}: rewritten for a profile");
    assert_eq!(by_profiled, said, "{source}: rewritten for a profile");
    let constant = called("const");
    with_parameters.retain(|name, _| constant.contains_key(name));
    assert_eq!(constant, with_parameters, "{source}: const");
    let pages = |column: &str| table("memory").counts(column).iter().sum::<u64>();
    // A copy counts for each of its pages: here that is one, or two, or none if it is empty.
    for (found, expected) in [(pages("reads"), reads), (pages("writes"), writes)] {
        assert!(
            (expected..=expected + 2 * copies).contains(&found),
            "{source}: memory: {found}, {expected} and {copies} copies"
        );
    }
    let functions: Vec<_> =
        counts.functions().map(|function| (function.label(), function.instructions())).collect();
    reports::compare(source, &reports, &functions);
    let made = |mnemonic: &str| mnemonic.starts_with("call") || mnemonic.starts_with("return_call");
    let each = functions.iter().flat_map(|(name, all)| {
        all.iter().map(move |i| (name.clone(), if made(i.mnemonic) { i.count } else { 0 }))
    });
    assert_eq!(table("calls").sums(&["caller"], "count"), sums(each), "{source}: calls");
    // Iterations that the program's end has cut off have no path.
    let whole = table("loop-traces").sums(&["function", "pc"], "count");
    for (place, begun) in table("loops").sums(&["function", "pc"], "iterations") {
        let whole = whole.get(&place).copied().unwrap_or_default();
        assert!(
            whole <= begun && begun <= whole + 1,
            "{source}: loop-traces: {place}: {whole} of {begun}"
        );
    }
    let blocks: u64 = table("alloc").counts("blocks").iter().sum();
    let gives = |name: &str| name.contains("alloc") || name.contains("operator new");
    let given: u64 = calls.iter().filter(|(name, _)| gives(name)).map(|(_, count)| count).sum();
    assert!(blocks <= given, "{source}: alloc: {blocks} of {given}");
    let lines = fs::read_to_string(&trace).expect("written");
    let begun = lines.lines().filter(|line| line.trim_start().starts_with("> ")).count() as u64;
    assert_eq!(begun, calls.values().sum::<u64>(), "{source}: trace");
}

#[test]
fn monitors_of_real_programs_say_what_these_count_themselves() {
    let zig = Command::new("python3")
        .args(["-c", "import ziglang"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !require(zig, "ziglang (pip install ziglang)") {
        return;
    }
    for source in [
        "real/huffman.c",
        "real/expressions.c",
        "real/routes.rs",
        "wasi/words.cpp",
        "wasi/records.zig",
    ] {
        check(source);
    }
}
