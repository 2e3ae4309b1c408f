use super::*;
use crate::report::made_up::{about, function, profile};

/// Pseudorandom numbers that are the same in every run of the tests (Steele, Lea and Flood 2014).
struct Chance(u64);

impl Chance {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normally distributed number (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().max(1e-300).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (mut product, mut count, limit) = (self.uniform(), 0.0, (-mean).exp());
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}

/// Typical shares of self time: the first function takes a quarter, each further one three quarters
/// of the one before.
fn shares(functions: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..functions).map(|at| 0.75f64.powi(at as i32)).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|share| share / sum).collect()
}

/// A run of a program of eight seconds with a clock that takes 2,000 samples. The machine is up to
/// some per cent faster or slower from run to run, each function once more, and counts are
/// estimated within 5 %.
fn run(chance: &mut Chance, shares: &[f64]) -> Profile {
    let machine = (0.03 * chance.normal()).exp();
    let functions = shares.iter().enumerate().map(|(at, share)| {
        let own = chance.poisson(2000.0 * share) / 2000.0
            * 8e9
            * machine
            * (0.01 * chance.normal()).exp();
        let mut function = function(&format!("f{at}"), 1000, 500, 0.0, 0.0);
        (function.own, function.total) =
            (about(own, 0.8 * own, 1.2 * own), about(2.0 * own, own, 3.0 * own));
        let calls = if at % 4 == 0 { 1e6 * (0.05 * chance.normal()).exp() } else { 1000.0 };
        function.calls =
            if at % 4 == 0 { Figure::estimated(calls, 1e5, 0.0) } else { Figure::exact(calls) };
        function
    });
    profile(8.0 * machine, functions.collect())
}

fn runs(chance: &mut Chance, count: usize, shares: &[f64]) -> Vec<Profile> {
    (0..count).map(|_| run(chance, shares)).collect()
}

#[test]
fn of_identical_programs_less_than_one_function_in_a_hundred_is_called_changed() {
    let mut chance = Chance(1);
    let (mut told, mut calls, mut all, mut pairs) = (0, 0, 0, 0);
    for round in 0..200 {
        let shares = shares([12, 30, 80][round % 3]);
        let count = [2, 3, 5, 10][round % 4];
        let comparison = Profile::compare(
            &runs(&mut chance, count, &shares),
            &runs(&mut chance, count, &shares),
        );
        told += comparison.slower + comparison.faster;
        pairs += usize::from(comparison.slower + comparison.faster > 0);
        calls += comparison.calls_changed;
        all += comparison.functions.len();
    }
    assert!(
        told * 100 <= all && calls * 100 <= all,
        "{told} and {calls} of {all}, in {pairs} of 200 pairs"
    );
    assert!(pairs <= 40, "{pairs} of 200 pairs");
}

#[test]
fn a_slowdown_of_a_fifth_in_one_function_is_found_with_ten_runs_a_side() {
    let mut chance = Chance(2);
    // The functions with 19, 8 and 6 % of the time, out of 30; each must be found in at least this
    // many of 40 comparisons.
    for (at, least) in [(1, 40), (4, 38), (5, 36)] {
        let before = shares(30);
        let mut after = before.clone();
        after[at] *= 1.2;
        let found = (0..40).filter(|_| {
            let comparison =
                Profile::compare(&runs(&mut chance, 10, &before), &runs(&mut chance, 10, &after));
            let change =
                comparison.functions.iter().find(|change| change.name == format!("f{at}")).unwrap();
            change.verdict == Verdict::Slower
        });
        let found = found.count();
        assert!(
            found >= least,
            "a function of {:.1} %: found in {found} of 40",
            100.0 * before[at]
        );
    }
}

#[test]
fn one_run_a_side_is_never_significant() {
    let (before, mut after) =
        (profile(1.0, vec![function("f", 10, 500, 400.0, 400.0)]), profile(1.0, Vec::new()));
    after.functions = vec![function("f", 1000, 500, 900.0, 900.0)];
    for (before, after) in
        [(vec![before.clone()], vec![after.clone()]), (vec![before; 10], vec![after])]
    {
        let comparison = Profile::compare(&before, &after);
        assert_eq!(
            (comparison.slower, comparison.faster, comparison.calls_changed, comparison.untested),
            (0, 0, 0, 1)
        );
        assert_eq!(comparison.functions[0].verdict, Verdict::Untested);
        assert_eq!(comparison.functions[0].ratio.unwrap().value, 2.25);
    }
}

#[test]
fn exact_counts_that_differ_in_all_runs_are_told_and_functions_that_come_and_go() {
    let mut chance = Chance(3);
    let (before, mut after) =
        (runs(&mut chance, 6, &shares(12)), runs(&mut chance, 6, &shares(12)));
    for profile in &mut after {
        profile.functions[1].calls = Figure::exact(1001.0);
        profile.functions[11].label.name = "brand_new".to_owned();
    }
    let comparison = Profile::compare(&before, &after);
    let of = |name: &str| comparison.functions.iter().find(|change| change.name == name).unwrap();
    assert!(of("f1").calls_changed && !of("f2").calls_changed);
    assert_eq!(
        (of("brand_new").verdict, of("f11").verdict, comparison.new_and_gone()),
        (Verdict::New, Verdict::Gone, [1, 1])
    );
}

#[test]
fn without_self_times_totals_are_compared() {
    let mut chance = Chance(4);
    let mut sides = [runs(&mut chance, 4, &shares(5)), runs(&mut chance, 4, &shares(5))];
    sides
        .iter_mut()
        .flatten()
        .flat_map(|profile| &mut profile.functions)
        .for_each(|function| function.own = None);
    let comparison = Profile::compare(&sides[0], &sides[1]);
    assert_eq!((comparison.compared, comparison.unchanged), (Compared::Total, 5));
}

/// As of functions that got their probes while the program ran.
#[test]
fn lower_bounds_of_calls_are_not_compared() {
    let mut chance = Chance(4);
    let mut run = |calls: f64, with_rare: bool| {
        let mut run = run(&mut chance, &shares(4));
        run.functions[0].calls = about(calls, calls, 2.0 * calls).unwrap();
        if with_rare {
            let mut rare = function("rare", 5, 5, 0.0, 0.0);
            rare.calls = about(5.0, 5.0, 9.0).unwrap();
            run.functions.push(rare);
        }
        run
    };
    let before: Vec<Profile> = (0..5).map(|at| run(100.0 + f64::from(at), false)).collect();
    let after: Vec<Profile> = (0..5).map(|at| run(900.0 + f64::from(at), true)).collect();
    let comparison = Profile::compare(&before, &after);
    let of = |name| comparison.functions.iter().find(|change| change.name == name).unwrap();
    assert!(!of("f0").calls_changed);
    assert_eq!(of("f0").calls[0].unwrap().mark(), Mark::AtLeast);
    assert_eq!(comparison.new_and_gone(), [0, 0]);
}

#[test]
fn a_ratio_of_no_samples_has_an_interval() {
    let of = |values: &[f64]| Summary::of(values);
    let ratio = |before: &[f64], after: &[f64]| ratio(&of(before), &of(after)).interval();
    let (lo, hi) = ratio(&[10.0, 12.0, 8.0, 11.0], &[0.0; 4]);
    assert!(lo == 0.0 && hi > 0.1, "{lo} {hi}");
    let (lo, hi) = ratio(&[10.0, 12.0, 8.0, 11.0], &[20.0, 22.0, 19.0, 21.0]);
    assert!(lo < 2.0 && 2.0 < hi && hi - lo < 2.0, "{lo} {hi}");
}
