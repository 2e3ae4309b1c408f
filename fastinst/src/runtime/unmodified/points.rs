//! Points: one hook at each, two at the end of a pair.
//!
//! ```text
//! E9 over the point's first byte ─▶ landing ─▶ trampoline:  hook of the pair that ends here; hook
//! what was displaced; back behind it
//! ```
//!
//! A point is a row of its own: its title is its name, and its address its function. So counting,
//! switching and sampling are those of functions. Only the duration of a pass is found differently
//! ([`event::points`](crate::runtime::event::points)), since no frame of the stack lies around it.
//!
//! A semaphore is incremented before its point is switched on for the first time, and decremented
//! when it is off for good. Several tools may use a point: the semaphore is a number.
//!
//! # Safety
//!
//! This module changes words of the program that exist for that purpose.
#![allow(unsafe_code)]

use super::trampoline::{filled, len_of, point_code};
use super::{InstallBatch, OpenModule, ReloadState, SiteInstaller};
use crate::discovery::points::{Pair, Point, pairs};
use crate::discovery::unmodified::{Chooser, Frames, Reader, Refusal, Spot, Text};
use crate::discovery::{Code, Image};
use crate::probe::Kind;
use crate::runtime::functions::{self, Id};
use crate::runtime::sites::InstalledSite;
use crate::runtime::stub::Stub;
use callpatch::x86::{Form, keeping as code};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::SeqCst;
use wordpatch::CodeAddr;

/// The state of the points of a process.
#[derive(Debug, Default)]
pub(crate) struct Points {
    /// The points that have probes, by their place; and whether their module was loaded later.
    installed: BTreeMap<PointPlace, bool>,
    /// The semaphores that were incremented, and the modules that they are in.
    semaphores: BTreeMap<CodeAddr, u32>,
    /// The rows of beginnings of pairs that are timed.
    pairs: BTreeSet<Id>,
    refused: BTreeMap<Refusal, BTreeMap<PointPlace, String>>,
    /// The rows of titles.
    rows: HashMap<String, Id>,
}

/// A module's number, and a place in it.
type PointPlace = (u32, usize);

/// Points that are wanted, by the place of their module among the open ones.
type Wanted = Vec<(usize, Point)>;

/// What a title's points have in common.
#[derive(Clone, Copy, Debug)]
struct Role {
    /// Their row.
    id: Id,
    /// The row of the pair that ends there.
    ends: Option<Id>,
    /// Whether the duration of passes can be measured from there on.
    begins: bool,
}

impl super::Unmodified {
    /// Installs probes at the points that `wants` names, in modules of these numbers. Returns the
    /// numbers of their sites.
    pub(crate) fn install_points(
        &mut self,
        named: &[Pair],
        policy: &wordpatch::Policy,
        (is_asked, wants): (
            impl Fn(u32) -> bool,
            impl Fn(&crate::discovery::Module, CodeAddr) -> bool,
        ),
    ) -> Result<Vec<u32>, String> {
        let mut wanted = Wanted::new();
        for (number, opened) in self.modules.iter().enumerate() {
            let points = opened.points.iter().filter(|point| wants(&opened.module, point.at));
            wanted.extend(points.cloned().map(|point| (number, point)));
        }
        let mut survey = super::look(&mut self.landings, policy)?;
        let pairs = pairs(wanted.iter().map(|(_, point)| point), named);
        let mut made = Vec::new();
        let mut roles = roles(&wanted, &pairs, &mut self.points.rows);
        wanted.retain(|(number, _)| is_asked(self.modules[*number].module_number));
        // Ends get their probes first: a pair whose end has no probe is not timed.
        let is_end = |title: &String| pairs.iter().any(|pair| pair.end == *title);
        let (ends, others): (Wanted, Wanted) =
            wanted.into_iter().partition(|(_, point)| is_end(&point.title()));
        let missing = self.install_some_points(&ends, &roles, (&mut survey, policy), &mut made)?;
        for pair in pairs.iter().filter(|pair| missing.contains(&pair.end)) {
            roles.entry(pair.begin.clone()).and_modify(|role| role.begins = false);
        }
        self.install_some_points(&others, &roles, (&mut survey, policy), &mut made)?;
        for role in roles.values() {
            // What was counted and not timed so far stays so.
            if role.begins && !self.untimed.contains(&role.id) {
                self.points.pairs.insert(role.id);
            } else if !self.points.pairs.contains(&role.id) {
                self.untimed.insert(role.id);
            }
        }
        if !made.is_empty() {
            policy.barrier.pass().map_err(|error| error.to_string())?;
        }
        Ok(made)
    }

