//! A model of the switch between variants: every state that a thread may see while bytes and words
//! are stored one after the other, and where the thread continues from there.
//!
//! The protocol ([`Variants::switch`](super::variant::Variants::switch)) stores, of one function
//! with one loop, in this order:
//!
//! ```text
//!   making      distance of the entry's jump, behind a byte that makes nothing of it; a barrier
//!   switching   1. entry, loop and back-edge bytes of the new variant off
//!               2. the slot that the stub jumps through
//!               3. the table's word, if the new variant has entries for loops
//!               4. bytes of the others on: all of the variant before, or, if the new one has no
//!                  entries, only that of its entry
//!   entering    a variant that gets entries later: the table's word, then the bytes of all others
//!   deferring   the late stub; then the slot, which leads there; then the entry byte of the variant
//!               before, on
//!   arriving    at the late stub, under the lock: the variant is made and switched to, and the slot
//!               is read again
//! ```
//!
//! A thread may see each byte of code as it was at any time since the last barrier, however it sees
//! the others: it may have been fetched long ago. Slot and word are data, which it reads when it
//! has executed the byte that leads there: they are no older than the newest byte that it has seen.
//! Whatever it sees:
//!
//! - it reaches code that exists: it reads neither a slot nor a word that leads nowhere, and takes
//!   no jump whose distance was not written;
//! - as soon as it sees what is stored by now, it executes the function, and does not change
//!   variants for ever without an iteration of the loop;
//! - when a switch is over, each call leads to the current variant, and each turn if that has
//!   entries; and the current variant runs over its own places, so that it costs nothing;
//! - while a function is late, each call leads to the late stub.
//!
//! Every sequence of switches among three variants is tried, four at a time. With a step left out,
//! or two exchanged, one of the three fails, and says what.

use std::collections::BTreeSet;

/// The plain variant and two others.
const VARIANTS: usize = 3;

/// Represents a variant that is compiled when it is called.
const LATE: usize = VARIANTS;

/// A byte or word that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// The byte before the function: on, it jumps to the stub.
    Entry(usize),
    /// The byte at the loop's header: on, it jumps to the cold block.
    Loop(usize),
    /// The lowest byte of the branch back: on, it leads to the header, off, behind the header's
    /// place.
    Back(usize),
    /// The distance of the entry's jump: whether it was written.
    Distance(usize),
    /// Where the stub jumps to.
    Slot,
    /// Where the cold block goes.
    Word,
}

/// What is stored: of bytes and distances whether they are on; of slot and word a variant, and one
/// more.
type Value = usize;

/// A step of the protocol, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    DistanceIsWritten,
    BarrierAfterMaking,
    NewEntryOff,
    NewLoopOff,
    NewBackEdgeOff,
    Slot,
    Word,
    OldEntryOn,
    OldLoopOn,
    OldBackEdgeOn,
    EnteringWord,
    EnteringOthersOn,
    LateStub,
}

impl Step {
    const ALL: [Self; 13] = [
        Self::DistanceIsWritten,
        Self::BarrierAfterMaking,
        Self::NewEntryOff,
        Self::NewLoopOff,
        Self::NewBackEdgeOff,
        Self::Slot,
        Self::Word,
        Self::OldEntryOn,
        Self::OldLoopOn,
        Self::OldBackEdgeOn,
        Self::EnteringWord,
        Self::EnteringOthersOn,
        Self::LateStub,
    ];
}

/// How the protocol is executed.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    without: Option<Step>,
    /// Whether the variant before is switched on first.
    is_hasty: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Another variant is to be current: for calls, or for iterations of loops too.
    Switch { to: usize, turns: bool },
    /// The current variant gets entries.
    Enter,
    /// A variant is to be current as soon as the function is called.
    Defer { to: usize },
    /// The function is called at the late stub.
    Arrive,
}

/// The description of an error.
type Wrong = String;

/// The function's bytes and words, and what is known of its variants.
#[derive(Clone, Debug)]
struct Model {
    manner: Manner,
    /// How many stores there were.
    stores: usize,
    entry: [ModelCell; VARIANTS],
    looped: [ModelCell; VARIANTS],
    back: [ModelCell; VARIANTS],
    distance: [ModelCell; VARIANTS],
    slot: ModelCell,
    word: ModelCell,
    /// Which exist; and the late stub.
    made: [bool; VARIANTS + 1],
    /// Which have entries for loops; the late stub has none.
    entered: [bool; VARIANTS + 1],
    current: usize,
    /// The variant that is compiled when the function is called, while it is late.
    goal: usize,
}

