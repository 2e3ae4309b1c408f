//! Tasks: functions that other threads post to the thread that owns a store.
//!
//! Only the thread that executes a program may touch its store. Another thread that needs the store
//! posts a *task*, a function that is given the store, and waits. The program's thread runs the
//! task at a time at which it executes no code of a monitor: when a host function returns to the
//! program, on a wake-up while it waits in the host, or at a *safepoint*. Safepoints are hooks that
//! are attached to the functions that the thread is in while a task waits, and detached afterwards.
//! A program without waiting tasks has no safepoints.
//!
//! # Safety
//!
//! This module exists to find the store of an instance whose machine code waits for a hook.
#![allow(unsafe_code)]

use super::backtrace;
use super::counts::Reading;
use super::instance::InstanceData;
use super::interruption::Interruption;
use super::module::{Module, ModuleInner};
use super::store::{StoreContextMut, StoreCore};
use super::variant::ObservedLayer;
use crate::compile::{Action, Call, Draft, Firing, Mode, Plan, Receiver};
use crate::error::Error;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wasmparser::Operator;

/// How long the poster waits between two attempts to make the program run the task.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

type Task = Box<dyn FnOnce(&mut StoreCore) + Send>;

/// Tasks of a store that wait.
#[derive(Default)]
pub(crate) struct TaskQueue {
    queue: Mutex<Queue>,
    /// Whether the queue is not empty: read without its lock.
    waiting: AtomicBool,
    /// Whether a task is being run. Only the store's thread touches it.
    busy: AtomicBool,
}

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: VecDeque<(u64, Task)>,
    is_closed: bool,
}

impl std::fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskQueue").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Why a task was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The program did not run the task in time.
    #[error("the program waits for something, or is in a loop that has no site: ask again")]
    Elsewhere,
    /// The program is over, or the task has panicked.
    #[error("the program is over")]
    Over,
}

impl TaskQueue {
    fn post(&self, task: Task) -> Result<u64, TaskError> {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(TaskError::Over);
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back((number, task));
        self.waiting.store(true, SeqCst);
        Ok(number)
    }

    /// Withdraws a task; returns whether it has not begun.
    fn withdraw(&self, number: u64) -> bool {
        let mut queue = self.queue.lock();
        let before = queue.waiting.len();
        queue.waiting.retain(|(other, _)| *other != number);
        self.waiting.store(!queue.waiting.is_empty(), SeqCst);
        queue.waiting.len() < before
    }

    fn take(&self) -> Option<Task> {
        let mut queue = self.queue.lock();
        let taken = queue.waiting.pop_front();
        self.waiting.store(!queue.waiting.is_empty(), SeqCst);
        taken.map(|(_, task)| task)
    }

    /// Whether a thread waits.
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting.load(Relaxed)
    }
}

impl StoreCore {
    /// Runs the waiting tasks, unless that is being done already. The calling thread owns the
    /// store, and executes no code of a monitor.
    pub(crate) fn run_tasks(&mut self) {
        let addresses = backtrace::waiting(self);
        self.run_tasks_at(WaitingFrames { addresses, safepoint: None });
    }

    /// The same, with the places at which frames of machine code wait.
    fn run_tasks_at(&mut self, waiting: WaitingFrames) {
        let tasks = Arc::clone(self.tasks());
        if tasks.busy.swap(true, Relaxed) {
            return;
        }
        let outer = WAITING.replace(Some(waiting));
        let (interlude, limits) = (self.interruption().begin_interlude(), *self.limits());
        while let Some(task) = tasks.take() {
            // A thread that waits for a task that panics gets an error.
            let _ = catch_unwind(AssertUnwindSafe(|| task(self)));
        }
        self.set_limits(limits);
        self.interruption().end_interlude(interlude);
        WAITING.set(outer);
        tasks.busy.store(false, Relaxed);
    }

