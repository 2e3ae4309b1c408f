//! Parses the names of exports, which say when a function is to be called, and with which
//! arguments.
//!
//! ```text
//!     wasm:opcode:i32.load:after / $3(fname, fid) / ($4(pc), arg0, offset)
//!     └────── event ─────┘ mode    └ predicate ─┘   └── parameters ─────┘
//! ```
//!
//! A function that replaces an instruction says in braces what it leaves there ([`Leaves`]), if
//! that is not the function's results instead of all operands:
//!
//! ```text
//!     wasm:opcode:call:alt (arg0) {asks 1, decides, 5, "slow", $8(imm0)}
//! ```
//!
//! Blanks may stand between all parts, and a list may end in a comma: the authors of the first such
//! modules wrote both. Anything else that is not understood is an error with its place: a probe is
//! never called with other arguments than it asked for.

use super::site;
use std::fmt;
use std::ops::Range;
use wasm_aot_body::events::{self, Instruction, Mode};

/// When a function is to be called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// At every instruction.
    Any,
    /// At instructions of one kind.
    Opcode(&'static Instruction),
    FuncEntry,
    FuncExit,
    FuncUnwind,
    BlockStart,
    BlockEnd,
}

/// What a parameter can ask for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Pc,
    Fid,
    Fname,
    Opname,
    ProbeId,
    Frame,
    NumTargets,
    Offset,
    InstrCount,
    AtFuncEnd,
    Arg(u32),
    Imm(u32),
    Local(u32),
    /// The result of a function of the monitor that is called when the site is matched.
    Call(Call),
    Res(u32),
    OpIdx,
    DefaultTarget,
    Targets,
    TargetFnName,
    TargetFnType,
    TargetImpModule,
    ResolvedFid,
    RefTaken,
    MemoryBytes,
    Trap,
    Memory,
    Align,
    File,
    Line,
    AppMemory,
}

/// The names that modules of the existing compiler may ask for, too; the others are for modules
/// that import the marker.
const PLAIN: [(&str, Asked); 17] = [
    ("pc", Asked::Pc),
    ("opidx", Asked::OpIdx),
    ("fid", Asked::Fid),
    ("fname", Asked::Fname),
    ("opname", Asked::Opname),
    ("probe_id", Asked::ProbeId),
    ("frame", Asked::Frame),
    ("num_targets", Asked::NumTargets),
    ("offset", Asked::Offset),
    ("instr_count", Asked::InstrCount),
    ("at_func_end", Asked::AtFuncEnd),
    ("default_target", Asked::DefaultTarget),
    ("target_fn_name", Asked::TargetFnName),
    ("target_fn_type", Asked::TargetFnType),
    ("target_imp_module", Asked::TargetImpModule),
    ("memory", Asked::Memory),
    ("align", Asked::Align),
];
const EXTENDED: [(&str, Asked); 8] = [
    ("targets", Asked::Targets),
    ("resolved_fid", Asked::ResolvedFid),
    ("ref_taken", Asked::RefTaken),
    ("memory_bytes", Asked::MemoryBytes),
    ("trap", Asked::Trap),
    ("file", Asked::File),
    ("line", Asked::Line),
    ("APP_MEMID", Asked::AppMemory),
];
/// The name of `fid` in the first modules.
const FUNC: (&str, &str) = ("func", "fid");
/// Names of instructions from before the specification was finished, which modules still use.
const FORMER: [(&str, &str); 5] = [
    ("v128.anytrue", "v128.any_true"),
    ("i8x16.alltrue", "i8x16.all_true"),
    ("i16x8.alltrue", "i16x8.all_true"),
    ("i32x4.alltrue", "i32x4.all_true"),
    ("i64x2.alltrue", "i64x2.all_true"),
];
/// The modes that exports name.
const MODES: [Mode; 6] =
    [Mode::Before, Mode::Alt, Mode::After, Mode::SemanticAfter, Mode::Entry, Mode::Exit];
