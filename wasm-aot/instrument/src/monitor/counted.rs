//! The monitors that are made of execution counts, such as `hotness`, `branches` and `calls`.

use super::kept::{self, ProfileFile};
use super::{Cell, Choice, Report, listing};
use profiler::{Arc, FuncId, Function, Header, Label, Policy, Profile};
use std::collections::{BTreeMap, HashMap};
use wasm_aot_body::report::several;
use wasm_aot_engine::instrument::runtime::{Counts, FunctionCounts, InstructionCount};
use wasmparser::Operator;

/// The functions that a monitor observes.
fn functions<'a>(choice: &Choice, counts: &'a Counts) -> Vec<FunctionCounts<'a>> {
    counts.functions().filter(|function| choice.wants(&function.label())).collect()
}

fn label(function: &FunctionCounts<'_>) -> Cell {
    Cell::Function { name: function.label(), index: function.index() }
}

/// What was called: a function of the program, or one that has no index there.
fn callee(name: String, index: Option<u32>) -> Cell {
    match index {
        Some(index) => Cell::Function { name, index },
        None => name.into(),
    }
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
    let note = format!(
        "{} of {}, of {all}",
        several(total, "execution"),
        several(executed as u64, "instruction")
    );
    if choice.has("listing") {
        report.drawing = Some(listing::draw_listing(&functions, total) + &note + "\n");
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
            // For a condition: how often it was true. For a table: all except the default.
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
    report.total_of(["iterations", "entries"]);
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
    report.total_of(["count"]);
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
            let mut callees: BTreeMap<_, u64> = BTreeMap::new();
            made.into_iter().for_each(|call| {
                *callees.entry((call.callee, call.callee_index)).or_default() += call.count;
            });
            callees.into_iter().for_each(|((name, index), count)| {
                report.row([label(&function), callee(name, index), count.into()]);
            });
            continue;
        }
        for call in made {
            let source = function.source(call.offset).unwrap_or_default();
            let kind = Cell::from(call.kind);
            report.row([
                label(&function),
                place(&function, call.offset),
                callee(call.callee, call.callee_index),
                call.count.into(),
                kind,
                source.into(),
            ]);
        }
    }
    let counted = columns.iter().position(|column| *column == "count").expect("a column of counts");
    report.rows.sort_by_key(|row| std::cmp::Reverse(row[counted].sum()));
    report.notes.push(several(total, "call"));
    report.total([("calls", total)]);
    if let Some(file) = choice.profile()
        && let Err(error) = write_calls(file, choice, counts)
    {
        report.remark(format!("file: {error}"));
    }
    report
}

/// Writes calls as a profile: how often each function was called, and by which.
fn write_calls(file: &ProfileFile, choice: &Choice, counts: &Counts) -> std::io::Result<()> {
    let all = functions(choice, counts);
    let labels: Vec<Label> = all
        .iter()
        .map(|function| {
            let source = function.source(0).unwrap_or_default();
            kept::label_of(function.label(), function.index(), &source)
        })
        .collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, label) in labels.iter().enumerate() {
        places.entry(label.name.clone()).or_insert(place);
    }
    let mut arcs: HashMap<usize, Vec<Arc>> = HashMap::new();
    for (caller, label) in all.iter().zip(&labels) {
        for call in caller.calls_made() {
            // Functions of the host are not in this profile.
            let Some(place) = places.get(&call.callee) else { continue };
            arcs.entry(*place).or_default().push(Arc {
                site: (caller.start() + call.offset).into(),
                samples: call.count,
                share: call.count as f64 / all[*place].calls().max(1) as f64,
                caller: Some(label.clone()),
            });
        }
    }
    let called = all.iter().zip(labels).enumerate().filter(|(_, (one, _))| one.calls() > 0);
    let functions = called.map(|(place, (function, label))| Function {
        arcs: arcs.remove(&place).unwrap_or_default(),
        ..Function::counted(FuncId(function.index() + 1), label, function.calls())
    });
    let functions = functions.collect();
    let header =
        Header { policy: Policy::Count.to_string(), hz: 1e9, step: 1, ..Header::default() };
    let profile = Profile { header, modules: Vec::new(), functions, stacks: Vec::new() };
    file.write(None, profile)
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
    report.total_of(["count"]);
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
    report.notes.push(several(total, "instruction"));
    report.total([("instructions", total)]);
    report.total_of(["static"]);
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
    report.total_of(["reads", "writes"]);
    report
}
