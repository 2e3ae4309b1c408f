//! SVG: a flame graph (Gregg 2016, "The Flame Graph", Communications of the ACM 59:6), as one file
//! that a browser shows, zooms and searches, and that any other program draws.
//!
//! The root is at the bottom and represents all CPU time of the program, which is its name. A
//! frame's width is its total time; its colour is its module's.

use super::html::escaped;
use super::stacks::Frame;
use super::tree::{self, Node};
use super::{human, name};
use crate::profile::Profile;
use std::fmt::Write;

/// Frames with a smaller share of all time are narrower than a tenth of a pixel.
const FAINTEST: f64 = 1e-4;
/// The sizes of the drawing and of its margins, in pixels.
const WIDE: f64 = 1180.0;
const LEFT: f64 = 10.0;
const TOP: f64 = 64.0;
const FRAME: f64 = 17.0;
/// The width of a letter.
const LETTER: f64 = 6.8;

impl Profile {
    /// The profile as a flame graph.
    pub fn svg(&self) -> String {
        let nodes = tree::nodes(&self.self_times(), FAINTEST);
        let deepest = nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        let high = TOP + (deepest as f64 + 1.0) * FRAME + 12.0;
        let wide = WIDE + 2.0 * LEFT;
        let program = self.header.command.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or(program);
        let title = if program.is_empty() { "Flame graph" } else { program };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" \
             height=\"{high}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
            escaped(title)
        );
        let mut line = |at: f64, more: &str, text: &str| {
            let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{at}\"{more}>{}</text>", escaped(text));
        };
        line(20.0, " font-size=\"15\" font-weight=\"bold\"", title);
        line(38.0, " class=\"dim\"", &self.caption());
        line(TOP - 8.0, " class=\"act\" id=\"out\" style=\"display:none\"", "Zoom out");
        let right = wide - LEFT;
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{}\" class=\"act\" id=\"search\" text-anchor=\"end\" \
             style=\"display:none\">Search</text>",
            TOP - 8.0
        );
        if nodes[0].whole > 0.0 {
            let labels: Vec<_> = self.functions.iter().map(|function| &function.label).collect();
            let names = name::distinct(self, &labels);
            let bottom = high - 12.0 - FRAME;
            nodes
                .iter()
                .for_each(|node| self.frame(&mut svg, node, &names, nodes[0].whole, bottom));
        }
        let _ = writeln!(
            svg,
            "<script><![CDATA[\n{}]]></script>\n</svg>",
            include_str!("svg/flame.js")
        );
        svg
    }

    /// The caption: `CPU time 1.03 s of 1.58 s; width is time with callees …`.
    fn caption(&self) -> String {
        let header = &self.header;
        let mut text = format!(
            "{} {}",
            if header.recorded.is_some() { "recorded for" } else { "ran" },
            human::time(header.seconds.max(0.0) * 1e9)
        );
        if header.processes > 1 {
            let _ = write!(text, ", {} processes", header.processes);
        }
        let kind = header.kind_of_time();
        text + &format!("; widths are {kind} time, callees included; colours are modules")
    }

    fn frame(&self, svg: &mut String, node: &Node, names: &[String], all: f64, bottom: f64) {
        let (name, hue) = match node.frame {
            None if self.header.wall => ("all wall time", 220),
            None => ("all CPU time", 220),
            Some(Frame::Other(name)) => (name, 220),
            Some(Frame::Function(at)) => (names[at].as_str(), hue(self, at)),
        };
        let (begin, width) = (node.begin / all, node.whole / all);
        let (x, wide) = (LEFT + WIDE * begin, (WIDE * width - 0.5).max(0.2));
        let y = bottom - node.depth as f64 * FRAME;
        let part = human::percent(node.whole / all);
        let of =
            format!("{} ({part}), of its own {}", human::time(node.whole), human::time(node.own));
        let room = ((WIDE * width - 6.0) / LETTER).max(0.0) as usize;
        let label = if room < 3 { String::new() } else { cut(name, room) };
        let (known, label) = (escaped(name), escaped(&label));
        let (baseline, tall) = (y + 12.5, FRAME - 1.0);
        let _ = writeln!(
            svg,
            "<g class=\"frame\" data-name=\"{known}\" data-begin=\"{begin:.9}\" \
             data-width=\"{width:.9}\" data-depth=\"{}\"><title>{known}: {of}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{tall}\" rx=\"1\" \
             fill=\"hsl({hue}, 58%, 72%)\"/><text x=\"{:.2}\" y=\"{baseline}\">{label}</text></g>",
            node.depth,
            x + 3.0
        );
    }
}

const STYLE: &str = ".back{fill:#fff}.dim{fill:#59636e}.act{fill:#0a58ca;cursor:pointer}\
.frame{cursor:pointer}.frame text{pointer-events:none;fill:#111}.frame:hover rect{stroke:#111}";

/// The hue of a function: its module's, slightly shifted.
fn hue(profile: &Profile, at: usize) -> u32 {
    let label = &profile.functions[at].label;
    let module = label.module.map_or(0, |module| module % 1000 + 1);
    let mixed = label
        .name
        .bytes()
        .fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()) % 997);
    (module * 137 + 250 + mixed % 34) % 360
}

/// A name, cut to the available width.
fn cut(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::program_with_stacks;

    #[test]
    fn a_graph_is_xml_whose_root_is_named_and_whose_widths_are_times() {
        let mut profile = program_with_stacks();
        profile.header.command = vec!["/usr/bin/a&b".to_owned()];
        profile.functions[1].label.name = "std::vector<int>::parse(\"\")\u{1}".to_owned();
        let text = profile.svg();
        let svg = roxmltree::Document::parse(&text).unwrap();
        let frames: Vec<_> =
            svg.descendants().filter(|node| node.attribute("class") == Some("frame")).collect();
        let named = |name: &str| {
            let found = frames.iter().find(|frame| frame.attribute("data-name") == Some(name));
            found.unwrap_or_else(|| panic!("{name}: {text}"))
        };
        assert_eq!(named("all CPU time").attribute("data-width"), Some("1.000000000"));
        assert_eq!(named("[system]").attribute("data-width"), Some("0.150000000"));
        assert_eq!(named("main").attribute("data-width"), Some("0.750000000"));
        let title = named("std::vector<int>::parse(\"\") ")
            .descendants()
            .find(|node| node.has_tag_name("title"));
        let told = title.and_then(|title| title.text()).unwrap();
        assert!(told.contains("ms (49.0%), of its own 200 ms"), "{told}");
        assert!(svg.descendants().any(|node| node.text() == Some("a&b")), "{text}");
    }

    #[test]
    fn a_profile_without_time_is_a_graph_without_frames() {
        let mut profile = program_with_stacks();
        profile.functions.clear();
        (profile.header.system, profile.header.unknown, profile.header.processor) = (0.0, 0.0, 0.0);
        assert!(!profile.svg().contains("class=\"frame\""));
    }
}
