//! The usual layout: one statement on a line, four blanks of indentation for each block, comments
//! at their places. A short block that was on one line stays there.
//!
//! Only blanks between symbols change, so that the meaning of a script cannot change. Rules are not
//! reformatted.

use super::ast::Item;
use super::literal::has_fraction;
use crate::diagnostic::Diagnostics;
use crate::source::Source;

/// A symbol, with the blanks before it.
#[derive(Debug)]
struct Symbol<'a> {
    text: &'a str,
    /// How many line breaks precede it.
    lines: usize,
    comment: bool,
    /// A rule, a number or a word, which needs a blank before another of these.
    solid: bool,
}

impl Symbol<'_> {
    /// Whether an operator behind it is binary or a postfix.
    fn is_operand(&self) -> bool {
        (self.solid && self.text != "return") || matches!(self.text, ")" | "]")
    }
}

const LONG: [&str; 18] = [
    "<<=", ">>=", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "==", "!=", ">=",
    "<=", "&&", "||",
];
const MORE: [&str; 4] = ["<<", ">>", "->", ".."];

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut open, mut at) = (0, 0);
    while at < rest.len() {
        let step = if rest[at..].starts_with("/*") {
            open += 1;
            2
        } else if rest[at..].starts_with("*/") {
            open -= 1;
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if open == 0 {
            break;
        }
    }
    Some(at)
}

fn quoted(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Some(i + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn width(rest: &str) -> usize {
    let first = rest.chars().next().unwrap_or(' ');
    if first == '"' {
        return quoted(rest).unwrap_or(rest.len());
    }
    if first.is_ascii_digit() {
        // A number may have a point, or an exponent with a sign.
        let mut end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if has_fraction(&rest[end..]) {
            end += 1 + rest[end + 1..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len() - end - 1);
        }
        if !rest.starts_with("0x")
            && rest[..end].ends_with(['e', 'E'])
            && rest[end..].starts_with(['+', '-'])
        {
            end += 1 + rest[end + 1..]
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len() - end - 1);
        }
        return end;
    }
    if first.is_ascii_alphanumeric() || first == '_' || first == '@' {
        return 1 + rest[1..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len() - 1);
    }
    LONG.iter().chain(&MORE).find(|s| rest.starts_with(**s)).map_or(first.len_utf8(), |s| s.len())
}

/// Splits a script into symbols; each rule, at the given places, is one symbol.
fn symbols<'a>(text: &'a str, rules: &[(usize, usize)]) -> Vec<Symbol<'a>> {
    let (mut list, mut at, mut lines) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        if blank > 0 {
            lines += rest[..blank].matches('\n').count();
            at += blank;
            continue;
        }
        let rule = rules.iter().find(|r| r.0 == at);
        let (len, is_comment) = match (rule, comment(rest)) {
            (Some(r), _) => (r.1 - r.0, false),
            (None, Some(n)) => (n, true),
            (None, None) => (width(rest), false),
        };
        let symbol = rest[..len].trim_end();
        let solid = rule.is_some()
            || symbol.starts_with(|c: char| c.is_ascii_alphanumeric() || "_@\"".contains(c));
        list.push(Symbol { text: symbol, lines, comment: is_comment, solid });
        (at, lines) = (at + len, 0);
    }
    list
}

/// Formats a script.
pub(crate) fn layout(source: &Source) -> Result<String, Diagnostics> {
    let mut said = Diagnostics::new(std::slice::from_ref(source));
    let script = super::items(0, source, &mut said);
    if said.has_errors() {
        return Err(said);
    }
    let place = |s: crate::source::Span| (s.start as usize, s.end as usize);
    let rules: Vec<_> = script
        .items
        .iter()
        .filter_map(|i| if let Item::Probe(p) = i { Some(place(p.rule.span)) } else { None })
        .collect();
    let mut printer = Printer::default();
    let list = symbols(&source.text, &rules);
    for (i, symbol) in list.iter().enumerate() {
        printer.short |= symbol.text == "{" && is_short(&list[i + 1..]);
        printer.symbol(symbol, i.checked_sub(1).map(|n| &list[n]));
    }
    let text = printer.out.trim_end();
    Ok(if text.is_empty() { String::new() } else { text.to_string() + "\n" })
}

