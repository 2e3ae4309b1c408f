//! Probe ownership: which of several actors switches the sites of a probe, and how it hands off.
//!
//! A probe has several sites, and three independent actors switch them: the hook that has seen
//! enough calls *retires* the probe, the agent arms it again for the next epoch, and the user turns
//! it on and off. Deciding and storing are two steps, and another actor may act between them. If a
//! retirement is decided first and stored last, the probe is off while all three believe that it is
//! on, for ever, since only a hook that runs retires. A late arming leaves a probe on that its user
//! turned off.
//!
//! So the decision and the stores are tied together. One word holds the wanted state and whether an
//! actor, the *owner*, is applying it. An actor that changes the state while there is no owner
//! becomes the owner. An actor that changes it while there is one leaves: **before it releases
//! ownership, the owner reads the state again and applies what it then finds.** No actor ever
//! waits, not even a signal handler that has interrupted an owner on its own thread.
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
pub enum ProbeState {
    /// The user turned it off.
    Off,
    /// Armed.
    On,
    /// Off until the agent arms it again.
    Retired,
}

impl ProbeState {
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
    Unchanged(ProbeState),
}

/// The wanted state of a probe, in 32 bits: two for the state, one that is set while an actor
/// applies it, the rest for its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(u32);

const STATE: u32 = 0b011;
const OWNED: u32 = 0b100;
const TERM: u32 = 0b1000;

impl Word {
    const fn new(state: ProbeState) -> Self {
        Self(match state {
            ProbeState::Off => 0,
            ProbeState::On => 1,
            ProbeState::Retired => 2,
        })
    }

    const fn state(self) -> ProbeState {
        match self.0 & STATE {
            1 => ProbeState::On,
            2 => ProbeState::Retired,
            // Three is never written.
            _ => ProbeState::Off,
        }
    }

    const fn term(self) -> Term {
        Term(self.0 / TERM)
    }

    const fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }

    const fn released(self) -> Self {
        Self(self.0 & !OWNED)
    }

    /// The word after `act`, which its actor or the present owner applies; `None` if the act does
    /// not apply in this state.
    fn after(self, act: Act) -> Option<Self> {
        let (state, begins) = match (self.state(), act) {
            (ProbeState::Off, Act::Enable) | (ProbeState::Retired, Act::Rearm) => {
                (ProbeState::On, true)
            }
            // A new term, so that the owner of the old word finds a different word when it reads
            // it again.
            (state, Act::Renew) => (state, true),
            (ProbeState::On | ProbeState::Retired, Act::Disable) => (ProbeState::Off, false),
            (ProbeState::On, Act::Retire(term)) if term == self.term() => {
                (ProbeState::Retired, false)
            }
            (ProbeState::Off, Act::Disable | Act::Retire(_) | Act::Rearm)
            | (ProbeState::On, Act::Enable | Act::Retire(_) | Act::Rearm)
            | (ProbeState::Retired, Act::Enable | Act::Retire(_)) => return None,
        };
        let term = if begins {
            (self.0 & !(STATE | OWNED)).wrapping_add(TERM)
        } else {
            self.0 & !(STATE | OWNED)
        };
        Some(Self(Self::new(state).0 | OWNED | term))
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
/// Every change is a compare-and-swap. So an owner's stores come before its release of ownership,
/// and the next owner's stores after it took ownership.
///
/// Changes and loads are sequentially consistent, for callers that add and remove sites. One thread
/// adds a site and then reads the state; another changes the state and then looks for sites. They
/// cannot both miss the other's change.
#[derive(Debug)]
pub struct Ownership(AtomicU32);

impl Ownership {
    /// Ownership of a probe whose sites are in the state `state`.
    pub const fn new(state: ProbeState) -> Self {
        Self(AtomicU32::new(Word::new(state).0))
    }

    /// As [`new`](Self::new), in memory that exists already, for a probe that no actor uses yet.
    pub fn init(&self, state: ProbeState) {
        self.0.store(Word::new(state).0, Ordering::SeqCst);
    }

    /// The wanted state.
    #[inline]
    pub fn state(&self) -> ProbeState {
        self.word().state()
    }

    /// The term that is running, or the last one.
    #[inline]
    pub fn term(&self) -> Term {
        self.word().term()
    }

    /// Whether an actor is still switching sites.
    pub fn is_owned(&self) -> bool {
        self.word().is_owned()
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

    /// Performs `act`. `apply` switches all sites of the probe; it may be called several times, or
    /// not at all. Never waits; usable in a signal handler if `apply` is.
    ///
    /// An error of `apply` is returned, and the state stays changed: the sites are then as `apply`
    /// left them. The last error counts.
    pub fn act<E>(
        &self,
        act: Act,
        mut apply: impl FnMut(Switch) -> Result<(), E>,
    ) -> Result<Verdict, E> {
        match self.begin_act(act) {
            Begun::Unchanged(state) => Ok(Verdict::Unchanged(state)),
            Begun::Delegated => Ok(Verdict::Delegated),
            Begun::Owner(owner) => {
                let result = apply(owner.switch());
                owner.release_after(result, apply).map(|()| Verdict::Done)
            }
        }
    }

    /// The first half of [`act`](Self::act), for an actor with many probes. The actor begins the
    /// act on all of them, switches their sites by [`set_all`](crate::set_all), which opens pages
    /// once for all of them, and then releases ownership.
    pub fn begin_act(&self, act: Act) -> Begun<'_> {
        let mut word = self.word();
        loop {
            let Some(next) = word.after(act) else { return Begun::Unchanged(word.state()) };
            match self.exchange(word, next) {
                Ok(()) if word.is_owned() => return Begun::Delegated,
                Ok(()) => return Begun::Owner(Owner { ownership: self, word: next }),
                Err(found) => word = found,
            }
        }
    }

    /// In a forked child, whose only thread is the caller: applies the state that a thread of the
    /// parent was applying.
    pub fn inherit<E>(&self, mut apply: impl FnMut(Switch) -> Result<(), E>) -> Result<(), E> {
        let word = self.word();
        if !word.is_owned() {
            return Ok(());
        }
        let owner = Owner { ownership: self, word };
        let result = apply(owner.switch());
        owner.release_after(result, apply)
    }
}

/// The result of an act that was begun.
#[derive(Debug)]
#[must_use = "the act may be the caller's to carry out"]
pub enum Begun<'c> {
    /// The state was changed, and the caller applies it.
    Owner(Owner<'c>),
    /// As [`Verdict::Delegated`].
    Delegated,
    /// As [`Verdict::Unchanged`].
    Unchanged(ProbeState),
}

/// Ownership of a probe, held by the caller: it switches the sites and then releases it.
#[derive(Debug)]
#[must_use = "sites have to be switched, and ownership to be released"]
pub struct Owner<'c> {
    ownership: &'c Ownership,
    word: Word,
}

