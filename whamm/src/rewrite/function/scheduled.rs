//! Actions that run later than at their instruction, and the operands that they read then.

use super::*;

/// Actions that run later than at their instruction, with that instruction.
#[derive(Default)]
pub(super) struct Scheduled<'p> {
    /// First in the arm of the `if` that is about to begin.
    pub(super) entering: Vec<Action<'p>>,
    /// Saved operands of blocks, in locals, for as long as a probe reads them; by the instruction
    /// that begins the block.
    pub(super) given: HashMap<usize, Vec<(u32, ValType)>>,
    /// After ends.
    pub(super) behind: HashMap<usize, Vec<(Action<'p>, usize)>>,
    /// Where control falls out of blocks, before that instruction.
    pub(super) leaving: HashMap<usize, Vec<(Action<'p>, usize)>>,
}

impl<'a> Walker<'_, 'a> {
    /// Writes the entry probes of a block. For an `if`, its condition was saved before it.
    pub(super) fn entries(&mut self, i: usize) {
        if self.ops[i].nesting == Nesting::If {
            let entries = std::mem::take(&mut self.scheduled.entering);
            if self.reachable() {
                let given = self.given(i);
                self.emit(&entries, i, &given, &[], false);
            }
            return;
        }
        let entries = self.probes(i, &[Mode::Entry]);
        let args = if entries.is_empty() { vec![] } else { self.stack(8) };
        let entries = self.match_all(&entries, i, &args, &[]);
        if self.reachable() && !entries.is_empty() {
            let held = self.save(&entries.iter().collect::<Vec<_>>(), i, &args, false);
            self.emit(&entries, i, &held, &[], false);
        }
    }

    /// Saves the operands of a block, for as long as the block lasts, for probes in it or after it
    /// that read them.
    pub(super) fn give<'b>(
        &mut self,
        i: usize,
        actions: impl Iterator<Item = &'b Action<'a>>,
        saved: &[(u32, ValType)],
    ) where
        'a: 'b,
    {
        let actions: Vec<&Action<'_>> = actions.collect();
        if self.ops[i].nesting == Nesting::Plain || asked(&actions, argument, 1).0.is_none() {
            return;
        }
        let mut given = Vec::with_capacity(saved.len());
        for &(local, ty) in saved {
            let kept = self.locals.keep(ty);
            self.put().local_get(local).local_set(kept);
            given.push((kept, ty));
        }
        self.scheduled.given.insert(i, given);
    }

    /// The saved operands of a block.
    pub(super) fn given(&self, opener: usize) -> Vec<(u32, ValType)> {
        self.scheduled.given.get(&opener).cloned().unwrap_or_default()
    }

    /// Schedules actions after the end of the block that begins here.
    pub(super) fn wait_for_end(&mut self, i: usize, behind: Vec<Action<'a>>) {
        let end = self.end_of(i);
        let waiting = self.scheduled.behind.entry(end).or_default();
        waiting.extend(behind.into_iter().map(|a| (a, i)));
    }
}