/// Whether a block, whose opening brace was just read, is short and on one line.
fn is_short(rest: &[Symbol<'_>]) -> bool {
    let mut width = 0;
    for s in rest {
        width += s.text.len() + 1;
        if s.lines > 0 || width > 90 || s.text == "{" || s.text.starts_with("//") {
            return false;
        }
        if s.text == "}" {
            return width > 2;
        }
    }
    false
}

#[derive(Default)]
struct Printer {
    /// Whether it is in a block that stays on its line.
    short: bool,
    /// How many map types are open.
    angles: usize,
    out: String,
    depth: usize,
    parens: usize,
    /// Whether the previous symbol was a prefix operator.
    prefix: bool,
}

impl Printer {
    fn new_line(&mut self, blank: bool) {
        let text = self.out.trim_end().len();
        self.out.truncate(text);
        if !self.out.is_empty() {
            self.out.push_str(if blank { "\n\n" } else { "\n" });
        }
        self.out.push_str(&"    ".repeat(self.depth));
    }

    fn symbol(&mut self, s: &Symbol<'_>, before: Option<&Symbol<'_>>) {
        let closes = s.text == "}";
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        let last = before.map_or("", |b| b.text);
        let starts = before.is_none()
            || last == "{"
            || last == "}"
            || (last == ";" && self.parens == 0)
            || before.is_some_and(|b| b.comment && (b.text.starts_with("//") || s.lines > 0));
        let joined = last == "}" && matches!(s.text, "else" | "elif");
        let beside = s.comment && s.lines == 0 && before.is_some();
        if beside || (self.short && s.text != "{" && (starts || closes)) {
            self.out.push(' ');
        } else if (starts && !joined) || closes {
            let empty = closes && last == "{";
            if empty {
                self.out.push(' ');
            } else {
                self.new_line(s.lines > 1 && last != "{" && !closes);
            }
        } else if joined || self.apart(s, before) {
            self.out.push(' ');
        }
        self.out.push_str(s.text);
        self.short &= !closes;
        self.note(s, before);
    }

    fn note(&mut self, s: &Symbol<'_>, before: Option<&Symbol<'_>>) {
        self.prefix = matches!(s.text, "!" | "~")
            || (matches!(s.text, "-" | "--") && !before.is_some_and(Symbol::is_operand));
        match s.text {
            "{" => {
                self.depth += 1;
            }
            "<" if before.is_some_and(|b| b.text == "map") => self.angles += 1,
            ">" | ">>" => self.angles = self.angles.saturating_sub(s.text.len()),
            "(" => self.parens += 1,
            ")" => self.parens = self.parens.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether a blank precedes a symbol.
    fn apart(&self, s: &Symbol<'_>, before: Option<&Symbol<'_>>) -> bool {
        let Some(before) = before else { return false };
        if before.comment || s.comment {
            return true;
        }
        let keyword =
            matches!(before.text, "if" | "elif" | "while" | "return" | "in" | "for" | "as");
        match (before.text, s.text) {
            ("<", _) | (_, ">" | ">>") if self.angles > 0 => false,
            (_, ";" | "," | ")" | "]" | "++") | ("(" | "[", _) => false,
            // Two signs are no decrement.
            ("-", "-") => true,
            (_, "--") => !before.is_operand(),
            (".", _) | (_, ".") | ("..", _) | (_, "..") => false,
            (_, ":") => self.prefix_colon(),
            (_, "(") => keyword || !(before.solid || before.text == ")" || self.prefix),
            (_, "[") => keyword || !before.solid && before.text != "]",
            ("map", "<") => false,
            _ if self.prefix => false,
            _ => true,
        }
    }

    /// A colon has no blank before it in a declaration, but one in a conditional expression.
    fn prefix_colon(&self) -> bool {
        let line = self.out.rsplit('\n').next().unwrap_or("");
        line.contains('?')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_laid_out_already_and_says_the_same() {
        let text = "use lib ;// here\nreport var m:map<u32,i32>;\nwasm:opcode:*load*|call(arg0:i32):before/ a&&b /{ if(x==-1){y=x?1:2;}elif(z){m[ 1 ]++;}else{ lib.f( 1,2 ) ; } /* in */ t=m[1].0 ; }\n\n\nfn f(a:i32)->i32{ return -a*(b+1)<<2; }";
        let once = layout(&Source::new("x", text)).expect("it can be read");
        let twice = layout(&Source::new("x", once.as_str())).expect("it can be read");
        assert_eq!(once, twice);
        let strip = |t: &str| t.split_whitespace().collect::<String>();
        assert_eq!(strip(text), strip(&once));
        assert!(
            once.contains(
                "\n    if (x == -1) { y = x ? 1 : 2; } elif (z) { m[1]++; } else { lib.f(1, 2); } /* in */ t = m[1].0;\n"
            ),
            "{once}"
        );
    }
}
