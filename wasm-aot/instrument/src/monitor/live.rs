//! Monitors that come and go while the program runs.

use super::working::Working;
use super::{Choice, MonitorError, Report, hooked};
use crate::lower::Census;
use crate::lower::{self, Capabilities, Lowering, Refusal, Time};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::runtime::{Counted, Module, Share};

/// Monitors that are attached to a module whose instances may be running, in the order in which
/// they came.
///
/// What was attached once, with the same options, goes on with what it knows when it is attached
/// again.
#[derive(Debug)]
pub struct Live {
    module: Module,
    /// What the program is called, if that was said.
    program: Option<Arc<str>>,
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    known: Vec<KnownMonitor>,
    /// Whether all that are attached rest.
    is_off: bool,
}

/// A monitor that was attached once.
#[derive(Debug)]
struct KnownMonitor {
    text: String,
    working: Working,
    /// The number of its plan, if it has code of its own.
    part: Option<usize>,
    /// What became of it in the program's code.
    lowering: Lowering,
    census: Census,
    /// Of what is counted, what it has seen, if it is made of counts.
    counted: Share,
    /// Since when it is attached, if it is, and whether it rests by itself.
    since: Option<Instant>,
    rests: bool,
}

impl KnownMonitor {
    fn name(&self) -> &'static str {
        self.working.choice.name()
    }
}

impl LiveState {
    /// Those that are attached, by their places and in the order in which they came.
    fn order(&self) -> Vec<(usize, Instant)> {
        let attached = self.known.iter().enumerate();
        let mut all: Vec<_> =
            attached.filter_map(|(place, known)| Some((place, known.since?))).collect();
        all.sort_by_key(|(_, since)| *since);
        all
    }

    /// The same, themselves.
    fn attached(&self) -> impl Iterator<Item = (&KnownMonitor, Instant)> {
        self.order().into_iter().map(|(place, since)| (&self.known[place], since))
    }

    /// The one that is attached under a name.
    fn named(&mut self, name: &str) -> Option<&mut KnownMonitor> {
        self.known.iter_mut().find(|known| known.since.is_some() && known.name() == name)
    }

    /// Whether one that is attached observes.
    fn observes(&self, known: &KnownMonitor) -> bool {
        !self.is_off && !known.rests
    }
}

