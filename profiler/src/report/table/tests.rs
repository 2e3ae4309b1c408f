use super::*;
use crate::report::made_up::{about, function, profile, program};
use crate::{ClockSource, Figure, Label};

fn table(profile: &Profile, change: impl Fn(&mut TableOptions)) -> String {
    let mut options = TableOptions { width: 80, ..TableOptions::default() };
    change(&mut options);
    profile.table(&options)
}

/// The rows of a table, without its title and its last lines.
fn body(table: &str) -> Vec<&str> {
    table.lines().skip(1).take_while(|line| !line.is_empty()).collect()
}

/// The percentages in a table's first column, and those after the names of omitted rows.
fn shares(table: &str) -> Vec<f64> {
    let number = |text: &str| {
        text.trim_start_matches(['~', '?', '('])
            .strip_suffix('%')
            .and_then(|text| text.parse().ok())
    };
    let share = |line: &&str| match line.strip_prefix('…') {
        Some(rest) => rest.split(['(', ')']).nth(1).and_then(number),
        None => line.split_whitespace().next().and_then(number),
    };
    body(table).iter().filter_map(share).collect()
}

#[test]
fn the_share_column_adds_up_to_100_percent() {
    let shown = table(&program(), |_| ());
    assert_eq!(shares(&shown), [40.0, 20.0, 15.0, 10.0, 10.0, 5.0], "{shown}");
    // The share of the omitted rows is shown, too.
    let shown = table(&program(), |options| options.rows = 1);
    assert_eq!(shares(&shown).iter().sum::<f64>(), 100.0, "{shown}");
    arbtest::arbtest(|u| {
        let mut functions = Vec::new();
        for number in 0..u.int_in_range(1..=30)? {
            let own = f64::from(u.int_in_range(0..=100_000u32)?) / 1e3;
            functions.push(function(&format!("f{number}"), 100, 500, own, 3.0 * own));
        }
        let mut profile = profile(f64::from(u.int_in_range(0..=4_000u32)?) / 1e3, functions);
        profile.header.system = profile.header.processor * 0.3;
        profile.header.unknown = f64::from(u.int_in_range(0..=400u32)?) / 1e3;
        let rows = u.int_in_range(0..=40)?;
        let shown = table(&profile, |options| options.rows = rows);
        let all = shares(&shown);
        let rounding = 0.051 * all.len() as f64;
        assert!(all.is_empty() || (all.iter().sum::<f64>() - 100.0).abs() <= rounding, "{shown}");
        assert!(all.iter().all(|share| (0.0..=100.0).contains(share)), "{shown}");
        Ok(())
    });
}

#[test]
fn a_row_of_80_columns_has_the_name_behind_the_share_and_narrower_ones_keep_it() {
    let mut profile = program();
    profile.functions[1].label.name =
        "app::parser::Parser<std::string, std::vector<int>>::parse(std::string const&, int)"
            .to_owned();
    for width in [40, 60, 80, 120] {
        let shown = table(&profile, |options| options.width = width);
        let widest = shown.lines().take(7).map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{width}: {shown}");
        assert!(
            shown.lines().next().unwrap().trim_start().starts_with("self %  function"),
            "{shown}"
        );
        assert!(body(&shown)[1].contains("parse"), "{shown}");
    }
    let title = table(&profile, |_| ())
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(title, "self % function total calls p50 p99 max");
}

#[test]
fn the_wide_table_has_all_columns_and_tells_waiting_from_running() {
    let mut profile = program();
    (profile.functions[0].label.file, profile.functions[0].label.line) =
        (Some("/src/main.c".to_owned()), Some(12));
    let shown = table(&profile, |options| options.wide = true);
    let title = shown.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        title,
        "self % function self total wall waiting calls mean ± p50 p90 p99 p99.9 max file:line"
    );
    let main = shown.lines().find(|line| line.contains("main")).unwrap();
    assert!(
        main.contains("750 ms")
            && main.contains("1.50 s")
            && main.contains("50.0%")
            && main.ends_with("main.c:12"),
        "{shown}"
    );
}

#[test]
fn marks_say_how_much_is_known_and_doubtful_giants_are_not_ranked_first() {
    let mut profile = program();
    let giant = &mut profile.functions[2];
    (giant.total, giant.own) = (about(959e9, 1e6, 3e12), about(60e6, 1e6, 150e6));
    giant.calls = Figure::estimated(28.2e6, 2e6, 0.0);
    giant.samples = 50;
    (profile.functions[0].own, profile.functions[0].total) = (about(0.0, 0.0, 4e6), None);
    let shown = table(&profile, |options| options.sort = Sort::Total);
    let line = |name: &str| shown.lines().find(|line| line.contains(name)).unwrap();
    assert!(body(&shown)[0].contains("parse"), "{shown}");
    assert!(
        line("serve").contains("?959 s")
            && line("serve").contains("~28.2M")
            && line("serve").contains("≥15.0 ms"),
        "{shown}"
    );
    assert!(line("main").contains("≤0.4%") && line("main").contains(" - "), "{shown}");
    for mark in ["~ estimate", "? uncertain", "≤ at most", "≥ at least"] {
        assert!(shown.contains(mark), "{mark}: {shown}");
    }
    assert!(!table(&program(), |_| ()).contains("~ estimate"));
}

