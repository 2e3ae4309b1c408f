//! The runtime functions that machine code calls, see [`Builtin`]. A failure is a result; the
//! calling code traps itself.
//!
//! # Safety
//!
//! This module exists to be called by machine code, with the vmctx of an instance and indices that
//! were validated.
#![allow(unsafe_code)]

use super::bulk;
use super::contexts;
use super::heap;
use super::instance::InstanceData;
use super::interruption::Interruption;
use super::store::StoreCore;
use super::wait;
use crate::compile::Call;
use crate::module::Space;
use crate::trap::Trap;
use crate::vm::{self, Builtin, Bulk, GROWTH_INTERRUPTED};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The instance of a vmctx, for `throw` and allocation.
fn instance<'a>(vmctx: *mut u8) -> &'a mut InstanceData {
    // SAFETY: (1) machine code passes its own vmctx; (2) the word at that place is the instance
    // that owns it; (3) machine code waits for us, so that no other code uses it.
    unsafe { &mut **vmctx.add(vm::at::INSTANCE).cast::<*mut InstanceData>() }
}

fn store<'a>(vmctx: *mut u8) -> &'a mut StoreCore {
    // SAFETY: (1) the store outlives its instances; (2) as above.
    unsafe { &mut *instance(vmctx).store }
}

/// Whether the program is to stop; consumes the request.
fn is_stopped(vmctx: *mut u8) -> bool {
    let interruption: &Interruption = store(vmctx).interruption();
    interruption.is_requested() && interruption.take()
}

extern "C" fn memory_grow(vmctx: *mut u8, memory: u32, pages: u64) -> i64 {
    let (id, store) = (instance(vmctx).memories[memory as usize], store(vmctx));
    let limit = store.limits().memory;
    let demand = store.memories[id].demand(pages);
    let grown = if store.allows(demand) { store.memories[id].grow(pages, limit) } else { None };
    if is_stopped(vmctx) {
        return GROWTH_INTERRUPTED;
    }
    let Some(before) = grown else {
        store.cannot_grow(instance(vmctx), (Space::Memory, memory), demand);
        return -1;
    };
    if !store.growth.is_empty() && !instance(vmctx).looks_on.get() {
        let told = [i64::from(memory), before as i64, before.wrapping_add(pages) as i64];
        tell_growth(vmctx, told);
    }
    before as i64
}

/// Notifies receivers that a memory has grown.
#[cold]
fn tell_growth(vmctx: *mut u8, told: [i64; 3]) {
    for who in store(vmctx).growth.clone() {
        super::tasks::with_store_of(vmctx as usize, |store| who.grown(store, told));
    }
}

/// The range of a memory, if it is inside.
fn span(vmctx: *mut u8, memory: u32, at: u64, count: u64) -> Option<*mut u8> {
    let (base, len) = store(vmctx).memories[instance(vmctx).memories[memory as usize]].extent();
    let end = at.checked_add(count)?;
    // SAFETY: (1) compared with the length.
    (end <= len as u64).then(|| unsafe { base.add(at as usize) })
}

extern "C" fn fill(vmctx: *mut u8, to: *mut u8, byte: u32, count: u64) -> Bulk {
    // SAFETY: (1) machine code has compared the range with the memory's length.
    unsafe { bulk::fill(to, byte as u8, count as usize, || is_stopped(vmctx)) }
}

extern "C" fn copy(vmctx: *mut u8, to: *mut u8, from: *const u8, count: u64) -> Bulk {
    // SAFETY: (1) machine code has compared both ranges with their memories' lengths; they may
    // overlap.
    unsafe { bulk::copy(to, from, count as usize, || is_stopped(vmctx)) }
}

extern "C" fn memory_init(
    vmctx: *mut u8,
    memory: u32,
    segment: u32,
    at: u64,
    source: u64,
    count: u64,
) -> Bulk {
    let instance = instance(vmctx);
    let bytes = instance.data(segment);
    let Some(to) = span(vmctx, memory, at, count) else { return Bulk::Outside };
    let Some(end) = source.checked_add(count).filter(|end| *end <= bytes.len() as u64) else {
        return Bulk::Outside;
    };
    let from = &bytes[source as usize..end as usize];
    // SAFETY: (1) the range is inside of the memory, which no slice of ours overlaps.
    unsafe { bulk::copy(to, from.as_ptr(), from.len(), || is_stopped(vmctx)) }
}

extern "C" fn data_drop(vmctx: *mut u8, segment: u32) {
    instance(vmctx).dropped_data[segment as usize] = true;
}

