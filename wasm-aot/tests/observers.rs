//! Monitors that are modules: matched with programs, and called at their places.

#[path = "../../whamm/tests/engine/mod.rs"]
mod engine;
#[path = "observers/existing.rs"]
mod existing;
#[path = "observers/failures.rs"]
mod failures;
#[path = "observers/library.rs"]
mod library;
#[path = "observers/replaced.rs"]
mod replaced;
#[path = "modules/replaced_programs.rs"]
mod replaced_programs;
#[path = "observers/stage.rs"]
mod stage;
#[path = "observers/texts.rs"]
mod texts;

use stage::{Run, run};
use wasm_aot::Val;
use wasm_aot::observer::ProbeCalls;

const BOTH: [ProbeCalls; 2] = [ProbeCalls::Inlined, ProbeCalls::Direct];

/// Calls a program's `main` with a number under a monitor.
fn observed(monitor: &str, program: &str, arg: i32, calls: ProbeCalls) -> Run {
    let bytes = wat::parse_str(monitor).expect("it is text");
    let mut run = run(&[("monitor", &bytes)], &[], program.as_bytes(), calls)
        .unwrap_or_else(|error| panic!("{error}"));
    run.call("main", &[Val::I32(arg)]).expect("it runs");
    run
}

/// The contents of a monitor's memory `seen` after a program's `main` was called with a number, and
/// then with 0, whether or not the calls succeed.
fn seen(monitor: &str, program: &str, arg: i32, calls: ProbeCalls) -> [Vec<u8>; 2] {
    let bytes = wat::parse_str(monitor).expect("it is text");
    let mut run = run(&[("monitor", &bytes)], &[], program.as_bytes(), calls)
        .unwrap_or_else(|error| panic!("{error}"));
    [arg, 0].map(|arg| {
        let _ = run.call("main", &[Val::I32(arg)]);
        run.memory("seen")
    })
}

const FACTORIAL: &str = r#"(module
    (func $factorial (export "main") (param $n i32) (result i32)
        (if (result i32) (i32.eqz (local.get $n))
            (then (i32.const 1))
            (else (i32.mul (local.get $n) (call $factorial (i32.sub (local.get $n) (i32.const 1))))))))"#;

#[test]
fn a_probe_is_called_with_operands_locals_and_immediates() {
    let monitor = r#"(module
        (global $sum (export "sum") (mut i32) (i32.const 0))
        (global $calls (export "calls") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:call (arg0, local0, imm0, fid)") (param i32 i32 i32 i32)
            (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
            (if (i32.ne (i32.add (local.get 0) (i32.const 1)) (local.get 1)) (then (unreachable)))
            (if (local.get 2) (then (unreachable)))
            (global.set $sum (i32.add (global.get $sum) (local.get 0)))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 5, calls);
        assert_eq!((run.global("calls"), run.global("sum")), (5, 4 + 3 + 2 + 1));
    }
}

#[test]
fn a_predicate_and_other_questions_are_asked_once_for_each_site() {
    let monitor = r#"(module
        (memory (export "whamm_buffer") 1) (global (export "whamm_buffer:start") i32 (i32.const 64))
        (global (export "whamm_buffer:max") i32 (i32.const 4))
        (global $asked (export "asked") (mut i32) (i32.const 0)) (global $seen (export "seen") (mut i32) (i32.const 0))
        (func (export "$named") (param $at i32) (param $len i32) (param $pc i32) (result i32)
            (global.set $asked (i32.add (global.get $asked) (i32.const 1)))
            ;; "fact", as far as there is room
            (i32.and (i32.eq (local.get $len) (i32.const 4)) (i32.eq (i32.load (local.get $at)) (i32.const 0x74636166))))
        (func (export "$double") (param $pc i32) (result i64) (i64.extend_i32_u (i32.mul (local.get $pc) (i32.const 2))))
        (func (export "wasm:opcode:i32.const / $named(fname, pc) / ($double(pc), pc, )") (param i64 i32)
            (if (i64.ne (local.get 0) (i64.extend_i32_u (i32.mul (local.get 1) (i32.const 2)))) (then (unreachable)))
            (global.set $seen (i32.add (global.get $seen) (i32.const 1)))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 3, calls);
        assert_eq!((run.global("asked"), run.global("seen")), (2, 4));
        assert_eq!(run.observation.matches(), [("monitor".to_owned(), 2)]);
    }
}

#[test]
fn functions_that_are_called_while_matching_are_called_from_left_to_right() {
    let monitor = r#"(module (global $calls (mut i32) (i32.const 0))
        (global $sum (export "sum") (mut i32) (i32.const 0))
        (func $next (export "$a") (export "$b") (export "$c") (result i32)
            (global.set $calls (i32.add (global.get $calls) (i32.const 1))) (global.get $calls))
        (func (export "wasm:opcode:i32.mul ($a(), arg0, $b(), $c())") (param i32 i32 i32 i32)
            (global.set $sum (i32.add (local.get 3) (i32.mul (i32.const 10)
                (i32.add (local.get 2) (i32.mul (i32.const 10) (local.get 0))))))))"#;
    for calls in BOTH {
        assert_eq!(observed(monitor, FACTORIAL, 1, calls).global("sum"), 123);
    }
}

#[test]
fn loops_branches_and_locals_of_a_probe_are_written_out() {
    let monitor = r#"(module
        (memory 1) (global $sum (export "sum") (mut i64) (i64.const 0))
        (func $add (param i64) (global.set $sum (i64.add (global.get $sum) (local.get 0))))
        (func (export "wasm:opcode:i32.mul (arg1)") (param $n i32) (local $i i32)
            (block $done
                (loop $again
                    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (call $add (i64.extend_i32_u (local.get $i)))
                    (if (i32.eq (local.get $i) (i32.const 100)) (then (return)))
                    (br $again)))
            (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (local.get $i)))
            (if (i32.eq (i32.load (i32.const 8)) (i32.const 10)) (then (call $add (i64.const 1000))))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 4, calls);
        assert_eq!(run.global("sum"), 1 + 3 + 6 + 10 + 1000);
    }
}

