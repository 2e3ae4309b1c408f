//! Every interleaving of actors at one probe with two sites.
//!
//! A step is one access to what is shared: a compare-and-swap of the word, or the store of one
//! site's byte. Locked instructions drain a core's stores (AMD64 APM volume 2, section 7.4.2), so
//! that sequences of steps cover all that can be observed.

use super::*;
use std::collections::HashSet;

const SITES: usize = 2;

/// The acts of one actor, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Enable,
    Disable,
    Rearm,
    /// The agent renews, after it has changed what the state means.
    Renew,
    /// A hook retires the term that it finds when it begins.
    Retire,
}

/// The progress of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// About to begin the act.
    Begin,
    /// About to change the word; a hook has read its term.
    Decide(Act),
    /// About to store the byte of this site, to apply this word.
    Store(usize, Word),
    /// About to release ownership.
    Release(Word),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Actor {
    requests: &'static [Request],
    at: At,
}

/// The rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// None.
    Whole,
    /// The owner does not read the state again before it releases ownership.
    NoSecondLook,
    /// There is no ownership: a thread that changes the state stores.
    NoOwnership,
    /// A hook retires the term that is current when it acts.
    NoTerms,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    word: Word,
    sites: [Switch; SITES],
    /// The meaning of the state: the agent increments it before it renews.
    meaning: u8,
    /// The meaning that each site was stored with.
    stored: [u8; SITES],
    actors: Vec<Actor>,
    /// Whether a term was retired in which no hook had begun.
    untimely: bool,
}

impl World {
    fn new(state: ProbeState, programs: &[&'static [Request]]) -> Self {
        let actors = programs.iter().map(|requests| Actor { requests, at: At::Begin }).collect();
        Self {
            word: Word::new(state),
            sites: [state.switch(); SITES],
            meaning: 0,
            stored: [0; SITES],
            actors,
            untimely: false,
        }
    }

    fn is_over(&self) -> bool {
        self.actors.iter().all(|actor| actor.requests.is_empty())
    }

    /// The world after one step of actor `i`; `None` if that actor is done.
    fn step(&self, i: usize, rule: Rule) -> Option<Self> {
        let mut next = self.clone();
        let actor = &mut next.actors[i];
        let request = *actor.requests.first()?;
        let done =
            |actor: &mut Actor| *actor = Actor { requests: &actor.requests[1..], at: At::Begin };
        match actor.at {
            At::Begin => {
                actor.at = At::Decide(match request {
                    Request::Enable => Act::Enable,
                    Request::Disable => Act::Disable,
                    Request::Rearm => Act::Rearm,
                    Request::Renew => {
                        next.meaning += 1;
                        Act::Renew
                    }
                    Request::Retire => Act::Retire(self.word.term()),
                });
            }
            At::Decide(act) => {
                let asked = match act {
                    Act::Retire(_) if rule == Rule::NoTerms => Act::Retire(self.word.term()),
                    act => act,
                };
                match self.word.after(asked) {
                    None => done(actor),
                    Some(word) => {
                        next.untimely |= asked != act;
                        next.word = word;
                        if rule == Rule::NoOwnership {
                            actor.at = At::Store(0, word);
                        } else if self.word.is_owned() {
                            done(actor);
                        } else {
                            actor.at = At::Store(0, word);
                        }
                    }
                }
            }
            At::Store(site, word) => {
                next.sites[site] = word.state().switch();
                next.stored[site] = self.meaning;
                actor.at =
                    if site + 1 < SITES { At::Store(site + 1, word) } else { At::Release(word) };
            }
            At::Release(word) => match rule {
                Rule::Whole | Rule::NoTerms if self.word != word => {
                    actor.at = At::Store(0, self.word);
                }
                Rule::Whole | Rule::NoTerms | Rule::NoSecondLook | Rule::NoOwnership => {
                    next.word = self.word.released();
                    done(actor);
                }
            },
        }
        Some(next)
    }

    /// The fault, if there is one, when all actors are done.
    fn fault(&self, user: &[Request]) -> Option<&'static str> {
        let state = self.word.state();
        let on = state == ProbeState::On;
        match user.last() {
            _ if self.word.is_owned() => Some("ownership was never released"),
            Some(Request::Disable) if state != ProbeState::Off => {
                Some("the user's last word was off")
            }
            Some(Request::Enable) if state == ProbeState::Off => {
                Some("the user's last word was on")
            }
            _ if on && self.sites.contains(&Switch::Off) => {
                Some("a probe was lost: armed, and a site is off")
            }
            _ if !on && self.sites.contains(&Switch::On) => Some("a probe was left on"),
            _ if self.stored.iter().any(|&stored| stored != self.meaning) => {
                Some("a site was stored with an old meaning")
            }
            _ => self.untimely.then_some("a term was retired in which no thread had counted"),
        }
    }
}

