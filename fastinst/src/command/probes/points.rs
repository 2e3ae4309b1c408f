//! Points that a file names for tools.

use super::Failure;
use fastinst::discovery::Module;
use fastinst::discovery::points::{Pair, Point, PointTable, pairs, points};
use fastinst::symbols::{Pattern, Subject};
use serde_json::json;
use std::fmt::Write;

/// A point, and the other one of its pair.
#[derive(Debug)]
pub(super) struct Line<'m> {
    module: &'m Module,
    point: Point,
    /// The point at which passes from here end.
    end: Option<String>,
}

/// The points of these modules.
pub(super) fn list<'m>(
    modules: &'m [Module],
    include: &[Pattern],
    exclude: &[Pattern],
) -> Result<Vec<Line<'m>>, Failure> {
    let mut lines = Vec::new();
    for module in modules {
        let found = points(module).map_err(|error| Failure::Refused(error.to_string()))?;
        let pairs = pairs(found.iter(), &[]);
        let end = |point: &Point| {
            let pair: Option<&Pair> = pairs.iter().find(|pair| pair.begin == point.title());
            pair.map(|pair| pair.end.clone())
        };
        lines.extend(found.into_iter().map(|point| Line { module, end: end(&point), point }));
    }
    let named = |patterns: &[Pattern], line: &Line<'_>| {
        let (name, module) = (&*line.point.title(), &*line.module.name);
        let subject = Subject { name, module, file: None, size: None };
        patterns.iter().any(|pattern| pattern.matches(&subject))
    };
    lines.retain(|line| (include.is_empty() || named(include, line)) && !named(exclude, line));
    Ok(lines)
}

fn table(table: PointTable) -> &'static str {
    match table {
        PointTable::Notes => "usdt",
        PointTable::Notify => "notify",
    }
}

pub(super) fn as_text(lines: &[Line<'_>]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{:7}  {:9}  {:>12}  name\n", "point", "semaphore", "address");
    for Line { point, end, .. } in lines {
        let semaphore = if point.semaphore.is_some() { "yes" } else { "-" };
        let arguments = match &*point.arguments {
            "" => String::new(),
            arguments => format!("  {arguments}"),
        };
        let timed = end.as_ref().map_or_else(String::new, |end| format!("  (timed, up to {end})"));
        let _ = writeln!(
            text,
            "{:7}  {semaphore:9}  {:>#12x}  {}{arguments}{timed}",
            table(point.table),
            point.at.get(),
            point.title()
        );
    }
    let timed = lines.iter().filter(|line| line.end.is_some()).count();
    let _ = writeln!(text, "{} points (--provider usdt), {timed} begin pairs", lines.len());
    text
}

pub(super) fn as_json(lines: &[Line<'_>]) -> Vec<serde_json::Value> {
    let line = |Line { module, point, end }: &Line<'_>| {
        json!({
            "point": point.title(),
            "table": table(point.table),
            "module": module.path,
            "address": point.at.get(),
            "semaphore": point.semaphore.map(wordpatch::CodeAddr::get),
            "arguments": point.arguments,
            "ends": end,
        })
    };
    lines.iter().map(line).collect()
}
