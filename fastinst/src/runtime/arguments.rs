//! Arguments: what functions are called with and what they return, by value.
//!
//! ```text
//! entry ─▶ keeping::enter_capture ─▶ enter: a key of the values ─▶ its cell: one more; a call is
//! open exit  ─▶ keeping::exit_capture  ─▶ exit:  that call ─▶ its cell: so long; a key of what is
//! returned
//! ```
//!
//! A function has two tables, for its arguments and for what it returns: [`CELLS`] values each, all
//! further values are counted as others. All threads share the tables, and wait for none: a cell is
//! taken by a compare-and-swap, and counted up. Texts are read by a system call, which reports
//! where nothing is mapped. This is for functions that are called rarely: reading the arguments of
//! a function that has over [`MOST`] calls within a second is given up, and it is counted as any
//! other from then on.
//!
//! # Safety
//!
//! This module reads registers that stubs have saved, and cells that threads share.
#![allow(unsafe_code)]

use super::event::{self, points};
use super::functions::Id;
use super::layout::Header;
use super::registry::{ModuleEntry, ModuleRegistry};
use super::signal_stack::SignalStack;
use super::sites::{self, Site};
use super::stub::Stub;
use super::{modes, target};
use crate::arguments::{Form, Place, Question, Value, signature};
use crate::discovery::Module;
use crate::selection::Selector;
use crate::symbols::{Symbols, demangled};
use callpatch::SlotPair;
use profiler::{ArgumentValue, Arguments, Histogram};
use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use wordpatch::CodeAddr;
use wordpatch::os::{self, files};

/// Calls within a second that are read.
const MOST: u32 = 5_000;
/// Values of a table.
const CELLS: usize = 64;
/// Functions whose arguments are read.
const FUNCTIONS: usize = 256;
/// Bytes of a text.
const TEXT: usize = 64;
/// The size of the values, with a kind, a length, and whether a text continues.
const KEY: usize = crate::arguments::REGISTERS as usize * (TEXT + 3);
/// Eight for each power of two.
const BUCKETS: usize = 64 * 8;

/// How a function got its probes, as far as its arguments go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// By how much the stack pointer of its entry's hook lies below its return address.
    pub(crate) depth: u32,
    /// Whether no instruction before the hook changes a register of an argument.
    pub(crate) keeps_arguments: bool,
    /// Whether all its exits have sites.
    pub(crate) is_timed: bool,
    /// Where its exit leads, if the entry's site holds that, too.
    pub(crate) whole: Option<SlotPair>,
    /// Sites at which another function continues.
    pub(crate) tails: Vec<u32>,
}

/// A function whose arguments are read.
#[derive(Debug)]
struct Capture {
    id: Id,
    /// Replaced when its module was loaded again; never freed, since threads may be reading it.
    facts: AtomicPtr<Facts>,
    /// Its arguments, and what it returns.
    parts: [Part; 2],
    /// When the second began in which calls are counted, and how many calls it had.
    second: AtomicU64,
    calls: AtomicU32,
    /// Ticks of a second.
    hz: u64,
    stopped: AtomicBool,
}

/// What is read at one end of a call.
#[derive(Debug)]
struct Part {
    values: Vec<Value>,
    cells: Box<[Cell]>,
    other: AtomicU64,
    unknown: AtomicU64,
}

/// A value.
///
/// | state | meaning | changed by |
/// |---|---|---|
/// | 0 free | no value's | a thread that has a new value, to taken |
/// | 1 taken | its key is being written | that thread, to ready |
/// | 2 ready | its key stays | none |
#[derive(Debug)]
struct Cell {
    state: AtomicU32,
    key: UnsafeCell<Key>,
    calls: AtomicU64,
    longest: AtomicU64,
    ended: AtomicU64,
    times: [AtomicU32; BUCKETS],
}

// SAFETY: (1) the key is written by the thread that has taken the cell, before it is ready, and by
// no thread afterwards.
unsafe impl Sync for Cell {}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;

/// The values of a call, one after the other.
#[derive(Clone, Debug)]
struct Key {
    bytes: [u8; KEY],
    len: usize,
}

const WORD: u8 = 0;
const READ: u8 = 1;
const CUT: u8 = 2;
const UNREADABLE: u8 = 3;

static CAPTURES: [AtomicPtr<Capture>; FUNCTIONS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];

