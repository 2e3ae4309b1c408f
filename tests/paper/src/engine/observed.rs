//! The engine with a monitor that is a module: matching and compiling, and then running.

use super::wasm_aot::{Clock, Figures, Program, finish};
use std::error::Error;
use std::time::Duration;
use wasm_aot::observer::{self, Observation, Observer, ProbeCalls, Switches, add_to_linker};
use wasm_aot::wasi::{self, WasiCtx};
use wasm_aot::{Engine, Linker, Module, Store};

/// The hosts of the program and of the monitor.
struct World {
    program: WasiCtx,
    monitor: WasiCtx,
}

/// Runs a program to its end and has the monitor report. What comes before the first instruction is
/// the start, and compiling all of it.
pub(super) fn run(program: &Program) -> Result<Figures, Box<dyn Error>> {
    let clock = Clock::start();
    let engine = Engine::default();
    let world =
        WasiCtx::builder().inherit_stdio().arg("program").args(&program.arguments).build()?;
    // With this variable the existing compiler's core library prints.
    let monitor = WasiCtx::builder().inherit_stdio().env("TO_CONSOLE", "true").build()?;
    let mut store = Store::new(&engine, World { program: world, monitor });
    let bytes = observer::Program::new(&engine, &std::fs::read(&program.compiled)?)?;
    let mut linker = Linker::new(&engine);
    wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.monitor)?;
    let switches = Switches::default();
    add_to_linker(&mut linker, &bytes, &switches)?;
    if let Some(path) = &program.library {
        let library =
            linker.instantiate(&mut store, &Module::new(&engine, std::fs::read(path)?)?)?;
        linker.instance(
            &mut store,
            &path.file_stem().unwrap_or_default().to_string_lossy(),
            library,
        )?;
    }
    let monitor = program.monitor.as_ref().ok_or("no monitor")?;
    let module = Module::new(&engine, std::fs::read(monitor)?)?;
    let mut observer = Observer::new(&mut store, &linker, "monitor", &module, &switches)?;
    observer.set_alone();
    program.hosted.then(|| observer.set_contained(Duration::from_secs(3600)));
    let calls = if program.called { ProbeCalls::Direct } else { ProbeCalls::Inlined };
    let observation = Observation::new(&mut store, vec![observer], &bytes, calls, None)?;
    let mut linker = Linker::new(&engine);
    wasi::add_to_linker(&mut linker, |world: &mut World| &mut world.program)?;
    let instance = linker.instantiate(&mut store, observation.module())?;
    let entry = instance.get_func(&mut store, "_start").ok_or("the program has no _start")?;
    let start = clock.stop();
    let clock = Clock::start();
    finish(entry, &mut store)?;
    let reporting = Clock::start();
    if let Some(error) = observation.report(&mut store).into_iter().next() {
        return Err(error.into());
    }
    let report = reporting.stop().cpu;
    Ok(Figures {
        start: start.wall,
        start_cpu: start.cpu,
        compile: start.cpu,
        report,
        ..clock.stop()
    })
}
