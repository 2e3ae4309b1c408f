//! Compile events: which functions are compiled for other variants while the program runs.
//!
//! Each reader has a list of its own and takes its events from there, so events that all readers
//! have taken occupy no memory.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Functions, and how many bytes of code each has.
type List = Mutex<Vec<(u32, u32)>>;

/// The events that a reader has not taken yet.
#[derive(Debug)]
pub struct CompileEvents(Arc<List>);

/// All readers.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<Vec<Weak<List>>>);

impl CompileEvents {
    /// The events since the last call.
    pub fn take(&self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Readers {
    /// Adds a reader, which gets the events from now on.
    pub(super) fn subscribe(&self) -> CompileEvents {
        let list = Arc::<List>::default();
        self.0.lock().push(Arc::downgrade(&list));
        CompileEvents(list)
    }

    /// Publishes events to all readers that are left, if there are any.
    pub(super) fn publish(&self, compiled: impl FnOnce() -> Vec<(u32, u32)>) {
        let mut readers = self.0.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        if readers.is_empty() {
            return;
        }
        let compiled = compiled();
        for reader in readers.iter().filter_map(Weak::upgrade) {
            reader.lock().extend(&compiled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_told_once_of_what_happens_while_they_listen() {
        let readers = Readers::default();
        readers.publish(|| unreachable!("no receiver is registered"));
        let first = readers.subscribe();
        readers.publish(|| vec![(1, 10)]);
        let second = readers.subscribe();
        readers.publish(|| vec![(2, 20)]);
        assert_eq!((first.take(), second.take()), (vec![(1, 10), (2, 20)], vec![(2, 20)]));
        assert_eq!((first.take(), first.0.lock().capacity()), (vec![], 0));
        drop((first, second));
        readers.publish(|| unreachable!("no receiver is left"));
    }
}
