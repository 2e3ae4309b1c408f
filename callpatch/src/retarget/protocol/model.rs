//! Every state of a site that a lagging reader can fetch while the site is retargeted and switched.
//!
//! Memory is a history: one state after each store, cut into epochs by the barriers. A reader runs
//! the site on bytes that it fetched granule by granule, each granule whole (A1), each at a time of
//! its own; no barrier lies between those times and the time it runs (A2). With
//! [`FetchOrder::Upwards`] later granules are fetched later; with `Any` nothing is known. A reader
//! begins at the site's first byte (A4): a thread that was called through it, and is in an old
//! target, returns to the address after it.

use super::*;
use crate::x86::{Form, Role, Switch};
use std::ops::Range;

const OLD: i32 = 0x0a0b_0c0d;
const NEW: i32 = 0x1a1b_1c1d;
/// Displacements that end nops.
const NOP: i32 = 0x2a2b_441f;
const OTHER_NOP: i32 = 0x3a3b_441f;

/// The first and the second displacement of a site.
const WAYS: [(i32, i32); 4] = [(OLD, NEW), (OLD, NOP), (NOP, NEW), (NOP, OTHER_NOP)];

/// An event in a site's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Set(Switch),
    Retarget(Way),
}

/// The displacement to which a retarget changes: the second one, or back to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

/// A site at a distance from a granule's boundary.
#[derive(Clone, Copy, Debug)]
struct Site {
    form: Form,
    role: Role,
    /// The number of bytes before the boundary; all of them if none cuts it.
    front: usize,
    granule: usize,
    /// Its first displacement, and the second one.
    leads: (i32, i32),
}

/// How displacements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    Whole,
    Upwards,
    Downwards,
}

struct History {
    epochs: Vec<Vec<Vec<u8>>>,
}

impl History {
    fn now(&self) -> Vec<u8> {
        self.epochs.last().and_then(|epoch| epoch.last()).unwrap().clone()
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        let mut memory = self.now();
        memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.epochs.last_mut().unwrap().push(memory);
    }

    fn barrier(&mut self) {
        let memory = self.now();
        self.epochs.push(vec![memory]);
    }
}

impl Site {
    fn all() -> impl Iterator<Item = Self> {
        let roles = [Role::Call, Role::TailJump, Role::Detour];
        let kinds = Form::ALL.into_iter().flat_map(move |form| roles.map(|role| (form, role)));
        let kinds = kinds.filter(|(form, role)| form.off(*role).is_some());
        kinds.flat_map(|(form, role)| WAYS.map(|leads| (form, role, leads))).flat_map(
            |(form, role, leads)| {
                let whole = Self { form, role, front: form.len(), granule: 8, leads };
                let cut = (1..=form.len()).map(move |front| Self { front, ..whole });
                cut.chain([Self { granule: 1, ..whole }])
            },
        )
    }

    /// The switching byte, in this memory.
    fn byte(self, to: Switch, memory: &[u8]) -> u8 {
        let at = self.form.displacement_at();
        let displacement = i32::from_le_bytes(memory[at..at + 4].try_into().unwrap());
        match to {
            Switch::On => self.form.on(),
            Switch::Off => self.form.idle(self.role, displacement).unwrap(),
        }
    }

    fn guard(self) -> u8 {
        self.form.off(self.role).unwrap()
    }