/// A location, as different threads may see it: its values since the last barrier, and by which
/// store it has each.
#[derive(Clone, Debug)]
struct ModelCell(Vec<(usize, Value)>);

/// Which values a thread sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sight {
    /// The current values.
    Now,
    /// Any values since the last barrier, if it has seen that store already.
    Late(usize),
}

impl Sight {
    /// It has seen that store, too.
    fn and(self, store: usize) -> Self {
        match self {
            Self::Now => Self::Now,
            Self::Late(seen) => Self::Late(seen.max(store)),
        }
    }
}

impl ModelCell {
    fn new(value: Value) -> Self {
        Self(vec![(0, value)])
    }

    fn now(&self) -> (usize, Value) {
        self.0[self.0.len() - 1]
    }

    /// The values of a byte of code that a thread may see.
    fn fetched(&self, sight: Sight) -> Vec<(usize, Value)> {
        if sight == Sight::Now { vec![self.now()] } else { self.0.clone() }
    }

    /// The values of a word that a thread may see: no older than what it has seen.
    fn loaded(&self, sight: Sight) -> Vec<(usize, Value)> {
        let Sight::Late(seen) = sight else { return vec![self.now()] };
        let first = self.0.iter().rposition(|(store, _)| *store <= seen).unwrap_or(0);
        self.0[first..].to_vec()
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// Before the function in a variant.
    Call(usize),
    /// At the loop's header.
    Header(usize),
    /// At the branch back.
    Turn(usize),
    /// In the function, for a turn at least.
    Body(usize),
    /// At the late stub.
    Late,
}

impl Model {
    /// A module whose code is ready to be left: stub and slot lead to the plain variant.
    fn new(manner: Manner) -> Self {
        let off = || std::array::from_fn(|_| ModelCell::new(0));
        let mut model = Self {
            manner,
            stores: 0,
            entry: off(),
            looped: off(),
            back: off(),
            distance: off(),
            slot: ModelCell::new(1),
            word: ModelCell::new(0),
            made: [false; VARIANTS + 1],
            entered: [false; VARIANTS + 1],
            current: 0,
            goal: 0,
        };
        model.make(0, false);
        model
    }

    fn cell(&mut self, at: Location) -> &mut ModelCell {
        match at {
            Location::Entry(of) => &mut self.entry[of],
            Location::Loop(of) => &mut self.looped[of],
            Location::Back(of) => &mut self.back[of],
            Location::Distance(of) => &mut self.distance[of],
            Location::Slot => &mut self.slot,
            Location::Word => &mut self.word,
        }
    }

    fn store(&mut self, at: Location, value: Value) {
        self.stores += 1;
        let store = self.stores;
        self.cell(at).0.push((store, value));
    }

    fn is_done(&self, step: Step) -> bool {
        self.manner.without != Some(step)
    }

    /// From now on all threads see the current values.
    fn barrier(&mut self) {
        let all = (0..VARIANTS).flat_map(|of| {
            [Location::Entry(of), Location::Loop(of), Location::Back(of), Location::Distance(of)]
        });
        for at in all.chain([Location::Slot, Location::Word]) {
            let cell = self.cell(at);
            cell.0.drain(..cell.0.len() - 1);
        }
    }

    /// Compiles a variant, or its entries.
    fn make(&mut self, of: usize, entries: bool) {
        if !self.made[of] && self.is_done(Step::DistanceIsWritten) {
            self.store(Location::Distance(of), 1);
        }
        self.made[of] = true;
        self.entered[of] |= entries;
        if self.is_done(Step::BarrierAfterMaking) {
            self.barrier();
        }
    }

