//! Profiles as files: written files can be read, and all others are refused.

use profiler::{
    Callee, Clock, Controller, Costs, Exemplar, Figure, FuncId, Label, Module, Packing, Policy,
    Probes, Profile, Sample, Stack, Ticks,
};

struct NoProbes;

impl Probes for NoProbes {
    fn set(&mut self, _: FuncId, _: profiler::Mode) {}
}

/// A profile with this many functions.
fn profile(functions: u32) -> Profile {
    let clock = Clock { hz: 1e9, step: 1 };
    let costs = Costs { pair: 0.0, bias: 0.0, count: 0.0, toggle: 0.0, skip: 0.0 };
    let mut controller = Controller::new(Policy::Exact, clock, costs, 1, Ticks(0));
    for number in 1..=functions {
        controller.discovered(FuncId(number), 2);
        controller.entered(FuncId(number), 40);
        for call in 0..40u64 {
            let ticks = 100 + call * u64::from(number) * 13;
            controller.sample(&Sample {
                function: FuncId(number),
                call_site: call % 5,
                ticks,
                nested: 0,
                children: 0,
                outermost: true,
            });
        }
    }
    controller.tick(Ticks(1), &mut NoProbes);
    let mut profile = controller.profile(Ticks(1_000_000_000));
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

/// The same as a file of an earlier version.
fn as_json(profile: &Profile, version: u32) -> serde_json::Value {
    serde_json::json!({ "fastinst": version, "profile": profile })
}

/// Checks that both are equal to seven digits.
fn assert_same(read: &Profile, written: &Profile) {
    fn compare(read: &serde_json::Value, written: &serde_json::Value, path: &str) {
        use serde_json::Value::{Array, Number, Object};
        match (read, written) {
            (Number(a), Number(b)) => {
                let [a, b] = [a, b].map(|number| number.as_f64().unwrap());
                assert!((a - b).abs() <= 1e-7 * b.abs(), "{path}: {a} for {b}");
            }
            (Array(a), Array(b)) => {
                assert_eq!(a.len(), b.len(), "{path}");
                a.iter().zip(b).for_each(|(a, b)| compare(a, b, path));
            }
            (Object(a), Object(b)) => {
                assert!(a.keys().eq(b.keys()), "{path}");
                a.iter().for_each(|(key, a)| compare(a, &b[key], &format!("{path}.{key}")));
            }
            _ => assert_eq!(read, written, "{path}"),
        }
    }
    let [read, written] = [read, written].map(|profile| serde_json::to_value(profile).unwrap());
    compare(&read, &written, "profile");
}

/// A profile with all optional parts.
fn full() -> Profile {
    let mut profile = profile(20);
    let caller = Label { name: "elsewhere".to_owned(), offset: 77, ..Label::default() };
    for (at, function) in profile.functions.iter_mut().enumerate() {
        function.label.line = (at % 3 == 0).then_some(at as u32);
        function.label.file = (at % 4 == 0).then(|| format!("src/{at}.rs"));
        function.unseen = at % 5 == 0;
        function.cpu = (at % 2 == 0).then(|| Figure::estimated(at as f64, 3.5, 0.0));
        function.lost = at as u64;
        function.calls = Figure::exact((u64::MAX >> 12) as f64);
        function.arcs[0].caller = Some(caller.clone());
    }
    let label = profile.functions[3].label.clone();
    profile.functions[5].arcs[1].caller = Some(label);
    profile.functions[2].histogram = profiler::Histogram::default();
    profile.functions[2].exemplars = (0..3)
        .map(|at| Exemplar {
            time: 1.5e9 / f64::from(at + 1),
            thread: 70_000 + at,
            at: 1e12,
            inside: vec![Callee { function: FuncId(7), calls: 3, time: 0.25 }],
        })
        .collect();
    profile.stacks = vec![Stack { frames: vec![0, 4, 2], time: 1e6, samples: 3 }];
    profile
}

#[test]
fn what_is_written_is_read() {
    for profile in [profile(20), full(), profile(0)] {
        for packing in [Packing::Deflated, Packing::Plain] {
            let read = Profile::from_file(&profile.to_bytes(packing)).unwrap();
            assert_same(&read, &profile);
            // Rounding twice changes nothing.
            assert_eq!(Profile::from_file(&written(&read)).unwrap(), read);
        }
    }
}

#[test]
fn a_file_holds_all_functions_in_sixty_four_bytes_each() {
    let profile = profile(5_000);
    let bytes = written(&profile);
    assert_same(&Profile::from_file(&bytes).unwrap(), &profile);
    // Each was called forty times, and no two calls took equally long.
    assert!(bytes.len() <= 5_000 * 128, "{}", bytes.len());
}

#[test]
fn a_file_whose_names_repeat_without_end_is_written_as_it_may_be_read() {
    let mut profile = profile(2_000);
    for function in &mut profile.functions {
        function.label.name = "x".repeat(20_000);
    }
    assert_eq!(Profile::from_file(&written(&profile)).unwrap().functions.len(), 2_000);
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
fn profiles_of_machines_with_other_clocks_add_up() {
    let (mut one, mut other) = (profile(10), profile(10));
    other.header.machine = "another".to_owned();
    // The same times, measured by a clock of 3.5 ticks per nanosecond with another bias.
    (other.header.hz, other.header.bias) = (3.5e9, 70.0);
    for function in &mut other.functions {
        let buckets = function.histogram.buckets().to_vec();
        function.histogram = profiler::Histogram::default();
        for (ticks, calls) in buckets {
            let (first, last) = profiler::bounds(ticks);
            let ticks = (first + last) as f64 / 2.0 * 3.5 + 70.0;
            function.histogram.add(profiler::bucket(ticks as u64), calls);
        }
    }
    let both = Profile::merge(&[one.clone(), other.clone()]);
    for (at, function) in both.functions.iter().enumerate() {
        let p50 =
            |profile: &Profile| profile.functions[at].percentile(0.5, &profile.header).unwrap();
        assert!((p50(&both) / p50(&one) - 1.0).abs() < 0.03, "{} {}", p50(&both), p50(&one));
        assert_eq!(function.histogram.weight(), 2.0 * one.functions[at].histogram.weight());
    }
    // The clock is measured anew in every process of a machine: buckets stay the same.
    one.header.hz *= 1.000_01;
    let twice = Profile::merge(&[profile(10), one.clone()]);
    assert_eq!(
        twice.functions[3].histogram.buckets().len(),
        one.functions[3].histogram.buckets().len()
    );
    assert!(both.header.machine.ends_with("; another"), "{}", both.header.machine);
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
    let mut file = as_json(&profile(3), 1);
    file["profile"]["header"]["processor"] = 1e-5.into();
    for function in file["profile"]["functions"].as_array_mut().unwrap() {
        // That version had neither; and its self times might be negative.
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
fn a_file_of_the_version_that_was_json_is_read() {
    let profile = full();
    let read = Profile::from_file(as_json(&profile, 2).to_string().as_bytes()).unwrap();
    assert_eq!(read, profile);
}

/// Changed bytes, with a valid checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 16 {
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.sum().to_le_bytes());
    }
    bytes
}

/// Reads arbitrary bytes, and makes every report of the result.
fn read_anything(bytes: &[u8]) {
    let Ok(profile) = Profile::from_file(bytes) else { return };
    let _ = (
        profile.table(&profiler::TableOptions::default()),
        profile.json(),
        profile.csv(),
        profile.folded(),
    );
    let _ = (profile.gprof(), profile.pprof(), Profile::merge(&[profile.clone(), profile.clone()]));
    let again = Profile::from_file(&written(&profile)).expect("what was read can be written");
    assert_eq!(again.functions.len(), profile.functions.len());
}

#[test]
fn every_report_is_made_of_whatever_can_be_read() {
    let json = as_json(&profile(5), 2).to_string().into_bytes();
    let files = [json, written(&full()), full().to_bytes(Packing::Plain)];
    arbtest::arbtest(|u| {
        let mut bytes = u.choose(&files)?.clone();
        let is_json = bytes[0] == b'{';
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.int_in_range(0..=bytes.len() - 1)?;
            bytes[at] = match is_json {
                true => *u.choose(b"0123456789-eE.,:\"{}[]nulltrue\xff")?,
                false => u.arbitrary()?,
            };
        }
        if u.ratio(1, 8)? {
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
        }
        read_anything(&if is_json { bytes } else { sealed(bytes) });
        Ok(())
    })
    .budget_ms(3_000);
}

