//! Monitors in files of machine code.

use super::existing::{CORE, EXISTING, PROGRAM};
use super::output_of;
use super::place::{Place, errors};
use super::running::TURNS;

#[test]
fn a_file_of_machine_code_contains_monitors_that_look_at_it_whenever_it_runs() {
    let place = Place::new("modules-inside-files");
    place.file("whamm_core.wat", CORE);
    let library = format!(
        "{}+{}",
        place.file("existing.wat", EXISTING),
        place.0.join("whamm_core.wat").display()
    );
    let script =
        place.file("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
    let program = place.file("program.wat", PROGRAM);
    let file = place.0.join("program.aot").display().to_string();
    place.good(&["compile", &program, "-o", &file, "--monitor", &library, "--monitor", &script]);
    place.good(&["verify", &file]);
    // Their sources are not needed any more.
    for name in ["existing.wat", "whamm_core.wat", "calls.mm"] {
        std::fs::remove_file(place.0.join(name)).expect("it was there");
    }
    let turns = place.file("turns.wat", TURNS);
    for (given, also) in [(&[][..], ""), (&["--monitor", &turns, "--monitor", "icount"], "14")] {
        let mut command = place.command();
        let done = command
            .args(["run", "--invoke", "main"])
            .args(given)
            .args([&file, "7"])
            .output()
            .expect("it starts");
        assert!(done.status.success(), "{}", errors(&done));
        let printed = output_of(&done);
        assert!(printed.starts_with("3\n4 1 7 7 \n4 1 9 3 \n"), "{printed}");
        assert!(printed.ends_with(also), "{printed}");
        assert!(errors(&done).contains("\ncalls         7\n"), "{}", errors(&done));
    }
    let wrong = place.file("wrong.wat", r#"(module (func (export "wasm:opcode:nopp")))"#);
    assert!(
        place
            .bad(&["compile", &program, "-o", &file, "--monitor", "hotness"])
            .0
            .contains("only modules and scripts")
    );
    let done = place.run(&["compile", &program, "-o", &file, "--monitor", &wrong]);
    assert!(
        !done.status.success() && errors(&done).contains("did you mean nop?"),
        "{}",
        errors(&done)
    );
}

#[test]
fn the_report_of_a_monitor_in_a_file_goes_where_it_is_asked_for() {
    let place = Place::new("modules-reports-of-files");
    let script =
        place.file("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
    let program = place.file("program.wat", PROGRAM);
    let file = place.0.join("program.aot").display().to_string();
    place.good(&["compile", &program, "-o", &file, "--monitor", &script]);
    let with = ["run", "--csv", "--report", "report.csv", "--invoke", "main", &file, "7"];
    place.good(&with);
    let report = std::fs::read_to_string(place.0.join("report.csv")).expect("a report");
    assert!(report.starts_with("monitor,") && report.contains("calls"), "{report}");
    // Without a monitor there is nothing to report.
    place.good(&["compile", &program, "-o", &file]);
    assert!(place.bad(&with).0.contains("belong to --monitor"));
}

#[test]
fn a_file_has_code_that_counts_if_a_monitor_in_it_only_adds() {
    let place = Place::new("modules-counting-files");
    let program = place.file("program.wat", PROGRAM);
    let adds = "wasm:opcode:if:before { report var even: u32; report var odd: u32; if (arg0 != 0) { even++; } else { odd++; } }";
    let looks = "report var last: i32; wasm:opcode:i32.sub:before { last = arg1; }";
    let goes = "use dyninstr; wasm:opcode:*:before { report var seen: bool; seen = true; dyninstr.remove_probe(probe_id); }";
    let all = [
        ("adds", adds, true, "even  odd"),
        ("looks", looks, false, "last"),
        ("goes", goes, false, "seen"),
    ];
    for (name, text, counts, said) in all {
        let script = place.file(&format!("{name}.mm"), text);
        let file = place.0.join(format!("{name}.aot")).display().to_string();
        place.good(&["compile", &program, "-o", &file, "--monitor", &script]);
        place.good(&["verify", &file]);
        let module =
            wasm_aot::Module::from_file(&wasm_aot::Engine::default(), &file).expect("it is loaded");
        assert_eq!(module.counts().is_some(), counts, "{name}");
        let fresh = place.run(&["run", "--invoke", "main", "--monitor", &script, &program, "7"]);
        let told = place.run(&["run", "--invoke", "main", &file, "7"]);
        assert_eq!((&told.stdout, errors(&told)), (&fresh.stdout, errors(&fresh)));
        assert!(errors(&told).contains(said), "{}", errors(&told));
    }
}

#[test]
fn a_file_without_sites_is_compiled_anew_for_monitors_that_come_and_go() {
    let place = Place::new("modules-without-sites");
    let text = "(module (func $f (export \"main\") (result i32) (i32.const 7)))";
    let (program, file) =
        (place.file("program.wat", text), place.0.join("program.aot").display().to_string());
    place.good(&["compile", "--sites", "none", &program, "-o", &file]);
    // It matches no place, so that the file's code would suffice for it.
    let turns = place.file("turns.wat", TURNS);
    let timed = [
        "--monitor",
        "latency,function=*,policy=exact",
        "--monitor",
        &turns,
        "--csv",
        "--report",
        "report.csv",
    ];
    let mut command = place.command();
    let done = command
        .args(["run", "--invoke", "main"])
        .args(timed)
        .arg(&file)
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", errors(&done));
    let report = std::fs::read_to_string(place.0.join("report.csv")).expect("a report");
    assert!(report.lines().any(|line| line.starts_with("latency,f,1,1,")), "{report}");
}
