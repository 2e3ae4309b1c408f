//! A function's list of sites. The holder of the registry replaces lists; hooks read them.
//!
//! A program has many functions, and most have two sites: so the lists of many are made at once,
//! and their numbers lie side by side. They are never freed, since a hook may be reading any of
//! them; leak checkers find them where they are [kept](SiteLists).

use super::functions::Id;
use super::sites::{self, SiteList};
use crate::probe::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A site in a list: its function, whether it is an exit, its number.
type ListedSite = (Id, bool, u32);

/// The list of functions that have no sites any more.
static EMPTY: SiteList = SiteList::new(&[], 0);

/// All lists that were ever made, and their numbers.
#[derive(Debug)]
pub(super) struct SiteLists(Vec<(&'static [SiteList], &'static [u32])>);

impl SiteLists {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds new sites to the lists of their functions; returns these functions.
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = u32>) -> BTreeSet<Id> {
        let place = |number| {
            let site = sites::get(number)?;
            Some((site.owner()?, site.kind == Kind::Exit, number))
        };
        let mut places: Vec<ListedSite> = numbers.into_iter().filter_map(place).collect();
        let functions: BTreeSet<Id> = places.iter().map(|place| place.0).collect();
        // A module that was loaded again may have fewer sites: lists keep those that are gone.
        places.retain(|place| !is_listed(place));
        for function in places.iter().map(|place| place.0).collect::<BTreeSet<_>>() {
            places.extend(places_of(function));
        }
        self.replace_lists(places);
        functions
    }

    /// Moves sites to other functions; returns the functions concerned.
    pub(super) fn apply_moves(&mut self, moves: Moves) -> BTreeSet<Id> {
        for (function, _) in moves.0.iter().filter(|(_, places)| places.is_empty()) {
            function.function().sites.store(std::ptr::from_ref(&EMPTY).cast_mut(), Release);
        }
        let functions = moves.0.keys().copied().collect();
        self.replace_lists(moves.0.into_values().flatten().collect());
        functions
    }

    fn replace_lists(&mut self, mut places: Vec<ListedSite>) {
        places.sort_unstable();
        places.dedup();
        // Functions of a module that was loaded again keep the lists that they had.
        let groups = places.chunk_by(|a, b| a.0 == b.0);
        let unchanged: BTreeSet<Id> =
            groups.filter(|group| is_current_list(group)).map(|group| group[0].0).collect();
        places.retain(|place| !unchanged.contains(&place.0));
        if places.is_empty() {
            return;
        }
        let numbers: Box<[u32]> = places.iter().map(|place| place.2).collect();
        let numbers: &'static [u32] = Box::leak(numbers);
        let mut rest = numbers;
        let functions = places.chunk_by(|a, b| a.0 == b.0);
        let list = |group: &[ListedSite]| {
            let (numbers, others) = rest.split_at(group.len());
            rest = others;
            SiteList::new(numbers, group.partition_point(|place| !place.1))
        };
        let site_lists: Box<[SiteList]> = functions.clone().map(list).collect();
        let site_lists: &'static [SiteList] = Box::leak(site_lists);
        self.0.push((site_lists, numbers));
        for (group, list) in functions.zip(site_lists) {
            group[0].0.function().sites.store(std::ptr::from_ref(list).cast_mut(), Release);
        }
    }
}

/// Sites that change their functions.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<Id, BTreeSet<ListedSite>>);

impl Moves {
    fn places_mut(&mut self, function: Id) -> &mut BTreeSet<ListedSite> {
        self.0.entry(function).or_insert_with(|| places_of(function).collect())
    }

    pub(super) fn add(&mut self, function: Id, number: u32, kind: Kind) {
        self.places_mut(function).insert((function, kind == Kind::Exit, number));
    }

    pub(super) fn remove(&mut self, function: Id, number: u32, kind: Kind) {
        self.places_mut(function).remove(&(function, kind == Kind::Exit, number));
    }
}

/// Whether these sites are the ones in their function's list.
fn is_current_list(places: &[ListedSite]) -> bool {
    let Some(list) = places.first().and_then(|place| place.0.function().site_list()) else {
        return false;
    };
    list.all().len() == places.len() && places.iter().all(is_listed)
}

/// Whether a site is in its function's list.
fn is_listed((function, is_exit, number): &ListedSite) -> bool {
    function.function().site_list().is_some_and(|list| {
        let numbers = if *is_exit { list.exits() } else { list.enters() };
        numbers.contains(number)
    })
}

/// The sites in a function's list that are not gone.
fn places_of(function: Id) -> impl Iterator<Item = ListedSite> {
    let list = function.function().site_list().copied().unwrap_or(EMPTY);
    let is_there = |number: &u32| sites::get(*number).is_some_and(|site| !site.gone.load(Relaxed));
    let place = move |exit| move |number| (function, exit, number);
    let enters = list.enters().iter().copied().filter(is_there).map(place(false));
    enters.chain(list.exits().iter().copied().filter(is_there).map(place(true)))
}
