//! The table: the format for people.
//!
//! It fits into 80 columns. The name is second, after the share: the two are read together, and a
//! narrow terminal cuts off the right side. Columns are as wide as their contents; the name gets
//! the remaining width, and if that is too little, columns on the right are dropped.

use super::column::{Cell, Column, Layout};
use super::foot;
use super::human;
use super::name;
use super::order::Sort;
use super::share::Shares;
use crate::profile::{Function, Profile};

/// The options of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// The greatest width.
    pub width: usize,
    /// The sort order.
    pub sort: Sort,
    /// The number of functions; 0 for all.
    pub rows: usize,
    /// The hint that tells the user how to show all functions.
    pub all_rows: &'static str,
    /// Whether the output goes to a terminal with colours.
    pub color: bool,
    /// Whether it has all columns, whatever their width.
    pub wide: bool,
    /// Functions whose timed calls are all shorter than this, in nanoseconds, have no row.
    pub min_time: f64,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            width: 160,
            sort: Sort::Own,
            rows: 30,
            all_rows: "see --rows 0",
            color: false,
            wide: false,
            min_time: 0.0,
        }
    }
}

/// A row: a function, or time that belongs to none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'a> {
    Function(&'a Function),
    Other { name: &'static str, time: f64 },
}

/// The number of values of an argument that are shown.
const VALUES: usize = 10;

impl Profile {
    /// The profile as a table.
    pub fn table(&self, options: &TableOptions) -> String {
        let (functions, sorted_by) = self.sorted(options.sort);
        let (short, functions): (Vec<&Function>, Vec<&Function>) =
            functions.into_iter().partition(|function| function.is_shorter_than(options.min_time));
        let shown =
            if options.rows == 0 { functions.len() } else { options.rows.min(functions.len()) };
        let shares = Shares::of(self);
        let rows = rows(&functions[..shown], shares.as_ref(), sorted_by);
        let mut text = Layout::of(self, &rows, shares.as_ref(), options).text();
        let share = |functions: &[&Function]| {
            let rest: f64 = functions.iter().map(|function| super::share::own_time(function)).sum();
            let percent = |shares: &Shares| format!(" ({})", human::percent(rest / shares.whole));
            shares.as_ref().map_or_else(String::new, percent)
        };
        if shown < functions.len() {
            let rest = &functions[shown..];
            text += &format!(
                "… and {} more functions{}: {}\n",
                rest.len(),
                share(rest),
                options.all_rows
            );
        }
        if !short.is_empty() {
            text += &format!(
                "… and {} functions without a timed call of {}{}\n",
                short.len(),
                human::time(options.min_time),
                share(&short)
            );
        }
        text.push('\n');
        let arguments = self.argument_tables(|_| true, VALUES);
        if !arguments.is_empty() {
            text += &(arguments + "\n");
        }
        text += &foot::lines(self, &rows, shares.is_some(), options, sorted_by);
        text
    }
}

/// Time that belongs to no function is in its place if rows are sorted by shares, and otherwise at
/// the end; it is never omitted.
pub(super) fn rows<'a>(
    functions: &[&'a Function],
    shares: Option<&Shares>,
    sort: Sort,
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = functions.iter().map(|function| Row::Function(function)).collect();
    for (name, time) in shares.into_iter().flat_map(Shares::others) {
        let less = |row: &Row<'_>| match row {
            Row::Function(function) => super::share::own_time(function) < time,
            Row::Other { time: other, .. } => *other < time,
        };
        let at = if sort == Sort::Own { rows.iter().position(less) } else { None };
        rows.insert(at.unwrap_or(rows.len()), Row::Other { name, time });
    }
    rows
}

impl Layout {
    /// The columns that fit, with their cells.
    pub(super) fn of(
        profile: &Profile,
        rows: &[Row<'_>],
        shares: Option<&Shares>,
        options: &TableOptions,
    ) -> Self {
        let labels: Vec<_> = rows.iter().filter_map(Row::label).collect();
        let full = name::distinct(profile, &labels);
        let largest = rows
            .iter()
            .filter_map(|row| row.share(shares))
            .map(|share| share.value)
            .fold(0.0, f64::max);
        let mut layout = Self::new(options.color);
        for &column in if options.wide { Column::WIDE } else { Column::NARROW } {
            if column == Column::Bar && (!options.color || shares.is_none()) {
                continue;
            }
            let cells = rows.iter().map(|row| match column {
                Column::Name => Cell::default(),
                Column::Bar => Cell::bar(
                    row.share(shares).map_or(0.0, |share| share.value / largest.max(1e-12)),
                ),
                _ => column.cell(row, profile, shares),
            });
            layout.push(column, cells.collect());
        }
        let room = if options.wide { 100 } else { layout.drop_what_does_not_fit(options.width) };
        let short = name::shortened(&full, room);
        let mut short = short.into_iter().zip(&labels);
        let names = rows.iter().map(|row| match row {
            Row::Other { name, .. } => Cell::dim((*name).to_owned()),
            Row::Function(_) => short.next().map_or_else(Cell::default, |(short, label)| {
                let place = name::line(label).map(|line| format!("{short} ({line})"));
                Cell::plain(
                    place
                        .filter(|place| !options.wide && name::width(place) <= room)
                        .unwrap_or(short),
                )
            }),
        });
        layout.fill(Column::Name, names.collect());
        layout
    }
}

#[cfg(test)]
mod tests;
