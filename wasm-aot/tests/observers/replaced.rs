//! Counts and coverage beside a monitor that replaces blocks and branches: control that is led
//! around them is counted as it went.

use super::BOTH;
use super::replaced_programs::{BLOCKS, JUMPS};
use super::stage::{Run, run};
use std::sync::{Arc, Mutex};
use wasm_aot::monitor::MonitorSet;
use wasm_aot::observer::{
    Matched, Observation, Observer, ProbeCalls, Program, Switches, add_to_linker,
};
use wasm_aot::wasi::{self, WasiCtx};
use wasm_aot::{AsContextMut, Config, Engine, Linker, Module, Store, Val};

/// What each monitor replaces, in both programs.
const REPLACEMENTS: [&str; 12] = [
    "wasm:opcode:block:alt / fname == \"block\" / { return 7; }",
    "wasm:opcode:block:alt / fname == \"table\" / { report var n: u32; n++; }",
    "wasm:opcode:loop(arg0: i32):alt / fname == \"loop\" / { return (arg0 + 1, 2.5); }",
    "wasm:opcode:if:alt / fname == \"if\" / { return arg0 + 3; }",
    "wasm:opcode:else:alt / fname == \"if\" / { return 70; }",
    "wasm:opcode:try_table:alt { report var n: u32; n++; }",
    "wasm:opcode:br_if:alt / fname == \"block\" && arg0 == 1 / { drop_args(); }",
    "wasm:opcode:br:alt / fname == \"br\" / { report var n: u32; n++; }",
    "wasm:opcode:br_table:alt / arg0 == 1 / { report var n: u32; n++; }",
    "wasm:opcode:br_table:alt { drop_args(); }",
    "wasm:opcode:return:alt { report var n: u32; n++; }",
    "wasm:opcode:br:alt / fname == \"loop\" && opidx < 12 / { report var n: u32; n++; }",
];

/// A monitor with a word for each instruction, at `fid << 12 | pc << 2`.
fn observing(imports: &str, parameters: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module {imports} (memory (export "seen") 1) (global $last (mut i32) (i32.const 0))
        (func (export "wasm:opcode:* (fid, pc{parameters})") (param i32 i32 i32) (local $at i32)
            (local.set $at (i32.add (i32.shl (local.get 0) (i32.const 12)) (i32.shl (local.get 1) (i32.const 2))))
            {body}))"#
    );
    wat::parse_str(text).expect("it is text")
}

const ADD: &str = "(i32.store (local.get $at) (i32.add (i32.load (local.get $at)) (i32.const 1)))";

fn compiled(script: &str) -> Vec<u8> {
    let script = whamm::Source::new("alt.mm", script);
    let options = whamm::Options::default();
    whamm::compile_monitor(&[script], &[], &options).expect("a script").module
}

/// Runs a program under a monitor, which stands before or behind the one that replaces.
fn observed(own: &[u8], script: &str, program: &str, is_first: bool, calls: ProbeCalls) -> Run {
    let other = compiled(script);
    let mut monitors = vec![("seen", own), ("alt", &other[..])];
    if !is_first {
        monitors.reverse();
    }
    let mut run =
        run(&monitors, &[], program.as_bytes(), calls).unwrap_or_else(|error| panic!("{error}"));
    run.call("_start", &[]).unwrap_or_else(|error| panic!("{error}"));
    run
}

/// What a monitor has seen at each place: as words.
fn words(run: &mut Run, is_first: bool) -> Vec<u32> {
    let bytes = run.memory_of(usize::from(!is_first), "seen");
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect()
}

