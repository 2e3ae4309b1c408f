//! `loop-traces`: the paths of iterations.

use super::*;

/// Nested loops with many kinds of exits: to the outer loop, to its middle, by a return, at their
/// end; and tables.
pub(crate) const LOOPS: &str = r#"(module (func $f (export "f") (param i32) (result i32) (local $i i32) (local $j i32)
    (loop $outer
        (local.set $j (i32.const 0))
        (block $middle
            (loop $inner
                (local.set $j (i32.add (local.get $j) (i32.const 1)))
                (if (i32.and (local.get $j) (i32.const 1)) (then (nop)) (else (br_if $middle (i32.eq (local.get $j) (local.get $i)))))
                (drop (br_if 3 (i32.const 9) (i32.gt_u (local.get $i) (i32.const 40))))
                (block $c (block $b (block $a (br_table $a $b $inner $c $middle
                    (i32.rem_u (i32.mul (local.get $i) (local.get $j)) (i32.const 6))))
                    (br $c)) (nop))
                (br_if $inner (i32.lt_u (local.get $j) (local.get 0)))
                (if (i32.eq (local.get $i) (i32.const 30)) (then (return (local.get $j)))))
            (nop))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (loop $short (br_if $short (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 3))) (i32.const 12))))
        (br_if $outer (i32.lt_u (local.get $i) (i32.mul (local.get 0) (i32.const 5)))))
    (local.get $i)))"#;

#[test]
fn paths_through_loops_add_up_to_what_branches_and_loops_have_counted() {
    let args = [0, 1, 2, 5, 7, 9];
    let reports = observed(LOOPS, &args, &["loop-traces", "branches", "loops"]);
    let (paths, times) = (words(&reports[0], "path"), counts(&reports[0], "count"));
    assert!(paths.len() > 20, "{paths:?}");
    let mut iterations: BTreeMap<String, u64> = BTreeMap::new();
    let mut ways: BTreeMap<(String, usize), u64> = BTreeMap::new();
    for ((path, times), header) in paths.iter().zip(&times).zip(words(&reports[0], "pc")) {
        *iterations.entry(header).or_default() += times;
        for decision in path.split_whitespace() {
            let (place, way) = decision.split_once(':').expect("a place and a way");
            *ways.entry((place.to_owned(), way.parse().expect("a number"))).or_default() += times;
        }
    }
    let expected: BTreeMap<String, u64> =
        words(&reports[2], "pc").into_iter().zip(counts(&reports[2], "iterations")).collect();
    assert_eq!(iterations, expected);
    let at = column(&reports[1], "ways");
    let mut compared = 0;
    for (place, row) in words(&reports[1], "pc").into_iter().zip(&reports[1].rows) {
        let Cell::Counts(expected) = &row[at] else { panic!("{row:?}") };
        let found: Vec<u64> = (0..expected.len())
            .map(|way| ways.get(&(place.clone(), way)).copied().unwrap_or_default())
            .collect();
        assert_eq!(found, *expected, "{place}");
        compared += 1;
    }
    assert_eq!(compared, 8, "every branch lies in a loop");
}

#[test]
fn a_path_with_more_decisions_than_there_is_room_for_says_so() {
    let branches = "(if (local.get 0) (then (nop)))".repeat(70);
    let text = format!(
        "(module (func (export \"f\") (param i32) (result i32) (loop {branches}) (i32.const 1)))"
    );
    let report = &observed(&text, &[1, 1], &["loop-traces"])[0];
    assert_eq!(
        (words(report, "path"), counts(report, "count")),
        (vec!["(more decisions than there is room for)".into()], vec![2])
    );
}
