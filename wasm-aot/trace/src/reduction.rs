//! Reduction: removes the events that the program determines from a recording with every access.
//!
//! A *raw* recording contains everything that the program reads and writes ([`Event::Seen`],
//! [`Event::Own`]) and where its functions begin and end. A shadow of memories, globals and tables
//! holds the state that the program can know: initial values, its own writes, and the host's
//! changes that it has read. A value that is read and differs from the shadow was found
//! ([`Event::Found`]); all other events are removed. A recorder that reduces while it records
//! compares in the same way, and so writes the same events.

mod constant;
mod shadow;

use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, Event};
use crate::value::Value;
use shadow::Shadow;
use std::collections::{BTreeMap, VecDeque};

/// The number of bytes of an access that are compared at a time: the recorded range extends from
/// the first byte that differs to the last.
const PIECE: usize = 256;
/// The maximum size of an event: bytes that are found directly after those found last are added to
/// the same event.
const LONGEST: usize = (1 << 14) - 1;

/// The number of events of each kind, and how many of them were kept.
pub type Effect = BTreeMap<&'static str, (u64, u64)>;

/// Events of a recording, reduced.
#[derive(Debug)]
pub struct Reduced<I> {
    events: I,
    shadow: Shadow,
    effect: Effect,
    ready: VecDeque<Event>,
    /// The bytes found last, which may be continued.
    open: Option<Found>,
}

/// Bytes that were found.
#[derive(Debug)]
struct Found {
    memory: u32,
    address: u64,
    bytes: Vec<u8>,
}

impl<I: Iterator<Item = Result<Event, Error>>> Reduced<I> {
    /// Reduces a recording of a module.
    pub fn new(module: &[u8], events: I) -> Result<Self, Error> {
        let declared = Declared::read(module)?;
        let shadow = Shadow::new(module, &declared)?;
        Ok(Self { events, shadow, effect: Effect::new(), ready: VecDeque::new(), open: None })
    }

    /// The effect so far.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns the underlying events, and the effect.
    pub fn into_inner(self) -> (I, Effect) {
        (self.events, self.effect)
    }

    fn keep(&mut self, event: Event) {
        self.close();
        self.effect.entry(kind(&event)).or_default().1 += 1;
        self.ready.push_back(event);
    }

    /// Completes the event of the bytes that were found last.
    fn close(&mut self) {
        if let Some(Found { memory, address, bytes }) = self.open.take() {
            let event = Event::Found(Change::Write { memory, address, bytes });
            // It counts as the read.
            self.effect.entry(kind(&event)).or_default().1 += 1;
            self.ready.push_back(event);
        }
    }

    fn take(&mut self, event: Event) {
        self.effect.entry(kind(&event)).or_default().0 += 1;
        match event {
            Event::Begin { .. } | Event::Done => {}
            Event::Own(change) => self.shadow.change(&change),
            Event::Seen(change) => self.seen(change),
            Event::Host(change) => {
                self.shadow.change(&change);
                self.keep(Event::Host(change));
            }
            Event::Found(change) => {
                self.shadow.change(&change);
                self.keep(Event::Found(change));
            }
            Event::Enter { .. } => {
                self.shadow.begin();
                self.keep(event);
            }
            other => self.keep(other),
        }
    }

    /// Handles a read by the program.
    fn seen(&mut self, change: Change) {
        match change {
            Change::Write { memory, address, bytes } => {
                for (at, piece) in (0..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
                    let address = address.wrapping_add(at);
                    if let Some((first, len)) = self.shadow.differs(memory, address, piece) {
                        let bytes = piece[first..first + len].to_vec();
                        let address = address.wrapping_add(first as u64);
                        self.found(Change::Write { memory, address, bytes });
                    }
                }
            }
            Change::Global { global, value } => {
                if self.shadow.learns(global, value) {
                    self.found(Change::Global { global, value });
                }
            }
            Change::Element { table, index, value } => {
                if !is_same(self.shadow.element(table, index), value) {
                    self.found(Change::Element { table, index, value });
                }
            }
            other @ (Change::Grow { .. } | Change::GrowTable { .. }) => self.found(other),
        }
    }

    fn found(&mut self, change: Change) {
        self.shadow.change(&change);
        let Change::Write { memory, address, bytes } = change else {
            return self.keep(Event::Found(change));
        };
        if let Some(open) = &mut self.open {
            let is_next = open.address.checked_add(open.bytes.len() as u64) == Some(address);
            let fits = open.bytes.len() + bytes.len() <= LONGEST;
            if is_next && fits && open.memory == memory {
                return open.bytes.extend(bytes);
            }
        }
        self.close();
        self.open = Some(Found { memory, address, bytes });
    }
}

impl<I: Iterator<Item = Result<Event, Error>>> Iterator for Reduced<I> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match self.events.next() {
                Some(Ok(event)) => self.take(event),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.close();
                    return self.ready.pop_front().map(Ok);
                }
            }
        }
    }
}

/// The name of an event's kind in effects.
fn kind(event: &Event) -> &'static str {
    let of = |change: &Change, kinds: [&'static str; 3]| match change {
        Change::Write { .. } => kinds[0],
        Change::Global { .. } => kinds[1],
        Change::Element { .. } => kinds[2],
        Change::Grow { .. } | Change::GrowTable { .. } => "growth",
    };
    match event {
        Event::Enter { .. } | Event::Leave(_) => "calls in and their ends",
        Event::Call { .. } | Event::Return(_) => "calls out and their ends",
        Event::Function(_) => "host functions",
        Event::Begin { .. } | Event::Done => "functions' entries and returns",
        Event::Seen(change) | Event::Found(change) => of(change, ["loads", "globals", "tables"]),
        Event::Host(change) => of(change, ["host writes", "host globals", "host tables"]),
        Event::Own(change) => of(change, ["stores", "globals set", "tables set"]),
    }
}

/// The initial value of references in a shadow.
const NULL: Value = Value::Func(None);

/// Whether two references are the same, as far as the trace tells. Null is one value for all types.
fn is_same(one: Value, other: Value) -> bool {
    let is_null = |value| matches!(value, Value::Func(None) | Value::Extern(None));
    one == other || (is_null(one) && is_null(other))
}
