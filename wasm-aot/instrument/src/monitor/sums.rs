//! What instances say in their words, added up: of those that live, and of those that have ended.

use wasm_aot_engine::instrument::compile::Room;

/// What all instances have said so far.
#[derive(Debug, Default)]
pub(super) struct InstanceSums<T> {
    /// The instances that live.
    rooms: Vec<Room>,
    /// What others have said until they ended, or was taken out of words that are used again.
    pub(super) ended: T,
}

impl<T: Clone> InstanceSums<T> {
    /// An instance begins.
    pub(super) fn begin(&mut self, room: Room) {
        self.rooms.push(room);
    }

    /// An instance ends: what it has said is added.
    pub(super) fn end(&mut self, room: Room, add: impl FnOnce(Room, &mut T)) {
        self.rooms.retain(|other| *other != room);
        add(room, &mut self.ended);
    }

    /// The words of an instance that lives.
    pub(super) fn room(&self, vmctx: usize) -> Option<Room> {
        self.rooms.iter().find(|room| room.vmctx == vmctx).copied()
    }

    /// What all have said so far, if `add` adds what one says.
    pub(super) fn so_far(&self, add: impl Fn(Room, &mut T)) -> T {
        let mut sums = self.ended.clone();
        self.rooms.iter().for_each(|room| add(*room, &mut sums));
        sums
    }
}