fn captures<'c>() -> impl Iterator<Item = &'c Capture> {
    // SAFETY: (1) null, or a capture that is never freed.
    CAPTURES.iter().filter_map(|capture| unsafe { capture.load(Acquire).as_ref() })
}

/// The places in which a function's capture may be.
fn way(id: Id) -> impl Iterator<Item = &'static AtomicPtr<Capture>> {
    (0..FUNCTIONS).map(move |step| &CAPTURES[(id.0 as usize + step) % FUNCTIONS])
}

fn capture_of<'c>(id: Id) -> Option<&'c Capture> {
    for place in way(id) {
        // SAFETY: (1) as above.
        let capture = unsafe { place.load(Acquire).as_ref() }?;
        if capture.id == id {
            return Some(capture);
        }
    }
    None
}

/// The functions whose arguments are read, and which arguments; null if none are. Never freed:
/// threads may be reading it.
static QUESTIONS: AtomicPtr<Vec<(Selector, Question)>> = AtomicPtr::new(std::ptr::null_mut());

/// Has these arguments read from here on.
pub(super) fn ask(questions: &[Question]) {
    if questions.is_empty() {
        return QUESTIONS.store(std::ptr::null_mut(), Release);
    }
    // An invalid pattern was refused with its question.
    let selector = |question: &Question| Selector::of(&[question.function()], &[]).ok().flatten();
    let questions = questions.iter().filter_map(|one| Some((selector(one)?, one.clone())));
    QUESTIONS.store(Box::into_raw(Box::new(questions.collect())), Release);
}

/// Whether any arguments are requested.
pub(super) fn are_asked() -> bool {
    !QUESTIONS.load(Acquire).is_null()
}

/// What is requested of the arguments of a function of a module.
pub(super) fn asked(module: &Module, address: CodeAddr) -> Option<&'static Question> {
    // SAFETY: (1) null, or questions that are never freed.
    let questions = unsafe { QUESTIONS.load(Acquire).as_ref() }?;
    let asked = questions.iter().find(|(selector, _)| selector.accepts(module, address));
    asked.map(|(_, question)| question)
}

/// The name of a function of a module.
fn name_of(module: &Module, address: CodeAddr) -> String {
    let symbol = Symbols::look_up(module, address).ok().flatten();
    symbol.map_or_else(|| format!("{address}"), |symbol| demangled(&symbol.name))
}

impl ModuleRegistry {
    /// Has the arguments read that the user requests.
    pub(super) fn arm(&mut self, new: &BTreeSet<Id>) {
        let Some(unmodified) = &mut self.unmodified else { return };
        for &id in new {
            let Some(facts) = unmodified.take_facts(id) else { continue };
            let address = id.start();
            let Some(entry) =
                self.entries.iter().find(|entry| entry.module.span.contains(&address))
            else {
                continue;
            };
            let Some(question) = asked(&entry.module, address) else { continue };
            let parts = question.parts(|| signature(&entry.module, address)).ok_or(Unread::Untold);
            match parts.and_then(|parts| arm(id, parts, &facts)) {
                Ok(()) => unmodified.only_count(id),
                Err(why) => {
                    let name = name_of(&entry.module, address);
                    self.refusals.push(format!("arguments of {name} are not read: {why}"));
                }
            }
        }
    }

    /// Reports functions whose arguments are requested and that call hooks after their prologue.
    pub(super) fn report_unreadable(&mut self) {
        let owners = |entry: &ModuleEntry| -> BTreeSet<Id> {
            let sites = entry.sites.clone().filter_map(sites::get).filter(|site| !site.is_pun());
            sites.filter_map(Site::owner).collect()
        };
        let mut lines = Vec::new();
        for entry in &self.entries {
            for id in owners(entry) {
                let address = id.start();
                if asked(&entry.module, address).is_some() {
                    lines.push(format!(
                        "arguments of {} are not read: its hooks come after its prologue, which overwrites them; compile it without -finstrument-functions, and use \
                         --provider symbols",
                        name_of(&entry.module, address)
                    ));
                }
            }
        }
        self.refusals.extend(lines);
    }
}

