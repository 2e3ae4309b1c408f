//! Custody: ownership of a probe, which decides which of several actors switches its sites.
//!
//! A probe has several sites, and three independent actors switch them: the hook that has seen
//! enough calls *retires* the probe, the agent arms it again for the next epoch, and the user turns
//! it on and off. Deciding and storing are two steps, and another actor may act between them. If a
//! retirement is decided first and stored last, the probe is off while all three believe that it is
//! on, for ever, since only a hook that runs retires. A late arming leaves a probe on that its user
//! turned off.
//!
//! So the decision and the stores are tied together. One word holds the wanted state and whether an
//! actor, the *carrier*, is applying it. An actor that changes the state while there is no carrier
//! becomes the carrier. An actor that changes it while there is one leaves: **before it releases
//! custody, the carrier reads the state again and applies what it then finds.** No actor ever
//! waits, not even a signal handler that has interrupted a carrier on its own thread.
//!
//! | state | sites | changed by, in which act |
//! |---|---|---|
//! | `On` | on | a hook: [`Act::Retire`] to `Retired`; the user: [`Act::Disable`] to `Off` |
//! | `Retired` | off | the agent: [`Act::Rearm`] to `On`; the user: [`Act::Disable`] to `Off` |
//! | `Off` | off | the user: [`Act::Enable`] to `On` |
//!
//! In every state the agent may change what on and off mean, and then has the state applied again
//! by [`Act::Renew`].
//!
//! Every arming begins a new *term* (sampling window). A hook retires the term in which it counted,
//! so a late one does not retire the next. The model enumerates every interleaving of these acts,
//! and shows what happens to a probe without the rule, and without terms.
//!
//! There is no unsafe code here, and the module knows nothing of sites: the caller passes the
//! stores as a closure.

use crate::x86::Switch;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(test)]
mod model;

/// The wanted state of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The user turned it off.
    Off,
    /// Armed.
    On,
    /// Off until the agent arms it again.
    Retired,
}

impl State {
    /// The switch of its sites in this state.
    pub const fn switch(self) -> Switch {
        match self {
            Self::On => Switch::On,
            Self::Off | Self::Retired => Switch::Off,
        }
    }
}

/// The time from one arming of a probe to the next. Wraps around after 2^29 terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term(u32);

impl Term {
    /// Its number, for records that distinguish terms.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The term with that number.
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// A request of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The user turns the probe on.
    Enable,
    /// The user turns it off.
    Disable,
    /// A hook has seen enough calls in this term.
    Retire(Term),
    /// The agent begins a new term.
    Rearm,
    /// The agent has changed what the state means: it is applied again, in a new term.
    Renew,
}

/// The result of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "the act may have been none, or not be done yet"]
pub enum Verdict {
    /// The state was changed and the sites are switched.
    Done,
    /// The state was changed; another thread is switching the sites and will apply it before it
    /// leaves.
    Delegated,
    /// Nothing was changed: the act does not apply in this state of the probe.
    Unchanged(State),
}

/// The wanted state of a probe, in 32 bits: two for the state, one that is set while an actor
/// applies it, the rest for its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(u32);

const STATE: u32 = 0b011;
const CARRIED: u32 = 0b100;
const TERM: u32 = 0b1000;

impl Word {
    const fn new(state: State) -> Self {
        Self(match state {
            State::Off => 0,
            State::On => 1,
            State::Retired => 2,
        })
    }

    const fn state(self) -> State {
        match self.0 & STATE {
            1 => State::On,
            2 => State::Retired,
            // Three is never written.
            _ => State::Off,
        }
    }

    const fn term(self) -> Term {
        Term(self.0 / TERM)
    }

    const fn is_carried(self) -> bool {
        self.0 & CARRIED != 0
    }

    const fn laid_down(self) -> Self {
        Self(self.0 & !CARRIED)
    }

