//! Profiles in files, and in the formats of other tools.

use super::*;

#[test]
fn profiles_are_drawn_in_the_forms_of_other_tools() {
    let text =
        |form: &str| observed(CALLS, &[6, 10], &[&format!("profile,time-all,{form}")])[0].text();
    assert!(
        text("folded").lines().any(|line| line.starts_with("f;fib;fib ")),
        "{}",
        text("folded")
    );
    let svg = text("svg");
    // Its subject, its unit, and the meaning of its root.
    for part in ["<svg", "<title>wasm</title>", "widths are CPU time", ">fib", "all CPU time"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let dot = text("dot");
    assert!(
        dot.starts_with("digraph profile {") && dot.contains("-> n") && dot.ends_with("}\n"),
        "{dot}"
    );
    let path = std::env::temp_dir().join(format!("wasm-aot-pprof-{}", std::process::id()));
    text(&format!("pprof={}", path.display()));
    let pprof = std::fs::read(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    assert!(pprof.windows(3).any(|window| window == b"fib") && pprof[0] == 0x0a);
}

#[test]
fn monitors_of_calls_and_times_write_files_like_those_of_native_programs() {
    let report = &observed(CALLS, &[6, 10], &["functions"])[0];
    let mut each = words(report, "function").into_iter().zip(counts(report, "calls"));
    let expected = each.find(|(name, _)| name == "fib").expect("it is there").1;
    for monitor in ["latency,policy=exact,function=*", "functions", "calls"] {
        let path = std::env::temp_dir().join(format!("wasm-aot-kept-{}", std::process::id()));
        observed(CALLS, &[6, 10], &[&format!("{monitor},file={}", path.display())]);
        let profile = profiler::Profile::from_file(&std::fs::read(&path).expect("written"));
        std::fs::remove_file(&path).expect("there");
        let profile = profile.unwrap_or_else(|error| panic!("{monitor}: {error}"));
        assert!(profile.impossible().is_empty(), "{monitor}: {:?}", profile.impossible());
        let named = |name: &str| {
            let mut functions = profile.functions.iter();
            functions.find(|function| function.label.name == name).expect("it is there").clone()
        };
        let fib = named("fib");
        assert_eq!(fib.calls, profiler::Figure::exact(expected as f64), "{monitor}");
        assert!(fib.own.is_some() || monitor == "calls", "{monitor}");
        assert!(profile.table(&profiler::TableOptions::default()).contains("fib"), "{monitor}");
        if monitor == "calls" {
            let by = |name: &str| {
                let mut arcs = fib.arcs.iter();
                let is_it = |arc: &&profiler::Arc| {
                    arc.caller.as_ref().is_some_and(|caller| caller.name == name)
                };
                arcs.by_ref().filter(is_it).map(|arc| arc.samples).sum::<u64>()
            };
            let arcs: u64 = fib.arcs.iter().map(|arc| arc.samples).sum();
            assert!(by("f") >= 2 && by("fib") > by("f") && arcs == expected, "{:?}", fib.arcs);
        }
    }
    let text = "calls,file=/nowhere/at/all";
    let error =
        MonitorSet::new(Choices::new([text]).expect("known")).expect_err("refused").to_string();
    assert!(error.contains("file=/nowhere/at/all"), "{error}");
}

#[test]
fn a_profile_is_a_file_like_those_of_native_programs() {
    let path = std::env::temp_dir().join(format!("wasm-aot-profile-{}", std::process::id()));
    let monitor = format!("profile,file={}", path.display());
    let report = &observed(CALLS, &[6, 10], &[&monitor])[0];
    let profile = profiler::Profile::from_file(&std::fs::read(&path).expect("written"));
    std::fs::remove_file(&path).expect("there");
    let profile = profile.unwrap_or_else(|e| panic!("{e}"));
    assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (way, count) in words(report, "way").iter().zip(counts(report, "calls")) {
        let function = way.rsplit(';').next().expect("a function");
        *calls.entry(function.to_owned()).or_default() += count;
    }
    let told = profile.functions.iter();
    let told = told.map(|function| (function.label.name.clone(), function.calls.value as u64));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), calls);
    // Every call has a caller, and there is one file for all reports.
    for function in &profile.functions {
        let arcs: u64 = function.arcs.iter().map(|arc| arc.samples).sum();
        assert_eq!(arcs as f64, function.calls.value, "{}", function.label.name);
    }
    assert!(profile.gprof().contains("fib <cycle") || profile.gprof().contains("fib ["));
}