#[test]
fn what_is_computed_is_what_a_monitor_sees_that_is_called() {
    // The order of these is visible, so they are called.
    let called = observing("", ", fid", &format!("{ADD} (global.set $last (local.get $at))"));
    let counted = observing("", ", fid", ADD);
    let remove = r#"(import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))"#;
    let once = "(i32.store (local.get $at) (i32.const 1)) (call $remove (local.get 2))";
    let covered = observing(remove, ", probe_id", once);
    for (program, script) in
        [BLOCKS, JUMPS].iter().flat_map(|program| REPLACEMENTS.map(|script| (program, script)))
    {
        for (calls, is_first) in BOTH.iter().flat_map(|calls| [(*calls, true), (*calls, false)]) {
            let seen = |monitor: &[u8], counts: bool| {
                let mut run = observed(monitor, script, program, is_first, calls);
                let counts = counts && calls == ProbeCalls::Inlined;
                assert_eq!(run.observation.module().counts().is_some(), counts);
                words(&mut run, is_first)
            };
            let wanted = seen(&called, false);
            assert!(wanted.iter().sum::<u32>() > 100, "{script}");
            assert_eq!(differences(&seen(&counted, true), &wanted), [], "{script}");
            let reached: Vec<u32> = wanted.iter().map(|count| u32::from(*count > 0)).collect();
            assert_eq!(differences(&seen(&covered, false), &reached), [], "{script}: covered");
        }
    }
}

/// Function, place, and what is seen and wanted, where these differ.
fn differences(seen: &[u32], wanted: &[u32]) -> Vec<(usize, usize, u32, u32)> {
    let each = seen.iter().zip(wanted).enumerate().filter(|(_, (seen, wanted))| seen != wanted);
    each.map(|(at, (seen, wanted))| (at >> 10, at & 1023, *seen, *wanted)).collect()
}

/// When a program is counted whose instructions are replaced while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    FromTheBeginning,
    BeforeReplaced,
    AfterReplaced,
}

/// A program that is counted and has no monitors when it begins.
struct Late {
    engine: Engine,
    store: Store<WasiCtx>,
    program: Arc<Program>,
    observation: Arc<Observation>,
}

impl Late {
    fn new(program: &str, when: Counted) -> Self {
        let engine = Engine::new(Config::new().counts(when == Counted::FromTheBeginning))
            .expect("an engine");
        let store = Store::new(&engine, WasiCtx::builder().build().expect("a world"));
        let module = Module::new(&engine, program).expect("a module");
        let program = Program::new(&engine, program.as_bytes()).expect("a program");
        Self { observation: Arc::new(Observation::of(&module)), engine, store, program }
    }

    fn module(&self) -> &Module {
        self.observation.module()
    }

    /// Attaches a script's monitor.
    fn attach(&mut self, name: &str, script: &str) {
        let matched = self.matched(name, script);
        self.observation.attach(matched).expect("attached");
    }

    /// A script's monitor, ready to be attached.
    fn matched(&mut self, name: &str, script: &str) -> Matched {
        let mut linker = Linker::new(&self.engine);
        wasi::add_to_linker(&mut linker, |world: &mut WasiCtx| world).expect("linked");
        let switches = Switches::default();
        add_to_linker(&mut linker, &self.program, &switches).expect("linked");
        let monitor = Module::new(&self.engine, compiled(script)).expect("a monitor");
        let observer = Observer::new(&mut self.store, &linker, name, &monitor, &switches);
        let observer = observer.expect("an observer");
        let store = self.store.as_context_mut();
        self.observation.compare(store, observer, &self.program).expect("it fits")
    }

    /// How often each instruction was executed, as [`words`] has it.
    fn counts(&self) -> Vec<u32> {
        let mut words = vec![0; 1 << 14];
        for function in self.module().counts().expect("it counts").functions() {
            for instruction in function.instructions() {
                words[(function.index() << 10 | instruction.offset) as usize] =
                    instruction.count as u32;
            }
        }
        words
    }
}