    /// Installs probes at points. Returns the titles of those that got no probe.
    fn install_some_points(
        &mut self,
        wanted: &Wanted,
        roles: &HashMap<String, Role>,
        (survey, policy): (&mut callpatch::Survey, &wordpatch::Policy),
        made: &mut Vec<u32>,
    ) -> Result<BTreeSet<String>, String> {
        let mut missing = BTreeSet::new();
        let Self { modules, landings, points, .. } = self;
        let mut led = Vec::new();
        for (number, opened) in modules.iter_mut().enumerate() {
            let here: Vec<&Point> =
                wanted.iter().filter(|(of, _)| *of == number).map(|(_, point)| point).collect();
            if here.is_empty() {
                continue;
            }
            let mut batch = InstallBatch {
                survey: &mut *survey,
                landings: &mut *landings,
                led: &mut led,
                made,
                takes_any: true,
                granule: policy.granule,
            };
            for (point, installed) in
                here.iter().zip(opened.install_points(&here, roles, &mut batch))
            {
                let place = (opened.module_number, point.at.get().wrapping_sub(opened.module.bias));
                match installed {
                    Ok(()) => {
                        points.installed.insert(place, opened.is_late);
                        points.stand_at(point.semaphore, opened.module_number);
                    }
                    Err(why) => {
                        missing.insert(point.title());
                        points.refused.entry(why).or_default().insert(place, point.title());
                    }
                }
            }
        }
        super::lead_to_trampolines(&led, policy)?;
        Ok(missing)
    }
}

/// What titles have in common; some of them have `rows` already.
fn roles(wanted: &Wanted, pairs: &[Pair], rows: &mut HashMap<String, Id>) -> HashMap<String, Role> {
    let mut roles: HashMap<String, Role> = HashMap::new();
    for (_, point) in wanted {
        let title = point.title();
        let row = rows.get(&title).copied().or_else(|| functions::add(point.at.get() as u64));
        if let Some(id) = row {
            rows.insert(title.clone(), id);
            roles.entry(title).or_insert(Role { id, ends: None, begins: false });
        }
    }
    for pair in pairs {
        let begin = roles.get(&pair.begin).map(|role| role.id);
        if begin.is_some()
            && let Some(end) = roles.get_mut(&pair.end)
        {
            end.ends = begin;
            roles.entry(pair.begin.clone()).and_modify(|role| role.begins = true);
        }
    }
    roles
}

/// Changes a semaphore of a module that is loaded.
fn change(semaphore: CodeAddr, by: i16) {
    // SAFETY: (1) a word of data of a module that is loaded, which its program headers say is
    // writable; (2) it is there for tools to change, each by one instruction, and the program reads
    // it.
    let semaphore: &AtomicU16 = unsafe { &*std::ptr::with_exposed_provenance(semaphore.get()) };
    semaphore.fetch_add(by as u16, SeqCst);
}

impl Points {
    /// Notifies the program how many tools use its points: one more, or one less.
    pub(crate) fn change_semaphores(&self, by: i16) {
        self.semaphores.keys().for_each(|semaphore| change(*semaphore, by));
    }

    /// Notifies the program of one more tool, once for each semaphore.
    fn stand_at(&mut self, semaphore: Option<CodeAddr>, module_number: u32) {
        if let Some(semaphore) = semaphore
            && self.semaphores.insert(semaphore, module_number).is_none()
        {
            change(semaphore, 1);
        }
    }

    /// Modules of these numbers were unloaded, and their semaphores with them.
    pub(super) fn close(&mut self, numbers: &[u32]) {
        self.semaphores.retain(|_, number| !numbers.contains(number));
    }

    /// What a reader of the profile has to know about points.
    pub(crate) fn note(&self) -> String {
        const SHOWN: usize = 3;
        if self.installed.is_empty() && self.refused.is_empty() {
            return "-F and -N leave no tracepoint; fastinst probes lists those of a file"
                .to_owned();
        }
        let points =
            |count| if count == 1 { "1 point".to_owned() } else { format!("{count} points") };
        let mut parts = Vec::new();
        for (late, when) in [(false, super::beginning()), (true, super::LATER)] {
            let count = self.installed.values().filter(|is_late| **is_late == late).count();
            // A count of zero is reported only for the beginning, and if no point got a probe at
            // all.
            if count > 0 || !late && self.installed.is_empty() {
                parts.push(format!("{} got probes {when}", points(count)));
            }
        }
        match self.pairs.len() {
            0 => {}
            1 => parts.push("1 pair is timed".to_owned()),
            pairs => parts.push(format!("{pairs} pairs are timed")),
        }
        for (why, titles) in &self.refused {
            let shown = titles.values().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let more = if titles.len() > SHOWN { ", …" } else { "" };
            parts.push(format!("{} refused: {why} ({shown}{more})", points(titles.len())));
        }
        parts.join("; ")
    }
}

