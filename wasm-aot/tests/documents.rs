//! Documents name only existing files, and identifiers that occur in the sources.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents about the code, from the crate's folder.
const DOCUMENTS: [&str; 9] = [
    "DESIGN.md",
    "doc/walkthrough.md",
    "doc/osr.md",
    "doc/counting.md",
    "doc/instruments.md",
    "doc/clif.md",
    "engine/DESIGN.md",
    "instrument/DESIGN.md",
    "body/DESIGN.md",
];

/// The crates whose sources they may name.
const CRATES: [&str; 12] = [
    ".",
    "body",
    "engine",
    "instrument",
    "wasi",
    "trace",
    "../callpatch",
    "../wordpatch",
    "../profiler",
    "../fastinst",
    "../fastinst/code",
    "../whamm",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push(path);
            }
            false => {}
        }
    }
}

fn is_part_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The texts in backticks of a document, outside of figures.
fn quoted(document: &str) -> Vec<&str> {
    let prose = document.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// Files and names in a document that do not exist in the sources.
fn missing<'d>(document: &'d str, files: &[String], names: &HashSet<String>) -> Vec<&'d str> {
    let exists = |quoted: &str| match quoted.strip_suffix(".rs") {
        Some(stem) if stem.chars().all(|c| is_part_of_a_name(c) || c == '/') => {
            files.iter().any(|file| file.ends_with(&format!("/{quoted}")))
        }
        // A path of identifiers is a name of the code; anything else is not.
        _ => {
            let parts: Vec<&str> = quoted.split("::").collect();
            let is_name = |part: &&str| !part.is_empty() && part.chars().all(is_part_of_a_name);
            !parts.iter().all(is_name) || parts.iter().all(|part| names.contains(*part))
        }
    };
    quoted(document).into_iter().filter(|quoted| !exists(quoted)).collect()
}

#[test]
fn documents_name_files_and_functions_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for name in CRATES {
        for folder in ["src", "tests"] {
            sources(&root.join(name).join(folder), &mut found);
        }
    }
    let files: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    let texts = found.iter().map(|path| fs::read_to_string(path).expect("a source"));
    let names: HashSet<String> = texts
        .flat_map(|text| {
            text.split(|c| !is_part_of_a_name(c)).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).expect(document);
        assert_eq!(missing(&text, &files, &names), [""; 0], "{document}");
    }
}

#[test]
fn a_name_that_is_gone_is_found() {
    let document = "In `lower.rs`, `Layer::Own` and `nothing::of_the_kind`; also `gone.rs`, `a + b`.\n\
                    ```text\n`not_looked_at`\n```\nand `Own`.";
    let names = ["Layer", "Own"].map(str::to_owned).into();
    let files = ["/src/lower.rs".to_owned()];
    assert_eq!(missing(document, &files, &names), ["nothing::of_the_kind", "gone.rs"]);
}
