//! The figure: tear rate against wait, a panel for each case and a curve for each position.
//!
//! Rates are drawn on a logarithmic scale. A wait at which nothing was torn is drawn hollow, at the rate that so many toggles do not
//! exclude: the curve never touches zero, because no measurement does. Waits up to 3000 ticks are to scale; the longer ones and
//! the barrier stand beside them in order.

use crate::measure::tears::{Case, Point};
use crate::report::Report;
use crate::statistics::rate_below;
use crate::svg::{Element, Unit};
use std::collections::BTreeMap;

const WIDTH: f64 = 1160.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 62.0;
const PANEL: f64 = 340.0;
const GAP: f64 = 22.0;
const TALL: f64 = 270.0;

/// Waits up to this are to scale.
const TO_SCALE: u64 = 3_000;

/// Distinct for every kind of colour vision (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"];

/// Draws the curves of a report.
pub fn draw(report: &Report) -> String {
    let axes = Axes::new(&report.tmax);
    let title = format!("Torn toggles by wait: {}, {}", report.machine.brand, report.date);
    let note = format!(
        "INT3, wait, back, wait, front on a five-byte instruction; {} run. Hollow: nothing torn, drawn at the rate that is not \
         excluded (95 %). mb: INT3, membarrier, back, front.",
        report.plan
    );
    let text = |x: f64, y: f64, size: u32, text: String| {
        Element::new("text").with("x", Unit(x)).with("y", Unit(y)).with("font-size", size).text(text)
    };
    let panels = Case::ALL.into_iter().enumerate().map(|(i, case)| axes.panel(i, case, &report.tmax));
    let mut positions: Vec<usize> = report.tmax.iter().map(|point| point.position).collect();
    positions.sort_unstable();
    positions.dedup();
    let figure = Element::new("svg")
        .with("xmlns", "http://www.w3.org/2000/svg")
        .with("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .with("width", WIDTH)
        .with("height", HEIGHT)
        .with("font-family", "Helvetica, Arial, sans-serif")
        .with("fill", "#222")
        .children([Element::new("rect").with("width", WIDTH).with("height", HEIGHT).with("fill", "#fff")])
        .children([text(LEFT, 22.0, 15, title), text(LEFT, HEIGHT - 12.0, 11, note)])
        .children(panels)
        .children(axes.rates())
        .children(positions.into_iter().enumerate().map(|(i, position)| legend(i, position)));
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{figure}\n")
}

fn colour(position: usize) -> &'static str {
    COLOURS[(position + COLOURS.len() - 1) % COLOURS.len()]
}

fn legend(i: usize, position: usize) -> Element {
    let (x, y) = (LEFT + 610.0 + 125.0 * i as f64, 18.0);
    let line = Element::new("line").with("x1", x).with("x2", x + 22.0).with("y1", y).with("y2", y);
    let label = Element::new("text").with("x", x + 28.0).with("y", y + 4.0).with("font-size", 12);
    let words = if position == 1 { "byte before".to_owned() } else { "bytes before".to_owned() };
    Element::new("g").children([
        line.with("stroke", colour(position)).with("stroke-width", 2),
        label.text(format!("{position} {words}")),
    ])
}

/// The scales that all panels share.
struct Axes {
    /// Waits that are not to scale, in order.
    beyond: Vec<Option<u64>>,
    /// The smallest rate, as a power of ten.
    lowest: i32,
}

impl Axes {
    fn new(points: &[Point]) -> Self {
        let waits: std::collections::BTreeSet<u64> = points.iter().filter_map(|p| p.wait).filter(|&w| w > TO_SCALE).collect();
        let barrier = points.iter().any(|point| point.wait.is_none()).then_some(None);
        let lowest = curves(points).values().flatten().map(|&(_, rate, _)| rate).fold(1.0, f64::min);
        Self { beyond: waits.into_iter().map(Some).chain(barrier).collect(), lowest: lowest.log10().floor().max(-9.0) as i32 }
    }

    /// The share of the panel that is to scale.
    fn to_scale(&self) -> f64 {
        1.0 - 0.09 * self.beyond.len() as f64 - 0.03
    }

    fn x(&self, wait: Option<u64>) -> f64 {
        let slot = self.beyond.iter().position(|&beyond| beyond == wait);
        let share = match (slot, wait) {
            (Some(slot), _) => self.to_scale() + 0.09 * (slot as f64 + 0.6),
            (None, Some(wait)) => 0.02 + wait as f64 / TO_SCALE as f64 * (self.to_scale() - 0.02),
            (None, None) => 1.0,
        };
        share * PANEL
    }

    fn y(&self, rate: f64) -> f64 {
        let share = rate.max(1e-12).log10() / f64::from(self.lowest);
        TOP + share.clamp(0.0, 1.0) * TALL
    }

