//! Monitors that are modules, in programs with several threads: one instance for each thread.

use std::sync::{Arc, Barrier};
use wasm_aot::observer::{
    Observation, Observer, ObserverError, ProbeCalls, Program, Switches, add_to_linker,
};
use wasm_aot::wasi::{self, Buffer, Sink, WasiCtx};
use wasm_aot::{Engine, Instance, Linker, Module, Store, Val};
use whamm::{Options, Source, compile_monitor};

const BOTH: [ProbeCalls; 2] = [ProbeCalls::Inlined, ProbeCalls::Direct];

const PROGRAM: &str = r#"(module
    (memory 1) (table funcref (elem $even $odd))
    (func $even (param i32) (result i32) (i32.load (i32.shl (local.get 0) (i32.const 2))))
    (func $odd (param i32) (result i32) (i32.store (i32.const 4) (local.get 0)) (i32.const 1))
    (func (export "main") (param $n i32) (result i32) (local $sum i32)
        (loop $again (result i32)
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (local.set $sum (i32.add (local.get $sum)
                (call_indirect (param i32) (result i32) (local.get $n) (i32.and (local.get $n) (i32.const 1)))))
            (br_if $again (local.get $n) (local.get $n))
            (drop) (local.get $sum))))"#;

/// The loop turns of `main` for each thread.
const TURNS: [i32; 4] = [3, 10, 1000, 77];

/// A program that several threads execute under a monitor.
struct Stage {
    engine: Engine,
    program: Arc<Program>,
    monitor: Module,
    libraries: Vec<(String, Module)>,
}

/// A thread's store, and its monitor's output.
struct Thread {
    store: Store<WasiCtx>,
    printed: Buffer,
    monitor: Option<Instance>,
}

impl Thread {
    /// A word of its monitor's memory.
    fn word(&mut self, at: usize) -> i32 {
        let memory = self
            .monitor
            .expect("it has one")
            .get_memory(&mut self.store, "memory")
            .expect("exported");
        let mut bytes = [0; 4];
        memory.read(&mut self.store, at, &mut bytes).expect("inside");
        i32::from_le_bytes(bytes)
    }
}

impl Stage {
    fn new(monitor: &[u8], libraries: &[(&str, &str)]) -> Self {
        let engine = Engine::default();
        let program = Program::new(&engine, PROGRAM.as_bytes()).expect("a program");
        let module = |text: &[u8]| Module::new(&engine, text).expect("valid");
        let monitor = module(monitor);
        let libraries = libraries
            .iter()
            .map(|(name, text)| ((*name).to_owned(), module(text.as_bytes())))
            .collect();
        Self { engine, program, monitor, libraries }
    }

    fn thread(&self) -> Thread {
        let printed = Buffer::default();
        let world =
            WasiCtx::builder().stdout(Sink::Buffer(printed.clone())).build().expect("a world");
        Thread { store: Store::new(&self.engine, world), printed, monitor: None }
    }

    fn observer(
        &self,
        thread: &mut Thread,
        switches: &Switches,
        monitor: &Module,
    ) -> Result<Observer, ObserverError> {
        let mut linker = Linker::new(&self.engine);
        wasi::add_to_linker(&mut linker, |world: &mut WasiCtx| world).expect("linked");
        add_to_linker(&mut linker, &self.program, switches).expect("linked");
        for (name, library) in &self.libraries {
            let instance = linker.instantiate(&mut thread.store, library).expect("linked");
            linker.instance(&mut thread.store, name, instance).expect("linked");
        }
        let mut observer = Observer::new(&mut thread.store, &linker, "m", monitor, switches)?;
        observer.set_threads();
        thread.monitor = Some(observer.instance());
        Ok(observer)
    }

    /// Compiles the program with the monitor, and creates the first thread's instance.
    fn begin(&self, calls: ProbeCalls) -> Result<(Thread, Observation), ObserverError> {
        let mut first = self.thread();
        let observer = self.observer(&mut first, &Switches::default(), &self.monitor)?;
        let observation =
            Observation::new(&mut first.store, vec![observer], &self.program, calls, None)?;
        Ok((first, observation))
    }

    fn join(&self, observation: &Observation) -> Result<Thread, ObserverError> {
        let mut thread = self.thread();
        let switches = observation.switches("m").expect("it looks on");
        let observer = self.observer(&mut thread, &switches, &self.monitor)?;
        observation.join(&mut thread.store, vec![observer], &self.program)?;
        Ok(thread)
    }

