//! C programs with special behaviour.

use tests::c_program::{Linked, Program};

fn compile(name: &str, linked: Linked) -> Option<Program> {
    Program::compile(name, linked, env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn a_program_may_leave_its_trap_handler_by_siglongjmp() {
    if let Some(program) = compile("longjmp", Linked::Statically) {
        program.run(&[], &[]);
    }
}

#[test]
fn a_program_that_closes_the_library_keeps_its_traps_and_its_forks() {
    if let Some(program) = compile("unload", Linked::Later) {
        program.run(&[], &[]);
        program.run(&["and its completion thread"], &[]);
    }
}

#[test]
fn children_of_a_program_that_never_stops_patching_patch_too() {
    if let Some(program) = compile("forking", Linked::Dynamically) {
        program.run(&[], &[]);
    }
}

#[test]
fn the_environment_chooses_how_a_programs_own_text_is_patched() {
    let Some(program) = compile("environment", Linked::Dynamically) else { return };
    for access in ["rwx", "rwx-lazy", "batch", "procmem"] {
        for barrier in ["membarrier", "signal", "wait:1000"] {
            program.run(&[""], &[("WORDPATCH_ACCESS", access), ("WORDPATCH_BARRIER", barrier)]);
        }
    }
    for granule in ["8", "16", "32", "64"] {
        program.run(&[""], &[("WORDPATCH_GRANULE", granule)]);
    }
}

#[test]
fn what_the_environment_misspells_is_named_by_every_call() {
    let Some(program) = compile("environment", Linked::Dynamically) else { return };
    for (key, value) in [
        ("WORDPATCH_ACCESS", "read-only"),
        ("WORDPATCH_BARRIER", "mprotect"),
        ("WORDPATCH_BARRIER", "wait:soon"),
        ("WORDPATCH_GRANULE", "12"),
    ] {
        program.run(&[value], &[(key, value)]);
    }
    // A calibration is read only if a setting needs it.
    let file = "/nowhere/tmax.toml";
    program.run(&[file], &[("WORDPATCH_GRANULE", "calibrated"), ("WORDPATCH_CALIBRATION", file)]);
    program.run(&[file], &[("WORDPATCH_BARRIER", "wait"), ("WORDPATCH_CALIBRATION", file)]);
}