    /// The rates' labels, left of the first panel.
    fn rates(&self) -> Vec<Element> {
        let label = |power: i32| {
            let text = if power == 0 { "1".to_owned() } else { format!("1e{power}") };
            let y = self.y(10f64.powi(power)) + 4.0;
            let place = Element::new("text").with("x", LEFT - 8.0).with("y", Unit(y)).with("text-anchor", "end");
            place.with("font-size", 11).text(text)
        };
        let axis = Element::new("text").with("transform", format!("translate(16 {}) rotate(-90)", TOP + TALL / 2.0));
        let axis = axis.with("text-anchor", "middle").with("font-size", 12).text("torn toggles / toggles");
        (self.lowest..=0).map(label).chain([axis]).collect()
    }

    fn panel(&self, index: usize, case: Case, points: &[Point]) -> Element {
        let left = LEFT + index as f64 * (PANEL + GAP);
        let of_case: Vec<Point> = points.iter().filter(|point| point.case == case).cloned().collect();
        let frame = Element::new("rect").with("y", TOP).with("width", PANEL).with("height", TALL);
        let heading = Element::new("text").with("y", TOP - 10.0).with("font-size", 13).text(case.description());
        let axis = Element::new("text").with("x", Unit(PANEL / 2.0)).with("y", TOP + TALL + 34.0);
        Element::new("g")
            .with("transform", format!("translate({left} 0)"))
            .children([heading, frame.with("fill", "none").with("stroke", "#888")])
            .children((self.lowest + 1..0).map(|power| self.grid_line(10f64.powi(power))))
            .children(self.wait_labels())
            .children([axis.with("text-anchor", "middle").with("font-size", 12).text("wait, ticks")])
            .children(curves(&of_case).into_iter().map(|(position, curve)| self.curve(position, &curve)))
    }

    fn grid_line(&self, rate: f64) -> Element {
        let y = Unit(self.y(rate));
        Element::new("line").with("x2", PANEL).with("y1", y).with("y2", y).with("stroke", "#e4e4e4")
    }

    fn wait_labels(&self) -> Vec<Element> {
        let to_scale = (0..=3).map(|thousands| Some(thousands * 1_000));
        let label = |wait: Option<u64>| {
            let text = match wait {
                None => "mb".to_owned(),
                Some(wait) if wait > TO_SCALE => format!("{}k", wait / 1_000),
                Some(wait) => wait.to_string(),
            };
            let place = Element::new("text").with("x", Unit(self.x(wait))).with("y", TOP + TALL + 16.0);
            place.with("text-anchor", "middle").with("font-size", 11).text(text)
        };
        let edge = Unit((self.to_scale() + 0.015) * PANEL);
        let border = Element::new("line").with("x1", edge).with("x2", edge).with("y1", TOP).with("y2", TOP + TALL);
        let border = border.with("stroke", "#bbb").with("stroke-dasharray", "3 3");
        to_scale.chain(self.beyond.iter().copied()).map(label).chain([border]).collect()
    }

    fn curve(&self, position: usize, curve: &[(Option<u64>, f64, bool)]) -> Element {
        let place = |&(wait, rate, _): &(Option<u64>, f64, bool)| (self.x(wait), self.y(rate));
        let to_scale = curve.iter().filter(|(wait, ..)| wait.is_some_and(|wait| wait <= TO_SCALE));
        let path: Vec<String> = to_scale.map(place).map(|(x, y)| format!("{},{}", Unit(x), Unit(y))).collect();
        let line = Element::new("polyline").with("points", path.join(" ")).with("fill", "none");
        let dots = curve.iter().map(|point| {
            let (x, y) = place(point);
            let fill = if point.2 { colour(position) } else { "#fff" };
            Element::new("circle").with("cx", Unit(x)).with("cy", Unit(y)).with("r", 2.8).with("fill", fill)
        });
        Element::new("g")
            .with("stroke", colour(position))
            .with("stroke-width", 1.4)
            .children([line.with("stroke-opacity", 0.55)])
            .children(dots)
    }
}

/// By position: wait, rate, and whether anything was torn. Numbers of executers are taken together.
fn curves(points: &[Point]) -> BTreeMap<usize, Vec<(Option<u64>, f64, bool)>> {
    let mut sums = BTreeMap::<(usize, bool, Option<u64>), (u64, u64)>::new();
    for point in points.iter().filter(|point| point.toggles > 0) {
        let (torn, n) = sums.entry((point.position, point.wait.is_none(), point.wait)).or_default();
        *torn += point.torn;
        *n += point.toggles;
    }
    let mut curves = BTreeMap::<usize, Vec<_>>::new();
    for ((position, _, wait), (torn, n)) in sums {
        let rate = if torn > 0 { torn as f64 / n as f64 } else { rate_below(0, n) };
        curves.entry(position).or_default().push((wait, rate, torn > 0));
    }
    curves
}
