//! The figure: tear rate against wait, a panel for each case, with and without fences, and a curve
//! for each position.
//!
//! Rates are drawn on a logarithmic scale. A wait at which nothing was torn has no rate, only a
//! bound: a grey arrow that points down from the highest rate which the number of toggles does not
//! exclude. A bound depends on the number of toggles, so bounds are not joined by lines; rates are,
//! if no clean wait lies between them. A panel in which nothing was torn has a text instead. Waits
//! up to 3000 ticks are to scale; longer ones and the barrier follow in order.

use crate::measure::tears::{Case, FENCED, Point, circumstances};
use crate::report::Report;
use crate::statistics::rate_below;
use crate::svg::{Element, Unit};
use crate::table::count;
use std::collections::BTreeMap;

const WIDTH: f64 = 1160.0;
const HEIGHT: f64 = 700.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 62.0;
const PANEL: f64 = 340.0;
const GAP: f64 = 22.0;
const TALL: f64 = 236.0;
/// The distance from one row of panels to the next.
const ROW: f64 = 312.0;

/// The length of a bound's arrow.
const ARROW: f64 = 9.0;

/// The share of a panel's width for a wait that is not to scale.
const SLOT: f64 = 0.1;

/// The longest wait that is to scale.
const TO_SCALE: u64 = 3_000;

/// Colours that are distinct for every kind of colour vision (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"];

/// Draws the curves of a report.
pub fn draw(report: &Report) -> String {
    let axes = Axes::new(&report.tmax);
    let title = format!("Torn toggles by wait: {}, {}", report.machine.brand, report.date);
    let note = format!(
        "INT3, wait, back, wait, front on a five-byte instruction; {} run. Grey arrows: nothing torn, the rate is below (95 %). \
         mb: membarrier instead of a wait.",
        report.plan
    );
    let text = |x: f64, y: f64, size: u32, text: String| {
        Element::new("text")
            .with("x", Unit(x))
            .with("y", Unit(y))
            .with("font-size", size)
            .text(text)
    };
    let rows = FENCED.into_iter().enumerate().map(|(row, fenced)| {
        let panels = Case::ALL
            .into_iter()
            .enumerate()
            .map(|(i, case)| axes.panel(i, case, fenced, &report.tmax));
        let down = format!("translate(0 {})", ROW * row as f64);
        Element::new("g").with("transform", down).children(panels).children(axes.rates())
    });
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
        .children([Element::new("rect")
            .with("width", WIDTH)
            .with("height", HEIGHT)
            .with("fill", "#fff")])
        .children([text(LEFT, 22.0, 15, title), text(LEFT, HEIGHT - 12.0, 11, note)])
        .children(rows)
        .children(positions.iter().rev().enumerate().map(|(i, position)| legend(i, *position)));
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{figure}\n")
}

fn colour(position: usize) -> &'static str {
    COLOURS[(position + COLOURS.len() - 1) % COLOURS.len()]
}

