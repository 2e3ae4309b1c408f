//! A host of profiled programs: an interpreter, with a clock that the test advances.

use profiler::Profile;
use wasmi::{
    Caller, Engine, Extern, Func, Instance, Linker, Module, Ref, RefType, Store, Table, TableType,
    Val,
};

/// The state of the host.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Nanoseconds.
    pub(crate) time: i64,
    /// The duration of reading the clock.
    pub(crate) reading: i64,
    /// The bytes written.
    pub(crate) written: Vec<u8>,
    /// Whether there is a folder that the program may write to, and the file in it.
    pub(crate) has_folder: bool,
    pub(crate) file: Option<(String, Vec<u8>)>,
    /// The size limit of the file in bytes.
    pub(crate) room: Option<usize>,
    /// The program's own reports, before and after it was profiled.
    pub(crate) told: Vec<i32>,
}

/// A running program.
pub(crate) struct Running {
    pub(crate) store: Store<World>,
    pub(crate) instance: Instance,
}

fn memory(caller: &Caller<'_, World>) -> wasmi::Memory {
    caller.get_export("memory").and_then(Extern::into_memory).expect("WASI's memory")
}

fn clock(mut caller: Caller<'_, World>, _id: i32, _precision: i64, at: i32) -> i32 {
    let world = caller.data_mut();
    world.time += world.reading;
    let time = world.time.to_le_bytes();
    let memory = memory(&caller);
    memory.write(&mut caller, at as usize, &time).map_or(28, |()| 0)
}

fn fd_write(mut caller: Caller<'_, World>, fd: i32, vectors: i32, n: i32, done: i32) -> i32 {
    let (memory, room) = (memory(&caller), caller.data().room);
    let mut all = 0;
    for vector in 0..n {
        let mut pair = [0; 8];
        let at = (vectors + 8 * vector) as usize;
        memory.read(&caller, at, &mut pair).expect("a vector");
        let word = |n: usize| u32::from_le_bytes(pair[n..n + 4].try_into().expect("four bytes"));
        let mut bytes = vec![0; word(4) as usize];
        memory.read(&caller, word(0) as usize, &mut bytes).expect("bytes");
        all += bytes.len() as u32;
        match &mut caller.data_mut().file {
            Some((_, file)) if fd == FILE && room.is_some_and(|room| file.len() >= room) => {
                return 51;
            }
            Some((_, file)) if fd == FILE => file.extend(bytes),
            _ => caller.data_mut().written.extend(bytes),
        }
    }
    memory.write(&mut caller, done as usize, &all.to_le_bytes()).map_or(28, |()| 0)
}

/// The descriptors of the folder, unlike any other, and of the file in it.
const FOLDER: i32 = 5;
const FILE: i32 = 9;

/// The names of folders: the first of them takes no file.
fn folder_name(folder: i32) -> Option<&'static str> {
    match folder {
        3 => Some("/sr"),
        4 => Some("/srv/data/below"),
        FOLDER => Some("/srv/data/"),
        _ => None,
    }
}

fn fd_prestat_get(mut caller: Caller<'_, World>, folder: i32, at: i32) -> i32 {
    let (memory, Some(name)) = (memory(&caller), folder_name(folder)) else { return 8 };
    let told = [0, name.len() as u32].map(u32::to_le_bytes).concat();
    memory.write(&mut caller, at as usize, &told).map_or(28, |()| 0)
}

fn fd_prestat_dir_name(mut caller: Caller<'_, World>, folder: i32, at: i32, length: i32) -> i32 {
    let (memory, Some(name)) = (memory(&caller), folder_name(folder)) else { return 8 };
    assert_eq!(length as usize, name.len());
    memory.write(&mut caller, at as usize, name.as_bytes()).map_or(28, |()| 0)
}

#[expect(clippy::too_many_arguments, reason = "it is WASI's")]
fn path_open(
    mut caller: Caller<'_, World>,
    folder: i32,
    _follow: i32,
    path: i32,
    length: i32,
    _how: i32,
    _rights: i64,
    _inherited: i64,
    _flags: i32,
    fd: i32,
) -> i32 {
    if folder != FOLDER || !caller.data().has_folder {
        return 8;
    }
    let memory = memory(&caller);
    let mut name = vec![0; length as usize];
    memory.read(&caller, path as usize, &mut name).expect("a path");
    let name = String::from_utf8(name).expect("text");
    caller.data_mut().file = Some((name, Vec::new()));
    memory.write(&mut caller, fd as usize, &FILE.to_le_bytes()).map_or(28, |()| 0)
}

