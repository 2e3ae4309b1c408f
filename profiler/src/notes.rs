//! The notes of a profile: the limits of its figures, and the number of processes that each note
//! applies to.
//!
//! One process of ten may have had no function that ran long enough for a probe. In a sum of all
//! ten, a note that states this for the program would contradict the table above it.

use crate::profile::Header;

/// The number of notes that are shown; each process may have notes of its own.
const SHOWN: usize = 8;

impl Header {
    /// The number of processes for which the note at this position holds. A larger number means
    /// all.
    fn extent(&self, at: usize) -> u32 {
        self.noted.get(at).copied().unwrap_or(self.processes)
    }

    /// Adds a note that holds for the sum, however many processes are added to it.
    pub(crate) fn note_sum(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
            self.noted.push(u32::MAX);
        }
    }

    /// Adds the notes of another profile, whose processes are not added yet.
    pub(crate) fn add_notes(&mut self, theirs: &Self) {
        self.noted = (0..self.notes.len()).map(|at| self.extent(at)).collect();
        for (at, note) in theirs.notes.iter().enumerate() {
            let extent = theirs.extent(at);
            match self.notes.iter().position(|known| known == note) {
                Some(known) => self.noted[known] = self.noted[known].saturating_add(extent),
                None => {
                    self.notes.push(note.clone());
                    self.noted.push(extent);
                }
            }
        }
    }

    /// The lines for a report: first the notes that hold in most processes.
    pub(crate) fn note_lines(&self) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.notes.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.extent(*at)));
        let line = |at: &usize| match (self.extent(*at), self.processes) {
            (extent, all) if extent < all => {
                format!("Note ({extent} of {all} processes): {}", self.notes[*at])
            }
            _ => format!("Note: {}", self.notes[*at]),
        };
        let mut lines: Vec<String> = order.iter().take(SHOWN).map(line).collect();
        let more = self.notes.len().saturating_sub(SHOWN);
        if more == 1 {
            lines.extend(order.last().map(line));
        } else if more > 1 {
            lines.push(format!("… and {more} more notes: see fastinst report --format json"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clock, Controller, Costs, Policy, Profile, Ticks};

    /// The profile of one process.
    fn process(notes: &[&str]) -> Profile {
        let costs = Costs { pair: 50.0, bias: 40.0, count: 2.0, toggle: 400.0, skip: 4.0 };
        let clock = Clock { hz: 1e9, step: 1 };
        let mut profile =
            Controller::new(Policy::Count, clock, costs, 1, Ticks(1)).profile(Ticks(2));
        profile.header.notes = notes.iter().map(|note| (*note).to_owned()).collect();
        profile
    }

    fn lines(processes: &[Profile]) -> Vec<String> {
        Profile::merge(processes).header.note_lines()
    }

    #[test]
    fn a_note_of_some_processes_names_how_many() {
        assert_eq!(lines(&[process(&["a", "b"])]), ["Note: a", "Note: b"]);
        let all = [process(&["few"]), process(&["all"]), process(&["all"])];
        assert_eq!(lines(&all), ["Note (2 of 3 processes): all", "Note (1 of 3 processes): few"]);
        assert_eq!(lines(&[process(&["a"]), process(&["a"])]), ["Note: a"]);
        // Sums of sums.
        let one = Profile::merge(&[process(&["a"]), process(&[])]);
        let other = Profile::merge(&[process(&[]), process(&["a"])]);
        assert_eq!(lines(&[one, other]), ["Note (2 of 4 processes): a"]);
    }

    #[test]
    fn a_note_of_the_sum_holds_for_what_is_added_later() {
        let mut sum = Profile::merge(&[process(&["a"]), process(&[])]);
        sum.header.note_sum("differ");
        sum.header.note_sum("differ");
        let all = [sum, process(&["a"])];
        assert_eq!(lines(&all), ["Note: differ", "Note (2 of 3 processes): a"]);
    }

    #[test]
    fn a_thousand_processes_do_not_fill_the_screen_with_notes() {
        let all: Vec<Profile> =
            (0..1_000).map(|at| process(&["each", &format!("{at} functions")])).collect();
        let lines = lines(&all);
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[0], "Note: each");
        assert!(lines[8].starts_with("… and 993 more notes"), "{}", lines[8]);
    }
}
