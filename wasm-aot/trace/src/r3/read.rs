//! Reading.

use super::number::value;
use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, Door, End, Event};
use crate::value::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use wasmparser::ValType;

/// A trace in the format of Wasm-R3 that is being read.
#[derive(Debug)]
pub struct R3Reader<R: Read> {
    from: BufReader<R>,
    declared: Declared,
    line: u64,
    /// The pending calls: by the host (true) or by the program, and of which function.
    waiting: Vec<(bool, u32)>,
    ready: VecDeque<Event>,
    has_failed: bool,
}

/// The maximum length of a line.
const LONGEST: u64 = 4 << 20;

impl<R: Read> R3Reader<R> {
    /// Begins to read a trace of a module.
    pub fn new(module: &[u8], from: R) -> Result<Self, Error> {
        Ok(Self {
            from: BufReader::new(from),
            declared: Declared::read(module)?,
            line: 0,
            waiting: Vec::new(),
            ready: VecDeque::new(),
            has_failed: false,
        })
    }

    fn more(&mut self) -> Result<bool, Error> {
        let mut text = Vec::new();
        self.line += 1;
        (&mut self.from).take(LONGEST).read_until(b'\n', &mut text)?;
        if text.is_empty() {
            return Ok(false);
        }
        let line = self.line;
        let text = String::from_utf8_lossy(&text);
        self.read(text.trim_end_matches(['\n', '\r']))
            .map_err(|what| Error::Line { line, what })?;
        Ok(true)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(';').collect();
        let (kind, rest) = (fields[0].trim_end(), &fields[1..]);
        // One printer omits the separator.
        if let Some(function) = kind.strip_prefix("EC").filter(|digits| !digits.is_empty()) {
            let name = rest.first().copied().unwrap_or_default();
            let args = rest.get(1).copied().unwrap_or_default();
            return self.enter(function, Door::Export(name.to_owned()), args);
        }
        match (kind, rest) {
            ("EC", [function, name, args @ ..]) => {
                let args = args.first().copied().unwrap_or_default();
                self.enter(function, Door::Export((*name).to_owned()), args)
            }
            ("TC", [function, _, _, args @ ..]) => {
                self.enter(function, Door::Reference, args.first().copied().unwrap_or_default())
            }
            ("ER", _) => {
                self.leave_program();
                Ok(())
            }
            ("IC", [function, ..]) => {
                let function = number(function)?;
                let args = self.zeros(function, false)?;
                self.waiting.push((false, function));
                self.ready.push_back(Event::Call { function, args });
                Ok(())
            }
            ("IR", [function, results]) | ("IR", [function, _, results]) => {
                self.leave_program();
                let function = number(function)?;
                let types = self.types(function, true)?;
                let results = values(results, &types)?;
                if self.waiting.pop() != Some((false, function)) {
                    return Err(format!("function {function} returns, and was not called"));
                }
                self.ready.push_back(Event::Return(End::Values(results)));
                Ok(())
            }
            ("L", [memory, address, bytes]) | ("L", [memory, _, address, bytes]) => {
                let bytes = bytes.split(',').map(number).collect::<Result<Vec<u8>, _>>()?;
                self.found(Change::Write {
                    memory: number(memory)?,
                    address: number(address)?,
                    bytes,
                })
            }
            // One printer uses this for the growth of tables, too, and names a table.
            ("MG", [memory, pages]) => {
                self.found(Change::Grow { memory: number(memory)?, pages: number(pages)? })
            }
            ("MG", [memory, _, pages]) => {
                self.found(Change::Grow { memory: number(memory)?, pages: number(pages)? })
            }
            ("T", [table, _, index, function, ..]) => {
                let value = Value::Func(Some(number(function)?));
                let (table, index) = (number(table)?, number(index)?);
                self.found(Change::Element { table, index, value })
            }
            ("TG", [table, _, count]) => {
                let value = Value::Func(None);
                self.found(Change::GrowTable {
                    table: number(table)?,
                    count: number(count)?,
                    value,
                })
            }
            ("G" | "IG", [global, text]) | ("G", [global, _, text, _]) => self.global(global, text),
            ("IG", [global, _, _, _, _, text]) => self.global(global, text),
            // Lines about declarations, and lines that the tool itself ignores.
            _ => Ok(()),
        }
    }

    fn found(&mut self, change: Change) -> Result<(), String> {
        self.ready.push_back(Event::Found(change));
        Ok(())
    }

    fn global(&mut self, global: &str, text: &str) -> Result<(), String> {
        let global: u32 = number(global)?;
        let ty = self.declared.globals.get(global as usize);
        let ty = ty.ok_or_else(|| format!("there is no global {global}"))?.content_type;
        let value = value(text, ty)?;
        self.found(Change::Global { global, value })
    }

    fn enter(&mut self, function: &str, door: Door, args: &str) -> Result<(), String> {
        // The host calls: so an earlier nested call of it has ended.
        self.leave_program();
        let function = number(function)?;
        let args = values(args, &self.types(function, false)?)?;
        self.waiting.push((true, function));
        self.ready.push_back(Event::Enter { function, door, args });
        Ok(())
    }

    /// Adds the program's return to the host, if it runs.
    fn leave_program(&mut self) {
        if let Some((true, function)) = self.waiting.last().copied() {
            self.waiting.pop();
            let results = self.zeros(function, true).unwrap_or_default();
            self.ready.push_back(Event::Leave(End::Values(results)));
        }
    }

    fn types(&self, function: u32, results: bool) -> Result<Vec<ValType>, String> {
        let ty = self.declared.function(function);
        let ty = ty.ok_or_else(|| format!("there is no function {function}"))?;
        Ok(if results { ty.results() } else { ty.params() }.to_vec())
    }

    /// Zeros in place of values that the format does not contain.
    fn zeros(&self, function: u32, results: bool) -> Result<Vec<Value>, String> {
        let types = self.types(function, results)?;
        let zero = |ty: &ValType| Value::zero(*ty).ok_or_else(|| format!("a value of type {ty}"));
        types.iter().map(zero).collect()
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.trim().parse().map_err(|_| format!("{text:?}: not a number that can be here"))
}

fn values(text: &str, types: &[ValType]) -> Result<Vec<Value>, String> {
    // An empty list and one NaN look alike.
    let fields: Vec<&str> = if types.is_empty() { Vec::new() } else { text.split(',').collect() };
    if fields.len() != types.len() {
        return Err(format!("{} values, and there should be {}", fields.len(), types.len()));
    }
    fields.iter().zip(types).map(|(text, ty)| value(text.trim(), *ty)).collect()
}

impl<R: Read> Iterator for R3Reader<R> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.has_failed {
                return None;
            }
            match self.more() {
                Ok(true) => {}
                Ok(false) => {
                    self.has_failed = true;
                    // Calls that were nested at the end have ended, too.
                    if self.waiting.len() == 1 {
                        self.leave_program();
                    }
                }
                Err(error) => {
                    self.has_failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
