//! Probes in code without compiled-in hooks: in one function after the other, once it was seen
//! running, or in all functions before the program runs.
//!
//! ```text
//!   entry, A9 made of room        ─▶ trampoline:  gate │ counter in line; hook; back behind it
//!   entry, a call of a profiler   ─▶ trampoline:  gate │ counter in line; hook; ret
//!   entry, E9 over its first byte ─▶ landing ─▶ trampoline:  gate │ counter in line       at the very entry only
//!                                                           hook: slot ─▶ stub that keeps all registers
//!                                                           what was displaced; back behind it, or
//!                                                           hook; the exit, if that is displaced, too
//!   exit, likewise                ─▶ landing ─▶ trampoline:  what was displaced; hook; the exit
//!   ret with padding, E9          ───────────▶ trampoline:  hook; ret
//! ```
//!
//! Room that compilers leave becomes an instruction without effect when its module is opened, if no
//! other thread exists, which might rest among several nops. Otherwise it is treated as any other
//! code.
//!
//! While a site is off, its function behaves as before. No thread reaches any of this code before
//! the site is switched on, so the stores need no order among themselves. One barrier comes before
//! the switch: for a `ret` that has got its displacement, and for processors that could have
//! fetched what lay at a landing before.

mod open_module;
pub(super) mod points;
mod site_installer;
mod trampoline;
mod wording;

use super::arguments::Facts;
use super::functions::Id;
use super::{agent, attached, keeping, target};
use crate::discovery::unmodified::{Maker, Refusal, Untimed};
use crate::discovery::{Image, Module};
use callpatch::{Islands, Landings};
use points::Points;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use wording::installation;
use wordpatch::os::pages::{self, PAGE};
use wordpatch::{CodeAddr, Policy};

pub(crate) use open_module::OpenModule;
use open_module::{CODE, Former};
use site_installer::{
    InstallBatch, Outcome, ReloadState, SiteInstaller, lead_to_trampolines, look, require_unchanged,
};

/// How many pages landings may take: this fraction of the machine's memory, within these limits.
const SHARE: usize = 64;
const PAGES: std::ops::RangeInclusive<usize> = 4000..=1 << 16;
/// The same, at most: this much is kept clear of landings near a module.
const ROOM: usize = 2 * CODE;
/// The least place that is worth keeping clear: that of an island.
const LEAST_ROOM: usize = 16 * PAGE;

/// The state of unmodified code.
#[derive(Debug)]
pub(crate) struct Unmodified {
    modules: Vec<OpenModule>,
    /// Whether functions that no compiler has prepared get probes, too.
    takes_any: bool,
    landings: Landings,
    /// Functions whose calls are counted and not timed.
    untimed: HashSet<Id>,
    /// How many functions got probes, by what a compiler has prepared for that, if anything; and
    /// when.
    pub(crate) installed: BTreeMap<(Option<Maker>, When), usize>,
    /// Whether the functions that get probes now have not been executed by any thread.
    is_early: bool,
    pub(crate) refused: BTreeMap<Refusal, usize>,
    pub(crate) counted_only: BTreeMap<Untimed, usize>,
    /// Functions of modules that were loaded later, by their place: each is reported once.
    told: HashSet<(u32, usize)>,
    /// Points, where these get probes and nothing else does.
    pub(crate) points: Points,
    has_points: bool,
    /// How functions got their probes whose arguments may be requested.
    facts: HashMap<Id, Facts>,
}

impl Unmodified {
    pub(crate) fn new(takes_any: bool) -> Self {
        keeping::prepare();
        Self {
            modules: Vec::new(),
            takes_any,
            landings: Landings::new(
                (pages::memory() / PAGE / SHARE).clamp(*PAGES.start(), *PAGES.end()),
            ),
            untimed: HashSet::new(),
            installed: BTreeMap::new(),
            is_early: false,
            refused: BTreeMap::new(),
            counted_only: BTreeMap::new(),
            told: HashSet::new(),
            points: Points::default(),
            has_points: false,
            facts: HashMap::new(),
        }
    }

    /// Returns, once, how a function got its probes.
    pub(crate) fn take_facts(&mut self, id: Id) -> Option<Facts> {
        self.facts.remove(&id)
    }

    /// Has its calls counted from now on, and not timed.
    pub(crate) fn only_count(&mut self, id: Id) {
        self.untimed.insert(id);
    }

    /// For modules whose points get probes, and none of their functions.
    pub(crate) fn for_points() -> Self {
        Self { has_points: true, ..Self::new(false) }
    }