/// Why arguments of a function are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    /// The probe at its entry comes too late.
    #[error("its probe is behind instructions that change them")]
    Changed,
    /// Its arguments are neither given nor known.
    #[error("no debug information describes them: use for instance 'FUNCTION@arg1/s'")]
    Untold,
    /// It has none.
    #[error("it has none in registers, by its debug information, and returns none")]
    Nothing,
    /// The table is full.
    #[error("the limit of 256 functions is reached")]
    Full,
}

/// Has the arguments of a function read: from the next switch on its sites lead to stubs that call
/// this module. By the holder of the registry.
fn arm(id: Id, [arguments, returned]: [Vec<Value>; 2], facts: &Facts) -> Result<(), Unread> {
    if arguments.is_empty() && returned.is_empty() {
        return Err(Unread::Nothing);
    }
    if !arguments.is_empty() && !facts.keeps_arguments {
        return Err(Unread::Changed);
    }
    if let Some(capture) = capture_of(id) {
        capture.found_again(facts);
        return Ok(());
    }
    let free = way(id).find(|place| place.load(Relaxed).is_null()).ok_or(Unread::Full)?;
    let capture = Box::new(Capture {
        id,
        facts: AtomicPtr::new(Box::into_raw(Box::new(facts.clone()))),
        parts: [arguments, returned].map(Part::new),
        second: AtomicU64::new(0),
        calls: AtomicU32::new(0),
        hz: target::clock().hz as u64,
        stopped: AtomicBool::new(false),
    });
    free.store(Box::into_raw(capture), Release);
    lead(id, true);
    Ok(())
}

/// Sets whether the sites of a function lead to this module's stubs when they are switched next.
fn lead(id: Id, here: bool) {
    let list = id.function().site_list();
    for site in list.into_iter().flat_map(sites::SiteList::all).copied().filter_map(sites::get) {
        site.captures.store(here, Release);
        site.inline.store(false, Release);
    }
    if let Some(slots) = capture_of(id).and_then(|capture| capture.facts().whole) {
        let stub = if here { Stub::ExitCapture } else { Stub::TimeExit };
        slots.first().lead_to(stub.address(true));
    }
}

/// The registers that a keeping stub and its trampoline have saved.
struct Saved(*const u64);

impl Saved {
    /// The argument registers lie so many words above the stack pointer in the stub: rdi, rsi, rdx,
    /// rcx, r8, r9.
    const ARGUMENTS: [usize; 6] = [3, 11, 4, 5, 2, 1];
    const RETURNED: usize = 7;

    fn word(&self, place: Place) -> u64 {
        let at = match place {
            Place::Argument(number) => Self::ARGUMENTS[number as usize - 1],
            Place::Return => Self::RETURNED,
        };
        // SAFETY: (1) what the stub and its trampoline have pushed, and is there until they return.
        unsafe { self.0.add(at).read() }
    }
}

/// A function was entered whose arguments are read.
pub(super) extern "C" fn enter(
    record: u32,
    saved: *const u64,
    sp: u64,
    _: u32,
    signals: *const libc::stack_t,
) {
    let id = Id::of_record(record);
    let missed = || {
        event::count_late(id);
        if let Some(capture) = capture_of(id) {
            capture.parts[0].unknown.fetch_add(1, Relaxed);
        }
    };
    event::in_hook((sp, signals), missed, |block, stacks, now| {
        enter_on(block, id, &Saved(saved), stacks, now);
    });
}

fn enter_on(block: &Header, id: Id, saved: &Saved, (sp, signals): (u64, &SignalStack), now: u64) {
    let function = id.function();
    let Some(record) = event::record_of(block, id, function) else { return event::count_late(id) };
    if modes::mode_counts(function) {
        record.count.fetch_add(1, Relaxed);
    }
    let Some(capture) = capture_of(id).filter(|capture| !capture.stopped.load(Relaxed)) else {
        return;
    };
    if !capture.may(now) {
        return;
    }
    let [arguments, returned] = &capture.parts;
    let cell = arguments.count(saved);
    let facts = capture.facts();
    if !facts.is_timed {
        return;
    }
    let frame = sp + u64::from(facts.depth);
    points::drop_dead(block, (frame + 1, signals));
    if cell.is_some() || !returned.values.is_empty() {
        points::open(block, id, (frame, cell.map_or(u32::MAX, |cell| cell as u32)), now);
    }
}

