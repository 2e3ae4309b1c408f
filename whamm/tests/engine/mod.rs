//! An interpreter that runs instrumented programs, with the part of WASI that they use.

use wasmi::{Caller, Config, Engine, Extern, Linker, Memory, Module, Store, Val};

/// The outcome of a run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The results of the entry.
    pub results: Vec<String>,
    /// Whether it trapped.
    pub trapped: bool,
    /// The text written through WASI.
    pub written: String,
    /// The report kept for the host.
    pub kept: String,
    /// The exported memory, at the end.
    pub memory: Vec<u8>,
}

/// The environment of a program.
#[derive(Debug, Default)]
pub(crate) struct World {
    written: Vec<u8>,
    log: Vec<String>,
    environment: String,
    /// Slots of the activations of a program with a monitor.
    frames: Vec<std::collections::HashMap<i32, Val>>,
    /// Probes that were removed.
    removed: Vec<i32>,
}

impl World {
    /// Begins an activation.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn enter(&mut self) {
        self.frames.push(std::collections::HashMap::new());
    }

    /// Ends an activation.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn leave(&mut self) {
        self.frames.pop();
    }

    /// Whether a probe is still installed.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn has(&self, probe: i32) -> bool {
        !self.removed.contains(&probe)
    }

    /// A world whose environment has variables.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn with(variables: &[&str]) -> Self {
        Self {
            environment: variables.iter().map(|v| format!("{v}\0")).collect(),
            ..Self::default()
        }
    }
}

fn environ_sizes_get(mut caller: Caller<'_, World>, count: i32, size: i32) -> i32 {
    let memory = memory(&caller);
    let (data, world) = memory.data_and_store_mut(&mut caller);
    let numbers =
        [(count, world.environment.matches('\0').count()), (size, world.environment.len())];
    for (at, n) in numbers {
        data[at as usize..][..4].copy_from_slice(&(n as u32).to_le_bytes());
    }
    0
}

fn environ_get(mut caller: Caller<'_, World>, list: i32, texts: i32) -> i32 {
    let memory = memory(&caller);
    let (data, world) = memory.data_and_store_mut(&mut caller);
    let starts = std::iter::once(0).chain(world.environment.match_indices('\0').map(|m| m.0 + 1));
    for (i, start) in starts.take(world.environment.matches('\0').count()).enumerate() {
        data[list as usize + 4 * i..][..4]
            .copy_from_slice(&(texts as u32 + start as u32).to_le_bytes());
    }
    data[texts as usize..][..world.environment.len()].copy_from_slice(world.environment.as_bytes());
    0
}

/// The folders that programs get here.
const FOLDERS: [&str; 2] = ["/nothing", "/data/"];

fn folder(dir: i32) -> Option<&'static str> {
    FOLDERS.get(usize::try_from(dir - 3).ok()?).copied()
}

fn fd_prestat_get(mut caller: Caller<'_, World>, dir: i32, at: i32) -> i32 {
    let Some(name) = folder(dir) else { return 8 };
    let memory = memory(&caller);
    memory
        .write(&mut caller, at as usize, &[[0; 4], (name.len() as u32).to_le_bytes()].concat())
        .expect("there is room");
    0
}

fn fd_prestat_dir_name(mut caller: Caller<'_, World>, dir: i32, at: i32, len: i32) -> i32 {
    let Some(name) = folder(dir) else { return 8 };
    let memory = memory(&caller);
    memory
        .write(&mut caller, at as usize, &name.as_bytes()[..len as usize])
        .expect("there is room");
    0
}

/// The second folder accepts every file: its path is recorded before its contents.
#[expect(clippy::too_many_arguments, reason = "so WASI has it")]
fn path_open(
    mut caller: Caller<'_, World>,
    dir: i32,
    _flags: i32,
    path: i32,
    len: i32,
    _open: i32,
    _rights: i64,
    _inherited: i64,
    _fdflags: i32,
    fd: i32,
) -> i32 {
    if dir != 4 {
        return 8;
    }
    let memory = memory(&caller);
    let (data, world) = memory.data_and_store_mut(&mut caller);
    world.written.extend_from_slice(b"to ");
    world.written.extend_from_slice(&data[path as usize..][..len as usize]);
    world.written.push(b':');
    data[fd as usize..][..4].copy_from_slice(&10u32.to_le_bytes());
    0
}

fn memory(caller: &Caller<'_, World>) -> Memory {
    caller
        .get_export("memory")
        .and_then(Extern::into_memory)
        .expect("a program that writes exports its memory")
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

/// An engine with all features that programs may use here.
pub(crate) fn engine() -> Engine {
    let mut config = Config::default();
    config.wasm_multi_memory(true).wasm_tail_call(true).wasm_extended_const(true);
    Engine::new(&config)
}

/// The text written so far.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn written(store: &Store<World>) -> String {
    String::from_utf8_lossy(&store.data().written).into_owned()
}

/// Instantiates a module, with all imports that it may use.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn instantiate(
    bytes: &[u8],
    libraries: &[(&str, &[u8])],
) -> (Store<World>, wasmi::Instance) {
    let (mut store, linker) = linked(World::default(), libraries);
    let module = Module::new(store.engine(), bytes).expect("a monitor is valid");
    let instance = linker.instantiate_and_start(&mut store, &module).expect("a monitor starts");
    (store, instance)
}

