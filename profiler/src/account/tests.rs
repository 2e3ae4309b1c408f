use super::*;

/// A thousand calls in a million observed ticks, then cycles of a million ticks with a window
/// of a thousand ticks, in which no call is made.
fn silent(cycles: u64) -> Figure {
    const SPAN: u64 = 1_000_000;
    let mut account = Account::new(Ticks(0));
    account.entered(1_000);
    for cycle in 1..=cycles {
        let began = Ticks(cycle * SPAN);
        account.turn(began);
        account.open_window(began, 0.0);
        account.close_window(Ticks(began.0 + 1_000), 0.0, 0.0, 0.0);
        account.stop_counting(began, Ticks(began.0 + 1_000));
    }
    account.turn(Ticks((cycles + 1) * SPAN));
    account.calls(&Changes::default())
}

#[test]
fn what_counting_takes_beyond_what_is_known_is_in_the_interval() {
    const SPAN: u64 = 10_000_000;
    // Calls of `ticks` ticks, to which counting adds twice `cost`.
    let calls = |ticks: u64, cost: u64| {
        let mut account = Account::new(Ticks(0));
        for cycle in 0..8 {
            let began = Ticks(cycle * SPAN);
            account.turn(began);
            account.open_window(began, 0.0);
            let end = Ticks(began.0 + SPAN / 100);
            account.entered(SPAN / 100 / (ticks + 2 * cost));
            account.close_window(end, 0.0, cost as f64, 0.5 * cost as f64);
            account.stop_counting(began, end);
        }
        account.turn(Ticks(8 * SPAN));
        (account.calls(&Changes::default()), 8.0 * SPAN as f64 / ticks as f64)
    };
    // Estimated as 8.0 of 11.4 million.
    let (told, truth) = calls(7, 3);
    let (lo, hi) = told.interval();
    assert!(told.value < 0.75 * truth && lo <= truth && truth <= hi, "{told:?} of {truth}");
    // For long calls it makes no difference.
    let (told, truth) = calls(700, 3);
    assert!(told.interval().1 < 1.15 * truth, "{told:?} of {truth}");
}

#[test]
fn where_counting_takes_nearly_all_of_a_window_only_the_shortest_call_is_known() {
    const SPAN: u64 = 1_000_000;
    const WINDOW: u64 = 10_000;
    // Each entry took a hundred ticks, or between fifty and two hundred.
    let mut account = Account::new(Ticks(0));
    for cycle in 0..8 {
        let began = Ticks(cycle * SPAN);
        account.turn(began);
        account.open_window(began, 0.0);
        let end = Ticks(began.0 + WINDOW);
        account.entered(WINDOW / 100);
        account.close_window(end, 0.0, 99.0, 50.0);
        account.stop_counting(began, end);
    }
    account.turn(Ticks(8 * SPAN));
    let calls = account.calls(&Changes::default());
    // The calls of the program may have been that short all the time.
    assert!(calls.interval().1 > 7.9 * SPAN as f64, "{calls:?}");
    assert!(calls.interval().0 < 0.02 * calls.interval().1, "{calls:?}");
}

#[test]
fn what_was_counted_in_no_time_tells_no_rate() {
    let mut account = Account::new(Ticks(0));
    account.entered(1_000);
    account.stop_counting(Ticks(0), Ticks(100_000));
    account.turn(Ticks(1_000_000));
    let before = account.estimate();
    // By the hook's own clock reading, the hook was retired before the cycle began.
    account.entered(500);
    account.stop_counting(Ticks(900_000), Ticks(950_000));
    account.turn(Ticks(2_000_000));
    let calls = account.estimate();
    // 999 in 100,000 ticks, as in the cycle before.
    assert!((calls - before - 500.0 - 9_990.0).abs() < 1.0, "{before} and {calls}");
}

#[test]
fn a_few_timed_calls_tell_no_rate() {
    let mut account = Account::new(Ticks(0));
    for cycle in 1..=20 {
        account.entered(10);
        account.stop_counting(Ticks((cycle - 1) * 1_000_000), Ticks(cycle * 1_000_000 - 1));
        account.turn(Ticks(cycle * 1_000_000));
    }
    let (known, unknown) = (account.calls(&Changes::default()), account.calls_without_windows());
    assert_eq!((known.value, known.interval().0), (unknown.value, unknown.interval().0));
    assert_eq!(unknown.interval().1, known.interval().1 + account.unseen.hidden);
}

/// Cycles with a window of a hundredth of their length, in which this many entries are counted;
/// no others are counted.
fn windows(entries: &[u64]) -> Account {
    const SPAN: u64 = 1_000_000;
    let mut account = Account::new(Ticks(0));
    for (cycle, &entries) in entries.iter().enumerate() {
        let began = Ticks(cycle as u64 * SPAN);
        account.turn(began);
        account.open_window(began, 0.0);
        account.entered(entries);
        account.close_window(Ticks(began.0 + SPAN / 100), 0.0, 0.0, 0.0);
        account.stop_counting(began, Ticks(began.0 + SPAN / 100));
    }
    account.turn(Ticks(entries.len() as u64 * SPAN));
    account
}

#[test]
fn two_windows_are_judged_by_what_is_known_of_the_whole_program() {
    // Their last cycles have just ended.
    let of = |accounts: &[Account]| -> Changes {
        accounts.iter().map(|account| account.unseen.changes()).sum()
    };
    let two = windows(&[500, 600]);
    let alone = two.calls(&Changes::default());
    let half = |figure: &Figure| figure.half_width() / figure.value;
    assert!(half(&alone) > 1.0, "{alone:?}");
    let others: Vec<u64> = (0..20).map(|at| [450, 550, 500, 600][at % 4]).collect();
    let changes = of(&[windows(&others), windows(&[500, 600])]);
    let told = two.calls(&changes);
    assert_eq!(told.value, alone.value);
    assert!((0.1..0.6).contains(&half(&told)), "{told:?}");
    // Other functions whose rates change much make it less certain than its own windows do.
    let (wild, calm) = (windows(&[100, 900, 50, 1_000, 20, 950]), windows(&[500, 501]));
    let changes = of(&[wild, windows(&[500, 501])]);
    assert!(half(&calm.calls(&changes)) > 2.0 * half(&calm.calls(&Changes::default())));
    // Its own changes are not evidence of other functions.
    let own = of(&[windows(&[500, 600])]);
    assert_eq!(two.calls(&own), alone);
}

#[test]
fn windows_that_meet_no_call_prove_little_while_they_are_few() {
    let (one, many) = (silent(1).interval(), silent(400).interval());
    assert!(one.0 == 1_000.0 && (1_900.0..2_000.0).contains(&one.1), "{one:?}");
    // Of four hundred cycles without calls, four may have been like the first.
    assert!(many.0 == 1_000.0 && many.1 < 6_000.0, "{many:?}");
}
