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

pub(super) mod points;
mod trampoline;
mod wording;

use super::arguments::Facts;
use super::functions::{self, Id};
use super::install::{commit_batch, is_alone};
use super::sites::{self, InstalledSite, Site};
use super::stub::Stub;
use super::threads::room;
use super::{agent, arguments, attached, keeping, target};
use crate::config::Provider;
use crate::discovery::points::{Point, PointNames, points_of};
use crate::discovery::unmodified::{
    ByteReservations, Choice, Chooser, Entry, Exit, Frames, Leap, Line, Maker, Moved, Prepared,
    Pun, Reader, Refusal, Reservation, Room, Text, Turn, Untimed, Way,
};
use crate::discovery::{Contents, Image, Module};
use crate::probe::Kind;
use callpatch::x86::{self, Form, keeping as code};
use callpatch::{CallSite, Islands, Landings, Retarget, Role, SlotPair, Survey};
use points::Points;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use trampoline::{entry_code, exit_code, filled, len_of};
use wording::installation;
use wordpatch::os::maps;
use wordpatch::os::pages::{self, PAGE};
use wordpatch::{CodeAddr, Granule, Policy};

/// How many pages landings may take: this fraction of the machine's memory, within these limits.
const SHARE: usize = 64;
const PAGES: std::ops::RangeInclusive<usize> = 4000..=1 << 16;

/// About how much the trampolines and slots of a function take.
const CODE: usize = 512;
/// The same, at most: this much is kept clear of landings near a module.
const ROOM: usize = 2 * CODE;

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

/// A module: one that is loaded at the start, and stays; or one that was loaded later, until it is
/// unloaded ([`Unmodified::close`]).
#[derive(Debug)]
pub(crate) struct OpenModule {
    module: Module,
    /// Its number in the registry.
    module_number: u32,
    contents: Contents,
    prepared: Prepared,
    points: Vec<Point>,
    reserved: ByteReservations,
    /// Whether it has unwind information with an index.
    has_frames: bool,
    /// Where trampolines lie, once it is open.
    islands: Option<Islands>,
    /// Where more can lie.
    room: Option<std::ops::Range<CodeAddr>>,
    /// Ranges of functions that were looked at: where each begins, and ends.
    seen: BTreeMap<CodeAddr, CodeAddr>,
    /// Whether it was loaded later, and may be unloaded.
    is_late: bool,
    /// Where landings of its puns are.
    landed: Vec<CodeAddr>,
    /// Numbers of sites that it had when it was loaded before, by function and kind.
    former: Former,
}

