//! Unusual scripts, as editors, other systems and accidents produce them: each is formatted or
//! rejected with a place, and a formatted script does not change again.

use whamm::Source;

/// Scripts that are valid but look odd.
const RIGHT: &[(&str, &str)] = &[
    ("a comment only", "// nothing yet"),
    ("nothing", ""),
    ("blanks only", " \t\r\n\n"),
    (
        "line ends of other systems",
        "wasm:opcode:call:before {\r\n\treport var n: u32;\r\n\tn++;\r\n}\r\n",
    ),
    ("old line ends", "wasm:opcode:call:before {\r report var n: u32;\r n++;\r }\r"),
    ("tabs", "\t\twasm:opcode:call:before\t{\treport var n: u32;\tn++;\t}"),
    ("a mark in front", "\u{feff}wasm:opcode:call:before { report var n: u32; n++; }\n"),
    (
        "other alphabets",
        "// é — 日本\nreport var t: str = \"日本 €\"; wasm:opcode:call:before { t = \"ü\"; /* ∑ */ }",
    ),
    (
        "comments behind an empty mode",
        "wasm:opcode:br: // first\n / imm0 == 1 / { report var n: u32; n++; } wasm:opcode:nop: /* second */ { report var n: u32; n++; }",
    ),
    (
        "signs",
        "wasm:opcode:call:before { report var n: i32; n = - -n - - - n; n = --n * (--n)--- n; n--; print(- -1); }",
    ),
    (
        "a comment without an end of line",
        "wasm:opcode:call:before { report var n: u32; n++; } // end",
    ),
];

#[test]
fn odd_scripts_are_laid_out_once_and_for_all() {
    for (what, text) in RIGHT {
        let laid = whamm::layout(&Source::new("odd.mm", *text))
            .unwrap_or_else(|said| panic!("{what}: {said}"));
        let again =
            whamm::layout(&Source::new("odd.mm", laid.as_str())).expect("it was right before");
        assert_eq!(laid, again, "{what}");
        assert!(!laid.contains(['\r', '\u{feff}']), "{what}: {laid:?}");
        let symbols = |text: &str| text.replace([' ', '\t', '\r', '\n', '\u{feff}'], "");
        assert_eq!(symbols(text), symbols(&laid), "{what}");
        let said = whamm::check_scripts(&[Source::new("odd.mm", *text)], &[]);
        assert_eq!(said.has_errors(), !text.contains("wasm:"), "{what}: {said}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_refused_at_its_place() {
    let around = |body: String| format!("wasm:opcode:call:before {{ report var n: i32; {body} }}");
    for (text, why) in [
        (around(format!("n = n{};", " + 1".repeat(20_000))), "chain of operators is too long"),
        (around(format!("n = {}1{};", "(".repeat(5_000), ")".repeat(5_000))), "nested too deeply"),
        (around(format!("n = {}1;", "-".repeat(3_000))), "nested too deeply"),
        (around("if (n == 0) { ".repeat(300) + "n++;" + &" }".repeat(300)), "nested too deeply"),
        (
            around("if (n == 0) { n++; }".to_owned() + &" elif (n == 1) { n++; }".repeat(3_000)),
            "chain of conditions is too long",
        ),
        (
            format!("report var m: {}u32{};", "map<u32, ".repeat(2_000), ">".repeat(2_000)),
            "nested too deeply",
        ),
    ] {
        let said = whamm::check_scripts(&[Source::new("odd.mm", text.as_str())], &[]).to_string();
        assert!(said.contains(why) && said.contains("--> odd.mm:1:"), "{why}: {said}");
        assert!(said.lines().all(|line| line.chars().count() < 400), "{said}");
        assert!(whamm::layout(&Source::new("odd.mm", text.as_str())).is_err(), "{why}");
    }
}

#[test]
fn an_excerpt_commands_no_terminal_and_turns_nothing_around() {
    for odd in ['\0', '\u{1b}', '\u{7f}', '\u{202e}', '\u{2066}', '\u{9b}'] {
        let text = format!("wasm:opcode:call:before {{ /* {odd} */ nothing++; }}");
        let said = whamm::check_scripts(&[Source::new("odd.mm", text)], &[]).to_string();
        assert!(!said.contains(odd) && said.contains("/* \u{fffd} */ nothing"), "{odd:?}: {said}");
    }
}
