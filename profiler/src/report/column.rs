//! Columns of the table, and their layout.

use super::grid::GridColumn;
use super::human;
use super::latency::Shown;
use super::mark::{NOTHING, marked};
use super::name;
use super::share::{self, Shares};
use super::table::Row;
use crate::figure::{Figure, Mark};
use crate::profile::{Function, Label, Profile};
use std::fmt::Write;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Share,
    Bar,
    Name,
    Own,
    Total,
    Wall,
    Waiting,
    Calls,
    Mean,
    Spread,
    P50,
    P90,
    P99,
    P999,
    Max,
    Place,
}

/// The appearance of a cell on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Title,
    Dim,
    Hot,
    Warm,
    Bar,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

/// The width of the widest bar.
const BAR: usize = 4;
/// The least width of a name, in terminal columns.
const LEAST_NAME: usize = 20;

impl Column {
    /// The columns that fit into 80 terminal columns.
    pub(crate) const NARROW: &[Self] = &[
        Self::Share,
        Self::Bar,
        Self::Name,
        Self::Total,
        Self::Calls,
        Self::P50,
        Self::P99,
        Self::Max,
    ];
    /// All columns.
    pub(crate) const WIDE: &[Self] = &[
        Self::Share,
        Self::Bar,
        Self::Name,
        Self::Own,
        Self::Total,
        Self::Wall,
        Self::Waiting,
        Self::Calls,
        Self::Mean,
        Self::Spread,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P999,
        Self::Max,
        Self::Place,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Share => "self %",
            Self::Bar => "",
            Self::Name => "function",
            Self::Own => "self",
            Self::Total => "total",
            Self::Wall => "wall",
            Self::Waiting => "waiting",
            Self::Calls => "calls",
            Self::Mean => "mean",
            Self::Spread => "±",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::Place => "file:line",
        }
    }

    const fn is_left(self) -> bool {
        matches!(self, Self::Bar | Self::Name | Self::Place)
    }

    /// The cell of a row.
    pub(crate) fn cell(self, row: &Row<'_>, profile: &Profile, shares: Option<&Shares>) -> Cell {
        if self == Self::Share {
            return Cell::share(row.share(shares));
        }
        let function = match row {
            Row::Function(function) => *function,
            Row::Other { time, .. } if self == Self::Own => return Cell::dim(human::time(*time)),
            Row::Other { .. } => return Cell::default(),
        };
        let header = &profile.header;
        let step = header.step as f64 / header.hz * 1e9;
        let time =
            |figure: Option<Figure>| Cell::plain(marked(figure, |ns| human::time_by(ns, step)));
        let percentile = |share| Cell::plain(latency(function.shown_percentile(share, header)));
        match self {
            Self::Own => time(function.own),
            Self::Total => time(function.total),
            Self::Wall => time(function.wall),
            Self::Waiting => {
                Cell::plain(marked(shares.and_then(|_| share::waiting(function)), human::percent))
            }
            Self::Calls => Cell::plain(marked(Some(function.calls), human::count)),
            Self::Mean => Cell::plain(mean(function, profile)),
            Self::Spread => Cell::plain(spread(function)),
            Self::P50 => percentile(0.5),
            Self::P90 => percentile(0.9),
            Self::P99 => percentile(0.99),
            Self::P999 => percentile(0.999),
            Self::Max => Cell {
                text: latency(function.shown_longest(header)),
                style: if function.has_heavy_tail(header) { Style::Hot } else { Style::Plain },
            },
            Self::Place => Cell::plain(name::line(&function.label).unwrap_or_default()),
            Self::Share | Self::Bar | Self::Name => Cell::default(),
        }
    }
}

/// The time of single calls, with its mark.
fn latency(shown: Option<Shown>) -> String {
    let text = |shown: Shown| format!("{}{}", shown.sign, human::time(shown.time));
    shown.map_or_else(|| NOTHING.to_owned(), text)
}

fn mean(function: &Function, profile: &Profile) -> String {
    let header = &profile.header;
    let step = header.step as f64 / header.hz * 1e9;
    if function.is_below_resolution(header) {
        return human::below((step / 4.0).max(1.0));
    }
    // A mean of many calls is known more precisely than a single call.
    marked(function.mean, |mean| human::time_by(mean, step / function.samples.max(1) as f64))
}

/// Half of the interval's width, relative to the mean; if it is wider than the mean, only that is
/// shown.
fn spread(function: &Function) -> String {
    match function.mean {
        Some(mean) if mean.is_exact() => String::new(),
        Some(mean) if mean.mark() == Mark::About => {
            format!("{:.0}%", 100.0 * mean.half_width() / mean.value)
        }
        Some(_) => "?".to_owned(),
        None => NOTHING.to_owned(),
    }
}

