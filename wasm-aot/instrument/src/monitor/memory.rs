//! `memory`: how often each page was read and written, and, on request, every access.
//!
//! Pages have counters in the instance, two words each, in the order of pages; so counting is an
//! addition at an address that follows from that of the access. An instruction that traps has
//! accessed nothing. An access counts for the page in which it begins.

use super::hooked::HookedMonitor;
use super::outline::{Instruction, Outline};
use super::output::Stream;
use super::sums::InstanceSums;
use super::{Cell, Choice, MonitorError, Report};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use wasm_aot_body::report::several;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    Access, Action, Call, Capture, Draft, Emitter, Firing, Inline, InstanceSlots, Mode, Receiver,
    Sequence, Word,
};
use wasm_aot_engine::instrument::runtime::{Module, memory_of};
use wasmparser::Operator;

/// In larger memories, the pages after these are counted together.
const PAGES: u64 = 1 << 16;

/// The monitor.
#[derive(Debug)]
pub(super) struct Memory {
    choice: Choice,
    trace: Option<Mutex<BufWriter<Stream>>>,
    /// The counters of each memory, once they are planned.
    pages: OnceLock<Vec<Pages>>,
    /// The events for which the host is called.
    events: OnceLock<Vec<MemoryEvent>>,
    state: Mutex<MemoryState>,
}

/// The counters of a memory: reads and writes of each page.
#[derive(Clone, Copy, Debug, Hash)]
struct Pages {
    first: Word,
    /// How many pages are distinguished.
    count: u32,
    wide: bool,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// Reads and writes of each page of each memory.
    sums: InstanceSums<BTreeMap<(u32, u32), [u64; 2]>>,
    /// How often each memory has grown, and how many pages it had at most.
    grown: BTreeMap<u32, (u64, u64)>,
    /// The monitor's own failure, or that of the trace's file.
    failure: Option<String>,
}

/// An event for which the host is called.
#[derive(Debug)]
enum MemoryEvent {
    /// An access that is written down.
    Access {
        place: TracedPlace,
        access: Access,
    },
    /// Memories that a whole range is read from, and written to.
    Range {
        place: TracedPlace,
        reads: Option<u32>,
        writes: Option<u32>,
    },
    Grow(u32),
}

/// An instruction as a trace names it: its function, and where it is in that.
#[derive(Debug)]
struct TracedPlace {
    function: String,
    offset: u32,
}

/// Makes the monitor.
pub(super) fn memory_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let trace = choice.file("trace")?.map(|file| Mutex::new(BufWriter::new(Stream::new(file))));
    let (pages, events, state) = Default::default();
    Ok(Arc::new(Memory { choice: choice.clone(), trace, pages, events, state }))
}

