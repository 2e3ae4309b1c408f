//! Model-checks the tables that patching threads, executing threads and the trap handler share.

use tests::ledger_model as model;

/// Every interleaving with at most three preemptions.
fn check(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(scenario);
}

#[test]
fn of_two_contenders_at_least_one_gets_its_word_and_never_both() {
    check(|| model::contenders_for_overlapping_words(2));
}

#[test]
fn of_three_contenders_in_a_row_at_least_one_gets_its_word() {
    check(|| model::contenders_for_overlapping_words(3));
}

#[test]
fn neighbours_never_meet() {
    check(model::neighbours);
}

#[test]
fn threads_that_enter_one_key_meet_at_one_entry() {
    check(model::entering_an_address_map);
}

#[test]
fn no_patch_is_lost_or_seen_half_made() {
    check(model::entering_patches);
}

#[test]
fn the_trap_handler_never_takes_one_patchs_word_for_anothers() {
    check(model::reading_the_word_that_is_replaced);
}

#[test]
fn a_trap_of_ours_is_never_taken_for_the_programs_own() {
    check(model::finding_the_owner_of_a_trap);
}

#[test]
#[should_panic(expected = "taken for the program's own")]
fn the_model_notices_a_trap_handler_that_looks_once() {
    check(model::finding_the_owner_of_a_trap_at_one_glance);
}

#[test]
fn one_thread_carries_out_a_step() {
    check(model::seizing_a_patch);
}

#[test]
fn an_end_never_ends_the_patch_after_it() {
    check(model::ending);
}

#[test]
#[should_panic(expected = "wrongly refused")]
fn the_model_notices_an_end_before_the_release_of_bytes() {
    check(model::ending_before_the_release);
}

#[test]
fn of_two_threads_that_patch_one_word_neither_is_told_that_it_overlaps() {
    check(model::beginning_beside_a_beginning);
}

#[test]
fn a_patch_is_continued_by_its_own_number() {
    check(model::continuing_beside_a_beginning);
}

#[test]
fn a_trap_is_never_given_to_an_overlapping_patch_that_is_over() {
    check(model::ending_with_a_neighbour);
}

#[test]
#[should_panic(expected = "given to the first")]
fn the_model_notices_a_release_of_bytes_before_the_end() {
    check(model::releasing_before_the_end);
}
