//! The table as cells, for an interactive screen that draws them itself.

use super::column::Layout;
use super::name;
use super::order::Sort;
use super::share::Shares;
use super::table::{Row, TableOptions, rows};
use crate::FuncId;
use crate::profile::{Function, Profile};

/// A table in cells.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Its columns, from left to right.
    pub columns: Vec<GridColumn>,
    /// Its rows.
    pub rows: Vec<GridRow>,
    /// The number of functions that the filter left out.
    pub hidden: usize,
}

/// A column of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridColumn {
    /// Its heading.
    pub title: &'static str,
    /// Its width.
    pub width: usize,
    /// Whether its cells are left-aligned.
    pub is_left: bool,
}

/// A row of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct GridRow {
    /// Its function; `None` for time that belongs to none.
    pub function: Option<FuncId>,
    /// Its texts, one for each column.
    pub cells: Vec<String>,
    /// Its share of CPU time, if that is known.
    pub share: Option<f64>,
}

impl Profile {
    /// The functions that `shows` accepts, in the columns that fit into a width. If all functions
    /// are shown, time that belongs to no function is, too.
    pub fn grid(&self, sort: Sort, width: usize, shows: impl Fn(&Function) -> bool) -> Grid {
        let (mut functions, used) = self.sorted(sort);
        let all = functions.len();
        functions.retain(|function| shows(function));
        let hidden = all - functions.len();
        let shares = Shares::of(self);
        let mut rows = rows(&functions, shares.as_ref(), used);
        if hidden > 0 {
            rows.retain(|row| matches!(row, Row::Function(_)));
        }
        let options = TableOptions { width, ..TableOptions::default() };
        let columns = Layout::of(self, &rows, shares.as_ref(), &options).into_columns();
        let of = |row: usize| columns.iter().map(|(_, cells)| cells[row].clone()).collect();
        let rows = rows.iter().enumerate().map(|(at, row)| GridRow {
            function: match row {
                Row::Function(function) => Some(function.id),
                Row::Other { .. } => None,
            },
            cells: of(at),
            share: row.share(shares.as_ref()).map(|share| share.value),
        });
        let rows: Vec<GridRow> = rows.collect();
        let columns = columns.into_iter().map(|(column, _)| column).collect();
        Grid { columns, rows, hidden }
    }

    /// The callers of a function: their names, and their shares of its timed calls' time.
    pub fn callers_of(&self, function: &Function) -> Vec<(String, f64)> {
        let mut callers: Vec<(String, f64)> = Vec::new();
        for arc in &function.arcs {
            let name = arc.caller.as_ref().map_or("[unknown]", |caller| caller.name.as_str());
            match callers.iter_mut().find(|(known, _)| known == name) {
                Some((_, share)) => *share += arc.share,
                None => callers.push((name.to_owned(), arc.share)),
            }
        }
        callers.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        callers
    }
}

/// The width of a text in terminal columns.
pub fn width_of(text: &str) -> usize {
    name::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up::program;

    #[test]
    fn cells_are_those_of_the_table_and_a_filter_leaves_rows_out() {
        let profile = program();
        let grid = profile.grid(Sort::Own, 80, |_| true);
        let table = profile.table(&TableOptions { width: 80, ..TableOptions::default() });
        for (row, line) in grid.rows.iter().zip(table.lines().skip(1)) {
            assert!(row.cells.iter().all(|cell| line.contains(cell.as_str())), "{row:?} {line}");
            assert_eq!(row.cells.len(), grid.columns.len());
        }
        let taken: usize = grid.columns.iter().map(|column| column.width + 2).sum();
        assert!(taken <= 82 && grid.hidden == 0, "{grid:?}");
        assert!(grid.rows.iter().any(|row| row.function.is_none()));
        let some = profile.grid(Sort::Name, 80, |function| function.label.name == "parse");
        assert_eq!((some.rows.len(), some.hidden), (1, profile.functions.len() - 1));
        assert!(profile.grid(Sort::Own, 10, |_| false).rows.is_empty());
    }
}