/// Explores every interleaving; returns the number of worlds, or the first fault.
fn explore(start: World, user: &[Request], rule: Rule) -> Result<usize, &'static str> {
    let (mut seen, mut open) = (HashSet::new(), vec![start]);
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if world.is_over()
            && let Some(fault) = world.fault(user)
        {
            return Err(fault);
        }
        open.extend((0..world.actors.len()).filter_map(|i| world.step(i, rule)));
    }
    Ok(seen.len())
}

const HOOK: &[Request] = &[Request::Retire];
const AGENT: &[Request] = &[Request::Rearm, Request::Rearm];
const PLANNER: &[Request] = &[Request::Renew, Request::Rearm, Request::Renew];
const USERS: [&[Request]; 5] = [
    &[],
    &[Request::Disable],
    &[Request::Enable],
    &[Request::Disable, Request::Enable],
    &[Request::Enable, Request::Disable],
];

/// All scenarios: a user, an agent, and two hooks that retire at the same time or one that does so
/// twice.
fn scenarios() -> impl Iterator<Item = (World, &'static [Request])> {
    let states = [ProbeState::On, ProbeState::Retired, ProbeState::Off];
    let crews: [&[&'static [Request]]; 3] =
        [&[HOOK, HOOK, AGENT], &[&[Request::Retire, Request::Retire], AGENT], &[HOOK, PLANNER]];
    states.into_iter().flat_map(move |state| {
        USERS.into_iter().flat_map(move |user| {
            crews.into_iter().map(move |crew| (World::new(state, &[crew, &[user]].concat()), user))
        })
    })
}

#[test]
fn no_interleaving_loses_a_probe_or_leaves_it_on() {
    let mut worlds = 0;
    for (start, user) in scenarios() {
        let shown = format!("{start:?}");
        worlds +=
            explore(start, user, Rule::Whole).unwrap_or_else(|fault| panic!("{fault}: {shown}"));
    }
    println!("{worlds} worlds");
    assert!(worlds > 10_000, "{worlds}");
}

/// The faults that occur under `rule`.
fn faults(rule: Rule) -> HashSet<&'static str> {
    scenarios().filter_map(|(start, user)| explore(start, user, rule).err()).collect()
}

#[test]
fn without_the_second_look_a_probe_is_lost() {
    assert!(
        faults(Rule::NoSecondLook)
            .iter()
            .any(|fault| fault.contains("lost") || fault.contains("left on"))
    );
}

#[test]
fn without_ownership_a_probe_is_lost_and_another_left_on() {
    let retire_and_rearm = World::new(ProbeState::On, &[HOOK, AGENT]);
    assert!(explore(retire_and_rearm, &[], Rule::NoOwnership).unwrap_err().contains("lost"));
    let user: &[Request] = &[Request::Disable];
    let rearm_and_disable = World::new(ProbeState::Retired, &[&[Request::Rearm], user]);
    assert!(explore(rearm_and_disable, user, Rule::NoOwnership).unwrap_err().contains("left on"));
}

#[test]
fn without_terms_a_late_hook_retires_the_next_one() {
    assert!(faults(Rule::NoTerms).iter().any(|fault| fault.contains("no thread had counted")));
}

#[test]
fn a_user_who_turns_a_probe_off_finds_its_sites_off_when_it_is_done() {
    // From then on only a user turns it on, so it suffices that no world without an owner has the
    // state off and a site on.
    for (start, _) in scenarios() {
        let (mut seen, mut open) = (HashSet::new(), vec![start]);
        while let Some(world) = open.pop() {
            if seen.insert(world.clone()) {
                let free_and_off = !world.word.is_owned() && world.word.state() == ProbeState::Off;
                assert!(!(free_and_off && world.sites.contains(&Switch::On)), "{world:?}");
                open.extend((0..world.actors.len()).filter_map(|i| world.step(i, Rule::Whole)));
            }
        }
    }
}
