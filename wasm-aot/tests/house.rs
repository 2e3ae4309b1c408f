//! The dependencies between crates, and between the folders of each crate. Cargo excludes cycles
//! between crates; this test excludes cycles between the folders of a crate, too, except for the
//! listed ones, and the list may only get shorter.
//!
//! `cargo test -p wasm-aot --test house -- --nocapture` prints the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The dependencies of each node.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Folders and files of crates that still depend on each other, one cycle each.
const KNOTS: &[(&str, &[&str])] = &[
    ("fastinst", &["cli", "command", "names", "output", "runtime"]),
    ("profiler", &["compare", "profile", "reconcile", "report"]),
    ("scripts/tmax", &["findings", "measure", "report"]),
    ("tests/paper", &["peers", "table2"]),
    ("whamm", &["app", "check", "emit", "library", "rewrite"]),
    (
        "wordpatch",
        &[
            "access",
            "barrier",
            "calibration",
            "capi",
            "code_memory",
            "completion",
            "config",
            "effect",
            "error",
            "patch_in_progress",
            "fork",
            "gate",
            "lock",
            "os",
            "patch_region",
            "pending",
            "policy",
            "protocol",
            "site",
            "specimen",
            "trap",
            "vendor",
        ],
    ),
];

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of the workspace, by their folders.
fn members() -> Vec<String> {
    let manifest = text(&root().join("Cargo.toml"));
    let list = manifest.split_once("members = [").expect("a workspace").1;
    let list = list.split_once(']').expect("a list").0;
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

/// The dependencies in a manifest.
fn needs(manifest: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ']).next())
        .map(str::to_owned)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The dependencies between the crates of the workspace.
fn crates() -> Graph {
    let manifests: BTreeMap<String, String> = members()
        .iter()
        .map(|folder| {
            let manifest = text(&root().join(folder).join("Cargo.toml"));
            let name = manifest.split("name = \"").nth(1).and_then(|rest| rest.split('"').next());
            (name.expect("a name").to_owned(), manifest)
        })
        .collect();
    let ours = |name: &String| manifests.contains_key(name);
    manifests
        .iter()
        .map(|(name, manifest)| (name.clone(), needs(manifest).into_iter().filter(ours).collect()))
        .collect()
}

/// All sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|kind| kind == "rs") => found.push(path),
            false => {}
        }
    }
}

/// A source without test-only code, and without comments.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
        .collect()
}

