//! Leading: how one site gets its trampoline, and how sites are redirected there, all with one
//! barrier.
//!
//! # Safety
//!
//! This module changes the targets of calls of the program.
#![allow(unsafe_code)]

use super::super::functions::{self, Id};
use super::super::sharing;
use super::super::sites::{self, InstalledSite, Site, UNKNOWN};
use super::super::stub::Stub;
use super::super::threads::room;
use super::NO_RECORD;
use super::inlined::InlinedEnd;
use super::trampoline::{Beginning, Trampoline};
use crate::discovery::FoundSite;
use crate::probe::Kind;
use callpatch::{CallSite, Islands, Retarget};
use wordpatch::Policy;
use wordpatch::os::signals::Blocked;

/// Makes the trampoline of a site, and puts it into the table: in a new place, or in the one that
/// it had. Returns its number. With an `end`, functions end there that were inlined.
pub(super) fn install_site(
    islands: &mut Islands,
    call: CallSite,
    (found, end): (&FoundSite, Option<InlinedEnd>),
    partners: &[Id],
    entry: (u32, bool),
    former: Option<u32>,
) -> Result<u32, String> {
    let former = match former {
        Some(UNKNOWN) => return Ok(UNKNOWN),
        Some(number) => sites::get(number).map(|site| (number, site)),
        None => None,
    };
    let number = former.map(|(number, _)| number).or_else(sites::next);
    let Some(number) = number else {
        return Err("too many probes for the table".to_owned());
    };
    let text = |error: callpatch::IslandError| error.to_string();
    let discovered = || {
        found.function.or(found.within).and_then(|function| functions::add(function.get() as u64))
    };
    let function = former.map_or_else(discovered, |(_, site)| site.owner());
    // A thread that passes before its function has a mode is counted.
    let is_enter = found.kind == Kind::Enter;
    let shared = match former.and_then(|(_, site)| site.shared_cell()) {
        Some(cell) => Some(sharing::record_partners_again(cell, partners)),
        None if partners.is_empty() => None,
        None => sharing::record_partners(partners),
    };
    let stub = match shared {
        Some(_) => Stub::SharedExit,
        None if is_enter => Stub::Count,
        None => Stub::TimeExit,
    };
    // No record, until its first event has shown which function it belongs to.
    let slots =
        islands.slot_pair(stub.address(false), shared.unwrap_or(NO_RECORD).into()).map_err(text)?;
    let (module, transient) = entry;
    // A thread without a record takes the slow path with each call, and times none.
    let recorded = function.filter(|&id| is_enter && room::have_records(id));
    let counted = recorded.filter(|_| !transient);
    let beginning =
        counted.map(Beginning::Counter).or(end.map(Beginning::End)).unwrap_or(Beginning::Plain);
    let make = |at| Trampoline::at(at, &beginning, number, slots);
    let trampoline =
        islands.stub_of_call(&call, Trampoline::len(&beginning), make).map_err(text)?;
    let gate = counted.and_then(|_| {
        // SAFETY: (1) islands of modules that are counted in line are never dropped; (2) its first
        // instruction leads behind its counter, and at a hook flags are dead.
        unsafe { islands.gate(trampoline) }
    });
    let home = call.destination().address();
    let installed =
        InstalledSite { call, gate, slots, trampoline, home, is_pun: false, is_point: false };
    match former {
        Some((_, site)) => site.reinstall(installed, shared),
        None => sites::push(Site::new(
            installed,
            found.kind,
            module,
            function.map_or(UNKNOWN, |id| id.0),
            shared,
        )),
    }
    Ok(number)
}

/// Switches all sites of these numbers off, redirects them to their trampolines with one barrier,
/// and switches them on.
pub(super) fn lead_all(
    numbers: impl Iterator<Item = u32>,
    islands: &mut Islands,
    policy: &Policy,
) -> Result<(), String> {
    let mut batch = Retarget::new(*policy);
    for site in numbers.filter_map(sites::get) {
        let to = if site.call().form().is_through_memory() {
            islands.slot(site.trampoline()).map_err(|error| error.to_string())?.address()
        } else {
            site.trampoline()
        };
        // SAFETY: (1) trampolines lead to stubs, which are hooks; (2) the module is loaded; (3) no
        // list holds the site yet.
        unsafe {
            batch.push_shared(site.call(), to).map_err(|error| error.to_string())?;
        }
    }
    commit_batch(batch)
}

/// Redirects the sites of a batch. While the process has one thread, no displacement needs a trap:
/// the profiler of a program that was compiled with `-pg` may already have its timer tick, with a
/// handler that blocks the trap's signal.
pub(in crate::runtime) fn commit_batch(batch: Retarget<'_>) -> Result<(), String> {
    // Before the check for other threads: a handler could make one.
    let blocked = Blocked::all();
    let result = if is_alone() {
        // SAFETY: (1) this thread is the only one; (2) it blocks all signals.
        unsafe { batch.commit_alone() }
    } else {
        drop(blocked);
        batch.commit()
    };
    result.map(drop).map_err(|error| error.to_string())
}

/// Whether this thread is the only one of the process.
pub(in crate::runtime) fn is_alone() -> bool {
    let mut threads = 0;
    wordpatch::os::threads::each(|_| threads += 1).is_ok() && threads == 1
}
