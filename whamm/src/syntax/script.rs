//! Parses whole scripts: libraries, statements, functions and probes.

use super::ast::{Expr, FnDef, Item, Name, ProbeDef, Script, StrayBlock};
use super::cursor::{Cursor, Read, is_word};
use crate::diagnostic::{Diagnostics, Kind};
use crate::source::{Source, Span};
use crate::types::Ty;
use std::collections::HashSet;

/// Parses a script, which must have a probe.
pub(crate) fn parse(number: u16, source: &Source, said: &mut Diagnostics) -> Script {
    let script = items(number, source, said);
    if !script.items.iter().any(|i| matches!(i, Item::Probe(_))) && !said.has_errors() {
        let end = Span::new(number, source.text.len()..source.text.len());
        let help = "for example `wasm:opcode:call:before { ... }`";
        said.push_help(Kind::ParsingError, Some(end), "this script has no probe", help);
    }
    script
}

/// Parses the items of a script.
pub(crate) fn items(number: u16, source: &Source, said: &mut Diagnostics) -> Script {
    let mut cursor = Cursor {
        text: &source.text,
        at: 0,
        script: number,
        depth: 0,
        said,
        trying: false,
        broken: HashSet::new(),
    };
    let mut script = Script::default();
    if source.text.len() > u32::MAX as usize / 2 {
        cursor.said.push(
            Kind::ParsingError,
            None,
            format!("{}: a script of this size is not read", source.name),
        );
        return script;
    }
    loop {
        cursor.blanks();
        if cursor.rest().is_empty() {
            break;
        }
        let (start, function) = (cursor.at, cursor.word() == "fn");
        match cursor.item() {
            Ok(item) => script.items.push(item),
            Err(_) => {
                if let Some(body) = cursor.stray_block(start) {
                    script.items.push(Item::Stray(StrayBlock { body, function }));
                    continue;
                }
                cursor.skip_statement();
                if cursor.at == start || cursor.rest().starts_with('}') {
                    cursor.at += cursor.peek().map_or(0, char::len_utf8);
                }
            }
        }
    }
    script.broken = std::mem::take(&mut cursor.broken);
    script
}

/// Parses one expression: the formulas of the event table.
pub(crate) fn expression(text: &str) -> Option<Expr> {
    let mut said = Diagnostics::default();
    let mut cursor = Cursor {
        text,
        at: 0,
        script: 0,
        depth: 0,
        said: &mut said,
        trying: true,
        broken: HashSet::new(),
    };
    cursor.expr().ok()
}

impl Cursor<'_> {
    fn item(&mut self) -> Read<Item> {
        // No provider has the name `var`: this is a variable without a name.
        let nameless = self.word() == "var" && self.rest()[3..].trim_start().starts_with(':');
        if !nameless && self.at_rule() {
            return Ok(Item::Probe(self.probe()?));
        }
        let (start, word) = (self.at, self.word());
        if matches!(word, "use" | "fn") {
            self.at += word.len();
            let nameless =
                self.rest().trim_start().starts_with(if word == "use" { ';' } else { '(' });
            if nameless || !self.word().is_empty() {
                return if word == "use" { self.library() } else { Ok(Item::Fn(self.function()?)) };
            }
            self.at = start;
        }
        Ok(Item::Stmt(self.stmt()?))
    }

    fn library(&mut self) -> Read<Item> {
        let name = self.name("a library")?;
        self.semicolon()?;
        Ok(Item::Use(name))
    }

    fn function(&mut self) -> Read<FnDef> {
        let name = self.name("the name of the function")?;
        let (text, start) = (name.text.clone(), self.at);
        let function = self.signature(name);
        if function.is_err() {
            self.broken.insert(text);
            let head = self.text[start..].split('{').next().unwrap_or("");
            self.broken.extend(head.split(|c| !is_word(c)).map(String::from));
        }
        function
    }

    /// Parses the block after a head that begins at `start` and could not be parsed, if the block
    /// follows before the next item.
    fn stray_block(&mut self, start: usize) -> Option<Vec<super::ast::Stmt>> {
        let (mut quoted, mut escaped) = (false, false);
        for (n, c) in self.text[start..].char_indices() {
            match c {
                '"' if !escaped => quoted = !quoted,
                ';' | '}' if !quoted && start + n >= self.at => return None,
                '{' if !quoted && start + n >= self.at => {
                    self.at = start + n;
                    return self.block().ok();
                }
                _ => {}
            }
            escaped = quoted && c == '\\' && !escaped;
        }
        None
    }

    fn signature(&mut self, name: Name) -> Read<FnDef> {
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.eat(")") {
            params.push(self.parameter()?);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        let result = if self.eat("->") { self.ty()? } else { Ty::unit() };
        Ok(FnDef { name, params, result, body: self.block()? })
    }

    fn probe(&mut self) -> Read<ProbeDef> {
        self.blanks();
        let start = self.at;
        let rule = self.rule()?;
        let (predicate, body) = match self.predicate() {
            Ok(predicate) => (predicate, self.block()?),
            Err(unread) => (None, self.stray_block(start).ok_or(unread)?),
        };
        Ok(ProbeDef { rule, predicate, body })
    }

    fn predicate(&mut self) -> Read<Option<Expr>> {
        if !self.eat("/") {
            return Ok(None);
        }
        let expr = self.expr()?;
        self.expect("/")?;
        Ok(Some(expr))
    }
}
