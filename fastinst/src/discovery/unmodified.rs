//! Unmodified code: functions that no compiler has prepared, found by their unwind information.
//!
//! ```text
//!   frames   .eh_frame says where functions begin and end, and which parts are no beginning
//!   body     one function, decoded: where it can be left, what can be moved
//!   choice   the sites of one function: its entry and all of its exits, by puns and in padding
//! ```
//!
//! Unwind information is the table to start from: it survives `strip`, covers functions that have
//! no symbol, and its ranges hold code and nothing else. A function is decoded when it is to be
//! probed, and not before.

mod body;
mod choice;
mod frames;

pub(crate) use body::{Body, Reader};
pub(crate) use choice::{Choice, Chooser, Claim, Entry, Exit, Ground, Moved, Pun};
pub(crate) use frames::Frames;

use super::{Code, DiscoveryError, Image, Module};
use wordpatch::CodeAddr;

/// Why a function has no probes, or only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// No unwind information says where it ends, or it is a part of another function.
    #[error("no unwind information says that a function begins there")]
    NoFunction,
    /// It has bytes that are no instructions.
    #[error("it does not decode")]
    Undecodable,
    /// Its code in memory is not that of the file.
    #[error("its code was changed in memory")]
    Changed,
    /// No instruction at its beginning can be displaced.
    #[error("no instruction at its beginning can be displaced")]
    NoEntry,
    /// Where its entry would lead, no landing can lie.
    #[error("no landing is free for its beginning")]
    NoLanding,
}

/// Why calls of a function are counted and not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Untimed {
    /// One of its ends is a conditional jump into another function.
    #[error("it ends with a conditional jump")]
    ConditionalExit,
    /// A jump through a register or memory may leave it or not.
    #[error("a jump of it leads anywhere")]
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

/// What can be done with a function of a file that no compiler has prepared, if all landings are
/// free.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// Where it begins.
    pub address: CodeAddr,
    /// Why it cannot be timed, if it cannot; why it has no probe at all.
    pub outcome: Result<Option<Untimed>, Refusal>,
}

/// The functions of a file, by address. Parts of others are left out.
pub fn prospects(module: &Module) -> Result<Vec<Prospect>, DiscoveryError> {
    let contents = module.contents()?;
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let image = Image::parse(&contents).map_err(failed)?;
    let Some(frames) = Frames::of(&image) else { return Ok(Vec::new()) };
    let (code, others, bias) = (image.code(), image.no_functions(), module.bias);
    let mut ground = Ground::default();
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
        let choose = |body: Body<'_>| {
            let price = |_| Some(1);
            let choice =
                Chooser { reader, ground: &ground, price, careful: false }.choose(&body)?;
            let claims: Vec<Claim> = choice.claims().collect();
            Ok((claims, choice.untimed))
        };
        let outcome = body.and_then(choose).map(|(claims, untimed)| {
            claims.into_iter().for_each(|claim| ground.take(claim));
            untimed
        });
        prospects.push(Prospect { address, outcome });
    }
    Ok(prospects)
}

#[cfg(test)]
mod tests;
