//! Installing the sites of one function, or of one point: trampolines first, then the sites are
//! adopted, off.

use super::Former;
use super::trampoline::{entry_code, exit_code, filled, len_of};
use crate::discovery::unmodified::{
    ByteReservations, Choice, Chooser, Entry, Exit, Leap, Line, Maker, Moved, Prepared, Pun,
    Reader, Refusal, Reservation, Room, Turn, Untimed, Way,
};
use crate::probe::Kind;
use crate::runtime::arguments;
use crate::runtime::arguments::Facts;
use crate::runtime::functions::{self, Id};
use crate::runtime::install::commit_batch;
use crate::runtime::sites::{self, InstalledSite, Site};
use crate::runtime::stub::Stub;
use crate::runtime::threads::room;
use callpatch::x86::{self, Form, keeping as code};
use callpatch::{CallSite, Islands, Landings, Retarget, Role, SlotPair, Survey};
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::os::maps;
use wordpatch::{CodeAddr, Granule, Policy};

/// Sites that are installed together, before one barrier; and what that needs.
pub(super) struct InstallBatch<'p> {
    pub(super) survey: &'p mut Survey,
    pub(super) landings: &'p mut Landings,
    /// Sites whose displacement is to be written, and where they lead.
    pub(super) led: &'p mut Vec<(u32, CodeAddr)>,
    /// All that were made.
    pub(super) made: &'p mut Vec<u32>,
    /// Whether functions that no compiler has prepared get probes, too.
    pub(super) takes_any: bool,
    /// What one store may replace.
    pub(super) granule: Granule,
}

/// The function that got probes, what had prepared it, and why it is only counted, if it is; or
/// why it was refused.
pub(super) type Outcome = Result<(Id, Option<Maker>, Option<Untimed>, Option<Facts>), Refusal>;

/// Installs the sites of one function, or one point, of a module.
pub(super) struct SiteInstaller<'p, 'q, 'f> {
    pub(super) islands: &'p mut Islands,
    pub(super) reserved: &'p mut ByteReservations,
    pub(super) prepared: &'p Prepared,
    pub(super) reload: &'p mut ReloadState<'f>,
    pub(super) batch: &'p mut InstallBatch<'q>,
}

/// What is kept of the module, so that it can be unloaded and loaded again.
pub(super) struct ReloadState<'f> {
    pub(super) module_number: u32,
    pub(super) is_late: bool,
    pub(super) landed: &'f mut Vec<CodeAddr>,
    pub(super) former: &'f mut Former,
}