impl HookedMonitor for Memory {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let memories = outline.info.memories.iter().map(|memory| {
            let most = if memory.wide { PAGES } else { memory.maximum.unwrap_or(PAGES).min(PAGES) };
            let count = most.min(PAGES) as u32;
            Pages { first: draft.words(2 * (count + 1)), count, wide: memory.wide }
        });
        let pages: Vec<Pages> = memories.collect();
        let mut events = Vec::new();
        draft.add_receiver(Arc::<Self>::clone(&self));
        for function in outline.chosen(&self.choice) {
            let start = outline.info.body(function.index).start;
            for instruction in &function.instructions {
                if let Some(access) = Access::of(&instruction.op) {
                    let counter = Counter { pages: pages[access.memory as usize], access };
                    let action = Action::Inline(Sequence(Arc::new(counter)));
                    draft.hook(function.index, instruction.at, Mode::After, action);
                }
                let Some((event, captures)) = self.event(&function.label, start, instruction)
                else {
                    continue;
                };
                let call = Call {
                    receiver: Arc::<Self>::clone(&self),
                    number: events.len() as u64,
                    captures,
                    writes: false,
                };
                draft.hook(function.index, instruction.at, Mode::After, Action::Call(call));
                events.push(event);
            }
        }
        // Planned once.
        let _ = (self.pages.set(pages), self.events.set(events));
    }

    fn counting(&self) -> &'static [&'static str] {
        &["reads", "writes"]
    }

    fn report(&self, _: &Module) -> Report {
        let mut report = Report::new("memory", &["memory", "from", "to", "reads", "writes"]);
        let mut state = self.state.lock();
        let counts = state.sums.so_far(|slots, counts| self.add(slots, counts));
        let mut sums = [0; 2];
        for ((memory, page), [reads, writes]) in &counts {
            sums = [sums[0] + reads, sums[1] + writes];
            let from = u64::from(*page) << 16;
            let to = if u64::from(*page) == PAGES { u64::MAX } else { from + 0xffff };
            let hex = |address: u64| Cell::from(format!("{address:08x}"));
            report.row([(*memory).into(), hex(from), hex(to), (*reads).into(), (*writes).into()]);
        }
        report.notes.push(format!(
            "{} and {} in {}",
            several(sums[0], "read"),
            several(sums[1], "write"),
            several(counts.len() as u64, "page")
        ));
        report.total([("reads", sums[0]), ("writes", sums[1]), ("pages", counts.len() as u64)]);
        for (memory, (times, pages)) in &state.grown {
            report.notes.push(format!(
                "memory {memory} has grown {}, to {}",
                several(*times, "time"),
                several(*pages, "page")
            ));
        }
        if let Some(Err(error)) = self.trace.as_ref().map(|trace| trace.lock().flush()) {
            state.failure = Some(format!("trace: {error}"));
        }
        report.notes.extend(state.failure.clone());
        report
    }
}

impl Memory {
    /// The event for which the host is called at an instruction, and the captured values.
    fn event(
        &self,
        function: &str,
        start: u32,
        instruction: &Instruction<'_>,
    ) -> Option<(MemoryEvent, Vec<Capture>)> {
        let place =
            || TracedPlace { function: function.to_owned(), offset: instruction.at - start };
        // Length, source, destination, from the top of the stack.
        let range = |reads: Option<u32>, writes: Option<u32>| {
            let captures = [0, 1, 2].map(Capture::Taken).to_vec();
            (MemoryEvent::Range { place: place(), reads, writes }, captures)
        };
        Some(match instruction.op {
            Operator::MemoryGrow { mem } => {
                (MemoryEvent::Grow(mem), vec![Capture::Taken(0), Capture::Operand(0)])
            }
            Operator::MemoryFill { mem } | Operator::MemoryInit { mem, .. } => {
                range(None, Some(mem))
            }
            Operator::MemoryCopy { dst_mem, src_mem } => range(Some(src_mem), Some(dst_mem)),
            _ => {
                self.trace.as_ref()?;
                let access = Access::of(&instruction.op)?;
                (MemoryEvent::Access { place: place(), access }, vec![Capture::Address])
            }
        })
    }

    /// Adds the counters of an instance.
    fn add(&self, slots: InstanceSlots, counts: &mut BTreeMap<(u32, u32), [u64; 2]>) {
        for (memory, pages) in self.pages.get().into_iter().flatten().enumerate() {
            for page in 0..=pages.count {
                let [reads, writes] = [0, 1]
                    .map(|which| slots.word(pages.first.plus(2 * page + which)).load(Relaxed));
                if reads + writes > 0 {
                    let sums = counts.entry((memory as u32, page)).or_default();
                    *sums = [sums[0] + reads, sums[1] + writes];
                }
            }
        }
    }

    /// Counts one access of each page of a range, and writes the range down.
    fn range(
        &self,
        vmctx: usize,
        place: &TracedPlace,
        memory: u32,
        (from, len): (u64, u64),
        writes: bool,
    ) {
        let (Some(pages), Some(last)) = (self.pages.get(), len.checked_sub(1)) else { return };
        let kind = if writes { "store" } else { "load" };
        self.write(vmctx, place, kind, memory, (from, len as usize));
        let pages = &pages[memory as usize];
        let Some(slots) = self.state.lock().sums.slots(vmctx) else { return };
        let page = |address: u64| (address >> 16).min(pages.count.into()) as u32;
        for page in page(from)..=page(from + last) {
            // No other thread adds meanwhile: the instance's thread waits for this call.
            slots.word(pages.first.plus(2 * page + u32::from(writes))).fetch_add(1, Relaxed);
        }
    }

