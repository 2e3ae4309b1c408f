//! Whole scripts: libraries, statements, functions and probes.

use super::ast::{Expr, FnDef, Item, Name, ProbeDef, Script};
use super::cursor::{Cursor, Read};
use crate::diagnostic::{Diagnostics, Kind};
use crate::source::Source;
use crate::types::Ty;
use std::collections::HashSet;

/// Reads a script. What cannot be read is said, and left out.
pub fn parse(number: u16, source: &Source, said: &mut Diagnostics) -> Script {
    let mut cursor = Cursor { text: &source.text, at: 0, script: number, depth: 0, said, trying: false, broken: HashSet::new() };
    let mut script = Script::default();
    if source.text.len() > u32::MAX as usize / 2 {
        cursor.said.push(Kind::ParsingError, None, format!("{}: a script of this size is not read", source.name));
        return script;
    }
    loop {
        cursor.blanks();
        if cursor.rest().is_empty() {
            break;
        }
        let start = cursor.at;
        match cursor.item() {
            Ok(item) => script.items.push(item),
            Err(_) => {
                cursor.skip_statement();
                if cursor.at == start || cursor.rest().starts_with('}') {
                    cursor.at += cursor.peek().map_or(0, char::len_utf8);
                }
            }
        }
    }
    script.broken = std::mem::take(&mut cursor.broken);
    if !script.items.iter().any(|i| matches!(i, Item::Probe(_))) && !cursor.said.has_errors() {
        let (here, help) = (cursor.here(), "for example `wasm:opcode:call:before { ... }`");
        cursor.said.push_help(Kind::ParsingError, Some(here), "this script has no probe", help);
    }
    script
}

/// Reads one expression: the formulas of the event table.
pub fn expression(text: &str) -> Option<Expr> {
    let mut said = Diagnostics::default();
    let mut cursor = Cursor { text, at: 0, script: 0, depth: 0, said: &mut said, trying: true, broken: HashSet::new() };
    cursor.expr().ok()
}

impl Cursor<'_> {
    fn item(&mut self) -> Read<Item> {
        if self.at_rule() {
            return Ok(Item::Probe(self.probe()?));
        }
        let (start, word) = (self.at, self.word());
        if matches!(word, "use" | "fn") {
            self.at += word.len();
            if !self.word().is_empty() {
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
        let text = name.text.clone();
        let function = self.signature(name);
        if function.is_err() {
            self.broken.insert(text);
        }
        function
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
        let predicate = if self.eat("/") {
            let expr = self.expr()?;
            self.expect("/")?;
            Some(expr)
        } else {
            None
        };
        let body = self.block()?;
        Ok(ProbeDef { rule, predicate, body, span: self.span(start) })
    }
}
