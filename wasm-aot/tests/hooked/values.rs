//! `const` and `alloc`: what programs pass and allocate.

use super::*;

#[test]
fn arguments_are_constant_until_another_one_is_seen() {
    let text = r#"(module (func $same (param i32 f64 v128) (result i32) (local.get 0))
        (func $later (param i64)) (func $never (param i32))
        (func $f (export "f") (param i32) (result i32)
            (call $later (i64.extend_i32_s (i32.ge_s (local.get 0) (i32.const 4))))
            (call $same (i32.const -7) (f64.const 0.5) (v128.const i32x4 1 0 0 2))))"#;
    let rows = |args: &[i32]| {
        let report = &observed(text, args, &["const"])[0];
        words(report, "function")
            .into_iter()
            .zip(words(report, "arguments"))
            .collect::<BTreeMap<_, _>>()
    };
    let same = ("same".to_owned(), "(-7, 0.5, 0x00000002000000000000000000000001)".to_owned());
    let expected = |f: &str, later: &str| {
        BTreeMap::from([same.clone(), ("f".into(), f.into()), ("later".into(), later.into())])
    };
    assert_eq!(rows(&[3]), expected("(3)", "(0)"));
    assert_eq!(rows(&[3, 3]), expected("(3)", "(0)"), "in two instances");
    assert_eq!(rows(&[1, 2, 3, 4]), expected("(?)", "(?)"));
}

#[test]
fn what_is_allocated_is_known_by_who_has_asked_for_it_until_it_is_freed() {
    let text = r#"(module (memory 1) (global $next (mut i32) (i32.const 64))
        (func $inner (param i32) (result i32) (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
        (func $malloc (export "malloc") (param i32) (result i32) (call $inner (local.get 0)))
        (func $realloc (export "realloc") (param i32 i32) (result i32) (call $malloc (local.get 1)))
        (func $free (export "free") (param i32) (if (i32.eqz (local.get 0)) (then (unreachable))))
        (func $make (param i32) (result i32) (call $malloc (local.get 0)))
        (func $f (export "f") (param i32) (result i32) (local i32)
            (drop (call $make (i32.const 100)))
            (local.set 1 (call $make (i32.const 50)))
            (local.set 1 (call $realloc (local.get 1) (i32.const 70)))
            (call $free (local.get 1)) (call $free (i32.const 9999))
            (drop (call $malloc (local.get 0))) (call $free (i32.const 0)) (i32.const 0)))"#;
    let report = &observed(text, &[5], &["alloc,depth=2"])[0];
    let sites = words(report, "site").into_iter().map(|site| {
        site.split(" < ")
            .map(|place| place.split('+').next().expect("a name").to_owned())
            .collect::<Vec<_>>()
            .join(" < ")
    });
    let rows = sites
        .zip(counts(report, "bytes"))
        .zip(counts(report, "live bytes"))
        .map(|((site, bytes), live)| (site, bytes, live));
    // Calls inside of realloc are not reported separately.
    let expected = [("make < f", 100, 100), ("f", 70, 0), ("make < f", 50, 0), ("f", 5, 5)];
    assert_eq!(
        rows.collect::<Vec<_>>(),
        expected.map(|(site, bytes, live)| (site.to_owned(), bytes, live))
    );
    assert_eq!(
        report.notes[0],
        "allocated: 225 bytes in 4 blocks; still there: 105 bytes in 2 blocks, 170 at most at once"
    );
    assert!(
        report.notes[1].starts_with("freed and not seen allocated: 1 block"),
        "{:?}",
        report.notes
    );
}

#[test]
fn allocators_of_zig_are_known_by_their_modules() {
    let text = r#"(module (memory 1) (global $next (mut i32) (i32.const 64))
        (func $c.malloc.malloc (export "malloc") (param i32) (result i32)
            (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
        (func $c.malloc.free (param i32) (global.set $next (local.get 0)))
        (func $list.free (param i32) (global.set $next (local.get 0)))
        (func $f (export "f") (param i32) (result i32) (local i32)
            (local.set 1 (call $c.malloc.malloc (i32.const 10)))
            (call $list.free (i32.const 8))
            (call $c.malloc.free (local.get 1)) (i32.const 0)))"#;
    let report = &observed(text, &[1], &["alloc"])[0];
    assert_eq!((counts(report, "bytes"), counts(report, "live")), (vec![10], vec![0]));
    assert!(!report.notes.iter().any(|note| note.contains("not seen")), "{:?}", report.notes);
}
