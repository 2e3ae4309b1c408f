//! Listings, graphs, and choices that are refused.

use super::*;

#[test]
fn listings_and_graphs_have_counts_beside_the_code() {
    let text = r#"(module (func $f (export "f") (param i32) (result i32)
        (loop $l (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (i32.const 4))
        (func $never))"#;
    let reports = observed(text, &[3, 5], &["hotness,listing", "control-flow,dot"]);
    let listing = reports[0].text();
    assert!(listing.starts_with("== hotness ==\nf: 2 calls\n"), "{listing}");
    let lines: Vec<Vec<&str>> =
        listing.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        lines.iter().any(|line| line[..] == ["8", "14.8%", "+8", "local.tee", "0"]),
        "{listing}"
    );
    assert!(
        listing.contains("  +1  loop\n") && listing.contains("  +3    local.get 0\n"),
        "{listing}"
    );
    assert!(!listing.contains("never"));
    let dot = reports[1].text();
    assert!(dot.contains("f0_1 [label=\"x 8\\n+1 loop\\l+3 local.get 0\\l"), "{dot}");
    assert!(
        dot.contains("f0_1 -> f0_1 [label=\"branch 6\"];") && dot.contains("f0_in -> "),
        "{dot}"
    );
    // The rows for programs are the same as before.
    assert_eq!(reports[0].rows, observed(text, &[3, 5], &["hotness"])[0].rows);
}

#[test]
fn bad_choices_are_refused_by_name() {
    let error = |choice: &str| match Choices::new([choice]) {
        Err(error) => error.to_string(),
        Ok(choices) => MonitorSet::new(choices).expect_err("refused").to_string(),
    };
    assert!(
        error("profile,depth=deep").contains("depth=deep: expected a number from 1 on"),
        "{}",
        error("profile,depth=deep")
    );
    assert!(error("profile,pprof").contains("needs a value"), "{}", error("profile,pprof"));
    assert!(
        error("memory,trace=/no/such/folder/x").contains("trace=/no/such/folder/x: No such file")
    );
    assert!(error("profle").contains("did you mean profile?"));
    assert!(error("imix").contains("did you mean opcodes?") && error("").contains("called \"\""));
    assert!(
        error("hotness,").contains("no option \"\"")
            && error("trace,form=xml").contains("text, csv and json")
    );
    let nobody = &observed(loops::LOOPS, &[1], &["loops,function=nosuch*"])[0];
    assert_eq!(nobody.notes, ["no function is called nosuch*"]);
}