    /// The reports of all threads, the first one's first.
    fn reports(&self, calls: ProbeCalls) -> (Observation, Vec<String>) {
        let (mut first, observation) = self.begin(calls).unwrap_or_else(|error| panic!("{error}"));
        let run = |thread: &mut Thread, turns: i32| {
            assert!(observation.begin(&mut thread.store).is_empty());
            let linker = Linker::new(&self.engine);
            let instance = linker
                .instantiate(&mut thread.store, observation.module())
                .expect("it is known there");
            let main = instance.get_func(&mut thread.store, "main").expect("exported");
            main.call(&mut thread.store, &[Val::I32(turns)]).expect("it runs");
            assert!(observation.end(&mut thread.store, None).is_empty());
        };
        let barrier = Barrier::new(TURNS.len());
        let mut others = std::thread::scope(|scope| {
            let each = TURNS[1..].iter().map(|turns| {
                let (run, barrier, observation) = (&run, &barrier, &observation);
                scope.spawn(move || {
                    let mut thread =
                        self.join(observation).unwrap_or_else(|error| panic!("{error}"));
                    barrier.wait();
                    run(&mut thread, *turns);
                    thread
                })
            });
            let each: Vec<_> = each.collect();
            barrier.wait();
            run(&mut first, TURNS[0]);
            each.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        others.insert(0, first);
        let report = |mut thread: Thread| {
            let errors = observation.report(&mut thread.store);
            assert!(errors.is_empty(), "{errors:?}");
            String::from_utf8(thread.printed.take()).expect("text")
        };
        let reports = others.into_iter().map(report).collect();
        (observation, reports)
    }
}

fn compiled(script: &str) -> Vec<u8> {
    let output = compile_monitor(&[Source::new("m.mm", script)], &[], &Options::default());
    output.unwrap_or_else(|error| panic!("{error}")).module
}

/// The report of one thread that does the work of all.
fn alone(stage: &Stage) -> String {
    let (mut first, observation) =
        stage.begin(ProbeCalls::Inlined).unwrap_or_else(|error| panic!("{error}"));
    let instance = Linker::new(&stage.engine)
        .instantiate(&mut first.store, observation.module())
        .expect("it is known there");
    for turns in TURNS {
        let main = instance.get_func(&mut first.store, "main").expect("exported");
        main.call(&mut first.store, &[Val::I32(turns)]).expect("it runs");
    }
    assert!(observation.report(&mut first.store).is_empty());
    String::from_utf8(first.printed.take()).expect("text")
}

#[test]
fn what_threads_report_becomes_what_one_would_have_reported() {
    for script in [
        "report var n: u64; wasm:opcode:call_indirect:before { if (arg0 == 1) { n++; } }",
        "report var where: map<u32, u64>; wasm:opcode:*load|*store:before { where[effective_addr as u32] += 2; }",
        "wasm:opcode:br_if:before { report unshared var taken: u32; report unshared var not: u32; if (arg0 != 0) { taken++; } else { not++; } }",
        "wasm:opcode:*:before { report var reached: bool; reached = true; }",
        "wasm:func:entry { frame var depth: u32; depth++; } wasm:opcode:i32.load:before { report unshared var f: f64; f += 0.25; }",
    ] {
        let stage = Stage::new(&compiled(script), &[]);
        let alone = alone(&stage);
        for calls in BOTH {
            let (observation, reports) = stage.reports(calls);
            let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
            let merged =
                observation.merged("m", &reports).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(merged, alone, "{script}");
            // For a monitor that only sums, the first thread reports for all.
            let is_counted = script.contains("br_if") && calls == ProbeCalls::Inlined;
            let is_theirs =
                |report: &&str| *report != alone || is_counted || script.contains("reached");
            assert!(reports.iter().all(is_theirs), "each has seen its own thread");
        }
    }
}

#[test]
fn libraries_of_a_monitor_are_each_threads_own() {
    let library = r#"(module (global $n (mut i32) (i32.const 0)) (func (export "next") (param i32) (result i32)
        (global.set $n (i32.add (global.get $n) (local.get 0))) (global.get $n)))"#;
    let monitor = r#"(module (import "lib" "next" (func $next (param i32) (result i32)))
        (import "wasm-aot:ext" "v1" (func)) (memory (export "memory") 1) (global $id (mut i32) (i32.const -1))
        (func (export "engine:thread_start (thread)") (param i32) (global.set $id (local.get 0)))
        (func (export "wasm:opcode:call_indirect") (i32.store (i32.const 8) (call $next (i32.const 1))))
        (func (export "engine:thread_end (thread)") (param i32) 
            (if (i32.ne (global.get $id) (local.get 0)) (then (unreachable)))))"#;
    let stage = Stage::new(monitor.as_bytes(), &[("lib", library)]);
    for calls in BOTH {
        let (first, observation) = stage.begin(calls).unwrap_or_else(|error| panic!("{error}"));
        let mut all = [
            first,
            stage.join(&observation).expect("joined"),
            stage.join(&observation).expect("joined"),
        ];
        for (thread, turns) in all.iter_mut().zip(TURNS) {
            assert!(observation.begin(&mut thread.store).is_empty());
            let instance = Linker::new(&stage.engine)
                .instantiate(&mut thread.store, observation.module())
                .expect("known");
            instance
                .get_func(&mut thread.store, "main")
                .expect("exported")
                .call(&mut thread.store, &[Val::I32(turns)])
                .expect("runs");
            let wrong = observation.end(&mut thread.store, None);
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        for (thread, turns) in all.iter_mut().zip(TURNS) {
            assert_eq!(thread.word(8), turns);
        }
    }
}