    /// The stores of a request, by the steps that they belong to.
    fn stores(&self, wish: Wish) -> Vec<(Step, Location, Value)> {
        let places = |of: usize, on: usize, steps: [Step; 3]| {
            let [entry, looped, back] = steps;
            [
                (entry, Location::Entry(of), on),
                (looped, Location::Loop(of), on),
                (back, Location::Back(of), on),
            ]
        };
        let enter = |to: usize| {
            let others = (0..VARIANTS).filter(move |of| *of != to && self.made[*of]);
            let on = others.flat_map(move |of| places(of, 1, [Step::EnteringOthersOn; 3]));
            std::iter::once((Step::EnteringWord, Location::Word, to + 1)).chain(on)
        };
        let to = match wish {
            Wish::Switch { to, .. } => to,
            Wish::Defer { .. } => LATE,
            Wish::Arrive => self.goal,
            Wish::Enter => return enter(self.current).collect(),
        };
        let from = self.current;
        // The late stub has no places.
        let places = |of: usize, on: usize, steps: [Step; 3]| match of {
            LATE => Vec::new(),
            _ => places(of, on, steps).to_vec(),
        };
        let new = places(to, 0, [Step::NewEntryOff, Step::NewLoopOff, Step::NewBackEdgeOff]);
        let slot = vec![(Step::Slot, Location::Slot, to + 1)];
        let old = places(from, 1, [Step::OldEntryOn, Step::OldLoopOn, Step::OldBackEdgeOn]);
        let (word, old) = match (self.entered[to], self.entered[from]) {
            (false, _) => (Vec::new(), old.into_iter().take(1).collect()),
            (true, true) => (vec![(Step::Word, Location::Word, to + 1)], old),
            (true, false) => (Vec::new(), enter(to).collect()),
        };
        match self.manner.is_hasty {
            false => [new, slot, word, old].concat(),
            true => [old, new, slot, word].concat(),
        }
    }

    /// Executes a request; after each store, all states that a thread may see are checked.
    fn grant(&mut self, wish: Wish) -> Result<(), Wrong> {
        match wish {
            Wish::Switch { to, turns } => {
                if to == self.current {
                    return Ok(());
                }
                self.make(to, turns);
            }
            Wish::Defer { to } => {
                self.goal = to;
                self.made[LATE] |= self.is_done(Step::LateStub);
                if self.current == LATE {
                    return Ok(());
                }
            }
            // Only late functions arrive, and only compiled variants have loops.
            Wish::Arrive if self.current != LATE => return Ok(()),
            Wish::Arrive => self.make(self.goal, false),
            Wish::Enter if self.current == LATE => return Ok(()),
            Wish::Enter => self.make(self.current, true),
        }
        let stores = self.stores(wish);
        if matches!(wish, Wish::Defer { .. }) {
            // A thread that comes to the late stub waits for the lock first.
            self.current = LATE;
        }
        for (step, at, value) in stores {
            if self.is_done(step) {
                self.store(at, value);
            }
            self.is_safe().map_err(|wrong| format!("{wish:?}, at {step:?}: {wrong}"))?;
            self.goes_on().map_err(|wrong| format!("{wish:?}, after {step:?}: {wrong}"))?;
        }
        match wish {
            Wish::Switch { to, .. } => self.current = to,
            Wish::Arrive => self.current = self.goal,
            Wish::Defer { .. } | Wish::Enter => {}
        }
        self.has_arrived().map_err(|wrong| format!("{wish:?}, in the end: {wrong}"))
    }

    /// The places that a thread may reach from a place, by what it may see, and what it has seen
    /// then.
    fn next(&self, at: At, sight: Sight) -> Result<Vec<(At, Sight)>, Wrong> {
        let led = |cell: &ModelCell, is_loop: bool, sight: Sight| -> Result<Vec<_>, Wrong> {
            let to = |(store, value): (usize, Value)| {
                let of = value.checked_sub(1).ok_or_else(|| format!("{at:?} leads nowhere"))?;
                match is_loop {
                    true if !self.entered[of] => {
                        Err(format!("{at:?} leads to an entry of {of} that is not there"))
                    }
                    true => Ok((At::Header(of), sight.and(store))),
                    false if !self.made[of] => Err(format!("{at:?} leads to {of}, not there yet")),
                    false if of == LATE => Ok((At::Late, sight.and(store))),
                    false => Ok((At::Body(of), sight.and(store))),
                }
            };
            cell.loaded(sight).into_iter().map(to).collect()
        };
        let mut found = Vec::new();
        match at {
            At::Call(of) => {
                for (store, on) in self.entry[of].fetched(sight) {
                    if on == 0 {
                        found.push((At::Body(of), sight.and(store)));
                        continue;
                    }
                    if self.distance[of].fetched(sight).iter().any(|(_, written)| *written == 0) {
                        return Err(format!("{at:?} jumps by a distance that was not written"));
                    }
                    found.extend(led(&self.slot, false, sight.and(store))?);
                }
            }
            At::Header(of) => {
                for (store, on) in self.looped[of].fetched(sight) {
                    let sight = sight.and(store);
                    match on {
                        0 => found.push((At::Body(of), sight)),
                        _ => found.extend(led(&self.word, true, sight)?),
                    }
                }
            }
            At::Turn(of) => {
                for (store, on) in self.back[of].fetched(sight) {
                    let to = if on == 0 { At::Body(of) } else { At::Header(of) };
                    found.push((to, sight.and(store)));
                }
            }
            // It waits for the lock, and has the function compiled; or finds that this was done.
            At::Late if self.current == LATE => {}
            At::Late => found.extend(led(&self.slot, false, Sight::Now)?),
            At::Body(_) => {}
        }
        Ok(found)
    }