fn path_rename(
    mut caller: Caller<'_, World>,
    folder: i32,
    _path: i32,
    _length: i32,
    _new_folder: i32,
    path: i32,
    length: i32,
) -> i32 {
    let memory = memory(&caller);
    let mut name = vec![0; length as usize];
    memory.read(&caller, path as usize, &mut name).expect("a path");
    let name = String::from_utf8(name).expect("text");
    match &mut caller.data_mut().file {
        Some(file) if folder == FOLDER => {
            file.0 = name;
            0
        }
        _ => 44,
    }
}

/// Calls an export `f<n>` back, if there is one.
fn back(mut caller: Caller<'_, World>, n: i32) -> Result<(), wasmi::Error> {
    call_back(&mut caller, n)
}

fn call_back(caller: &mut Caller<'_, World>, n: i32) -> Result<(), wasmi::Error> {
    let function = caller.get_export(&format!("f{n}")).and_then(Extern::into_func);
    function.map_or(Ok(()), |function| function.call(caller, &[], &mut []))
}

/// Calls an export back twice, and takes time after each call, as another module may do.
fn twice(mut caller: Caller<'_, World>) -> Result<(), wasmi::Error> {
    for time in [50, 70] {
        call_back(&mut caller, 2)?;
        caller.data_mut().time += time;
    }
    Ok(())
}

impl Running {
    /// Instantiates a module.
    pub(crate) fn new(module: &[u8], reading: i64) -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, module).unwrap_or_else(|e| panic!("{e}"));
        let mut store = Store::new(&engine, World { reading, ..World::default() });
        let mut linker = Linker::new(&engine);
        let wasi = "wasi_snapshot_preview1";
        let defined = [
            linker.func_wrap(wasi, "clock_time_get", clock).is_ok(),
            linker.func_wrap(wasi, "fd_write", fd_write).is_ok(),
            linker.func_wrap(wasi, "fd_prestat_get", fd_prestat_get).is_ok(),
            linker.func_wrap(wasi, "fd_prestat_dir_name", fd_prestat_dir_name).is_ok(),
            linker.func_wrap(wasi, "path_open", path_open).is_ok(),
            linker.func_wrap(wasi, "path_rename", path_rename).is_ok(),
            linker.func_wrap(wasi, "fd_close", |fd: i32| i32::from(fd != FILE)).is_ok(),
            linker
                .func_wrap(wasi, "proc_exit", |code: i32| -> Result<(), wasmi::Error> {
                    Err(wasmi::Error::i32_exit(code))
                })
                .is_ok(),
            linker.func_wrap("host", "back", back).is_ok(),
            linker
                .func_wrap("host", "work", |mut caller: Caller<'_, World>, time: i32| {
                    caller.data_mut().time += i64::from(time);
                })
                .is_ok(),
            linker
                .func_wrap("host", "tell", |mut caller: Caller<'_, World>, what: i32| {
                    caller.data_mut().told.push(what);
                })
                .is_ok(),
        ];
        assert!(defined.iter().all(|is_defined| *is_defined));
        let other = Ref::Func(Func::wrap(&mut store, twice).into());
        let others = Table::new(&mut store, TableType::new(RefType::Func, 1, None), other);
        let others = others.unwrap_or_else(|e| panic!("{e}"));
        linker.define("host", "others", others).unwrap_or_else(|e| panic!("{e}"));
        let instance =
            linker.instantiate_and_start(&mut store, &module).unwrap_or_else(|e| panic!("{e}"));
        Self { store, instance }
    }

    fn function(&self, name: &str) -> Func {
        self.instance.get_func(&self.store, name).unwrap_or_else(|| panic!("{name} is exported"))
    }

    /// Calls an export; returns whether it returned normally.
    pub(crate) fn call(&mut self, name: &str) -> bool {
        self.function(name).call(&mut self.store, &[], &mut []).is_ok()
    }

    /// The bytes at the address and length that an export returns.
    pub(crate) fn fetch(&mut self, name: &str) -> Vec<u8> {
        let function = self.function(name);
        let mut place = [Val::I32(0), Val::I32(0)];
        function.call(&mut self.store, &[], &mut place).unwrap_or_else(|e| panic!("{e}"));
        let [at, length] = place.map(|value| value.i32().expect("a word") as usize);
        let memory = self.instance.get_memory(&self.store, "fastinst:memory").expect("exported");
        memory.data(&self.store)[at..at + length].to_vec()
    }

    /// The profile so far.
    pub(crate) fn profile(&mut self) -> Profile {
        let file = self.fetch("fastinst:profile");
        Profile::from_file(&file)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&file)))
    }

    /// The report as text.
    pub(crate) fn report(&mut self) -> String {
        String::from_utf8(self.fetch("fastinst:report")).expect("text")
    }
}