#[test]
fn a_monitor_with_the_marker_sees_results_and_has_variables_of_activations() {
    let monitor = r#"(module
        (import "wasm-aot:ext" "v1" (func)) (import "wasm-aot:ext" "frame_get_i32" (func $get (param i32) (result i32)))
        (import "wasm-aot:ext" "frame_set_i32" (func $set (param i32 i32)))
        (global $results (export "results") (mut i32) (i32.const 0)) (global $deep (export "deep") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:call:after (res0, arg0)") (param i32 i32)
            (global.set $results (i32.add (global.get $results) (i32.mul (local.get 0) (local.get 1)))))
        (func (export "wasm:opcode:local.get") (call $set (i32.const 0) (i32.add (call $get (i32.const 0)) (i32.const 1))))
        (func (export "wasm:func:exit") (global.set $deep (i32.add (global.get $deep) (call $get (i32.const 0))))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 3, calls);
        // Results are 2, 1 and 1, of the arguments 2, 1 and 0; three activations execute three
        // instructions, and one a single one.
        assert_eq!((run.global("results"), run.global("deep")), (2 * 2 + 1, 3 * 3 + 1));
    }
}

#[test]
fn a_probe_that_takes_itself_away_is_called_once_at_each_site() {
    let monitor = r#"(module
        (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
        (global $seen (export "seen") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:* (probe_id)") (param i32)
            (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
            (call $remove (local.get 0))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 6, calls);
        let instructions = 13;
        assert_eq!(run.global("seen"), instructions);
    }
}

#[test]
fn a_probe_that_another_one_of_its_place_takes_away_is_still_called_in_that_event() {
    // Two probes at each site, with the numbers 2n and 2n + 1: the first removes the second.
    let monitor = r#"(module
        (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
        (global $seen (export "seen") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:nop (probe_id)") (param i32) (call $remove (i32.add (local.get 0) (i32.const 1))))
        (func (export "wasm:opcode:nop (pc)") (param i32) (global.set $seen (i32.add (global.get $seen) (i32.const 1)))))"#;
    let program = r#"(module (func (export "main") (param i32) (result i32)
        (loop $l (nop) (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $l (local.get 0))) (local.get 0)))"#;
    for calls in BOTH {
        let mut run = observed(monitor, program, 5, calls);
        assert_eq!(run.global("seen"), 1);
    }
}

#[test]
fn an_inserted_probe_that_an_export_of_its_place_takes_away_is_still_called_in_that_event() {
    // The export's function inserts the probe in the first event, and takes it away in a later one.
    let monitor = r#"(module
        (import "whamm:dyninstr" "insert_new_probe" (func $insert (param i32 i32 funcref) (result i32)))
        (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
        (global $events (mut i32) (i32.const 0)) (global $id (mut i32) (i32.const 0))
        (global $seen (export "seen") (mut i32) (i32.const 0)) (elem declare func $count)
        (func $count (global.set $seen (i32.add (global.get $seen) (i32.const 1))))
        (func (export "wasm:opcode:nop (fid, pc)") (param i32 i32)
            (global.set $events (i32.add (global.get $events) (i32.const 1)))
            (if (i32.eq (global.get $events) (i32.const 1)) (then
                (global.set $id (call $insert (local.get 0) (local.get 1) (ref.func $count)))))
            (if (i32.eq (global.get $events) (i32.const 4)) (then (call $remove (global.get $id))))))"#;
    let program = r#"(module (func (export "main") (param i32) (result i32)
        (loop $l (nop) (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $l (local.get 0))) (local.get 0)))"#;
    for calls in BOTH {
        let mut run = observed(monitor, program, 9, calls);
        // In the events 2 to 4.
        assert_eq!(run.global("seen"), 3);
        run.call("main", &[Val::I32(9)]).expect("it runs");
        assert_eq!(run.global("seen"), 3);
    }
}

#[test]
fn memories_and_their_alignment_are_told_to_modules_without_the_marker() {
    let monitor = |marker: &str, alloc: &str| {
        format!(
            r#"(module {marker} (global $seen (export "seen") (mut i32) (i32.const 0))
            (func {alloc} (export "$20") (param i32) (result i32) (i32.const 0))
            (func (export "wasm:opcode:i32.load (memory, align)") (param i32 i32)
                (global.set $seen (i32.add (i32.mul (local.get 0) (i32.const 10)) (local.get 1)))))"#
        )
    };
    let program = r#"(module (memory 1) (memory $second 1)
        (func (export "main") (param i32) (result i32) (i32.load $second (local.get 0))))"#;
    // Scripts of the existing compiler get the exponent, all others bytes.
    for (marker, alloc, told) in [
        ("", "", 14),
        (r#"(import "wasm-aot:ext" "v1" (func))"#, "", 14),
        ("", "$__whamm_alloc", 12),
    ] {
        let mut run = observed(&monitor(marker, alloc), program, 8, ProbeCalls::Inlined);
        assert_eq!(run.global("seen"), told, "{marker} {alloc}");
    }
}

