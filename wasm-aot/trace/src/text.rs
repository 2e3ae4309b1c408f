//! The text form: a line for each event, for people and for tests.
//!
//! ```text
//!     fi-trace text 1
//!     program 9f86d081… "app.wasm"
//!     enter 12 export "_start"
//!     call 3 i32:1 i32:1036 i32:1 i32:1032
//!     write 0 1032 0c000000
//!     return i32:0
//!     leave
//! ```
//!
//! Lines that begin with `#` are comments. Texts are quoted, with `\"`, `\\` and `\xHH` inside.

mod line;

use crate::VERSION;
use crate::error::Error;
use crate::event::{Change, Door, End, Event, Frame};
use crate::program::{ModuleHash, Program};
use crate::value::{Signature, Value};
use line::Line;
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Read};
use wasmparser::{FuncType, ValType};

/// The first line of the text form.
pub const TEXT_MAGIC: &str = "fi-trace text 1";
/// The same without the version.
const TEXT: &str = "fi-trace text ";

/// Whether a file that begins with these bytes is a trace in text, of whatever version.
pub fn is_text(head: &[u8]) -> bool {
    head.starts_with(TEXT.as_bytes())
}

/// The heading of a trace in text: its program.
pub fn heading(program: &Program) -> String {
    let mut text = format!("{TEXT_MAGIC}\nprogram {} {}", program.hash, Quoted(&program.name));
    for arg in &program.args {
        let _ = write!(text, " {}", Quoted(arg));
    }
    let _ = writeln!(text, "\nrecorder {}", Quoted(&program.recorder));
    text
}

/// A text in quotes.
struct Quoted<B>(B);

impl<B: AsRef<[u8]>> fmt::Display for Quoted<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.0.as_ref().utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    c if c.is_control() || !(c.is_ascii() || c.is_alphanumeric()) => {
                        let mut bytes = [0; 4];
                        c.encode_utf8(&mut bytes)
                            .bytes()
                            .try_for_each(|b| write!(f, "\\x{b:02x}"))?;
                    }
                    c => f.write_char(c)?,
                }
            }
            chunk.invalid().iter().try_for_each(|b| write!(f, "\\x{b:02x}"))?;
        }
        f.write_char('"')
    }
}

/// Hexadecimal digits of bytes; a dash if there are none.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_char('-'),
            bytes => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

fn values(f: &mut fmt::Formatter<'_>, values: &[Value]) -> fmt::Result {
    values.iter().try_for_each(|value| write!(f, " {value}"))
}

fn types(f: &mut fmt::Formatter<'_>, types: &[ValType]) -> fmt::Result {
    types.iter().try_for_each(|ty| write!(f, " {}", Signature::spelled(*ty).0))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter { function, door, args } => {
                write!(f, "enter {function} ")?;
                match door {
                    Door::Export(name) => write!(f, "export {}", Quoted(name))?,
                    Door::Start => f.write_str("start")?,
                    Door::Reference => f.write_str("reference")?,
                }
                values(f, args)
            }
            Self::Call { function, args } => {
                write!(f, "call {function}")?;
                values(f, args)
            }
            Self::Leave(end) => write!(f, "leave{end}"),
            Self::Return(end) => write!(f, "return{end}"),
            Self::Function(signature) => {
                f.write_str("function")?;
                types(f, signature.ty().params())?;
                f.write_str(" ->")?;
                types(f, signature.ty().results())
            }
            Self::Host(change) => write!(f, "{change}"),
            Self::Found(change) => write!(f, "found {change}"),
            Self::Seen(change) => write!(f, "seen {change}"),
            Self::Own(change) => write!(f, "own {change}"),
            Self::Begin { function } => write!(f, "begin {function}"),
            Self::Done => f.write_str("done"),
        }
    }
}

/// Each part has a space before it.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(results) => values(f, results),
            Self::Exit { code, frames } => {
                write!(f, " exit {code}")?;
                frames
                    .iter()
                    .try_for_each(|frame| write!(f, " {}@{}", frame.function, frame.offset))
            }
            Self::Trap(why) => write!(f, " trap {}", Quoted(why)),
            Self::Exception { tag, values: carried } => {
                write!(f, " exception {tag}")?;
                values(f, carried)
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Write { memory, address, bytes } => {
                write!(f, " {memory} {address} {}", Hex(bytes))
            }
            Self::Grow { memory, pages } => write!(f, " {memory} {pages}"),
            Self::Global { global, value } => write!(f, " {global} {value}"),
            Self::Element { table, index, value } => write!(f, " {table} {index} {value}"),
            Self::GrowTable { table, count, value } => write!(f, " {table} {count} {value}"),
        }
    }
}

/// A trace in text that is being read.
#[derive(Debug)]
pub struct TextReader<R: Read> {
    from: BufReader<R>,
    program: Program,
    line: u64,
    has_failed: bool,
}

/// The maximum length of a line: that of a write with the most bytes that an event can have.
const LONGEST: u64 = 4 << 20;

