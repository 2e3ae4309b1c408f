//! A synthetic profile for the tests of reports.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use profiler::{Arc, Figure, Function, Header, Label, Profile};

pub fn function(
    number: u32,
    name: &str,
    calls: f64,
    own: f64,
    total: f64,
    callers: &[(&str, u32, u64, f64)],
) -> Function {
    let label = |name: &str, number: u32| Label {
        name: name.to_owned(),
        offset: u64::from(number),
        ..Label::default()
    };
    let arc = |&(name, number, samples, share): &(&str, u32, u64, f64)| Arc {
        site: u64::from(number),
        samples,
        share,
        caller: Some(label(name, number)),
    };
    let told = serde_json::json!({
        "id": number,
        "label": label(name, number),
        "calls": Figure::exact(calls),
        "samples": calls as u64,
        "total": Figure::exact(total * 1e6),
        "self": Figure::exact(own * 1e6),
        "lost": 0,
        "histogram": [],
        "arcs": callers.iter().map(arc).collect::<Vec<_>>(),
    });
    serde_json::from_value(told).unwrap()
}

/// `main` calls `parse` and `std::vector<int, 3>::serve(int)`, which call `hash`; `odd` and `even`
/// call each other; `walk` calls itself.
pub fn profile() -> Profile {
    let serve = "std::vector<int, 3>::serve(int)";
    let functions = vec![
        function(1, "main", 1.0, 50.0, 900.0, &[]),
        function(2, "parse", 100.0, 200.0, 500.0, &[("main", 1, 100, 1.0)]),
        function(3, serve, 10.0, 50.0, 150.0, &[("main", 1, 10, 1.0)]),
        function(
            4,
            "hash",
            4000.0,
            400.0,
            400.0,
            &[("parse", 2, 3000, 0.75), (serve, 3, 1000, 0.25)],
        ),
        function(5, "even", 60.0, 60.0, 100.0, &[("main", 1, 10, 0.5), ("odd", 6, 50, 0.5)]),
        function(6, "odd", 50.0, 40.0, 90.0, &[("even", 5, 50, 1.0)]),
        function(7, "walk", 30.0, 100.0, 100.0, &[("main", 1, 10, 1.0), ("walk", 7, 20, 0.0)]),
    ];
    let header = Header {
        processes: 1,
        seconds: 1.5,
        processor: 1.0,
        system: 0.05,
        hz: 1e9,
        step: 1,
        ..Header::default()
    };
    Profile { header, modules: Vec::new(), functions, stacks: Vec::new() }
}
