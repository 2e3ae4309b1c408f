//! Pages and drawings in a real browser: layout, search, order, no errors, no requests.

mod support;

use profiler::{Callee, Exemplar, Figure, FuncId, How, Module, Profile, TableOptions, bucket};
use serde_json::{Value, json};
use support::{function, profile};
use test_support::{Browser, Folder, View};

const WIDE: View = View { width: 1500, height: 900, dark: false };

/// The synthetic program, with estimated figures, and slow calls.
fn rich() -> Profile {
    let mut profile = profile();
    profile.header.command = vec!["/usr/bin/app".to_owned(), "input.txt".to_owned()];
    profile.header.floor = 61.0;
    profile.modules = vec![Module { path: "/usr/bin/app".to_owned(), build_id: String::new() }];
    for (at, function) in profile.functions.iter_mut().enumerate() {
        function.id = FuncId(at as u32 + 1);
    }
    let hash = &mut profile.functions[3];
    for (ns, calls) in [(90, 1000.0), (120, 2900.0), (5_000, 90.0), (3_000_000, 10.0)] {
        hash.histogram.add(bucket(ns), calls);
    }
    hash.calls = Figure { value: 4123.0, how: How::Estimated { lo: 4000.0, hi: 4300.0 } };
    (hash.min, hash.max) = (Some(90.0), Some(3e6));
    hash.mean = Some(Figure { value: 7840.0, how: How::Estimated { lo: 1000.0, hi: 19_000.0 } });
    hash.wall = Some(Figure { value: 8e8, how: How::Estimated { lo: 7e8, hi: 9e8 } });
    let inside = vec![Callee { function: FuncId(7), calls: 3, time: 2e6 }];
    hash.exemplars = vec![Exemplar { time: 3e6, thread: 42, at: 1.2e9, inside }];
    profile.functions[6].label.name = "walk<b>&amp;\"</script>".to_owned();
    profile
}

/// A browser that shows a file with these contents, and the file's folder.
fn shown(contents: &str, name: &str, view: View) -> Option<(Browser, Folder)> {
    let mut browser = Browser::start()?;
    let folder = Folder::new("pages");
    std::fs::write(folder.join(name), contents).unwrap();
    browser.open(&folder.join(name), view);
    if name.ends_with("html") {
        let ready = "new Promise((done) => { const look = () => \
            document.documentElement.dataset.ready ? done(true) : setTimeout(look, 5); look(); })";
        assert_eq!(browser.value(ready), true);
    }
    Some((browser, folder))
}

/// Checks that there was no error, and no request except for the file itself.
fn assert_quiet(browser: &Browser) {
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    let others = browser.requests().iter().filter(|url| !url.starts_with("data:")).count();
    assert_eq!(others, 1, "{:?}", browser.requests());
}