#[test]
fn a_spread_beyond_the_value_is_no_number() {
    let mut profile = program();
    profile.functions[0].mean = about(100.0, 0.0, 2882.0);
    profile.functions[1].mean = about(100.0, 90.0, 110.0);
    let shown = table(&profile, |options| options.wide = true);
    let cell = |name: &str, at: usize| {
        shown
            .lines()
            .find(|line| line.contains(name))
            .unwrap()
            .split_whitespace()
            .nth(at)
            .unwrap()
            .to_owned()
    };
    assert!(!shown.contains("1391") && shown.contains("10%"), "{shown}");
    assert_eq!(cell("hash", 1), "hash");
}

#[test]
fn no_percentile_is_above_the_longest_call_and_what_is_below_the_floor_is_no_number() {
    let mut profile = program();
    // A bucket of the histogram ends above the longest call.
    profile.functions[1].max = Some(4_999_000.0);
    profile.functions[1].min = Some(4_000_000.0);
    assert_eq!(
        profile.functions[1].latency(0.99, &profile.header),
        Some(4_999_000.0f64.min(profile.functions[1].percentile(0.99, &profile.header).unwrap()))
    );
    for function in &profile.functions {
        for share in [0.5, 0.9, 0.99, 0.999] {
            let value = function.latency(share, &profile.header);
            assert!(
                value <= function.max && value >= function.min,
                "{share} of {}",
                function.label.name
            );
        }
    }
    // Some of its calls were timed: a p50 below twice the time of an empty call is no evidence.
    profile.header.floor = 40.0;
    let hash = &mut profile.functions[3];
    (hash.samples, hash.calls) = (5_000, Figure::exact(4e6));
    (hash.histogram, hash.min, hash.max) = (crate::Histogram::default(), Some(5.0), Some(30.0));
    hash.histogram.add(crate::bucket(50), 4e6);
    let shown = table(&profile, |_| ());
    let line = shown.lines().find(|line| line.contains("hash")).unwrap();
    assert_eq!(line.matches("~<40.0 ns").count(), 2, "{shown}");
    // A call that was not timed may have been longer than those that were.
    assert!(line.ends_with(" -"), "{shown}");
}

#[test]
fn a_mean_is_below_the_clocks_resolution_only_with_its_interval() {
    let mut profile = program();
    (profile.header.hz, profile.header.step) = (1e9, 40);
    let mean = |hi| Figure { value: 2.0, how: crate::How::Estimated { lo: 1.0, hi } };
    let shown = |profile: &Profile| {
        let shown = table(profile, |options| options.wide = true);
        shown.lines().find(|line| line.contains("hash")).unwrap().to_owned()
    };
    profile.functions[3].mean = Some(mean(3.0));
    assert!(shown(&profile).contains(" <10.0 ns "), "{}", shown(&profile));
    profile.functions[3].mean = Some(mean(90.0));
    assert!(
        !shown(&profile).contains('<')
            && !profile.functions[3].is_below_resolution(&profile.header)
    );
}

#[test]
fn heavy_tails_are_marked() {
    let mut profile = program();
    profile.functions[3].max = Some(2e6);
    let shown = table(&profile, |_| ());
    assert!(
        shown.lines().find(|line| line.contains("hash")).unwrap().ends_with("!2.00 ms"),
        "{shown}"
    );
    assert_eq!(shown.matches('!').count(), 2, "the legend, and no other row: {shown}");
}

#[test]
fn rows_without_a_figure_come_last_and_a_column_that_no_row_has_is_said() {
    let mut profile = program();
    profile.functions[3].own = None;
    let shown = table(&profile, |_| ());
    let rows = body(&shown);
    assert!(
        rows.last().unwrap().contains("hash") && rows.last().unwrap().trim_start().starts_with("-"),
        "{shown}"
    );
    for function in &mut profile.functions {
        (function.own, function.wall) = (None, None);
    }
    let shown = table(&profile, |options| options.sort = Sort::Wall);
    assert!(shown.contains("No function has a value for wall: sorted by total"), "{shown}");
    let none = Profile { functions: Vec::new(), stacks: Vec::new(), ..profile.clone() };
    let shown_of_none = table(&none, |options| options.sort = Sort::Wall);
    assert!(!shown_of_none.contains("sorted by"), "{shown_of_none}");
    assert!(!shown.contains("[system]") && body(&shown)[0].contains("main"), "{shown}");
    for sort in [
        Sort::Own,
        Sort::Total,
        Sort::Wall,
        Sort::Calls,
        Sort::Mean,
        Sort::P99,
        Sort::Max,
        Sort::Name,
    ] {
        let program = program();
        let (rows, used) = program.sorted(sort);
        assert_eq!((rows.len(), used), (4, sort));
    }
}

