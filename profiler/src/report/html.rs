//! HTML: one self-contained page, with a table, a flame graph, and for each function its histogram,
//! callers, callees and slowest calls.
//!
//! The page contains its data as compressed JSON in Base64; its content security policy forbids the
//! browser to fetch anything. Names are inserted as text and never as markup. A page has a size
//! limit: for a larger profile, details of the functions that rank last are left out first, then
//! digits, then the middle of long names.

use super::base64::base64;
use super::human;
use super::latency::Shown;
use super::share::{self, Shares};
use super::stacks::Frame;
use super::{foot, name, tree};
use crate::figure::{Figure, Mark};
use crate::histogram::bounds;
use crate::profile::{Function, Profile};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// The size limit of a page.
const LARGEST: usize = 5_000_000;
/// Frames with a smaller share of all time are not drawn.
const FAINTEST: f64 = 1e-4;
/// The number of histogram bars in a decade of time.
const BARS: f64 = 10.0;

/// The amount of detail in a page.
#[derive(Clone, Copy, Debug)]
struct Detail {
    /// The number of functions that have histograms, slowest calls and callers.
    functions: usize,
    /// The significant digits of figures.
    digits: i32,
    /// The greatest length of a name, in characters.
    name: usize,
}

impl Profile {
    /// The profile as a page, of 5 MB at most.
    pub fn html(&self) -> String {
        let mut detail = Detail { functions: self.functions.len(), digits: 7, name: 2000 };
        loop {
            let page = self.page(detail);
            if page.len() <= LARGEST || detail.name < 50 {
                return page;
            }
            detail = match detail {
                Detail { functions: 2000.., .. } => {
                    Detail { functions: detail.functions / 2, digits: 4, ..detail }
                }
                _ => Detail { functions: 500, digits: 3, name: detail.name / 3 },
            };
        }
    }

    fn page(&self, detail: Detail) -> String {
        let program = self.header.command.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or(program);
        let title = if program.is_empty() { "fastinst" } else { program };
        let data = compressed(&self.page_data(detail));
        include_str!("html/page.html")
            .replace("@STYLE@", include_str!("html/page.css"))
            .replace("@SCRIPT@", include_str!("html/page.js"))
            .replace("@TITLE@", &escaped(&format!("{title} – function profile")))
            .replace("@DATA@", &data)
    }

    fn page_data(&self, detail: Detail) -> Value {
        let shares = Shares::of(self);
        let others: Vec<(&str, f64)> = shares.iter().flat_map(Shares::others).collect();
        let own: f64 = self.functions.iter().map(share::own_time).sum();
        let command = self.header.command.join(" ");
        let mut summary = foot::summary(self);
        if !command.is_empty() {
            summary = format!("{command}: {summary}");
        }
        let mut foot: Vec<String> =
            foot::overhead(&self.header, shares.is_some()).into_iter().collect();
        foot.extend(self.header.note_lines());
        foot.push(foot::marks(&self.header));
        json!({
            "summary": summary,
            "kind": self.header.kind_of_time(),
            "foot": foot,
            "whole": shares.map_or_else(|| own.max(1.0), |shares| shares.whole),
            "others": others,
            "modules": self.modules.iter().map(|module| file_name(&module.path)).collect::<Vec<_>>(),
            "functions": self.page_functions(shares.is_some(), detail),
            "tree": self.page_tree(&others, detail),
        })
    }

    fn page_functions(&self, shares: bool, detail: Detail) -> Value {
        let labels: Vec<_> = self.functions.iter().map(|function| &function.label).collect();
        let names = name::distinct(self, &labels);
        let header = &self.header;
        let step = header.step as f64 / header.hz * 1e9;
        let column = |cell: &dyn Fn(&Function) -> Cell| -> Vec<Value> {
            self.functions.iter().map(|function| cell(function).value(detail.digits)).collect()
        };
        let figure = |of: &dyn Fn(&Function) -> Option<Figure>| column(&|one| Cell::of(of(one)));
        let time =
            |of: &dyn Fn(&Function) -> Option<Figure>| column(&|one| Cell::time(of(one), step));
        let latency = |share| column(&|one| Cell::shown(one.shown_percentile(share, header)));
        let mean = |one: &Function| {
            if one.is_below_resolution(header) {
                return Cell::below((step / 4.0).max(1.0));
            }
            Cell::time(one.mean, step / one.samples.max(1) as f64)
        };
        let max = |one: &Function| Cell::shown(one.shown_longest(header));
        let details = self.page_details(detail);
        json!({
            "name": names.iter().map(|name| human::shorten(name, detail.name)).collect::<Vec<_>>(),
            "module": labels.iter().map(|label| label.module.map_or(-1, i64::from)).collect::<Vec<_>>(),
            "place": labels.iter().map(|label| name::line(label)).collect::<Vec<_>>(),
            "own": figure(&|one| one.own),
            "total": time(&|one| one.total),
            "wall": time(&|one| one.wall),
            "waiting": figure(&|one| if shares { share::waiting(one) } else { None }),
            "calls": figure(&|one| Some(one.calls)),
            "mean": column(&mean),
            "p50": latency(0.5),
            "p90": latency(0.9),
            "p99": latency(0.99),
            "p999": latency(0.999),
            "max": column(&max),
            "floor": self.functions.iter().map(|one| number(one.floor(header), 3)).collect::<Vec<_>>(),
            "callers": details.callers,
            "bars": details.bars,
            "slow": details.slow,
        })
    }