    /// Refuses further tasks, and drops those that wait.
    pub(crate) fn close_tasks(&self) {
        let mut queue = self.tasks().queue.lock();
        queue.is_closed = true;
        queue.waiting.clear();
    }
}

/// Where frames of machine code wait for the task that their thread runs.
#[derive(Clone, Debug)]
pub(super) struct WaitingFrames {
    /// Addresses inside of the instructions that they are at.
    pub(super) addresses: Vec<usize>,
    /// The safepoint that the innermost frame has reached.
    pub(super) safepoint: Option<SafepointPlace>,
}

/// Where a safepoint is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SafepointPlace {
    /// The address of its module.
    module: usize,
    /// The function's place among the defined ones, and the instruction.
    pub(super) defined: usize,
    pub(super) at: u32,
    /// Whether the function's code counts.
    counts: bool,
}

impl SafepointPlace {
    /// Whether it is in code of this module that counts.
    pub(super) fn counts_in(&self, module: &ModuleInner) -> bool {
        self.counts && self.module == std::ptr::from_ref(module) as usize
    }
}

thread_local! {
    /// Where this thread's frames wait, while it runs a task.
    static WAITING: RefCell<Option<WaitingFrames>> = const { RefCell::new(None) };
}

/// Where this thread's frames wait, if it runs a task.
pub(super) fn waiting_frames() -> Option<WaitingFrames> {
    WAITING.with_borrow(Clone::clone)
}

/// Has the thread that executes a module's instances read the module's counters.
pub(crate) struct CounterReader {
    tasks: Arc<TaskQueue>,
    interruption: Arc<Interruption>,
    /// Wakes the program; returns whether it may be stopped wherever it is.
    wake: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for CounterReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CounterReader").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

/// How long a reader of counters waits for the program's thread.
const READER_PATIENCE: Duration = Duration::from_millis(200);

impl CounterReader {
    pub(super) fn new(
        tasks: &Arc<TaskQueue>,
        interruption: &Arc<Interruption>,
        wake: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let (tasks, interruption) = (Arc::clone(tasks), Arc::clone(interruption));
        Self { tasks, interruption, wake: Box::new(wake) }
    }

    /// Has the thread read the counters; none if it executes nothing, or did not reach a safepoint.
    pub(super) fn read(&self, module: &Module) -> Option<Option<Reading>> {
        if !self.interruption.is_entered() {
            return None;
        }
        let own = module.clone();
        let may_stop = (self.wake)();
        self.tasks
            .run_in_store(
                may_stop.then_some(module),
                || {
                    (self.wake)();
                },
                READER_PATIENCE,
                move |_| own.reading_at(&[]),
            )
            .ok()
    }
}

/// Posts tasks to the thread that owns a store. Copies are cheap.
pub struct TaskHandle<T> {
    tasks: Arc<TaskQueue>,
    _data: PhantomData<fn(T)>,
}

impl<T> Clone for TaskHandle<T> {
    fn clone(&self) -> Self {
        Self::new(&self.tasks)
    }
}

impl<T> std::fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tasks.fmt(f)
    }
}

impl<T: 'static> TaskHandle<T> {
    /// Has the store's thread run a task, and returns its result. If the program is `module`,
    /// safepoints are attached to the functions that it is in; otherwise the task waits until the
    /// program calls the host. `wake` is called now and then: it wakes a program that waits in the
    /// host.
    ///
    /// # Errors
    /// If the program does not run it in time, or is over.
    pub fn run_in_store<R: Send + 'static>(
        &self,
        module: Option<&Module>,
        wake: impl Fn(),
        patience: Duration,
        task: impl FnOnce(StoreContextMut<'_, T>) -> R + Send + 'static,
    ) -> Result<R, TaskError> {
        self.tasks.run_in_store(module, wake, patience, |core| {
            // SAFETY: (1) the handle was made by a store with data of this type.
            task(unsafe { StoreContextMut::from_core(core) })
        })
    }
}