const STRUCTURAL: [(&str, &str, Event); 5] = [
    ("func", "entry", Event::FuncEntry),
    ("func", "exit", Event::FuncExit),
    ("func", "unwind", Event::FuncUnwind),
    ("block", "start", Event::BlockStart),
    ("block", "end", Event::BlockEnd),
];

/// What a function leaves that replaces an instruction: in braces after the parameters. Without
/// braces it takes all operands and gives all results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaves<C> {
    /// How many operands it asks for, from the top: `asks 1`, or all.
    pub(crate) asks: Option<u32>,
    /// Whether it leaves the operands out: `drops`.
    pub(crate) drops: bool,
    /// Whether its last result is a number that says what happens: `decides`. 0: the instruction.
    /// 1: its other results are used. From 2 on, a listed function is called.
    pub(crate) decides: bool,
    /// Functions of the program that it may have called instead.
    pub(crate) calls: Vec<C>,
}

impl<C> Leaves<C> {
    /// The same with other callees.
    pub(crate) fn with<D>(&self, calls: Vec<D>) -> Leaves<D> {
        Leaves { asks: self.asks, drops: self.drops, decides: self.decides, calls }
    }
}

/// How a name identifies a function of the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chosen<H> {
    /// By its index or name.
    Fixed(Callee),
    /// By what a function of the monitor returns when a site is matched: an index, or the address
    /// and length of a name.
    AtMatch(H),
}

/// A function of the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Callee {
    Index(u32),
    Name(String),
}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "function {index}"),
            Self::Name(name) => write!(f, "function {name:?}"),
        }
    }
}

/// A parameter, and where it stands in the name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) asked: Asked,
    pub(crate) at: Range<usize>,
}

/// A function of the monitor that is called when a site is matched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) params: Vec<Param>,
}

/// What a name says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) event: Event,
    pub(crate) mode: Mode,
    pub(crate) predicate: Option<Param>,
    pub(crate) params: Vec<Param>,
    pub(crate) leaves: Option<Leaves<Chosen<Param>>>,
}

/// What is wrong with a name, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) name: String,
    pub(crate) at: Range<usize>,
    pub(crate) why: String,
    /// Whether the name is of an unknown instruction.
    pub(crate) is_unknown: bool,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arg(n) => write!(f, "arg{n}"),
            Self::Imm(n) => write!(f, "imm{n}"),
            Self::Local(n) => write!(f, "local{n}"),
            Self::Res(n) => write!(f, "res{n}"),
            Self::Call(call) => write!(f, "{}(…)", call.function),
            other => {
                let known = PLAIN.iter().chain(&EXTENDED).find(|(_, asked)| asked == other);
                f.write_str(known.map_or("what is asked for", |(name, _)| name))
            }
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = wasm_aot_engine::instrument::Printable(&self.name).to_string();
        let carets =
            "^".repeat(self.at.len().clamp(1, 1 + self.name.len().saturating_sub(self.at.start)));
        let lead = 2 + self.at.start;
        write!(f, "  {name}\n{:lead$}{carets} {}", "", self.why)
    }
}

/// The known word that looks like `word`, as a question.
pub(crate) fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.map(|known| (strsim::damerau_levenshtein(word, known), known)).min();
    let near = near.filter(|(distance, known)| *distance <= 1 + known.len() / 4);
    near.map_or_else(String::new, |(_, known)| format!(": did you mean {known}?"))
}

/// Whether an export is to be called at an event: all others are functions for the monitor's own
/// use.
pub(crate) fn is_probe(name: &str) -> bool {
    name.starts_with("wasm:") && name != EXIT && !is_report(name)
}

/// The export that is called when the program has ended, and for each report.
pub(crate) const EXIT: &str = "wasm:exit";

/// Whether an export is called right before [`EXIT`]: modules of the existing compiler have probes
/// at their report, `wasm:report:  ()`.
pub(crate) fn is_report(name: &str) -> bool {
    let rest = name.strip_prefix("wasm:report");
    rest.is_some_and(|rest| rest.trim_matches([':', ' ', '(', ')']).is_empty())
}

