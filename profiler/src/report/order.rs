//! The order of rows: by a column, the largest first; rows without a figure in that column come
//! last.

use crate::profile::{Function, Profile};

/// A column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// CPU self time: the share.
    Own,
    /// CPU time, callees included.
    Total,
    /// Wall-clock time, callees included.
    Wall,
    /// The number of calls.
    Calls,
    /// The time of a call.
    Mean,
    /// The 99th percentile.
    P99,
    /// The longest call.
    Max,
    /// Its name.
    Name,
}

impl Sort {
    /// The name of the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Total => "total",
            Self::Wall => "wall",
            Self::Calls => "calls",
            Self::Mean => "mean",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Name => "name",
        }
    }

    /// The value by which a function is ranked; for an uncertain figure, its lower end.
    fn rank(self, function: &Function, profile: &Profile) -> Option<f64> {
        let figure = match self {
            Self::Own => function.own,
            Self::Total => function.total,
            Self::Wall => function.wall,
            Self::Mean => function.mean,
            Self::Calls => Some(function.calls),
            Self::P99 => return function.percentile(0.99, &profile.header),
            Self::Max => return function.max,
            Self::Name => return None,
        };
        figure.filter(crate::Figure::is_sound).map(|figure| figure.rank())
    }
}

impl Profile {
    /// The functions in order, and the column by which they are sorted: if no function has a figure
    /// in the requested column, the next column in which any function has one.
    pub(crate) fn sorted(&self, asked: Sort) -> (Vec<&Function>, Sort) {
        let has =
            |sort: &Sort| self.functions.iter().any(|function| sort.rank(function, self).is_some());
        let used = [asked, Sort::Own, Sort::Total]
            .into_iter()
            .find(|sort| *sort == Sort::Name || has(sort))
            .unwrap_or(Sort::Calls);
        let rank = |sort: Sort, function: &Function| {
            sort.rank(function, self).unwrap_or(f64::NEG_INFINITY)
        };
        let mut rows: Vec<&Function> = self.functions.iter().collect();
        rows.sort_by(|a, b| {
            let by = |sort: Sort| rank(sort, b).total_cmp(&rank(sort, a));
            let names = a.label.name.cmp(&b.label.name).then(a.id.cmp(&b.id));
            if used == Sort::Name {
                return names;
            }
            by(used)
                .then_with(|| by(Sort::Own))
                .then_with(|| by(Sort::Total))
                .then_with(|| by(Sort::Calls))
                .then(names)
        });
        (rows, used)
    }
}
