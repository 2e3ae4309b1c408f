//! Profiles as files: what is written is read, and whatever else is refused.

use profiler::{Clock, Conductor, Costs, FuncId, Label, Module, Policy, Probes, Profile, Sample, Ticks};

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
            conductor.sample(&Sample { function: FuncId(number), call_site: call % 5, ticks, nested: 0, children: 0 });
        }
    }
    conductor.tick(Ticks(1), Ticks(1), &mut Nobody);
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
    let read = Profile::from_file(&written(&profile(3_000))).unwrap();
    let kept = read.functions.iter().filter(|function| !function.histogram.buckets().is_empty()).count();
    let least = read.functions.first().unwrap();
    assert!(kept > 0 && kept < 3_000 && least.histogram.buckets().is_empty());
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
}

#[test]
fn a_diff_of_equals_finds_nothing_and_one_of_others_does() {
    let (one, mut other) = (profile(10), profile(10));
    assert!(Profile::diff(&one, &one).functions.iter().all(|change| !change.significant));
    other.functions[2].mean = other.functions[2].mean.map(|mean| mean.scaled(2.0));
    other.functions[2].total = other.functions[2].total.map(|total| total.scaled(2.0));
    let diff = Profile::diff(&one, &other);
    assert!(diff.functions[0].significant && diff.functions[0].name.ends_with("function_3"));
    assert_eq!(diff.functions[0].ratio.unwrap().value, 2.0);
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
            let _ = (profile.table(&profiler::TableOptions::default()), profile.json(), profile.csv(), profile.folded());
            let _ = (profile.gprof(), profile.pprof(), Profile::merge(&[profile.clone(), profile.clone()]));
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
    assert!(refused(text.replace("\"hz\":1000000000.0", "\"hz\":-1.0").as_bytes()).contains("cannot be"));
}
