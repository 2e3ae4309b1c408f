//! Costs: the durations of a patching thread's operations, with a core that executes the target and
//! without one.
//!
//! # Safety
//!
//! This module exists to time system calls that other crates wrap. It protects and writes its own
//! pages, which no thread executes or borrows.
#![allow(unsafe_code)]

use crate::plan::{Plan, STEP};
use crate::statistics::Sample;
use crate::stopwatch;
use crate::storm::execution::{self, OnTrap};
use crate::storm::{Assignment, Executers, Face, Placement, Shape, Target};
use crate::watch::{Failure, Watch};
use serde::Serialize;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wordpatch::live::{self, Width};
use wordpatch::os::pages::{self, PAGE, Place, Protection};
use wordpatch::os::{OsError, files, membarrier};
use wordpatch::{Barrier, CodeAddr};

/// An operation of a patching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Operation {
    /// One store of eight bytes, as issued.
    #[serde(rename = "store")]
    Store,
    /// The same, until it is visible.
    #[serde(rename = "store+mfence")]
    StoreVisible,
    /// One SYNC_CORE barrier.
    #[serde(rename = "membarrier")]
    Membarrier,
    /// A signal to every thread, and its answer.
    #[serde(rename = "signal-barrier")]
    Signal,
    /// A page made writable and read-only again.
    #[serde(rename = "mprotect-pair")]
    Mprotect,
    /// Eight bytes through /proc/self/mem into a page that is read-only.
    #[serde(rename = "proc-self-mem")]
    ProcMem,
    /// `INT3`, its handler, and back.
    #[serde(rename = "int3-round-trip")]
    Trap,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 7] = [
        Self::Store,
        Self::StoreVisible,
        Self::Membarrier,
        Self::Signal,
        Self::Mprotect,
        Self::ProcMem,
        Self::Trap,
    ];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::StoreVisible => "store+mfence",
            Self::Membarrier => "membarrier",
            Self::Signal => "signal-barrier",
            Self::Mprotect => "mprotect-pair",
            Self::ProcMem => "proc-self-mem",
            Self::Trap => "int3-round-trip",
        }
    }
}

/// The cost of one operation, in ticks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The operation.
    pub name: &'static str,
    /// Whether another core executed the target meanwhile.
    pub executer: bool,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The number of timed operations.
    pub n: usize,
    /// The reason if the operation could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Times all operations.
pub fn measure(plan: &Plan, watch: &Watch<'_>) -> Result<Vec<Cost>, Failure> {
    let assignment = Assignment::new()?;
    let _pinned = assignment.pin_patcher()?;
    let target = Target::new(Shape::Immediate, Placement::InLine(8))?;
    let bench = Bench::new(&target)?;
    // More than one step yields no better result.
    let share = STEP.min(plan.costs / (2 * Operation::ALL.len() as u32));
    let mut costs = Vec::new();
    watch.begin(plan.costs);
    for operation in Operation::ALL {
        for size in [0, 1] {
            let lead = |executers: &Executers| {
                bench.time(operation, (size > 0).then_some(executers), watch.share(share))
            };
            let others = (0, |_: &Executers, _: &_| ());
            let (cost, _) = Executers::with(&assignment, &[&target], size, others, lead)?;
            costs.push(cost);
            watch.passed("costs", share)?;
        }
    }
    Ok(costs)
}

/// The memory and the files that the operations use.
struct Bench<'a> {
    target: &'a Target,
    trap: Target,
    /// A page of the bench, mapped to read and execute.
    page: CodeAddr,
    memory: Result<OwnedFd, OsError>,
}

impl<'a> Bench<'a> {
    fn new(target: &'a Target) -> Result<Self, OsError> {
        let trap = Target::new(Shape::Move, Placement::InLine(0))?;
        trap.store(0, Width::Two, u64::from(u16::from_le_bytes([0xcc, 0xc3])));
        // SAFETY: (1) not `Place::Over`; (2) the page is new, and touched before it is made
        // read-only.
        let page = unsafe {
            let page = pages::map_private(Place::Anywhere, PAGE, Protection::ReadWrite)?;
            live::store(page, Width::One, 0xc3);
            pages::protect(page, PAGE, Protection::ReadExecute)?;
            page
        };
        Ok(Self { target, trap, page, memory: files::open_for_writing(c"/proc/self/mem") })
    }

    /// Times `operation` until `time` is over; with an executing thread, only while that was
    /// observed to execute.
    fn time(&self, operation: Operation, executers: Option<&Executers>, time: Duration) -> Cost {
        let cost = |median, p99, n, refused| Cost {
            name: operation.name(),
            executer: executers.is_some(),
            median,
            p99,
            n,
            refused,
        };
        if let Err(refusal) = self.prepare(operation).and_then(|()| self.act(operation, Face::Old))
        {
            return cost(f64::NAN, f64::NAN, 0, Some(refusal));
        }
        let over = AtomicBool::new(false);
        let (mut spans, mut idle) = (Vec::new(), Vec::new());
        execution::recoverable(&over, OnTrap::GoOn, || {
            let end = Instant::now() + time;
            let mut face = Face::New;
            while Instant::now() < end {
                if executers.is_none_or(|executers| executers.finishes_round(4_000)) {
                    idle.push(stopwatch::time(|| ()) as f64);
                    // It has just succeeded, and its preconditions stay.
                    spans.push(stopwatch::time(|| drop(self.act(operation, face))) as f64);
                    face = face.other();
                }
            }
        });
        match (Sample::new(spans), Sample::new(idle)) {
            (Some(spans), Some(idle)) => {
                let net = |ticks: f64| (ticks - idle.median()).max(0.0);
                cost(net(spans.median()), net(spans.percentile(99.0)), spans.len(), None)
            }
            _ => cost(f64::NAN, f64::NAN, 0, Some(crate::report::NOT_SEEN.to_owned())),
        }
    }

    fn prepare(&self, operation: Operation) -> Result<(), String> {
        match operation {
            Operation::Membarrier => {
                Barrier::Membarrier.prepare().map_err(|error| error.to_string())
            }
            Operation::Signal => Barrier::Signal.prepare().map_err(|error| error.to_string()),
            Operation::Store
            | Operation::StoreVisible
            | Operation::Mprotect
            | Operation::ProcMem
            | Operation::Trap => Ok(()),
        }
    }

    #[inline]
    fn act(&self, operation: Operation, face: Face) -> Result<(), String> {
        let text = |error: OsError| error.to_string();
        match operation {
            Operation::Store => self.target.store_whole(face),
            Operation::StoreVisible => {
                self.target.store_whole(face);
                live::fence();
            }
            Operation::Membarrier => membarrier::sync_core().map_err(text)?,
            Operation::Signal => Barrier::Signal.pass().map_err(|error| error.to_string())?,
            // SAFETY: (1) the bench owns the page, and no other code uses it.
            Operation::Mprotect => unsafe {
                pages::protect(self.page, PAGE, Protection::ReadWriteExecute).map_err(text)?;
                pages::protect(self.page, PAGE, Protection::ReadExecute).map_err(text)?;
            },
            Operation::ProcMem => {
                let memory = self.memory.as_ref().map_err(|&error| text(error))?;
                // SAFETY: (1) the process's own memory; (2) the bench owns the page, and no other
                // code uses it.
                unsafe { files::write_memory(memory, self.page, &[0xc3; 8]).map_err(text)? };
            }
            Operation::Trap => {
                let _ = self.trap.execute();
            }
        }
        Ok(())
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // SAFETY: (1) mapped in `new`, used by no other code.
        let _ = unsafe { pages::unmap(self.page, PAGE) };
    }
}
