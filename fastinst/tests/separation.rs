//! The preload library and the program share a process, and nothing else: no allocator, no function
//! that the program may define.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::*;

/// The counters of a program of these tests in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    /// Calls by threads that the program did not create.
    foreign: u64,
    /// Calls by the program's own threads.
    own: u64,
    /// The number of blocks that were damaged, or handed out twice.
    harm: u64,
}

/// The counters of the program and of its child.
fn seen(counters: &Path) -> [Calls; 2] {
    let bytes = std::fs::read(counters).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().unwrap());
    [0, 3].map(|at| Calls { foreign: word(at), own: word(at + 1), harm: word(at + 2) })
}

/// Runs a program with `arguments` and a file of counters; returns its counters without the
/// library, and under each policy.
fn under_each_policy(
    program: &Path,
    arguments: [&[&str]; 2],
    mut check: impl FnMut(&str, &Path, &Path),
) {
    let to = folder("separation");
    let plain = to.join("plain");
    let told = |command: &mut std::process::Command, counters: &Path| {
        let output = run(command.args(arguments[0]).arg(counters).args(arguments[1]));
        assert_eq!(
            (output.status.code(), &output.stderr[..]),
            (Some(7), &b""[..]),
            "{command:?}: {output:?}"
        );
    };
    told(&mut clean(std::process::Command::new(program)), &plain);
    for policy in ["exact", "count", "adaptive"] {
        let counters = to.join(policy);
        let written = folder("separation-written");
        let mut command = preloaded(program, policy, &written.join("p.%p"));
        told(command.env("FASTINST_INTERVAL", "10ms"), &counters);
        check(policy, &plain, &counters);
        let profiles = profiles(&written);
        assert_eq!(profiles.len(), 2, "{policy}");
        if policy != "adaptive" {
            let leaves: Vec<f64> = profiles.iter().map(|profile| calls(profile, "leaf")).collect();
            assert!(leaves[0] == leaves[1] && leaves[0] > 0.0, "{policy}: {leaves:?}");
        }
    }
}

fn keeps_away_from_the_allocator(kind: &str, late: &[&str]) {
    if !has("gcc") {
        return;
    }
    let program =
        compile("allocators.c", &folder("allocators"), &["-O2", "-finstrument-functions"]);
    under_each_policy(&program, [&[kind], late], |policy, plain, counters| {
        for (with, plain) in seen(counters).into_iter().zip(seen(plain)) {
            assert_eq!((with.foreign, with.harm), (0, 0), "{kind} {policy}: {with:?}");
            // Only the allocations of the C library when it creates the agent's thread.
            assert!(
                (plain.own..=plain.own + 1).contains(&with.own),
                "{kind} {policy}: {with:?} {plain:?}"
            );
        }
    });
}

#[test]
fn no_thread_of_ours_calls_the_programs_allocator() {
    keeps_away_from_the_allocator("counting", &[]);
}

#[test]
fn an_allocator_that_two_threads_must_not_use_at_once_is_not_harmed() {
    keeps_away_from_the_allocator("unsafe", &[]);
}

#[test]
fn an_allocator_that_aligns_to_eight_bytes_does_no_harm() {
    keeps_away_from_the_allocator("eight", &[]);
}

#[test]
fn no_thread_of_ours_calls_functions_that_the_program_has_named_like_the_c_librarys() {
    if !has("gcc") {
        return;
    }
    let flags = ["-O2", "-fno-builtin", "-rdynamic", "-finstrument-functions"];
    let program = compile("names.c", &folder("names"), &flags);
    under_each_policy(&program, [&[], &[]], |policy, plain, counters| {
        let counts = |path| std::fs::read(path).unwrap()[..32].to_vec();
        assert_eq!(counts(plain), [0; 32]);
        assert_eq!(
            counts(counters),
            [0; 32],
            "{policy}: calls by threads of ours, and on the program's, in it and in its child"
        );
    });
}

#[test]
fn a_child_waits_for_no_lock_that_handlers_open_which_run_after_ours() {
    for kind in ["counting", "unsafe", "eight"] {
        keeps_away_from_the_allocator(kind, &["late"]);
    }
}

