//! Monitors that say how often something was executed.

use super::{Cell, Choice, Report, listing};
use std::collections::BTreeMap;
use wasm_aot_engine::instrument::runtime::{Counts, FunctionCounts, InstructionCount};
use wasmparser::Operator;

/// The functions that a monitor looks at.
fn functions<'a>(choice: &Choice, counts: &'a Counts) -> Vec<FunctionCounts<'a>> {
    counts.functions().filter(|function| choice.wants(&function.label())).collect()
}

fn label(function: &FunctionCounts<'_>) -> Cell {
    Cell::Function { name: function.label(), index: function.index() }
}

fn place(function: &FunctionCounts<'_>, offset: u32) -> Cell {
    Cell::place(offset, function.start())
}

pub(super) fn hotness(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new(
        "hotness",
        &["count", "share", "reach", "function", "pc", "instruction", "source"],
    );
    let functions = functions(choice, counts);
    let mut each: Vec<(usize, InstructionCount<'_>)> = Vec::new();
    for (i, function) in functions.iter().enumerate() {
        each.extend(function.instructions().into_iter().map(|instruction| (i, instruction)));
    }
    let total: u64 = each.iter().map(|(_, instruction)| instruction.count).sum();
    let all = each.len();
    if !choice.has("code") {
        each.retain(|(_, instruction)| instruction.count > 0);
        each.sort_by_key(|(function, instruction)| {
            (std::cmp::Reverse(instruction.count), *function, instruction.offset)
        });
    }
    let executed = each.iter().filter(|(_, instruction)| instruction.count > 0).count();
    let note = format!("{total} executions of {executed} instructions, of {all}");
    if choice.has("listing") {
        report.drawing = Some(listing::of(&functions, total) + &note + "\n");
    }
    let mut reached = 0;
    for (function, instruction) in each {
        let (function, count) = (&functions[function], instruction.count);
        reached += count;
        report.row([
            count.into(),
            Cell::share(count, total),
            Cell::share(reached, total),
            label(function),
            place(function, instruction.offset),
            instruction.text().into(),
            function.source(instruction.offset).unwrap_or_default().into(),
        ]);
    }
    report.notes.push(note);
    report.total([
        ("executions", total),
        ("executed", executed as u64),
        ("instructions", all as u64),
    ]);
    report
}

pub(super) fn branches(choice: &Choice, counts: &Counts) -> Report {
    let mut report =
        Report::new("branches", &["function", "pc", "instruction", "ways", "taken", "source"]);
    let mut total = 0;
    for function in functions(choice, counts) {
        for branch in function.branches() {
            let count = branch.count();
            total += count;
            if count == 0 && !choice.has("zero") {
                continue;
            }
            // Of a condition: where it was true. Of a table: all that did not fall to the default.
            let taken = match branch.operator {
                Operator::BrTable { .. } => count - branch.ways.last().copied().unwrap_or_default(),
                _ => branch.ways[1],
            };
            report.row([
                label(&function),
                place(&function, branch.offset),
                branch.text().into(),
                Cell::Counts(branch.ways),
                Cell::share(taken, count),
                function.source(branch.offset).unwrap_or_default().into(),
            ]);
        }
    }
    report.rows.sort_by_key(|row| std::cmp::Reverse(row[3].sum()));
    report.notes.push(format!("{total} branches"));
    report.total([("branches", total)]);
    report
}

pub(super) fn loops(choice: &Choice, counts: &Counts) -> Report {
    let mut report =
        Report::new("loops", &["function", "pc", "iterations", "entries", "mean", "source"]);
    for function in functions(choice, counts) {
        for header in function.loops() {
            if header.iterations == 0 && !choice.has("zero") {
                continue;
            }
            let mean = if header.entries == 0 {
                0.0
            } else {
                header.iterations as f64 / header.entries as f64
            };
            report.row([
                label(&function),
                place(&function, header.offset),
                header.iterations.into(),
                header.entries.into(),
                format!("{mean:.1}").into(),
                function.source(header.offset).unwrap_or_default().into(),
            ]);
        }
    }
    report.rows.sort_by_key(|row| std::cmp::Reverse(row[2].sum()));
    report
}

pub(super) fn blocks(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new("blocks", &["function", "from", "to", "count", "source"]);
    for function in functions(choice, counts) {
        for block in function.blocks() {
            if block.count > 0 || choice.has("zero") {
                report.row([
                    label(&function),
                    place(&function, block.range.start),
                    place(&function, block.range.end),
                    block.count.into(),
                    function.source(block.range.start).unwrap_or_default().into(),
                ]);
            }
        }
    }
    report.rows.sort_by_key(|row| std::cmp::Reverse(row[3].sum()));
    report
}

pub(super) fn calls(choice: &Choice, counts: &Counts) -> Report {
    let columns: &[&str] = match choice.has("graph") {
        true => &["caller", "callee", "count"],
        false => &["caller", "pc", "callee", "count", "kind", "source"],
    };
    let mut report = Report::new("calls", columns);
    let mut total = 0;
    for function in functions(choice, counts) {
        let made = function.calls_made();
        total += made.iter().map(|call| call.count).sum::<u64>();
        if choice.has("graph") {
            let mut callees: BTreeMap<String, u64> = BTreeMap::new();
            made.into_iter()
                .for_each(|call| *callees.entry(call.callee).or_default() += call.count);
            callees.into_iter().for_each(|(callee, count)| {
                report.row([label(&function), callee.into(), count.into()]);
            });
            continue;
        }
        for call in made {
            let source = function.source(call.offset).unwrap_or_default();
            let kind = Cell::from(call.kind);
            report.row([
                label(&function),
                place(&function, call.offset),
                call.callee.into(),
                call.count.into(),
                kind,
                source.into(),
            ]);
        }
    }
    let counted = columns.iter().position(|column| *column == "count").expect("a column of counts");
    report.rows.sort_by_key(|row| std::cmp::Reverse(row[counted].sum()));
    report.notes.push(format!("{total} calls"));
    report.total([("calls", total)]);
    report
}

pub(super) fn edges(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new("control-flow", &["function", "from", "to", "count", "way"]);
    for function in functions(choice, counts) {
        for edge in function.edges() {
            if edge.count > 0 {
                let end = |at: Option<u32>, outside: &str| {
                    at.map_or_else(|| outside.into(), |at| place(&function, at))
                };
                report.row([
                    label(&function),
                    end(edge.from, "caller"),
                    end(edge.to, if edge.way == "throw" { "handler" } else { "caller" }),
                    edge.count.into(),
                    edge.way.into(),
                ]);
            }
        }
    }
    if choice.has("dot") {
        report.drawing = Some(listing::graphs(&functions(choice, counts)));
    }
    report
}

pub(super) fn icount(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new("icount", &["function", "calls", "static", "dynamic", "share"]);
    let mut each = Vec::new();
    for function in functions(choice, counts) {
        let instructions = function.instructions();
        let dynamic: u64 = instructions.iter().map(|instruction| instruction.count).sum();
        each.push((dynamic, instructions.len(), function.calls(), label(&function)));
    }
    let total: u64 = each.iter().map(|(dynamic, ..)| dynamic).sum();
    let all: usize = each.iter().map(|(_, len, ..)| len).sum();
    each.retain(|(dynamic, ..)| *dynamic > 0);
    each.sort_by_key(|(dynamic, ..)| std::cmp::Reverse(*dynamic));
    for (dynamic, len, calls, label) in each {
        report.row([label, calls.into(), len.into(), dynamic.into(), Cell::share(dynamic, total)]);
    }
    report.notes.push(format!("static {all}  dynamic {total}"));
    report.total([("static", all as u64), ("dynamic", total)]);
    report
}

pub(super) fn opcodes(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new("opcodes", &["instruction", "static", "dynamic", "share"]);
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for function in functions(choice, counts) {
        for instruction in function.instructions() {
            let kind = kinds.entry(instruction.mnemonic).or_default();
            kind.0 += 1;
            kind.1 += instruction.count;
        }
    }
    let total: u64 = kinds.values().map(|(_, count)| count).sum();
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(name, (_, count))| (std::cmp::Reverse(*count), *name));
    for (name, (places, count)) in kinds {
        report.row([name.into(), places.into(), count.into(), Cell::share(count, total)]);
    }
    report.notes.push(format!("{total} instructions"));
    report.total([("instructions", total)]);
    report
}

pub(super) fn globals(choice: &Choice, counts: &Counts) -> Report {
    let mut report = Report::new("globals", &["global", "name", "reads", "writes"]);
    let mut globals: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for function in functions(choice, counts) {
        for instruction in function.instructions() {
            match instruction.operator {
                Operator::GlobalGet { global_index } => {
                    globals.entry(global_index).or_default().0 += instruction.count;
                }
                Operator::GlobalSet { global_index } => {
                    globals.entry(global_index).or_default().1 += instruction.count;
                }
                _ => {}
            }
        }
    }
    for (index, (reads, writes)) in globals {
        report.row([index.into(), counts.global_name(index).into(), reads.into(), writes.into()]);
    }
    report
}