impl Owner<'_> {
    /// The state to which the sites must be switched.
    pub fn switch(&self) -> Switch {
        self.word.state().switch()
    }

    /// Releases ownership after the sites are switched. If another actor has changed the wanted
    /// state meanwhile, `apply` switches the sites again first.
    pub fn release<E>(self, apply: impl FnMut(Switch) -> Result<(), E>) -> Result<(), E> {
        self.release_after(Ok(()), apply)
    }

    /// The same; `result` is that of the stores before.
    fn release_after<E>(
        mut self,
        mut result: Result<(), E>,
        mut apply: impl FnMut(Switch) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Err(found) = self.ownership.exchange(self.word, self.word.released()) {
            self.word = found;
            result = apply(self.switch());
        }
        std::mem::forget(self);
        result
    }
}

impl Drop for Owner<'_> {
    /// If `apply` has panicked, or the owner was dropped without a release: other actors can take
    /// ownership again.
    fn drop(&mut self) {
        self.ownership.0.fetch_and(!OWNED, Ordering::Release);
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

    fn note(applied: &mut Vec<Switch>, switch: Switch) -> Result<(), Infallible> {
        applied.push(switch);
        Ok(())
    }

    #[test]
    fn an_act_leads_where_the_table_says_and_nowhere_else() {
        let table = [
            (ProbeState::On, Act::Retire(Term(0)), Some(ProbeState::Retired)),
            (ProbeState::On, Act::Disable, Some(ProbeState::Off)),
            (ProbeState::Retired, Act::Rearm, Some(ProbeState::On)),
            (ProbeState::Retired, Act::Disable, Some(ProbeState::Off)),
            (ProbeState::Off, Act::Enable, Some(ProbeState::On)),
            (ProbeState::On, Act::Enable, None),
            (ProbeState::On, Act::Rearm, None),
            (ProbeState::Retired, Act::Enable, None),
            (ProbeState::Retired, Act::Retire(Term(0)), None),
            (ProbeState::Off, Act::Disable, None),
            (ProbeState::Off, Act::Rearm, None),
            (ProbeState::Off, Act::Retire(Term(0)), None),
            (ProbeState::On, Act::Renew, Some(ProbeState::On)),
            (ProbeState::Retired, Act::Renew, Some(ProbeState::Retired)),
            (ProbeState::Off, Act::Renew, Some(ProbeState::Off)),
        ];
        for (from, act, to) in table {
            let ownership = Ownership::new(from);
            let mut applied = Vec::new();
            let verdict = ownership.act(act, |switch| note(&mut applied, switch)).unwrap();
            assert_eq!(
                verdict,
                to.map_or(Verdict::Unchanged(from), |_| Verdict::Done),
                "{from:?} {act:?}"
            );
            assert_eq!((ownership.state(), ownership.is_owned()), (to.unwrap_or(from), false));
            assert_eq!(applied, to.map(ProbeState::switch).into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_hook_that_comes_late_does_not_retire_the_next_term() {
        let ownership = Ownership::new(ProbeState::On);
        let counted_in = ownership.term();
        assert_eq!(ownership.act(Act::Retire(counted_in), nothing), Ok(Verdict::Done));
        assert_eq!(ownership.act(Act::Rearm, nothing), Ok(Verdict::Done));
        assert_eq!(
            ownership.act(Act::Retire(counted_in), nothing),
            Ok(Verdict::Unchanged(ProbeState::On))
        );
    }

    #[test]
    fn an_owner_that_is_interrupted_at_the_sites_applies_what_the_interrupter_wants() {
        let ownership = Ownership::new(ProbeState::On);
        let mut applied = Vec::new();
        let retired = ownership.act(Act::Retire(ownership.term()), |switch| {
            applied.push(switch);
            if applied.len() == 1 {
                assert_eq!(ownership.act(Act::Rearm, nothing), Ok(Verdict::Delegated));
            }
            Ok::<(), Infallible>(())
        });
        assert_eq!((retired, ownership.state()), (Ok(Verdict::Done), ProbeState::On));
        assert_eq!(applied, [Switch::Off, Switch::On]);
    }

    #[test]
    fn many_are_begun_then_switched_and_released() {
        let ownerships: Vec<Ownership> =
            (0..10).map(|_| Ownership::new(ProbeState::Retired)).collect();
        let begin = |ownership| {
            if let Begun::Owner(owner) = Ownership::begin_act(ownership, Act::Rearm) {
                Some(owner)
            } else {
                None
            }
        };
        let owners: Vec<Owner<'_>> = ownerships.iter().filter_map(begin).collect();
        assert!(
            owners.iter().all(|owner| owner.switch() == Switch::On)
                && ownerships.iter().all(Ownership::is_owned)
        );
        assert_eq!(ownerships[4].act(Act::Disable, nothing), Ok(Verdict::Delegated));
        let mut again = Vec::new();
        for owner in owners {
            owner.release(|switch| note(&mut again, switch)).unwrap();
        }
        assert_eq!(again, [Switch::Off]);
        assert!(!ownerships.iter().any(Ownership::is_owned));
        assert!(matches!(ownerships[4].begin_act(Act::Rearm), Begun::Unchanged(ProbeState::Off)));
    }

    #[test]
    fn a_failure_is_returned_and_leaves_no_owner() {
        let ownership = Ownership::new(ProbeState::On);
        assert_eq!(ownership.act(Act::Disable, |_| Err("foreign")), Err("foreign"));
        assert!(!ownership.is_owned());
        let panics = || {
            ownership.act(Act::Enable, |_| -> Result<(), Infallible> { panic!("in the middle") })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(!ownership.is_owned());
    }

    #[test]
    fn a_forked_child_finishes_what_its_parent_was_applying() {
        let ownership =
            Ownership(AtomicU32::new(Word::new(ProbeState::On).after(Act::Disable).unwrap().0));
        let mut applied = Vec::new();
        ownership.inherit(|switch| note(&mut applied, switch)).unwrap();
        ownership.inherit(|switch| note(&mut applied, switch)).unwrap();
        assert_eq!((applied, ownership.is_owned()), (vec![Switch::Off], false));
    }

    #[test]
    fn terms_come_round() {
        let mut word = Word(!(STATE | OWNED) | Word::new(ProbeState::Retired).0);
        let last = word.term();
        word = word.after(Act::Rearm).unwrap();
        assert_eq!((word.state(), word.term(), last.0), (ProbeState::On, Term(0), u32::MAX / TERM));
    }

    #[test]
    fn threads_that_switch_one_probe_leave_its_sites_as_its_state_says() {
        for _ in 0..200 {
            let ownership = &Ownership::new(ProbeState::On);
            let sites = &[const { AtomicU8::new(1) }; 2];
            let apply = |switch: Switch| {
                for site in sites {
                    site.store(switch as u8, Ordering::Release);
                    std::hint::spin_loop();
                }
                Ok::<(), Infallible>(())
            };
            std::thread::scope(|scope| {
                for acts in [[Act::Disable, Act::Enable], [Act::Rearm, Act::Rearm]] {
                    scope.spawn(move || {
                        (0..50).for_each(|i| assert!(ownership.act(acts[i % 2], apply).is_ok()));
                    });
                }
                scope.spawn(move || {
                    (0..50).for_each(|_| {
                        assert!(ownership.act(Act::Retire(ownership.term()), apply).is_ok());
                    });
                });
            });
            assert!(!ownership.is_owned());
            let wanted = ownership.state().switch() as u8;
            assert!(
                sites.iter().all(|site| site.load(Ordering::Acquire) == wanted),
                "{:?}",
                ownership.state()
            );
        }
    }
}