/// Reads a name. `extended`: the module imports the marker.
pub(crate) fn parse(name: &str, extended: bool) -> Result<Name, Malformed> {
    let mut reader = Reader { name, at: 0, extended };
    reader.word("wasm");
    reader.expect(':')?;
    let event = reader.event()?;
    let mut mode = reader.mode(event)?;
    let predicate = match reader.take('/') {
        true => {
            let call = reader.call_at_match()?;
            reader.expect('/')?;
            Some(call)
        }
        false => None,
    };
    let params = if reader.rest().is_empty() { Vec::new() } else { reader.list(0)? };
    let leaves = if reader.rest().starts_with('{') { Some(reader.leaves(mode)?) } else { None };
    // The existing compiler's names have no modes: there, a function that asks for results is
    // called after the instruction.
    let asks_results = params.iter().any(|param| matches!(param.asked, Asked::Res(_)));
    if !extended && asks_results && matches!(event, Event::Opcode(_) | Event::Any) {
        mode = Mode::After;
    }
    match reader.rest().is_empty() {
        true => Ok(Name { event, mode, predicate, params, leaves }),
        false => {
            Err(reader.wrong(reader.at..name.len(), "nothing may stand behind the parameters"))
        }
    }
}

/// Reads from the left.
struct Reader<'a> {
    name: &'a str,
    at: usize,
    extended: bool,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.name[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.name.len() - self.rest().trim_start().len();
    }

    fn wrong(&self, at: Range<usize>, why: impl Into<String>) -> Malformed {
        Malformed { name: self.name.to_owned(), at, why: why.into(), is_unknown: false }
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
            self.blanks();
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<(), Malformed> {
        match self.take(c) {
            true => Ok(()),
            false => Err(self.wrong(self.at..self.at + 1, format!("expected `{c}`"))),
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
            self.blanks();
        }
        found
    }

    /// The longest text of letters, digits and these.
    fn identifier(&mut self, more: &str) -> (&'a str, Range<usize>) {
        let rest = self.rest();
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !more.contains(c))
            .unwrap_or(rest.len());
        let at = self.at..self.at + len;
        self.at += len;
        self.blanks();
        (&rest[..len], at)
    }

    fn event(&mut self) -> Result<Event, Malformed> {
        let (package, at) = self.identifier("_");
        self.blanks();
        let packages = ["opcode", "func", "block"];
        if !packages.contains(&package) {
            let hint = near(package, packages.into_iter().chain(["exit"]));
            return Err(self.wrong(
                at,
                format!("no such kind of event; there are opcode, func and block{hint}"),
            ));
        }
        self.expect(':')?;
        if package == "opcode" {
            return self.opcode();
        }
        let (word, at) = self.identifier("_");
        let own = || STRUCTURAL.iter().filter(move |(of, ..)| *of == package);
        match own().find(|(_, name, _)| *name == word) {
            Some((.., Event::FuncUnwind)) if !self.extended => Err(self.wrong(at, NEEDS_MARKER)),
            Some((.., event)) => Ok(*event),
            None => {
                let names: Vec<&str> = own().map(|(_, name, _)| *name).collect();
                let hint = near(word, names.iter().copied());
                Err(self
                    .wrong(at, format!("no such event; {package} has {}{hint}", names.join(", "))))
            }
        }
    }

    fn opcode(&mut self) -> Result<Event, Malformed> {
        let start = self.at;
        if self.take('*') {
            let more = self.rest().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '*');
            return match more {
                true => Err(self.wrong(
                    start..self.at,
                    "`*` alone means every instruction; there are no patterns",
                )),
                false => Ok(Event::Any),
            };
        }
        // Two mnemonics have a blank in them.
        for (spelled, name) in
            [("ref.test null", "ref.test_null"), ("ref.cast null", "ref.cast_null")]
        {
            if let (true, Some(found)) = (self.rest().starts_with(spelled), instruction(name)) {
                self.word(spelled);
                return Ok(Event::Opcode(found));
            }
        }
        let (word, at) = self.identifier("_.");
        let former = FORMER.iter().find(|(former, _)| *former == word);
        instruction(former.map_or(word, |(_, name)| name)).map(Event::Opcode).ok_or_else(|| {
            let hint = near(word, events::instructions().iter().map(|known| known.name));
            Malformed { is_unknown: true, ..self.wrong(at, format!("no such instruction{hint}")) }
        })
    }

    fn mode(&mut self, event: Event) -> Result<Mode, Malformed> {
        if !self.take(':') {
            return Ok(Mode::Before);
        }
        let (word, at) = self.identifier("_");
        let Some(mode) = MODES.iter().find(|mode| mode.name() == word) else {
            let names = MODES.map(Mode::name);
            let hint = near(word, names.into_iter());
            return Err(
                self.wrong(at, format!("no such mode; there are {}{hint}", names.join(", ")))
            );
        };
        match event {
            _ if !self.extended => Err(self.wrong(at, NEEDS_MARKER)),
            Event::Any if *mode == Mode::Alt => {
                Err(self.wrong(at, "say which instruction is replaced: `*` are all"))
            }
            Event::Opcode(op) if *mode == Mode::Alt && !site::is_replaced(op.name) => Err(self
                .wrong(at, format!("`{}` is the border of a block: blocks are replaced", op.name))),
            Event::Any | Event::Opcode(_) => Ok(*mode),
            _ => Err(self.wrong(at, "only instructions have modes")),
        }
    }

    fn list(&mut self, depth: u32) -> Result<Vec<Param>, Malformed> {
        self.expect('(')?;
        let mut params = Vec::new();
        loop {
            if self.take(')') {
                return Ok(params);
            }
            params.push(self.param(depth)?);
            if !self.take(',') {
                self.expect(')')?;
                return Ok(params);
            }
        }
    }

    /// What stands in braces.
    fn leaves(&mut self, mode: Mode) -> Result<Leaves<Chosen<Param>>, Malformed> {
        let start = self.at;
        self.expect('{')?;
        if mode != Mode::Alt {
            let why = "only what stands in place of an instruction says what it leaves";
            return Err(self.wrong(start..self.at, why));
        }
        let mut leaves = Leaves { asks: None, drops: false, decides: false, calls: Vec::new() };
        while !self.take('}') {
            self.left(&mut leaves)?;
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        match leaves.calls.is_empty() || leaves.decides {
            true => Ok(leaves),
            false => {
                let why = "functions are called instead only by what decides: write `decides`";
                Err(self.wrong(start..self.at, why))
            }
        }
    }

    fn left(&mut self, leaves: &mut Leaves<Chosen<Param>>) -> Result<(), Malformed> {
        if self.rest().starts_with('"') {
            leaves.calls.push(Chosen::Fixed(Callee::Name(self.quoted()?)));
            return Ok(());
        }
        let start = self.at;
        let (word, at) = self.identifier("_$");
        if self.rest().starts_with('(') {
            self.at = start;
            leaves.calls.push(Chosen::AtMatch(self.param(0)?));
            return Ok(());
        }
        match word {
            "drops" => leaves.drops = true,
            "decides" => leaves.decides = true,
            "asks" => {
                let (number, at) = self.identifier("_");
                let asks = number.parse().map_err(|_| self.wrong(at, "expected a number"))?;
                leaves.asks = Some(asks);
            }
            number => match number.parse() {
                Ok(index) => leaves.calls.push(Chosen::Fixed(Callee::Index(index))),
                Err(_) => {
                    let why = "expected asks, drops, decides, or a function: its index, its name \
                               in quotes, or a call such as `$8(imm0)`";
                    return Err(self.wrong(at.start..at.end.max(at.start + 1), why));
                }
            },
        }
        Ok(())
    }

    /// A text in quotes, in which a backslash stands before each quote and each backslash.
    fn quoted(&mut self) -> Result<String, Malformed> {
        let (start, mut text) = (self.at, String::new());
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + at + 1;
                    self.blanks();
                    return Ok(text);
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        Err(self.wrong(start..self.name.len(), "the quote does not end"))
    }

    fn call_at_match(&mut self) -> Result<Param, Malformed> {
        let param = self.param(0)?;
        match param.asked {
            Asked::Call(_) => Ok(param),
            _ => {
                Err(self.wrong(param.at, "a predicate is a call of one of the monitor's functions"))
            }
        }
    }

    fn param(&mut self, depth: u32) -> Result<Param, Malformed> {
        let start = self.at;
        let (word, at) = self.identifier("_$");
        if word.is_empty() {
            return Err(self.wrong(start..start + 1, "expected a parameter"));
        }
        if self.rest().starts_with('(') {
            if depth > 0 {
                return Err(self.wrong(at, "calls do not nest"));
            }
            let params = self.list(1)?;
            let call = Call { function: word.to_owned(), params };
            return Ok(Param { asked: Asked::Call(call), at: start..self.at });
        }
        let asked = self.asked(word, &at)?;
        let dynamic = matches!(
            asked,
            Asked::Arg(_)
                | Asked::Local(_)
                | Asked::Res(_)
                | Asked::Frame
                | Asked::ResolvedFid
                | Asked::RefTaken
                | Asked::MemoryBytes
                | Asked::Trap
        );
        match depth {
            1 if dynamic => {
                Err(self.wrong(at, format!("`{word}` is not known when a site is matched")))
            }
            _ => Ok(Param { asked, at }),
        }
    }

    fn asked(&self, word: &str, at: &Range<usize>) -> Result<Asked, Malformed> {
        let former = events::FORMER.iter().chain([&FUNC]).find(|(former, _)| *former == word);
        let word = former.map_or(word, |(_, name)| *name);
        if let Some((_, asked)) = PLAIN.iter().find(|(name, _)| *name == word) {
            return Ok(asked.clone());
        }
        if let Some((_, asked)) = EXTENDED.iter().find(|(name, _)| *name == word) {
            return if self.extended {
                Ok(asked.clone())
            } else {
                Err(self.wrong(at.clone(), NEEDS_MARKER))
            };
        }
        let numbered = |prefix: &str| -> Option<u32> {
            let digits = word.strip_prefix(prefix)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        if let Some(n) = numbered("arg") {
            return Ok(Asked::Arg(n));
        }
        if let Some(n) = numbered("imm") {
            return Ok(Asked::Imm(n));
        }
        if let Some(n) = numbered("local") {
            return Ok(Asked::Local(n));
        }
        if let Some(n) = numbered("res") {
            return Ok(Asked::Res(n));
        }
        let families = ["arg0", "imm0", "local0", "res0"];
        let known = PLAIN.iter().chain(&EXTENDED).map(|(name, _)| *name).chain(families);
        Err(self.wrong(at.clone(), format!("no such parameter{}", near(word, known))))
    }
}

/// The error where only modules that import the marker may use something.
const NEEDS_MARKER: &str = "only modules that import \"wasm-aot:ext\" \"v1\" may ask for this";

fn instruction(name: &str) -> Option<&'static Instruction> {
    events::instructions().iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(name: &str) -> Name {
        parse(name, false).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn asked(name: &Name) -> Vec<Asked> {
        name.params.iter().map(|param| param.asked.clone()).collect()
    }

    #[test]
    fn names_of_the_existing_compiler_are_read_with_their_blanks_and_commas() {
        let name = plain("wasm:opcode:br_if  ($20(fname, fid, pc), )");
        assert!(matches!(name.event, Event::Opcode(op) if op.name == "br_if"));
        let Asked::Call(call) = &name.params[0].asked else { panic!("a call") };
        assert_eq!((name.params.len(), call.function.as_str(), call.params.len()), (1, "$20", 3));
        let name = plain("wasm:opcode:call / $70(pc, fid) / ($73(fname, fid, pc), arg0)");
        assert!(name.predicate.is_some());
        assert_eq!(asked(&name)[1], Asked::Arg(0));
        assert_eq!(asked(&plain("wasm:func:entry / $76(fname) / ()")), []);
        assert_eq!(
            asked(&plain("wasm:opcode:i32.store  ($82(pc), arg1, offset)"))[1..],
            [Asked::Arg(1), Asked::Offset]
        );
        assert_eq!(
            asked(&plain("wasm:opcode:i32.load  ($18(fname, fid, pc), memory, align)"))[1..],
            [Asked::Memory, Asked::Align]
        );
        assert_eq!(asked(&plain("wasm:opcode:br_table (default_target)")), [Asked::DefaultTarget]);
        assert_eq!(
            asked(&plain("wasm:opcode:call / $1(target_fn_type) / (target_fn_name)")),
            [Asked::TargetFnName]
        );
    }

    #[test]
    fn blanks_may_stand_between_all_parts() {
        let name = plain("wasm: opcode: i32.load ( pc ,imm0 )");
        assert_eq!(asked(&name), [Asked::Pc, Asked::Imm(0)]);
        assert_eq!(plain("wasm:opcode:*(pc)").event, Event::Any);
        assert!(
            matches!(plain("wasm:opcode:ref.test null ()").event, Event::Opcode(op) if op.name == "ref.test_null")
        );
        assert_eq!(plain("wasm:block:end").params, []);
    }

    #[test]
    fn former_names_of_instructions_and_parameters_mean_the_present_ones() {
        for (former, present) in FORMER {
            let name = plain(&format!("wasm:opcode:{former} (func, op_name)"));
            assert!(matches!(name.event, Event::Opcode(op) if op.name == present), "{former}");
            assert_eq!(asked(&name), [Asked::Fid, Asked::Opname]);
        }
        assert_eq!([Asked::Fid, Asked::Opname].map(|it| it.to_string()), ["fid", "opname"]);
    }

    #[test]
    fn what_is_not_understood_is_shown_with_a_caret() {
        let wrong = |name: &str| parse(name, false).expect_err("malformed").to_string();
        assert_eq!(
            wrong("wasm:opcode:i32.laod (pc)"),
            "  wasm:opcode:i32.laod (pc)\n              ^^^^^^^^ no such instruction: did you mean i32.load?"
        );
        for (name, why) in [
            ("wasm:opcode:*load*(pc)", "there are no patterns"),
            ("wasm:opcode:*(pc)junk", "nothing may stand behind"),
            ("wasm:func:entryXX (pc)", "did you mean entry?"),
            ("wasm:fun:entry (pc)", "did you mean func?"),
            ("wasm:opcode:call:after (pc)", "only modules that import"),
            ("wasm:opcode:call (resolved_fid)", "only modules that import"),
            ("wasm:opcode:call ($f(arg0))", "not known when a site is matched"),
            ("wasm:opcode:call ($f($g()))", "calls do not nest"),
            ("wasm:opcode:call (pcc)", "did you mean pc?"),
            ("wasm:opcode:call (pc", "expected `)`"),
            ("wasm:opcode:call / pc / ()", "a predicate is a call"),
            ("wasm:opcode:call / $f( / ()", "expected a parameter"),
            ("wasm:", "no such kind of event"),
        ] {
            assert!(wrong(name).contains(why), "{name}: {}", wrong(name));
        }
    }

    #[test]
    fn results_that_are_asked_for_without_a_mode_are_those_behind_the_instruction() {
        let name = plain("wasm:opcode:call  ($18(fname, fid, pc, opidx), res0)");
        assert_eq!((name.mode, &name.params[1].asked), (Mode::After, &Asked::Res(0)));
        assert_eq!(plain("wasm:opcode:call (arg0)").mode, Mode::Before);
    }

    #[test]
    fn modules_with_the_marker_may_ask_for_more() {
        let name = parse("wasm:opcode:call:after (res0, opidx)", true).expect("a name");
        assert_eq!((name.mode, asked(&name)), (Mode::After, vec![Asked::Res(0), Asked::OpIdx]));
        assert_eq!(parse("wasm:opcode:call:alt ()", true).expect("a name").mode, Mode::Alt);
        assert_eq!(parse("wasm:opcode:br_if:alt ()", true).expect("a name").mode, Mode::Alt);
        assert_eq!(parse("wasm:opcode:br:alt ()", true).expect("a name").mode, Mode::Alt);
        for op in ["br_on_null", "return_call_ref", "throw_ref"] {
            assert_eq!(parse(&format!("wasm:opcode:{op}:alt ()"), true).expect(op).mode, Mode::Alt);
        }
        let wrong = parse("wasm:opcode:delegate:alt ()", true).expect_err("malformed");
        assert!(wrong.why.contains("blocks are replaced"), "{wrong}");
        assert!(parse("wasm:block:start:after ()", true).is_err());
    }

    #[test]
    fn what_stands_in_place_of_an_instruction_says_what_it_leaves() {
        let read = |name: &str| parse(name, true).map(|name| name.leaves);
        let leaves = |asks, drops, decides, calls| Leaves { asks, drops, decides, calls };
        assert_eq!(read("wasm:opcode:call:alt (pc)"), Ok(None));
        assert_eq!(
            read("wasm:opcode:call:alt (pc) {}"),
            Ok(Some(leaves(None, false, false, vec![])))
        );
        let fixed = [Callee::Index(5), Callee::Name("a \"b\" \\ é".into())];
        let calls = fixed.map(Chosen::Fixed).to_vec();
        assert_eq!(
            read(
                r#"wasm:opcode:call:alt / $1(pc) / () { asks 1 ,drops, decides, 5, "a \"b\" \\ é" }"#
            ),
            Ok(Some(leaves(Some(1), true, true, calls)))
        );
        let chosen = read("wasm:opcode:call:alt () {decides, $2(imm0, fname), 5}")
            .expect("a name")
            .expect("braces");
        let [Chosen::AtMatch(param), Chosen::Fixed(Callee::Index(5))] = &chosen.calls[..] else {
            panic!("{chosen:?}")
        };
        assert!(matches!(&param.asked, Asked::Call(call) if call.params.len() == 2));
        for (name, why) in [
            ("wasm:opcode:call:alt () {5}", "write `decides`"),
            ("wasm:opcode:call:alt () {decides, x}", "expected asks"),
            ("wasm:opcode:call:alt () {asks x}", "expected a number"),
            ("wasm:opcode:call:alt () {decides, $f(arg0)}", "not known when a site is matched"),
            ("wasm:opcode:call:alt () {decides, $f(pc)", "expected `}`"),
            ("wasm:opcode:call:alt () {decides, \"x}", "the quote does not end"),
            ("wasm:opcode:call:alt () {decides", "expected `}`"),
            ("wasm:opcode:call:after () {}", "only what stands in place"),
        ] {
            let wrong = read(name).expect_err(name).to_string();
            assert!(wrong.contains(why), "{name}: {wrong}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        arbtest::arbtest(|u| {
            const PARTS: [&str; 19] = [
                "wasm", ":", "opcode", "*", "func", "entry", " ", "/", "$1", "(", ")", ",", "arg0",
                "pc", "é", "call", "{", "}", "\"",
            ];
            let text: String = (0..u.int_in_range(0..=14)?)
                .map(|_| u.choose(&PARTS).copied())
                .collect::<Result<_, _>>()?;
            for extended in [false, true] {
                if let Err(wrong) = parse(&format!("wasm:{text}"), extended) {
                    assert!(wrong.to_string().contains('^'));
                }
            }
            Ok(())
        });
    }
}
