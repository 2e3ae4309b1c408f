//! Switchboards: which sites a function has. The holder of the garden changes them; hooks read
//! them.
//!
//! A program has many functions, and most have two sites: so the boards of many are made at once,
//! and their numbers lie side by side. They are never freed, since a hook may be reading any of
//! them; leak checkers find them where they are [kept](Boards).

use super::functions::Id;
use super::sites::{self, Switchboard};
use crate::probe::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A site on a board: its function, whether it is an exit, its number.
type Place = (Id, bool, u32);

/// The board of functions that have no sites any more.
static EMPTY: Switchboard = Switchboard::new(&[], 0);

/// All boards that were ever made, and their numbers.
#[derive(Debug)]
pub(super) struct Boards(Vec<(&'static [Switchboard], &'static [u32])>);

impl Boards {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds new sites to the boards of their functions; returns these functions.
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = u32>) -> BTreeSet<Id> {
        let place = |number| {
            let site = sites::get(number)?;
            Some((site.owner()?, site.kind == Kind::Exit, number))
        };
        let mut places: Vec<Place> = numbers.into_iter().filter_map(place).collect();
        let functions: BTreeSet<Id> = places.iter().map(|place| place.0).collect();
        // A module that was loaded again may have fewer sites: boards keep those that are gone.
        places.retain(|place| !is_on_board(place));
        for function in places.iter().map(|place| place.0).collect::<BTreeSet<_>>() {
            places.extend(places_of(function));
        }
        self.install(places);
        functions
    }

    /// Moves sites to other functions; returns the functions concerned.
    pub(super) fn carry_out(&mut self, moves: Moves) -> BTreeSet<Id> {
        for (function, _) in moves.0.iter().filter(|(_, places)| places.is_empty()) {
            function.function().sites.store(std::ptr::from_ref(&EMPTY).cast_mut(), Release);
        }
        let functions = moves.0.keys().copied().collect();
        self.install(moves.0.into_values().flatten().collect());
        functions
    }

    fn install(&mut self, mut places: Vec<Place>) {
        places.sort_unstable();
        places.dedup();
        // Functions of a module that was loaded again keep the boards that they had.
        let groups = places.chunk_by(|a, b| a.0 == b.0);
        let unchanged: BTreeSet<Id> =
            groups.filter(|group| is_board(group)).map(|group| group[0].0).collect();
        places.retain(|place| !unchanged.contains(&place.0));
        if places.is_empty() {
            return;
        }
        let numbers: Box<[u32]> = places.iter().map(|place| place.2).collect();
        let numbers: &'static [u32] = Box::leak(numbers);
        let mut rest = numbers;
        let functions = places.chunk_by(|a, b| a.0 == b.0);
        let board = |group: &[Place]| {
            let (numbers, others) = rest.split_at(group.len());
            rest = others;
            Switchboard::new(numbers, group.partition_point(|place| !place.1))
        };
        let boards: Box<[Switchboard]> = functions.clone().map(board).collect();
        let boards: &'static [Switchboard] = Box::leak(boards);
        self.0.push((boards, numbers));
        for (group, board) in functions.zip(boards) {
            group[0].0.function().sites.store(std::ptr::from_ref(board).cast_mut(), Release);
        }
    }
}

/// Sites that change their functions.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<Id, BTreeSet<Place>>);

impl Moves {
    fn of(&mut self, function: Id) -> &mut BTreeSet<Place> {
        self.0.entry(function).or_insert_with(|| places_of(function).collect())
    }

    pub(super) fn add(&mut self, function: Id, number: u32, kind: Kind) {
        self.of(function).insert((function, kind == Kind::Exit, number));
    }

    pub(super) fn remove(&mut self, function: Id, number: u32, kind: Kind) {
        self.of(function).remove(&(function, kind == Kind::Exit, number));
    }
}

/// Whether these sites are the ones on their function's board.
fn is_board(places: &[Place]) -> bool {
    let Some(board) = places.first().and_then(|place| place.0.function().switchboard()) else {
        return false;
    };
    board.all().len() == places.len() && places.iter().all(is_on_board)
}

/// Whether a site is on its function's board.
fn is_on_board((function, is_exit, number): &Place) -> bool {
    function.function().switchboard().is_some_and(|board| {
        let numbers = if *is_exit { board.exits() } else { board.enters() };
        numbers.contains(number)
    })
}

/// The sites on a function's board that are not gone.
fn places_of(function: Id) -> impl Iterator<Item = Place> {
    let board = function.function().switchboard().copied().unwrap_or(EMPTY);
    let is_there = |number: &u32| sites::get(*number).is_some_and(|site| !site.gone.load(Relaxed));
    let place = move |exit| move |number| (function, exit, number);
    let enters = board.enters().iter().copied().filter(is_there).map(place(false));
    enters.chain(board.exits().iter().copied().filter(is_there).map(place(true)))
}