    /// The places where threads may be: they call a variant, reach its loop, or iterate in it.
    fn places(&self) -> impl Iterator<Item = At> + use<> {
        let made = self.made;
        (0..VARIANTS)
            .filter(move |of| made[*of])
            .flat_map(|of| [At::Call(of), At::Header(of), At::Turn(of)])
    }

    /// Whatever a thread sees, it reaches code that exists.
    fn is_safe(&self) -> Result<(), Wrong> {
        let mut known = BTreeSet::new();
        let mut left: Vec<_> = self.places().map(|at| (at, Sight::Late(0))).collect();
        while let Some((at, sight)) = left.pop() {
            if known.insert((at, sight)) {
                left.extend(self.next(at, sight)?);
            }
        }
        Ok(())
    }

    /// The place that a thread reaches that sees the current values.
    fn ends(&self, from: At) -> Result<At, Wrong> {
        let mut at = from;
        for _ in 0..=3 * VARIANTS + 1 {
            match self.next(at, Sight::Now)?.first() {
                None => return Ok(at),
                Some((next, _)) => at = *next,
            }
        }
        Err(format!("{from:?} goes over for ever"))
    }

    /// A thread that sees the current values executes the function.
    fn goes_on(&self) -> Result<(), Wrong> {
        self.places().try_for_each(|at| self.ends(at).map(|_| ()))
    }

    /// Calls lead to the current variant, and so do turns if it has entries; it costs nothing.
    fn has_arrived(&self) -> Result<(), Wrong> {
        let current = self.current;
        for at in self.places() {
            let is_bound = matches!(at, At::Call(_)) || self.entered[current];
            let end = self.ends(at)?;
            let goal = if current == LATE { At::Late } else { At::Body(current) };
            if is_bound && end != goal {
                return Err(format!("{at:?} stays behind, in {end:?}"));
            }
        }
        if current == LATE {
            return Ok(());
        }
        let costs = [&self.entry[current], &self.looped[current], &self.back[current]];
        match costs.iter().all(|cell| cell.now().1 == 0) {
            true => Ok(()),
            false => Err(format!("variant {current} leads to itself")),
        }
    }
}

/// Executes all sequences of requests of that length in this manner; returns the first error.
fn tried(manner: Manner, length: usize) -> Result<usize, Wrong> {
    let switches =
        (0..VARIANTS).flat_map(|to| [false, true].map(|turns| Wish::Switch { to, turns }));
    let deferrals = (0..VARIANTS).map(|to| Wish::Defer { to });
    let wishes: Vec<Wish> = switches.chain(deferrals).chain([Wish::Enter, Wish::Arrive]).collect();
    let mut models = vec![Model::new(manner)];
    let mut count = 0;
    for _ in 0..length {
        let mut after = Vec::new();
        for model in &models {
            for wish in &wishes {
                // A late thread may sleep through all of it: no barrier is passed but those of the
                // protocol.
                let mut next = model.clone();
                next.grant(*wish)?;
                after.push(next);
                count += 1;
            }
        }
        models = after;
    }
    Ok(count)
}

#[test]
fn every_state_that_a_late_thread_meets_leads_to_a_variant() {
    let count = tried(Manner::default(), 4).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(count, 11 + 11 * 11 + 11 * 11 * 11 + 11 * 11 * 11 * 11);
}

#[test]
fn a_step_that_is_left_out_is_found() {
    for step in Step::ALL {
        let wrong = tried(Manner { without: Some(step), ..Manner::default() }, 3)
            .expect_err(&format!("no reader misses {step:?}"));
        println!("without {step:?}: {wrong}");
    }
}

#[test]
fn the_variant_before_is_switched_on_last() {
    let wrong =
        tried(Manner { is_hasty: true, ..Manner::default() }, 3).expect_err("it leads back");
    println!("in haste: {wrong}");
}
