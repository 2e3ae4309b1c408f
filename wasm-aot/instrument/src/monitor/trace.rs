//! `trace`: every instruction with its operands, or every call with its arguments and every return
//! with its results, in order; as text, or a line of CSV or JSON for each.

use super::hooked::HookedMonitor;
use super::outline::Outline;
use super::output::Stream;
use super::{Choice, MonitorError, Report};
use crate::lower::{Facts, Hooks};
use parking_lot::Mutex;
use std::io::{BufWriter, Write};
use std::sync::{Arc, OnceLock};
use wasm_aot_body::report::several;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::compile::{
    Action, Call, Capture, Draft, Firing, InstanceSlots, Mode, Receiver,
};
use wasm_aot_engine::instrument::runtime::{Module, spelled};

/// The most values of one line.
const VALUES: usize = 16;

/// The monitor.
#[derive(Debug)]
pub(super) struct Trace {
    choice: Choice,
    events: OnceLock<Vec<TraceEvent>>,
    state: Mutex<TraceState>,
}

#[derive(Debug)]
struct TraceState {
    out: Out,
    /// The frames of functions that have been entered, by instance, callers first.
    frames: Vec<(usize, Vec<usize>)>,
    lines: u64,
    /// Whether the header was written.
    has_begun: bool,
    failure: Option<String>,
    form: TraceForm,
}

/// The format of lines.
#[derive(Clone, Copy, Debug)]
enum TraceForm {
    Text,
    Csv,
    Json,
}

impl TraceForm {
    const ALL: [(&str, Self); 3] = [("text", Self::Text), ("csv", Self::Csv), ("json", Self::Json)];

    fn of(choice: &Choice) -> Result<Self, MonitorError> {
        let name = choice.value("form").unwrap_or("text");
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, form)| *form).ok_or_else(|| MonitorError::Value {
            option: "form".into(),
            value: name.into(),
            why: "the forms are text, csv and json".into(),
        })
    }

    fn line(self, depth: usize, event: &TraceEvent, values: &[String]) -> String {
        let indent = || "  ".repeat(depth.min(64));
        let (kind, function) = (&event.kind, &event.function);
        let (word, offset, text) = match kind {
            TraceEventKind::Enter => (">", None, ""),
            TraceEventKind::Leave => ("<", None, ""),
            TraceEventKind::Unwind => ("!", None, ""),
            TraceEventKind::Instruction(offset, text) => ("+", Some(offset), text.as_str()),
        };
        match (self, offset) {
            (Self::Text, Some(offset)) => format!("{}  +{offset} {text}  {}", indent(), values.join(" ")),
            (Self::Text, None) => format!("{}{word} {function} {}", indent(), values.join(" ")),
            (Self::Csv, _) => {
                let offset = offset.map_or_else(String::new, u32::to_string);
                let quoted = function.replace('"', "\"\"");
                format!("{depth},{word},\"{quoted}\",{offset},{text},{}", values.join(" "))
            }
            (Self::Json, Some(offset)) => {
                serde_json::json!({"depth": depth, "event": word, "function": function, "offset": offset, "instruction": text, "values": values})
                    .to_string()
            }
            (Self::Json, None) => {
                serde_json::json!({"depth": depth, "event": word, "function": function, "values": values}).to_string()
            }
        }
    }
}

/// The destination of lines.
#[derive(Debug)]
enum Out {
    File(BufWriter<Stream>),
    Stderr(BufWriter<std::io::Stderr>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::File(file) => file,
            Self::Stderr(stderr) => stderr,
        }
    }
}

/// The event of a line.
#[derive(Debug)]
struct TraceEvent {
    kind: TraceEventKind,
    function: String,
    /// The types of the values that it shows.
    types: Vec<ValType>,
}

#[derive(Debug)]
enum TraceEventKind {
    Enter,
    Leave,
    Unwind,
    /// The offset in the function, and the text.
    Instruction(u32, String),
}

/// Makes the monitor.
pub(super) fn trace_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let out = match choice.file("file")? {
        Some(file) => Out::File(BufWriter::new(Stream::new(file))),
        None => Out::Stderr(BufWriter::new(std::io::stderr())),
    };
    let form = TraceForm::of(choice)?;
    let (frames, lines, has_begun, failure) = Default::default();
    let state = Mutex::new(TraceState { out, frames, lines, has_begun, failure, form });
    Ok(Arc::new(Trace { choice: choice.clone(), events: OnceLock::new(), state }))
}

