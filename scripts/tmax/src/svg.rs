//! The parts of SVG that a figure needs: elements, attributes, text.

use std::fmt::{self, Display, Write};

/// An element with its contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// An empty element.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), text: String::new(), children: Vec::new() }
    }

    /// Adds an attribute. Numbers are written with two decimals at most.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Adds text.
    #[must_use]
    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds child elements.
    #[must_use]
    pub(crate) fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }
}

/// A coordinate, to a hundredth of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit(pub(crate) f64);

impl Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", (self.0 * 100.0).round() / 100.0)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, attributes, text, children } = self;
        write!(f, "<{name}")?;
        attributes
            .iter()
            .try_for_each(|(key, value)| write!(f, " {key}=\"{}\"", escaped(value)))?;
        if text.is_empty() && children.is_empty() {
            return f.write_str("/>");
        }
        write!(f, ">{}", escaped(text))?;
        for child in children {
            f.write_char('\n')?;
            child.fmt(f)?;
        }
        write!(f, "</{name}>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_break_out() {
        let element = Element::new("text").with("title", "a\"b").text("x < y & z");
        assert_eq!(element.to_string(), "<text title=\"a&quot;b\">x &lt; y &amp; z</text>");
        assert_eq!(Element::new("g").with("x", Unit(1.0 / 3.0)).to_string(), "<g x=\"0.33\"/>");
    }
}