impl Row<'_> {
    pub(crate) fn label(&self) -> Option<&Label> {
        match self {
            Self::Function(function) => Some(&function.label),
            Self::Other { .. } => None,
        }
    }

    /// Its share of CPU time.
    pub(crate) fn share(&self, shares: Option<&Shares>) -> Option<Figure> {
        let shares = shares?;
        match self {
            Self::Function(function) => shares.share(function),
            Self::Other { time, .. } => Some(Figure::exact(time / shares.whole)),
        }
    }
}

impl Cell {
    pub(crate) fn plain(text: String) -> Self {
        Self { text, style: Style::Plain }
    }

    pub(crate) fn dim(text: String) -> Self {
        Self { text, style: Style::Dim }
    }

    fn share(share: Option<Figure>) -> Self {
        let style = match share {
            Some(share) if share.value >= 0.2 => Style::Hot,
            Some(share) if share.value >= 0.05 => Style::Warm,
            _ => Style::Plain,
        };
        Self { text: marked(share, human::percent), style }
    }

    /// A bar, by its length relative to the longest.
    pub(crate) fn bar(part: f64) -> Self {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = (part.clamp(0.0, 1.0) * (8 * BAR) as f64).round() as usize;
        Self { text: "█".repeat(eighths / 8) + PARTS[eighths % 8], style: Style::Bar }
    }
}

impl Style {
    const fn codes(self) -> (&'static str, &'static str) {
        const END: &str = "\x1b[0m";
        match self {
            Self::Plain => ("", ""),
            Self::Title => ("\x1b[1m", END),
            Self::Dim => ("\x1b[2m", END),
            Self::Hot => ("\x1b[31m", END),
            Self::Warm => ("\x1b[33m", END),
            Self::Bar => ("\x1b[36m", END),
        }
    }
}

/// The columns with their cells.
#[derive(Debug)]
pub(crate) struct Layout {
    columns: Vec<(Column, Vec<Cell>)>,
    color: bool,
}

impl Layout {
    pub(crate) fn new(color: bool) -> Self {
        Self { columns: Vec::new(), color }
    }

    pub(crate) fn push(&mut self, column: Column, cells: Vec<Cell>) {
        self.columns.push((column, cells));
    }

    pub(crate) fn fill(&mut self, column: Column, cells: Vec<Cell>) {
        if let Some(place) = self.columns.iter_mut().find(|(known, _)| *known == column) {
            place.1 = cells;
        }
    }

    fn width(column: Column, cells: &[Cell]) -> usize {
        let widest = cells.iter().map(|cell| name::width(&cell.text)).max().unwrap_or(0);
        let least = if column == Column::Bar { BAR } else { 0 };
        widest.max(name::width(column.title())).max(least)
    }

    /// Drops columns on the right until the name fits; returns its width.
    pub(crate) fn drop_what_does_not_fit(&mut self, width: usize) -> usize {
        loop {
            let others = self.columns.iter().filter(|(column, _)| *column != Column::Name);
            let taken: usize = others.map(|(column, cells)| Self::width(*column, cells) + 2).sum();
            let room = width.saturating_sub(taken);
            let last = self.columns.last().is_none_or(|(column, _)| *column == Column::Name);
            if room >= LEAST_NAME || last {
                return room.max(LEAST_NAME);
            }
            self.columns.pop();
        }
    }

    /// The columns, each with the texts of its cells.
    pub(crate) fn into_columns(self) -> Vec<(GridColumn, Vec<String>)> {
        let columns = self.columns.into_iter();
        columns
            .map(|(column, cells)| {
                let (width, is_left) = (Self::width(column, &cells), column.is_left());
                let texts = cells.into_iter().map(|cell| cell.text).collect();
                (GridColumn { title: column.title(), width, is_left }, texts)
            })
            .collect()
    }

    /// The lines: the titles, and a line for each row.
    pub(crate) fn text(&self) -> String {
        let widths: Vec<usize> =
            self.columns.iter().map(|(column, cells)| Self::width(*column, cells)).collect();
        let rows = self.columns.first().map_or(0, |(_, cells)| cells.len());
        let mut text = String::new();
        for row in 0..=rows {
            let mut line = String::new();
            for ((column, cells), width) in self.columns.iter().zip(&widths) {
                let title = Cell { text: column.title().to_owned(), style: Style::Title };
                let cell = if row == 0 { &title } else { &cells[row - 1] };
                self.set(&mut line, *column, cell, *width);
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    fn set(&self, line: &mut String, column: Column, cell: &Cell, width: usize) {
        if !line.is_empty() {
            line.push_str("  ");
        }
        let blank = " ".repeat(width.saturating_sub(name::width(&cell.text)));
        let (begin, end) =
            if self.color && !cell.text.is_empty() { cell.style.codes() } else { ("", "") };
        let _ = match column.is_left() {
            true => write!(line, "{begin}{}{end}{blank}", cell.text),
            false => write!(line, "{blank}{begin}{}{end}", cell.text),
        };
    }
}