/// The first names after each `prefix` in a source: one, or those of a list.
fn names<'a>(source: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |text: &'a str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    };
    let mut found = Vec::new();
    for (at, _) in source.match_indices(prefix) {
        if source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &source[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.push(word(&list[i..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// The dependencies between the folders and files of a crate's sources.
fn folders(src: &Path) -> Graph {
    let mut files = Vec::new();
    sources(src, &mut files);
    let unit = |path: &Path| {
        let first = path.strip_prefix(src).ok()?.components().next()?;
        Some(Path::new(&first).file_stem()?.to_str()?.to_owned())
    };
    let mut graph: Graph =
        files.iter().filter_map(|path| Some((unit(path)?, BTreeSet::new()))).collect();
    let units: BTreeSet<String> = graph.keys().cloned().collect();
    for path in &files {
        let Some(from) = unit(path).filter(|unit| !matches!(unit.as_str(), "lib" | "main")) else {
            continue;
        };
        let source = code(&text(path));
        let mut to = names(&source, "crate::");
        // A file in the crate's top folder refers to its neighbours like this.
        if path.parent() == Some(src) {
            to.extend(names(&source, "super::"));
        }
        let to = to.into_iter().filter(|to| *to != from && units.contains(*to));
        let to: Vec<String> = to.map(str::to_owned).collect();
        graph.get_mut(&from).expect("a unit").extend(to);
    }
    graph
}

/// All dependencies of a node, including indirect ones.
fn below<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&str> = vec![from];
    while let Some(at) = left.pop() {
        for to in graph.get(at).into_iter().flatten() {
            if found.insert(to.as_str()) {
                left.push(to);
            }
        }
    }
    found
}

/// The nodes that depend on themselves, through others.
fn knotted(graph: &Graph) -> BTreeSet<&str> {
    let names = graph.keys().map(String::as_str);
    names.filter(|name| below(graph, name).contains(name)).collect()
}

fn draw(title: &str, graph: &Graph) {
    println!("{title}");
    for (from, to) in graph {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        println!("    {from:<24} {}", to.join(" "));
    }
}

#[test]
fn no_crate_stands_on_itself() {
    let graph = crates();
    draw("crates", &graph);
    assert!(graph.len() > 10 && graph["wasm-aot"].contains("wasm-aot-engine"), "{graph:?}");
    assert_eq!(knotted(&graph), BTreeSet::new());
}

#[test]
fn no_folder_stands_on_itself() {
    let known: BTreeMap<&str, &[&str]> = KNOTS.iter().copied().collect();
    let mut wrong = Vec::new();
    for folder in members() {
        let graph = folders(&root().join(&folder).join("src"));
        draw(&folder, &graph);
        let found = knotted(&graph);
        let known: BTreeSet<&str> = known
            .get(folder.as_str())
            .into_iter()
            .flat_map(|names| names.iter().copied())
            .collect();
        if found != known {
            wrong.push(format!("{folder}: {found:?} are in cycles; known are {known:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let graph: Graph = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")]
        .iter()
        .map(|(from, to)| ((*from).to_owned(), BTreeSet::from([(*to).to_owned()])))
        .collect();
    assert_eq!(knotted(&graph), BTreeSet::from(["b", "c"]));
    let source =
        "use crate::one::X;\nuse crate::{two::{A, B}, three, self};\nlet x = crate::four::y;";
    assert_eq!(names(source, "crate::"), ["one", "two", "three", "self", "four"]);
}

/// Operations that only `wordpatch` may use: stores to code by other means than its one store.
const STORES: [&str; 9] = [
    "AtomicU8::from_ptr",
    "AtomicU16::from_ptr",
    "AtomicU32::from_ptr",
    "write_volatile",
    "mov byte ptr [{",
    "mov word ptr [{",
    "mov dword ptr [{",
    "mov qword ptr [{",
    "c\"/proc/self/mem",
];

/// The crates that may use them: the one with the store, and the one that measures processors by
/// deliberately wrong stores.
const OWNERS: [&str; 2] = ["wordpatch", "scripts/tmax"];

/// Only `callpatch::x86` contains hand-written instructions: no other module has three bytes in a
/// row that might be one. These files read bytes, and write none.
const READERS: [&str; 1] = ["compile/placement.rs"];

#[test]
fn nobody_but_wordpatch_stores_into_code() {
    let mut wrong = Vec::new();
    for member in members().iter().filter(|member| !OWNERS.contains(&member.as_str())) {
        let mut files = Vec::new();
        sources(&root().join(member).join("src"), &mut files);
        for path in &files {
            let source = code(&text(path));
            let found = STORES.iter().filter(|store| source.contains(**store));
            wrong.extend(found.map(|store| format!("{}: {store}", path.display())));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // The one store itself contains the searched operations.
    let store = text(&root().join("wordpatch/src/live.rs"));
    assert!(STORES.iter().filter(|how| store.contains(**how)).count() >= 4);
}

#[test]
fn the_engine_stores_into_code_and_writes_instructions_by_way_of_others() {
    let src = root().join("wasm-aot/engine/src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let is_byte = |word: &str| {
        let word = word.trim().trim_start_matches(['[', '&', '(']).trim_end_matches([']', ')']);
        word.len() == 4 && word.starts_with("0x")
    };
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with("tests.rs")) {
        let source = code(&text(path));
        let name = path.strip_prefix(&src).expect("below").display().to_string();
        wrong.extend(
            STORES
                .iter()
                .filter(|store| source.contains(**store))
                .map(|store| format!("{name}: {store}")),
        );
        // The switched object is a gate of callpatch, which uses wordpatch's store.
        if source.contains("wordpatch::live") {
            wrong.push(format!("{name}: a store of its own"));
        }
        let words: Vec<&str> = source.split(',').collect();
        let rows = words.windows(3).filter(|words| words.iter().all(|word| is_byte(word)));
        if rows.count() > 0 && !READERS.contains(&name.as_str()) {
            wrong.push(format!("{name}: bytes of instructions"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