impl HookedMonitor for Trace {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let mut events = Vec::new();
        let mut event =
            |kind, function: &str, types: &[ValType], captures: &dyn Fn(u32) -> Capture| {
                let types: Vec<ValType> = types.iter().copied().take(VALUES).collect();
                let captures = (0..types.len() as u32).map(captures).collect();
                let call = Call {
                    receiver: Arc::<Self>::clone(&self),
                    number: events.len() as u64,
                    captures,
                    writes: false,
                };
                events.push(TraceEvent { kind, function: function.to_owned(), types });
                Action::Call(call)
            };
        draft.add_receiver(Arc::<Self>::clone(&self));
        for function in outline.chosen(&self.choice) {
            let (index, name) = (function.index, function.label.as_str());
            let ty = outline.info.function_type(index);
            draft.hook_function(
                index,
                Mode::Entry,
                event(TraceEventKind::Enter, name, ty.params(), &Capture::Local),
            );
            if !self.choice.has("calls") {
                let start = outline.info.body(index).start;
                for instruction in &function.instructions {
                    let operands: Vec<ValType> =
                        instruction.operands.iter().rev().copied().collect();
                    let from_top = |place: u32| Capture::Operand(operands.len() as u32 - 1 - place);
                    let kind = TraceEventKind::Instruction(
                        instruction.at - start,
                        spelled(&instruction.op, outline.bytes, instruction.at),
                    );
                    let action = event(kind, name, &operands, &from_top);
                    draft.hook(index, instruction.at, Mode::Before, action);
                }
            }
            let results = ty.results();
            let from_top = |place: u32| Capture::Operand(results.len() as u32 - 1 - place);
            draft.hook_function(
                index,
                Mode::Exit,
                event(TraceEventKind::Leave, name, results, &from_top),
            );
            draft.hook_function(
                index,
                Mode::Unwind,
                event(TraceEventKind::Unwind, name, &[], &Capture::Local),
            );
        }
        // Planned once.
        let _ = self.events.set(events);
    }

    fn events(&self, _: &Module) -> u64 {
        self.state.lock().lines
    }

    fn facts(&self) -> Facts {
        let floods = self.choice.value("file").is_none();
        Facts::Hooks(Hooks { floods, ..Hooks::default() })
    }

    fn report(&self, _: &Module) -> Report {
        let mut report = Report::new("trace", &[]);
        let mut state = self.state.lock();
        state.begin();
        if let Err(error) = state.out.writer().flush() {
            state.failure.get_or_insert(format!("trace: {error}"));
        }
        report.notes.push(several(state.lines, "line"));
        report.notes.extend(state.failure.clone());
        report
    }
}

impl Receiver for Trace {
    fn fire(&self, firing: &mut Firing<'_>) {
        let Some(event) = self.events.get().and_then(|events| events.get(firing.number as usize))
        else {
            return;
        };
        let values: Vec<String> =
            event.types.iter().zip(&*firing.values).map(|(ty, value)| shown(*ty, *value)).collect();
        let mut state = self.state.lock();
        let depth = state.depth(firing.vmctx, firing.frame, &event.kind);
        let line = state.form.line(depth, event, &values);
        state.begin();
        state.lines += 1;
        state.write(line.trim_end());
    }

    fn end(&self, slots: InstanceSlots) {
        self.state.lock().frames.retain(|(vmctx, _)| *vmctx != slots.vmctx);
    }

    fn failed(&self, why: &str) {
        self.state.lock().failure.get_or_insert(format!("the monitor has failed: {why}"));
    }
}

impl TraceState {
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let TraceForm::Csv = self.form
        {
            self.write("depth,event,function,offset,instruction,values");
        }
    }

    fn write(&mut self, line: &str) {
        if let Err(error) = writeln!(self.out.writer(), "{line}") {
            self.failure.get_or_insert(format!("trace: {error}"));
        }
    }

    /// The depth of an activation. Activations that a trap has unwound are below the next one.
    fn depth(&mut self, vmctx: usize, frame: usize, kind: &TraceEventKind) -> usize {
        let at = match self.frames.iter().position(|(other, _)| *other == vmctx) {
            Some(at) => at,
            None => {
                self.frames.push((vmctx, Vec::new()));
                self.frames.len() - 1
            }
        };
        let frames = &mut self.frames[at].1;
        while frames.last().is_some_and(|last| {
            *last < frame || (*last == frame && matches!(kind, TraceEventKind::Enter))
        }) {
            frames.pop();
        }
        match kind {
            TraceEventKind::Enter => {
                frames.push(frame);
                frames.len() - 1
            }
            TraceEventKind::Leave | TraceEventKind::Unwind => {
                frames.pop_if(|last| *last == frame);
                frames.len()
            }
            TraceEventKind::Instruction(..) => frames.len().saturating_sub(1),
        }
    }
}

/// A value as the text format spells it; references as addresses.
pub(super) fn shown(ty: ValType, value: [u64; 2]) -> String {
    match ty {
        ValType::I32 => (value[0] as i32).to_string(),
        ValType::I64 => (value[0] as i64).to_string(),
        ValType::F32 => f32::from_bits(value[0] as u32).to_string(),
        ValType::F64 => f64::from_bits(value[0]).to_string(),
        ValType::V128 => format!("{:#034x}", u128::from(value[1]) << 64 | u128::from(value[0])),
        ValType::Ref(_) if value[0] == 0 => "null".into(),
        ValType::Ref(_) => format!("ref:{:#x}", value[0]),
    }
}
