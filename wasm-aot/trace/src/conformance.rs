//! Whether events are those of a run of a module: they nest as calls do, and every index and type
//! is one that the module declares. Events that have passed need no further checks.

use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, Door, End, Event};
use crate::value::{Signature, Value};
use wasmparser::{FuncType, ValType};

/// The side that waits for the other.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// The host, for this function of the program.
    Host(u32),
    /// The program, for this function of the host.
    Program(u32),
}

/// Checks the events of a run, one after the other.
#[derive(Debug)]
pub struct Conformance<'a> {
    declared: &'a Declared,
    waiting: Vec<Waiting>,
    /// The host functions that the program does not import.
    given: Vec<Signature>,
    /// How the call of the last event has ended, if no event of the program can follow; and with
    /// which code.
    ended: Option<(&'static str, i32)>,
    has_entered: bool,
    events: u64,
}

impl<'a> Conformance<'a> {
    /// Creates the check of a run of a module.
    pub fn new(declared: &'a Declared) -> Self {
        let (waiting, given) = (Vec::new(), Vec::new());
        Self { declared, waiting, given, ended: None, has_entered: false, events: 0 }
    }

    /// The number of events that have passed.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of calls that have not ended.
    pub fn depth(&self) -> usize {
        self.waiting.len()
    }

    /// Checks the next event.
    pub fn check(&mut self, event: &Event) -> Result<(), Error> {
        let is_right = self.look(event).map_err(|what| Error::event(self.events, what));
        self.events += 1;
        is_right
    }

    fn look(&mut self, event: &Event) -> Result<(), String> {
        if let Event::Function(signature) = event {
            /// As many as WebAssembly's implementations accept.
            const MOST: usize = 1000;
            let ty = signature.ty();
            self.given.push(signature.clone());
            return match ty.params().len().max(ty.results().len()) {
                0..=MOST => Ok(()),
                _ => Err(format!("a function of more than {MOST} values")),
            };
        }
        if let Some((how, own)) = self.ended.take() {
            match (event, how) {
                (Event::Leave(End::Exit { code, .. }), "exit") if *code == own => {}
                (Event::Leave(End::Exit { code, .. }), "exit") => {
                    return Err(format!(
                        "the program exits with code {code}, and the host with {own}"
                    ));
                }
                (Event::Leave(End::Trap(_)), "trap") => {}
                _ => return Err(format!("{} after the host's {how}", event.kind())),
            }
        }
        let is_host = !matches!(self.waiting.last(), Some(Waiting::Host(_)));
        let wrong_side = || format!("{}, where control is elsewhere", event.kind());
        match event {
            Event::Enter { function, door, args } => {
                is_host.then_some(()).ok_or_else(wrong_side)?;
                self.entered(*function, door, args)?;
                self.waiting.push(Waiting::Host(*function));
                self.has_entered = true;
            }
            Event::Leave(end) => {
                let Some(Waiting::Host(function)) = self.waiting.last().copied() else {
                    return Err(wrong_side());
                };
                self.end(end, function)?;
                self.waiting.pop();
            }
            Event::Call { function, args } => {
                (!is_host).then_some(()).ok_or_else(wrong_side)?;
                if !self.is_of_host(*function) {
                    return Err(format!("function {function} is not imported"));
                }
                self.values(args, self.type_of(*function)?.params())?;
                self.waiting.push(Waiting::Program(*function));
            }
            Event::Return(end) => {
                let Some(Waiting::Program(function)) = self.waiting.last().copied() else {
                    return Err(wrong_side());
                };
                self.end(end, function)?;
                self.waiting.pop();
                self.ended = match end {
                    End::Exit { code, .. } => Some(("exit", *code)),
                    End::Trap(_) => Some(("trap", 0)),
                    End::Values(_) | End::Exception { .. } => None,
                };
            }
            Event::Host(change) => {
                is_host.then_some(()).ok_or_else(wrong_side)?;
                self.change(change)?;
            }
            Event::Found(change) | Event::Seen(change) | Event::Own(change) => {
                self.change(change)?;
            }
            Event::Begin { function } => self.type_of(*function).map(|_| ())?,
            Event::Function(_) | Event::Done => {}
        }
        Ok(())
    }