    /// The ways in which `Retarget` may store a displacement. A guard that reads it needs it whole;
    /// where a boundary cuts it, wordpatch replaces it.
    fn allowed(self) -> &'static [Pieces] {
        if self.form.off_reads_memory(self.role) {
            &[Pieces::Whole]
        } else {
            &[Pieces::Whole, Pieces::Upwards, Pieces::Downwards]
        }
    }

    fn run(
        self,
        events: &[Event],
        order: FetchOrder,
        pieces: Pieces,
        keep: impl Fn(usize) -> bool,
    ) -> History {
        let mut history = History { epochs: vec![vec![self.form.bytes(self.leads.0)]] };
        for &event in events {
            match event {
                Set(to) => {
                    let byte = self.byte(to, &history.now());
                    history.store(self.form.switch_at(), &[byte]);
                }
                To(way) => {
                    let to = if way == Way::There { self.leads.1 } else { self.leads.0 };
                    self.retarget(&mut history, to, order, pieces, &keep);
                }
            }
        }
        history
    }

    fn retarget(
        self,
        history: &mut History,
        to: i32,
        order: FetchOrder,
        pieces: Pieces,
        keep: &impl Fn(usize) -> bool,
    ) {
        let was_on = history.now()[self.form.switch_at()] == self.form.on();
        let (at, bytes) = (self.form.displacement_at(), to.to_le_bytes());
        for (_, &step) in steps(order).iter().enumerate().filter(|&(i, _)| keep(i)) {
            match step {
                Step::Off => history.store(self.form.switch_at(), &[self.guard()]),
                Step::Barrier => history.barrier(),
                Step::Displacement => match pieces {
                    Pieces::Whole => history.store(at, &bytes),
                    Pieces::Upwards => (0..4).for_each(|i| history.store(at + i, &[bytes[i]])),
                    Pieces::Downwards => {
                        (0..4).rev().for_each(|i| history.store(at + i, &[bytes[i]]));
                    }
                },
                Step::Encoding => {
                    let was = if was_on { Switch::On } else { Switch::Off };
                    let byte = self.byte(was, &history.now());
                    history.store(self.form.switch_at(), &[byte]);
                }
            }
        }
    }

    /// The ranges of the site that are fetched each at once.
    fn fetches(self) -> Vec<Range<usize>> {
        match self.granule {
            1 => (0..self.form.len()).map(|i| i..i + 1).collect(),
            _ if self.front == self.form.len() => std::iter::once(0..self.form.len()).collect(),
            _ => vec![0..self.front, self.front..self.form.len()],
        }
    }

    fn is_right(self, view: &[u8]) -> bool {
        let whole = |displacement| {
            let idle = self.form.idle_bytes(self.role, displacement);
            [
                Some(self.form.bytes(displacement)),
                self.form.off_bytes(self.role, displacement),
                idle,
            ]
        };
        let leads = [self.leads.0, self.leads.1];
        let is_encoding =
            || leads.into_iter().flat_map(whole).flatten().any(|encoding| encoding == view);
        // No thread executes the bytes after a `ret`, and a guard that does not read ignores its
        // displacement.
        let fixed = if self.role == Role::TailJump { 1 } else { self.form.displacement_at() };
        let off = self.form.off_bytes(self.role, 0).unwrap();
        let is_guard = !self.form.off_reads_memory(self.role) && view[..fixed] == off[..fixed];
        is_guard || is_encoding()
    }

    /// The first wrong view, if there is one.
    fn tear(self, history: &History, order: FetchOrder) -> Option<Vec<u8>> {
        let parts = self.fetches();
        history
            .epochs
            .iter()
            .find_map(|epoch| self.wrong_view(epoch, &parts, order, 0, &mut Vec::new()))
    }

    fn wrong_view(
        self,
        epoch: &[Vec<u8>],
        parts: &[Range<usize>],
        order: FetchOrder,
        earliest: usize,
        view: &mut Vec<u8>,
    ) -> Option<Vec<u8>> {
        let Some((part, rest)) = parts.split_first() else {
            return (!self.is_right(view)).then(|| view.clone());
        };
        let first = if order == FetchOrder::Upwards { earliest } else { 0 };
        (first..epoch.len()).find_map(|moment| {
            let before = view.len();
            view.extend_from_slice(&epoch[moment][part.clone()]);
            let wrong = self.wrong_view(epoch, rest, order, moment, view);
            view.truncate(before);
            wrong
        })
    }
}

use Event::{Retarget as To, Set};
const ON: Event = Set(Switch::On);
const OFF: Event = Set(Switch::Off);
const THERE: Event = To(Way::There);
const BACK: Event = To(Way::Back);

/// Retargets in both directions, with switches in between, as `CallSite::set` makes them without a
/// barrier.
const LIVES: [&[Event]; 5] = [
    &[THERE, BACK],
    &[THERE, OFF, ON, BACK],
    &[OFF, THERE, ON, BACK],
    &[OFF, THERE, ON, OFF, BACK, ON],
    &[OFF, ON, OFF, THERE, ON, OFF, ON],
];