#[test]
fn a_monitor_reads_what_the_program_is_like() {
    // Function numbers count all functions, imported ones first; an imported function has no
    // definition.
    let asked = [
        "(call $functions)",
        "(call $import (i32.const 3) (i32.const 0))",
        "(call $import (i32.const 3) (i32.const 1))",
        "(call $name (i32.const 100) (i32.const 16))",
        "(call $path (i32.const 200) (i32.const 16))",
        "(call $def (i32.const 0) (i32.const 300) (i32.const 16))",
        "(call $def (i32.const 1) (i32.const 300) (i32.const 16))",
        "(call $body (i32.const 0) (i32.const 400) (i32.const 64))",
        "(call $body (i32.const 1) (i32.const 400) (i32.const 64))",
        "(call $fname (i32.const 1) (i32.const 500) (i32.const 64))",
        "(call $section (i32.const 3) (i32.const 600) (i32.const 64) (i32.const 0))",
        "(call $short (i32.const 3) (i32.const 700) (i32.const 64))",
        "(call $short (i32.const 10) (i32.const 800) (i32.const 64))",
        "(call $short (i32.const 8) (i32.const 900) (i32.const 64))",
    ];
    let stores: String = asked
        .iter()
        .enumerate()
        .map(|(at, asked)| format!("(i32.store (i32.const {}) {asked})", 4 * at))
        .collect();
    let monitor = |body: &str| {
        format!(
            r#"(module
                (import "whamm:reflect" "get_num_functions" (func $functions (result i32)))
                (import "whamm:reflect" "get_import_index" (func $import (param i32 i32) (result i32)))
                (import "whamm:reflect" "read_module_name" (func $name (param i32 i32) (result i32)))
                (import "whamm:reflect" "read_module_path" (func $path (param i32 i32) (result i32)))
                (import "whamm:reflect" "read_function_def" (func $def (param i32 i32 i32) (result i32)))
                (import "whamm:reflect" "read_function_body" (func $body (param i32 i32 i32) (result i32)))
                (import "whamm:reflect" "read_function_name" (func $fname (param i32 i32 i32) (result i32)))
                (import "whamm:reflect" "read_section" (func $section (param i32 i32 i32 i32) (result i32)))
                (import "whamm:reflect" "read_section" (func $short (param i32 i32 i32) (result i32)))
                (memory (export "seen") 1)
                (func (export "wasm:exit") {body}))"#
        )
    };
    let program = r#"(module $prog (import "env" "log" (func (param i32))) (func $main (export "main") (param i32) nop))"#;
    let mut run = observed(&monitor(&stores), program, 0, ProbeCalls::Inlined);
    run.report();
    let memory = run.memory("seen");
    let numbers: Vec<i32> = memory[..4 * asked.len()]
        .chunks(4)
        .map(|word| i32::from_le_bytes(word.try_into().expect("four")))
        .collect();
    assert_eq!(numbers, [2, 0, -1, 4, 0, 0, 1, 0, 3, 4, 2, 2, 5, 0]);
    assert_eq!((&memory[600..602], &memory[700..702]), (&[1, 0][..], &[1, 0][..]));
    assert_eq!(memory[800..805], [1, 3, 0, 1, 0x0b]);
    assert_eq!(
        (&memory[100..104], &memory[400..403], &memory[500..504]),
        (&b"prog"[..], &[0, 1, 0x0b][..], &b"main"[..])
    );
}

/// The functions of the published interface, with their types.
const REFLECTION: &str = "get_module_size get_num_types get_num_imports get_num_functions get_num_tables \
    get_num_memories get_num_globals get_num_tags get_num_exports get_num_elements get_num_data \
    get_num_custom_sections -> i32; is_imported get_import_index read_module_path read_module_name \
    read_module_def i32 i32 -> i32; read_type_def read_import_def read_function_def read_function_name \
    read_function_body read_table_def read_memory_def read_global_def read_tag_def read_export_def \
    read_element_def read_data_def read_custom_section i32 i32 i32 -> i32; read_section i32 i32 i32 i32 -> i32";

#[test]
fn all_of_the_published_interface_for_reflection_is_there() {
    let mut imports = String::new();
    for group in REFLECTION.split(';') {
        let (words, _) = group.split_once("->").expect("a result");
        let (params, names): (Vec<_>, Vec<_>) =
            words.split_whitespace().partition(|word| *word == "i32");
        let params = params.join(" ");
        for name in names {
            imports += &format!(
                "(import \"whamm:reflect\" \"{name}\" (func (param {params}) (result i32)))\n"
            );
        }
    }
    assert_eq!(imports.lines().count(), 31);
    let monitor =
        format!(r#"(module {imports} (memory (export "memory") 1) (func (export "wasm:exit")))"#);
    observed(&monitor, FACTORIAL, 0, ProbeCalls::Inlined).report();
}

#[test]
fn a_monitor_has_the_engine_call_its_functions() {
    let monitor = r#"(module
        (import "wizeng" "invoke0" (func $invoke (param funcref)))
        (import "wizeng" "tail_invoke0" (func $tail (param funcref)))
        (global $seen (export "seen") (mut i32) (i32.const 0)) (elem declare func $one)
        (func $one (global.set $seen (i32.add (global.get $seen) (i32.const 1))))
        (func (export "wasm:opcode:i32.mul") (call $invoke (ref.func $one)) (call $tail (ref.func $one))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 4, calls);
        assert_eq!(run.global("seen"), 8);
    }
}