impl TaskQueue {
    /// See [`TaskHandle::run_in_store`].
    fn run_in_store<R: Send + 'static>(
        &self,
        module: Option<&Module>,
        wake: impl Fn(),
        patience: Duration,
        task: impl FnOnce(&mut StoreCore) -> R + Send + 'static,
    ) -> Result<R, TaskError> {
        let (answer, hear) = mpsc::channel();
        let number = self.post(Box::new(move |core| drop(answer.send(task(core)))))?;
        let mut safepoints = Safepoints { module, within: BTreeSet::new(), plan: None };
        let deadline = Instant::now() + patience;
        loop {
            match hear.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(TaskError::Over),
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {
                    wake();
                    safepoints.extend();
                }
                // The thread has begun the task, and will finish it.
                Err(mpsc::RecvTimeoutError::Timeout) => match self.withdraw(number) {
                    true => return Err(TaskError::Elsewhere),
                    false => return hear.recv().map_err(|_| TaskError::Over),
                },
            }
        }
    }
}

impl<T> TaskHandle<T> {
    pub(super) fn new(tasks: &Arc<TaskQueue>) -> Self {
        Self { tasks: Arc::clone(tasks), _data: PhantomData }
    }
}

/// Safepoints in the functions that a program was seen in; detached when no thread waits any more.
struct Safepoints<'a> {
    module: Option<&'a Module>,
    within: BTreeSet<usize>,
    /// The plan that is observed.
    plan: Option<ObservedLayer>,
}

impl Safepoints<'_> {
    /// Attaches safepoints to more functions, if threads are in others. If a function cannot have
    /// any, the poster waits until the thread leaves it.
    fn extend(&mut self) {
        let Some(module) = self.module else { return };
        let before = self.within.len();
        self.within.extend(module.running());
        if self.within.len() == before {
            return;
        }
        let Ok(plan) = module.inner.safepoint_layer(&self.within) else { return };
        let plan = ObservedLayer::Plan(plan);
        // The new plan includes the safepoints of the one before.
        if module.observe_instead(&[plan], self.plan.as_slice()).is_ok() {
            self.plan = Some(plan);
        }
    }
}

impl Drop for Safepoints<'_> {
    fn drop(&mut self) {
        if let Some(module) = self.module {
            let _ = module.observe_no_more(self.plan.as_slice());
        }
    }
}

/// The numbers of a module's plans of safepoints, by functions.
#[derive(Debug, Default)]
pub(crate) struct SafepointLayers(Mutex<BTreeMap<BTreeSet<usize>, usize>>);

/// How many such plans are kept for different sets of functions. The next one is for all functions.
const PLANS: usize = 32;

impl Module {
    /// The functions that threads are in at the moment, as far as known, by their places among the
    /// defined ones.
    pub fn running(&self) -> Vec<usize> {
        self.inner.running()
    }
}

impl ModuleInner {
    /// The plan of safepoints in some functions, or in more.
    fn safepoint_layer(self: &Arc<Self>, functions: &BTreeSet<usize>) -> Result<usize, Error> {
        let mut known = self.safepoints.0.lock();
        let mut functions = functions.clone();
        if known.len() >= PLANS && !known.contains_key(&functions) {
            functions = (0..self.info.bodies.len()).collect();
        }
        if let Some(known) = known.get(&functions) {
            return Ok(*known);
        }
        let plan = Module { inner: Arc::clone(self) }.add_plan(self.safepoint_plan(&functions)?)?;
        known.insert(functions, plan);
        Ok(plan)
    }

