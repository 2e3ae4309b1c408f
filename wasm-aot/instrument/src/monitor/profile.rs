//! `profile`: the tree of calling contexts, with how often each was entered and how long it took.
//!
//! Who enters a function looks for its node in the node that it comes from: two loads and a
//! comparison, see [`tree`](super::tree). Time is charged to nodes as [`meter`](super::meter) says,
//! so that recursion, exceptions and tail calls need no care: a tail call ends its caller first.

use super::flame;
use super::hooked::{Hooked, fingerprint};
use super::kept::{NAMELESS, Run};
use super::meter::{Meter, Span, Speed, put_spans, shown};
use super::outline::Outline;
use super::tree::{CALLED, FUNCTION, PLACES, Sum, Trees};
use super::{Cell, Choice, MonitorError, Report};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    Action, Call, Draft, Emitter, Firing, Inline, Receiver, Room, Sequence,
};
use wasm_aot_engine::instrument::runtime::{Module, Places};

/// How many functions of a way are named.
const WAY: usize = 64;

/// The monitor.
#[derive(Debug)]
pub(super) struct Profile {
    choice: Choice,
    speed: Speed,
    meter: OnceLock<Meter>,
    trees: Mutex<Trees>,
    /// What the processors had worked when the first instance began.
    worked: OnceLock<Duration>,
    /// Files that drawings go to.
    files: Vec<(flame::Form, File)>,
}

/// Makes the monitor.
pub(super) fn begin(choice: &Choice) -> Result<Arc<dyn Hooked>, MonitorError> {
    let mut files = Vec::new();
    for form in flame::Form::ALL {
        files.extend(choice.file(form.option())?.map(|file| (form, file)));
    }
    let (meter, trees, worked) = Default::default();
    let speed = Speed::since_now();
    Ok(Arc::new(Profile { choice: choice.clone(), speed, meter, trees, worked, files }))
}

impl Hooked for Profile {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let meter = *self.meter.get_or_init(|| Meter::new(draft));
        draft.tell(Arc::<Self>::clone(&self));
        for function in outline.chosen(&self.choice) {
            put_spans(draft, function, outline.info.imported.functions, |span| match span {
                Span::Begin(function) => {
                    let receiver = Arc::<Self>::clone(&self);
                    let look_up = Call {
                        receiver,
                        number: function.into(),
                        captures: Vec::new(),
                        writes: false,
                    };
                    Action::Inline(Sequence(Arc::new(Enter { meter, function, look_up })))
                }
                Span::End => Action::Inline(Sequence(Arc::new(Leave(meter)))),
            });
        }
    }

    fn report(&self, module: &Module) -> Report {
        let (mut sum, without) = self.trees.lock().sum();
        if let Some(depth) = self.choice.number("depth") {
            sum = sum.cut(depth as u32);
        }
        let places = Places::of(module);
        let names: RefCell<HashMap<u32, String>> = RefCell::default();
        let name = |function| {
            names
                .borrow_mut()
                .entry(function)
                .or_insert_with(|| module.inner().label(function))
                .clone()
        };
        let source = |function| places.of_function(function);
        let table = Table::new(&sum, self.speed.hz(), &name, &source);
        let processor = self.worked.get().map_or(Duration::ZERO, |before| {
            wordpatch::os::clocks::of_process().saturating_sub(*before)
        });
        let mut report = table.report();
        report.total([("cpu nanoseconds", processor.as_nanos() as u64)]);
        let program = self.choice.program().or(module.name()).unwrap_or(NAMELESS).to_owned();
        let run = Run { program, processor };
        let worked = shown(processor.as_secs_f64());
        report.notes.push(format!("by the wall clock; the process has worked for {worked}"));
        if without > 0 {
            report
                .notes
                .push(format!("{without} calls belong to their callers: there were too many contexts (depth=N has fewer)"));
        }
        let instead = |form: &flame::Form| {
            self.choice.has(form.option()) && self.choice.value(form.option()).is_none()
        };
        report.drawing = Some(match flame::Form::ALL.into_iter().find(instead) {
            Some(form) => String::from_utf8_lossy(&table.drawn(form, &run)).into_owned(),
            None => table.text(&report, self.choice.top()),
        });
        for (form, file) in &self.files {
            if let Err(error) = flame::rewrite(file, &table.drawn(*form, &run)) {
                report.remark(format!("{}: {error}", form.option()));
            }
        }
        report
    }
}

impl Receiver for Profile {
    fn fire(&self, firing: &mut Firing<'_>) {
        // The node that is left goes in, the one that is entered comes out.
        let [value, _] = &mut firing.values[0];
        *value =
            self.trees.lock().child(firing.vmctx, *value as usize, firing.number as u32) as u64;
    }

    fn begin(&self, room: Room) {
        self.worked.get_or_init(wordpatch::os::clocks::of_process);
        if let Some(meter) = self.meter.get() {
            meter.begin(room, self.trees.lock().begin(room.vmctx));
        }
    }

    fn paused(&self, room: Room, ticks: u64) {
        if let Some(meter) = self.meter.get() {
            meter.paused(room, ticks);
        }
    }

    fn end(&self, room: Room) {
        self.trees.lock().end(room.vmctx);
    }
}

