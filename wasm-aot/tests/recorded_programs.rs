//! Programs with a non-trivial host: files, clocks, random numbers and arguments. They are recorded
//! in both ways, and their runs are repeated in the engine, and by modules without imports in three
//! engines.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use test_support::{Folder, is_there, require, succeed};
use wasm_aot::recording::Recorder;
use wasm_aot::replaying::replay;
use wasm_aot::trace::{Ending, Event, Generation, Placed, Program, Reader, generate};
use wasm_aot::wasi::{self, Buffer, Permissions, Sink, WasiCtx};
use wasm_aot::{Engine, Error, Instance, Linker, Module, Store};
use whamm_record::{Options, record};

/// Programs of the corpus: their names, files, options, and amounts of work.
const PROGRAMS: [(&str, &str, &[&str], &str); 15] = [
    ("matmul", "kernels/matmul.c", &[], "1"),
    ("nbody", "kernels/nbody.c", &[], "20000"),
    ("mandelbrot", "kernels/mandelbrot.c", &[], "60"),
    ("fannkuch", "kernels/fannkuch.c", &[], "7"),
    ("sha256", "kernels/sha256.c", &[], "1"),
    ("quicksort", "kernels/quicksort.c", &[], "1"),
    ("sieve", "kernels/sieve.c", &[], "1"),
    ("spectral", "kernels/spectral.c", &[], "1"),
    ("recursion", "kernels/recursion.c", &[], "1"),
    ("dispatch", "kernels/dispatch.c", &[], "100"),
    ("multiply", "calls.c", &["-DMULTIPLY", "-DTYPE=double"], "1"),
    ("sum", "calls.c", &["-DSUM", "-DTYPE=int"], "1"),
    ("quicksort-double", "calls.c", &["-DQUICKSORT", "-DTYPE=double"], "1"),
    ("image", "calls.c", &["-DIMAGE", "-DTYPE=int"], "1"),
    ("game", "calls.c", &["-DGAME", "-DTYPE=int"], "1"),
];

/// A compiled program, and the argument for its amount of work.
struct Compiled {
    name: &'static str,
    module: Vec<u8>,
    amount: &'static str,
}

/// Compiles all of them, two at a time.
fn compiled(folder: &Folder) -> Vec<Compiled> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/paper/corpus");
    let (left, done) = (Mutex::new(VecDeque::from(PROGRAMS)), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some((name, file, options, amount)) = left.lock().expect("it").pop_front() else {
                return;
            };
            let module = folder.join(format!("{name}.wasm"));
            let mut zig = Command::new("python3");
            zig.args(["-m", "ziglang", "cc", "--target=wasm32-wasi", "-O2", "-w"]);
            zig.arg("-I").arg(&corpus).arg("-include").arg(corpus.join("world/world.h"));
            zig.args(options).arg(corpus.join(file)).arg(corpus.join("world/world.c"));
            succeed(zig.arg("-o").arg(&module));
            let module = fs::read(module).expect("a module");
            done.lock().expect("it").push(Compiled { name, module, amount });
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    done.into_inner().expect("all are done")
}

/// A program's folder, with its amount of work, a text, and space for its output files.
fn place(folder: &Folder, program: &Compiled) -> PathBuf {
    let place = folder.join(program.name);
    fs::create_dir(&place).expect("a folder");
    fs::write(place.join("how-much"), program.amount).expect("room");
    fs::write(place.join("text"), include_str!("../../LICENSE-MIT").repeat(9)).expect("room");
    place
}

/// Runs a program in its folder, and returns its output.
fn run(store: &mut Store<WasiCtx>, module: &Module, said: &Buffer) -> String {
    let mut linker = Linker::new(store.engine());
    wasi::add_to_linker(&mut linker, |world: &mut WasiCtx| world).expect("the only one");
    let instance = linker.instantiate(&mut *store, module).expect("an instance");
    let start = instance.get_func(&mut *store, "_start").expect("a program");
    match start.call(&mut *store, &[]) {
        Ok(_) | Err(Error::Exit(0)) => String::from_utf8(said.take()).expect("text"),
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&said.take())),
    }
}

fn world(engine: &Engine, place: &Path) -> (Store<WasiCtx>, Buffer) {
    let said = Buffer::default();
    let world = WasiCtx::builder()
        .args(["program", "how-much", "text", "report"])
        .stdout(Sink::Buffer(said.clone()))
        .stderr(Sink::Buffer(said.clone()))
        .preopened_dir(place, "/", Permissions::ReadWrite);
    (Store::new(engine, world.build().expect("a world")), said)
}