/// A function whose arguments are read returns.
pub(super) extern "C" fn exit(
    record: u32,
    saved: *const u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
) {
    let capture =
        capture_of(Id::of_record(record)).filter(|capture| !capture.stopped.load(Relaxed));
    let Some(capture) = capture else { return };
    event::in_hook(
        (sp, signals),
        || (),
        |block, stacks, now| {
            exit_on(block, capture, &Saved(saved), stacks, site, now);
        },
    );
}

fn exit_on(
    block: &Header,
    capture: &Capture,
    saved: &Saved,
    (sp, signals): (u64, &SignalStack),
    site: u32,
    now: u64,
) {
    points::drop_dead(block, (sp, signals));
    let Some((cell, took)) = points::close(block, capture.id, sp, now) else { return };
    let [arguments, returned] = &capture.parts;
    if let Some(cell) = arguments.cells.get(cell as usize) {
        cell.ended(took);
    }
    if !returned.values.is_empty() {
        if capture.facts().tails.contains(&site) {
            returned.unknown.fetch_add(1, Relaxed);
        } else if let Some(cell) = returned.count(saved) {
            returned.cells[cell].ended(took);
        }
    }
}

impl Capture {
    fn facts(&self) -> &Facts {
        // SAFETY: (1) made by `arm` or below, and never freed.
        unsafe { &*self.facts.load(Acquire) }
    }

    /// Its module was loaded again.
    fn found_again(&self, facts: &Facts) {
        if self.facts() != facts {
            self.facts.store(Box::into_raw(Box::new(facts.clone())), Release);
        }
        if !self.stopped.load(Acquire) {
            lead(self.id, true);
        }
    }

    /// Whether one more call of this second may be read. The first that may not ends it.
    fn may(&self, now: u64) -> bool {
        let began = self.second.load(Relaxed);
        if now.wrapping_sub(began) > self.hz {
            // If two threads get here at once, both begin the second.
            self.second.store(now, Relaxed);
            self.calls.store(0, Relaxed);
        }
        if self.calls.fetch_add(1, Relaxed) < MOST {
            return true;
        }
        if !self.stopped.swap(true, AcqRel) {
            lead(self.id, false);
            modes::renew_in_hook(self.id);
        }
        false
    }
}

impl Part {
    fn new(values: Vec<Value>) -> Self {
        let cells = if values.is_empty() { 0 } else { CELLS };
        Self {
            values,
            cells: (0..cells).map(|_| Cell::new()).collect(),
            other: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// Counts a call with the values that are there now. Returns the number of their cell.
    fn count(&self, saved: &Saved) -> Option<usize> {
        if self.values.is_empty() {
            return None;
        }
        let mut key = Key::new();
        for value in &self.values {
            key.push(value.form, saved.word(value.place));
        }
        let cell = self.seek(&key);
        match cell {
            Some(cell) => self.cells[cell].calls.fetch_add(1, Relaxed),
            None => self.other.fetch_add(1, Relaxed),
        };
        cell
    }

    fn seek(&self, key: &Key) -> Option<usize> {
        // FNV-1a.
        let hash = key.text().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (0..CELLS).map(|step| (hash as usize).wrapping_add(step) % CELLS).find(|&at| {
            let cell = &self.cells[at];
            let taken = cell.state.compare_exchange(FREE, TAKEN, AcqRel, Acquire);
            match taken {
                Ok(_) => {
                    // SAFETY: (1) this thread has taken the cell; none reads its key before it is
                    // ready.
                    unsafe { *cell.key.get() = key.clone() };
                    cell.state.store(READY, Release);
                    true
                }
                Err(_) => cell.key().is_some_and(|known| known.text() == key.text()),
            }
        })
    }

    fn report(&self, hz: f64, stopped: bool) -> Option<Arguments> {
        if self.values.is_empty() {
            return None;
        }
        let what: Vec<String> = self.values.iter().map(ToString::to_string).collect();
        let value = |cell: &Cell| {
            let key = cell.key()?;
            let ns = 1e9 / hz;
            let has_ended = cell.ended.load(Relaxed) > 0;
            let mut histogram = Histogram::default();
            for (bucket, times) in cell.times.iter().enumerate() {
                let times = times.load(Relaxed);
                if times > 0 {
                    histogram.add(profiler::bucket((middle(bucket) * ns) as u64), times.into());
                }
            }
            Some(ArgumentValue {
                values: key.shown(&self.values),
                calls: cell.calls.load(Relaxed),
                max: has_ended.then(|| cell.longest.load(Relaxed) as f64 * ns),
                histogram,
            })
        };
        let mut reported = Arguments {
            what: what.join(", "),
            other: self.other.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
            stopped: stopped.then_some(MOST.into()),
            values: self.cells.iter().filter_map(value).filter(|value| value.calls > 0).collect(),
            ..Arguments::default()
        };
        reported.sort();
        Some(reported)
    }

    fn clear(&self) {
        for cell in &self.cells {
            cell.calls.store(0, Relaxed);
            cell.longest.store(0, Relaxed);
            cell.ended.store(0, Relaxed);
            cell.times.iter().for_each(|times| times.store(0, Relaxed));
        }
        self.other.store(0, Relaxed);
        self.unknown.store(0, Relaxed);
    }
}

impl Cell {
    fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            key: UnsafeCell::new(Key::new()),
            calls: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            times: [const { AtomicU32::new(0) }; BUCKETS],
        }
    }