#[test]
fn a_file_that_was_changed_or_cut_is_refused() {
    let whole = written(&profile(3));
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(Profile::from_file(&changed).is_err(), "byte {at}");
        assert!(Profile::from_file(&whole[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_file_that_inflates_without_limit_is_refused() {
    let mut packed = Vec::with_capacity(4_000_000);
    let zeros = vec![0; 1 << 28];
    flate2::Compress::new(flate2::Compression::new(9), false)
        .compress_vec(&zeros, &mut packed, flate2::FlushCompress::Finish)
        .unwrap();
    let bomb = |inflated: u64| {
        let mut bytes = written(&profile(1))[..16].to_vec();
        bytes.extend(inflated.to_le_bytes());
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend(&packed);
        Profile::from_file(&sealed(bytes)).unwrap_err().to_string()
    };
    assert!(bomb(1 << 28).contains("would inflate to 268435456 bytes"), "{}", bomb(1 << 28));
    assert!(bomb(u64::MAX).contains("would inflate"));
    // A file with a wrong size.
    assert!(bomb(1000).contains("damaged") && !bomb(1000).contains('\n'));
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let refused = |bytes: &[u8]| Profile::from_file(bytes).unwrap_err().to_string();
    assert!(
        refused(b"").contains("not a fastinst profile")
            && refused(b"{}").contains("not a fastinst profile")
    );
    assert!(refused(br#"{"fastinst":9,"profile":{}}"#).contains("version 9"));
    assert!(refused(b"fastinst\x04\0\0\0\0\0\0\0").contains("version 4"));
    assert!(refused(b"fastinst").contains("damaged"));
    assert!(refused(&[b'['; 100_000]).contains("not a fastinst profile"));
    let text = as_json(&profile(1), 2).to_string();
    assert!(
        refused(text.replace("\"module\":0", "\"module\":7").as_bytes())
            .contains("impossible numbers")
    );
    assert!(
        refused(text.replace("\"hz\":1000000000.0", "\"hz\":-1.0").as_bytes())
            .contains("impossible numbers")
    );
    let mut profile = profile(1);
    profile.functions[0].label.module = Some(7);
    assert!(refused(&written(&profile)).contains("impossible numbers"));
}

#[test]
fn texts_of_a_file_have_no_control_characters() {
    let mut profile = profile(2);
    let hostile = "name\u{1b}]0;title\u{7}\nnext";
    profile.functions[0].label.name = hostile.to_owned();
    profile.functions[1].label.file = Some(hostile.to_owned());
    profile.header.notes = vec![hostile.to_owned()];
    profile.header.command = vec![hostile.to_owned()];
    let read = Profile::from_file(&written(&profile)).unwrap();
    let expected = "name ]0;title  next";
    assert_eq!(read.functions[0].label.name, expected);
    assert_eq!(read.functions[1].label.file.as_deref(), Some(expected));
    assert_eq!((&*read.header.notes[0], &*read.header.command[0]), (expected, expected));
}
