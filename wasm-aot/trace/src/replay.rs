//! The actions of a replay: for each import a sequence of contexts, and one context for the
//! beginning.
//!
//! A *context* is the list of the host's actions in one invocation of an import: changes, calls
//! into the program, and the end. Equal contexts are stored once; consecutive invocations with the
//! same context are a run. Changes of memories are merged up to the next action of another kind.

use crate::conformance::Conformance;
use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, End, Event, Frame};
use crate::patch::Patch;
use crate::value::{Signature, Value};
use foldhash::fast::RandomState;
use indexmap::IndexSet;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A number of a context.
pub(crate) type ContextId = u32;

/// A replay.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// The actions before, between and after the calls by the host.
    pub(crate) top: Vec<Action>,
    /// Each context once.
    pub(crate) contexts: IndexSet<Context, RandomState>,
    /// The invocations of each import, and then of each function of `given`.
    pub(crate) imports: Vec<Invocations>,
    /// The host functions that the program does not import.
    pub(crate) given: Vec<Signature>,
    pub(crate) data: Data,
    /// The calls that an exit unwinds; and the functions of the host that exit without a list of
    /// these in the trace.
    pub(crate) exits: BTreeSet<Frame>,
    pub(crate) untold_exits: BTreeSet<u32>,
    /// The initial state of imported globals, memories and tables: values, and the pages and
    /// elements beyond the minimum of their types.
    pub(crate) globals: HashMap<u32, Value>,
    pub(crate) pages: HashMap<u32, u64>,
    pub(crate) elements: HashMap<u32, u64>,
    /// Functions to which there are references.
    pub(crate) referenced: BTreeSet<u32>,
    /// Whether the host gives the program objects of its own.
    pub(crate) has_objects: bool,
    /// The number of events.
    pub(crate) events: u64,
}

/// The invocations of an import.
#[derive(Debug, Default)]
pub(crate) struct Invocations {
    pub(crate) count: u64,
    /// The first invocation of each run, and its context.
    pub(crate) runs: Vec<(u64, ContextId)>,
    /// The number of invocations in the runs, and those that have ended before an earlier
    /// invocation.
    placed: u64,
    early: BTreeMap<u64, ContextId>,
}

impl Invocations {
    /// Called when the invocation of that number has ended.
    fn end(&mut self, number: u64, context: ContextId) {
        if number != self.placed {
            self.early.insert(number, context);
            return;
        }
        self.place(context);
        while let Some(context) = self.early.remove(&self.placed) {
            self.place(context);
        }
    }

    fn place(&mut self, context: ContextId) {
        if self.runs.last().is_none_or(|(_, last)| *last != context) {
            self.runs.push((self.placed, context));
        }
        self.placed += 1;
    }
}

/// One invocation of an import, or several that are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Context {
    /// If it is checked: the number of the call's event, and the arguments.
    pub(crate) call: Option<(u64, Vec<Value>)>,
    pub(crate) actions: Vec<Action>,
    pub(crate) end: End,
    /// The number of the end's event, if it is checked.
    pub(crate) ended: u64,
}

/// An action of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// It calls the program.
    Enter {
        function: u32,
        args: Vec<Value>,
        end: End,
        /// The numbers of both events, if they are checked.
        events: (u64, u64),
    },
    /// It writes a few bytes.
    Short {
        memory: u32,
        address: u64,
        bytes: Vec<u8>,
    },
    /// It writes bytes from the replay's data.
    Long {
        memory: u32,
        address: u64,
        at: u32,
        len: u32,
    },
    Grow {
        memory: u32,
        pages: u64,
    },
    Global {
        global: u32,
        value: Value,
    },
    Element {
        table: u32,
        index: u64,
        value: Value,
    },
    GrowTable {
        table: u32,
        count: u64,
        value: Value,
    },
}

/// The maximum number of bytes that are constants in the code, rather than data.
const SHORT: usize = 16;

/// Bytes that are written, each sequence once.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    known: HashMap<(blake3::Hash, usize), u32>,
}