    fn is_of_host(&self, function: u32) -> bool {
        (function as usize) < self.declared.imports.len() || function >= self.declared.functions()
    }

    fn entered(&self, function: u32, door: &Door, args: &[Value]) -> Result<(), String> {
        match door {
            Door::Start if self.declared.start != Some(function) => {
                return Err(format!("function {function} is not the module's start"));
            }
            Door::Export(name) if self.declared.function_named(name) != Some(function) => {
                return Err(format!("function {function} is not exported under that name"));
            }
            _ => {}
        }
        let params = self.type_of(function)?.params();
        if function >= self.declared.functions() {
            return Err(format!("function {function} is not the program's"));
        }
        self.values(args, params)
    }

    fn type_of(&self, function: u32) -> Result<&FuncType, String> {
        let given = || self.given.get(function.checked_sub(self.declared.functions())? as usize);
        let ty = self.declared.function(function).or_else(|| given().map(Signature::ty));
        ty.ok_or_else(|| format!("there is no function {function}"))
    }

    fn end(&self, end: &End, function: u32) -> Result<(), String> {
        match end {
            End::Values(results) => self.values(results, self.type_of(function)?.results()),
            End::Exception { tag, values } => {
                let ty = self.declared.tag(*tag).ok_or_else(|| format!("there is no tag {tag}"))?;
                self.values(values, ty.params())
            }
            End::Exit { frames, .. } => {
                let first = self.declared.imports.len() as u32;
                let is_own = |function: u32| (first..self.declared.functions()).contains(&function);
                match frames.iter().find(|frame| !is_own(frame.function)) {
                    Some(frame) => Err(format!("function {} has no body", frame.function)),
                    None => Ok(()),
                }
            }
            End::Trap(_) => Ok(()),
        }
    }

    fn values(&self, values: &[Value], types: &[ValType]) -> Result<(), String> {
        if values.len() != types.len() {
            return Err(format!("{} values, and there should be {}", values.len(), types.len()));
        }
        values.iter().zip(types).try_for_each(|(value, ty)| self.value(value, *ty))
    }

    fn value(&self, value: &Value, ty: ValType) -> Result<(), String> {
        match value {
            _ if !value.is_of(ty) => Err(format!("{value} is no {ty}")),
            Value::Func(Some(index)) => self.type_of(*index).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn change(&self, change: &Change) -> Result<(), String> {
        let declared = self.declared;
        let table = |table: u32, most: u64, value: &Value| {
            let ty = declared.tables.get(table as usize);
            let ty = ty.ok_or_else(|| format!("there is no table {table}"))?;
            if !ty.table64 && most > u64::from(u32::MAX) {
                return Err("more elements than a table has".into());
            }
            self.value(value, ValType::Ref(ty.element_type))
        };
        let memory = |memory: u32| {
            let ty = declared.memories.get(memory as usize);
            ty.ok_or_else(|| format!("there is no memory {memory}"))
        };
        match change {
            Change::Write { memory: index, address, bytes } => {
                let ty = memory(*index)?;
                let end = address.checked_add(bytes.len() as u64);
                let most = if ty.memory64 { u64::MAX } else { 1 << 32 };
                match end.is_some_and(|end| end <= most) {
                    true => Ok(()),
                    false => Err("a write beyond the end of memory".into()),
                }
            }
            Change::Grow { memory: index, pages } => match memory(*index)?.memory64 {
                false if *pages > 1 << 16 => Err("more pages than a memory has".into()),
                _ => Ok(()),
            },
            Change::Global { global, value } => {
                let ty = declared.globals.get(*global as usize);
                let ty = ty.ok_or_else(|| format!("there is no global {global}"))?;
                if !ty.mutable && (self.has_entered || *global >= declared.imported.globals) {
                    return Err(format!("global {global} never changes"));
                }
                self.value(value, ty.content_type)
            }
            Change::Element { table: own, index, value } => table(*own, *index, value),
            Change::GrowTable { table: own, count, value } => table(*own, *count, value),
        }
    }
}