#[test]
fn a_monitor_that_only_adds_sees_all_threads_and_others_are_refused_by_name() {
    use wasm_aot::observer::{Observation, Observer, Program, Switches, add_to_linker};
    use wasm_aot::{Engine, Linker, Module, Store};
    let engine = Engine::default();
    let observed = |monitor: &str| {
        let mut store = Store::new(&engine, ());
        let program = Program::new(&engine, FACTORIAL.as_bytes()).expect("a program");
        let (mut linker, switches) = (Linker::new(&engine), Switches::default());
        add_to_linker(&mut linker, &program, &switches).expect("linked");
        let module = Module::new(&engine, monitor).expect("a monitor");
        let observer =
            Observer::new(&mut store, &linker, "threaded", &module, &switches).expect("understood");
        let instance = observer.instance();
        let observation =
            Observation::new(&mut store, vec![observer], &program, ProbeCalls::Inlined, None)
                .expect("matched");
        (store, observation, instance)
    };
    let run = |module: &Module, arg: i32| {
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, module)?;
        instance.get_func(&mut store, "main").expect("exported").call(&mut store, &[Val::I32(arg)])
    };
    let adding = r#"(module (global $n (export "n") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:i32.mul") (global.set $n (i64.add (global.get $n) (i64.const 1)))))"#;
    let (mut store, observation, instance) = observed(adding);
    std::thread::scope(|scope| {
        for arg in 1..=4 {
            let module = observation.module();
            scope.spawn(move || run(module, arg).map(drop).expect("it runs"));
        }
    });
    observation.settle(&mut store);
    let sum = instance
        .get_global(&mut store, "n")
        .expect("exported")
        .get(&mut store)
        .expect("of this store");
    assert!(matches!(sum, Val::I64(10)), "{sum:?}");
    let looking = adding
        .replace("(global.set", "(if (i64.lt_u (global.get $n) (i64.const 5)) (then (global.set")
        .replace("(i64.const 1))))", "(i64.const 1))))))");
    let (_store, observation, _) = observed(&looking);
    let error = run(observation.module(), 3).expect_err("refused").to_string();
    assert!(
        error.contains("monitor threaded: it does more than add")
            && error.contains("cannot be merged"),
        "{error}"
    );
}

const ALT: &str = r#"(module
    (import "wasm-aot:ext" "v1" (func)) (global $n (export "n") (mut i32) (i32.const 0))
    (func (export "wasm:opcode:i32.mul:alt (arg0, arg1)") (param i32 i32) (result i32)
        (global.set $n (i32.add (global.get $n) (i32.const 1)))
        (i32.add (local.get 0) (local.get 1)))
    (func (export "wasm:opcode:i32.mul:after (res0, arg0)") (param i32 i32)
        (if (i32.lt_s (local.get 0) (local.get 1)) (then (unreachable)))))"#;

#[test]
fn a_function_stands_in_place_of_an_instruction_and_gives_its_results() {
    for calls in BOTH {
        let bytes = wat::parse_str(ALT).expect("it is text");
        let mut run =
            run(&[("monitor", &bytes)], &[], FACTORIAL.as_bytes(), calls).expect("it matches");
        // One, and all numbers up to four.
        assert_eq!(run.call("main", &[Val::I32(4)]).expect("it runs")[0].i32(), Some(11));
        assert_eq!(run.global("n"), 4);
    }
    // Calls, instructions without results, and instructions with an effect.
    let program = r#"(module (memory (export "memory") 1) (global $g (mut i32) (i32.const 5))
        (func $twice (param i32 i64) (result i32) (i32.mul (local.get 0) (i32.const 2)))
        (func (export "main") (param i32) (result i32)
            (i32.store (i32.const 0) (local.get 0)) (global.set $g (i32.const 9))
            (local.set 0 (call $twice (local.get 0) (i64.const 1)))
            (i32.add (i32.mul (global.get $g) (i32.const 100)) (i32.add (local.get 0) (i32.load (i32.const 0))))))"#;
    let monitor = r#"(module (import "wasm-aot:ext" "v1" (func))
        (func (export "wasm:opcode:call:alt (local0)") (param i32) (result i32) (i32.const 40))
        (func (export "wasm:opcode:global.set:alt")) (func (export "wasm:opcode:i32.store:alt")))"#;
    for calls in BOTH {
        let bytes = wat::parse_str(monitor).expect("it is text");
        let mut run =
            run(&[("monitor", &bytes)], &[], program.as_bytes(), calls).expect("it matches");
        assert_eq!(run.call("main", &[Val::I32(3)]).expect("it runs")[0].i32(), Some(540));
    }
}

#[test]
fn an_instruction_is_executed_again_when_what_stands_in_its_place_is_gone() {
    let monitor = ALT.replace(
        r#"(import "wasm-aot:ext" "v1" (func))"#,
        r#"(import "wasm-aot:ext" "v1" (func)) (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))"#,
    );
    let monitor = monitor
        .replace("i32.mul:alt (arg0, arg1)", "i32.mul:alt (arg0, arg1, probe_id)")
        .replace("(param i32 i32) (result i32)", "(param i32 i32 i32) (result i32)")
        .replace(
            "(i32.add (local.get 0) (local.get 1))",
            "(call $remove (local.get 2)) (i32.add (local.get 0) (local.get 1))",
        );
    for calls in BOTH {
        let bytes = wat::parse_str(&monitor).expect("it is text");
        let mut run =
            run(&[("monitor", &bytes)], &[], FACTORIAL.as_bytes(), calls).expect("it matches");
        // The innermost multiplication only: 1 + 1, times 2, 3 and 4.
        assert_eq!(run.call("main", &[Val::I32(4)]).expect("it runs")[0].i32(), Some(48));
        assert_eq!(run.call("main", &[Val::I32(4)]).expect("it runs")[0].i32(), Some(24));
    }
}