impl Data {
    fn place(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        let len = u32::try_from(bytes.len()).ok()?;
        let key = (blake3::hash(bytes), bytes.len());
        if let Some(at) = self.known.get(&key) {
            return Some((*at, len));
        }
        let at = u32::try_from(self.bytes.len()).ok()?;
        at.checked_add(len)?;
        self.bytes.extend_from_slice(bytes);
        self.known.insert(key, at);
        Some((at, len))
    }
}

/// A call to the host that has not ended.
#[derive(Debug)]
struct Open {
    /// The function, and the number of its invocation; none for the beginning.
    function: u32,
    invocation: u64,
    call: Option<(u64, Vec<Value>)>,
    actions: Vec<Action>,
    patch: Patch,
}

/// Builds a replay from events whose changes have all been placed.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    declared: &'a Declared,
    conformance: Conformance<'a>,
    is_checked: bool,
    replay: Replay,
    open: Vec<Open>,
    has_begun: bool,
    /// Whether a trap has ended a call: the events that follow can only be its further effects.
    is_trapped: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(declared: &'a Declared, is_checked: bool) -> Self {
        let (actions, patch) = (Vec::new(), Patch::default());
        let top = Open { function: 0, invocation: 0, call: None, actions, patch };
        let imports = declared.imports.iter().map(|_| Invocations::default()).collect();
        Self {
            declared,
            conformance: Conformance::new(declared),
            is_checked,
            replay: Replay { imports, ..Replay::default() },
            open: vec![top],
            has_begun: false,
            is_trapped: false,
        }
    }

    /// The innermost call to the host; the beginning counts as one.
    fn innermost(&mut self) -> &mut Open {
        self.open.last_mut().expect("the beginning does not end")
    }

    pub(crate) fn push(&mut self, event: Event) -> Result<(), Error> {
        let number = self.conformance.events();
        self.conformance.check(&event)?;
        let is_trap = matches!(event, Event::Leave(End::Trap(_)) | Event::Return(End::Trap(_)));
        if self.is_trapped && !is_trap && !matches!(event, Event::Function(_)) {
            let what = "the host goes on after a trap, which no module can: replay it by \
                        `wasm-aot run TRACE`";
            return Err(Error::event(number, what));
        }
        self.is_trapped |= matches!(event, Event::Leave(End::Trap(_)));
        match event {
            Event::Enter { function, args, .. } => {
                self.flush(number)?;
                self.refer(&args);
                self.has_begun = true;
                let (end, events) = (End::Values(Vec::new()), (self.numbered(number), 0));
                self.innermost().actions.push(Action::Enter { function, args, end, events });
            }
            Event::Leave(found) => self.leave(found, number),
            Event::Call { function, args } => {
                let call = self.is_checked.then_some((number, args));
                let (actions, patch) = (Vec::new(), Patch::default());
                let count = &mut self.invocations(function).count;
                let invocation = *count;
                *count += 1;
                self.open.push(Open { function, invocation, call, actions, patch });
            }
            Event::Function(signature) => {
                self.replay.given.push(signature);
                self.replay.imports.push(Invocations::default());
            }
            Event::Return(end) => self.returned(end, number)?,
            Event::Host(change) => self.change(change, number)?,
            Event::Found(_)
            | Event::Seen(_)
            | Event::Own(_)
            | Event::Begin { .. }
            | Event::Done => unreachable!("changes are placed, and raw recordings refused there"),
        }
        Ok(())
    }

    /// The invocations of a function of the host.
    fn invocations(&mut self, function: u32) -> &mut Invocations {
        let imports = self.declared.imports.len();
        let given = function.checked_sub(self.declared.functions());
        let at = given.map_or(function as usize, |given| imports + given as usize);
        &mut self.replay.imports[at]
    }

    fn numbered(&self, number: u64) -> u64 {
        if self.is_checked { number } else { 0 }
    }

    fn refer(&mut self, values: &[Value]) {
        let is_object = |value: &Value| matches!(value, Value::Extern(Some(_)) | Value::Object);
        self.replay.has_objects |= values.iter().any(is_object);
        self.replay.referenced.extend(values.iter().filter_map(|value| match value {
            Value::Func(index) => *index,
            _ => None,
        }));
    }

    /// Converts pending writes to actions.
    fn flush(&mut self, number: u64) -> Result<(), Error> {
        let open = self.open.last_mut().expect("the beginning does not end");
        for (memory, address, bytes) in open.patch.take() {
            let action = if bytes.len() <= SHORT {
                Action::Short { memory, address, bytes }
            } else {
                let placed = self.replay.data.place(&bytes);
                let (at, len) = placed
                    .ok_or_else(|| Error::event(number, "the host writes more than 4 gigabytes"))?;
                Action::Long { memory, address, at, len }
            };
            open.actions.push(action);
        }
        Ok(())
    }

    fn leave(&mut self, found: End, number: u64) {
        let is_checked = self.is_checked;
        let Some(Action::Enter { end, events, .. }) = self.innermost().actions.last_mut() else {
            unreachable!("events nest")
        };
        *end = match found {
            End::Values(_) if !is_checked => End::Values(Vec::new()),
            End::Exit { code, .. } => End::Exit { code, frames: Vec::new() },
            End::Exception { tag, .. } if !is_checked => End::Exception { tag, values: Vec::new() },
            End::Trap(_) if !is_checked => End::Trap(String::new()),
            other => other,
        };
        events.1 = if is_checked { number } else { 0 };
    }

    fn returned(&mut self, end: End, number: u64) -> Result<(), Error> {
        self.flush(number)?;
        let end = match end {
            End::Trap(_) => End::Trap(String::new()),
            End::Exit { code, frames } => {
                self.replay.exits.extend(frames.iter().copied());
                // Only whether there are frames matters.
                End::Exit { code, frames: frames.into_iter().take(1).collect() }
            }
            other => other,
        };
        if let End::Values(values) | End::Exception { values, .. } = &end {
            self.refer(values);
        }
        let is_untold = matches!(&end, End::Exit { frames, .. } if frames.is_empty());
        let ended = self.numbered(number);
        let Open { function, invocation, call, actions, .. } =
            self.open.pop().expect("events nest");
        if is_untold {
            self.replay.untold_exits.insert(function);
        }
        let context = Context { call, actions, end, ended };
        let id = self.replay.contexts.insert_full(context).0 as ContextId;
        self.invocations(function).end(invocation, id);
        Ok(())
    }

    fn change(&mut self, change: Change, number: u64) -> Result<(), Error> {
        let is_first = !self.has_begun && self.open.len() == 1;
        let imported = self.declared.imported;
        let action = match change {
            Change::Write { memory, address, bytes } => {
                self.innermost().patch.write(memory, address, &bytes);
                return Ok(());
            }
            // Before the first other event, a change determines the definition of an import.
            Change::Grow { memory, pages } if is_first && memory < imported.memories => {
                *self.replay.pages.entry(memory).or_default() += pages;
                return Ok(());
            }
            Change::GrowTable { table, count, value: Value::Func(None) | Value::Extern(None) }
                if is_first && table < imported.tables =>
            {
                *self.replay.elements.entry(table).or_default() += count;
                return Ok(());
            }
            Change::Global { global, value } if is_first && global < imported.globals => {
                self.refer(&[value]);
                self.replay.globals.insert(global, value);
                return Ok(());
            }
            Change::Grow { memory, pages } => Action::Grow { memory, pages },
            Change::Global { global, value } => Action::Global { global, value },
            Change::Element { table, index, value } => Action::Element { table, index, value },
            Change::GrowTable { table, count, value } => Action::GrowTable { table, count, value },
        };
        if let Action::Global { value, .. }
        | Action::Element { value, .. }
        | Action::GrowTable { value, .. } = &action
        {
            self.refer(&[*value]);
        }
        self.flush(number)?;
        self.innermost().actions.push(action);
        Ok(())
    }

    /// Returns the replay. Calls that have not ended, since the trace was cut off, end by a trap.
    pub(crate) fn finish(mut self) -> Result<Replay, Error> {
        let events = self.conformance.events();
        let cut = || End::Trap(String::new());
        // Host and program wait for each other in turn.
        if self.conformance.depth() % 2 == 1 {
            self.leave(cut(), events);
        }
        while self.open.len() > 1 {
            self.returned(cut(), events)?;
            self.leave(cut(), events);
        }
        self.flush(events)?;
        self.replay.top = self.open.pop().expect("the beginning").actions;
        self.replay.events = events;
        Ok(self.replay)
    }
}
