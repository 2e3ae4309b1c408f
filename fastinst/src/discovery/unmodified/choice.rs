//! The sites of one function.
//!
//! ```text
//!   entry   room that a compiler left: hook, back behind it
//!           a compiler's call of its profiler: hook, ret
//!           else the first instruction that a landing fits, of those before the first branch:
//!           hook, what is displaced, back behind it
//!           or the call that ends these, by the last byte of its displacement: hook, on to what is called
//!           hook, what is displaced, hook, the exit    where the function is over before
//!           or a jump that is all of the function: hook, hook, the jump
//!   exit    `ret` with four bytes of padding behind it: its displacement is written there, off is `ret`
//!           or room before a jump that leaves: hook, back behind it
//!           or the exit, or one of the instructions that lead straight to it:
//!           what is displaced, hook, the exit
//!           or a jump that leaves, by the last byte of its displacement: hook, the jump
//!           or a `ret` before another one: nothing, so that the other one's site is its, too
//! ```
//!
//! If no landing fits a pun at an instruction's first byte, its first two bytes may become a prefix
//! and the opcode, and so on, within its length; an instruction of five bytes has room for a whole
//! jump. One store replaces them if they lie in one granule, and no thread is ever in the middle of
//! one instruction.
//!
//! A byte that is switched must not be read as another pun's displacement, even one of another
//! function: [`ByteReservations`] records these bytes. And an exit's site must not be among the
//! instructions that the entry displaces: a call through the trampoline would bypass it.

use super::body::{Flow, Line, Reader};
use super::prepared::Prepared;
use super::{Body, Refusal, Untimed};
use callpatch::Destination;
use callpatch::x86::{self, Form, Movable, RET, Transfer};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use std::ops::ControlFlow;
use wordpatch::{CodeAddr, Granule};

mod reservations;
mod site_plan;

pub(crate) use reservations::{ByteReservations, Reservation};
pub(crate) use site_plan::{Choice, Entry, Exit, Leap, Moved, Pun, Spot, Turn, Way};

/// Whether more than a byte is switched, and how many pages are taken.
type Price = (bool, usize);

/// The order of preference of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Nothing of the function is executed before it.
    First,
    Later(Price),
    /// A call of the function's own.
    Call,
    /// A thread returns into the pun.
    Slow,
}

const PUN: usize = Form::Jump.len();
/// The most prefixes of a jump.
const PREFIXES: usize = 3;
/// Code may jump into an instruction with this prefix, to the byte after it.
const LOCK: u8 = 0xf0;
const CALL: u8 = Form::Call.on();
/// The most instructions that are examined on either side of a point.
const BLOCK: usize = 24;
/// One of this many instructions at the beginning becomes the entry.
const ENTRIES: usize = 5;
/// The most instructions before a compiler's call of its profiler: they save registers, those of
/// variable arguments after a branch, and allocate stack.
const PROLOGUE: usize = 40;
/// The most instructions that lead to an exit.
const RUN: usize = 8;

/// How the sites of functions are chosen.
pub(crate) struct Chooser<'c, 'b, Pages> {
    pub(crate) reader: Reader<'c, 'b>,
    pub(crate) reserved: &'c ByteReservations,
    /// The functions that a compiler has prepared.
    pub(crate) prepared: &'c Prepared,
    /// Functions that are not prepared get probes, too.
    pub(crate) takes_any: bool,
    /// How many pages a landing takes; `None` if there can be none.
    pub(crate) price: Pages,
    /// What one store may replace.
    pub(crate) granule: Granule,
}

