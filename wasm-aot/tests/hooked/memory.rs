//! `memory`: pages, and every access.

use super::*;

/// Loads and stores of all sizes, within pages and across them, and some that trap.
const ACCESSES: &str = r#"(module {imports} (memory (export "memory") 3)
    (func (export "f") (param i32) (result i32) (local i32 i32 i64 f64)
        (loop $l
            (local.set 2 (i32.load8_u offset=65533 {r 1 65533 (local.get 1)}))
            (i32.store offset=8 {w 4 8 (local.get 1)} (local.get 2))
            (local.set 3 (i64.load32_s {r 4 0 (local.get 0)}))
            (i64.store16 {w 2 0 (i32.mul (local.get 1) (i32.const 3))} (local.get 3))
            (local.set 4 (f64.load {r 8 0 (local.get 1)}))
            (f64.store offset=65530 {w 8 65530 (local.get 1)} (local.get 4))
            (drop (f32.load offset=4 {r 4 4 (local.get 0)}))
            (local.set 1 (i32.add (local.get 1) (i32.const 1021)))
            (br_if $l (i32.lt_u (local.get 1) (local.get 0))))
        (i32.load16_s {r 2 0 (i32.mul (local.get 0) (i32.const 7))})))"#;

#[test]
fn memory_says_what_each_page_sees() {
    let args = [0, 1, 5_000, 20_000, 64_000, 70_000, 100_000, -1];
    let mut expected: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for note in noted(ACCESSES, &args) {
        let Note::Access { writes, address, .. } = note else { continue };
        expected.entry(address >> 16).or_default()[usize::from(writes)] += 1;
    }
    let report = &observed(ACCESSES, &args, &["memory"])[0];
    let pages = words(report, "from")
        .into_iter()
        .map(|from| u64::from_str_radix(&from, 16).expect("an address") >> 16);
    let found = counts(report, "reads")
        .into_iter()
        .zip(counts(report, "writes"))
        .map(|(reads, writes)| [reads, writes]);
    assert_eq!(pages.zip(found).collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn a_trace_of_memory_has_every_access_in_order() {
    let args = [3_000, 70_000, -1];
    let path = std::env::temp_dir().join(format!("wasm-aot-accesses-{}", std::process::id()));
    observed(ACCESSES, &args, &[&format!("memory,trace={}", path.display())]);
    let trace = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    let found = trace.lines().map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, kind, "0", address, size, value] = fields[..] else { panic!("{line}") };
        let size: u32 = size.parse().expect("a number");
        assert_eq!(value.len() as u32, 2 * size, "{line}");
        let address =
            u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("an address");
        Note::Access { writes: kind == "store", size, address }
    });
    let (found, expected): (Vec<Note>, _) = (found.collect(), noted(ACCESSES, &args));
    assert!(
        found == expected,
        "{:?}",
        found.iter().zip(&expected).find(|(found, expected)| found != expected)
    );
}

#[test]
fn a_trace_of_memory_has_the_ranges_that_an_instruction_reads_and_writes() {
    let text = r#"(module (memory 1) (data $d "abcdef")
        (func $f (export "f") (param i32) (result i32)
            (memory.fill (i32.const 16) (i32.const 7) (i32.const 3))
            (memory.init $d (i32.const 32) (i32.const 1) (i32.const 2))
            (memory.copy (i32.const 40) (i32.const 31) (i32.const 4))
            (memory.fill (i32.const 50) (i32.const 7) (i32.const 0))
            (i32.const 0)))"#;
    let path = std::env::temp_dir().join(format!("wasm-aot-ranges-{}", std::process::id()));
    observed(text, &[0], &[&format!("memory,trace={}", path.display())]);
    let trace = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    let lines: Vec<Vec<&str>> = trace.lines().map(|line| line.split(',').collect()).collect();
    let found: Vec<_> = lines.iter().map(|fields| (fields[0], &fields[2..])).collect();
    let expected: [(&str, &[&str]); 4] = [
        ("f", &["store", "0", "0x10", "3", "070707"]),
        ("f", &["store", "0", "0x20", "2", "6362"]),
        ("f", &["load", "0", "0x1f", "4", "00636200"]),
        ("f", &["store", "0", "0x28", "4", "00636200"]),
    ];
    assert_eq!(found, expected, "{trace}");
}
