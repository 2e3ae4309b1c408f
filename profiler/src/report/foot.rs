//! The last lines of the table: a summary of its data, and the meaning of its marks.

use super::human;
use super::order::Sort;
use super::table::{Row, TableOptions};
use crate::ClockSource;
use crate::figure::{Figure, Mark};
use crate::profile::{Header, Profile, Recorded};

/// The lines below the table.
pub(crate) fn lines(
    profile: &Profile,
    rows: &[Row<'_>],
    shares: bool,
    options: &TableOptions,
    sorted_by: Sort,
) -> String {
    let header = &profile.header;
    let mut lines = vec![summary(profile)];
    lines.extend(overhead(header, shares));
    if sorted_by != options.sort && !rows.is_empty() {
        lines.push(format!(
            "No function has a value for {}: sorted by {}.",
            options.sort.name(),
            sorted_by.name()
        ));
    }
    lines.extend(legend(profile, rows, shares, options));
    if header.spent.lost > 0 {
        let (calls, their) =
            if header.spent.lost == 1 { ("call", "its") } else { ("calls", "their") };
        lines.push(format!(
            "{} timed {calls} discarded (did not return while {their} probes were on)",
            human::grouped(header.spent.lost)
        ));
    }
    lines.extend(header.note_lines());
    lines.join("\n") + "\n"
}

/// The meaning of all marks, whether or not the table has them.
pub(super) fn marks(header: &Header) -> String {
    let times = match header.wall {
        true => "All times are wall-clock time.",
        false => "Self and total are CPU time, the others wall-clock time.",
    };
    format!("{times} {MARKS}")
}

const MARKS: &str = "~ estimate, ? uncertain by more than its value, ≤ at most, ≥ at least, \
    as far as seen, < too short to measure, ! over 100 times p99";

/// `30 functions (25 with exact counts), 7 514 calls timed, ran 1.58 s`.
pub(super) fn summary(profile: &Profile) -> String {
    let header = &profile.header;
    let exact = profile.functions.iter().filter(|function| function.calls.is_exact()).count();
    let mut line = format!(
        "{} ({} with exact counts), {} timed, {} {}",
        human::several(profile.functions.len() as u64, "function"),
        human::grouped(exact as u64),
        human::several(header.spent.samples, "call"),
        if header.recorded.is_some() { "recorded for" } else { "ran" },
        human::time(header.seconds * 1e9),
    );
    if header.processor > 0.0 && !(header.wall && header.processes == 1) {
        let kind = header.kind_of_time();
        // Time that hooks hide is counted as the hooks'.
        let bound = if profile.is_slowed() { "≥" } else { "" };
        line += &format!(" ({bound}{} {kind})", human::time(header.processor * 1e9));
    }
    if let Some(recorded) = &header.recorded {
        line += &format!(", {}", spans(recorded));
    }
    if header.processes > 1 {
        line += &format!(", {} processes", header.processes);
    }
    if !header.policy.is_empty() && !header.policy.starts_with("adaptive") {
        line += &format!(", policy {}", header.policy);
    }
    line
}

/// `2 spans: 0.50 s to 0.90 s, 1.20 s to 1.60 s`.
fn spans(recorded: &Recorded) -> String {
    const TOLD: usize = 3;
    let time = |seconds: f64| human::time(seconds * 1e9);
    let told = recorded.first.iter().take(TOLD);
    let told: Vec<String> =
        told.map(|span| format!("{} to {}", time(span.from), time(span.to))).collect();
    let more = if recorded.spans > told.len() as u64 && !told.is_empty() { ", …" } else { "" };
    let colon = if told.is_empty() { "" } else { ": " };
    format!("{}{colon}{}{more}", human::several(recorded.spans, "span"), told.join(", "))
}

/// The known cost of measuring, and the source of the shares.
pub(super) fn overhead(header: &Header, shares: bool) -> Option<String> {
    let spent = &header.spent;
    let timing = spent.samples as f64 * header.pair / header.hz;
    let seconds = spent.counting
        + spent.switching
        + spent.agent
        + if timing.is_finite() { timing } else { 0.0 };
    let source = match &header.clock {
        ClockSource::None { why } => format!("no self times: {why}"),
        ClockSource::Kernel { hz, .. } => {
            let samples = human::grouped(header.clock_samples);
            format!("shares by the kernel's clock ({hz:.0} Hz, {samples} samples)")
        }
        ClockSource::Frames { why, .. } => {
            format!("shares of completely timed functions only ({why})")
        }
        ClockSource::Probes if shares => "shares by the probes".to_owned(),
        ClockSource::Probes => "no self times".to_owned(),
    };
    (header.processor > 0.0).then(|| {
        let kind = header.kind_of_time();
        // In a program that hardly runs, any overhead is thousands of per cent.
        let part = if header.processor < SHORT && seconds > header.processor {
            human::time(seconds * 1e9)
        } else {
            format!("{:.1} %", 100.0 * seconds / header.processor)
        };
        format!(
            "Overhead: {part} {kind} for counting, timing, switching and the agent; idle probes \
             are not measured; {source}"
        )
    })
}

/// Below this CPU time, in seconds, percentages are not useful.
const SHORT: f64 = 0.01;

/// The meaning of the marks that the table has.
fn legend(
    profile: &Profile,
    rows: &[Row<'_>],
    shares: bool,
    options: &TableOptions,
) -> Option<String> {
    let functions = || {
        rows.iter().filter_map(|row| match row {
            Row::Function(function) => Some(*function),
            Row::Other { .. } => None,
        })
    };
    let figures = functions().flat_map(|function| {
        let more = options.wide.then_some([function.wall, function.mean]).into_iter().flatten();
        [Some(function.calls), function.total, function.own.filter(|_| shares)]
            .into_iter()
            .chain(more)
    });
    let marks: Vec<Mark> =
        figures.flatten().filter(Figure::is_sound).map(|figure| figure.mark()).collect();
    let has = |mark| marks.contains(&mark);
    let timed = || functions().filter(|function| function.max.is_some());
    let sampled = timed().any(|function| !function.is_complete());
    let doubt = |sign| timed().any(|function| function.doubt() == Some(sign));
    let meanings = [
        (has(Mark::About) || sampled || doubt("~"), "~ estimate"),
        (has(Mark::Unsure) || doubt("?"), "? uncertain by more than its value"),
        (has(Mark::AtMost), "≤ at most"),
        (sampled || has(Mark::AtLeast) || profile.is_slowed(), "≥ at least, as far as seen"),
        (timed().any(|function| function.has_heavy_tail(&profile.header)), "! over 100 times p99"),
    ];
    let used: Vec<&str> =
        meanings.into_iter().filter(|(used, _)| *used).map(|(_, meaning)| meaning).collect();
    (!used.is_empty()).then(|| used.join(", "))
}
