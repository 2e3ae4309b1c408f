//! Every interleaving of a hook that verifies a site with an owner that gives its function another
//! mode, on cores that keep their stores back for a while (x86-64: in order, and not beyond a
//! locked instruction).
//!
//! The hook says that the site is verified, looks at the mode, stores it at the site, and looks
//! again; before that it waits until its stores are seen. The owner changes the mode by a locked
//! instruction, looks whether the site is verified, and stores the mode there if it is.

use std::collections::{HashSet, VecDeque};

/// What is stored to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Verified,
    Mode,
    Site,
}

const OLD: u8 = 0;
const NEW: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether the site is verified, the function's mode, the mode at the site.
    memory: [u8; 3],
    /// What the hook and the owner have stored and others do not see.
    kept: [VecDeque<(Place, u8)>; 2],
    /// How far each of them is.
    at: [u8; 2],
    /// The mode that the hook has seen.
    seen: u8,
}

const HOOK: usize = 0;
const OWNER: usize = 1;
const OVER: u8 = 9;

impl World {
    fn new() -> Self {
        Self { memory: [0, OLD, OLD], kept: Default::default(), at: [0; 2], seen: OLD }
    }

    fn load(&self, who: usize, place: Place) -> u8 {
        let own = self.kept[who].iter().rev().find(|(stored, _)| *stored == place);
        own.map_or(self.memory[place as usize], |(_, value)| *value)
    }

    fn store(&mut self, who: usize, place: Place, value: u8) {
        self.kept[who].push_back((place, value));
    }

    /// The oldest store that a thread has kept back becomes visible.
    fn released(&self, who: usize) -> Option<Self> {
        let mut next = self.clone();
        let (place, value) = next.kept[who].pop_front()?;
        next.memory[place as usize] = value;
        Some(next)
    }

    /// After the next step of the hook, which waits before its second look, or not.
    fn hook(&self, waits: bool) -> Option<Self> {
        let mut next = self.clone();
        next.at[HOOK] += 1;
        match self.at[HOOK] {
            0 => next.store(HOOK, Place::Verified, 1),
            1 => next.seen = self.load(HOOK, Place::Mode),
            2 => next.store(HOOK, Place::Site, self.seen),
            3 if waits && !self.kept[HOOK].is_empty() => return None,
            // Something else by now: once more.
            3 if self.load(HOOK, Place::Mode) != self.seen => next.at[HOOK] = 1,
            3 => next.at[HOOK] = OVER,
            _ => return None,
        }
        Some(next)
    }

    fn owner(&self) -> Option<Self> {
        let mut next = self.clone();
        next.at[OWNER] += 1;
        match self.at[OWNER] {
            0 => next.memory[Place::Mode as usize] = NEW,
            1 if self.load(OWNER, Place::Verified) == 1 => next.store(OWNER, Place::Site, NEW),
            1 => {}
            2 => next.at[OWNER] = OVER,
            _ => return None,
        }
        Some(next)
    }
}

/// Whether the site can be left in the mode before.
fn leaves_a_site_behind(waits: bool) -> bool {
    let (mut known, mut open) = (HashSet::new(), vec![World::new()]);
    while let Some(world) = open.pop() {
        let next = [world.hook(waits), world.owner(), world.released(HOOK), world.released(OWNER)];
        let next: Vec<World> = next.into_iter().flatten().collect();
        if next.is_empty() && world.memory[Place::Site as usize] != NEW {
            return true;
        }
        open.extend(next.into_iter().filter(|next| known.insert(next.clone())));
    }
    false
}

#[test]
fn a_site_that_is_verified_while_its_function_changes_gets_the_new_mode() {
    assert!(!leaves_a_site_behind(true));
}

#[test]
fn a_hook_that_looks_again_before_its_stores_are_seen_can_leave_its_site_behind() {
    assert!(leaves_a_site_behind(false));
}