/// A sum, and what is needed to show it.
pub(super) struct Table<'a> {
    pub(super) sum: &'a Sum,
    pub(super) nested: Vec<u64>,
    pub(super) hz: f64,
    pub(super) name: &'a dyn Fn(u32) -> String,
    /// File and line of a function, where they are known.
    pub(super) source: &'a dyn Fn(u32) -> String,
}

impl<'a> Table<'a> {
    /// Of a sum.
    pub(super) fn new(
        sum: &'a Sum,
        hz: f64,
        name: &'a dyn Fn(u32) -> String,
        source: &'a dyn Fn(u32) -> String,
    ) -> Self {
        let mut nested = sum.nested();
        // What passes outside of all functions is nobody's.
        nested[0] -= sum.contexts[0].own;
        Self { sum, nested, hz, name, source }
    }

    /// Nanoseconds of ticks.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.hz * 1e9).round() as u64
    }

    /// The functions on the way to a context, the outermost first; of a long one, the last.
    pub(super) fn way(&self, context: usize, most: usize) -> String {
        let functions = self.sum.way(context, most);
        let is_whole = functions.len() == self.sum.contexts[context].depth as usize;
        let names: Vec<String> =
            functions.into_iter().map(|function| (self.name)(function).replace(';', ":")).collect();
        format!("{}{}", if is_whole { "" } else { "…;" }, names.join(";"))
    }

    fn report(&self) -> Report {
        let mut report = Report::new(
            "profile",
            &["depth", "function", "calls", "self ns", "nested ns", "share", "way", "source"],
        );
        for i in self.sum.in_order() {
            let context = &self.sum.contexts[i];
            let way = self.way(i, WAY);
            report.row([
                context.depth.into(),
                Cell::Function { name: (self.name)(context.function), index: context.function },
                context.calls.into(),
                self.nanoseconds(context.own).into(),
                self.nanoseconds(self.nested[i]).into(),
                Cell::share(self.nested[i], self.nested[0]),
                way.into(),
                (self.source)(context.function).into(),
            ]);
        }
        let calls: u64 = self.sum.contexts.iter().map(|context| context.calls).sum();
        let contexts = self.sum.contexts.len() - 1;
        report.total([
            ("calls", calls),
            ("contexts", contexts as u64),
            ("nanoseconds", self.nanoseconds(self.nested[0])),
        ]);
        report.notes.push(format!(
            "{calls} calls in {contexts} contexts, {}",
            shown(self.nested[0] as f64 / self.hz)
        ));
        report
    }

    /// For people: a line for each context, indented below its caller's.
    fn text(&self, report: &Report, top: Option<usize>) -> String {
        let order = self.sum.in_order();
        let shown_rows = top.unwrap_or(usize::MAX).min(order.len());
        let mut out = format!(
            "== profile ==\n{:>12} {:>12} {:>7} {:>12}  function\n",
            "nested", "self", "share", "calls"
        );
        for i in &order[..shown_rows] {
            let context = &self.sum.contexts[*i];
            let time = |ticks: u64| shown(ticks as f64 / self.hz);
            let share = if self.nested[0] == 0 {
                0.0
            } else {
                self.nested[*i] as f64 / self.nested[0] as f64 * 100.0
            };
            let indent = "  ".repeat((context.depth as usize - 1).min(40));
            let (nested, own, name) =
                (time(self.nested[*i]), time(context.own), (self.name)(context.function));
            let _ = writeln!(
                out,
                "{nested:>12} {own:>12} {share:>6.1}% {:>12}  {indent}{name}",
                context.calls
            );
        }
        if shown_rows < order.len() {
            let _ = writeln!(out, "… and {} more (top=all shows them)", order.len() - shown_rows);
        }
        report.notes.iter().for_each(|note| out.extend([note, "\n"]));
        out
    }
}

/// A node is entered.
#[derive(Debug)]
struct Enter {
    meter: Meter,
    function: u32,
    look_up: Call,
}

impl Inline for Enter {
    fn fingerprint(&self) -> u64 {
        fingerprint("profile: enter", &(self.meter, self.function, &self.look_up))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let before = self.meter.current(at);
        let node = self.node(at, before);
        self.meter.open(at, node, before);
        Ok(())
    }
}

impl Enter {
    /// The function's node among those that were called from the one before.
    fn node<'a>(&'a self, at: &mut Emitter<'_, 'a>, before: Value) -> Value {
        let flags = at.flags();
        let place = CALLED + 8 * (self.function % PLACES) as i32;
        let known = at.builder().ins().load(types::I64, flags, before, place);
        let function = at.builder().ins().load(types::I64, flags, known, FUNCTION);
        let is_it = at.builder().ins().icmp_imm_s(IntCC::Equal, function, i64::from(self.function));
        let (look_up, next) = (at.builder().create_block(), at.builder().create_block());
        let node = at.builder().append_block_param(next, types::I64);
        at.builder().set_cold_block(look_up);
        at.builder().ins().brif(is_it, next, &[known.into()], look_up, &[]);
        at.builder().seal_block(look_up);
        at.builder().switch_to_block(look_up);
        let found = at.exchange(&self.look_up, before);
        at.builder().ins().jump(next, &[found.into()]);
        at.builder().seal_block(next);
        at.builder().switch_to_block(next);
        node
    }
}

/// The node is left.
#[derive(Debug, Hash)]
struct Leave(Meter);

impl Inline for Leave {
    fn fingerprint(&self) -> u64 {
        fingerprint("profile: leave", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        self.0.close(at);
        Ok(())
    }
}
