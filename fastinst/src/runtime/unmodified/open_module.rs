//! A module whose functions may get probes where no compiler has put hooks: its contents, what a
//! compiler has prepared there, and the ranges of functions that were looked at.

use super::{InstallBatch, Outcome, ReloadState, SiteInstaller};
use crate::config::Provider;
use crate::discovery::points::{Point, PointNames, points_of};
use crate::discovery::unmodified::{
    ByteReservations, Frames, Prepared, Reader, Reservation, Room, Text,
};
use crate::discovery::{Contents, Image, Module};
use crate::probe::Kind;
use crate::runtime::install::is_alone;
use crate::runtime::sites;
use callpatch::x86::Form;
use callpatch::{Islands, Survey};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::{CodeAddr, Policy};

/// About how much the trampolines and slots of a function take.
pub(super) const CODE: usize = 512;

/// Numbers of sites whose module was unloaded, under [`sites::UNKNOWN`] where their function is not
/// known.
pub(super) type Former = HashMap<(u32, Kind), Vec<u32>>;

/// A module: one that is loaded at the start, and stays; or one that was loaded later, until it is
/// unloaded ([`close`](super::Unmodified::close)).
#[derive(Debug)]
pub(crate) struct OpenModule {
    pub(super) module: Module,
    /// Its number in the registry.
    pub(super) module_number: u32,
    pub(super) contents: Contents,
    pub(super) prepared: Prepared,
    pub(super) points: Vec<Point>,
    pub(super) reserved: ByteReservations,
    /// Whether it has unwind information with an index.
    pub(super) has_frames: bool,
    /// Where trampolines lie, once it is open.
    pub(super) islands: Option<Islands>,
    /// Where more can lie.
    pub(super) rooms: Vec<std::ops::Range<CodeAddr>>,
    /// Ranges of functions that were looked at: where each begins, and ends.
    pub(super) seen: BTreeMap<CodeAddr, CodeAddr>,
    /// Whether it was loaded later, and may be unloaded.
    pub(super) is_late: bool,
    /// Where landings of its puns are.
    pub(super) landed: Vec<CodeAddr>,
    /// Numbers of sites that it had when it was loaded before, by function and kind.
    pub(super) former: Former,
}

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
        let (prepared, has_frames) = (prepared.unwrap_or_default(), frames.is_some());
        Ok(Self {
            prepared,
            ..Self::without_sites(module.clone(), module_number, contents, has_frames)
        })
    }

    /// A module in which nothing is prepared or reserved yet.
    fn without_sites(
        module: Module,
        module_number: u32,
        contents: Contents,
        has_frames: bool,
    ) -> Self {
        Self {
            module,
            module_number,
            prepared: Prepared::default(),
            points: Vec::new(),
            has_frames,
            contents,
            reserved: ByteReservations::default(),
            islands: None,
            rooms: Vec::new(),
            seen: BTreeMap::new(),
            is_late: false,
            landed: Vec::new(),
            former: Former::new(),
        }
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
        let module = Module { points: Some(Arc::new(names)), ..module.clone() };
        let plain = Self::without_sites(module, module_number, contents, has_frames);
        Ok((!points.is_empty()).then(|| Self { points, reserved, ..plain }))
    }

    /// The module, with the names of its points.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// How many functions or points may get probes.
    pub(super) fn functions(&self) -> usize {
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
    pub(super) fn make_sites(&mut self, policy: &Policy) -> Result<(), String> {
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
    pub(super) fn has_seen(&self, at: CodeAddr) -> bool {
        self.seen.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// Installs probes in the functions that hold these addresses and were not looked at.
    pub(super) fn install(
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
