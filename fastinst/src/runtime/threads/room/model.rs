//! Every interleaving of a thread that makes its block with one that installs a counter.

/// What the two do, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The block is in the list.
    Show,
    /// It gets the records that were promised, as far as this step sees.
    KeepPromise,
    /// More records are promised.
    Promise,
    /// Blocks in the list get the records.
    LookAtBlocks,
}

use Step::{KeepPromise, LookAtBlocks, Promise, Show};

#[derive(Clone, Copy, Debug, Default)]
struct World {
    is_shown: bool,
    is_promised: bool,
    has_records: bool,
}

impl World {
    fn step(mut self, step: Step) -> Self {
        match step {
            Show => self.is_shown = true,
            KeepPromise => self.has_records |= self.is_promised,
            Promise => self.is_promised = true,
            LookAtBlocks => self.has_records |= self.is_shown,
        }
        self
    }
}

/// Whether the block has the record of the counter's function when both are done, however their
/// steps fall. The block is older than the function: it was not made with room for it.
fn always_has_records(maker: &[Step], writer: &[Step]) -> bool {
    fn all(world: World, maker: &[Step], writer: &[Step]) -> bool {
        let by_maker = maker.split_first().map(|(step, rest)| all(world.step(*step), rest, writer));
        let by_writer =
            writer.split_first().map(|(step, rest)| all(world.step(*step), maker, rest));
        match (by_maker, by_writer) {
            (None, None) => world.has_records,
            (maker, writer) => maker.unwrap_or(true) && writer.unwrap_or(true),
        }
    }
    all(World::default(), maker, writer)
}

#[test]
fn every_block_has_the_record_of_every_counter() {
    assert!(always_has_records(&[Show, KeepPromise], &[Promise, LookAtBlocks]));
}

#[test]
fn each_step_and_its_place_is_needed() {
    for (maker, writer) in [
        (&[Show][..], &[Promise, LookAtBlocks][..]),
        (&[KeepPromise, Show], &[Promise, LookAtBlocks]),
        (&[KeepPromise], &[Promise, LookAtBlocks]),
        (&[Show, KeepPromise], &[LookAtBlocks, Promise]),
        (&[Show, KeepPromise], &[LookAtBlocks]),
        (&[Show, KeepPromise], &[Promise]),
    ] {
        assert!(!always_has_records(maker, writer), "{maker:?} {writer:?}");
    }
}