fn linked(world: World, libraries: &[(&str, &[u8])]) -> (Store<World>, Linker<World>) {
    let engine = engine();
    let mut store = Store::new(&engine, world);
    let mut linker = Linker::new(&engine);
    let wasi = "wasi_snapshot_preview1";
    linker.func_wrap(wasi, "fd_write", fd_write).expect("it is the only one");
    linker.func_wrap(wasi, "environ_sizes_get", environ_sizes_get).expect("it is the only one");
    linker.func_wrap(wasi, "environ_get", environ_get).expect("it is the only one");
    linker.func_wrap(wasi, "path_open", path_open).expect("it is the only one");
    linker.func_wrap(wasi, "fd_prestat_get", fd_prestat_get).expect("it is the only one");
    linker.func_wrap(wasi, "fd_prestat_dir_name", fd_prestat_dir_name).expect("it is the only one");
    attach(&mut linker);
    let exit = |_: Caller<'_, World>, code: i32| -> Result<(), wasmi::Error> {
        Err(wasmi::Error::i32_exit(code))
    };
    linker.func_wrap("wasi_snapshot_preview1", "proc_exit", exit).expect("it is the only one");
    let log = |mut caller: Caller<'_, World>, n: i32| caller.data_mut().log.push(n.to_string());
    linker.func_wrap("env", "log", log).expect("it is the only one");
    for (name, bytes) in libraries {
        let module = Module::new(&engine, bytes).expect("a library is valid");
        let instance =
            linker.instantiate_and_start(&mut store, &module).expect("a library needs nothing");
        linker.instance(&mut store, name, instance).expect("its name is its own");
    }
    (store, linker)
}

/// Adds the functions that an engine provides to monitors.
fn attach(linker: &mut Linker<World>) {
    let ext = "wasm-aot:ext";
    linker.func_wrap(ext, "v1", || {}).expect("it is the only one");
    let zeros = [
        ("i32", Val::I32(0)),
        ("i64", Val::I64(0)),
        ("f32", Val::F32(0.0.into())),
        ("f64", Val::F64(0.0.into())),
    ];
    for (name, zero) in zeros {
        let ty = zero.ty();
        let get = wasmi::FuncType::new([wasmi::ValType::I32], [ty]);
        let read = move |caller: Caller<'_, World>, slot: &[Val], out: &mut [Val]| {
            let frame = caller.data().frames.last().expect("a probe fires in an activation");
            out[0] = slot[0].i32().and_then(|n| frame.get(&n)).unwrap_or(&zero).clone();
            Ok(())
        };
        linker.func_new(ext, &format!("frame_get_{name}"), get, read).expect("it is the only one");
        let set = wasmi::FuncType::new([wasmi::ValType::I32, ty], []);
        let write = |mut caller: Caller<'_, World>, given: &[Val], _: &mut [Val]| {
            let frame =
                caller.data_mut().frames.last_mut().expect("a probe fires in an activation");
            frame.insert(given[0].i32().expect("a slot is a number"), given[1].clone());
            Ok(())
        };
        linker.func_new(ext, &format!("frame_set_{name}"), set, write).expect("it is the only one");
    }
    let remove = |mut caller: Caller<'_, World>, probe: i32| caller.data_mut().removed.push(probe);
    linker.func_wrap("whamm:dyninstr", "remove_probe", remove).expect("it is the only one");
}

/// Runs the entry of a module: `_start`, or `main`, or only its start function; libraries are
/// linked by name.
pub(crate) fn run(bytes: &[u8], libraries: &[(&str, &[u8])]) -> Outcome {
    run_in(World::default(), bytes, libraries)
}

/// Runs the entry of a module in a world.
pub(crate) fn run_in(world: World, bytes: &[u8], libraries: &[(&str, &[u8])]) -> Outcome {
    let (mut store, linker) = linked(world, libraries);
    let module = Module::new(store.engine(), bytes).expect("an instrumented program is valid");
    let mut outcome = Outcome::default();
    let Ok(instance) = linker.instantiate_and_start(&mut store, &module) else {
        outcome.trapped = true;
        outcome.written = String::from_utf8_lossy(&store.data().written).into_owned();
        return outcome;
    };
    let entry = ["_start", "main"].iter().find_map(|n| instance.get_func(&store, n));
    if let Some(entry) = entry {
        let mut results: Vec<Val> =
            entry.ty(&store).results().iter().map(|_| Val::I32(0)).collect();
        match entry.call(&mut store, &[], &mut results) {
            Ok(()) => outcome.results = results.iter().map(show).collect(),
            Err(e) if e.i32_exit_status().is_some() => {
                outcome.results = vec![format!("exit {}", e.i32_exit_status().unwrap_or(0))];
            }
            Err(_) => {
                outcome.trapped = true;
                // A host can call for the report after a trap.
                let silent =
                    store.data().written.is_empty() && kept(&mut store, &instance).is_empty();
                if let Some(flush) = instance.get_func(&store, "whamm:flush").filter(|_| silent) {
                    flush.call(&mut store, &[], &mut []).expect("a report comes out");
                }
            }
        }
    } else if let Some(flush) =
        instance.get_func(&store, "whamm:flush").filter(|_| kept(&mut store, &instance).is_empty())
    {
        flush.call(&mut store, &[], &mut []).expect("a report comes out");
    }
    outcome.results.extend(store.data().log.clone());
    outcome.kept = kept(&mut store, &instance);
    outcome.memory =
        instance.get_memory(&store, "memory").map(|m| m.data(&store).to_vec()).unwrap_or_default();
    outcome.written = String::from_utf8_lossy(&store.data().written).into_owned();
    outcome
}

fn kept(store: &mut Store<World>, instance: &wasmi::Instance) -> String {
    let (Some(report), Some(memory)) =
        (instance.get_func(&*store, "whamm:report"), instance.get_memory(&*store, "whamm:memory"))
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
