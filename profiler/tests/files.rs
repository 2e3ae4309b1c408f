//! Profiles as files: what is written is read, and whatever else is refused.

use profiler::{
    Clock, Conductor, Costs, FuncId, Label, Module, Policy, Probes, Profile, Sample, Ticks,
};

struct Nobody;

impl Probes for Nobody {
    fn set(&mut self, _: FuncId, _: profiler::Mode) {}
}

/// A profile of so many functions.
fn profile(functions: u32) -> Profile {
    let clock = Clock { hz: 1e9, step: 1 };
    let costs = Costs { pair: 0.0, bias: 0.0, count: 0.0, toggle: 0.0, skip: 0.0 };
    let mut conductor = Conductor::new(Policy::Exact, clock, costs, 1, Ticks(0));
    for number in 1..=functions {
        conductor.discovered(FuncId(number), 2);
        conductor.entered(FuncId(number), 40);
        for call in 0..40u64 {
            let ticks = 100 + call * u64::from(number) * 13;
            conductor.sample(&Sample {
                function: FuncId(number),
                call_site: call % 5,
                ticks,
                nested: 0,
                children: 0,
                outermost: true,
            });
        }
    }
    conductor.tick(Ticks(1), &mut Nobody);
    let mut profile = conductor.profile(Ticks(1_000_000_000));
    profile.modules = vec![Module { path: "/bin/app".to_owned(), build_id: "abcd".to_owned() }];
    profile.label(|id| Label {
        name: format!("some::space::function_{}", id.0),
        module: Some(0),
        offset: id.0.into(),
        ..Label::default()
    });
    profile
}

fn written(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    profile.to_file(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_is_read() {
    let profile = profile(20);
    assert_eq!(Profile::from_file(&written(&profile)).unwrap(), profile);
}

#[test]
fn no_file_is_larger_than_a_megabyte_and_the_expensive_keep_their_histograms() {
    for functions in [5_000, 20_000] {
        let bytes = written(&profile(functions));
        assert!(bytes.len() <= 1_000_000, "{}", bytes.len());
        let read = Profile::from_file(&bytes).unwrap();
        assert!(!read.header.notes.is_empty() && read.functions.len() > 1000);
    }
    let read = Profile::from_file(&written(&profile(2_000))).unwrap();
    let kept =
        read.functions.iter().filter(|function| !function.histogram.buckets().is_empty()).count();
    let least = read.functions.first().unwrap();
    assert_eq!(read.functions.len(), 2_000);
    assert!(kept > 0 && kept < 2_000 && least.histogram.buckets().is_empty());
}

#[test]
fn profiles_add_up() {
    let (one, both) = (profile(10), Profile::merge(&[profile(10), profile(12)]));
    assert_eq!(both.functions.len(), 12);
    assert_eq!(both.functions[3].calls.value, 2.0 * one.functions[3].calls.value);
    assert_eq!(both.functions[3].mean.unwrap().value, one.functions[3].mean.unwrap().value);
    assert_eq!(both.header.processes, 2);
    let shares: f64 = both.functions[3].arcs.iter().map(|arc| arc.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert_eq!(both.impossible(), []);
}

#[test]
fn equal_runs_do_not_differ_and_others_do() {
    let (one, mut other) = (profile(10), profile(10));
    let same = Profile::compare(&vec![one.clone(); 5], &vec![one.clone(); 5]);
    assert_eq!((same.slower, same.faster, same.unchanged, same.calls_changed), (0, 0, 10, 0));
    other.functions[2].own = other.functions[2].own.map(|own| own.scaled(2.0));
    let changed = Profile::compare(&vec![one; 5], &vec![other; 5]);
    assert!(changed.functions[0].significant && changed.functions[0].name.ends_with("function_3"));
    assert_eq!((changed.functions[0].ratio.unwrap().value, changed.slower), (2.0, 1));
}

#[test]
fn a_file_of_the_earlier_version_is_read_and_reconciled() {
    let text = String::from_utf8(written(&profile(3))).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    file["fastinst"] = 1.into();
    file["profile"]["header"]["processor"] = 1e-5.into();
    for function in file["profile"]["functions"].as_array_mut().unwrap() {
        // It had neither; and its self times might be negative.
        function.as_object_mut().unwrap().retain(|field, _| field != "timed" && field != "wall");
        function["self"]["value"] = (-5.0).into();
    }
    let read = Profile::from_file(file.to_string().as_bytes()).unwrap();
    assert_eq!(read.impossible(), []);
    assert!(
        read.functions
            .iter()
            .all(|function| function.total.unwrap().value <= 1e4
                && function.own.unwrap().value == 0.0)
    );
    assert!(
        read.functions
            .iter()
            .all(|function| function.wall == function.timed.total && function.wall.is_some())
    );
}

#[test]
fn every_report_is_made_of_whatever_can_be_read() {
    let whole = written(&profile(5));
    arbtest::arbtest(|u| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.int_in_range(0..=bytes.len() - 1)?;
            bytes[at] = *u.choose(b"0123456789-eE.,:\"{}[]nulltrue\xff")?;
        }
        if u.ratio(1, 8)? {
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
        }
        if let Ok(profile) = Profile::from_file(&bytes) {
            let _ = (
                profile.table(&profiler::TableOptions::default()),
                profile.json(),
                profile.csv(),
                profile.folded(),
            );
            let _ = (
                profile.gprof(),
                profile.pprof(),
                Profile::merge(&[profile.clone(), profile.clone()]),
            );
        }
        Ok(())
    })
    .budget_ms(2_000);
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let refused = |bytes: &[u8]| Profile::from_file(bytes).unwrap_err().to_string();
    assert!(refused(b"").contains("is no profile") && refused(b"{}").contains("is no profile"));
    assert!(refused(br#"{"fastinst":9,"profile":{}}"#).contains("version 9"));
    assert!(refused(&[b'['; 100_000]).contains("is no profile"));
    let text = String::from_utf8(written(&profile(1))).unwrap();
    assert!(refused(text.replace("\"module\":0", "\"module\":7").as_bytes()).contains("cannot be"));
    assert!(
        refused(text.replace("\"hz\":1000000000.0", "\"hz\":-1.0").as_bytes())
            .contains("cannot be")
    );
}