    /// A safepoint at the beginning of each function, and at each iteration of each loop. A
    /// function that begins with a loop has none besides the loop's: before the loop, no block has
    /// been entered that the place of a frame could be in.
    fn safepoint_plan(&self, functions: &BTreeSet<usize>) -> Result<Plan, Error> {
        let mut draft = Draft::default();
        let safepoint = |defined: usize, at: u32| {
            Action::Call(Call {
                receiver: Arc::new(Safepoint),
                number: (defined as u64) << 32 | u64::from(at),
                captures: Vec::new(),
                writes: false,
            })
        };
        for &defined in functions {
            let (function, body) =
                (self.info.imported.functions + defined as u32, &self.info.bodies[defined]);
            let bytes = &self.bytes[body.start as usize..body.end as usize];
            let mut reader = wasmparser::BinaryReader::new(bytes, u64::from(body.start));
            reader.set_features(wasmparser::WasmFeatures::all());
            let mut operators =
                wasmparser::FunctionBody::new(reader).get_operators_reader().map_err(invalid)?;
            let mut is_entry = true;
            while !operators.eof() {
                let (operator, at) = operators.read_with_offset().map_err(invalid)?;
                let (is_loop, at) = (matches!(operator, Operator::Loop { .. }), at as u32);
                if is_loop {
                    draft.hook(function, at, Mode::Before, safepoint(defined, at));
                } else if is_entry {
                    draft.hook_function(function, Mode::Entry, safepoint(defined, at));
                }
                is_entry = false;
            }
        }
        Ok(draft.finish())
    }
}

fn invalid(error: wasmparser::BinaryReaderError) -> Error {
    crate::error::CompileError::from(error).into()
}

/// The receiver of safepoints: runs the waiting tasks.
#[derive(Debug)]
struct Safepoint;

impl Receiver for Safepoint {
    fn fire(&self, firing: &mut Firing<'_>) {
        let (frame, defined, at) = (firing.frame, firing.number >> 32, firing.number as u32);
        // SAFETY: (1) as in `with_store_of`; (2) a module lives as long as its instances.
        let module: &ModuleInner = unsafe {
            &(**((firing.vmctx + crate::vm::at::INSTANCE) as *const *const InstanceData)).module
        };
        with_store_of(firing.vmctx, |mut store| {
            let core = store.core();
            if !core.tasks().are_waiting() {
                return;
            }
            let mut addresses = backtrace::waiting(core);
            // SAFETY: (1) the frame pointer is that of the machine code that waits for the hook.
            unsafe { backtrace::walk(core, frame, |pc| (addresses.push(pc - 1), true).1) };
            let safepoint = Some(SafepointPlace {
                module: std::ptr::from_ref(module) as usize,
                defined: defined as usize,
                at,
                counts: module.is_counting(),
            });
            core.run_tasks_at(WaitingFrames { addresses, safepoint });
        });
    }
}

/// Lends the store of an instance whose machine code waits for a hook. The type of the data is not
/// the real one: only code that gets the real type from the store accesses the data.
pub fn with_store_of<R>(vmctx: usize, what: impl FnOnce(StoreContextMut<'_, ()>) -> R) -> R {
    // SAFETY: (1) the word at that place of a vmctx is the instance that owns it; (2) its machine
    // code waits for us, so that no other code uses its store.
    let store = unsafe {
        let instance = &**((vmctx + crate::vm::at::INSTANCE) as *const *const InstanceData);
        &mut *instance.store
    };
    // Hooks do not record where they were called from: code that is executed meanwhile has no
    // caller.
    let cell: *const crate::vm::StoreCell = store.cell();
    // SAFETY: (1) a store keeps its cell for as long as it lives.
    let cell = unsafe { &*cell };
    let before = (cell.exit_frame.swap(0, Relaxed), cell.exit_pc.swap(0, Relaxed));
    // SAFETY: (1) code that is given this context has no use for data of type `()`, of which there
    // is nothing to read; host functions make their own from the store.
    let result = what(unsafe { StoreContextMut::from_core(store) });
    cell.exit_frame.store(before.0, Relaxed);
    cell.exit_pc.store(before.1, Relaxed);
    result
}