#[test]
fn children_of_the_c_library_are_profiled_and_others_left_alone() {
    if !has("gcc") {
        return;
    }
    let program = compile("children.c", &folder("children"), &["-O2", "-finstrument-functions"]);
    let (parent, child) = (2000.0, 300_000.0);
    // A daemon's parent ends inside of the C library. A child has none of its parent's calls.
    let kinds: [(&str, i32, &[f64]); 5] = [
        ("fork", 7, &[parent, child]),
        ("forkpty", 7, &[parent, child]),
        ("daemon", 0, &[child]),
        ("_Fork", 7, &[parent]),
        ("system call", 7, &[parent]),
    ];
    for (kind, code, expected) in kinds {
        for policy in ["exact", "count", "adaptive"] {
            let written = folder("children-written");
            let output = run(preloaded(&program, policy, &written.join("p.%p")).arg(kind));
            assert_eq!(
                (output.status.code(), &output.stderr[..]),
                (Some(code), &b""[..]),
                "{kind} {policy}"
            );
            let mut leaves: Vec<f64> =
                profiles(&written).iter().map(|profile| calls(profile, "leaf")).collect();
            leaves.sort_by(f64::total_cmp);
            if policy == "adaptive" {
                assert_eq!(leaves.len(), expected.len(), "{kind}");
            } else {
                assert_eq!(leaves, expected, "{kind} {policy}");
            }
        }
    }
}

// The tests below check the shared library's file.

/// The names of dynamic symbols, without versions.
fn symbols(which: &str) -> BTreeSet<String> {
    let output = run(std::process::Command::new("nm").args(["-D", which]).arg(library()));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let name =
        |line: &str| line.split_whitespace().last().unwrap().split('@').next().unwrap().to_owned();
    text.lines().map(name).collect()
}

/// The names in code spans of the rows of a table in doc/isolation.md, which begins with `header`.
fn table(header: &str) -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("doc/isolation.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with(header))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_symbol_that_is_asked_of_others_is_justified() {
    if !has("nm") {
        return;
    }
    let justified = table("| Symbols of others");
    assert!(justified.len() > 20, "{justified:?}");
    let more: Vec<String> = symbols("--undefined-only").difference(&justified).cloned().collect();
    assert!(
        more.is_empty(),
        "a program may define them: {more:?}. Define them in src/clib.rs and name them in build.rs; if only the C library can do what they do, \
         justify them in the table of doc/isolation.md"
    );
}

#[test]
fn nothing_that_we_have_of_our_own_is_seen_by_others() {
    if !has("nm") {
        return;
    }
    let defined = symbols("--defined-only");
    assert!(defined.contains("__cyg_profile_func_enter") && defined.contains("dlopen"));
    let interposed = [
        "malloc", "calloc", "realloc", "free", "memcpy", "memmove", "memset", "strlen", "read",
        "write", "log", "getenv",
    ];
    let leaked: Vec<&String> = defined
        .iter()
        .filter(|name| interposed.contains(&name.as_str()) || name.contains("own_"))
        .collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}

/// The requirements in the dynamic section of a file: libraries, and versions of the C library.
fn needs(file: &Path) -> (BTreeSet<String>, BTreeSet<(u32, u32)>) {
    let output = run(std::process::Command::new("objdump").args(["-p"]).arg(file));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = text.lines().map(words).collect();
    let libraries = lines.iter().filter(|words| words.first().is_some_and(|it| it == "NEEDED"));
    let versions = lines.iter().filter_map(|words| {
        let (major, minor) = words.last()?.strip_prefix("GLIBC_")?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    (libraries.map(|words| words[1].clone()).collect(), versions.collect())
}

#[test]
fn the_library_and_the_command_need_glibc_2_34_and_nothing_newer() {
    if !has("objdump") {
        return;
    }
    let (libraries, versions) = needs(&library());
    assert!(libraries.iter().all(|it| it == "libc.so.6"), "{libraries:?}");
    assert!(versions.contains(&(2, 34)) && *versions.last().unwrap() <= (2, 34), "{versions:?}");
    let (libraries, versions) = needs(Path::new(env!("CARGO_BIN_EXE_fastinst")));
    let usual =
        ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"];
    assert!(libraries.iter().all(|it| usual.contains(&it.as_str())), "{libraries:?}");
    assert!(*versions.last().unwrap() <= (2, 34), "{versions:?}");
}