    /// Adds a module whose functions may get probes.
    pub(crate) fn open(&mut self, mut opened: OpenModule, policy: &Policy) -> Result<(), String> {
        if !opened.has_frames {
            return Err("it has no unwind information (.eh_frame_hdr)".to_owned());
        }
        let islands =
            Islands::near(opened.module.span.clone()).map_err(|error| error.to_string())?;
        opened.rooms = self.keep_rooms(&islands, opened.functions() * ROOM);
        opened.islands = Some(islands);
        opened.make_sites(policy)?;
        self.modules.push(opened);
        Ok(())
    }

    /// Keeps places near a module clear of landings, for trampolines of that many bytes. Each
    /// module has places of its own.
    fn keep_rooms(&mut self, islands: &Islands, bytes: usize) -> Vec<Range<CodeAddr>> {
        let others = self.modules.iter().flat_map(|opened| opened.rooms.iter().cloned());
        let others: Vec<Range<CodeAddr>> = others.collect();
        match islands.room_for(bytes, &others) {
            Ok(Some(room)) => {
                self.landings.keep_clear(room.clone());
                vec![room]
            }
            // Landings of other modules have taken all of it.
            _ => self.landings.cede(&islands.reach(), bytes, LEAST_ROOM).unwrap_or_default(),
        }
    }

    /// Modules of these numbers were unloaded.
    pub(crate) fn close(&mut self, numbers: &[u32]) {
        let is_gone = |opened: &mut OpenModule| numbers.contains(&opened.module_number);
        let gone: Vec<OpenModule> = self.modules.extract_if(.., is_gone).collect();
        self.points.close(numbers);
        let rooms = gone.iter().flat_map(|opened| &opened.rooms);
        rooms.for_each(|room| self.landings.let_go(room));
        if agent::may_install() {
            let landings = gone.iter().flat_map(|opened| opened.landed.iter().copied());
            // SAFETY: (1) no thread is in code that is unmapped, and none comes from it.
            #[allow(unsafe_code)]
            let taken = unsafe { self.landings.take_away(landings) };
            // They stay where they are.
            let _ = taken;
        }
    }

    /// Whether its points get probes, and none of its functions.
    pub(crate) fn has_points(&self) -> bool {
        self.has_points
    }

    /// Whether modules that are loaded later may get probes.
    pub(crate) fn takes_late(&self) -> bool {
        self.takes_any || self.has_points
    }

    /// Whether functions that no compiler has prepared get probes.
    pub(crate) fn takes_any(&self) -> bool {
        self.takes_any
    }