    /// Its key, if it has one. Waits for another thread that is writing it, but only for a limited
    /// time: a handler may have interrupted that thread.
    fn key(&self) -> Option<&Key> {
        const LOOKS: usize = 1000;
        let is_ready = (0..LOOKS).any(|_| {
            let state = self.state.load(Acquire);
            if state == TAKEN {
                std::hint::spin_loop();
            }
            state != TAKEN
        });
        // SAFETY: (1) ready, so that none writes it.
        (is_ready && self.state.load(Acquire) == READY).then(|| unsafe { &*self.key.get() })
    }

    fn ended(&self, took: u64) {
        self.ended.fetch_add(1, Relaxed);
        self.longest.fetch_max(took, Relaxed);
        self.times[bucket(took)].fetch_add(1, Relaxed);
    }
}

/// The bucket of so many ticks.
fn bucket(ticks: u64) -> usize {
    let power = ticks.max(8).ilog2();
    (power as usize) * 8 + (ticks.max(8) >> (power - 3)) as usize % 8
}

/// About so many ticks are in a bucket.
fn middle(bucket: usize) -> f64 {
    let (power, part) = ((bucket / 8) as i32, (bucket % 8) as f64);
    (8.0 + part + 0.5) * 2f64.powi(power - 3)
}

impl Key {
    fn new() -> Self {
        Self { bytes: [0; KEY], len: 0 }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, form: Form, word: u64) {
        let mut text = [0; TEXT];
        let (kind, value): (u8, &[u8]) = match form {
            Form::Text => match read(word as usize, &mut text) {
                Some((len, true)) => (READ, &text[..len]),
                Some((len, false)) => (CUT, &text[..len]),
                None => (UNREADABLE, &word.to_le_bytes()),
            },
            _ => (WORD, &form.key(word).to_le_bytes()),
        };
        let mut add = |bytes: &[u8]| {
            self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        };
        add(&[kind, value.len() as u8]);
        add(value);
    }

    /// As people write them.
    fn shown(&self, values: &[Value]) -> Vec<String> {
        let mut rest = self.text();
        let mut next = |value: &Value| {
            let [kind, len, bytes @ ..] = rest else { return String::new() };
            let (bytes, behind) = bytes.split_at((*len as usize).min(bytes.len()));
            rest = behind;
            let word = || bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let text = || String::from_utf8_lossy(bytes).escape_debug().to_string();
            match *kind {
                WORD => value.form.shown(word()),
                READ => format!("\"{}\"", text()),
                CUT => format!("\"{}\"…", text()),
                _ if word() == 0 => "NULL".to_owned(),
                _ => format!("{:#x} (unreadable)", word()),
            }
        };
        values.iter().map(&mut next).collect()
    }
}

/// Reads a text, and whether that is all of it. The kernel is asked, by the page: it says where
/// nothing is mapped.
fn read(address: usize, text: &mut [u8; TEXT]) -> Option<(usize, bool)> {
    const PAGE: usize = os::pages::PAGE;
    let here = (PAGE - address % PAGE).min(TEXT);
    let (first, second) = text.split_at_mut(here);
    files::read_own(address, first).ok()?;
    let end = |bytes: &[u8]| bytes.iter().position(|&byte| byte == 0);
    if let Some(len) = end(first) {
        return Some((len, true));
    }
    if second.is_empty() || files::read_own(address.wrapping_add(here), second).is_err() {
        return Some((here, false));
    }
    Some(end(second).map_or((TEXT, false), |len| (here + len, true)))
}