/// Why a monitor is not attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is no such monitor, or it has no such option.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// It has to see programs from their beginning.
    #[error("{0} observes programs from their beginning: run --monitor {0}")]
    FromTheBeginning(&'static str),
    /// It would write to what is the program's.
    #[error(
        "{0} writes a line for each event to the program's standard error: say where to, as {0},file=FILE"
    )]
    Floods(&'static str),
    /// The code cannot be changed.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Live {
    /// Nothing is attached at first.
    pub fn new(module: Module) -> Self {
        Self { module, program: None, state: Mutex::default() }
    }

    /// The same for a program that is called so.
    #[must_use]
    pub(crate) fn of_program(self, program: Option<Arc<str>>) -> Self {
        Self { program, ..self }
    }

    /// Attaches a monitor, in place of one with the same name; gives its name.
    pub fn attach(&self, text: &str) -> Result<&'static str, LiveError> {
        let mut state = self.state.lock();
        let place = match state.known.iter().position(|known| known.text == text) {
            Some(place) => place,
            None => {
                state.known.push(self.begin(text)?);
                state.known.len() - 1
            }
        };
        self.put_in_place(&mut state, place, false)
    }

    /// The same, and what one with the same options has seen before is left behind. It rests if the
    /// one before did.
    pub fn attach_anew(&self, text: &str) -> Result<&'static str, LiveError> {
        let mut state = self.state.lock();
        state.known.push(self.begin(text)?);
        let place = state.known.len() - 1;
        let name = state.known[place].name();
        let rests = state.named(name).is_some_and(|before| before.rests);
        self.put_in_place(&mut state, place, rests)?;
        // No request finds it again.
        let others = state.known[..place].iter_mut().filter(|known| known.text == text);
        others.for_each(|known| known.text.clear());
        Ok(name)
    }

    /// Has one that is known attached, and none else of its name.
    fn put_in_place(
        &self,
        state: &mut LiveState,
        place: usize,
        rests: bool,
    ) -> Result<&'static str, LiveError> {
        let before: Vec<Option<Instant>> = state.known.iter().map(|known| known.since).collect();
        let name = state.known[place].name();
        if let Some(other) = state.named(name) {
            other.since = None;
        }
        let known = &mut state.known[place];
        (known.since, known.rests) = (Some(Instant::now()), rests);
        if let Err(error) = self.apply(state) {
            state.known.iter_mut().zip(before).for_each(|(known, since)| known.since = since);
            return Err(error.into());
        }
        Ok(name)
    }

    fn begin(&self, text: &str) -> Result<KnownMonitor, LiveError> {
        let choice: Choice = text.parse()?;
        choice.fits(&self.module)?;
        let working = Working::begin(choice.of_program(self.program.clone()))?;
        let (facts, name) = (working.facts(), working.choice.name());
        let capabilities = Capabilities::of_module(&self.module, Time::Running);
        match lower::admit(&facts, &capabilities) {
            Err(Refusal::Floods) => return Err(LiveError::Floods(name)),
            Err(_) => return Err(LiveError::FromTheBeginning(name)),
            Ok(()) => {}
        }
        let attach = |hooked| hooked::attach(hooked, &self.module, true);
        let attached = working.hooked.as_ref().map(attach).transpose()?;
        let (part, census) =
            attached.map(|(part, census)| (Some(part), census)).unwrap_or_default();
        let lowering = lower::lower(&[facts], &capabilities).swap_remove(0);
        let (text, counted, since, rests) = (text.to_owned(), Share::default(), None, false);
        Ok(KnownMonitor { text, working, part, lowering, census, counted, since, rests })
    }

    /// Detaches a monitor; tells whether it was attached. What it knows stays.
    pub fn detach(&self, name: &str) -> Result<bool, Error> {
        let mut state = self.state.lock();
        let was = state.named(name).map(|known| known.since = None).is_some();
        self.apply(&mut state).map(|()| was)
    }

    /// What is attached under a name, with its options as they were written.
    pub fn options(&self, name: &str) -> Option<String> {
        self.state.lock().named(name).map(|known| known.text.clone())
    }

    /// Has one that is attached observe, or rest; tells whether there is one of that name.
    pub fn switch_one(&self, name: &str, on: bool) -> Result<bool, Error> {
        let mut state = self.state.lock();
        let Some(known) = state.named(name) else { return Ok(false) };
        known.rests = !on;
        self.apply(&mut state).map(|()| true)
    }

    /// Whether one that is attached observes.
    pub(crate) fn is_observing(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.attached().any(|(known, _)| known.name() == name && state.observes(known))
    }

    /// What became of each that is attached in the program's code.
    pub(crate) fn explain(&self) -> Vec<(Lowering, Census)> {
        let state = self.state.lock();
        state.attached().map(|(known, _)| (known.lowering.clone(), known.census)).collect()
    }

    /// Detaches all of them.
    pub fn detach_all(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.known.iter_mut().for_each(|known| known.since = None);
        self.apply(&mut state)
    }

    /// Has what is attached observe, or rest.
    pub fn switch(&self, on: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.is_off = !on;
        self.apply(&mut state)
    }

    /// Has the module's code be as what is attached wants it.
    fn apply(&self, state: &mut LiveState) -> Result<(), Error> {
        let active: Vec<usize> = state.order().into_iter().map(|(place, _)| place).collect();
        let is_active = |place: &usize| state.observes(&state.known[*place]);
        let active: Vec<usize> = active.into_iter().filter(is_active).collect();
        let known = &mut state.known;
        let parts: Vec<usize> = active.iter().filter_map(|place| known[*place].part).collect();
        let counting: Vec<usize> =
            active.into_iter().filter(|place| known[*place].working.hooked.is_none()).collect();
        let begun: Vec<(usize, Share)> =
            counting.iter().map(|place| (*place, known[*place].counted.clone())).collect();
        let begun = begun.into_iter().map(|(place, mut share)| {
            share.begin(&self.module);
            (place, share)
        });
        let begun: Vec<(usize, Share)> = begun.collect();
        let counted = |place: &usize| match known[*place].working.choice.wants_call_targets() {
            true => Counted::Targets,
            false => Counted::Edges,
        };
        let counts = counting.iter().map(counted).max().unwrap_or_default();
        self.module.observe(counts, &parts)?;
        begun.into_iter().for_each(|(place, share)| known[place].counted = share);
        let ended = known
            .iter_mut()
            .enumerate()
            .filter(|(place, known)| known.counted.goes_on() && !counting.contains(place));
        ended.for_each(|(_, known)| known.counted.end(&self.module));
        Ok(())
    }

    /// Whether something observes at the moment.
    pub fn is_on(&self) -> bool {
        let state = self.state.lock();
        state.attached().any(|(known, _)| state.observes(known))
    }

    /// How many events all that is attached has seen so far: accesses, calls, ways between blocks,
    /// whatever each is made of.
    pub fn events(&self) -> u64 {
        let state = self.state.lock();
        let mut counted = None;
        let events = |(known, _): (&KnownMonitor, Instant)| match &known.working.hooked {
            Some(hooked) => hooked.events(&self.module),
            None => *counted.get_or_insert_with(|| self.module.counted_events()),
        };
        state.attached().map(events).sum()
    }

    /// The names of what is attached, and since when.
    pub fn attached(&self) -> Vec<(&'static str, Instant)> {
        let state = self.state.lock();
        state.attached().map(|(known, since)| (known.name(), since)).collect()
    }

    /// What there is to say: all that is attached, or the one of that name.
    pub fn reports(&self, name: Option<&str>) -> Vec<Report> {
        let mut state = self.state.lock();
        let order = state.order().into_iter();
        let report = |(place, since): (usize, Instant)| {
            let KnownMonitor { working, counted, .. } = state.known.get_mut(place)?;
            if name.is_some_and(|name| working.choice.name() != name) {
                return None;
            }
            let module = &self.module;
            let counts = || module.counts_of(&counted.reading(module, &[])?);
            let mut report = working.report(module, counts)?;
            report.remark(format!(
                "attached for {:.1?}; what is being executed at this moment may be missing",
                since.elapsed()
            ));
            Some(report)
        };
        order.filter_map(report).collect()
    }
}
