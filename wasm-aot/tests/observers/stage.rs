//! A program and its monitors, in one store.

use wasm_aot::observer::{
    Observation, Observer, ObserverError, ProbeCalls, Program, Switches, add_to_linker,
};
use wasm_aot::wasi::{self, Buffer, Sink, WasiCtx};
use wasm_aot::{Caller, Engine, Error, Instance, Linker, Module, Store, Val};

/// The host of a program or a monitor; each has its own.
pub(crate) struct World {
    program: WasiCtx,
    monitor: WasiCtx,
}

/// An observed program, instantiated.
pub(crate) struct Run {
    store: Store<World>,
    pub(crate) observation: std::sync::Arc<Observation>,
    instance: Result<Instance, Error>,
    printed: Buffer,
    monitors: Vec<Instance>,
    /// The observations at each call of `log` by the program.
    pub(crate) told: Told,
}

type Told = std::sync::Arc<std::sync::Mutex<Vec<i64>>>;

pub(crate) fn run(
    monitors: &[(&str, &[u8])],
    libraries: &[(&str, &[u8])],
    program: &[u8],
    calls: ProbeCalls,
) -> Result<Run, ObserverError> {
    run_with(monitors, libraries, program, calls, |_| {})
}

/// The same with prepared monitors.
pub(crate) fn run_with(
    monitors: &[(&str, &[u8])],
    libraries: &[(&str, &[u8])],
    program: &[u8],
    calls: ProbeCalls,
    ready: impl Fn(&mut Observer),
) -> Result<Run, ObserverError> {
    let engine = Engine::default();
    let printed = Buffer::default();
    let world = |builder: wasi::WasiCtxBuilder| builder.build().expect("a world");
    // With this variable the existing compiler's core library prints.
    let monitor =
        world(WasiCtx::builder().stdout(Sink::Buffer(printed.clone())).env("TO_CONSOLE", "true"));
    let mut store = Store::new(&engine, World { program: world(WasiCtx::builder()), monitor });
    let program = Program::new(&engine, program).expect("a program");
    let (mut observers, mut instances) = (Vec::new(), Vec::new());
    for (name, bytes) in monitors {
        let mut linker = Linker::new(&engine);
        wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.monitor).expect("linked");
        let switches = Switches::default();
        add_to_linker(&mut linker, &program, &switches).expect("linked");
        for (name, bytes) in libraries {
            let library = Module::new(&engine, bytes).expect("a library");
            let instance = linker.instantiate(&mut store, &library).expect("linked");
            linker.instance(&mut store, name, instance).expect("linked");
        }
        let module = Module::new(&engine, bytes).expect("a monitor");
        let mut observer = Observer::new(&mut store, &linker, name, &module, &switches)?;
        ready(&mut observer);
        instances.push(observer.instance());
        observers.push(observer);
    }
    let observation =
        std::sync::Arc::new(Observation::new(&mut store, observers, &program, calls, None)?);
    let mut linker = Linker::new(&engine);
    wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.program).expect("linked");
    // During the program, the first monitor's observations so far.
    let (own, first, told) =
        (std::sync::Arc::clone(&observation), instances.first().copied(), Told::default());
    let heard = std::sync::Arc::clone(&told);
    let log = move |mut caller: Caller<'_, World>, _: i32| {
        own.settle(&mut caller);
        let seen = first.and_then(|monitor| monitor.get_global(&mut caller, "seen"));
        heard
            .lock()
            .expect("no panic")
            .extend(seen.and_then(|seen| seen.get(&mut caller).ok()?.i64()));
    };
    linker.func_wrap("env", "log", log).expect("linked");
    let instance = linker.instantiate(&mut store, observation.module());
    Ok(Run { store, observation, instance, printed, monitors: instances, told })
}

impl Run {
    pub(crate) fn call(&mut self, name: &str, args: &[Val]) -> Result<Vec<Val>, Error> {
        let instance = *self.instance.as_ref().expect("an instance");
        let function = instance.get_func(&mut self.store, name).expect("exported");
        function.call(&mut self.store, args)
    }

    /// Whether the program exports a function.
    pub(crate) fn has(&mut self, name: &str) -> bool {
        let instance = *self.instance.as_ref().expect("an instance");
        instance.get_func(&mut self.store, name).is_some()
    }

    /// A global that the first monitor exports.
    pub(crate) fn global(&mut self, name: &str) -> i64 {
        self.global_of(0, name)
    }

    /// A global that a monitor exports.
    pub(crate) fn global_of(&mut self, monitor: usize, name: &str) -> i64 {
        self.observation.settle(&mut self.store);
        let global = self.monitors[monitor].get_global(&mut self.store, name).expect("exported");
        match global.get(&mut self.store).expect("of this store") {
            Val::I32(value) => value.into(),
            Val::I64(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// The contents of a memory that the first monitor exports.
    pub(crate) fn memory(&mut self, name: &str) -> Vec<u8> {
        self.memory_of(0, name)
    }

    /// The contents of a memory that a monitor exports.
    pub(crate) fn memory_of(&mut self, monitor: usize, name: &str) -> Vec<u8> {
        self.observation.settle(&mut self.store);
        let memory = self.monitors[monitor].get_memory(&mut self.store, name).expect("exported");
        let mut bytes =
            vec![0; memory.size(&mut self.store).expect("of this store") as usize * 65536];
        memory.read(&mut self.store, 0, &mut bytes).expect("all of it");
        bytes
    }

    pub(crate) fn report(&mut self) -> String {
        let errors = self.observation.report(&mut self.store);
        assert!(errors.is_empty(), "{errors:?}");
        String::from_utf8(self.printed.take()).expect("text")
    }
}