/// The events of a trace, to its end.
fn events(trace: &[u8]) -> Vec<Event> {
    let mut reader = Reader::new(trace).expect("a trace");
    let events = reader.by_ref().map(|event| event.expect("it is whole")).collect();
    assert_eq!(*reader.ending().expect("it was read"), Ending::Whole);
    events
}

/// The host's events in a program's run: recorded by the engine, and by the program itself.
fn recorded_twice(engine: &Engine, program: &Compiled, place: &Path) -> [Vec<Event>; 2] {
    let module = Module::new(engine, &program.module).expect(program.name);
    let (mut store, said) = world(engine, place);
    let traced = Program::new(program.module.clone(), program.name);
    let recorder = Recorder::new(&mut store, &module, &traced, Vec::new()).expect(program.name);
    let first = run(&mut store, &module, &said);
    let trace = recorder.finish(&mut store);
    assert!(trace.failure.is_none(), "{}: {:?}", program.name, trace.failure);
    let report = fs::read_to_string(place.join("report")).expect("the program has written it");
    assert!(report.starts_with("program: "), "{report}");

    let file = Some("itself.r3".to_owned());
    let options = Options { name: program.name.into(), file, raw: false };
    let rewritten = record(&program.module, &options).expect(program.name).module;
    let rewritten = Module::new(engine, &rewritten).expect(program.name);
    let (mut store, said) = world(engine, place);
    assert_eq!(run(&mut store, &rewritten, &said), first, "{}", program.name);
    let itself = fs::read(place.join("itself.r3")).expect("the program has written it");
    [events(&trace.sink), events(&itself)]
}

/// A run that is replayed and recorded again yields the same trace.
fn is_repeated(engine: &Engine, program: &Compiled, trace: &[Event]) {
    let module = Module::new(engine, &program.module).expect(program.name);
    let mut store = Store::new(engine, ());
    let traced = Program::new(program.module.clone(), program.name);
    let recorder = Recorder::new(&mut store, &module, &traced, Vec::new()).expect(program.name);
    let script = trace.to_vec();
    replay(&mut store, &module, script.into_iter().map(Ok), None).expect(program.name);
    assert!(events(&recorder.finish(&mut store).sink) == trace, "{}", program.name);
}

/// Runs a replay that checks itself; returns the number of passed events, and whether one was
/// wrong.
fn passed(engine: &Engine, name: &str, replay: &[u8]) -> (Option<i64>, Option<i32>) {
    let module = Module::new(engine, replay).expect(name);
    let mut store = Store::new(engine, ());
    let instance = Instance::new(&mut store, &module, &[]).expect(name);
    let start = instance.get_func(&mut store, "_start").expect("a start");
    start.call(&mut store, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut global = |name: &str| {
        instance.get_global(&mut store, name).expect(name).get(&mut store).expect("a value")
    };
    (global("replay:event").i64(), global("replay:wrong").i32())
}

#[test]
fn fifteen_programs_with_files_clocks_and_chance_are_repeated_by_three_engines() {
    let found = Command::new("python3").args(["-c", "import ziglang, wasmtime"]).output();
    let found = found.is_ok_and(|output| output.status.success()) && is_there("node");
    if !require(found, "zig cc, Wasmtime or node") {
        return;
    }
    let folder = Folder::new("wasm-aot-recorded-programs");
    let engine = Engine::default();
    let mut replays = Vec::new();
    for program in compiled(&folder) {
        let place = place(&folder, &program);
        let traces = recorded_twice(&engine, &program, &place);
        is_repeated(&engine, &program, &traces[0]);
        let [kept, itself] = [&traces[0], &traces[1]].map(Vec::len);
        assert!(itself <= 2 * kept && kept <= 2 * itself, "{}: {kept}, {itself}", program.name);
        for (way, trace) in ["engine", "itself"].into_iter().zip(traces) {
            let placed: Vec<Event> =
                Placed::new(trace.into_iter().map(Ok)).map(|it| it.expect("one")).collect();
            let count = placed.len() as i64;
            let checks = Generation { is_checked: true };
            let made = generate(&program.module, placed.into_iter().map(Ok), checks);
            let made = made.unwrap_or_else(|error| panic!("{}: {error}", program.name));
            let name = format!("{}-{way}.wasm", program.name);
            assert_eq!(passed(&engine, &name, &made), (Some(count), Some(0)), "{name}");
            let path = folder.join(name);
            fs::write(&path, made).expect("room");
            replays.extend([path.display().to_string(), count.to_string()]);
        }
    }
    assert_eq!(replays.len(), 2 * 2 * PROGRAMS.len());
    let script = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recording").join(name);
    succeed(Command::new("python3").arg(script("engines.py")).args(&replays));
    succeed(Command::new("node").arg(script("engines.js")).args(&replays));
}
