//! Placement of host changes that the program has found.
//!
//! A recorder that observes only the program sees a change when the program reads it
//! ([`Event::Found`]), not when the host has made it. A replay may make it at any time at which the
//! host was active, provided that the program cannot observe the difference. The change is placed
//! at the **latest** host activity before it was found: directly before the last event that
//! transferred control to the program.
//!
//! Proof. Let the host have written value *v* to a place at activity *h*, let the program
//! find it at *o*, and let *l* be the last host activity before *o*; so *h* ≤ *l* < *o*.
//!
//! 1. Between *h* and *o* the program has not read the place: it would have found *v* there, and
//!    the change would have been recorded at that read. This needs every instruction that reads to
//!    be recorded: loads of every width, bulk operations, atomics, vectors, and those that grow
//!    something.
//! 2. Between *h* and *o* the program has not written to the place, or it would find its own value
//!    at *o*, which the recorder knows, and nothing would be recorded.
//! 3. If the host has written to it again after *h*, then at *o* the program has found the last of
//!    these values; the program has seen none of the earlier ones.
//!
//! By 1 and 2 no instruction between *h* and *l* depends on the place, so the program behaves the
//! same whether it is changed at *h* or at *l*; and between *l* and *o* its value is *v*, as
//! recorded. The order of changes to different places does not matter, since the program does not
//! read between them.
//!
//! A model below runs arbitrary programs with arbitrary hosts, and compares what they read.

use crate::error::Error;
use crate::event::Event;
use std::collections::VecDeque;

/// Events without [`Event::Found`]: each such change is placed where the host makes it.
#[derive(Debug)]
pub struct Placed<I> {
    events: I,
    /// The last event that transferred control to the program, if only changes have followed.
    held: Option<Event>,
    ready: VecDeque<Result<Event, Error>>,
    events_read: u64,
}

impl<I: Iterator<Item = Result<Event, Error>>> Placed<I> {
    /// Places the changes of a sequence of events.
    pub fn new(events: I) -> Self {
        Self { events, held: None, ready: VecDeque::new(), events_read: 0 }
    }

    /// Returns the underlying events.
    pub fn into_inner(self) -> I {
        self.events
    }

    fn take(&mut self, event: Result<Event, Error>) {
        match event {
            Ok(Event::Found(change)) => self.ready.push_back(Ok(Event::Host(change))),
            // It is no activity: changes that follow may still refer to it.
            Ok(Event::Function(signature)) => {
                self.ready.push_back(Ok(Event::Function(signature)));
            }
            Ok(event) if event.is_raw() => {
                let what = "a raw recording: make the usual trace of it by `wasm-aot reduce`";
                self.ready.push_back(Err(Error::event(self.events_read, what)));
            }
            other => {
                self.ready.extend(self.held.take().map(Ok));
                match other {
                    Ok(event) if event.enters_program() => self.held = Some(event),
                    other => self.ready.push_back(other),
                }
            }
        }
    }
}

impl<I: Iterator<Item = Result<Event, Error>>> Iterator for Placed<I> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.events.next() {
                Some(event) => {
                    self.take(event);
                    self.events_read += 1;
                }
                None => return self.held.take().map(Ok),
            }
        }
    }
}

#[cfg(test)]
mod model {
    //! Programs that read, write and call, with hosts that write and call back. What a program
    //! writes depends on all that it has read, so that one wrong value changes what follows.

    use super::*;
    use crate::event::{Change, Door, End};
    use arbtest::arbitrary::{Result, Unstructured};

    /// A step of a function of the program.
    #[derive(Debug)]
    enum Step {
        Read(usize),
        Write(usize),
        Call(Vec<HostStep>),
    }

    /// A step of the host.
    #[derive(Debug)]
    enum HostStep {
        Write(usize, u8),
        Enter(usize),
    }

    const PLACES: usize = 4;

