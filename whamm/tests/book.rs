//! The chapters on the language: every script is compiled, and those of the cookbook report the
//! rows that are printed there.

mod engine;

use std::path::{Path, PathBuf};
use whamm::{Options, Source};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The code blocks in a language, each with the text up to the next one.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<(&'a str, &'a str)> {
    let fence = format!("```{language}\n");
    let parts = text.split(fence.as_str()).skip(1);
    parts.map(|part| part.split_once("\n```\n").expect("a block ends")).collect()
}

/// Rows of a report as the cookbook prints them: variable, function and offset, value.
fn shortened(report: &str) -> Vec<String> {
    let rows = report.lines().map(|line| line.split(", ").collect::<Vec<_>>());
    let rows = rows.filter(|fields| fields.len() == 11 && fields[0] != "id");
    rows.map(|fields| match (fields[2], fields[6], fields[8], fields[10]) {
        (name, "", "", value) => format!("{name} {value}"),
        (name, function, offset, value) => format!("{name} {function}+{offset} {value}"),
    })
    .collect()
}

#[test]
fn scripts_of_the_cookbook_give_the_rows_that_are_printed_there() {
    let text = std::fs::read_to_string(docs().join("cookbook.md")).expect("it is there");
    let program = wat::parse_file(docs().join("cookbook/shop.wat")).expect("it is text");
    let tasks = blocks(&text, "whamm");
    assert!(tasks.len() > 10, "{}", tasks.len());
    for (script, rest) in tasks {
        let source = [Source::new("task.mm", script)];
        let (expected, explained) = blocks(rest, "rows")[0];
        let output = whamm::instrument(&source, &[], &program, &Options::default())
            .unwrap_or_else(|wrong| panic!("{wrong}"));
        let outcome = engine::run(&output.module, &[]);
        let found = shortened(&outcome.written);
        assert_eq!(found, expected.lines().collect::<Vec<_>>(), "{script}");
        // As a monitor, too, except for scripts that the text excludes.
        let monitor = whamm::compile_monitor(&source, &[], &Options::default());
        let is_refused = explained.contains("engines refuse it");
        assert_eq!(monitor.is_err(), is_refused, "{script}");
    }
}

#[test]
fn scripts_of_the_language_page_are_right() {
    let text = std::fs::read_to_string(docs().join("whamm.md")).expect("it is there");
    let scripts = blocks(&text, "whamm");
    assert!(scripts.len() > 6, "{}", scripts.len());
    for (script, _) in scripts {
        let said = whamm::check_scripts(&[Source::new("page.mm", script)], &[]);
        assert!(said.is_empty(), "{script}\n{said}");
    }
}