/// The legend of a curve, at position `i` from the right.
fn legend(i: usize, position: usize) -> Element {
    let (x, y) = (WIDTH - 26.0 - 125.0 * (i + 1) as f64, 18.0);
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
        let waits: std::collections::BTreeSet<u64> =
            points.iter().filter_map(|p| p.wait).filter(|&w| w > TO_SCALE).collect();
        let barrier = points.iter().any(|point| point.wait.is_none()).then_some(None);
        let panels = FENCED
            .into_iter()
            .flat_map(|fenced| Case::ALL.map(|case| in_panel(case, fenced, points)));
        let dots = panels.flat_map(|points| curves(&points).into_values().flatten());
        let lowest = dots.map(|dot| dot.rate).fold(1.0, f64::min);
        Self {
            beyond: waits.into_iter().map(Some).chain(barrier).collect(),
            lowest: lowest.log10().floor().max(-9.0) as i32,
        }
    }

    /// The share of the panel that is to scale.
    fn to_scale(&self) -> f64 {
        1.0 - SLOT * self.beyond.len() as f64 - 0.03
    }

    fn x(&self, wait: Option<u64>) -> f64 {
        let slot = self.beyond.iter().position(|&beyond| beyond == wait);
        let share = match (slot, wait) {
            (Some(slot), _) => self.to_scale() + SLOT * (slot as f64 + 0.8),
            (None, Some(wait)) => 0.02 + wait as f64 / TO_SCALE as f64 * (self.to_scale() - 0.02),
            (None, None) => 1.0,
        };
        share * PANEL
    }

    fn y(&self, rate: f64) -> f64 {
        let share = rate.max(1e-12).log10() / f64::from(self.lowest);
        TOP + share.clamp(0.0, 1.0) * TALL
    }

    /// The labels of the rates, left of the first panel.
    fn rates(&self) -> Vec<Element> {
        let label = |power: i32| {
            let text = if power == 0 { "1".to_owned() } else { format!("1e{power}") };
            let y = self.y(10f64.powi(power)) + 4.0;
            let place = Element::new("text")
                .with("x", LEFT - 8.0)
                .with("y", Unit(y))
                .with("text-anchor", "end");
            place.with("font-size", 11).text(text)
        };
        let axis = Element::new("text")
            .with("transform", format!("translate(16 {}) rotate(-90)", TOP + TALL / 2.0));
        let axis =
            axis.with("text-anchor", "middle").with("font-size", 12).text("torn toggles / toggles");
        (self.lowest..=0).map(label).chain([axis]).collect()
    }

    fn panel(&self, index: usize, case: Case, fenced: bool, points: &[Point]) -> Element {
        let left = LEFT + index as f64 * (PANEL + GAP);
        let frame = Element::new("rect").with("y", TOP).with("width", PANEL).with("height", TALL);
        let heading = Element::new("text")
            .with("y", TOP - 10.0)
            .with("font-size", 13)
            .text(circumstances(case, fenced));
        let axis = Element::new("text").with("x", Unit(PANEL / 2.0)).with("y", TOP + TALL + 34.0);
        let here = in_panel(case, fenced, points);
        Element::new("g")
            .with("transform", format!("translate({left} 0)"))
            .children([heading, frame.with("fill", "none").with("stroke", "#888")])
            .children((self.lowest + 1..0).map(|power| self.grid_line(10f64.powi(power))))
            .children(self.wait_labels())
            .children([axis
                .with("text-anchor", "middle")
                .with("font-size", 12)
                .text("wait, ticks")])
            .children(nothing_torn(&here))
            .children(
                curves(&here).into_iter().map(|(position, curve)| self.curve(position, &curve)),
            )
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
            let place =
                Element::new("text").with("x", Unit(self.x(wait))).with("y", TOP + TALL + 16.0);
            place.with("text-anchor", "middle").with("font-size", 11).text(text)
        };
        let edge = Unit((self.to_scale() + 0.035) * PANEL);
        let border = Element::new("line")
            .with("x1", edge)
            .with("x2", edge)
            .with("y1", TOP)
            .with("y2", TOP + TALL);
        let border = border.with("stroke", "#bbb").with("stroke-dasharray", "3 3");
        to_scale.chain(self.beyond.iter().copied()).map(label).chain([border]).collect()
    }

    fn curve(&self, position: usize, curve: &[Dot]) -> Element {
        let place = |dot: &Dot| (self.x(dot.wait), self.y(dot.rate));
        let to_scale: Vec<&Dot> =
            curve.iter().filter(|dot| dot.wait.is_some_and(|wait| wait <= TO_SCALE)).collect();
        let joined = to_scale.chunk_by(|a, b| a.torn && b.torn).filter(|dots| dots.len() > 1);
        let lines = joined.map(|dots| {
            let path: Vec<String> = dots
                .iter()
                .map(|dot| place(dot))
                .map(|(x, y)| format!("{},{}", Unit(x), Unit(y)))
                .collect();
            Element::new("polyline").with("points", path.join(" ")).with("fill", "none")
        });
        let dots = curve.iter().filter(|dot| dot.torn).map(place).map(|(x, y)| {
            Element::new("circle")
                .with("cx", Unit(x))
                .with("cy", Unit(y))
                .with("r", 2.8)
                .with("fill", colour(position))
        });
        let bounds = curve.iter().filter(|dot| !dot.torn).map(place).map(bound);
        Element::new("g")
            .with("stroke", colour(position))
            .with("stroke-width", 1.4)
            .children(lines)
            .children(dots)
            .children(bounds)
    }
}

/// An arrow down: the rate lies below the arrow's beginning.
fn bound((x, y): (f64, f64)) -> Element {
    let long = ARROW.min(TOP + TALL - y);
    let path = format!("M{} {}v{}m-2 -3l2 3l2 -3", Unit(x), Unit(y), Unit(long));
    Element::new("path")
        .with("d", path)
        .with("fill", "none")
        .with("stroke", "#999")
        .with("stroke-width", 1)
}