impl OpenModule {
    /// Installs probes at points of this module, one result for each.
    fn install_points(
        &mut self,
        wanted: &[&Point],
        roles: &HashMap<String, Role>,
        batch: &mut InstallBatch<'_>,
    ) -> Vec<Result<(), Refusal>> {
        let none = |why: Refusal| wanted.iter().map(|_| Err(why)).collect();
        if self.module.name.starts_with("ld-linux") {
            return none(Refusal::Loader);
        }
        let Self { module, contents, prepared, reserved, islands, points, .. } = self;
        let mut reload = ReloadState {
            module_number: self.module_number,
            is_late: self.is_late,
            landed: &mut self.landed,
            former: &mut self.former,
        };
        let Some(islands) = islands else { return none(Refusal::NoLanding) };
        islands.expect(wanted.len() * super::CODE);
        let Ok(image) = Image::parse(contents) else { return none(Refusal::Undecodable) };
        let Some(frames) = Frames::of(&image) else { return none(Refusal::NoFunction) };
        let (code, others, bias) = (image.code(), image.no_functions(), module.bias);
        let places: BTreeSet<CodeAddr> = points.iter().map(|point| point.at).collect();
        let install = |point: &&Point| {
            let role = roles.get(&point.title()).ok_or(Refusal::NoEntry)?;
            let from = |code: &Code<'_>| bias + code.address as usize;
            let holds = |code: &&Code<'_>| {
                (from(code)..from(code) + code.bytes.len()).contains(&point.at.get())
            };
            let segment = code.iter().find(holds).ok_or(Refusal::NoFunction)?;
            let text = Text { start: CodeAddr::new(from(segment)), bytes: segment.bytes };
            let reader = Reader { text, frames: &frames, bias, others: &others };
            let body = reader.around(point.at)?;
            let price = |at| batch.landings.price(at).ok();
            let chooser = Chooser {
                reader,
                reserved: &*reserved,
                prepared: &*prepared,
                takes_any: true,
                price,
                granule: batch.granule,
            };
            let spot = chooser.point(&body, point.at, |at| places.contains(&at))?;
            spot.moved().iter().try_for_each(|line| super::require_unchanged(line, reserved))?;
            let mut installer =
                SiteInstaller { islands, reserved, prepared, reload: &mut reload, batch };
            installer.point(*role, &spot).ok_or(Refusal::NoLanding)
        };
        wanted.iter().map(install).collect()
    }
}

impl SiteInstaller<'_, '_, '_> {
    fn point(&mut self, role: Role, spot: &Spot<'_>) -> Option<()> {
        let number = self.number(role.id, Kind::Enter)?;
        let slots = self.slots(role.id, Stub::Count)?;
        let stub = Stub::EndPoint.address(true);
        let end = match role.ends {
            Some(id) => Some(self.islands.slot_pair(stub, id.record().into()).ok()?),
            None => None,
        };
        let hooks = if end.is_some() { 2 } else { 1 };
        let moved: usize = spot.moved().iter().map(len_of).sum();
        let len = hooks * code::HOOK + moved + Form::Jump.len();
        let mut whole = true;
        let stub = self.islands.stub(len, |at| {
            let code = point_code(at, spot, number, slots, end);
            whole = code.is_some();
            filled(code, len)
        });
        let trampoline = stub.ok().filter(|_| whole)?.address();
        let call = match spot {
            Spot::Pun(pun) => self.pun(pun, trampoline)?,
            Spot::Turn(turn) => self.turn(turn, trampoline)?,
            Spot::Padded(at) => self.padded(*at, number, trampoline)?,
        };
        let point = InstalledSite::in_unmodified(call, slots, trampoline);
        let installed = InstalledSite { is_point: true, ..point };
        self.push(role.id, installed, Kind::Enter, spot.reservation(), number);
        Some(())
    }
}
