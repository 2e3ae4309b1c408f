//! A program that is recorded from a quiet point on, after it has changed all of its state.

use super::events;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use test_support::{Folder, finished};
use wasm_aot::recording::{Recorder, Requests};
use wasm_aot::replaying::replay;
use wasm_aot::trace::{Event, Program};
use wasm_aot::{
    Engine, Error, Global, GlobalType, Instance, Linker, Memory, MemoryType, Module, Store, Val,
    ValType,
};

/// Segments in memories and tables of both kinds, a start function, and a step that changes all
/// state.
pub(crate) const PROGRAM: &str = r#"(module
    (import "h" "next" (func $next (param i32) (result i32)))
    (import "h" "memory" (memory $given 1 4))
    (import "h" "total" (global $total (mut i32)))
    (memory $own (export "own") 1 8)
    (table $t 2 8 funcref)
    (global $count (mut i64) (i64.const 5))
    (global $half (mut f64) (f64.const 0.5))
    (elem (table $t) (i32.const 0) func $double $triple)
    (data (memory $given) (i32.const 8) "\01\02\03\04")
    (data (memory $own) (i32.const 100) "own")
    (type $f (func (param i32) (result i32)))
    (func $double (type $f) (i32.mul (local.get 0) (i32.const 2)))
    (func $triple (type $f) (i32.mul (local.get 0) (i32.const 3)))
    (func $begin
        (i32.store8 $given (i32.const 8) (i32.const 77))
        (global.set $count (i64.extend_i32_u (call $next (i32.const 1)))))
    (start $begin)
    (func $swap (local $f funcref)
        (local.set $f (table.get $t (i32.const 0)))
        (table.set $t (i32.const 0) (table.get $t (i32.const 1)))
        (table.set $t (i32.const 1) (local.get $f))
        (drop (table.grow $t (local.get $f) (i32.const 1))))
    (func (export "step") (param $n i32) (result i32)
        (call $swap)
        (drop (memory.grow $own (i32.const 1)))
        (i32.store8 $own (i32.add (i32.const 99) (local.get $n)) (call $next (local.get $n)))
        (i32.store8 $given (i32.const 9) (i32.load8_u $own (i32.const 100)))
        (global.set $count (i64.add (global.get $count) (i64.const 3)))
        (global.set $half (f64.add (global.get $half) (f64.convert_i32_s (local.get $n))))
        (global.set $total (i32.add (global.get $total) (i32.wrap_i64 (global.get $count))))
        (i32.add
            (i32.add (global.get $total) (i32.trunc_f64_s (global.get $half)))
            (i32.add (table.size $t)
                (i32.add (i32.load $given (i32.const 8))
                    (call_indirect $t (type $f) (local.get $n) (i32.const 0)))))))"#;

/// A running program, and its objects from the host.
struct Running {
    store: Store<()>,
    module: Module,
    instance: Instance,
    memory: Memory,
}

impl Running {
    fn new(engine: &Engine) -> Result<Self, Error> {
        let module = Module::new(engine, PROGRAM)?;
        let mut store = Store::new(engine, ());
        let mut linker = Linker::new(engine);
        let ty = MemoryType { minimum: 1, maximum: Some(4), wide: false, shared: false };
        let memory = Memory::new(&mut store, ty)?;
        let ty = GlobalType { content: ValType::I32, mutable: true };
        let total = Global::new(&mut store, ty, Val::I32(1000))?;
        linker.func_wrap("h", "next", |n: i32| n * 7 + 1)?;
        linker.define("h", "memory", memory)?;
        linker.define("h", "total", total)?;
        let instance = linker.instantiate(&mut store, &module)?;
        let mut this = Self { store, module, instance, memory };
        for n in 1..4 {
            this.step(n)?;
        }
        Ok(this)
    }

    fn step(&mut self, n: i32) -> Result<i32, Error> {
        let step = self.instance.get_typed_func::<i32, i32>(&mut self.store, "step")?;
        self.memory.write(&mut self.store, 10, &[n as u8])?;
        step.call(&mut self.store, n)
    }

    fn program(&self) -> Program {
        Program::new(self.module.inner().bytes.to_vec(), "app.wasm")
    }
}

