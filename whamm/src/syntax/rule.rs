//! Match rules: patterns with type parameters and bounds.

use super::ast::{Constraint, Part, Rule};
use super::cursor::{Cursor, Read};
use crate::source::Span;

fn is_pattern(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.*+\\?|![]".contains(c)
}

impl Cursor<'_> {
    /// Whether a rule begins here: a first part and a colon.
    pub(super) fn at_rule(&mut self) -> bool {
        let start = self.at;
        let found = self.attempt(|this| {
            this.part()?;
            this.expect(":")
        });
        self.at = start;
        found.is_some()
    }

    pub(super) fn rule(&mut self) -> Read<Rule> {
        self.blanks();
        let start = self.at;
        let mut parts = vec![self.part()?];
        let mut colon = start;
        while self.eat(":") {
            colon = self.at;
            parts.push(self.part()?);
        }
        // An empty part is behind the blanks and comments that follow its colon.
        let last = parts.last().filter(|p| !p.pattern.is_empty());
        let end = last.map_or(colon, |p| p.span.end as usize);
        let span = Span::new(self.script, start..end.max(start + 1));
        if !(2..=4).contains(&parts.len()) {
            let help = "provider:package:event:mode, as in `wasm:opcode:call:before`, `wasm:func:entry`, `wasm:report`";
            return self.fail_help(
                span,
                format!("a rule has two to four parts, this one has {}", parts.len()),
                help,
            );
        }
        Ok(Rule { parts, span })
    }

    fn part(&mut self) -> Read<Part> {
        self.blanks();
        let start = self.at;
        let mut inside = false;
        while let Some(c) = self.peek().filter(|&c| is_pattern(c) || (inside && c == '-')) {
            inside = c == '[' || (inside && c != ']');
            self.at += 1;
        }
        let mut part = Part {
            pattern: self.text[start..self.at].into(),
            span: self.span(start),
            generics: vec![],
            bounds: vec![],
        };
        if self.eat("<") {
            part.generics = self.generics()?;
        }
        if self.eat("(") {
            while !self.eat(")") {
                part.bounds.push(self.parameter()?);
                if !self.eat(",") {
                    self.expect(")")?;
                    break;
                }
            }
        }
        Ok(part)
    }

    fn generics(&mut self) -> Read<Vec<(super::ast::Name, Option<Constraint>)>> {
        let mut list = Vec::new();
        loop {
            let name = self.name("a type parameter")?;
            if !name.text.starts_with(|c: char| c.is_ascii_uppercase()) {
                return self.fail(
                    name.span,
                    format!("the type parameter `{}` must begin with a capital letter", name.text),
                );
            }
            let constraint = if self.eat(":") {
                let word = self.name("`numeric`, `int` or `float`")?;
                match word.text.as_str() {
                    "numeric" => Some(Constraint::Numeric),
                    "int" => Some(Constraint::Int),
                    "float" => Some(Constraint::Float),
                    other => {
                        return self.fail_help(
                            word.span,
                            format!("there is no constraint `{other}`"),
                            "`numeric`, `int` or `float`",
                        );
                    }
                }
            } else {
                None
            };
            list.push((name, constraint));
            if !self.eat(",") {
                self.expect(">")?;
                return Ok(list);
            }
        }
    }
}
