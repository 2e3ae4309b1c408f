//! Parses statements and blocks.

use super::ast::{BinOp, Class, Expr, ExprKind, Name, Param, Stmt, StmtKind, Storage};
use super::cursor::{Cursor, DEEPEST, Read, is_word};

impl Cursor<'_> {
    pub(super) fn parameter(&mut self) -> Read<Param> {
        let name = self.name("a name")?;
        if !self.eat(":") {
            let help = format!("a parameter has a type, as in `{}: i32`", name.text);
            return self.expected_help("`:`", Some(&help));
        }
        Ok(Param { name, ty: self.ty()? })
    }

    /// Parses `{ ... }`; a statement that cannot be parsed is skipped.
    pub(super) fn block(&mut self) -> Read<Vec<Stmt>> {
        self.expect("{")?;
        self.nested(|this| {
            let mut list = Vec::new();
            while !this.eat("}") {
                if this.rest().is_empty() {
                    return this.expected("`}`");
                }
                if this.trying {
                    list.push(this.stmt()?);
                } else if let Ok(stmt) = this.stmt() {
                    list.push(stmt);
                } else {
                    this.skip_statement();
                }
            }
            Ok(list)
        })
    }

    /// Skips the rest of a statement that could not be parsed, but not the end of its block.
    pub(super) fn skip_statement(&mut self) {
        let mut open = 0;
        while let Some(c) = self.peek() {
            match c {
                '{' => open += 1,
                '}' if open == 0 => return,
                '}' => open -= 1,
                _ => {}
            }
            self.at += c.len_utf8();
            if open == 0 && matches!(c, ';' | '}') {
                return;
            }
        }
    }

    /// Whether the next word is used as a keyword: another word or a name follows, so that it is
    /// not a name itself.
    fn keyword(&mut self, word: &str) -> bool {
        if self.word() != word {
            return false;
        }
        let start = self.at;
        self.at += word.len();
        let follows = self.word();
        // A variable may have the name of a keyword, but nothing else begins with `var :`.
        let goes_on = match word {
            "while" => self.rest().starts_with('('),
            "var" => self.rest().starts_with(':'),
            _ => false,
        };
        let found = !follows.is_empty() || goes_on;
        self.at = start;
        found
    }

    pub(super) fn stmt(&mut self) -> Read<Stmt> {
        self.blanks();
        let start = self.at;
        if self.word() == "for" && self.rest()[3..].trim_start().starts_with('(') {
            return self.other_loop();
        }
        let kind = if self.word() == "if" {
            self.choices()?
        } else if self.keyword("for") {
            self.repeat()?
        } else if self.keyword("while") {
            self.repeat_while()?
        } else {
            let kind = self.simple()?;
            let end = self.semicolon();
            if let (Err(_), StmtKind::Decl { name, .. }) = (&end, &kind) {
                self.broken.insert(name.text.clone());
            }
            end?;
            kind
        };
        Ok(Stmt { kind, span: self.span(start) })
    }

    /// Parses a loop in the syntax of other languages, to report it.
    fn other_loop(&mut self) -> Read<Stmt> {
        let here = self.span_of_word();
        let mut open = 0;
        while let Some(c) = self.peek() {
            open += i32::from(c == '(') - i32::from(c == ')');
            self.at += c.len_utf8();
            if c == ')' && open <= 0 {
                break;
            }
        }
        self.fail_help(
            here,
            "a loop is not written so",
            "write `for i in 0..10 { ... }`, or `for key, value in map { ... }`",
        )
    }

    fn span_of_word(&mut self) -> crate::source::Span {
        let (start, len) = (self.at, self.word().len());
        crate::source::Span::new(self.script, start..start + len)
    }

    fn simple(&mut self) -> Read<StmtKind> {
        if let Some(decl) = self.declaration()? {
            return Ok(decl);
        }
        let word = self.word();
        let after = self.rest()[word.len()..].trim_start();
        match word {
            "return" => {
                self.at += word.len();
                self.blanks();
                let value = if self.rest().starts_with(';') { None } else { Some(self.expr()?) };
                return Ok(StmtKind::Return(value));
            }
            "break" if after.starts_with(';') => {
                self.at += word.len();
                return Ok(StmtKind::Break);
            }
            "continue" if after.starts_with(';') => {
                self.at += word.len();
                return Ok(StmtKind::Continue);
            }
            _ => {}
        }
        self.assignment()
    }

    fn assignment(&mut self) -> Read<StmtKind> {
        self.blanks();
        let start = self.at;
        let target = if self.rest().starts_with('@') || is_word(self.peek().unwrap_or(' ')) {
            self.place()?
        } else {
            return self.expected("a statement");
        };
        for (symbol, op) in [("++", BinOp::Add), ("--", BinOp::Sub)] {
            if self.eat(symbol) {
                let value = Expr { kind: ExprKind::Int(1), span: self.span(start) };
                return Ok(StmtKind::Assign { target, op: Some(op), value });
            }
        }
        if matches!(target.kind, ExprKind::Call(..) | ExprKind::Method(..)) {
            return Ok(StmtKind::Call(target));
        }
        self.blanks();
        let op = BinOp::ALL.iter().find(|o| {
            !o.1.compares()
                && !o.1.is_logic()
                && self.rest().strip_prefix(o.0).is_some_and(|t| t.starts_with('='))
        });
        self.at += op.map_or(0, |o| o.0.len());
        if !self.eat("=") {
            let declares = matches!(&target.kind, ExprKind::Name(n) if ["let", "const", "auto", "int", "i32", "u32"].contains(&n.as_str()));
            if declares {
                let name = self.word().to_string();
                self.broken.insert(name);
            }
            let help = declares.then_some("a variable is declared with `var name: type = value;`");
            return self.expected_help("`=`, `++`, `--` or a call", help);
        }
        Ok(StmtKind::Assign { target, op: op.map(|o| o.1), value: self.expr()? })
    }

    /// Parses a place that can be assigned to or called: a name with its postfix operators.
    fn place(&mut self) -> Read<Expr> {
        self.blanks();
        let start = self.at;
        if self.rest().starts_with('@') {
            return self.expr();
        }
        let name = self.name("a statement")?;
        let kind = if self.eat("(") {
            ExprKind::Call(name, self.arguments()?)
        } else {
            ExprKind::Name(name.text)
        };
        let value = Expr { kind, span: self.span(start) };
        self.postfix(value)
    }

    fn declaration(&mut self) -> Read<Option<StmtKind>> {
        let mut storage = Storage::default();
        let start = self.at;
        loop {
            let word = self.word();
            let class = match word {
                "report" | "unshared" | "shared" | "frame" | "var" if self.keyword(word) => word,
                _ => break,
            };
            let span = self.here();
            self.at += word.len();
            let class = match class {
                "var" => return self.declared(storage).map(Some),
                "report" => {
                    storage.report = true;
                    continue;
                }
                "unshared" => Class::Unshared,
                "shared" => Class::Shared,
                _ => Class::Frame,
            };
            if storage.class.replace(class).is_some_and(|before| before != class) {
                return self.fail(span, "a variable is one of `unshared`, `shared` and `frame`");
            }
        }
        if self.at == start {
            return Ok(None);
        }
        let name = self.word().to_string();
        self.broken.insert(name);
        self.expected("`var`")
    }

    fn declared(&mut self, storage: Storage) -> Read<StmtKind> {
        let name = self.name("the name of the variable")?;
        if name
            .text
            .strip_prefix("arg")
            .is_some_and(|t| t.starts_with(|c: char| c.is_ascii_digit()))
        {
            return self.fail_help(
                name.span,
                format!("`{}` names an operand", name.text),
                "choose a name that does not begin with `arg` and a digit",
            );
        }
        let text = name.text.clone();
        let rest = self.type_and_value(storage, name);
        if rest.is_err() {
            self.broken.insert(text);
        }
        rest
    }

    fn type_and_value(&mut self, storage: Storage, name: Name) -> Read<StmtKind> {
        if !self.eat(":") {
            return self.expected_help("`:`", Some("a variable has a type, as in `var x: i32;`"));
        }
        let ty = self.ty()?;
        let init = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(StmtKind::Decl { storage, name, ty, init })
    }

    fn choices(&mut self) -> Read<StmtKind> {
        let mut arms = Vec::new();
        let mut otherwise = None;
        while self.eat_word(if arms.is_empty() { "if" } else { "elif" }) {
            if arms.len() as u64 >= u64::from(DEEPEST) {
                return self.fail(self.here(), "this chain of conditions is too long");
            }
            self.expect("(")?;
            let cond = self.expr()?;
            self.expect(")")?;
            arms.push((cond, self.block()?));
            if self.eat_word("else") {
                otherwise = Some(self.block()?);
                break;
            }
        }
        // The documentation of version 2.0.1 ends a chain with a semicolon, which has no effect.
        self.eat(";");
        Ok(StmtKind::If { arms, otherwise })
    }

    fn repeat(&mut self) -> Read<StmtKind> {
        self.at += 3;
        let name = self.name("the name of the counter or key")?;
        let value = if self.eat(",") { Some(self.name("the name of the value")?) } else { None };
        if !self.eat_word("in") {
            return self.expected("`in`");
        }
        let low = self.expr()?;
        if value.is_none() && self.eat("..") {
            let high = self.expr()?;
            return Ok(StmtKind::Count { name, low, high, body: self.block()? });
        }
        Ok(StmtKind::Each { key: name, value, map: low, body: self.block()? })
    }

    fn repeat_while(&mut self) -> Read<StmtKind> {
        self.at += 5;
        self.expect("(")?;
        let cond = self.expr()?;
        self.expect(")")?;
        if !self.eat_word("max") {
            let help = "every loop in a probe must end: write `while (...) max 1000 { ... }`";
            return self.fail_help(self.here(), "this loop has no bound", help);
        }
        self.blanks();
        let start = self.at;
        let bound = match self.number(false)? {
            Some(ExprKind::Int(n) | ExprKind::Bits(n)) => u32::try_from(n).ok(),
            _ => None,
        };
        let Some(bound) = bound else {
            return self.fail(self.span(start), "the bound of a loop is a whole number below 2^32");
        };
        Ok(StmtKind::While { cond, bound, body: self.block()? })
    }
}