#[test]
fn two_functions_in_place_of_one_instruction_are_a_conflict_that_is_named() {
    let bytes = wat::parse_str(ALT).expect("it is text");
    let error = match run(
        &[("one", &bytes), ("other", &bytes)],
        &[],
        FACTORIAL.as_bytes(),
        ProbeCalls::Inlined,
    ) {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.starts_with(
            "monitor other: wasm:opcode:i32.mul:alt (arg0, arg1): at function 0 (factorial), offset"
        ),
        "{error}"
    );
    assert!(
        error.contains("wasm:opcode:i32.mul:alt (arg0, arg1) of one stands in place"),
        "{error}"
    );
}

/// A monitor that inserts probes: its imports and declarations, followed by `more`.
fn inserting(more: &str) -> String {
    format!(
        r#"(module
            (import "wasm-aot:ext" "v1" (func))
            (import "whamm:dyninstr" "insert_new_probe" (func $insert (param i32 i32 funcref) (result i32)))
            (import "wasm-aot:ext" "insert_probe" (func $insert_with (param i32 i32 funcref i32 i32) (result i32)))
            (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "(arg0, local0, pc, probe_id)") (data (i32.const 32) "(arg0, argh)") (data (i32.const 64) "(arg7)")
            (global $seen (export "seen") (mut i32) (i32.const 0)) (global $sum (export "sum") (mut i32) (i32.const 0))
            (global $id (export "id") (mut i32) (i32.const 0)) (global $done (mut i32) (i32.const 0))
            (elem declare func $count $add $two $gives)
            (func $count (global.set $seen (i32.add (global.get $seen) (i32.const 1))))
            (func $two (param i32 i32)) (func $gives (result i32) (i32.const 0))
            (func $add (param $arg i32) (param $local i32) (param $pc i32) (param $id i32)
                (call $count)
                (if (i32.or (i32.ne (local.get $pc) (i32.const 18)) (i32.ne (local.get $id) (global.get $id))) (then (unreachable)))
                (global.set $sum (i32.add (global.get $sum) (i32.mul (local.get $arg) (local.get $local)))))
            {more})"#
    )
}

#[test]
fn probes_are_inserted_from_inside_of_probes_with_and_without_parameters() {
    let plain = inserting(
        r#"(func (export "wasm:func:entry (fid)") (param i32)
            (if (i32.eqz (global.get $done)) (then
                (global.set $done (i32.const 1))
                (global.set $id (call $insert (local.get 0) (i32.const 18) (ref.func $count))))))
        (func (export "wasm:exit") (call $remove (global.get $id)))"#,
    );
    let given = plain.replace(
        "(call $insert (local.get 0) (i32.const 18) (ref.func $count))",
        "(call $insert_with (local.get 0) (i32.const 18) (ref.func $add) (i32.const 0) (i32.const 28))",
    );
    for calls in BOTH {
        let mut run = observed(&plain, FACTORIAL, 4, calls);
        // The activation that was being entered continues in its old code.
        assert_eq!(run.global("seen"), 3);
        run.call("main", &[Val::I32(4)]).expect("it runs");
        assert_eq!(run.global("seen"), 3 + 4);
        run.report();
        run.call("main", &[Val::I32(4)]).expect("it runs");
        assert_eq!(run.global("seen"), 3 + 4);
        let mut run = observed(&given, FACTORIAL, 1, calls);
        run.call("main", &[Val::I32(4)]).expect("it runs");
        // The factorials below, times the numbers themselves.
        assert_eq!((run.global("seen"), run.global("sum")), (4, 24 + 6 + 2 + 1));
    }
}

#[test]
fn probes_are_inserted_before_the_program_runs_and_take_themselves_away() {
    let monitor = inserting(
        r#"(func $once (call $count) (call $remove (global.get $id))) (elem declare func $once)
        (func $begin
            (drop (call $insert (i32.const 0) (i32.const 0) (ref.func $count)))
            (drop (call $insert (i32.const 0) (i32.const 16) (ref.func $count)))
            (global.set $id (call $insert (i32.const 0) (i32.const 18) (ref.func $once))))
        (start $begin)"#,
    );
    for calls in BOTH {
        let mut run = observed(&monitor, FACTORIAL, 3, calls);
        // Four activations, three calls, and one of the multiplications.
        assert_eq!(run.global("seen"), 4 + 3 + 1);
        assert_eq!(run.observation.matches(), [("monitor".to_owned(), 3)]);
    }
}

#[test]
fn what_cannot_be_inserted_is_told_by_a_number() {
    for (call, code) in [
        ("$insert (i32.const 7) (i32.const 1) (ref.func $count)", -1),
        ("$insert (i32.const 0) (i32.const 1) (ref.func $count)", -2),
        ("$insert (i32.const 1) (i32.const 2) (ref.func $count)", -3),
        ("$insert (i32.const 1) (i32.const 1) (ref.func $two)", -4),
        ("$insert (i32.const 1) (i32.const 1) (ref.func $gives)", -5),
        ("$insert (i32.const 1) (i32.const 1) (ref.null func)", -6),
        ("$insert (i32.const 1) (i32.const 1) (ref.func $remove)", -7),
        (
            "$insert_with (i32.const 1) (i32.const 1) (ref.func $two) (i32.const 32) (i32.const 12)",
            -8,
        ),
        (
            "$insert_with (i32.const 1) (i32.const 18) (ref.func $gives) (i32.const 64) (i32.const 6)",
            -8,
        ),
    ] {
        let monitor = inserting(&format!(
            r#"(elem declare func $remove) (func (export "wasm:func:entry") (global.set $id (call {call})))"#
        ));
        let program =
            FACTORIAL.replace("(module", r#"(module (import "env" "log" (func (param i32)))"#);
        let mut run = observed(&monitor, &program, 0, ProbeCalls::Inlined);
        assert_eq!(run.global("id"), code, "{call}");
    }
}

#[test]
fn what_is_only_added_up_is_right_whenever_somebody_looks() {
    let monitor = r#"(module (memory 1)
        (global $n (export "n") (mut i64) (i64.const 100)) (global $m (export "m") (mut i32) (i32.const 0))
        (func (export "$at") (param $pc i32) (result i32) (i32.mul (local.get $pc) (i32.const 8)))
        (func (export "wasm:opcode:local.get ($at(pc))") (param i32)
            (i64.store offset=16 (local.get 0) (i64.add (i64.load offset=16 (local.get 0)) (i64.const 1)))
            (global.set $m (i32.sub (global.get $m) (i32.const 2))))
        (func (export "wasm:func:entry") (global.set $n (i64.add (global.get $n) (i64.const 3))))
        (func (export "wasm:exit") (global.set $n (i64.add (global.get $n)
            (i64.mul (i64.const 1000) (i64.load (i32.const 24)))))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, FACTORIAL, 4, calls);
        assert_eq!((run.global("n"), run.global("m")), (100 + 5 * 3, -2 * (5 + 2 * 4)));
        run.call("main", &[Val::I32(0)]).expect("it runs");
        assert_eq!((run.global("n"), run.global("m")), (100 + 6 * 3, -2 * (6 + 2 * 4)));
        run.report();
        // The first instruction of the function, at 1, was executed by each activation.
        assert_eq!(run.global("n"), 100 + 6 * 3 + 6000);
    }
}

