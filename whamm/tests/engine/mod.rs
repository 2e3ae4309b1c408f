//! An interpreter that runs instrumented programs: it knows as much of WASI as they use.

use wasmi::{Caller, Config, Engine, Extern, Linker, Memory, Module, Store, Val};

/// What came of a run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// What the entry gave.
    pub results: Vec<String>,
    /// Whether it trapped.
    pub trapped: bool,
    /// What was written through WASI.
    pub written: String,
    /// What was kept for the host.
    pub kept: String,
    /// The exported memory, at the end.
    pub memory: Vec<u8>,
}

/// What surrounds a program.
#[derive(Debug, Default)]
pub(crate) struct World {
    written: Vec<u8>,
    log: Vec<String>,
}

fn memory(caller: &Caller<'_, World>) -> Memory {
    caller.get_export("memory").and_then(Extern::into_memory).expect("a program that writes exports its memory")
}

fn word(data: &[u8], at: usize) -> usize {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes")) as usize
}

fn fd_write(mut caller: Caller<'_, World>, _fd: i32, iovs: i32, count: i32, written: i32) -> i32 {
    let memory = memory(&caller);
    let (data, world) = memory.data_and_store_mut(&mut caller);
    let mut total = 0;
    for i in 0..count as usize {
        let (at, len) = (word(data, iovs as usize + 8 * i), word(data, iovs as usize + 8 * i + 4));
        world.written.extend_from_slice(&data[at..at + len]);
        total += len as u32;
    }
    data[written as usize..][..4].copy_from_slice(&total.to_le_bytes());
    0
}

/// An engine with everything that programs here may use.
pub(crate) fn engine() -> Engine {
    let mut config = Config::default();
    config.wasm_multi_memory(true).wasm_tail_call(true).wasm_extended_const(true);
    Engine::new(&config)
}

/// What was written so far.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn written(store: &Store<World>) -> String {
    String::from_utf8_lossy(&store.data().written).into_owned()
}

/// A module that is instantiated, with everything it may use.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn instantiate(bytes: &[u8], libraries: &[(&str, &[u8])]) -> (Store<World>, wasmi::Instance) {
    let (mut store, linker) = world(libraries);
    let module = Module::new(store.engine(), bytes).expect("a monitor is valid");
    let instance = linker.instantiate_and_start(&mut store, &module).expect("a monitor starts");
    (store, instance)
}

fn world(libraries: &[(&str, &[u8])]) -> (Store<World>, Linker<World>) {
    let engine = engine();
    let mut store = Store::new(&engine, World::default());
    let mut linker = Linker::new(&engine);
    linker.func_wrap("wasi_snapshot_preview1", "fd_write", fd_write).expect("it is the only one");
    let exit = |_: Caller<'_, World>, code: i32| -> Result<(), wasmi::Error> { Err(wasmi::Error::i32_exit(code)) };
    linker.func_wrap("wasi_snapshot_preview1", "proc_exit", exit).expect("it is the only one");
    let log = |mut caller: Caller<'_, World>, n: i32| caller.data_mut().log.push(n.to_string());
    linker.func_wrap("env", "log", log).expect("it is the only one");
    for (name, bytes) in libraries {
        let module = Module::new(&engine, bytes).expect("a library is valid");
        let instance = linker.instantiate_and_start(&mut store, &module).expect("a library needs nothing");
        linker.instance(&mut store, name, instance).expect("its name is its own");
    }
    (store, linker)
}

/// Runs the entry of a module: `_start`, or `main`, or only its start function; libraries are linked by name.
pub(crate) fn run(bytes: &[u8], libraries: &[(&str, &[u8])]) -> Outcome {
    let (mut store, linker) = world(libraries);
    let module = Module::new(store.engine(), bytes).expect("an instrumented program is valid");
    let mut outcome = Outcome::default();
    let Ok(instance) = linker.instantiate_and_start(&mut store, &module) else {
        outcome.trapped = true;
        outcome.written = String::from_utf8_lossy(&store.data().written).into_owned();
        return outcome;
    };
    let entry = ["_start", "main"].iter().find_map(|n| instance.get_func(&store, n));
    if let Some(entry) = entry {
        let mut results: Vec<Val> = entry.ty(&store).results().iter().map(|_| Val::I32(0)).collect();
        match entry.call(&mut store, &[], &mut results) {
            Ok(()) => outcome.results = results.iter().map(show).collect(),
            Err(e) if e.i32_exit_status().is_some() => {
                outcome.results = vec![format!("exit {}", e.i32_exit_status().unwrap_or(0))];
            }
            Err(_) => {
                outcome.trapped = true;
                // A host that sees a trap can still ask for the report.
                let silent = store.data().written.is_empty() && kept(&mut store, &instance).is_empty();
                if let Some(flush) = instance.get_func(&store, "whamm:flush").filter(|_| silent) {
                    flush.call(&mut store, &[], &mut []).expect("a report comes out");
                }
            }
        }
    } else if let Some(flush) = instance.get_func(&store, "whamm:flush").filter(|_| kept(&mut store, &instance).is_empty()) {
        flush.call(&mut store, &[], &mut []).expect("a report comes out");
    }
    outcome.results.extend(store.data().log.clone());
    outcome.kept = kept(&mut store, &instance);
    outcome.memory = instance.get_memory(&store, "memory").map(|m| m.data(&store).to_vec()).unwrap_or_default();
    outcome.written = String::from_utf8_lossy(&store.data().written).into_owned();
    outcome
}

fn kept(store: &mut Store<World>, instance: &wasmi::Instance) -> String {
    let (Some(report), Some(memory)) = (instance.get_func(&*store, "whamm:report"), instance.get_memory(&*store, "whamm:memory"))
    else {
        return String::new();
    };
    let mut place = [Val::I32(0), Val::I32(0)];
    report.call(&mut *store, &[], &mut place).expect("it only gives numbers");
    let [Val::I32(at), Val::I32(len)] = place else { return String::new() };
    String::from_utf8_lossy(&memory.data(&*store)[at as usize..][..len as usize]).into_owned()
}

fn show(v: &Val) -> String {
    match v {
        Val::I32(n) => n.to_string(),
        Val::I64(n) => n.to_string(),
        Val::F32(x) => f32::from(*x).to_string(),
        Val::F64(x) => f64::from(*x).to_string(),
        _ => "a reference".into(),
    }
}