/// Numbers of sites whose module was unloaded, under [`sites::UNKNOWN`] where their function is not
/// known.
type Former = HashMap<(u32, Kind), Vec<u32>>;

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
        opened.room = islands.room_for(opened.functions() * ROOM).ok().flatten();
        opened.room.iter().for_each(|room| self.landings.keep_clear(room.clone()));
        opened.islands = Some(islands);
        opened.make_sites(policy)?;
        self.modules.push(opened);
        Ok(())
    }

    /// Modules of these numbers were unloaded.
    pub(crate) fn close(&mut self, numbers: &[u32]) {
        let is_gone = |opened: &mut OpenModule| numbers.contains(&opened.module_number);
        let gone: Vec<OpenModule> = self.modules.extract_if(.., is_gone).collect();
        self.points.close(numbers);
        let rooms = gone.iter().filter_map(|opened| opened.room.as_ref());
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

/// Reads what is mapped, for landings and for sites. Once for all modules: programs have thousands
/// of mappings, and the agent installs probes many times a second in the beginning.
fn look(landings: &mut Landings, policy: &Policy) -> Result<Survey, String> {
    let mappings = maps::mappings().map_err(|error| error.to_string())?;
    landings.survey_of(&mappings);
    Ok(Survey::over(*policy, mappings))
}

/// Writes the displacements of sites, which are off.
fn lead_to_trampolines(led: &[(u32, CodeAddr)], policy: &Policy) -> Result<(), String> {
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

/// Sites that are installed together, before one barrier; and what that needs.
struct InstallBatch<'p> {
    survey: &'p mut Survey,
    landings: &'p mut Landings,
    /// Sites whose displacement is to be written, and where they lead.
    led: &'p mut Vec<(u32, CodeAddr)>,
    /// All that were made.
    made: &'p mut Vec<u32>,
    /// Whether functions that no compiler has prepared get probes, too.
    takes_any: bool,
    /// What one store may replace.
    granule: Granule,
}

/// The function that got probes, what had prepared it, and why it is only counted, if it is; or
/// why it was refused.
type Outcome = Result<(Id, Option<Maker>, Option<Untimed>, Option<Facts>), Refusal>;

impl OpenModule {
    /// A module that is loaded, and what `provider` takes of it.
    pub(crate) fn new(
        module: &Module,
        module_number: u32,
        provider: Provider,
    ) -> Result<Self, String> {
        let contents = module.contents().map_err(|error| error.to_string())?;
        let image = Image::parse(&contents).map_err(|error| error.to_string())?;
        let frames = Frames::of(&image);
        let prepared = frames.as_ref().map(|frames| {
            Prepared::of(&image, frames, module.bias).only(|maker| provider.takes(maker))
        });
        Ok(Self {
            module: module.clone(),
            module_number,
            prepared: prepared.unwrap_or_default(),
            points: Vec::new(),
            has_frames: frames.is_some(),
            contents,
            reserved: ByteReservations::default(),
            islands: None,
            room: None,
            seen: BTreeMap::new(),
            is_late: false,
            landed: Vec::new(),
            former: Former::new(),
        })
    }

    /// A module that was loaded while the program runs, and had sites of these numbers when it was
    /// loaded before.
    pub(crate) fn come_late(self, numbers: &BTreeSet<u32>) -> Result<Self, String> {
        let relocates_text = Image::parse(&self.contents).is_ok_and(|image| image.relocates_text());
        if relocates_text {
            return Err("its code is relocated at load time (DT_TEXTREL)".to_owned());
        }
        let mut former = Former::new();
        for (number, site) in numbers.iter().filter_map(|&n| Some((n, sites::get(n)?))) {
            former.entry((site.function.load(Relaxed), site.kind)).or_default().push(number);
        }
        Ok(Self { is_late: true, former, ..self })
    }

    /// A module with points, which already has sites in some `places`; `None` if it has no points.
    pub(crate) fn with_points(
        module: &Module,
        module_number: u32,
        places: impl Iterator<Item = (CodeAddr, Form)>,
    ) -> Result<Option<Self>, String> {
        let contents = module.contents().map_err(|error| error.to_string())?;
        let image = Image::parse(&contents).map_err(|error| error.to_string())?;
        let points = points_of(&image, module.bias);
        let has_frames = Frames::of(&image).is_some();
        let mut reserved = ByteReservations::default();
        places.for_each(|(at, form)| reserved.reserve(Reservation::Call(at, form)));
        let names: PointNames = points.iter().map(|point| (point.at, point.title())).collect();
        let opened = |points| Self {
            module: Module { points: Some(Arc::new(names)), ..module.clone() },
            module_number,
            prepared: Prepared::default(),
            points,
            has_frames,
            contents,
            reserved,
            islands: None,
            room: None,
            seen: BTreeMap::new(),
            is_late: false,
            landed: Vec::new(),
            former: Former::new(),
        };
        Ok((!points.is_empty()).then(|| opened(points)))
    }

    /// The module, with the names of its points.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// How many functions or points may get probes.
    fn functions(&self) -> usize {
        let starts = || Image::parse(&self.contents).map_or(0, |image| image.unwind_starts().len());
        if self.points.is_empty() { starts() } else { self.points.len() }
    }

    pub(crate) fn module_number(&self) -> u32 {
        self.module_number
    }

    /// Whether a compiler has prepared something.
    pub(crate) fn is_prepared(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// Makes sites of the room that a compiler left.
    fn make_sites(&mut self, policy: &Policy) -> Result<(), String> {
        if self.prepared.is_empty() {
            return Ok(());
        }
        let Ok(image) = Image::parse(&self.contents) else { return Ok(()) };
        let rooms: Vec<Room> = self.prepared.rooms().collect();
        let is_alone = is_alone();
        let mut survey = Survey::new(*policy).map_err(|error| error.to_string())?;
        for room in rooms {
            let file = image.from((room.at.get() - self.module.bias) as u64);
            let was = file.and_then(|bytes| bytes.get(..room.len)).filter(|_| is_alone);
            // SAFETY: (1) the module stays, see `OpenModule`; (2) instructions, as the
            // compiler's table and decoding have said; (3) no other code writes there, and this
            // thread is the only one; (4) nothing was done there; (5) it is led to a trampoline
            // before it is switched on.
            #[allow(unsafe_code)]
            let made = was.map(|was| unsafe { survey.make_detour(room.at, was) });
            match made {
                Some(Ok(())) => {}
                // Another patcher has changed it, or it cannot be changed: the function is treated
                // as any other.
                _ => self.prepared.forget(room.at),
            }
        }
        self.prepared.reservations().for_each(|reservation| self.reserved.reserve(reservation));
        Ok(())
    }

    /// Whether the function that holds an address was looked at.
    fn has_seen(&self, at: CodeAddr) -> bool {
        self.seen.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// Installs probes in the functions that hold these addresses and were not looked at.
    fn install(
        &mut self,
        addresses: &[CodeAddr],
        batch: &mut InstallBatch<'_>,
        wants: impl Fn(&Module, CodeAddr) -> bool,
    ) -> Vec<(CodeAddr, Outcome)> {
        let Self { module, contents, prepared, reserved, islands, seen, .. } = self;
        let Some(islands) = islands else { return Vec::new() };
        let mut reload = ReloadState {
            module_number: self.module_number,
            is_late: self.is_late,
            landed: &mut self.landed,
            former: &mut self.former,
        };
        islands.expect(addresses.len() * CODE);
        let Ok(image) = Image::parse(contents) else { return Vec::new() };
        let Some(frames) = Frames::of(&image) else { return Vec::new() };
        let (code, others, bias) = (image.code(), image.no_functions(), module.bias);
        let mut outcomes = Vec::new();
        for &at in addresses {
            let from = |code: &crate::discovery::Code<'_>| bias + code.address as usize;
            let holds = |code: &&crate::discovery::Code<'_>| {
                (from(code)..from(code) + code.bytes.len()).contains(&at.get())
            };
            let Some(segment) = code.iter().find(holds) else { continue };
            let text = Text { start: CodeAddr::new(from(segment)), bytes: segment.bytes };
            let reader = Reader { text, frames: &frames, bias, others: &others };
            let Some(range) = reader.range_of(at) else { continue };
            if seen.insert(range.start, range.end).is_none() && wants(module, range.start) {
                let mut installer =
                    SiteInstaller { islands, reserved, prepared, reload: &mut reload, batch };
                outcomes.push((range.start, installer.install(range.start, reader)));
            }
        }
        outcomes
    }
}

/// Installs the sites of one function, or one point, of a module.
struct SiteInstaller<'p, 'q, 'f> {
    islands: &'p mut Islands,
    reserved: &'p mut ByteReservations,
    prepared: &'p Prepared,
    reload: &'p mut ReloadState<'f>,
    batch: &'p mut InstallBatch<'q>,
}

/// What is kept of the module, so that it can be unloaded and loaded again.
struct ReloadState<'f> {
    module_number: u32,
    is_late: bool,
    landed: &'f mut Vec<CodeAddr>,
    former: &'f mut Former,
}

