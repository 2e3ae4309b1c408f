//! Unmodified code: functions that no compiler has prepared, found by their unwind information.
//!
//! ```text
//!   frames   .eh_frame says where functions begin and end, and which parts are no beginning
//!   body     one function, decoded: where it can be left, what can be moved
//!   prepared room and calls that a compiler left for tools like this one
//!   choice   the sites of one function: its entry and all of its exits, in what is prepared, by
//!            puns and in padding
//! ```
//!
//! Unwind information is the table to start from: it survives `strip`, covers functions that have
//! no symbol, and its ranges hold code and nothing else. A function is decoded when it is to be
//! probed, and not before.

mod body;
mod choice;
mod frames;
mod prepared;

pub(crate) use body::{Body, Line, Reader};
pub(crate) use choice::{
    ByteReservations, Choice, Chooser, Entry, Exit, Leap, Moved, Pun, Reservation, Spot, Turn, Way,
};
pub(crate) use frames::Frames;
pub use prepared::Maker;
pub(crate) use prepared::{Prepared, Room};
pub(super) use prepared::{may_be_prepared, profilers};

use super::{Code, DiscoveryError, Image, Module};
use std::collections::BTreeSet;
use wordpatch::CodeAddr;

/// Why a function has no probes, or only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// No unwind information says where it ends, or it is a part of another function.
    #[error("no unwind information shows a function there")]
    NoFunction,
    /// It has bytes that are not instructions.
    #[error("it does not decode")]
    Undecodable,
    /// Its code in memory is not that of the file.
    #[error("its code was changed in memory")]
    Changed,
    /// No instruction at its beginning can be displaced.
    #[error("no instruction at its beginning can be displaced")]
    NoEntry,
    /// No compiler has prepared it, and other functions are not wanted.
    #[error("not prepared by a compiler")]
    NotPrepared,
    /// No landing can be placed at the target of its entry.
    #[error("no free landing address for its entry")]
    NoLanding,
    /// A point, and its bytes are needed for another one.
    #[error("another tracepoint is too near")]
    TooNear,
    /// A point in the loader, which runs before and inside of everything else.
    #[error("the dynamic loader is not probed")]
    Loader,
}

/// Why calls of a function are counted and not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Untimed {
    /// One of its ends is a conditional jump into another function.
    #[error("it ends with a short conditional jump")]
    ConditionalExit,
    /// A jump through a register or memory may leave it or not.
    #[error("it has a jump with an unknown target")]
    UnknownJump,
    /// One of its ends cannot be displaced.
    #[error("one of its ends cannot be displaced")]
    NoExit,
}

/// Code of a module as it is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'b> {
    pub(crate) start: CodeAddr,
    pub(crate) bytes: &'b [u8],
}

impl<'b> Text<'b> {
    /// From an address on.
    pub(crate) fn from(&self, at: CodeAddr) -> Option<&'b [u8]> {
        let offset = usize::try_from(at.distance_from(self.start)).ok()?;
        self.bytes.get(offset..)
    }
}

/// The result of choosing the sites of a file's function, if all landings are free.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// Where it begins.
    pub address: CodeAddr,
    /// The compiler option by which it was prepared, if any.
    pub maker: Option<Maker>,
    /// Why it cannot be timed, if it cannot; why it has no probe at all.
    pub outcome: Result<Option<Untimed>, Refusal>,
}

/// The starts of the functions of a file, and of their parts: all that may get a probe.
pub fn functions(module: &Module) -> Result<Vec<CodeAddr>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let starts = Image::parse(&contents).map_err(failed)?.unwind_starts();
    let at = |start: u64| CodeAddr::new(module.bias.wrapping_add(start as usize));
    Ok(starts.into_iter().map(at).collect())
}

/// In which ways a compiler has prepared functions of a file.
pub fn makers(module: &Module) -> Result<BTreeSet<Maker>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let image = Image::parse(&contents).map_err(failed)?;
    let prepared = Frames::of(&image).map(|frames| Prepared::of(&image, &frames, module.bias));
    Ok(prepared.unwrap_or_default().makers())
}

/// The functions of a file, by address. Parts of others are left out.
pub fn prospects(module: &Module) -> Result<Vec<Prospect>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let image = Image::parse(&contents).map_err(failed)?;
    let Some(frames) = Frames::of(&image) else { return Ok(Vec::new()) };
    let (code, others, bias) = (image.code(), image.no_functions(), module.bias);
    let prepared = Prepared::of(&image, &frames, bias);
    let mut reserved = ByteReservations::default();
    prepared.reservations().for_each(|reservation| reserved.reserve(reservation));
    let mut prospects = Vec::new();
    for start in image.unwind_starts() {
        let address = CodeAddr::new(bias.wrapping_add(start as usize));
        let holds = |code: &&Code<'_>| (code.address..code.end()).contains(&start);
        let Some(segment) = code.iter().find(holds) else { continue };
        let from = CodeAddr::new(bias.wrapping_add(segment.address as usize));
        let text = Text { start: from, bytes: segment.bytes };
        let reader = Reader { text, frames: &frames, bias, others: &others };
        let body = match reader.body(address) {
            Err(Refusal::NoFunction) => continue,
            body => body,
        };
        let (all, free) = (&prepared, |_| Some(1));
        let chooser = Chooser {
            reader,
            reserved: &reserved,
            prepared: all,
            takes_any: true,
            price: free,
            granule: wordpatch::Granule::default(),
        };
        let choice = body.and_then(|body| chooser.choose(&body));
        let maker = choice.as_ref().ok().and_then(|choice| choice.entry.way.maker());
        choice
            .iter()
            .flat_map(Choice::reservations)
            .for_each(|reservation| reserved.reserve(reservation));
        prospects.push(Prospect { address, maker, outcome: choice.map(|choice| choice.untimed) });
    }
    Ok(prospects)
}

#[cfg(test)]
mod tests;