/// Programs that leave blocks in their middle, and enter them in every way.
const LEAVING: [&str; 4] = [
    // A division by zero after other instructions, two calls down.
    r#"(module
        (func $deep (param i32) (result i32)
            (if (result i32) (i32.gt_s (local.get 0) (i32.const 5))
                (then (i32.add (i32.const 1) (i32.div_s (i32.const 7) (i32.sub (local.get 0) (local.get 0)))))
                (else (i32.const 3))))
        (func $not_called (nop))
        (func (export "main") (param i32) (result i32)
            (loop $again
                (drop (call $deep (local.get 0)))
                (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get 0)))"#,
    // Blocks without fall-through into them or out of them.
    r#"(module (func (export "main") (param i32) (result i32)
        (block $out
            (block $never (br $out) (nop))
            (nop))
        (loop $round
            (if (i32.eqz (local.get 0)) (then (return (i32.const 1))) (else (nop)))
            (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
            (br $round))
        (unreachable)))"#,
    // Endless recursion.
    r#"(module (func $down (param i32) (call $down (i32.add (local.get 0) (i32.const 1))) (nop))
        (func (export "main") (param i32) (result i32) (call $down (i32.const 0)) (i32.const 1)))"#,
    // An exception that is caught by a caller, or not at all.
    r#"(module (tag $e)
        (func $throws (param i32) (nop) (if (local.get 0) (then (throw $e))) (nop))
        (func (export "main") (param i32) (result i32)
            (block $caught (try_table (catch $e $caught) (nop) (call $throws (i32.const 0)) (call $throws (local.get 0)) (nop)))
            (call $throws (local.get 0))
            (i32.const 4)))"#,
];

#[test]
fn what_takes_itself_away_follows_from_where_the_program_has_been() {
    // For each place one cell that is set, and one that is incremented up to one.
    let monitor = r#"(module
        (import "whamm:dyninstr" "remove_probe" (func $remove (param i32))) (memory (export "seen") 2)
        (func (export "$at") (param $fid i32) (param $pc i32) (result i32)
            (i32.shl (i32.add (i32.mul (local.get $fid) (i32.const 128)) (local.get $pc)) (i32.const 3)))
        (func $note (param $at i32) (param $id i32)
            (i32.store (local.get $at) (i32.const 7))
            (call $remove (local.get $id))
            (i32.store offset=4 (local.get $at) (i32.add (i32.const 1) (i32.load offset=4 (local.get $at)))))
        (export "wasm:opcode:* ($at(fid, pc), probe_id)" (func $note)))"#;
    for program in LEAVING.into_iter().chain([FACTORIAL, WAYS]) {
        let [noted, called] = BOTH.map(|calls| seen(monitor, program, 9, calls));
        assert!(noted[0].contains(&7), "{program}");
        let differences = |run: usize| {
            let both = noted[run]
                .chunks(8)
                .zip(called[run].chunks(8))
                .enumerate()
                .filter(|(_, (a, b))| a != b);
            both.map(|(at, (a, b))| format!("function {} +{}: {a:?}, {b:?}", at / 128, at % 128))
                .collect::<Vec<_>>()
        };
        assert_eq!([differences(0), differences(1)], [[""; 0]; 2], "{program}");
    }
}

#[test]
fn what_is_set_to_different_things_depends_on_the_order() {
    let last = r#"(module (global $last (export "last") (mut i32) (i32.const -1))
        (func (export "wasm:opcode:* (pc)") (param i32) (global.set $last (local.get 0))))"#;
    let ever = r#"(module (global $ever (export "ever") (mut i32) (i32.const 0)) (global $calls (export "calls") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:call") (global.set $ever (i32.const 1)))
        (func (export "wasm:func:entry") (global.set $calls (i64.add (global.get $calls) (i64.const 1)))))"#;
    for calls in BOTH {
        let mut run = observed(last, FACTORIAL, 3, calls);
        assert!(run.observation.module().counts().is_none());
        assert!(run.global("last") > 0);
        let mut run = observed(ever, FACTORIAL, 3, calls);
        assert_eq!(run.observation.module().counts().is_some(), calls == ProbeCalls::Inlined);
        assert_eq!((run.global("ever"), run.global("calls")), (1, 4));
    }
}