fn names(browser: &mut Browser) -> Vec<String> {
    let rows = browser.value(
        "[...document.querySelectorAll('#functions tbody tr[data-row]')].map((row) => row.cells[2].textContent)",
    );
    rows.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn search(browser: &mut Browser, text: &str) -> Value {
    let text = json!(text);
    browser.value(&format!(
        "(() => {{ const field = document.getElementById('search'); field.value = {text}; \
         field.dispatchEvent(new Event('input')); return document.getElementById('found').textContent; }})()"
    ))
}

#[test]
fn the_page_has_the_figures_of_the_table() {
    let profile = rich();
    let Some((mut browser, _folder)) = shown(&profile.html(), "app.html", WIDE) else { return };
    let table = profile.table(&TableOptions { wide: true, width: 400, ..TableOptions::default() });
    let rows = browser.value(
        "[...document.querySelectorAll('#functions tbody tr[data-row]')].map((row) => \
         [...row.cells].filter((cell) => !cell.querySelector('span')).map((cell) => cell.textContent))",
    );
    let rows = rows.as_array().unwrap();
    // Seven functions, the kernel's time, and the unknown time.
    assert_eq!(rows.len(), 9, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> =
            row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
        let name = cells[1];
        let line = table
            .lines()
            .find(|line| line.contains(name))
            .unwrap_or_else(|| panic!("{name}\n{table}"));
        // The module has no column of the table.
        for cell in cells.iter().filter(|cell| **cell != "app") {
            assert!(line.contains(cell), "{cell:?} in {line:?}, {cells:?}");
        }
    }
    let shares: Vec<&str> = rows.iter().map(|row| row[0].as_str().unwrap()).collect();
    let told = table.lines().skip(1).map_while(|line| line.split_whitespace().next());
    assert_eq!(shares, told.collect::<Vec<_>>(), "{table}");
    assert_quiet(&browser);
}

#[test]
fn rows_are_sorted_searched_and_found_in_the_graph() {
    let Some((mut browser, _folder)) = shown(&rich().html(), "app.html", WIDE) else { return };
    let mut sorted = |title: &str| {
        let clicked = format!(
            "(() => {{ const head = [...document.querySelectorAll('th')].find((head) => head.textContent === '{title}'); \
             head.firstChild.click(); return head.getAttribute('aria-sort'); }})()"
        );
        let order = browser.value(&clicked);
        (order.as_str().unwrap_or("").to_owned(), names(&mut browser))
    };
    let (order, by_calls) = sorted("calls");
    assert_eq!((order.as_str(), by_calls[0].as_str()), ("descending", "hash"));
    let (order, by_calls) = sorted("calls");
    assert_eq!((order.as_str(), by_calls[8].as_str()), ("ascending", "hash"));
    let (order, by_name) = sorted("function");
    assert!(order == "ascending" && by_name.is_sorted(), "{by_name:?}");
    assert_eq!(search(&mut browser, "PARSE"), "1 of 9 rows, self 20.0%");
    assert_eq!(names(&mut browser), ["parse"]);
    let found = browser.value(
        "[...document.querySelectorAll('.searching .frame.found')].map((frame) => frame.textContent)",
    );
    assert_eq!(found, json!(["parse"]));
    assert_eq!(search(&mut browser, "/^(odd|even)$/"), "2 of 9 rows, self 10.0%");
    assert_eq!(search(&mut browser, "/(/"), "invalid pattern");
    assert_eq!(search(&mut browser, "nothing of that name"), "0 of 9 rows, self 0.0%");
    assert_eq!((search(&mut browser, ""), names(&mut browser).len()), (json!(""), 9));
    assert_quiet(&browser);
}

#[test]
fn the_graph_is_zoomed_and_turned_and_a_function_is_shown_with_all_that_is_known() {
    let Some((mut browser, _folder)) = shown(&rich().html(), "app.html", WIDE) else { return };
    let frames = |browser: &mut Browser| {
        browser.value(
        "[...document.querySelectorAll('.frame:not(.above)')].map((frame) => frame.textContent)",
    )
    };
    let all = frames(&mut browser);
    assert!(all.as_array().unwrap().len() >= 9 && all[0] == "all CPU time", "{all}");
    let top = "document.querySelector('.frame[data-node=\"0\"]').offsetTop";
    assert!(browser.value(top).as_f64().unwrap() > 0.0);
    browser.value("document.getElementById('turn').click()");
    assert_eq!(browser.value(top), 0);
    browser.value("[...document.querySelectorAll('.frame')].find((frame) => frame.textContent === 'parse').click()");
    assert_eq!(frames(&mut browser), json!(["parse", "hash"]));
    let heading = "document.querySelector('#one h2').textContent";
    assert_eq!(browser.value(heading), "parse");
    browser.value("document.getElementById('out').click()");
    assert_eq!(frames(&mut browser), all);
    // Opened by its row; then by a link, and back.
    browser.value("[...document.querySelectorAll('tr[data-row]')].find((row) => row.cells[2].textContent === 'hash').click()");
    let one = "document.getElementById('one').textContent";
    let told = browser.value(one).as_str().unwrap().to_owned();
    let parts = [
        "~4123",
        "waiting ~50.0%",
        "running ~50.0%",
        "thread 42, at 1.20 s",
        "3 calls",
        "parse",
        "75.0%",
    ];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    assert_eq!(browser.value("document.querySelectorAll('#one .histogram .count').length"), 4);
    assert_eq!(browser.value("document.querySelectorAll('#one .histogram .floor').length"), 1);
    browser.value("[...document.querySelectorAll('#one a')].find((link) => link.textContent.startsWith('walk')).click()");
    assert_eq!(browser.value(heading), "walk<b>&amp;\"</script>");
    assert!(browser.value(one).as_str().unwrap().contains("No single call was timed."));
    browser.value("document.getElementById('close').click()");
    assert_eq!(browser.value("document.getElementById('one').hidden"), true);
    assert_quiet(&browser);
}

#[test]
fn the_documents_picture_is_of_this_page() {
    let view = View { width: 1280, height: 760, dark: false };
    let mut profile = rich();
    profile.functions[6].label.name = "walk".to_owned();
    let Some((mut browser, _folder)) = shown(&profile.html(), "app.html", view) else { return };
    browser.value("document.querySelector('tr[data-row=\"3\"]').click()");
    let picture = browser.picture();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{}", picture.len());
    // Fonts differ between machines, so the test checks only that it exists.
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.png");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, picture).unwrap();
    }
    assert!(file.exists(), "BLESS=1 makes it");
}