impl SiteInstaller<'_, '_, '_> {
    pub(super) fn install(&mut self, start: CodeAddr, reader: Reader<'_, '_>) -> Outcome {
        let body = reader.body(start)?;
        for part in &body.parts {
            part.iter().try_for_each(|line| require_unchanged(line, self.reserved))?;
        }
        let price = |at| self.batch.landings.price(at).ok();
        let InstallBatch { takes_any, granule, .. } = *self.batch;
        let (reserved, prepared) = (&*self.reserved, self.prepared);
        let choice =
            Chooser { reader, reserved, prepared, takes_any, price, granule }.choose(&body)?;
        let id = functions::add(start.get() as u64).ok_or(Refusal::NoEntry)?;
        self.lead(id, &choice)
    }

    /// Installs the exits first: without them the entry is only counted, and without an entry they
    /// belong to no function.
    fn lead(&mut self, id: Id, choice: &Choice<'_>) -> Outcome {
        let exits: Vec<Option<u32>> = choice.exits.iter().map(|exit| self.exit(id, exit)).collect();
        let missing = exits.iter().any(Option::is_none).then_some(Untimed::NoExit);
        let untimed = choice.untimed.or(missing);
        let tails = choice.exits.iter().zip(&exits).filter(|(exit, _)| exit.is_tail());
        let tails: Vec<u32> = tails.filter_map(|(_, number)| *number).collect();
        let entry = self.entry(id, &choice.entry);
        if entry.is_none() || untimed.is_some() {
            for site in exits.into_iter().flatten().filter_map(sites::get) {
                site.function.store(sites::UNKNOWN, Relaxed);
            }
        }
        let (number, whole) = entry.ok_or(Refusal::NoLanding)?;
        let facts = arguments::are_asked().then(|| {
            let Entry { way, depth, .. } = &choice.entry;
            let leaves_by_jump =
                whole.is_some() && !way.moved().last().is_some_and(Line::is_return);
            Facts {
                depth: depth + if way.is_call() { 8 } else { 0 },
                keeps_arguments: choice.entry.keeps_arguments(),
                is_timed: untimed.is_none(),
                whole,
                tails: tails.into_iter().chain(leaves_by_jump.then_some(number)).collect(),
            }
        });
        Ok((id, choice.entry.way.maker(), untimed, facts))
    }

    /// Returns its number, and where its exit leads, if its trampoline holds that, too.
    pub(super) fn entry(&mut self, id: Id, entry: &Entry<'_>) -> Option<(u32, Option<SlotPair>)> {
        let number = self.number(id, Kind::Enter)?;
        let slots = self.slots(id, Stub::Count)?;
        // A function that ends before it could return to its code has both ends in one trampoline.
        let exit = if entry.is_whole() { Some(self.slots(id, Stub::TimeExit)?) } else { None };
        // A thread without a record takes the slow path with each call, and times none.
        let has_record = room::have_records(id);
        // Where a compiler calls its profiler, too, flags are dead and the red zone is not in use.
        // A gate lives for ever, and so do islands that have one.
        let counts = exit.is_none()
            && !self.reload.is_late
            && (entry.is_first || entry.way.is_call())
            && has_record;
        let end = match (&entry.way, exit) {
            (Way::Call(..), _) => 1,
            (Way::Turn(_), _) => code::HOOK + Form::Jump.len(),
            (_, Some(_)) => code::HOOK,
            (_, None) => Form::Jump.len(),
        };
        let len = if counts { Form::Jump.len() + code::COUNTER } else { 0 }
            + code::HOOK
            + entry.way.moved().iter().map(len_of).sum::<usize>()
            + end;
        let mut whole = true;
        let stub = self.islands.stub(len, |at| {
            let code = entry_code(at, entry, number, counts.then_some(id), slots, exit);
            whole = code.is_some();
            filled(code, len)
        });
        let trampoline = stub.ok().filter(|_| whole)?.address();
        let gate = if counts {
            // SAFETY: (1) islands of modules that are there at the start are never dropped; (2) its
            // first instruction leads behind its counter, and at a function's entry flags are dead.
            #[allow(unsafe_code)]
            unsafe {
                self.islands.gate(trampoline)
            }
        } else {
            None
        };
        let call = match &entry.way {
            Way::Pun(pun) => self.pun(pun, trampoline)?,
            Way::Room(room) => self.room(*room, number, trampoline)?,
            Way::Call(at, form) => self.profilers_call(*at, *form, number, trampoline)?,
            Way::Turn(turn) | Way::Own(turn) => self.turn(turn, trampoline)?,
        };
        let installed =
            InstalledSite { gate, ..InstalledSite::in_unmodified(call, slots, trampoline) };
        Some((self.push(id, installed, Kind::Enter, entry.way.reservation(), number), exit))
    }

    fn exit(&mut self, id: Id, exit: &Exit<'_>) -> Option<u32> {
        let number = self.number(id, Kind::Exit)?;
        let slots = self.slots(id, Stub::TimeExit)?;
        let len = code::HOOK
            + match exit {
                Exit::Padded(_) | Exit::Fall(_) => 1,
                Exit::Room(_) | Exit::Turn(_) => Form::Jump.len(),
                Exit::Pun(pun) => pun.moved.iter().map(len_of).sum(),
            };
        let mut whole = true;
        let stub = self.islands.stub(len, |at| {
            let code = exit_code(at, exit, number, slots);
            whole = code.is_some();
            filled(code, len)
        });
        let trampoline = stub.ok().filter(|_| whole)?.address();
        let call = match exit {
            Exit::Padded(at) => self.padded(*at, number, trampoline)?,
            Exit::Room(room) => self.room(*room, number, trampoline)?,
            Exit::Pun(pun) => self.pun(pun, trampoline)?,
            Exit::Turn(turn) => self.turn(turn, trampoline)?,
            Exit::Fall(at) => self.fall(*at)?,
        };
        let installed = InstalledSite::in_unmodified(call, slots, trampoline);
        Some(self.push(id, installed, Kind::Exit, exit.reservation(), number))
    }

    /// The number that a function's next site gets: if possible, one that it had when its module
    /// was loaded before.
    pub(super) fn number(&mut self, id: Id, kind: Kind) -> Option<u32> {
        let former = &mut self.reload.former;
        let mut had = |function| former.get_mut(&(function, kind)).and_then(Vec::pop);
        had(id.0).or_else(|| had(sites::UNKNOWN)).or_else(sites::next)
    }

    pub(super) fn slots(&mut self, id: Id, stub: Stub) -> Option<SlotPair> {
        self.islands.slot_pair(stub.address(true), id.record().into()).ok()
    }

    /// Leads a landing to a trampoline.
    fn land(&mut self, landing: CodeAddr, trampoline: CodeAddr) -> Option<()> {
        if code::aliases(landing, trampoline) {
            return None;
        }
        self.batch.landings.put(landing, trampoline).ok()?;
        if self.reload.is_late {
            self.reload.landed.push(landing);
        }
        Some(())
    }

    /// Adopts a `ret` with room behind it.
    pub(super) fn padded(
        &mut self,
        at: CodeAddr,
        number: u32,
        trampoline: CodeAddr,
    ) -> Option<CallSite> {
        // SAFETY: (1) the module stays, see `OpenModule`; (2) a `ret`, as decoding has
        // found; behind it lies padding; (3) no other code writes there; (4) off it is what it was;
        // (5) trampolines stay as long as the module.
        #[allow(unsafe_code)]
        let call = unsafe { self.batch.survey.adopt_off(at, Form::Jump, Role::TailJump) };
        let call = call.ok()?;
        self.batch.led.push((number, trampoline));
        Some(call)
    }

    /// Adopts a `ret` that falls through to the next one; the trampoline is for both.
    fn fall(&mut self, at: CodeAddr) -> Option<CallSite> {
        // SAFETY: (1) the module stays, see `OpenModule`; (2) two instructions, as decoding has
        // found; (3) no other code writes there.
        #[allow(unsafe_code)]
        unsafe {
            self.batch.survey.adopt_return(at).ok()
        }
    }

    /// Adopts a jump or a call by its end and puts its landing.
    pub(super) fn turn(&mut self, turn: &Turn, trampoline: CodeAddr) -> Option<CallSite> {
        self.land(turn.landing(), trampoline)?;
        // SAFETY: (1) the module stays, see `OpenModule`; (2) a jump, as decoding has found;
        // (3) no other code writes there; (4) the trampoline goes on where it led.
        #[allow(unsafe_code)]
        unsafe {
            self.batch.survey.adopt_turn(turn.at, turn.bytes, turn.last).ok()
        }
    }

    /// Adopts a pun and puts its landing.
    pub(super) fn pun(&mut self, pun: &Pun<'_>, trampoline: CodeAddr) -> Option<CallSite> {
        if let Some(landing) = pun.landing() {
            self.land(landing, trampoline)?;
        }
        let survey = &mut self.batch.survey;
        // SAFETY: (1) the module stays, see `OpenModule`; (2) an instruction, as decoding has
        // found, of which these bytes are a part; (3) no other code writes there; (4) the
        // trampoline does what it displaces, and goes on behind that.
        #[allow(unsafe_code)]
        let call = unsafe {
            match pun.leap {
                Leap::Byte(bytes) => survey.adopt_pun(pun.at, bytes),
                Leap::Prefixed(prefixes, _) => {
                    let was = pun.moved.first()?.bytes.get(..prefixes + 1)?;
                    survey.adopt_beginning(pun.at, was, &code::prefixed_jump(prefixes))
                }
                Leap::Whole(bytes) => {
                    let jump = x86::jump(pun.at, trampoline)?;
                    survey.adopt_beginning(pun.at, &bytes, &jump)
                }
            }
        };
        call.ok()
    }

    /// Adopts room that was turned into a site.
    pub(super) fn room(
        &mut self,
        room: Room,
        number: u32,
        trampoline: CodeAddr,
    ) -> Option<CallSite> {
        // SAFETY: (1) the module stays, see `OpenModule`; (2) we have put it there; (3) no
        // other code writes there; (4) at a function's entry, and before a jump out of it, flags
        // are dead; (5) trampolines stay as long as the module.
        #[allow(unsafe_code)]
        let call = unsafe { self.batch.survey.adopt_off(room.at, Form::Jump, Role::Detour) };
        let call = call.ok()?;
        self.batch.led.push((number, trampoline));
        Some(call)
    }

    /// Adopts a compiler's call of its profiler, which is led to the trampoline instead.
    fn profilers_call(
        &mut self,
        at: CodeAddr,
        form: Form,
        number: u32,
        trampoline: CodeAddr,
    ) -> Option<CallSite> {
        let to = match form.is_through_memory() {
            true => self.islands.slot(trampoline).ok()?.address(),
            false => trampoline,
        };
        let is_profiler = |to| self.prepared.profiler().kind_of(to).is_some();
        // SAFETY: (1) the module stays, see `OpenModule`; (2) a call, as decoding has found;
        // (3) no other code writes there; (4) a call of the compiler's own, which the program did
        // not ask for; (5) trampolines stay as long as the module.
        #[allow(unsafe_code)]
        let call = unsafe { self.batch.survey.adopt(at, Role::Call, is_profiler) };
        let call = call.ok()?;
        self.batch.led.push((number, to));
        Some(call)
    }

    pub(super) fn push(
        &mut self,
        id: Id,
        installed: InstalledSite,
        kind: Kind,
        reservation: Reservation,
        number: u32,
    ) -> u32 {
        self.reserved.reserve(reservation);
        match sites::get(number) {
            Some(site) => {
                site.reinstall(installed, None);
                site.function.store(id.0, Relaxed);
            }
            None => sites::push(Site::new(installed, kind, self.reload.module_number, id.0, None)),
        }
        self.batch.made.push(number);
        number
    }
}