#[test]
fn functions_of_short_calls_have_one_line_together() {
    let mut program = program();
    let maxima: Vec<f64> = program.functions.iter().filter_map(|function| function.max).collect();
    let longest = maxima.iter().copied().fold(0.0, f64::max);
    let shown = table(&program, |options| options.min_time = longest);
    let short = maxima.iter().filter(|max| **max < longest).count();
    assert!(short > 0 && shown.contains(&format!("… and {short} functions without")), "{shown}");
    assert_eq!(shares(&shown).iter().sum::<f64>(), 100.0, "{shown}");
    assert_eq!(table(&program, |options| options.min_time = 0.0), table(&program, |_| ()));
    // A function that was never timed is not known to be short.
    program.functions.iter_mut().for_each(|function| function.max = None);
    assert!(!table(&program, |options| options.min_time = 1e9).contains('…'));
}

#[test]
fn spans_are_told_with_how_long_they_were() {
    let mut profile = program();
    let span = |from, to| crate::Span { from, to };
    let first = vec![span(0.5, 0.9), span(1.2, 1.6)];
    profile.header.recorded = Some(crate::Recorded { spans: 2, first });
    let shown = table(&profile, |_| ());
    assert!(
        shown.contains("recorded for 1.50 s (1.00 s CPU), 2 spans: 500 ms to 900 ms"),
        "{shown}"
    );
    let both = table(&Profile::merge(&[profile.clone(), profile.clone()]), |_| ());
    assert!(both.contains("4 spans") && !both.contains("spans:"), "{both}");
    let one = table(&Profile::merge(&[program(), profile]), |_| ());
    assert!(one.contains("3 spans"), "{one}");
}

#[test]
fn the_last_lines_say_in_plain_words_what_it_rests_on() {
    let mut profile = program();
    profile.functions[0].calls = Figure::estimated(5.0, 1.0, 0.0);
    profile.header.spent.lost = 2;
    let shown = table(&profile, |_| ());
    assert!(
        shown.contains(
            "4 functions (3 with exact counts), 7 514 calls timed, ran 1.50 s (1.00 s CPU)"
        ),
        "{shown}"
    );
    assert!(
        shown.contains("Overhead: 0.4 % CPU")
            && shown.contains("kernel's clock (250 Hz, 250 samples)"),
        "{shown}"
    );
    assert!(
        shown.contains("2 timed calls discarded (did not return while their probes were on)"),
        "{shown}"
    );
    profile.header.clock = ClockSource::None { why: "perf_event_paranoid is 3".to_owned() };
    profile.functions.iter_mut().for_each(|function| function.own = None);
    assert!(table(&profile, |_| ()).contains("no self times: perf_event_paranoid is 3"));
}

#[test]
fn the_overhead_of_a_program_that_hardly_runs_is_a_time() {
    let mut profile = program();
    profile.header.spent.agent = 0.005;
    profile.header.processor = 2e-6;
    let shown = table(&profile, |_| ());
    assert!(shown.contains("Overhead: 6.30 ms CPU for counting"), "{shown}");
    profile.header.processor = 0.02;
    assert!(table(&profile, |_| ()).contains(" % CPU for counting"));
}

#[test]
fn a_profile_by_the_wall_clock_speaks_of_no_cpu_time() {
    let mut profile = program();
    profile.header.wall = true;
    profile.header.clock = ClockSource::Probes;
    let shown = table(&profile, |_| ());
    assert!(shown.contains("ran 1.50 s\n") && shown.contains("Overhead: 0.4 % wall"), "{shown}");
    let compared = Profile::compare(&[profile.clone()], &[profile.clone()]);
    let compared = compared.table(&TableOptions::default());
    assert!(compared.contains("Wall time of a run"), "{compared}");
    let others = [profile.dot(), profile.callgrind(), profile.svg(), profile.firefox()];
    for text in others.into_iter().chain([shown, compared]) {
        let text = text.replace("CPUName", "").replace("threadCPUDelta", "");
        assert!(!text.contains("CPU"), "{text}");
    }
}

#[test]
fn colours_and_bars_are_for_terminals_and_change_no_width() {
    let (plain, colored) =
        (table(&program(), |_| ()), table(&program(), |options| options.color = true));
    assert!(
        !plain.contains('\x1b') && colored.contains('\x1b') && colored.contains('█'),
        "{colored}"
    );
    let mut bare = String::new();
    let mut inside = false;
    for letter in colored.chars() {
        match letter {
            '\x1b' => inside = true,
            'm' if inside => inside = false,
            _ if !inside => bare.push(letter),
            _ => {}
        }
    }
    assert!(bare.lines().take(7).all(|line| line.chars().count() <= 80), "{bare}");
}

#[test]
fn functions_of_one_name_are_told_apart() {
    let mut profile = program();
    for (at, module) in [(1, 0), (2, 1)] {
        profile.functions[at].label =
            Label { name: "init".to_owned(), module: Some(module), offset: 7, ..Label::default() };
    }
    profile.modules = ["/lib/liba.so", "/lib/libb.so"]
        .map(|path| crate::Module { path: path.to_owned(), ..Default::default() })
        .to_vec();
    let shown = table(&profile, |_| ());
    assert!(shown.contains("init [liba.so]") && shown.contains("init [libb.so]"), "{shown}");
}
