//! Prints functions with counts beside their instructions: as text, and as graphs.

use std::fmt::Write as _;
use wasm_aot_body::report::several;
use wasm_aot_engine::instrument::runtime::{
    BlockCount, EdgeCount, FunctionCounts, InstructionCount,
};
use wasmparser::Operator;

/// The text of functions that were called: how often each instruction was executed, its part of all
/// executions, and where it comes from.
pub(super) fn draw_listing(functions: &[FunctionCounts<'_>], total: u64) -> String {
    let mut out = String::from("== hotness ==\n");
    for function in functions.iter().filter(|function| function.calls() > 0) {
        let _ = writeln!(out, "{}: {}", function.label(), several(function.calls(), "call"));
        let (mut depth, mut before) = (0usize, None);
        for instruction in function.instructions() {
            let (closes, opens) = nesting(&instruction.operator);
            depth = depth.saturating_sub(closes);
            let source = function.source(instruction.offset);
            // A line is printed once.
            let source_shown = source
                .clone()
                .filter(|_| source != before)
                .map_or(String::new(), |source| format!("  ;; {source}"));
            before = source;
            let _ = writeln!(
                out,
                "{:>12} {:>6} {:>6}  {}{}{source_shown}",
                shown(instruction.count),
                share(instruction.count, total),
                format!("+{}", instruction.offset),
                "  ".repeat(depth.min(40)),
                instruction.text()
            );
            depth += opens;
        }
        out.push('\n');
    }
    out
}

/// Empty for 0, so that executed instructions stand out.
fn shown(count: u64) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}

fn share(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        percent if percent < 0.05 => String::new(),
        percent => format!("{percent:.1}%"),
    }
}

/// How many frames an instruction ends, and how many it begins.
fn nesting(op: &Operator<'_>) -> (usize, usize) {
    match op {
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::Try { .. }
        | Operator::TryTable { .. } => (0, 1),
        Operator::Else | Operator::Catch { .. } | Operator::CatchAll => (1, 1),
        Operator::End | Operator::Delegate { .. } => (1, 0),
        _ => (0, 0),
    }
}

/// The graphs of functions that were called: blocks with their instructions and counts, edges with
/// theirs; edges that were never taken are dashed.
pub(super) fn graphs(functions: &[FunctionCounts<'_>]) -> String {
    let mut out =
        String::from("digraph \"control-flow\" {\n  node [shape=box, fontname=monospace];\n");
    for function in functions.iter().filter(|function| function.calls() > 0) {
        let index = function.index();
        let _ = writeln!(
            out,
            "  subgraph cluster_{index} {{\n    label=\"{}\";",
            quoted(&function.label())
        );
        let instructions = function.instructions();
        function.blocks().iter().for_each(|block| node(&mut out, index, block, &instructions));
        let _ = writeln!(
            out,
            "    f{index}_in [label=\"called\", shape=oval];\n    f{index}_out [label=\"left\", shape=oval];"
        );
        function.edges().iter().for_each(|each| edge(&mut out, index, each));
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn node(
    out: &mut String,
    function: u32,
    block: &BlockCount,
    instructions: &[InstructionCount<'_>],
) {
    let inside =
        instructions.iter().filter(|instruction| block.range.contains(&instruction.offset));
    // To the left: \l ends a line so.
    let lines: String = inside.map(|i| format!("+{} {}\\l", i.offset, quoted(&i.text()))).collect();
    let _ = writeln!(
        out,
        "    f{function}_{} [label=\"x {}\\n{lines}\"];",
        block.range.start, block.count
    );
}

fn edge(out: &mut String, function: u32, edge: &EdgeCount) {
    let end = |place: Option<u32>, outside: &str| match place {
        Some(offset) => format!("f{function}_{offset}"),
        None => format!("f{function}_{outside}"),
    };
    let style = if edge.count == 0 { ", style=dashed" } else { "" };
    let (from, to) = (end(edge.from, "in"), end(edge.to, "out"));
    let _ = writeln!(out, "    {from} -> {to} [label=\"{} {}\"{style}];", edge.way, edge.count);
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