const ORDERS: [FetchOrder; 2] = [FetchOrder::Upwards, FetchOrder::Any];

/// Whether this model covers a site. procmem's granule is a byte; there wordpatch replaces the
/// displacements that guards read, and its own model covers that.
fn is_covered(site: Site) -> bool {
    !(site.form.off_reads_memory(site.role)
        && (site.granule == 1
            || site.front > site.form.displacement_at() && site.front < site.form.len()))
}

#[test]
fn no_reader_however_late_goes_where_no_patch_sent_it() {
    for site in Site::all().filter(|&site| is_covered(site)) {
        for order in ORDERS {
            for (life, &pieces) in LIVES
                .iter()
                .flat_map(|life| site.allowed().iter().map(move |pieces| (life, pieces)))
            {
                let history = site.run(life, order, pieces, |_| true);
                assert_eq!(
                    site.tear(&history, order),
                    None,
                    "{site:?} {order:?} {life:?} {pieces:?}"
                );
            }
        }
    }
}

#[test]
fn every_step_is_needed() {
    for order in ORDERS {
        for missing in 0..steps(order).len() {
            let missed = Site::all().filter(|&site| is_covered(site)).any(|site| {
                LIVES.iter().any(|life| {
                    let history = site.run(life, order, Pieces::Upwards, |i| i != missing);
                    let whole = site.run(life, order, Pieces::Upwards, |_| true);
                    let torn = site.allowed().contains(&Pieces::Upwards)
                        && site.tear(&history, order).is_some();
                    torn || history.now() != whole.now()
                })
            });
            assert!(
                missed,
                "{order:?}: no reader misses step {missing}, {:?}",
                steps(order)[missing]
            );
        }
    }
}

#[test]
fn a_site_that_is_off_needs_the_barrier_too() {
    let site = Site { form: Form::Call, role: Role::Call, front: 3, granule: 8, leads: (OLD, NEW) };
    let history = site.run(&[OFF, THERE, ON], FetchOrder::Upwards, Pieces::Whole, |step| step != 1);
    assert!(site.tear(&history, FetchOrder::Upwards).is_some());
}

#[test]
fn where_fetch_may_go_any_way_one_barrier_is_too_few() {
    let site = Site { form: Form::Call, role: Role::Call, front: 3, granule: 8, leads: (OLD, NEW) };
    let history = site.run(&[THERE], FetchOrder::Upwards, Pieces::Whole, |_| true);
    assert!(site.tear(&history, FetchOrder::Any).is_some());
}

#[test]
fn a_guard_that_reads_must_not_have_half_a_displacement() {
    let leads = (OLD, NEW);
    let site = Site { form: Form::CallMemory, role: Role::Call, front: 6, granule: 8, leads };
    let history = site.run(&[THERE], FetchOrder::Upwards, Pieces::Upwards, |_| true);
    assert!(site.tear(&history, FetchOrder::Upwards).is_some());
    let cut = Site { front: 4, ..site };
    let history = cut.run(&[THERE], FetchOrder::Upwards, Pieces::Whole, |_| true);
    assert!(
        cut.tear(&history, FetchOrder::Upwards).is_some(),
        "which is why such words go to wordpatch"
    );
}

#[test]
fn a_switch_needs_no_barrier_at_any_placement() {
    for site in Site::all() {
        for order in ORDERS {
            let history = site.run(&[OFF, ON, OFF, ON], order, Pieces::Whole, |_| true);
            assert_eq!(site.tear(&history, order), None, "{site:?}");
        }
    }
}

/// The off state of a call whose displacement ends a nop is no nop while the displacement is
/// written.
#[test]
fn a_nop_guards_no_displacement() {
    for leads in [(OLD, NOP), (NOP, NEW)] {
        let site = Site { form: Form::Call, role: Role::Call, front: 5, granule: 8, leads };
        let mut history = site.run(&[OFF], FetchOrder::Upwards, Pieces::Whole, |_| true);
        history.barrier();
        history.store(0, &[0x0f]);
        assert!(site.tear(&history, FetchOrder::Upwards).is_some() == (leads.0 == OLD));
        history.store(1, &leads.1.to_le_bytes());
        assert!(site.tear(&history, FetchOrder::Upwards).is_some());
    }
}