    /// Whether any module is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.modules.is_empty()
    }

    /// Whether a function's calls are counted and not timed.
    pub(crate) fn is_untimed(&self, id: Id) -> bool {
        self.untimed.contains(&id)
    }

    /// Whether any function or point was to get a probe.
    pub(crate) fn was_tried(&self) -> bool {
        self.has_points || !(self.installed.is_empty() && self.refused.is_empty())
    }

    /// What a reader of the profile has to know about unmodified code.
    pub(crate) fn note(&self) -> String {
        if self.has_points {
            return self.points.note();
        }
        let sum = |counts: &mut dyn Iterator<Item = usize>| counts.sum::<usize>();
        let refused = sum(&mut self.refused.values().copied());
        let installed = sum(&mut self.installed.values().copied());
        let config = target::config();
        if installed + refused == 0 {
            return match config.installs_before_run(None) {
                true => "no function got a probe: -F and -N leave none",
                _ if !self.takes_any => "-F and -N leave no function that a compiler has prepared",
                _ => "no function ran long enough to get a probe: use --plant all, which gives all functions probes at once, or compile with -finstrument-functions",
            }.to_owned();
        }
        let mut parts = Vec::new();
        for ((maker, when), count) in &self.installed {
            parts.push(installation(maker.as_ref(), *count, *when));
        }
        let counted = reasons(&self.counted_only);
        let refused = reasons(&self.refused);
        parts.extend(counted.map(|(count, why)| format!("{count} counted and not timed ({why})")));
        parts.extend(refused.map(|(count, why)| format!("{count} refused ({why})")));
        parts.join("; ")
    }

    fn asked(&self, is_asked: impl Fn(u32) -> bool) -> impl Iterator<Item = &OpenModule> {
        self.modules.iter().filter(move |opened| is_asked(opened.module_number))
    }

    /// Where functions begin that `asks` names, in modules of these numbers.
    pub(crate) fn named(
        &self,
        is_asked: impl Fn(u32) -> bool,
        asks: impl Fn(&Module, CodeAddr) -> bool,
    ) -> Vec<CodeAddr> {
        let of = |opened: &OpenModule| {
            let starts = Image::parse(&opened.contents).map(|image| image.unwind_starts());
            let starts = starts.unwrap_or_default().into_iter();
            let starts = starts.map(|at| CodeAddr::new(opened.module.bias + at as usize));
            starts.filter(|at| asks(&opened.module, *at)).collect::<Vec<_>>()
        };
        self.asked(is_asked).flat_map(of).collect()
    }

    /// Where the functions of these modules lie that a compiler has prepared.
    pub(crate) fn prepared(&self, is_asked: impl Fn(u32) -> bool) -> Vec<CodeAddr> {
        self.asked(is_asked).flat_map(|opened| opened.prepared.places()).collect()
    }

    /// Where the functions of these modules begin, and parts of them.
    pub(crate) fn all(&self, is_asked: impl Fn(u32) -> bool) -> Vec<CodeAddr> {
        let of = |opened: &OpenModule| {
            let starts = Image::parse(&opened.contents).map(|image| image.unwind_starts());
            let bias = opened.module.bias;
            starts.into_iter().flatten().map(move |at| CodeAddr::new(bias + at as usize))
        };
        self.asked(is_asked).flat_map(of).collect()
    }

    /// The same as [`install`](Self::install), for functions that no thread has executed.
    pub(crate) fn install_early(
        &mut self,
        addresses: &[CodeAddr],
        policy: &Policy,
        wants: impl Fn(&Module, CodeAddr) -> bool,
    ) -> Result<Vec<u32>, String> {
        self.is_early = true;
        let installed = self.install(addresses, policy, wants);
        self.is_early = false;
        installed
    }

    /// Installs probes in those functions that hold these addresses and that `wants` names, unless
    /// they have probes. Returns the numbers of their sites.
    pub(crate) fn install(
        &mut self,
        addresses: &[CodeAddr],
        policy: &Policy,
        wants: impl Fn(&Module, CodeAddr) -> bool,
    ) -> Result<Vec<u32>, String> {
        let Self {
            modules,
            takes_any,
            landings,
            untimed,
            installed,
            is_early,
            refused,
            counted_only,
            told,
            facts,
            ..
        } = self;
        let (mut led, mut made) = (Vec::new(), Vec::new());
        let mut survey = None;
        for opened in modules {
            let inside = |at: &CodeAddr| opened.module.span.contains(at) && !opened.has_seen(*at);
            let here: Vec<CodeAddr> = addresses.iter().copied().filter(inside).collect();
            if here.is_empty() {
                continue;
            }
            let survey = match &mut survey {
                Some(survey) => survey,
                None => survey.insert(look(landings, policy)?),
            };
            let takes_any = *takes_any;
            let made = &mut made;
            let (led, granule) = (&mut led, policy.granule);
            let mut batch = InstallBatch { survey, landings, led, made, takes_any, granule };
            for (start, outcome) in opened.install(&here, &mut batch, &wants) {
                // If its module was loaded before, it is counted already.
                let place = (opened.module_number, start.get().wrapping_sub(opened.module.bias));
                let one = usize::from(!opened.is_late || told.insert(place));
                match outcome {
                    Ok((id, maker, why, known)) => {
                        facts.extend(known.map(|known| (id, known)));
                        let when = When::of(*is_early, opened.is_late);
                        *installed.entry((maker, when)).or_default() += one;
                        untimed.extend(why.map(|_| id));
                        why.into_iter()
                            .for_each(|why| *counted_only.entry(why).or_default() += one);
                    }
                    Err(why) => *refused.entry(why).or_default() += one,
                }
            }
        }
        if !made.is_empty() {
            policy.barrier.pass().map_err(|error| error.to_string())?;
            lead_to_trampolines(&led, policy)?;
        }
        Ok(made)
    }
}

/// How many there are, and why: the most frequent reason first.
fn reasons<W: std::fmt::Display>(counts: &BTreeMap<W, usize>) -> Option<(usize, String)> {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let why = match sorted.as_slice() {
        [] => return None,
        [(why, _)] => why.to_string(),
        several => several
            .iter()
            .map(|(why, count)| format!("{count}: {why}"))
            .collect::<Vec<_>>()
            .join("; "),
    };
    Some((counts.values().sum(), why))
}

/// When functions get probes of libraries that are loaded while the program runs.
const LATER: &str = "when their library was loaded, before it ran";

/// When all functions get probes at once.
fn beginning() -> &'static str {
    if attached::is_tied() { "when the profiler came" } else { "before the program began" }
}

/// When functions got probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    Beginning,
    /// Their module was loaded.
    Late,
    Seen,
}

impl When {
    fn of(is_early: bool, is_late: bool) -> Self {
        match (is_early, is_late) {
            (false, _) => Self::Seen,
            (true, false) => Self::Beginning,
            (true, true) => Self::Late,
        }
    }
}

#[cfg(test)]
mod tests;