/// The text of a panel in which nothing was torn.
fn nothing_torn(points: &[Point]) -> Option<Element> {
    let (torn, n) =
        points.iter().fold((0, 0), |(torn, n), point| (torn + point.torn, n + point.toggles));
    let words = if n == 0 {
        "not seen".to_owned()
    } else {
        format!("nothing torn in {} toggles", count(n))
    };
    let place = Element::new("text")
        .with("x", Unit(PANEL / 2.0))
        .with("y", TOP + 24.0)
        .with("text-anchor", "middle");
    (torn == 0).then(|| place.with("font-size", 12).with("class", "nothing").text(words))
}

/// The points of a panel. The barrier needs no fence, and appears in both rows.
fn in_panel(case: Case, fenced: bool, points: &[Point]) -> Vec<Point> {
    let here =
        |point: &&Point| point.case == case && (point.fenced == fenced || point.wait.is_none());
    points.iter().filter(here).cloned().collect()
}

/// One wait of a curve.
struct Dot {
    wait: Option<u64>,
    /// The observed rate or, if nothing was torn, the highest one that is not excluded.
    rate: f64,
    torn: bool,
}

/// The curves by position. All numbers of executing threads are combined.
fn curves(points: &[Point]) -> BTreeMap<usize, Vec<Dot>> {
    let mut sums = BTreeMap::<(usize, bool, Option<u64>), (u64, u64)>::new();
    for point in points.iter().filter(|point| point.toggles > 0) {
        let (torn, n) = sums.entry((point.position, point.wait.is_none(), point.wait)).or_default();
        *torn += point.torn;
        *n += point.toggles;
    }
    let mut curves = BTreeMap::<usize, Vec<Dot>>::new();
    for ((position, _, wait), (torn, n)) in sums {
        let rate = if torn > 0 { torn as f64 / n as f64 } else { rate_below(0, n) };
        curves.entry(position).or_default().push(Dot { wait, rate, torn: torn > 0 });
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_circle_of_a_curve_lies_in_its_panel() {
        let point = |wait, torn, toggles| Point {
            torn,
            toggles,
            ..Point::new(Case::Cold, 2, 3, wait, false)
        };
        let points = [
            point(Some(0), 1000, 1000),
            point(Some(20_000), 0, 1),
            point(Some(3000), 1, 1 << 40),
            point(None, 0, 0),
        ];
        let axes = Axes::new(&points);
        for wait in [Some(0), Some(1500), Some(3000), Some(20_000), None] {
            assert!((0.0..=PANEL).contains(&axes.x(wait)), "{wait:?}");
        }
        for rate in [1.0, 1e-3, 1e-20, 0.0] {
            assert!((TOP..=TOP + TALL).contains(&axes.y(rate)), "{rate}");
        }
        let curve = &curves(&points)[&3];
        assert_eq!(curve.iter().map(|dot| dot.torn).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn bounds_are_arrows_that_nothing_joins() {
        let point = |wait, torn| Point {
            torn,
            toggles: 1000,
            ..Point::new(Case::Hot, 1, 1, Some(wait), false)
        };
        let points = [point(0, 9), point(100, 5), point(200, 0), point(300, 2), point(400, 0)];
        let axes = Axes::new(&points);
        let drawn = axes.curve(1, &curves(&points)[&1]).to_string();
        let count = |name: &str| drawn.matches(&format!("<{name} ")).count();
        assert_eq!((count("circle"), count("path"), count("polyline")), (3, 2, 1), "{drawn}");
        let line = drawn.lines().find(|line| line.contains("<polyline")).unwrap();
        assert_eq!(line.matches(',').count(), 2, "the wait between them was clean: {line}");
    }

    #[test]
    fn a_panel_in_which_nothing_was_torn_says_so() {
        let point =
            |torn, toggles| Point { torn, toggles, ..Point::new(Case::Hot, 1, 1, Some(0), false) };
        let said = |point: Point| nothing_torn(&[point]).map(|element| element.to_string());
        assert_eq!(said(point(1, 10)), None);
        assert!(said(point(0, 10_000)).unwrap().contains("nothing torn in 10 000 toggles"));
        assert!(said(point(0, 0)).unwrap().contains("not seen"));
    }
}