impl SiteInstaller<'_, '_, '_> {
    fn install(&mut self, start: CodeAddr, reader: Reader<'_, '_>) -> Outcome {
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
    fn entry(&mut self, id: Id, entry: &Entry<'_>) -> Option<(u32, Option<SlotPair>)> {
        let number = self.number(id, Kind::Enter)?;
        let slots = self.slots(id, Stub::Count)?;
        // A function that ends before it could return to its code has both ends in one trampoline.
        let exit = if entry.is_whole() { Some(self.slots(id, Stub::TimeExit)?) } else { None };
        // A thread without a record takes the slow path with each call, and times none.
        let has_record = room::have_records(id);
        // Where a compiler calls its profiler, too, flags are dead and the red zone is not in use. A
        // gate lives for ever, and so do islands that have one.
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
        let home = call.destination().address();
        let installed =
            InstalledSite { call, gate, slots, trampoline, home, is_pun: true, is_point: false };
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
        let home = call.destination().address();
        let installed = InstalledSite {
            call,
            gate: None,
            slots,
            trampoline,
            home,
            is_pun: true,
            is_point: false,
        };
        Some(self.push(id, installed, Kind::Exit, exit.reservation(), number))
    }

    /// The number that a function's next site gets: if possible, one that it had when its module
    /// was loaded before.
    fn number(&mut self, id: Id, kind: Kind) -> Option<u32> {
        let former = &mut self.reload.former;
        let mut had = |function| former.get_mut(&(function, kind)).and_then(Vec::pop);
        had(id.0).or_else(|| had(sites::UNKNOWN)).or_else(sites::next)
    }

    fn slots(&mut self, id: Id, stub: Stub) -> Option<SlotPair> {
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
    fn padded(&mut self, at: CodeAddr, number: u32, trampoline: CodeAddr) -> Option<CallSite> {
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
    fn turn(&mut self, turn: &Turn, trampoline: CodeAddr) -> Option<CallSite> {
        self.land(turn.landing(), trampoline)?;
        // SAFETY: (1) the module stays, see `OpenModule`; (2) a jump, as decoding has found;
        // (3) no other code writes there; (4) the trampoline goes on where it led.
        #[allow(unsafe_code)]
        unsafe {
            self.batch.survey.adopt_turn(turn.at, turn.bytes, turn.last).ok()
        }
    }

    /// Adopts a pun and puts its landing.
    fn pun(&mut self, pun: &Pun<'_>, trampoline: CodeAddr) -> Option<CallSite> {
        if let Some(landing) = pun.landing() {
            self.land(landing, trampoline)?;
        }
        let survey = &mut self.batch.survey;
        // SAFETY: (1) the module stays, see `OpenModule`; (2) an instruction, as decoding has
        // found, of which these bytes are a part; (3) no other code writes there; (4) the trampoline
        // does what it displaces, and goes on behind that.
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
    fn room(&mut self, room: Room, number: u32, trampoline: CodeAddr) -> Option<CallSite> {
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

    fn push(
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
fn require_unchanged(line: &Moved<'_>, reserved: &ByteReservations) -> Result<(), Refusal> {
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