#[test]
fn what_follows_is_exact_in_the_middle_of_the_program() {
    // Three instructions and a call, two turns of four instructions and a call in between, and the
    // rest.
    let program = r#"(module (import "env" "log" (func $log (param i32)))
        (func $deep (param i32) (nop) (call $log (local.get 0)) (nop))
        (func (export "main") (param i32) (result i32)
            (nop)
            (loop $again (call $deep (local.get 0)) (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (call $log (i32.const 0))
            (local.get 0)))"#;
    let counts = r#"(module (global $seen (export "seen") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:*") (global.set $seen (i64.add (global.get $seen) (i64.const 1)))))"#;
    let once = r#"(module (import "whamm:dyninstr" "remove_probe" (func $remove (param i32)))
        (global $seen (export "seen") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:* (probe_id)") (param i32)
            (global.set $seen (i64.add (global.get $seen) (i64.const 1))) (call $remove (local.get 0))))"#;
    for (monitor, toggled) in [(counts, false), (counts, true), (once, false)] {
        let told = BOTH.map(|calls| {
            let bytes = wat::parse_str(monitor).expect("it is text");
            let toggle =
                |observer: &mut wasm_aot::observer::Observer| observer.set_toggled(toggled);
            let run = stage::run_with(&[("m", &bytes)], &[], program.as_bytes(), calls, toggle);
            let mut run = run.unwrap_or_else(|error| panic!("{error}"));
            run.call("main", &[Val::I32(3)]).expect("it runs");
            let told = run.told.lock().expect("no panic").clone();
            (told, run.global("seen"))
        });
        assert_eq!(told[0], told[1], "toggled: {toggled}");
        assert_eq!(told[0].0.len(), 4);
    }
}

#[test]
fn who_looks_at_few_places_of_a_program_is_called_rather_than_have_all_of_it_counted() {
    let few = r#"(module (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:func:entry") (global.set $n (i32.add (global.get $n) (i32.const 1)))))"#;
    let many = r#"(module (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:*") (global.set $n (i32.add (global.get $n) (i32.const 1)))))"#;
    let seen = |monitors: &[&str], alone: bool| {
        let bytes: Vec<Vec<u8>> =
            monitors.iter().map(|text| wat::parse_str(text).expect("it is text")).collect();
        let named: Vec<(&str, &[u8])> = bytes.iter().map(|bytes| ("m", &bytes[..])).collect();
        let ready = |observer: &mut wasm_aot::observer::Observer| {
            if alone {
                observer.set_alone();
            }
        };
        let run = stage::run_with(&named, &[], WAYS.as_bytes(), ProbeCalls::Inlined, ready);
        let mut run = run.unwrap_or_else(|error| panic!("{error}"));
        run.call("main", &[Val::I32(9)]).expect("it runs");
        (run.observation.module().counts().is_some(), run.global("n"))
    };
    assert_eq!(seen(&[few], true), (false, 1));
    // Another embedder may instantiate the program, or have it counted already.
    assert_eq!(seen(&[few], false), (true, 1));
    assert_eq!(seen(&[few, many], true), (true, 1));
    assert_eq!(seen(&[many], true), seen(&[many], false));
}

/// Executes a condition, a branch and a table with each number from the argument down to 0; in the
/// table, 0 and 2 are entries, and 3 and above are the default.
const WAYS: &str = r#"(module
    (func (export "main") (param $n i32) (result i32) (local $odd i32)
        (loop $again
            (block $rest (block $even (block $one
                (br_table $even $one $even $rest (local.get $n)))
                (nop))
                (nop))
            (if (i32.and (local.get $n) (i32.const 1)) (then (local.set $odd (i32.add (local.get $odd) (i32.const 1)))))
            (br_if $again (i32.ge_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0))))
        (local.get $odd)))"#;

#[test]
fn what_is_added_by_the_way_that_a_branch_goes_follows_from_how_often_it_went_there() {
    let monitor = r#"(module (memory 1)
        (global $taken (export "taken") (mut i32) (i32.const 0)) (global $passed (export "passed") (mut i64) (i64.const 0))
        (global $told (export "told") (mut i64) (i64.const 0))
        (func (export "wasm:opcode:br_if (arg0)") (param i32)
            (if (i32.ne (local.get 0) (i32.const 0))
                (then (global.set $taken (i32.add (global.get $taken) (i32.const 1))))
                (else (global.set $passed (i64.add (global.get $passed) (i64.const 100))))))
        (func (export "wasm:opcode:if (arg0)") (param i32) (local i32)
            (local.set 1 (select (i32.const 8) (i32.const 16) (i32.eqz (local.get 0))))
            (i32.store (local.get 1) (i32.add (i32.load (local.get 1)) (i32.const 1))))
        (func (export "wasm:opcode:br_table (arg0, num_targets)") (param i32 i32) (local $at i32)
            (select (local.get 0) (local.get 1) (i32.lt_u (local.get 0) (local.get 1)))
            (local.tee $at (i32.shl (i32.const 3)))
            (i64.store offset=64 (i64.add (i64.load offset=64 (local.get $at)) (i64.const 1))))
        (func $digit (param $at i32) (global.set $told
            (i64.add (i64.mul (global.get $told) (i64.const 100)) (i64.load (local.get $at)))))
        (func (export "wasm:exit")
            (global.set $told (i64.const 0))
            (call $digit (i32.const 8)) (call $digit (i32.const 16))
            (call $digit (i32.const 64)) (call $digit (i32.const 72)) (call $digit (i32.const 80)) (call $digit (i32.const 88))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, WAYS, 9, calls);
        assert_eq!(
            run.observation.module().counts().is_some(),
            calls == ProbeCalls::Inlined,
            "nobody needs to be called"
        );
        assert_eq!((run.global("taken"), run.global("passed")), (9, 100));
        run.report();
        assert_eq!(
            run.global("told"),
            5_05_01_01_01_07,
            "even, odd; by the table 0, 1, 2, and the rest"
        );
        run.call("main", &[Val::I32(0)]).expect("it runs");
        run.report();
        assert_eq!(run.global("told"), 6_05_02_01_01_07);
    }
}

