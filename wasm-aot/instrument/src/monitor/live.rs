//! Monitors that come and go while the program runs.

use super::hooked::{self, Hooked};
use super::{Choice, MonitorError, Report, Source};
use crate::lower::Census;
use crate::lower::{self, Capabilities, Facts, Lowering, Refusal, Time};
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Vec<Known>,
    /// Those that are attached, by their places among the known ones, and since when.
    attached: Vec<(usize, Instant)>,
    /// Those of them that rest by themselves, and whether all do.
    resting: Vec<usize>,
    is_off: bool,
}

/// A monitor that was attached once.
#[derive(Debug)]
struct Known {
    text: String,
    choice: Choice,
    /// What it is, and the number of its plan.
    hooks: Option<(Arc<dyn Hooked>, usize)>,
    /// What became of it in the program's code.
    lowering: Lowering,
    census: Census,
    /// Of what is counted, what it has seen, if it is made of counts.
    counted: Share,
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
        Self { module, state: Mutex::default() }
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
        let name = state.known[place].choice.name();
        let before = state.attached.clone();
        let State { known, attached, .. } = &mut *state;
        attached.retain(|(other, _)| known[*other].choice.name() != name);
        attached.push((place, Instant::now()));
        state.resting.retain(|other| *other != place);
        if let Err(error) = self.apply(&mut state) {
            state.attached = before;
            return Err(error.into());
        }
        Ok(name)
    }

    fn begin(&self, text: &str) -> Result<Known, LiveError> {
        let choice: Choice = text.parse()?;
        let capabilities = Capabilities::of_module(&self.module, Time::Running);
        let (facts, hooks) = match choice.kind.source {
            Source::Counts { .. } => (Facts::Counts, None),
            Source::Hooks(begin) => {
                let observer = begin(&choice)?;
                match lower::admit(&observer.facts(), &capabilities) {
                    Err(Refusal::Floods) => return Err(LiveError::Floods(choice.name())),
                    Err(_) => return Err(LiveError::FromTheBeginning(choice.name())),
                    Ok(()) => {}
                }
                let hooks = hooked::attach(&observer, &self.module)?;
                (observer.facts(), Some((observer, hooks)))
            }
        };
        let lowering = lower::lower(&[facts], &capabilities).swap_remove(0);
        let census = hooks.as_ref().map(|(_, (_, census))| *census).unwrap_or_default();
        let hooks = hooks.map(|(observer, (part, _))| (observer, part));
        let counted = Share::default();
        Ok(Known { text: text.to_owned(), choice, hooks, lowering, census, counted })
    }

    /// Detaches a monitor; tells whether it was attached. What it knows stays.
    pub fn detach(&self, name: &str) -> Result<bool, Error> {
        let mut state = self.state.lock();
        let before = state.attached.len();
        let State { known, attached, .. } = &mut *state;
        attached.retain(|(place, _)| known[*place].choice.name() != name);
        let was = attached.len() < before;
        self.apply(&mut state).map(|()| was)
    }

    /// What is attached under a name, with its options as they were written.
    pub fn options(&self, name: &str) -> Option<String> {
        let state = self.state.lock();
        let known = state
            .attached
            .iter()
            .map(|(place, _)| &state.known[*place])
            .find(|known| known.choice.name() == name);
        known.map(|known| known.text.clone())
    }

    /// Has one that is attached observe, or rest; tells whether there is one of that name.
    pub fn switch_one(&self, name: &str, on: bool) -> Result<bool, Error> {
        let mut state = self.state.lock();
        let State { known, attached, resting, .. } = &mut *state;
        let Some((place, _)) =
            attached.iter().find(|(place, _)| known[*place].choice.name() == name)
        else {
            return Ok(false);
        };
        resting.retain(|other| other != place);
        resting.extend((!on).then_some(*place));
        self.apply(&mut state).map(|()| true)
    }

    /// Whether one that is attached observes.
    pub(crate) fn is_observing(&self, name: &str) -> bool {
        let state = self.state.lock();
        let rests = |place: &usize| state.known[*place].choice.name() == name;
        !state.is_off && !state.resting.iter().any(rests)
    }

    /// What became of each that is attached in the program's code.
    pub(crate) fn explain(&self) -> Vec<(Lowering, Census)> {
        let state = self.state.lock();
        let known = state.attached.iter().map(|(place, _)| &state.known[*place]);
        known.map(|known| (known.lowering.clone(), known.census)).collect()
    }

    /// Detaches all of them.
    pub fn detach_all(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.attached.clear();
        self.apply(&mut state)
    }

    /// Has what is attached observe, or rest.
    pub fn switch(&self, on: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.is_off = !on;
        self.apply(&mut state)
    }

    /// Has the module's code be as what is attached wants it.
    fn apply(&self, state: &mut State) -> Result<(), Error> {
        let is_active = |place: &usize| !state.is_off && !state.resting.contains(place);
        let active: Vec<usize> = state
            .attached
            .iter()
            .map(|(place, _)| *place)
            .filter(|place| is_active(place))
            .collect();
        let known = &mut state.known;
        let parts: Vec<usize> = active
            .iter()
            .filter_map(|place| known[*place].hooks.as_ref().map(|(_, part)| *part))
            .collect();
        let counting: Vec<usize> =
            active.into_iter().filter(|place| known[*place].hooks.is_none()).collect();
        let begun: Vec<(usize, Share)> =
            counting.iter().map(|place| (*place, known[*place].counted.clone())).collect();
        let begun = begun.into_iter().map(|(place, mut share)| {
            share.begin(&self.module);
            (place, share)
        });
        let begun: Vec<(usize, Share)> = begun.collect();
        let counted = |place: &usize| match known[*place].choice.wants_call_targets() {
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
        !state.is_off && state.attached.iter().any(|(place, _)| !state.resting.contains(place))
    }

    /// How many events all that is attached has seen so far: accesses, calls, ways between blocks,
    /// whatever each is made of.
    pub fn events(&self) -> u64 {
        let state = self.state.lock();
        let of =
            |known: &Known| known.hooks.as_ref().map(|(observer, _)| observer.events(&self.module));
        let counts = || self.module.counted_events();
        let mut counted = None;
        state
            .attached
            .iter()
            .map(|(place, _)| {
                of(&state.known[*place]).unwrap_or_else(|| *counted.get_or_insert_with(counts))
            })
            .sum()
    }

    /// The names of what is attached, and since when.
    pub fn attached(&self) -> Vec<(&'static str, Instant)> {
        let state = self.state.lock();
        state
            .attached
            .iter()
            .map(|(place, since)| (state.known[*place].choice.name(), *since))
            .collect()
    }

    /// What there is to say: all that is attached, or the one of that name.
    pub fn reports(&self, name: Option<&str>) -> Vec<Report> {
        let mut state = self.state.lock();
        let State { known, attached, .. } = &mut *state;
        let is_wanted = |known: &Known| name.is_none_or(|name| known.choice.name() == name);
        attached
            .iter()
            .filter_map(|(place, since)| {
                let known = known.get_mut(*place).filter(|known| is_wanted(known))?;
                let mut report = match &known.hooks {
                    Some((observer, _)) => {
                        Report { shown: known.choice.top(), ..observer.report(&self.module) }
                    }
                    None => {
                        let counts =
                            self.module.counts_of(&known.counted.reading(&self.module, &[])?)?;
                        known.choice.report_of(&counts)?
                    }
                };
                let note = format!(
                    "attached for {:.1?}; what is being executed at this moment may be missing",
                    since.elapsed()
                );
                known
                    .choice
                    .nobody(&self.module)
                    .into_iter()
                    .for_each(|nobody| report.remark(nobody));
                report.remark(note);
                Some(report)
            })
            .collect()
    }
}
