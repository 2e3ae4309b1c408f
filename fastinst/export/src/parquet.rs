//! A Parquet file: one row for each function of each profile.
//!
//! ```text
//! PAR1 │ column, column, … of the first 100,000 rows │ … │ description │ its length │ PAR1
//! column: header │ gzip( levels │ values )
//! ```
//!
//! <https://parquet.apache.org/docs/file-format/>. Each column of a row group is one page.

mod column;
mod thrift;

use crate::rows::{Row, Source, rows};
use column::{Column, Values};
use thrift::Struct;

const MAGIC: &[u8] = b"PAR1";
/// Rows of a row group.
const GROUP: usize = 100_000;

/// The profiles as one table.
pub fn parquet(sources: &[Source]) -> Vec<u8> {
    let rows = rows(sources);
    let mut file = MAGIC.to_vec();
    let mut groups = Vec::new();
    let mut schema = Vec::new();
    // A file without rows has columns, too.
    for group in rows.chunks(GROUP).chain(rows.is_empty().then_some(&[][..])) {
        let columns = columns(group);
        if schema.is_empty() {
            schema = self::schema(&columns);
        }
        if !group.is_empty() {
            let before = file.len();
            let chunks = columns.iter().flat_map(|column| column.write(&mut file)).collect();
            groups.push(
                Struct::default()
                    .list(1, chunks)
                    .long(2, (file.len() - before) as i64)
                    .long(3, group.len() as i64),
            );
        }
    }
    let description = Struct::default()
        .int(1, 1)
        .list(2, schema)
        .long(3, rows.len() as i64)
        .list(4, groups)
        .text(6, concat!("fastinst version ", env!("CARGO_PKG_VERSION")))
        .finish();
    file.extend_from_slice(&description);
    file.extend_from_slice(&(description.len() as u32).to_le_bytes());
    file.extend_from_slice(MAGIC);
    file
}

fn schema(columns: &[Column]) -> Vec<Struct> {
    let root = Struct::default().text(4, "profile").int(5, columns.len() as i32);
    [root].into_iter().chain(columns.iter().flat_map(Column::schema)).collect()
}

/// The columns of some rows.
fn columns(rows: &[Row<'_>]) -> Vec<Column> {
    let text = |name, of: &dyn Fn(&Row<'_>) -> String| {
        Column::new(name, Values::Text(rows.iter().map(of).collect()))
    };
    let long = |name, of: &dyn Fn(&Row<'_>) -> i64| {
        Column::new(name, Values::Long(rows.iter().map(of).collect()))
    };
    let number = |name, of: &dyn Fn(&Row<'_>) -> Option<f64>| {
        let sound = |row| of(row).filter(|value| value.is_finite());
        Column::new(name, Values::Number(rows.iter().map(sound).collect()))
    };
    let micros = |row: &Row<'_>| (row.header().started / 1000) as i64;
    let at = |row: &Row<'_>| micros(row) + (row.header().seconds.max(0.0) * 1e6) as i64;
    let file = |row: &Row<'_>| row.function.label.file.clone().unwrap_or_default();
    let steps = |of: &dyn Fn((f64, f64)) -> f64| {
        let list = |row: &Row<'_>| row.histogram().into_iter().map(of).collect();
        Values::List(rows.iter().map(list).collect())
    };
    let mut columns = vec![
        text("host", &|row| row.source.host.clone()),
        text("program", &|row| row.program().to_owned()),
        text("command", &|row| row.header().command.join(" ")),
        long("process", &|row| row.header().process.into()),
        Column::new("started", Values::Time(rows.iter().map(micros).collect())),
        Column::new("until", Values::Time(rows.iter().map(at).collect())),
        text("function", &|row| row.function.label.name.clone()),
        text("module", &|row| row.module().to_owned()),
        text("file", &file),
        long("line", &|row| row.function.label.line.unwrap_or(0).into()),
        long("timed", &|row| row.function.samples as i64),
    ];
    type Of<'a> = &'a dyn Fn(&Row<'_>) -> Option<profiler::Figure>;
    let figures: [([&'static str; 3], Of<'_>); 5] = [
        (["calls", "calls_low", "calls_high"], &|row| Some(row.function.calls)),
        (["self_ns", "self_low_ns", "self_high_ns"], &|row| row.function.own),
        (["total_ns", "total_low_ns", "total_high_ns"], &|row| row.function.total),
        (["wall_ns", "wall_low_ns", "wall_high_ns"], &|row| row.function.wall),
        (["mean_ns", "mean_low_ns", "mean_high_ns"], &|row| row.function.mean),
    ];
    for ([value, low, high], of) in figures {
        columns.push(number(value, &|row| of(row).map(|figure| figure.value)));
        columns.push(number(low, &|row| of(row).map(|figure| figure.interval().0)));
        columns.push(number(high, &|row| of(row).map(|figure| figure.interval().1)));
    }
    columns.push(number("min_ns", &|row| row.function.min));
    columns.push(number("max_ns", &|row| row.function.max));
    for (name, share) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        columns.push(number(name, &|row| row.percentile(share)));
    }
    columns.push(Column::new("histogram_ns", steps(&|step| step.0)));
    columns.push(Column::new("histogram_calls", steps(&|step| step.1)));
    columns
}