#[test]
fn a_function_of_which_an_operand_tells_more_than_the_way_is_called() {
    let monitor = r#"(module (global $n (export "n") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:if (arg0)") (param i32) (global.set $n (i32.add (global.get $n) (local.get 0))))
        (func (export "wasm:opcode:br_table (arg0)") (param i32)
            (if (i32.lt_u (local.get 0) (i32.const 5)) (then (global.set $n (i32.add (global.get $n) (i32.const 100)))))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, WAYS, 9, calls);
        assert!(run.observation.module().counts().is_none());
        assert_eq!(run.global("n"), 5 + 500);
    }
}

#[test]
fn calls_through_tables_are_seen_with_where_they_go() {
    let monitor = r#"(module
        (import "wasm-aot:ext" "v1" (func)) (global $sum (export "sum") (mut i32) (i32.const 0))
        (func (export "wasm:opcode:call_indirect (resolved_fid)") (param i32)
            (global.set $sum (i32.add (i32.mul (global.get $sum) (i32.const 10)) (local.get 0)))))"#;
    let program = r#"(module (table 4 funcref) (elem (i32.const 1) $one $two)
        (func $one (result i32) (i32.const 1)) (func $two (result i32) (i32.const 2))
        (func (export "main") (param i32) (result i32) (call_indirect (result i32) (local.get 0))))"#;
    for calls in BOTH {
        let mut run = observed(monitor, program, 2, calls);
        run.call("main", &[Val::I32(1)]).expect("it runs");
        assert_eq!(run.global("sum"), 10);
        run.call("main", &[Val::I32(7)]).expect_err("a trap of the program's");
        assert_eq!(run.global("sum"), 100 - 1);
    }
}

#[test]
fn a_trap_in_a_monitor_is_told_from_one_in_the_program() {
    let program = r#"(module (memory 1)
        (func (export "main") (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0))))"#;
    let monitor = wat::parse_str(
        r#"(module (func (export "wasm:opcode:i32.div_s (arg0)") (param i32)
            (if (i32.eq (local.get 0) (i32.const 7)) (then (unreachable)))))"#,
    )
    .expect("it is text");
    for calls in BOTH {
        let mut run = run(&[("m", &monitor)], &[], program.as_bytes(), calls).expect("it matches");
        assert_eq!(run.call("main", &[Val::I32(1)]).expect("it runs")[0].i32(), Some(1));
        let own = run.call("main", &[Val::I32(0)]).expect_err("a trap");
        assert_eq!(run.observation.blame(&own), None, "{own}");
        let other = run.call("main", &[Val::I32(7)]).expect_err("a trap");
        let blame = run.observation.blame(&other).expect("the monitor's");
        assert!(
            blame.starts_with("monitor m: wasm:opcode:i32.div_s (arg0), at function 0")
                && blame.ends_with("unreachable"),
            "{blame}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_monitor_is_said_with_its_export_and_place() {
    let error = |monitor: &str| {
        let bytes = wat::parse_str(monitor).expect("it is text");
        match run(&[("m", &bytes)], &[], FACTORIAL.as_bytes(), ProbeCalls::Inlined) {
            Ok(_) => panic!("{monitor} is refused"),
            Err(error) => error.to_string(),
        }
    };
    for (monitor, said) in [
        (
            r#"(module (func (export "wasm:opcode:cal ()")))"#,
            "monitor m: exports that cannot be called\n  wasm:opcode:cal ()\n              ^^^ no such instruction",
        ),
        (
            r#"(module (func (export "wasm:opcode:call (pc)")))"#,
            "gives 1 arguments, and the function takes 0",
        ),
        (
            r#"(module (import "a" "b" (func)) (func (export "wasm:func:entry")))"#,
            "unknown import: \"a\" \"b\"",
        ),
        (r#"(module (tag) (func (export "wasm:func:entry")))"#, "must not catch"),
        (
            r#"(module (func (export "$p") (result i32) (unreachable)) (func (export "wasm:opcode:call / $p() / ()")))"#,
            "$p, called for wasm:opcode:call / $p() / () at function 0 (factorial), offset",
        ),
        (
            r#"(module (func (export "$p") (result i32) (loop (br 0)) (unreachable))
                (func (export "wasm:opcode:call / $p() / ()")))"#,
            "does not end",
        ),
        (
            r#"(module (func (export "$p") (param i32 i32) (result i32) (i32.const 0))
                (func (export "wasm:opcode:call / $p(fname) / ()")))"#,
            "whamm_buffer",
        ),
    ] {
        assert!(error(monitor).contains(said), "{monitor}: {}", error(monitor));
    }
}

#[test]
fn a_monitor_that_hears_only_of_the_engine_has_something_to_do() {
    let monitor = r#"(module (import "wasm-aot:ext" "v1" (func))
        (global $seen (export "threads") (mut i32) (i32.const 0))
        (func (export "engine:module_loaded ()") (global.set $seen (i32.add (global.get $seen) (i32.const 1)))))"#;
    let mut run = observed(monitor, FACTORIAL, 3, ProbeCalls::Inlined);
    assert_eq!(
        run.observation.matches(),
        [("monitor".to_owned(), 1)],
        "nothing would be called a mistake"
    );
    assert_eq!(run.global("threads"), 1);
}
