//! CSV: for spreadsheets (RFC 4180). Times in nanoseconds; a figure that is not known is an empty cell.

use crate::profile::Profile;
use std::fmt::Write;

impl Profile {
    /// As CSV.
    pub fn csv(&self) -> String {
        let mut text = "function,module,calls,calls_exact,calls_low,calls_high,samples,min,mean,mean_low,mean_high,p50,p90,p99,max,total,total_low,total_high,self\r\n".to_owned();
        for function in &self.functions {
            let module = function.label.module.and_then(|module| self.modules.get(module as usize));
            let cell = |value: Option<f64>| value.map(|value| format!("{value:.1}")).unwrap_or_default();
            let three = |figure: Option<crate::Figure>| {
                let interval = figure.map(|figure| figure.interval());
                [figure.map(|figure| figure.value), interval.map(|of| of.0), interval.map(|of| of.1)].map(cell).join(",")
            };
            let (low, high) = function.calls.interval();
            let _ = write!(text, "{},{}", quoted(&function.label.name), quoted(module.map_or("", |module| &module.path)));
            let _ = write!(
                text,
                ",{:.0},{},{low:.0},{high:.0},{}",
                function.calls.value,
                function.calls.is_exact(),
                function.samples
            );
            let percentiles = [0.5, 0.9, 0.99].map(|share| cell(function.percentile(share, &self.header))).join(",");
            let own = cell(function.own.map(|own| own.value));
            let (min, max) = (cell(function.min), cell(function.max));
            let _ = write!(text, ",{min},{},{percentiles},{max},{},{own}\r\n", three(function.mean), three(function.total));
        }
        text
    }
}

/// A field that holds a comma, a quote or a new line is quoted.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}