/// What was read, of functions that have such a number.
pub(crate) fn report(hz: f64, mut name: impl FnMut(Id) -> Option<String>) -> Vec<Arguments> {
    let mut all = Vec::new();
    for capture in captures() {
        let Some(function) = name(capture.id) else { continue };
        let stopped = capture.stopped.load(Relaxed);
        for reported in capture.parts.iter().filter_map(|part| part.report(hz, stopped)) {
            all.push(Arguments { function: function.clone(), ..reported });
        }
    }
    all
}

/// Nothing was read: in a forked child, or when the profiler comes back.
pub(crate) fn clear() {
    captures().flat_map(|capture| &capture.parts).for_each(Part::clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(values: &[&str]) -> Part {
        let question: Question = format!("f@{}", values.join(",")).parse().unwrap();
        Part::new(question.parts(|| None).unwrap().concat())
    }

    /// Registers as a stub leaves them: the first two arguments are these.
    fn saved(first: u64, second: u64) -> [u64; 12] {
        let mut words = [0; 12];
        (words[3], words[11], words[7]) = (first, second, 77);
        words
    }

    #[test]
    fn values_are_counted_by_their_tuple_and_the_rest_are_others() {
        let part = part(&["arg1/i32", "arg2/s"]);
        let text = c"a \"text\"";
        for turn in 0..100u64 {
            let value = if turn < 90 { turn % 70 } else { u64::MAX };
            let words = saved(value | 0xdead_0000_0000, text.as_ptr() as u64);
            part.count(&Saved(words.as_ptr()));
        }
        let reported = part.report(1e9, false).unwrap();
        assert_eq!((reported.values.len(), reported.calls()), (CELLS, 100));
        assert!(reported.other > 0);
        assert_eq!(reported.what, "arg1/i32, arg2/s");
        assert!(reported.values.iter().all(|value| value.values[1] == "\"a \\\"text\\\"\""));
        assert!(reported.values[0].calls == 2, "the most frequent comes first");
    }

    #[test]
    fn a_bad_address_is_told_and_a_long_text_is_cut() {
        let part = part(&["arg1/s"]);
        let long = std::ffi::CString::new("x".repeat(TEXT)).unwrap();
        let just = std::ffi::CString::new("y".repeat(TEXT - 1)).unwrap();
        for address in [0, 8, u64::MAX - 3, long.as_ptr() as u64, just.as_ptr() as u64] {
            let words = saved(address, 0);
            part.count(&Saved(words.as_ptr()));
        }
        let reported = part.report(1e9, false).unwrap();
        let shown: Vec<&str> = reported.values.iter().map(|value| &*value.values[0]).collect();
        let expected = [
            "NULL".to_owned(),
            "0x8 (unreadable)".to_owned(),
            "0xfffffffffffffffc (unreadable)".to_owned(),
            format!("\"{}\"…", "x".repeat(TEXT)),
            format!("\"{}\"", "y".repeat(TEXT - 1)),
        ];
        for text in &expected {
            assert!(shown.contains(&text.as_str()), "{text} is not in {shown:?}");
        }
    }

    #[test]
    fn threads_that_bring_a_value_at_once_share_its_cell() {
        let part = part(&["arg1"]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..20_000u64 {
                        let words = saved(turn % 50, 0);
                        let cell = part.count(&Saved(words.as_ptr())).unwrap();
                        part.cells[cell].ended(turn);
                    }
                });
            }
        });
        let reported = part.report(1e9, false).unwrap();
        assert_eq!((reported.values.len(), reported.other), (50, 0));
        assert!(reported.values.iter().all(|value| value.calls == 1600));
        assert!(reported.values.iter().all(|value| value.histogram.weight() == 1600.0));
    }

    #[test]
    fn a_bucket_holds_what_is_near_its_middle() {
        for ticks in [8, 9, 15, 16, 100, 1000, 123_456, u64::MAX / 2, u64::MAX] {
            let middle = middle(bucket(ticks));
            assert!((middle / ticks as f64 - 1.0).abs() < 0.07, "{ticks}: {middle}");
        }
    }
}