/// Refuses a function that was changed in memory, by a patcher or by itself.
pub(super) fn require_unchanged(
    line: &Moved<'_>,
    reserved: &ByteReservations,
) -> Result<(), Refusal> {
    for (offset, byte) in line.bytes.iter().enumerate() {
        let at = line.at.offset(offset as isize);
        // SAFETY: (1) code of a module that is loaded.
        #[allow(unsafe_code)]
        let found = unsafe { wordpatch::live::load_byte(at) };
        if found != *byte && !reserved.is_changed(at.get()) {
            return Err(Refusal::Changed);
        }
    }
    Ok(())
}

/// Reads the process's mappings, for landings and for sites. Once for all modules: programs have
/// thousands of mappings, and the agent installs probes many times a second in the beginning.
pub(super) fn look(landings: &mut Landings, policy: &Policy) -> Result<Survey, String> {
    let mappings = maps::mappings_and_heap().map_err(|error| error.to_string())?;
    landings.survey_of(&mappings);
    Ok(Survey::over(*policy, mappings))
}

/// Writes the displacements of sites, which are off.
pub(super) fn lead_to_trampolines(led: &[(u32, CodeAddr)], policy: &Policy) -> Result<(), String> {
    let mut batch = Retarget::new(*policy);
    for (site, to) in led.iter().filter_map(|&(number, to)| Some((sites::get(number)?, to))) {
        // SAFETY: (1) a trampoline that does what stood there, or nothing more where nothing did,
        // or its slot; (2) a module that is loaded, see `OpenModule`; (3) no list holds it yet, or
        // it is off.
        #[allow(unsafe_code)]
        unsafe {
            batch.push_shared(site.call(), to).map_err(|error| error.to_string())?;
        }
    }
    commit_batch(batch)
}