    fn page_details(&self, detail: Detail) -> Details {
        let places: HashMap<_, usize> =
            self.functions.iter().enumerate().map(|(at, function)| (function.id, at)).collect();
        let mut told = vec![false; self.functions.len()];
        for function in self.sorted(super::Sort::Own).0.into_iter().take(detail.functions) {
            told[places[&function.id]] = true;
        }
        let callers = self.callers();
        let mut details = Details::default();
        for (at, function) in self.functions.iter().enumerate() {
            let short = |value| number(value, detail.digits.min(5));
            let arcs = callers[at].iter();
            let arcs =
                arcs.map(|caller| json!([caller.function, caller.samples, short(caller.share)]));
            let arcs: Vec<Value> = if told[at] { arcs.collect() } else { Vec::new() };
            details.callers.push(or_null(arcs));
            let bars =
                self.bars(function).into_iter().map(|(bar, calls)| json!([bar, short(calls)]));
            let cut = !told[at] && !function.histogram.is_empty();
            details.bars.push(if cut { json!(0) } else { or_null(bars.collect()) });
            let slow = function.exemplars.iter().filter(|_| told[at]).map(|call| {
                let inside = call.inside.iter().map(|callee| {
                    let place = places.get(&callee.function).map_or(-1, |at| *at as i64);
                    json!([place, callee.calls, short(callee.time)])
                });
                let inside: Vec<Value> = inside.collect();
                json!([short(call.time), call.thread, number(call.at, 7), inside])
            });
            details.slow.push(or_null(slow.collect()));
        }
        details
    }

    /// A function's calls by steps of time that are equally wide on a logarithmic scale.
    fn bars(&self, function: &Function) -> BTreeMap<i32, f64> {
        let mut bars = BTreeMap::new();
        for &(bucket, calls) in function.histogram.buckets() {
            let (first, last) = bounds(bucket);
            let ticks = (first as f64 + last as f64) / 2.0 - self.header.bias;
            let ns = ticks.max(0.0) / self.header.hz * 1e9;
            let ns = function.max.map_or(ns, |max| ns.min(max));
            let bar = (BARS * ns.max(1.0).log10()).floor() as i32;
            *bars.entry(bar).or_default() += calls;
        }
        bars
    }

    fn page_tree(&self, others: &[(&str, f64)], detail: Detail) -> Value {
        let nodes = tree::nodes(&self.self_times(), FAINTEST);
        let number_of = |frame: Option<Frame>| match frame {
            None => -1,
            Some(Frame::Function(at)) => at as i64,
            Some(Frame::Other(name)) => {
                let at = others.iter().position(|(other, _)| *other == name);
                at.map_or(-1, |at| (self.functions.len() + at) as i64)
            }
        };
        // No function took any time: nothing is drawn.
        let nodes = if nodes[0].whole > 0.0 { &nodes[..] } else { &[] };
        let times = |of: &dyn Fn(&tree::Node) -> f64| -> Vec<Value> {
            nodes.iter().map(|node| number(of(node), detail.digits)).collect()
        };
        json!({
            "depth": nodes.iter().map(|node| node.depth).collect::<Vec<_>>(),
            "frame": nodes.iter().map(|node| number_of(node.frame)).collect::<Vec<_>>(),
            "own": times(&|node| node.own),
            "whole": times(&|node| node.whole),
        })
    }
}

/// The details of single functions.
#[derive(Debug, Default)]
struct Details {
    callers: Vec<Value>,
    bars: Vec<Value>,
    slow: Vec<Value>,
}

/// A figure as the table prints it: its mark, its value, and the value by which it is ranked.
#[derive(Clone, Copy, Debug)]
struct Cell {
    value: Option<f64>,
    sign: &'static str,
    rank: f64,
}