    /// The word after `act`, which its actor or the present carrier applies; `None` if the act does
    /// not apply in this state.
    fn after(self, act: Act) -> Option<Self> {
        let (state, begins) = match (self.state(), act) {
            (State::Off, Act::Enable) | (State::Retired, Act::Rearm) => (State::On, true),
            // A new term, so that the carrier of the old word finds a different word when it reads
            // it again.
            (state, Act::Renew) => (state, true),
            (State::On | State::Retired, Act::Disable) => (State::Off, false),
            (State::On, Act::Retire(term)) if term == self.term() => (State::Retired, false),
            (State::Off, Act::Disable | Act::Retire(_) | Act::Rearm)
            | (State::On, Act::Enable | Act::Retire(_) | Act::Rearm)
            | (State::Retired, Act::Enable | Act::Retire(_)) => return None,
        };
        let term = if begins {
            (self.0 & !(STATE | CARRIED)).wrapping_add(TERM)
        } else {
            self.0 & !(STATE | CARRIED)
        };
        Some(Self(Self::new(state).0 | CARRIED | term))
    }
}

/// The wanted state of one probe, and whether an actor is applying it. Four bytes, so that many are
/// packed densely.
///
/// | bits | meaning | changed by |
/// | 0–1 | the state | any actor, by the table of the module |
/// | 0–1 | the state | any actor, by the table of the module |
/// | 2 | an actor applies the state | set by an actor that finds it clear; cleared by the same |
/// | 3–31 | the term | the actor that arms |
///
/// Every change is a compare-and-swap. So a carrier's stores come before its release of custody,
/// and the next carrier's stores after it took custody.
///
/// Changes and loads are sequentially consistent, for callers that add and remove sites. One thread
/// adds a site and then reads the state; another changes the state and then looks for sites. They
/// cannot both miss the other's change.
#[derive(Debug)]
pub struct Custody(AtomicU32);

impl Custody {
    /// Custody of a probe whose sites are in the state `state`.
    pub const fn new(state: State) -> Self {
        Self(AtomicU32::new(Word::new(state).0))
    }

    /// As [`new`](Self::new), in memory that exists already, for a probe that no actor uses yet.
    pub fn settle(&self, state: State) {
        self.0.store(Word::new(state).0, Ordering::SeqCst);
    }

    /// The wanted state.
    #[inline]
    pub fn state(&self) -> State {
        self.word().state()
    }

    /// The term that is running, or the last one.
    #[inline]
    pub fn term(&self) -> Term {
        self.word().term()
    }

    /// Whether an actor is still switching sites.
    pub fn is_carried(&self) -> bool {
        self.word().is_carried()
    }

    fn word(&self) -> Word {
        Word(self.0.load(Ordering::SeqCst))
    }

    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        self.0
            .compare_exchange(old.0, new.0, Ordering::SeqCst, Ordering::SeqCst)
            .map(drop)
            .map_err(Word)
    }

    /// Performs `act`. `carry_out` switches all sites of the probe; it may be called several times,
    /// or not at all. Never waits; usable in a signal handler if `carry_out` is.
    ///
    /// An error of `carry_out` is returned, and the state stays changed: the sites are then as
    /// `carry_out` left them. The last error counts.
    pub fn act<E>(
        &self,
        act: Act,
        mut carry_out: impl FnMut(Switch) -> Result<(), E>,
    ) -> Result<Verdict, E> {
        match self.begin(act) {
            Begun::Unchanged(state) => Ok(Verdict::Unchanged(state)),
            Begun::Delegated => Ok(Verdict::Delegated),
            Begun::Carrier(carrier) => {
                let result = carry_out(carrier.switch());
                carrier.lay_down_after(result, carry_out).map(|()| Verdict::Done)
            }
        }
    }

    /// The first half of [`act`](Self::act), for an actor with many probes. The actor begins the
    /// act on all of them, switches their sites by [`set_all`](crate::set_all), which opens pages
    /// once for all of them, and then releases custody.
    pub fn begin(&self, act: Act) -> Begun<'_> {
        let mut word = self.word();
        loop {
            let Some(next) = word.after(act) else { return Begun::Unchanged(word.state()) };
            match self.exchange(word, next) {
                Ok(()) if word.is_carried() => return Begun::Delegated,
                Ok(()) => return Begun::Carrier(Carrier { custody: self, word: next }),
                Err(found) => word = found,
            }
        }
    }

    /// In a forked child, whose only thread is the caller: applies the state that a thread of the
    /// parent was applying.
    pub fn inherit<E>(&self, mut carry_out: impl FnMut(Switch) -> Result<(), E>) -> Result<(), E> {
        let word = self.word();
        if !word.is_carried() {
            return Ok(());
        }
        let carrier = Carrier { custody: self, word };
        let result = carry_out(carrier.switch());
        carrier.lay_down_after(result, carry_out)
    }
}