#[test]
fn probes_that_take_themselves_away_go_from_all_threads() {
    let script = "use dyninstr; wasm:opcode:*:before { report var reached: bool; reached = true; dyninstr.remove_probe(probe_id); }";
    let stage = Stage::new(&compiled(script), &[]);
    let alone = alone(&stage);
    let (observation, reports) = stage.reports(ProbeCalls::Inlined);
    let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
    assert_eq!(observation.merged("m", &reports).unwrap_or_else(|error| panic!("{error}")), alone);
}

#[test]
fn what_cannot_be_merged_is_refused_with_its_name_before_anything_runs() {
    let refused = |monitor: &[u8]| match Stage::new(monitor, &[]).begin(ProbeCalls::Inlined) {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.to_string(),
    };
    let error =
        refused(&compiled("report var last: u32; wasm:opcode:i32.load:before { last = pc; }"));
    assert!(
        error.starts_with(
            "monitor m: several threads: what it reports cannot be merged: last: it is given values"
        ),
        "{error}"
    );
    let error = refused(br#"(module (func (export "wasm:exit")) (func (export "wasm:opcode:i32.load (arg0)") (param i32)))"#);
    assert!(error.contains("does not say") && error.contains("whamm:report"), "{error}");
    let error = refused(
        br#"(module (import "whamm:dyninstr" "insert_new_probe" (func (param i32 i32 funcref) (result i32)))
            (func (export "wasm:opcode:i32.load (arg0)") (param i32)))"#,
    );
    assert!(error.contains("it inserts itself"), "{error}");
}

#[test]
fn a_thread_without_an_instance_and_one_that_answers_differently_are_refused() {
    let asking = r#"(module (import "env" "number" (func $number (result i32))) (global $n (mut i32) (i32.const 0))
        (func (export "$which") (result i32) (call $number))
        (func (export "wasm:opcode:i32.load ($which(), arg0)") (param i32 i32)
            (if (local.get 1) (then (global.set $n (local.get 0))))))"#;
    let stage = Stage::new(br#"(module)"#, &[]);
    let monitor = Module::new(&stage.engine, asking).expect("valid");
    let observer = |thread: &mut Thread, switches: &Switches, number: i32| {
        let mut linker = Linker::new(&stage.engine);
        add_to_linker(&mut linker, &stage.program, switches).expect("linked");
        linker.func_wrap("env", "number", move || number).expect("linked");
        let mut observer =
            Observer::new(&mut thread.store, &linker, "m", &monitor, switches).expect("understood");
        observer.set_threads();
        observer
    };
    let mut first = stage.thread();
    let switches = Switches::default();
    let observers = vec![observer(&mut first, &switches, 3)];
    let observation =
        Observation::new(&mut first.store, observers, &stage.program, ProbeCalls::Inlined, None)
            .expect("matched");
    let mut other = stage.thread();
    let error = Linker::new(&stage.engine)
        .instantiate(&mut other.store, observation.module())
        .expect_err("it has none")
        .to_string();
    assert!(
        error.contains("monitor m: it does more than add") && error.contains("cannot be merged"),
        "{error}"
    );
    let observers = vec![observer(&mut other, &switches, 4)];
    let error = observation
        .join(&mut other.store, observers, &stage.program)
        .expect_err("another answer")
        .to_string();
    assert!(
        error.contains(
            "monitor m: wasm:opcode:i32.load ($which(), arg0): at function 0 (even), offset"
        ),
        "{error}"
    );
    let observers = vec![observer(&mut other, &Switches::default(), 3)];
    let error = observation
        .join(&mut other.store, observers, &stage.program)
        .expect_err("other switches")
        .to_string();
    assert!(error.contains("other switches"), "{error}");
    let observers = vec![observer(&mut other, &switches, 3)];
    observation.join(&mut other.store, observers, &stage.program).expect("the same");
    Linker::new(&stage.engine)
        .instantiate(&mut other.store, observation.module())
        .expect("it has one by now");
}
