//! Every interleaving of the agent's round with two threads that call functions, make a request,
//! and wait.
//!
//! A thread counts its calls one by one, makes a request, and ends when it is answered. What it had
//! counted when it made the request must be in the profile that was written by then.

use super::RoundStep;
use std::collections::HashSet;

const THREADS: usize = 2;
const CALLS: u8 = 2;

/// How a thread knows that it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// By the number of its request.
    Number,
    /// By any answer since it asked.
    AnyAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Calling,
    /// With the number of the request, and how many answers there had been.
    Waiting(u8, u8),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    threads: [At; THREADS],
    counted: [u8; THREADS],
    asked: u8,
    answered: u8,
    answers: u8,
    /// The agent's: its step, what it took, what it saw, what it wrote.
    step: usize,
    taken: Option<u8>,
    seen: [u8; THREADS],
    written: [u8; THREADS],
}

impl World {
    fn new() -> Self {
        let (threads, counted) = ([At::Calling; THREADS], [0; THREADS]);
        let (seen, written) = (counted, counted);
        Self {
            threads,
            counted,
            asked: 0,
            answered: 0,
            answers: 0,
            step: 0,
            taken: None,
            seen,
            written,
        }
    }

    /// The world after one step of thread `i`; `None` if the thread has to wait, or has ended.
    fn thread(&self, i: usize, known: Known) -> Option<Self> {
        let mut next = self.clone();
        match self.threads[i] {
            At::Calling if self.counted[i] < CALLS => next.counted[i] += 1,
            At::Calling => {
                next.asked += 1;
                next.threads[i] = At::Waiting(next.asked, self.answers);
            }
            At::Waiting(number, answers) => {
                let answered = match known {
                    Known::Number => self.answered >= number,
                    Known::AnyAnswer => self.answers != answers,
                };
                if !answered {
                    return None;
                }
                next.threads[i] = At::Over;
            }
            At::Over => return None,
        }
        Some(next)
    }

    /// After the agent's next step.
    fn agent(&self, round: &[RoundStep]) -> Self {
        let mut next = self.clone();
        next.step = (self.step + 1) % round.len();
        match round[self.step] {
            RoundStep::Take => next.taken = (self.asked != self.answered).then_some(self.asked),
            RoundStep::Look => next.seen = self.counted,
            RoundStep::Write if self.taken.is_some() => next.written = self.seen,
            RoundStep::Answer if self.taken.is_some() => {
                next.answered = self.taken.unwrap_or_default();
                next.answers += 1;
                next.taken = None;
            }
            RoundStep::Write | RoundStep::Answer => {}
        }
        next
    }
}

/// Whether some thread can end with calls of its own that are not in the profile, or can wait for
/// ever.
fn loses_calls(round: &[RoundStep], known: Known) -> bool {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new()]);
    let mut all_end = false;
    while let Some(world) = open.pop() {
        for (i, thread) in world.threads.iter().enumerate() {
            if *thread == At::Over && world.written[i] < CALLS {
                return true;
            }
        }
        all_end |= world.threads == [At::Over; THREADS];
        let threads = (0..THREADS).filter_map(|i| world.thread(i, known));
        let next: Vec<World> = threads.chain([world.agent(round)]).collect();
        open.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    !all_end
}

fn orders(steps: &[RoundStep]) -> Vec<Vec<RoundStep>> {
    if steps.is_empty() {
        return vec![Vec::new()];
    }
    let without = |i: usize| {
        steps
            .iter()
            .enumerate()
            .filter(move |(at, _)| *at != i)
            .map(|(_, step)| *step)
            .collect::<Vec<_>>()
    };
    let with =
        |i: usize| orders(&without(i)).into_iter().map(move |rest| [vec![steps[i]], rest].concat());
    (0..steps.len()).flat_map(with).collect()
}

/// The same order of steps for ever, wherever it begins.
fn is_the_round(order: &[RoundStep]) -> bool {
    (0..order.len()).any(|turn| [&super::ROUND[turn..], &super::ROUND[..turn]].concat() == order)
}

#[test]
fn a_thread_that_is_answered_finds_its_calls_in_the_profile() {
    assert!(!loses_calls(&super::ROUND, Known::Number));
}

#[test]
fn in_any_other_order_calls_are_lost() {
    let others: Vec<_> =
        orders(&super::ROUND).into_iter().filter(|order| !is_the_round(order)).collect();
    assert_eq!(others.len(), 24 - 4);
    for order in others {
        assert!(loses_calls(&order, Known::Number), "{order:?}");
    }
}

#[test]
fn without_numbers_a_thread_takes_the_answer_of_another_for_its_own() {
    assert!(loses_calls(&super::ROUND, Known::AnyAnswer));
}