impl<R: Read> TextReader<R> {
    /// Begins to read: the program.
    pub fn new(from: R) -> Result<Self, Error> {
        let nothing = Program {
            hash: ModuleHash([0; 32]),
            module: None,
            name: String::new(),
            args: Vec::new(),
            recorder: String::new(),
        };
        let mut this =
            Self { from: BufReader::new(from), program: nothing, line: 0, has_failed: false };
        let first = this.line()?.ok_or(Error::NotATrace)?;
        let version = first.strip_prefix(TEXT).and_then(|version| version.parse().ok());
        match version.ok_or(Error::NotATrace)? {
            VERSION => {}
            other => return Err(Error::Version(other)),
        }
        let first = this.line()?.ok_or(Error::Empty)?;
        let wrong = |what: String| Error::Line { line: 2, what };
        let mut words = Line::new(&first).map_err(wrong)?;
        let program = words.keyword("program").and_then(|()| {
            let hash = words.word()?;
            this.program.hash =
                ModuleHash::parse(hash).ok_or_else(|| format!("{hash}: no hash of a module"))?;
            this.program.name = words.text()?;
            while !words.is_empty() {
                this.program.args.push(words.quoted()?);
            }
            Ok(())
        });
        program.map_err(wrong)?;
        Ok(this)
    }

    /// The recorded program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Reads the next line that is not a comment.
    fn line(&mut self) -> Result<Option<String>, Error> {
        loop {
            let mut text = Vec::new();
            self.line += 1;
            (&mut self.from).take(LONGEST).read_until(b'\n', &mut text)?;
            if text.is_empty() {
                return Ok(None);
            }
            if text.len() as u64 == LONGEST {
                return Err(Error::Line { line: self.line, what: "longer than lines are".into() });
            }
            let text = String::from_utf8(text)
                .map_err(|_| Error::Line { line: self.line, what: "not UTF-8".into() })?;
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some(text.to_owned()));
            }
        }
    }

    fn event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let Some(line) = self.line()? else { return Ok(None) };
            let number = self.line;
            let wrong = |what| Error::Line { line: number, what };
            let mut words = Line::new(&line).map_err(wrong)?;
            if words.has_keyword("recorder") {
                self.program.recorder = words.text().map_err(wrong)?;
                continue;
            }
            let event = event(&mut words).map_err(wrong)?;
            return match words.is_empty() {
                true => Ok(Some(event)),
                false => Err(wrong(format!("more than an event: {line}"))),
            };
        }
    }
}

impl<R: Read> Iterator for TextReader<R> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.event().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

fn event(words: &mut Line<'_>) -> Result<Event, String> {
    Ok(match words.word()? {
        "enter" => {
            let function = words.number()?;
            let door = match words.word()? {
                "export" => Door::Export(words.text()?),
                "start" => Door::Start,
                "reference" => Door::Reference,
                other => return Err(format!("{other}: expected export, start or reference")),
            };
            Event::Enter { function, door, args: words.values()? }
        }
        "leave" => Event::Leave(end(words)?),
        "call" => Event::Call { function: words.number()?, args: words.values()? },
        "return" => Event::Return(end(words)?),
        "function" => Event::Function(signature(words)?),
        "found" => {
            let kind = words.word()?;
            Event::Found(change(kind, words)?)
        }
        "seen" => {
            let kind = words.word()?;
            Event::Seen(change(kind, words)?)
        }
        "own" => {
            let kind = words.word()?;
            Event::Own(change(kind, words)?)
        }
        "begin" => Event::Begin { function: words.number()? },
        "done" => Event::Done,
        kind => Event::Host(change(kind, words)?),
    })
}

fn signature(words: &mut Line<'_>) -> Result<Signature, String> {
    let mut types = [Vec::new(), Vec::new()];
    let mut is_result = false;
    while !words.is_empty() {
        match words.word()? {
            "->" if !is_result => is_result = true,
            word => types[usize::from(is_result)].push(
                Signature::type_named(word).ok_or_else(|| format!("{word}: no type of a value"))?,
            ),
        }
    }
    let [params, results] = types;
    match is_result {
        true => Ok(Signature::new(FuncType::new(params, results)).expect("types of values")),
        false => Err("expected -> behind a function's parameters".into()),
    }
}

fn end(words: &mut Line<'_>) -> Result<End, String> {
    if words.has_keyword("exit") {
        let code = words.number()?;
        let mut frames = Vec::new();
        while !words.is_empty() {
            let word = words.word()?;
            let frame = word.split_once('@').and_then(|(function, offset)| {
                Some(Frame { function: function.parse().ok()?, offset: offset.parse().ok()? })
            });
            frames.push(frame.ok_or_else(|| format!("{word}: expected FUNCTION@OFFSET"))?);
        }
        return Ok(End::Exit { code, frames });
    }
    if words.has_keyword("trap") {
        return words.text().map(End::Trap);
    }
    if words.has_keyword("exception") {
        return Ok(End::Exception { tag: words.number()?, values: words.values()? });
    }
    words.values().map(End::Values)
}

fn change(kind: &str, words: &mut Line<'_>) -> Result<Change, String> {
    Ok(match kind {
        "write" => {
            Change::Write { memory: words.number()?, address: words.number()?, bytes: words.hex()? }
        }
        "grow" => Change::Grow { memory: words.number()?, pages: words.number()? },
        "global" => Change::Global { global: words.number()?, value: words.value()? },
        "element" => Change::Element {
            table: words.number()?,
            index: words.number()?,
            value: words.value()?,
        },
        "grow-table" => Change::GrowTable {
            table: words.number()?,
            count: words.number()?,
            value: words.value()?,
        },
        other => return Err(format!("{other}: no event")),
    })
}