/// The recording of it from its fourth step on.
pub(crate) fn run(engine: &Engine) -> (Module, Vec<Event>) {
    let mut running = Running::new(engine).expect("it runs");
    let program = running.program();
    let Running { store, module, instance, .. } = &mut running;
    let recorder = Recorder::at_quiet_point(store, module, *instance, &program, Vec::new());
    let recorder = recorder.expect("it can be recorded");
    for n in 4..7 {
        running.step(n).expect("it runs");
    }
    let recorded = recorder.finish(&mut running.store);
    assert!(recorded.failure.is_none(), "{:?}", recorded.failure);
    (running.module, events(&recorded.sink))
}

#[test]
fn a_recording_that_begins_at_a_quiet_point_is_repeated_from_there() {
    let engine = Engine::default();
    let (module, found) = run(&engine);
    let changes = found.iter().take_while(|event| matches!(event, Event::Host(_))).count();
    let entered = found[changes].to_string();
    assert!(changes > 8 && entered == "enter 5 export \"step\" i32:4", "{entered}");
    let calls = found.iter().filter(|event| matches!(event, Event::Call { .. })).count();
    assert_eq!(calls, 3, "the start function is not called again");
    let mut store = Store::new(&engine, ());
    let program = Program::new(module.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(&mut store, &module, &program, Vec::new()).expect("again");
    replay(&mut store, &module, found.clone().into_iter().map(Ok), None).expect("the same");
    let again = events(&recorder.finish(&mut store).sink);
    let text =
        |events: &[Event]| events.iter().map(|event| format!("{event}\n")).collect::<String>();
    assert_eq!(text(&again), text(&found));
}

#[test]
fn what_cannot_be_recorded_from_a_quiet_point_is_refused() {
    let engine = Engine::default();
    let mut running = Running::new(&engine).expect("it runs");
    let program = running.program();
    let other = Module::new(&engine, "(module)").expect("a module");
    let Running { store, module, instance, .. } = &mut running;
    let refused = |done: Result<Recorder<Vec<u8>>, Error>, what: &str| {
        let error = done.map(|_| ()).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    };
    let begin = |store: &mut Store<()>, module: &Module| {
        Recorder::at_quiet_point(store, module, *instance, &program, Vec::new())
    };
    refused(begin(store, &other), "the instance is of another module");
    let recorder = begin(store, module).expect("it can be recorded");
    refused(begin(store, module), "it is being recorded");
    recorder.finish(store);
}

#[test]
fn an_embedder_is_asked_to_record_from_outside() {
    let engine = Engine::default();
    let folder = Folder::new("wasm-aot-requests");
    let (over, mut running) = (AtomicBool::new(false), Running::new(&engine).expect("it runs"));
    let program = running.program();
    let mut requests = Requests::listen("server.wasm").expect("a socket");
    let process = std::process::id().to_string();
    let ctl = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasm-aot"));
        command.args(["ctl", &process]).args(args).current_dir(&*folder);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let output = finished(command.spawn().expect("it starts"), "ctl");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let told = [
                ctl(&["status"]),
                ctl(&["record", "-o", "run.r3"]),
                ctl(&["record", "-o", "other.r3"]),
                ctl(&["record", "--end"]),
                ctl(&["record", "--end"]),
                ctl(&["record", "-o", "run.r3"]),
                ctl(&["attach", "hotness"]),
            ];
            over.store(true, SeqCst);
            told
        });
        while !over.load(SeqCst) {
            let Running { store, module, instance, .. } = &mut running;
            requests.carry_out(store, module, *instance, &program);
            running.step(1).expect("it runs");
            std::thread::yield_now();
        }
        let told = asking.join().expect("it asks");
        for (told, expected) in told.iter().zip([
            "program   server.wasm",
            "run.r3: recording begins",
            "run.r3: `record --end` ends that",
            " events recorded",
            "nothing is being recorded",
            "run.r3: File exists",
            "it is an embedder's: expected status or record",
        ]) {
            assert!(told.contains(expected), "{told}: {expected}");
        }
    });
    let mut replay = Command::new(env!("CARGO_BIN_EXE_wasm-aot"));
    let output = replay.args(["replay", "--check", "run.r3"]).current_dir(&*folder).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A program that never reaches a quiet point is reported.
    let told = ctl(&["record", "-o", "never.r3"]);
    assert!(told.contains("it has come to no quiet point for 5 seconds"), "{told}");
    assert!(!folder.join("never.r3").exists());
}
