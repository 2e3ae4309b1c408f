//! Synthetic profiles for the tests of reports.

use crate::profile::{Arc, Function, Header, Profile, Spent, Stack};
use crate::{ClockSource, Figure, FuncId, How, bucket};

pub(crate) fn about(value: f64, lo: f64, hi: f64) -> Option<Figure> {
    Some(Figure { value, how: How::Estimated { lo, hi } })
}

/// A function with this many calls of `each` nanoseconds, all timed, and these self and total times
/// in milliseconds.
pub(crate) fn function(name: &str, calls: u64, each: u64, own: f64, total: f64) -> Function {
    let exact = |value: f64| Figure::exact(value);
    // Read as from a file, so that optional fields can be omitted.
    let told = serde_json::json!({
        "id": 0,
        "label": { "name": name, "module": null, "offset": 0 },
        "calls": exact(calls as f64),
        "samples": calls,
        "min": each as f64,
        "mean": exact(each as f64),
        "max": each as f64,
        "total": exact(total * 1e6),
        "self": exact(own * 1e6),
        "wall": exact(total * 2e6),
        "lost": 0,
        "histogram": [[bucket(each), calls as f64]],
        "arcs": [],
    });
    serde_json::from_value(told).unwrap()
}

/// A profile with this many seconds of CPU time.
pub(crate) fn profile(processor: f64, functions: Vec<Function>) -> Profile {
    let header = Header {
        processes: 1,
        seconds: processor * 1.5,
        processor,
        hz: 1e9,
        step: 1,
        bias: 20.0,
        pair: 40.0,
        policy: "adaptive, 1 % of CPU time".to_owned(),
        clock: ClockSource::Kernel { hz: 250.0, stack_hz: 100.0, kernel: false },
        clock_samples: (processor * 250.0) as u64,
        spent: Spent { samples: 7514, switching: 0.001, agent: 0.003, ..Spent::default() },
        ..Header::default()
    };
    let mut profile = Profile { header, modules: Vec::new(), functions, stacks: Vec::new() };
    for (at, function) in profile.functions.iter_mut().enumerate() {
        function.id = FuncId(at as u32 + 1);
        function.label.offset = 0x1000 * (at as u64 + 1);
    }
    profile
}

/// Sets that a share of a function's time, and of its calls, comes from a caller.
pub(crate) fn called(profile: &mut Profile, function: usize, by: usize, samples: u64, share: f64) {
    let caller = Some(profile.functions[by].label.clone());
    let site = profile.functions[by].label.offset + 0x10 + function as u64;
    profile.functions[function].arcs.push(Arc { site, samples, share, caller });
}

/// A program of one second: `main` (0.1 s of its own) calls `parse` (0.2 s) and `serve` (0.05 s),
/// which both call `hash` (0.4 s); 0.15 s are in the kernel, and 0.1 s in no function.
pub(crate) fn program() -> Profile {
    let functions = vec![
        function("main", 1, 750_000_000, 100.0, 750.0),
        function("parse", 100, 5_000_000, 200.0, 500.0),
        function("serve", 10, 15_000_000, 50.0, 150.0),
        function("hash", 4_000_000, 100, 400.0, 400.0),
    ];
    let mut profile = profile(1.0, functions);
    profile.header.system = 0.15;
    profile.header.unknown = 0.1;
    called(&mut profile, 1, 0, 100, 1.0);
    called(&mut profile, 2, 0, 10, 1.0);
    called(&mut profile, 3, 1, 3_000_000, 0.75);
    called(&mut profile, 3, 2, 1_000_000, 0.25);
    profile
}

/// The same, with stacks from the clock.
pub(crate) fn program_with_stacks() -> Profile {
    let mut profile = program();
    let stack = |frames: &[u32], milliseconds: f64| Stack {
        frames: frames.to_vec(),
        time: milliseconds * 1e6,
        samples: milliseconds as u64,
    };
    profile.stacks = vec![
        stack(&[0], 100.0),
        stack(&[0, 1], 190.0),
        stack(&[0, 2], 60.0),
        stack(&[0, 1, 3], 290.0),
        stack(&[0, 2, 3], 110.0),
    ];
    profile
}