#[test]
fn what_is_replaced_while_the_program_counts_is_counted_as_it_went() {
    let called = observing("", ", fid", &format!("{ADD} (global.set $last (local.get $at))"));
    let wanted_of = |program: &str, script: &str| {
        words(&mut observed(&called, script, program, true, ProbeCalls::Direct), true)
    };
    let nothing = "wasm:opcode:nop:before / false / { report var n: u32; n++; }";
    for program in [BLOCKS, JUMPS] {
        let alone = wanted_of(program, nothing);
        for (number, script) in REPLACEMENTS.iter().enumerate() {
            let next = REPLACEMENTS[(number + 1) % REPLACEMENTS.len()];
            let [first, second] = [script, next].map(|script| wanted_of(program, script));
            for when in [Counted::FromTheBeginning, Counted::BeforeReplaced, Counted::AfterReplaced]
            {
                let mut late = Late::new(program, when);
                let linker = Linker::new(&late.engine);
                let instance = linker.instantiate(&mut late.store, late.observation.module());
                let instance = instance.expect("an instance");
                let start = instance.get_func(&mut late.store, "_start").expect("exported");
                let mut wanted = vec![0; alone.len()];
                let mut run = |late: &mut Late, seen: &[u32]| {
                    start.call(&mut late.store, &[]).expect("it runs");
                    wanted.iter_mut().zip(seen).for_each(|(wanted, seen)| *wanted += seen);
                };
                if when == Counted::BeforeReplaced {
                    late.module().attach_counts().expect("attached");
                }
                if when != Counted::AfterReplaced {
                    run(&mut late, &alone);
                }
                late.attach("alt", script);
                if when == Counted::AfterReplaced {
                    late.module().attach_counts().expect("attached");
                }
                run(&mut late, &first);
                assert!(late.observation.detach("alt").expect("detached"));
                run(&mut late, &alone);
                late.attach("other", next);
                run(&mut late, &second);
                assert_eq!(differences(&late.counts(), &wanted), [], "{script}, {next}, {when:?}");
            }
        }
    }
}

#[test]
fn coverage_says_where_a_monitor_that_came_later_replaces_blocks() {
    let script = "wasm:opcode:block:alt / fname == \"block\" / { return 7; }";
    for is_first in [true, false] {
        let mut late = Late::new(BLOCKS, Counted::BeforeReplaced);
        let coverage = MonitorSet::of(late.module());
        let attach = || coverage.attach("coverage").map(drop).expect("attached");
        if is_first {
            attach();
        }
        late.attach("alt", script);
        if !is_first {
            attach();
        }
        let notes = coverage.reports(None)[0].notes.join("\n");
        let note = "attached later replaces instructions (functions: 1)";
        assert_eq!(notes.contains(note), is_first, "{notes}");
    }
}

/// A function with a loop and a branch in it; each iteration calls the host.
const LOOPS: &str = r#"(module (import "host" "tick" (func $tick)) (memory (export "memory") 1)
    (func (export "f") (param $n i32) (result i32) (local $s i32)
        (loop $again
            (call $tick)
            (block $b
                (block $a (br_table $a $b (i32.and (local.get $n) (i32.const 1))))
                (local.set $s (i32.add (local.get $s) (i32.const 1))))
            (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $s)))"#;

#[test]
fn an_activation_stays_in_its_loop_where_a_branch_of_the_function_is_replaced_meanwhile() {
    for when in [Counted::FromTheBeginning, Counted::BeforeReplaced, Counted::AfterReplaced] {
        let mut late = Late::new(LOOPS, when);
        if when == Counted::BeforeReplaced {
            late.module().attach_counts().expect("attached");
        }
        let script = "wasm:opcode:br_table:alt { drop_args(); }";
        let mut monitors = vec![late.matched("alt", script), late.matched("alt", script)];
        let observation = Arc::clone(&late.observation);
        let mut turn = 0;
        let tick = Mutex::new(move || {
            match turn {
                5 | 15 => drop(observation.attach(monitors.pop().expect("two")).expect("attached")),
                10 | 25 => assert!(observation.detach("alt").expect("detached")),
                _ => {}
            }
            turn += 1;
        });
        let mut linker = Linker::new(&late.engine);
        let tick = move || tick.lock().expect("no panic")();
        linker.func_wrap("host", "tick", tick).expect("the only one");
        let instance = linker.instantiate(&mut late.store, late.observation.module());
        let function = instance.expect("an instance").get_func(&mut late.store, "f");
        let function = function.expect("exported");
        // Attached and detached in the first call, detached in the second.
        for wanted in [10, 20, 10] {
            let result = function.call(&mut late.store, &[Val::I32(20)]).expect("it runs");
            assert_eq!(result[0].i32(), Some(wanted), "{when:?}");
        }
    }
}