impl Cell {
    fn of(figure: Option<Figure>) -> Self {
        let Some(figure) = figure.filter(Figure::is_sound) else {
            return Self { value: None, sign: "", rank: 0.0 };
        };
        let mark = figure.mark();
        let shown = if mark == Mark::AtMost { figure.interval().1 } else { figure.value };
        Self { value: Some(shown.max(0.0)), sign: super::mark::sign(mark), rank: figure.rank() }
    }

    fn below(ns: f64) -> Self {
        Self { value: Some(ns.ceil()), sign: "<", rank: 0.0 }
    }

    /// A time, without digits that are smaller than `step`.
    fn time(figure: Option<Figure>, step: f64) -> Self {
        let cell = Self::of(figure);
        match (cell.value, figure) {
            (Some(ns), Some(figure)) if step > 0.0 && ns < step => match figure.interval().1 {
                most if most < step => Self::below(step),
                most => Self { value: Some(most), sign: super::mark::sign(Mark::AtMost), ..cell },
            },
            (Some(ns), _) if step > 0.0 && ns < 100.0 * step => {
                Self { value: Some((ns / step).round() * step), ..cell }
            }
            _ => cell,
        }
    }

    fn shown(time: Option<Shown>) -> Self {
        let of = |shown: Shown| {
            let Shown { sign, time, measured } = shown;
            Self { value: Some(time), sign, rank: measured }
        };
        time.map_or(Self::of(None), of)
    }

    /// Null, the value alone, or the value, the mark and, if it differs, the rank.
    fn value(self, digits: i32) -> Value {
        let Some(value) = self.value else { return Value::Null };
        let shown = number(value, digits);
        if self.rank != value {
            return json!([shown, self.sign, number(self.rank, digits)]);
        }
        if self.sign.is_empty() { shown } else { json!([shown, self.sign]) }
    }
}

/// A number with this many significant digits, in its shortest notation.
fn number(value: f64, digits: i32) -> Value {
    if !value.is_finite() || value == 0.0 {
        return json!(0);
    }
    let places = digits - 1 - value.abs().log10().floor() as i32;
    let rounded = if places > 0 {
        let text = format!("{value:.*}", places as usize);
        text.parse().unwrap_or(value)
    } else {
        let by = 10f64.powi(-places);
        (value / by).round() * by
    };
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

fn or_null(values: Vec<Value>) -> Value {
    if values.is_empty() { Value::Null } else { Value::Array(values) }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Escapes text for markup.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            // XML does not allow such characters, not even escaped.
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Data as compressed JSON in Base64.
fn compressed(data: &Value) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writes to memory do not fail.
    let _ = gzip.write_all(data.to_string().as_bytes());
    base64(&gzip.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up::program_with_stacks;

    #[test]
    fn numbers_keep_their_digits_and_no_more() {
        let texts = [(1234.5678, 3), (0.0123456, 3), (1e9 / 3.0, 7), (5.0, 3), (f64::NAN, 3)]
            .map(|(value, digits)| number(value, digits).to_string());
        assert_eq!(texts, ["1230", "0.0123", "333333300", "5", "0"]);
    }

    #[test]
    fn a_page_asks_for_nothing_and_holds_no_name_as_markup() {
        let mut profile = program_with_stacks();
        profile.header.command = vec!["/bin/<script>alert(1)</script>".to_owned()];
        profile.functions[1].label.name = "</script><img src=x onerror=alert(1)>".to_owned();
        let page = profile.html();
        assert!(!page.contains("alert(1)</script>") && !page.contains("onerror"));
        assert!(page.contains("<title>script&gt; – function profile</title>"));
        let left = ["@STYLE@", "@SCRIPT@", "@TITLE@", "@DATA@"].map(|mark| page.contains(mark));
        assert_eq!((left, page.matches("http").count()), ([false; 4], 2), "a name space, a policy");
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn a_page_of_fifty_thousand_functions_stays_below_its_size() {
        let mut profile = program_with_stacks();
        let most = profile.functions[1].clone();
        for at in 0..50_000u64 {
            let mut function = most.clone();
            function.id = crate::FuncId(100 + at as u32);
            function.label.offset = 0x10_0000 + 16 * at;
            let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            function.label.name =
                format!("app::part{}::Type<{mixed:x}>::method_{at}(int)", at % 97);
            for step in 0..12 {
                let calls = (mixed >> step & 0xfff) as f64;
                function.histogram.add(200 + 64 * step as u16 + (mixed & 63) as u16, calls);
            }
            for figure in [&mut function.own, &mut function.total, &mut function.wall] {
                *figure =
                    super::super::made_up::about(mixed as f64 / 1e12, 0.0, mixed as f64 / 1e11);
            }
            profile.functions.push(function);
        }
        let page = profile.html();
        assert!(page.len() <= LARGEST && page.len() > LARGEST / 5, "{}", page.len());
    }
}