    fn steps(
        u: &mut Unstructured<'_>,
        depth: usize,
        functions: &mut Vec<Vec<Step>>,
    ) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            let place = u.int_in_range(0..=PLACES - 1)?;
            steps.push(match u.int_in_range(0..=if depth == 0 { 3 } else { 5 })? {
                0 | 1 => Step::Read(place),
                2 | 3 => Step::Write(place),
                _ => Step::Call(host(u, depth - 1, functions)?),
            });
        }
        Ok(steps)
    }

    fn host(
        u: &mut Unstructured<'_>,
        depth: usize,
        functions: &mut Vec<Vec<Step>>,
    ) -> Result<Vec<HostStep>> {
        let mut actions = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            if u.arbitrary()? {
                let place = u.int_in_range(0..=PLACES - 1)?;
                actions.push(HostStep::Write(place, u.arbitrary()?));
            } else {
                let function = steps(u, depth, functions)?;
                functions.push(function);
                actions.push(HostStep::Enter(functions.len() - 1));
            }
        }
        Ok(actions)
    }

    /// A program in execution.
    #[derive(Default)]
    struct Machine {
        memory: [u8; PLACES],
        /// The values that the program has read.
        read: Vec<u8>,
        sum: u8,
        /// The recorder's model of the memory.
        shadow: [u8; PLACES],
        events: Vec<Event>,
    }

    impl Machine {
        fn read(&mut self, place: usize) {
            let value = self.memory[place];
            if self.shadow[place] != value {
                self.shadow[place] = value;
                self.events.push(Event::Found(write(place, value)));
            }
            self.read.push(value);
            self.sum = self.sum.wrapping_mul(3).wrapping_add(value);
        }

        fn write(&mut self, place: usize) {
            self.sum = self.sum.wrapping_add(1);
            (self.memory[place], self.shadow[place]) = (self.sum, self.sum);
        }

        fn record(&mut self, functions: &[Vec<Step>], actions: &[HostStep]) {
            for action in actions {
                match action {
                    HostStep::Write(place, value) => self.memory[*place] = *value,
                    HostStep::Enter(function) => {
                        let (door, args) = (Door::Reference, Vec::new());
                        self.events.push(Event::Enter { function: *function as u32, door, args });
                        for step in &functions[*function] {
                            match step {
                                Step::Read(place) => self.read(*place),
                                Step::Write(place) => self.write(*place),
                                Step::Call(actions) => {
                                    self.events.push(Event::Call { function: 0, args: Vec::new() });
                                    self.record(functions, actions);
                                    self.events.push(Event::Return(End::Values(Vec::new())));
                                }
                            }
                        }
                        self.events.push(Event::Leave(End::Values(Vec::new())));
                    }
                }
            }
        }

        /// Performs the host's actions up to the end of its call.
        fn replay(&mut self, functions: &[Vec<Step>], events: &mut impl Iterator<Item = Event>) {
            while let Some(event) = events.next() {
                match event {
                    Event::Host(Change::Write { address, bytes, .. }) => {
                        self.memory[address as usize] = bytes[0];
                    }
                    Event::Enter { function, .. } => {
                        for step in &functions[function as usize] {
                            match step {
                                Step::Read(place) => self.read(*place),
                                Step::Write(place) => self.write(*place),
                                Step::Call(_) => {
                                    assert!(matches!(events.next(), Some(Event::Call { .. })));
                                    self.replay(functions, events);
                                }
                            }
                        }
                        assert!(matches!(events.next(), Some(Event::Leave(_))));
                    }
                    Event::Return(_) => return,
                    other => panic!("{other} is placed by now"),
                }
            }
        }
    }

    fn write(place: usize, value: u8) -> Change {
        Change::Write { memory: 0, address: place as u64, bytes: vec![value] }
    }

    #[test]
    fn programs_read_the_same_when_changes_are_placed_late() {
        arbtest::arbtest(|u| {
            let mut functions = Vec::new();
            let top = host(u, 3, &mut functions)?;
            let mut recorded = Machine::default();
            recorded.record(&functions, &top);
            let placed = Placed::new(recorded.events.iter().cloned().map(Ok));
            let mut placed = placed.map(|event| event.expect("none has failed"));
            let mut replayed = Machine::default();
            replayed.replay(&functions, &mut placed);
            assert_eq!(placed.next(), None);
            assert_eq!(recorded.read, replayed.read);
            Ok(())
        });
    }
}