#[test]
fn nothing_is_cut_off_in_any_window_light_or_dark() {
    let page = rich().html();
    let Some((mut browser, folder)) = shown(&page, "app.html", WIDE) else { return };
    for (width, dark) in [(1500, true), (1024, false), (360, true), (360, false)] {
        browser.open(&folder.join("app.html"), View { width, height: 700, dark });
        let ready = "new Promise((done) => { const look = () => document.documentElement.dataset.ready \
            ? done(true) : setTimeout(look, 5); look(); })";
        browser.value(ready);
        for open in [false, true] {
            if open {
                browser.value("document.querySelector('tr[data-row=\"3\"]').click()");
            }
            let outside = browser.value(
                "[...document.querySelectorAll('header, #list, #one, #graph, #tools *, footer')] \
                 .filter((part) => !part.hidden && part.getBoundingClientRect().right > innerWidth + 1).map((part) => part.id)",
            );
            assert_eq!(outside, json!([]), "{width} {open}");
            let name = "document.querySelector('tr[data-row=\"3\"]').cells[2].getBoundingClientRect().width";
            assert!(browser.value(name).as_f64().unwrap() > 60.0, "{width} {open}");
            let row = "document.querySelector('tr[data-row=\"3\"]').getBoundingClientRect().bottom < innerHeight";
            assert_eq!(browser.value(row), true, "{width} {open}");
        }
        let light = "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'";
        assert_eq!(browser.value(light), !dark);
        browser.value("document.getElementById('theme').click()");
        assert_eq!(browser.value(light), dark);
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn a_page_of_ten_thousand_functions_has_only_the_rows_that_are_seen() {
    let mut profile = rich();
    for at in 0..10_000 {
        let mut more = function(100 + at, &format!("space::method_{at}"), 50.0, 0.01, 0.02, &[]);
        more.id = FuncId(100 + at);
        profile.functions.push(more);
    }
    let view = View { width: 1024, height: 700, dark: false };
    let Some((mut browser, _folder)) = shown(&profile.html(), "many.html", view) else { return };
    assert!(names(&mut browser).len() < 100);
    let last = browser.value(
        "new Promise((done) => { const list = document.getElementById('list'); list.scrollTop = list.scrollHeight; \
         requestAnimationFrame(() => requestAnimationFrame(() => done([...document.querySelectorAll('tr[data-row]')] \
         .at(-1).getBoundingClientRect().bottom <= list.getBoundingClientRect().bottom + 1))); })",
    );
    assert_eq!(last, true);
    // Columns that this window hides leave their space to the others.
    let fills = "(() => { \
        const heads = [...document.querySelectorAll('#functions th')] \
            .filter((head) => head.offsetWidth); \
        return heads.at(-1).getBoundingClientRect().right \
            >= document.getElementById('list').clientWidth - 1; \
    })()";
    assert_eq!(browser.value(fills), true);
    let ready = browser.value("document.documentElement.dataset.ready");
    println!("10 000 functions: ready after {} ms", ready.as_str().unwrap());
    assert_eq!(search(&mut browser, "method_9999"), "1 of 10008 rows, self 0.0%");
    assert_quiet(&browser);
}

#[test]
fn a_profile_in_which_nothing_happened_is_a_page_that_says_so() {
    let mut profile = rich();
    profile.functions.clear();
    profile.header.processor = 0.0;
    profile.header.system = 0.0;
    let Some((mut browser, _folder)) = shown(&profile.html(), "none.html", WIDE) else { return };
    assert!(names(&mut browser).is_empty());
    let summary = browser.value("document.getElementById('summary').textContent");
    assert!(summary.as_str().unwrap().contains("0 functions"), "{summary}");
    assert_quiet(&browser);
}

#[test]
fn a_drawing_is_zoomed_by_its_own_script() {
    let Some((mut browser, _folder)) = shown(&rich().svg(), "app.svg", WIDE) else { return };
    let seen = "[...document.querySelectorAll('g.frame')].filter((frame) => frame.style.display !== 'none').map((frame) => frame.dataset.name)";
    let all = browser.value(seen).as_array().unwrap().len();
    let click = |name: &str| {
        format!(
            "document.querySelector('g.frame[data-name=\"{name}\"]').dispatchEvent(new MouseEvent('click'))"
        )
    };
    browser.value(&click("parse"));
    assert_eq!(browser.value(seen), json!(["all CPU time", "main", "parse", "hash"]));
    browser.value(&click("all CPU time"));
    assert_eq!(browser.value(seen).as_array().unwrap().len(), all);
    assert_quiet(&browser);
}