/// The result of an act that was begun.
#[derive(Debug)]
#[must_use = "the act may be the caller's to carry out"]
pub enum Begun<'c> {
    /// The state was changed, and the caller applies it.
    Carrier(Carrier<'c>),
    /// As [`Verdict::Delegated`].
    Delegated,
    /// As [`Verdict::Unchanged`].
    Unchanged(State),
}

/// Custody, held by the caller: it switches the sites and then releases it.
#[derive(Debug)]
#[must_use = "sites have to be switched, and custody to be laid down"]
pub struct Carrier<'c> {
    custody: &'c Custody,
    word: Word,
}

impl Carrier<'_> {
    /// The state to which the sites must be switched.
    pub fn switch(&self) -> Switch {
        self.word.state().switch()
    }

    /// Releases custody after the sites are switched. If another actor has changed the wanted state
    /// meanwhile, `carry_out` switches the sites again first.
    pub fn lay_down<E>(self, carry_out: impl FnMut(Switch) -> Result<(), E>) -> Result<(), E> {
        self.lay_down_after(Ok(()), carry_out)
    }

    /// The same; `result` is that of the stores before.
    fn lay_down_after<E>(
        mut self,
        mut result: Result<(), E>,
        mut carry_out: impl FnMut(Switch) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Err(found) = self.custody.exchange(self.word, self.word.laid_down()) {
            self.word = found;
            result = carry_out(self.switch());
        }
        std::mem::forget(self);
        result
    }
}

