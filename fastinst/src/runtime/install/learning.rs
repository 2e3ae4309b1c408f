//! Learning from hooks: a site whose hook receives another function than discovery has found is
//! moved to that function.

use super::NO_RECORD;
use crate::probe::Kind;
use crate::runtime::functions::Id;
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::site_lists::Moves;
use crate::runtime::sites::{self, Owners};
use crate::runtime::stub::Stub;
use crate::runtime::{modes, sharing};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

impl ModuleRegistry {
    /// Learns what hooks have seen at sites whose function was unknown, or another one.
    pub(crate) fn learn(&mut self) -> BTreeSet<Id> {
        let mut moves = Moves::default();
        for (number, site, told) in sites::lessons() {
            if site.gone.load(Relaxed) {
                // The island that held its cell is gone as well.
                continue;
            }
            match site.owner() {
                _ if site.shared.load(Relaxed) => sharing::learn(number.0, site, told, &mut moves),
                Some(owner) if owner == told => {}
                Some(owner) if site.moved.swap(true, Relaxed) => {
                    // At least two functions: every event reports its own.
                    site.shared.store(true, Release);
                    site.inline.store(false, Release);
                    let owners = if site.kind == Kind::Exit { Owners::new() } else { None };
                    if let Some((owners, cell)) = owners {
                        owners.add(owner);
                        owners.add(told);
                        site.share(cell);
                        site.lead_to(Stub::SharedExit);
                    } else {
                        site.cell().hold(u64::from(NO_RECORD));
                        site.lead_to(if site.kind == Kind::Enter {
                            Stub::Count
                        } else {
                            Stub::TimeExit
                        });
                    }
                    site.pass_counter(true);
                    moves.remove(owner, number.0, site.kind);
                }
                owner => {
                    site.moved.store(owner.is_some(), Relaxed);
                    // What counts in line is not this function.
                    site.inline.store(false, Release);
                    // With the record of its function a stub that counts would count calls that are
                    // to be timed, until it is switched below.
                    if site.kind == Kind::Enter && !site.attached.load(Relaxed) {
                        site.lead_to(Stub::TimeEnter);
                        site.pass_counter(true);
                    }
                    site.function.store(told.0, Relaxed);
                    site.cell().hold(u64::from(told.record()));
                    site.verified.store(true, SeqCst);
                    if let Some(owner) = owner {
                        moves.remove(owner, number.0, site.kind);
                    }
                    moves.add(told, number.0, site.kind);
                }
            }
        }
        let changed = self.site_lists.apply_moves(moves);
        changed.iter().copied().for_each(modes::renew);
        changed
    }
}
