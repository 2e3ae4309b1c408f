//! The book in `docs/`: chapters, links, and the commands of the tutorial.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All documents below a folder, without built and foreign ones.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The lines of a document that are not code.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    text.lines()
        .filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence && !line.starts_with("    ")
        })
        .collect()
}

/// The link targets of a document: those of `[…](target)`.
fn links(text: &str) -> Vec<String> {
    let code_left_out = |line: &&str| {
        line.split('`').step_by(2).collect::<Vec<_>>().join("`").replace("](", "\u{1}")
    };
    let lines: Vec<String> = prose(text).iter().map(code_left_out).collect();
    let lines = lines.join("\n");
    let ends = lines.split('\u{1}').skip(1);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of headings, as mdBook and forges name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let name = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(name).collect()
}

#[test]
fn every_link_of_every_document_leads_somewhere() {
    let mut list = Vec::new();
    documents(&root(), &mut list);
    assert!(list.len() > 20, "{list:?}");
    let mut broken = Vec::new();
    for document in &list {
        let text = std::fs::read_to_string(document).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.with_file_name(file),
            };
            let is_there = target.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor));
            // A link out of the book is a dead end for its readers.
            let book = root().join("docs");
            let leaves = document.starts_with(&book) && file.starts_with("..");
            if !is_there || leaves {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_chapter_is_in_the_book_and_the_book_is_built() {
    let docs = root().join("docs");
    let contents = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = links(&contents).into_iter().collect();
    let mut there = Vec::new();
    documents(&docs, &mut there);
    let relative = |path: &PathBuf| path.strip_prefix(&docs).unwrap().to_str().unwrap().to_owned();
    let there: BTreeSet<String> =
        there.iter().map(relative).filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, there);
    if !has("mdbook") {
        return;
    }
    let to = folder("book");
    let built = Path::new(env!("CARGO_BIN_EXE_fastinst")).parent().unwrap();
    let mut command = clean(Command::new(root().join("scripts/book")));
    let output = run(command.arg("--built").arg(built).arg("--to").arg(&to));
    assert!(output.status.success(), "{output:?}");
    for name in &there {
        assert!(to.join(name).with_extension("html").is_file(), "{name}");
    }
    // The help texts of the commands become the reference.
    let reference = std::fs::read_to_string(to.join("reference/fastinst.html")).unwrap();
    assert!(reference.contains("Profile a running process"), "{reference}");
}

/// The lines of a document that a reader types.
fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("    $ ")).collect()
}

#[test]
fn the_tutorial_does_what_it_says() {
    if !has("gcc") || !has("bash") {
        return;
    }
    let docs = root().join("docs");
    let text = std::fs::read_to_string(docs.join("tutorial.md")).unwrap();
    let to = folder("tutorial");
    for entry in std::fs::read_dir(docs.join("tutorial")).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    let lines = commands(&text);
    assert!(lines.len() > 15, "{lines:?}");
    // `wait` returns how the server ended: by the signal of the line before.
    let checked = |line: &&str| match *line {
        line if line.contains("wait ") => line.to_owned(),
        line if line.ends_with("server=$!") => line.to_owned(),
        line => format!("{line} || {{ echo \"failed: {}\" >&2; exit 1; }}", line.replace('"', "'")),
    };
    // Processes that are still running after a failed command are ended.
    let script = format!(
        "trap 'kill $server $load 2>/dev/null' EXIT\n{}\n",
        lines.iter().map(checked).collect::<Vec<_>>().join("\n")
    );
    let bin = Path::new(env!("CARGO_BIN_EXE_fastinst")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = clean(Command::new("bash"));
    let output = run(command.current_dir(&to).env("PATH", path).args(["-c", &script]));
    let (shown, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{shown}\n{said}");
    // The profiles of the program without and with probes, the slowest calls, and the comparison.
    for wanted in ["put (store.c:", "serve_client", "by_key (store.c:", "Slowest calls", "→"] {
        assert!(shown.contains(wanted), "{wanted}:\n{shown}\n{said}");
    }
    assert!(said.contains("attached to"), "{said}");
    let page = std::fs::read_to_string(to.join("live.html")).unwrap();
    assert!(page.contains("put"), "the page has the function");
}

#[test]
fn pictures_are_made_of_real_output() {
    if !["python3", "gcc", "chromium-headless-shell"].iter().all(|tool| has(tool)) {
        return;
    }
    let has_terminal = run(Command::new("python3").args(["-c", "import pyte"])).status.success();
    if !test_support::require(has_terminal, "pyte, a package of PyPI") {
        return;
    }
    let to = folder("screenshots");
    let built = Path::new(env!("CARGO_BIN_EXE_fastinst")).parent().unwrap();
    let mut command = clean(Command::new(root().join("scripts/screenshots")));
    let output = run(command.arg("--built").arg(built).arg("--to").arg(&to));
    assert!(output.status.success(), "{output:?}");
    let table = std::fs::read_to_string(to.join("table.svg")).unwrap();
    assert!(table.starts_with("<svg ") && table.contains("count_word (words.c:"), "{table}");
    assert!(std::fs::read(to.join("page.png")).unwrap().starts_with(b"\x89PNG"));
    for (name, what) in [("top.svg", "serve_client"), ("top-function.svg", "p99 of the calls")] {
        let screen = std::fs::read_to_string(to.join(name)).unwrap();
        assert!(screen.contains("server serve kv.sock") && screen.contains(what), "{screen}");
    }
    // Figures differ between runs, so the test checks only that those of the documents exist.
    for name in ["table.svg", "page.png", "top.svg", "top-function.svg"] {
        assert!(root().join("docs/figures").join(name).is_file(), "{name}");
    }
}