impl Drop for Carrier<'_> {
    /// If `carry_out` has panicked, or the carrier was dropped without a release: other actors can
    /// take custody again.
    fn drop(&mut self) {
        self.custody.0.fetch_and(!CARRIED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::AtomicU8;

    fn nothing(_: Switch) -> Result<(), Infallible> {
        Ok(())
    }

    fn note(carried: &mut Vec<Switch>, switch: Switch) -> Result<(), Infallible> {
        carried.push(switch);
        Ok(())
    }

    #[test]
    fn an_act_leads_where_the_table_says_and_nowhere_else() {
        let table = [
            (State::On, Act::Retire(Term(0)), Some(State::Retired)),
            (State::On, Act::Disable, Some(State::Off)),
            (State::Retired, Act::Rearm, Some(State::On)),
            (State::Retired, Act::Disable, Some(State::Off)),
            (State::Off, Act::Enable, Some(State::On)),
            (State::On, Act::Enable, None),
            (State::On, Act::Rearm, None),
            (State::Retired, Act::Enable, None),
            (State::Retired, Act::Retire(Term(0)), None),
            (State::Off, Act::Disable, None),
            (State::Off, Act::Rearm, None),
            (State::Off, Act::Retire(Term(0)), None),
            (State::On, Act::Renew, Some(State::On)),
            (State::Retired, Act::Renew, Some(State::Retired)),
            (State::Off, Act::Renew, Some(State::Off)),
        ];
        for (from, act, to) in table {
            let custody = Custody::new(from);
            let mut carried = Vec::new();
            let verdict = custody.act(act, |switch| note(&mut carried, switch)).unwrap();
            assert_eq!(
                verdict,
                to.map_or(Verdict::Unchanged(from), |_| Verdict::Done),
                "{from:?} {act:?}"
            );
            assert_eq!((custody.state(), custody.is_carried()), (to.unwrap_or(from), false));
            assert_eq!(carried, to.map(State::switch).into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_hook_that_comes_late_does_not_retire_the_next_term() {
        let custody = Custody::new(State::On);
        let counted_in = custody.term();
        assert_eq!(custody.act(Act::Retire(counted_in), nothing), Ok(Verdict::Done));
        assert_eq!(custody.act(Act::Rearm, nothing), Ok(Verdict::Done));
        assert_eq!(
            custody.act(Act::Retire(counted_in), nothing),
            Ok(Verdict::Unchanged(State::On))
        );
    }

    #[test]
    fn who_is_interrupted_at_the_sites_carries_out_what_the_interrupter_wants() {
        let custody = Custody::new(State::On);
        let mut carried = Vec::new();
        let retired = custody.act(Act::Retire(custody.term()), |switch| {
            carried.push(switch);
            if carried.len() == 1 {
                assert_eq!(custody.act(Act::Rearm, nothing), Ok(Verdict::Delegated));
            }
            Ok::<(), Infallible>(())
        });
        assert_eq!((retired, custody.state()), (Ok(Verdict::Done), State::On));
        assert_eq!(carried, [Switch::Off, Switch::On]);
    }

    #[test]
    fn many_are_begun_then_switched_and_laid_down() {
        let custodies: Vec<Custody> = (0..10).map(|_| Custody::new(State::Retired)).collect();
        let begin = |custody| {
            if let Begun::Carrier(carrier) = Custody::begin(custody, Act::Rearm) {
                Some(carrier)
            } else {
                None
            }
        };
        let carriers: Vec<Carrier<'_>> = custodies.iter().filter_map(begin).collect();
        assert!(
            carriers.iter().all(|carrier| carrier.switch() == Switch::On)
                && custodies.iter().all(Custody::is_carried)
        );
        assert_eq!(custodies[4].act(Act::Disable, nothing), Ok(Verdict::Delegated));
        let mut again = Vec::new();
        for carrier in carriers {
            carrier.lay_down(|switch| note(&mut again, switch)).unwrap();
        }
        assert_eq!(again, [Switch::Off]);
        assert!(!custodies.iter().any(Custody::is_carried));
        assert!(matches!(custodies[4].begin(Act::Rearm), Begun::Unchanged(State::Off)));
    }

    #[test]
    fn a_failure_is_told_and_leaves_nobody_at_the_sites() {
        let custody = Custody::new(State::On);
        assert_eq!(custody.act(Act::Disable, |_| Err("foreign")), Err("foreign"));
        assert!(!custody.is_carried());
        let panics =
            || custody.act(Act::Enable, |_| -> Result<(), Infallible> { panic!("in the middle") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(!custody.is_carried());
    }

    #[test]
    fn a_forked_child_finishes_what_its_parent_was_carrying_out() {
        let custody = Custody(AtomicU32::new(Word::new(State::On).after(Act::Disable).unwrap().0));
        let mut carried = Vec::new();
        custody.inherit(|switch| note(&mut carried, switch)).unwrap();
        custody.inherit(|switch| note(&mut carried, switch)).unwrap();
        assert_eq!((carried, custody.is_carried()), (vec![Switch::Off], false));
    }

    #[test]
    fn terms_come_round() {
        let mut word = Word(!(STATE | CARRIED) | Word::new(State::Retired).0);
        let last = word.term();
        word = word.after(Act::Rearm).unwrap();
        assert_eq!((word.state(), word.term(), last.0), (State::On, Term(0), u32::MAX / TERM));
    }

    #[test]
    fn threads_that_switch_one_probe_leave_its_sites_as_its_state_says() {
        for _ in 0..200 {
            let custody = &Custody::new(State::On);
            let sites = &[const { AtomicU8::new(1) }; 2];
            let carry = |switch: Switch| {
                for site in sites {
                    site.store(switch as u8, Ordering::Release);
                    std::hint::spin_loop();
                }
                Ok::<(), Infallible>(())
            };
            std::thread::scope(|scope| {
                for acts in [[Act::Disable, Act::Enable], [Act::Rearm, Act::Rearm]] {
                    scope.spawn(move || {
                        (0..50).for_each(|i| assert!(custody.act(acts[i % 2], carry).is_ok()));
                    });
                }
                scope.spawn(move || {
                    (0..50).for_each(|_| {
                        assert!(custody.act(Act::Retire(custody.term()), carry).is_ok());
                    });
                });
            });
            assert!(!custody.is_carried());
            let wanted = custody.state().switch() as u8;
            assert!(
                sites.iter().all(|site| site.load(Ordering::Acquire) == wanted),
                "{:?}",
                custody.state()
            );
        }
    }
}