    fn write(
        &self,
        vmctx: usize,
        TracedPlace { function, offset }: &TracedPlace,
        kind: &str,
        memory: u32,
        (address, size): (u64, usize),
    ) {
        let Some(trace) = &self.trace else { return };
        let bytes = memory_of(vmctx, memory, address, size);
        let value: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        let written = writeln!(
            trace.lock(),
            "{function},{offset},{kind},{memory},{address:#x},{size},{value}"
        );
        if let Err(error) = written {
            self.state.lock().failure.get_or_insert(format!("trace: {error}"));
        }
    }
}

impl Receiver for Memory {
    fn fire(&self, firing: &mut Firing<'_>) {
        let Some(event) = self.events.get().and_then(|events| events.get(firing.number as usize))
        else {
            return;
        };
        let value = |place: usize| firing.values[place][0];
        match event {
            MemoryEvent::Access { place, access } => {
                let kind = match (access.reads, access.writes) {
                    (true, true) => "update",
                    (true, false) => "load",
                    _ => "store",
                };
                let range = (value(0), access.size as usize);
                self.write(firing.vmctx, place, kind, access.memory, range);
            }
            MemoryEvent::Range { place, reads, writes } => {
                let (len, source, destination) = (value(0), value(1), value(2));
                for (memory, from, writes) in [(reads, source, false), (writes, destination, true)]
                {
                    if let Some(memory) = memory {
                        self.range(firing.vmctx, place, *memory, (from, len), writes);
                    }
                }
            }
            MemoryEvent::Grow(memory) => {
                let (by, before) = (value(0), value(1));
                let failed = [u64::MAX, u32::MAX.into()].contains(&before);
                if by > 0 && !failed {
                    let mut state = self.state.lock();
                    let grown = state.grown.entry(*memory).or_default();
                    *grown = (grown.0 + 1, grown.1.max(before + by));
                }
            }
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        self.state.lock().sums.begin(slots);
    }

    fn end(&self, slots: InstanceSlots) {
        self.state.lock().sums.end(slots, |slots, counts| self.add(slots, counts));
    }

    fn failed(&self, why: &str) {
        self.state.lock().failure.get_or_insert(format!("the monitor has failed: {why}"));
    }
}

/// The code that counts an access.
#[derive(Debug, Hash)]
struct Counter {
    pages: Pages,
    access: Access,
}

impl Inline for Counter {
    fn fingerprint(&self) -> u64 {
        super::hooked::fingerprint("memory", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let Some(address) = at.address() else { return Ok(()) };
        let place = self.place(at, address);
        let (vmctx, words) = (at.vmctx(), at.word(self.pages.first));
        let base = at.builder().ins().iadd(vmctx, place);
        for (wanted, offset) in [(self.access.reads, words), (self.access.writes, words + 8)] {
            if wanted {
                at.count_at(base, offset);
            }
        }
        Ok(())
    }
}

impl Counter {
    /// Sixteen times the number of the page: the distance of its words from those of the first.
    fn place(&self, at: &mut Emitter<'_, '_>, address: Value) -> Value {
        let ins = at.builder();
        if !self.pages.wide {
            let sixteenth = ins.ins().ushr_imm_u(address, 12);
            return ins.ins().band_imm_s(sixteenth, -16);
        }
        let page = ins.ins().ushr_imm_u(address, 16);
        let last = ins.ins().iconst(types::I64, i64::from(self.pages.count));
        let page = ins.ins().umin(page, last);
        ins.ins().ishl_imm_u(page, 4)
    }
}