impl<'b, Pages: Fn(CodeAddr) -> Option<usize>> Chooser<'_, 'b, Pages> {
    /// Of a function. If not all of its exits can be switched with the entry that is preferred,
    /// others are tried.
    pub(crate) fn choose(&self, body: &Body<'b>) -> Result<Choice<'b>, Refusal> {
        let preferred = self.entry(body)?;
        let is_pun = matches!(preferred.way, Way::Pun(_) | Way::Own(_));
        let choice = self.with_exits(body, preferred);
        if choice.untimed.is_none() || body.untimed.is_some() || !is_pun {
            return Ok(choice);
        }
        let mut others = Vec::new();
        self.punned_entries(body, |rank, entry| {
            others.push((rank, entry));
            ControlFlow::Continue(())
        });
        others.sort_by_key(|(rank, _)| *rank);
        let others = others.into_iter().map(|(_, entry)| self.with_exits(body, entry));
        Ok(others.into_iter().find(|other| other.untimed.is_none()).unwrap_or(choice))
    }

    /// Of a function that is entered there.
    fn with_exits(&self, body: &Body<'b>, entry: Entry<'b>) -> Choice<'b> {
        if body.untimed.is_some() {
            return Choice { entry, exits: Vec::new(), untimed: body.untimed };
        }
        match self.exits(body, &entry) {
            Ok(exits) => Choice { entry, exits, untimed: None },
            Err(why) => Choice { entry, exits: Vec::new(), untimed: Some(why) },
        }
    }

    /// All exits of a function that is entered there, except for one that the entry displaces, too.
    /// The last is chosen first: an earlier one may lead to it.
    fn exits(&self, body: &Body<'b>, entry: &Entry<'b>) -> Result<Vec<Exit<'b>>, Untimed> {
        let displaced = entry.way.displaced();
        let mut reservations = vec![entry.way.reservation()];
        let mut exits: Vec<Exit<'b>> = Vec::new();
        for part in &body.parts {
            let is_exit = |line: &Line<'b>| {
                line.flow == Flow::Perhaps
                    || line.flow == Flow::Exit
                        && !(entry.is_whole() && displaced.contains(&line.at))
            };
            for (at, line) in part.iter().enumerate().rev().filter(|(_, line)| is_exit(line)) {
                let agrees = |reservation: Reservation| {
                    !displaced.contains(&reservation.site())
                        && reservations.iter().all(|other| reservation.agrees(*other))
                };
                let exit = match line.flow {
                    Flow::Perhaps => None,
                    _ => self.exit(body, part, at, agrees),
                };
                let falls = || {
                    let fall = Reservation::Fall(line.at);
                    let leads_to_exit = line.bytes == [RET]
                        && part.get(at + 1).is_some_and(|next| {
                            next.bytes == [RET] && reservations.iter().any(|c| c.site() == next.at)
                        });
                    (leads_to_exit && self.reserved.allows(fall) && agrees(fall))
                        .then_some(Exit::Fall(line.at))
                };
                let exit = exit.or_else(|| self.turn(line, agrees).map(Exit::Turn)).or_else(falls);
                let exit = exit.ok_or(match line.flow {
                    Flow::Perhaps => Untimed::ConditionalExit,
                    _ => Untimed::NoExit,
                })?;
                reservations.push(exit.reservation());
                exits.push(exit);
            }
        }
        Ok(exits)
    }

    fn entry(&self, body: &Body<'b>) -> Result<Entry<'b>, Refusal> {
        match self.prepared_entry(body) {
            Some(entry) => Ok(entry),
            None if self.takes_any => {
                self.turned_entry(body).map_or_else(|| self.punned_entry(body), Ok)
            }
            None => Err(Refusal::NotPrepared),
        }
    }

    /// A function that is nothing but a jump to another.
    fn turned_entry(&self, body: &Body<'b>) -> Option<Entry<'b>> {
        // `endbr64` may precede it.
        let first = body.parts.first()?.iter().find(|line| line.movable.is_some())?;
        let turn = self.turn(first, |_| true).filter(|_| first.flow == Flow::Exit)?;
        Some(Entry { way: Way::Turn(turn), depth: 0, is_first: true, before: Vec::new() })
    }

    /// The entry that a compiler has prepared, on the straight path from the beginning.
    fn prepared_entry(&self, body: &Body<'b>) -> Option<Entry<'b>> {
        let (mut depth, mut is_first) = (0i64, true);
        let part = body.parts.first()?;
        for (at, line) in part.iter().enumerate().take(PROLOGUE) {
            let room = self.prepared.room(line.at).filter(|_| is_first).map(Way::Room);
            if let Some(way) = room.or_else(|| self.profilers_call(line)) {
                let depth = u32::try_from(depth).ok()?;
                return Some(Entry { way, depth, is_first, before: part[..at].to_vec() });
            }
            // Branches of a prologue join again, and the stack is the same on both paths.
            let is_branch = line.flow == Flow::Around && line.movable.is_some();
            depth += line.lowers.filter(|_| line.flow == Flow::Next || is_branch)?;
            is_first &= line.movable.is_none();
        }
        None
    }

    fn profilers_call(&self, line: &Line<'_>) -> Option<Way<'b>> {
        if self.prepared.profiler().is_empty() || line.flow != Flow::Around {
            return None;
        }
        let Transfer::Switchable { form, displacement } = x86::decode(line.at, line.bytes)? else {
            return None;
        };
        let to = Destination::of(form, line.at, displacement);
        self.prepared.profiler().kind_of(to).map(|_| Way::Call(line.at, form))
    }

    fn punned_entry(&self, body: &Body<'b>) -> Result<Entry<'b>, Refusal> {
        let mut best: Option<(Rank, Entry<'b>)> = None;
        let refusal = self.punned_entries(body, |rank, entry| {
            if best.as_ref().is_none_or(|(lowest, _)| rank < *lowest) {
                best = Some((rank, entry));
            }
            match rank {
                Rank::First => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        best.map(|(_, entry)| entry).ok_or(refusal)
    }

    /// Offers all entries by puns, up to the first branch, call or branch target, until no more is
    /// wanted. Returns why there is none, if there is none.
    fn punned_entries(
        &self,
        body: &Body<'b>,
        mut offer: impl FnMut(Rank, Entry<'b>) -> ControlFlow<()>,
    ) -> Refusal {
        let Some(part) = body.parts.first() else { return Refusal::NoFunction };
        let (mut depth, mut is_first) = (0i64, true);
        let mut refusal = Refusal::NoEntry;
        for (at, line) in part.iter().enumerate().take(ENTRIES + 1) {
            if !is_first && body.targets.contains(&line.at) {
                break;
            }
            let Ok(below) = u32::try_from(depth) else { break };
            let entry = |way| {
                let before = part[..at].to_vec();
                Entry { way, depth: below, is_first, before }
            };
            for leap in self.leaps(line) {
                let Some(moved) = self.displaced(part, at, leap.len()) else { continue };
                let pun = Pun { at: line.at, leap, moved };
                refusal = Refusal::NoLanding;
                let Some(price) = self.price_of(&pun, |_| true) else { continue };
                let rank = if is_first { Rank::First } else { Rank::Later(price) };
                if offer(rank, entry(Way::Pun(pun))).is_break() {
                    return refusal;
                }
            }
            let slow = self.short_pun(part, at).map(Way::Pun);
            let call = || self.turned_call(line).filter(|_| line.flow == Flow::Around);
            let own = call().map(|turn| (Rank::Call, Way::Own(turn)));
            for (rank, way) in own.into_iter().chain(slow.map(|way| (Rank::Slow, way))) {
                if offer(rank, entry(way)).is_break() {
                    return refusal;
                }
            }
            let Some(lowers) = line.lowers.filter(|_| line.flow == Flow::Next) else { break };
            depth += lowers;
            is_first &= line.movable.is_none();
        }
        refusal
    }

    /// The site of a point: the instruction there. A thread returns after the displaced
    /// instructions. If these would bypass another point, or cannot be moved, it returns just after
    /// the point: that is slow while it is on, since branch predictors take those bytes for a
    /// jump's. If no landing is free, the site is another instruction that every thread passing the
    /// point executes.
    pub(crate) fn point(
        &self,
        body: &Body<'b>,
        at: CodeAddr,
        is_point: impl Fn(CodeAddr) -> bool,
    ) -> Result<Spot<'b>, Refusal> {
        let here = |part: &&Vec<Line<'b>>| part.iter().any(|line| line.at == at);
        let part = body.parts.iter().find(here).ok_or(Refusal::Undecodable)?;
        let index = part.iter().position(|line| line.at == at).ok_or(Refusal::Undecodable)?;
        let leads_on = |line: &Line<'b>| line.flow == Flow::Next;
        let is_target = |at: usize| body.targets.contains(&part[at].at);
        let behind = (index + 1..part.len().min(index + BLOCK))
            .take_while(|&first| leads_on(&part[first - 1]) && !is_target(first));
        let before = (index.saturating_sub(BLOCK)..index).rev();
        let before = before.take_while(|&first| leads_on(&part[first]) && !is_target(first + 1));
        let is_other = |line: &Line<'b>| line.at != at && is_point(line.at);
        let alone = |first: usize| {
            let may_move =
                first == index && part[index].movable.is_some() && leads_on(&part[index]);
            may_move.then(|| vec![part[index]])
        };
        let mut refusal = Refusal::NoEntry;
        for first in std::iter::once(index).chain(behind.clone()).chain(before) {
            let whole = self.displaced(part, first, PUN);
            let whole = whole.filter(|moved| !moved.iter().any(is_other));
            let Some(moved) = whole.or_else(|| alone(first)) else { continue };
            let puns = self.leaps(&part[first]).map(|leap| Pun {
                at: part[first].at,
                leap,
                moved: moved.clone(),
            });
            let puns: Vec<Pun<'_>> =
                puns.filter(|pun| self.reserved.allows(pun.reservation())).collect();
            refusal = match puns.is_empty() {
                true => refusal.max(Refusal::TooNear),
                false => Refusal::NoLanding,
            };
            if let Some(pun) = puns.into_iter().find(|pun| self.price_of(pun, |_| true).is_some()) {
                return Ok(Spot::Pun(pun));
            }
        }
        // The end of the straight line: a jump or a call, by its last byte, or a `ret`.
        let last = &part[behind.last().unwrap_or(index)];
        let padded = Reservation::Padded(last.at);
        if last.bytes == [RET] && self.is_padded(body, last.end()) && self.reserved.allows(padded) {
            return Ok(Spot::Padded(last.at));
        }
        let turn = (!is_other(last)).then(|| self.turn(last, |_| true)).flatten();
        turn.or_else(|| self.turned_call(last)).map(Spot::Turn).ok_or(refusal)
    }

    /// A call, by the last byte of its displacement: the landing jumps to the original target.
    fn turned_call(&self, line: &Line<'_>) -> Option<Turn> {
        let [CALL, displacement @ ..] = line.bytes else { return None };
        let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
        self.turned(line, Form::Call.destination(line.at, displacement), |_| true)
    }

    /// The instructions that an entry there displaces: whole ones, at least as long as a jump of
    /// `jump` bytes, so no thread returns into the middle of the jump. That would be slow: branch
    /// predictors take it for a jump. A `ret` alone is not an entry: there is nothing to time.
    fn displaced(&self, part: &[Line<'b>], at: usize, jump: usize) -> Option<Vec<Line<'b>>> {
        let is_jump = matches!(part[at].movable, Some(Movable::Jump { .. }));
        if part[at].flow == Flow::Exit && !is_jump {
            return None;
        }
        let mut moved = Vec::new();
        let mut len = 0;
        for line in &part[at..] {
            let may_move = line.movable.is_some() && !line.may_fault;
            if !may_move {
                return None;
            }
            moved.push(*line);
            len += line.bytes.len();
            if len >= jump || matches!(line.flow, Flow::Jump | Flow::Exit) {
                return Some(moved);
            }
        }
        None
    }

    /// A pun that displaces less than the length of a jump, since the next instruction may fault: a
    /// thread returns into its bytes, which are unchanged. That is slow while it is on.
    fn short_pun(&self, part: &[Line<'b>], at: usize) -> Option<Pun<'b>> {
        let safe = part[at..].iter().take_while(|line| {
            let leads_on = matches!(line.flow, Flow::Next | Flow::Around);
            line.movable.is_some() && !line.may_fault && leads_on
        });
        let mut len = 0;
        let moved: Vec<Line<'b>> = safe
            .take_while(|line| {
                len += line.bytes.len();
                len < PUN
            })
            .copied()
            .collect();
        moved.first()?;
        let leap = self.leaps(&part[at]).find(|leap| matches!(leap, Leap::Byte(_)))?;
        let pun = Pun { at: part[at].at, leap, moved };
        self.price_of(&pun, |_| true).map(|_| pun)
    }

    /// The possible new beginnings of an instruction, the smallest first.
    fn leaps(&self, line: &Line<'b>) -> impl Iterator<Item = Leap> + use<'b, Pages> {
        let code = self.reader.text.from(line.at).unwrap_or_default();
        let (at, len, granule) = (line.at, line.bytes.len(), self.granule);
        let is_jump = line.bytes.first() == Some(&Form::Jump.on());
        let may_change = line.bytes.first() != Some(&LOCK) && !is_jump;
        let fits = move |bytes| may_change && bytes <= len && granule.cut(at, bytes).is_none();
        let from =
            move |by: usize| code.get(by..).and_then(|code| code.first_chunk::<PUN>().copied());
        let byte = from(0).filter(|_| !is_jump).map(Leap::Byte);
        let prefixed = (1..=PREFIXES)
            .filter(move |by| fits(by + 1))
            .filter_map(move |by| Some(Leap::Prefixed(by, from(by)?)));
        let whole = from(0).filter(|_| fits(PUN)).map(Leap::Whole);
        byte.into_iter().chain(prefixed).chain(whole)
    }

    /// The price of a pun: whether more than a byte is switched, and how many pages it takes;
    /// `None` if it is impossible.
    fn price_of(&self, pun: &Pun<'b>, agrees: impl Fn(Reservation) -> bool) -> Option<Price> {
        let reservation = pun.reservation();
        if !(self.reserved.allows(reservation) && agrees(reservation)) {
            return None;
        }
        let pages = match pun.landing() {
            Some(landing) => (self.price)(landing)?,
            None => 0,
        };
        Some((!matches!(pun.leap, Leap::Byte(_)), pages))
    }

    fn exit(
        &self,
        body: &Body<'b>,
        part: &[Line<'b>],
        at: usize,
        agrees: impl Fn(Reservation) -> bool,
    ) -> Option<Exit<'b>> {
        let line = &part[at];
        let padded = Reservation::Padded(line.at);
        if line.bytes == [RET]
            && self.is_padded(body, line.end())
            && self.reserved.allows(padded)
            && agrees(padded)
        {
            return Some(Exit::Padded(line.at));
        }
        // A sled is a jump and the nop that it leads over; of a function that is nothing but a jump
        // the room before it is the entry's.
        let mut sleds = part[at.saturating_sub(2)..at].iter();
        if let Some(room) = sleds.find_map(|before| self.prepared.room(before.at))
            && room.end() == line.at
            && agrees(Reservation::Room(room.at, room.len))
        {
            return Some(Exit::Room(room));
        }
        // A pun that reads the first byte of the next function would leave that without an entry.
        let end = part.last().map_or(line.end(), Line::end);
        let reaches_over =
            |pun: &Pun<'_>| pun.at.offset(pun.leap.len() as isize) > end && self.begins(end);
        let mut best: Option<((bool, Price), Pun<'b>)> = None;
        for first in (at.saturating_sub(RUN)..=at).rev() {
            let line = &part[first];
            let may_move = line.movable.is_some() && !line.may_fault;
            // A branch within the function leads from the trampoline to its original target.
            let leads_on = matches!(line.flow, Flow::Next | Flow::Around);
            if !may_move || (first < at && !leads_on) {
                break;
            }
            for leap in self.leaps(line) {
                let pun = Pun { at: line.at, leap, moved: part[first..=at].to_vec() };
                if let Some(price) = self.price_of(&pun, &agrees)
                    && let rank = (reaches_over(&pun), price)
                    && best.as_ref().is_none_or(|(lowest, _)| rank < *lowest)
                {
                    best = Some((rank, pun));
                }
            }
            // A jump to the next instruction would bypass it.
            if body.targets.contains(&line.at) {
                break;
            }
        }
        best.map(|(_, pun)| Exit::Pun(pun))
    }

    /// A jump with a displacement of four bytes, by the last of them: where it leads then a landing
    /// is there, or a page for one.
    fn turn(&self, line: &Line<'_>, agrees: impl Fn(Reservation) -> bool) -> Option<Turn> {
        let ([0xe9, ..] | [0x0f, 0x80..=0x8f, ..]) = line.bytes else { return None };
        let (Movable::Jump { to } | Movable::Branch { to, .. }) = line.movable? else {
            return None;
        };
        self.turned(line, to, agrees)
    }

    /// A jump or a call to an address, by the last byte of its displacement.
    fn turned(
        &self,
        line: &Line<'_>,
        to: CodeAddr,
        agrees: impl Fn(Reservation) -> bool,
    ) -> Option<Turn> {
        let at = line.end().offset(-(PUN as isize));
        let reservation = Reservation::Turn(at);
        if !(self.reserved.allows(reservation) && agrees(reservation)) {
            return None;
        }
        let bytes = *self.reader.text.from(at)?.first_chunk::<PUN>()?;
        // The order is the same for all, so transfers to neighbouring targets have landings on one
        // page.
        let mut turns =
            (1..=u8::MAX).map(|by| Turn { at, bytes, last: bytes[PUN - 1].wrapping_add(by), to });
        turns.find(|turn| (self.price)(turn.landing()).is_some())
    }

    /// Whether the four bytes from `at` on are executed by no thread: padding, up to what follows.
    fn is_padded(&self, body: &Body<'b>, at: CodeAddr) -> bool {
        let Some(code) = self.reader.text.from(at) else { return false };
        let code = &code[..code.len().min(16)];
        let mut decoder = Decoder::with_ip(64, code, at.get() as u64, DecoderOptions::NONE);
        let end = at.offset(PUN as isize - 1);
        let mut next = at;
        while next < end {
            if !decoder.can_decode() || body.targets.contains(&next) || self.begins(next) {
                return false;
            }
            let instruction = decoder.decode();
            if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                return false;
            }
            next = CodeAddr::new(instruction.next_ip() as usize);
        }
        true
    }

    /// Whether a function, or a part of one, begins there.
    fn begins(&self, at: CodeAddr) -> bool {
        self.reader.range_of(at).is_some_and(|range| range.start == at)
    }
}
