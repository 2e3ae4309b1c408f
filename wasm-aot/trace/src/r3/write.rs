//! Writing.

use super::number::{Loss, spelled};
use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, Door, End, Event};
use crate::value::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Writes events in the format of Wasm-R3.
#[derive(Debug)]
pub struct R3Writer<'a> {
    declared: &'a Declared,
    is_lossy: bool,
    losses: BTreeMap<&'static str, u64>,
    events: u64,
    /// The pending calls: imports, or `None` for calls by the host.
    waiting: Vec<Option<u32>>,
    /// The host's changes since the program last had control, and their numbers: written when it
    /// continues.
    pending: Vec<(u64, Change)>,
    has_entered: bool,
}

impl<'a> R3Writer<'a> {
    /// Writes a trace of a module. Values that the format cannot represent are errors, or counted
    /// as losses.
    pub fn new(declared: &'a Declared, is_lossy: bool) -> Self {
        Self {
            declared,
            is_lossy,
            losses: BTreeMap::new(),
            events: 0,
            waiting: Vec::new(),
            pending: Vec::new(),
            has_entered: false,
        }
    }

    /// The losses, and how often each occurred.
    pub fn losses(&self) -> &BTreeMap<&'static str, u64> {
        &self.losses
    }

    /// Returns the lines of an event.
    pub fn push(&mut self, event: &Event) -> Result<String, Error> {
        let mut out = String::new();
        self.event(event, &mut out)?;
        self.events += 1;
        Ok(out)
    }

    fn lose(&mut self, what: &'static str) -> Result<(), Error> {
        if !self.is_lossy {
            let what = format!("the form of Wasm-R3 cannot hold {what}: --lossy leaves it out");
            return Err(Error::event(self.events, what));
        }
        *self.losses.entry(what).or_default() += 1;
        Ok(())
    }

    fn event(&mut self, event: &Event, out: &mut String) -> Result<(), Error> {
        match event {
            Event::Enter { function, door, args } => {
                let name = match door {
                    Door::Export(name) => self.name(name)?,
                    Door::Start => {
                        self.lose("a call of the start function")?;
                        String::new()
                    }
                    Door::Reference => {
                        self.lose("a call by a reference")?;
                        String::new()
                    }
                };
                let args = self.values(args)?;
                let _ = writeln!(out, "EC;{function};{name};{args}");
                self.has_entered = true;
                self.waiting.push(None);
                self.changes(out)
            }
            Event::Leave(end) => {
                if !matches!(end, End::Values(_)) {
                    self.lose("a call that ends by an exit, a trap or an exception")?;
                }
                self.waiting.pop();
                if self.waiting.is_empty() {
                    out.push_str("ER\n");
                }
                Ok(())
            }
            Event::Call { function, .. } => {
                self.waiting.push(Some(*function));
                let _ = writeln!(out, "IC;{function}");
                Ok(())
            }
            Event::Return(end) => {
                let function = self.waiting.pop().flatten().unwrap_or_default();
                let End::Values(values) = end else {
                    return self.lose("a call that ends by an exit, a trap or an exception");
                };
                let values = self.values(values)?;
                let _ = writeln!(out, "IR;{function};{values}");
                self.changes(out)
            }
            Event::Host(Change::Global { global, value }) if !self.has_entered => {
                self.first_global(*global, *value, out)
            }
            Event::Found(Change::Global { global, value }) if !self.has_entered => {
                self.first_global(*global, *value, out)
            }
            Event::Host(change) => {
                self.pending.push((self.events, change.clone()));
                Ok(())
            }
            Event::Found(change) if !self.has_entered => {
                self.pending.push((self.events, change.clone()));
                Ok(())
            }
            Event::Found(change) => self.change(change, out),
            Event::Function(_) => self.lose("a host function that the program does not import"),
            Event::Seen(_) | Event::Own(_) | Event::Begin { .. } | Event::Done => {
                let what = "a raw recording: make the usual trace of it by `wasm-aot reduce`";
                Err(Error::event(self.events, what))
            }
        }
    }

    fn first_global(&mut self, global: u32, value: Value, out: &mut String) -> Result<(), Error> {
        let value = self.values(&[value])?;
        let _ = writeln!(out, "IG;{global};{value}");
        Ok(())
    }

    fn changes(&mut self, out: &mut String) -> Result<(), Error> {
        let now = self.events;
        for (number, change) in std::mem::take(&mut self.pending) {
            self.events = number;
            self.change(&change, out)?;
        }
        self.events = now;
        Ok(())
    }

    fn change(&mut self, change: &Change, out: &mut String) -> Result<(), Error> {
        match change {
            Change::Write { memory, address, bytes } => {
                self.only_memory(*memory)?;
                let _ = write!(out, "L;{memory};{address};");
                for (at, byte) in bytes.iter().enumerate() {
                    let _ = write!(out, "{}{byte}", if at == 0 { "" } else { "," });
                }
                out.push('\n');
            }
            Change::Grow { memory, pages } => {
                self.only_memory(*memory)?;
                let _ = writeln!(out, "MG;{memory};{pages}");
            }
            Change::Global { global, value } => {
                let value = self.values(&[*value])?;
                let _ = writeln!(out, "G;{global};{value}");
            }
            Change::Element { table, index, value: Value::Func(Some(function)) } => {
                let name = self.table_name(*table)?;
                let own = self.declared.exported_function(*function).unwrap_or_default().to_owned();
                let own = self.name(&own)?;
                let _ = writeln!(out, "T;{table};{name};{index};{function};{own}");
            }
            Change::Element { .. } => self.lose("an element that is no function")?,
            Change::GrowTable { table, count, .. } => {
                let name = self.table_name(*table)?;
                let _ = writeln!(out, "TG;{table};{name};{count}");
            }
        }
        Ok(())
    }

    fn only_memory(&mut self, memory: u32) -> Result<(), Error> {
        if memory == 0 { Ok(()) } else { self.lose("a second memory") }
    }

    fn table_name(&mut self, table: u32) -> Result<String, Error> {
        let mut all = self.declared.exports.iter();
        let name = all
            .find(|(_, kind, index)| *index == table && *kind == wasmparser::ExternalKind::Table);
        let name = name.map(|(name, ..)| name.clone()).unwrap_or_default();
        self.name(&name)
    }

    fn name(&mut self, name: &str) -> Result<String, Error> {
        if name.contains([';', '\n', '\r']) {
            self.lose("a name with `;` or a line end")?;
        }
        Ok(name.replace([';', '\n', '\r'], "_"))
    }

    fn values(&mut self, values: &[Value]) -> Result<String, Error> {
        let mut texts = Vec::new();
        for value in values {
            let (text, loss) = spelled(*value);
            if let Some(loss) = loss.map(Loss::name) {
                self.lose(loss)?;
            }
            texts.push(text);
        }
        if texts == ["NaN"] {
            self.lose("a list of one NaN")?;
        }
        Ok(texts.join(","))
    }
}