extern "C" fn table_grow(vmctx: *mut u8, table: u32, count: u64, element: usize) -> i64 {
    let (id, store) = (instance(vmctx).tables[table as usize], store(vmctx));
    let limit = store.limits().table;
    let stopped = Cell::new(false);
    let look = || {
        stopped.set(stopped.get() || is_stopped(vmctx));
        stopped.get()
    };
    let demand = store.tables[id].demand(count);
    let grown = if store.allows(demand) {
        store.tables[id].grow(count, element, limit, look)
    } else {
        None
    };
    if look() {
        return GROWTH_INTERRUPTED;
    }
    let Some(before) = grown else {
        store.cannot_grow(instance(vmctx), (Space::Table, table), demand);
        return -1;
    };
    before as i64
}

extern "C" fn table_fill(vmctx: *mut u8, table: u32, at: u64, element: usize, count: u64) -> Bulk {
    let id = instance(vmctx).tables[table as usize];
    let Some(range) = store(vmctx).tables[id].range(at, count) else { return Bulk::Outside };
    let (to, count) = (range.as_mut_ptr(), range.len());
    // SAFETY: (1) the range is inside of the table.
    unsafe { bulk::fill(to, element, count, || is_stopped(vmctx)) }
}

extern "C" fn table_copy(
    vmctx: *mut u8,
    to: u32,
    at: u64,
    from: u32,
    source: u64,
    count: u64,
) -> Bulk {
    let instance = instance(vmctx);
    let (to, from) = (instance.tables[to as usize], instance.tables[from as usize]);
    let tables = &mut store(vmctx).tables;
    let Some(from) = tables[from].range(source, count).map(|range| range.as_ptr()) else {
        return Bulk::Outside;
    };
    let Some(to) = tables[to].range(at, count).map(<[usize]>::as_mut_ptr) else {
        return Bulk::Outside;
    };
    // SAFETY: (1) both ranges are inside of their tables; they may overlap.
    unsafe { bulk::copy(to, from, count as usize, || is_stopped(vmctx)) }
}

extern "C" fn table_init(
    vmctx: *mut u8,
    table: u32,
    segment: u32,
    at: u64,
    source: u64,
    count: u64,
) -> Bulk {
    let instance = instance(vmctx);
    let Some(items) = instance.segment_items(table, segment, at, source, count) else {
        return Bulk::Outside;
    };
    bulk::in_pieces::<usize>(
        count as usize,
        false,
        || is_stopped(vmctx),
        |done, len| {
            let from = items.start + done as u64;
            instance.set_elements(table, segment, at + done as u64, from..from + len as u64);
        },
    )
}

extern "C" fn element_drop(vmctx: *mut u8, segment: u32) {
    instance(vmctx).dropped_elements[segment as usize] = true;
}

/// The address of an atomic operation of the runtime, and whether threads share the memory; or why
/// it traps.
fn atomic(vmctx: *mut u8, memory: u32, address: u64, size: u64) -> Result<(*mut u8, bool), Trap> {
    if !address.is_multiple_of(size) {
        return Err(Trap::UnalignedAtomic);
    }
    let shared =
        store(vmctx).memories[instance(vmctx).memories[memory as usize]].shared().is_some();
    span(vmctx, memory, address, size).map(|at| (at, shared)).ok_or(Trap::MemoryOutOfBounds)
}

/// A trap in the form that machine code receives.
fn refusal(trap: Trap) -> i32 {
    match trap {
        Trap::MemoryOutOfBounds => -1,
        Trap::UnalignedAtomic => -2,
        Trap::SharedMemoryExpected => -3,
        _ => -4,
    }
}

/// Waits for a word of `size` bytes, for as long as `unchanged` returns true for it.
fn wait(
    vmctx: *mut u8,
    memory: u32,
    address: u64,
    size: u64,
    nanoseconds: i64,
    unchanged: impl Fn(*mut u8) -> bool,
) -> i32 {
    let waited = atomic(vmctx, memory, address, size).and_then(|(at, shared)| match shared {
        true => wait::wait(at as usize, || unchanged(at), nanoseconds, store(vmctx).interruption()),
        false => Err(Trap::SharedMemoryExpected),
    });
    // A program that only waits is interrupted here, too.
    let waited =
        waited.and_then(|told| if is_stopped(vmctx) { Err(Trap::Interrupted) } else { Ok(told) });
    waited.unwrap_or_else(refusal)
}

