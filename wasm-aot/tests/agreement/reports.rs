//! The expected reports of monitors, given the execution counts of a program's instructions.

use std::collections::BTreeMap;
use wasm_aot::InstructionCount;
use wasm_aot::monitor::{Cell, Report};
use wasmparser::Operator;

/// The functions of a program, by their names, with execution counts of each instruction from an
/// independent source.
pub(crate) type Functions<'a> = [(String, Vec<InstructionCount<'a>>)];

/// A report, by columns.
pub(crate) struct Table<'a>(pub(crate) &'a Report);

impl Table<'_> {
    fn column(&self, name: &str) -> usize {
        self.0
            .columns
            .iter()
            .position(|column| *column == name)
            .unwrap_or_else(|| panic!("{name}: {:?}", self.0.columns))
    }

    pub(crate) fn counts(&self, name: &str) -> Vec<u64> {
        let at = self.column(name);
        let count = |row: &Vec<Cell>| match &row[at] {
            Cell::Count(count) => *count,
            Cell::Counts(counts) => counts.iter().sum(),
            other => panic!("{name}: {other:?}"),
        };
        self.0.rows.iter().map(count).collect()
    }

    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        let at = self.column(name);
        let word = |row: &Vec<Cell>| match &row[at] {
            cell @ (Cell::Text(_) | Cell::Function { .. } | Cell::Place { .. } | Cell::Path(_)) => {
                cell.shown()
            }
            Cell::Count(count) => count.to_string(),
            Cell::Counts(counts) => format!("{counts:?}"),
            other => panic!("{name}: {other:?}"),
        };
        self.0.rows.iter().map(word).collect()
    }

    /// The sums of a column of counts, grouped by other columns, without zeros.
    pub(crate) fn sums(&self, by: &[&str], count: &str) -> Sums {
        let keys: Vec<Vec<String>> = by.iter().map(|name| self.words(name)).collect();
        let each = self.counts(count).into_iter().enumerate();
        sums(each.map(|(row, count)| {
            (keys.iter().map(|column| column[row].clone()).collect::<Vec<_>>().join(" "), count)
        }))
    }
}

pub(crate) type Sums = BTreeMap<String, u64>;

/// Sums by key, without zeros.
pub(crate) fn sums(each: impl IntoIterator<Item = (String, u64)>) -> Sums {
    let mut sums = Sums::new();
    each.into_iter().for_each(|(key, count)| *sums.entry(key).or_default() += count);
    sums.retain(|_, count| *count > 0);
    sums
}

/// Monitors whose reports follow from the execution counts of instructions.
pub(crate) const COUNTED: [&str; 9] = [
    "hotness",
    "branches",
    "loops",
    "blocks",
    "icount",
    "opcodes",
    "globals",
    "control-flow",
    "coverage",
];

/// Compares those reports.
pub(crate) fn compare(what: &str, reports: &[Report], functions: &Functions<'_>) {
    let all = || {
        functions.iter().flat_map(|(name, instructions)| {
            instructions.iter().map(move |instruction| (name, instruction))
        })
    };
    let at = |name: &str, offset: u32| format!("{name} +{offset}");
    let places =
        sums(all().map(|(name, instruction)| (at(name, instruction.offset), instruction.count)));
    let of = |wanted: fn(&Operator<'_>) -> bool| {
        let those = all().filter(|(_, instruction)| wanted(&instruction.operator));
        sums(those.map(|(name, instruction)| (at(name, instruction.offset), instruction.count)))
    };
    let table = |name: &str| {
        Table(
            reports
                .iter()
                .find(|report| report.monitor == name)
                .unwrap_or_else(|| panic!("{name}")),
        )
    };
    assert_eq!(table("hotness").sums(&["function", "pc"], "count"), places, "{what}: hotness");
    let dynamic = sums(all().map(|(name, instruction)| (name.clone(), instruction.count)));
    assert_eq!(table("icount").sums(&["function"], "dynamic"), dynamic, "{what}: icount");
    let kinds =
        sums(all().map(|(_, instruction)| (instruction.mnemonic.to_owned(), instruction.count)));
    assert_eq!(table("opcodes").sums(&["instruction"], "dynamic"), kinds, "{what}: opcodes");
    let covered =
        sums(all().map(|(name, instruction)| (name.clone(), (instruction.count > 0).into())));
    assert_eq!(table("coverage").sums(&["function"], "covered"), covered, "{what}: coverage");
    let loops = of(|operator| matches!(operator, Operator::Loop { .. }));
    assert_eq!(table("loops").sums(&["function", "pc"], "iterations"), loops, "{what}: loops");
    // No branch traps, not even one through a table.
    let branches = of(|operator| {
        matches!(operator, Operator::If { .. } | Operator::BrIf { .. } | Operator::BrTable { .. })
    });
    assert_eq!(table("branches").sums(&["function", "pc"], "ways"), branches, "{what}: branches");
    for (place, count) in table("blocks").sums(&["function", "from"], "count") {
        assert_eq!(Some(&count), places.get(&place), "{what}: blocks: {place}");
    }
    let ways = table("control-flow");
    let comes = ways
        .sums(&["function", "to"], "count")
        .into_iter()
        .filter(|(place, _)| place.contains(" +"));
    for (place, count) in comes {
        assert_eq!(Some(&count), places.get(&place), "{what}: control-flow: {place}");
    }
    for (column, wanted) in [("reads", "global.get"), ("writes", "global.set")] {
        let expected = all()
            .filter(|(_, instruction)| instruction.mnemonic == wanted)
            .map(|(_, instruction)| instruction.count);
        assert_eq!(
            table("globals").counts(column).iter().sum::<u64>(),
            expected.sum::<u64>(),
            "{what}: globals: {column}"
        );
    }
}