extern "C" fn wait32(
    vmctx: *mut u8,
    memory: u32,
    address: u64,
    expected: u32,
    nanoseconds: i64,
) -> i32 {
    // SAFETY: (1) `wait` passes a place that is aligned and inside of a memory that is not unmapped
    // while it is shared with us.
    let found = |at: *mut u8| unsafe { &*at.cast::<AtomicU32>() }.load(SeqCst);
    wait(vmctx, memory, address, 4, nanoseconds, |at| found(at) == expected)
}

extern "C" fn wait64(
    vmctx: *mut u8,
    memory: u32,
    address: u64,
    expected: u64,
    nanoseconds: i64,
) -> i32 {
    // SAFETY: as above.
    let found = |at: *mut u8| unsafe { &*at.cast::<AtomicU64>() }.load(SeqCst);
    wait(vmctx, memory, address, 8, nanoseconds, |at| found(at) == expected)
}

extern "C" fn notify(vmctx: *mut u8, memory: u32, address: u64, count: u32) -> i32 {
    if is_stopped(vmctx) {
        return refusal(Trap::Interrupted);
    }
    match atomic(vmctx, memory, address, 4) {
        Ok((at, true)) => wait::notify(at as usize, count),
        // No thread can wait for a memory that is not shared.
        Ok((_, false)) => 0,
        Err(trap) => refusal(trap),
    }
}

extern "C" fn exception_new(vmctx: *mut u8, tag: usize, values: u32) -> usize {
    let store = store(vmctx);
    if store.heap.is_full() {
        heap::collect(store);
    }
    match store.heap.new_exception(tag as *const vm::Tag, values) {
        Some(address) => address,
        // SAFETY: (1) this function owns nothing.
        None => unsafe {
            super::activation::fail(super::activation::Failure::Error(Trap::OutOfMemory.into()))
        },
    }
}

extern "C" fn call_target(vmctx: *mut u8, place: u32, function: u64) {
    let instance = instance(vmctx);
    instance.module.counted.retarget(instance, place, function);
}

extern "C" fn resolve(vmctx: *mut u8, table: u32, place: u64) -> i32 {
    instance(vmctx).resolve(table, place).map_or(-1, u32::cast_signed)
}

extern "C" fn hook(vmctx: *mut u8, call: *const Call, frame: usize, values: *mut [u64; 2]) -> u32 {
    // SAFETY: (1) machine code is kept together with the plan that it was made from; (2) it has
    // room for what the hook captures.
    unsafe { super::hooks::fire(&*call, vmctx as usize, frame, values) };
    u32::from(is_stopped(vmctx))
}

extern "C" fn throw(vmctx: *mut u8, exception: usize, frame: usize, pc: usize) {
    // SAFETY: (1) the trampoline passes the frame that throws; (2) this function owns nothing.
    unsafe { super::throw::throw(store(vmctx), exception, frame, pc, true) }
}

/// The table that every vmctx leads to, in the order of [`Builtin::ALL`].
pub(crate) static TABLE: Table = Table(table());

/// Addresses of functions.
#[repr(transparent)]
pub(crate) struct Table([*const u8; Builtin::ALL.len()]);

// SAFETY: (1) addresses of functions, which never change.
unsafe impl Sync for Table {}

const fn table() -> [*const u8; Builtin::ALL.len()] {
    let mut table = [std::ptr::null(); Builtin::ALL.len()];
    let mut i = 0;
    while i < table.len() {
        table[i] = match Builtin::ALL[i] {
            Builtin::MemoryGrow => memory_grow as *const u8,
            Builtin::Fill => fill as *const u8,
            Builtin::Copy => copy as *const u8,
            Builtin::MemoryInit => memory_init as *const u8,
            Builtin::DataDrop => data_drop as *const u8,
            Builtin::TableGrow => table_grow as *const u8,
            Builtin::TableFill => table_fill as *const u8,
            Builtin::TableCopy => table_copy as *const u8,
            Builtin::TableInit => table_init as *const u8,
            Builtin::ElementDrop => element_drop as *const u8,
            Builtin::Wait32 => wait32 as *const u8,
            Builtin::Wait64 => wait64 as *const u8,
            Builtin::Notify => notify as *const u8,
            Builtin::ExceptionNew => exception_new as *const u8,
            Builtin::CallTarget => call_target as *const u8,
            Builtin::Resolve => resolve as *const u8,
            Builtin::Hook => hook as *const u8,
            Builtin::Charge => contexts::fastinst_wasm_charge as *const u8,
            Builtin::EnterContext => contexts::fastinst_wasm_enter_context as *const u8,
            Builtin::LeaveContext => contexts::fastinst_wasm_leave_context as *const u8,
            Builtin::Throw => throw as *const u8,
        };
        i += 1;
    }
    table
}
