//! Unwinding: from registers and a copy of the stack to the places of its calls, by framehop: by
//! unwind information where it exists, otherwise by frame pointers.

use super::mappings::Mappings;
use crate::attribution::{Place, Stack};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use std::collections::HashSet;
use std::sync::Arc;
use wordpatch::os::perf::{Registers, Seen};

/// No copied stack has more places.
const MOST: usize = 256;

type Bytes = Arc<[u8]>;

pub(super) struct Unwinding {
    unwinder: UnwinderX86_64<Bytes>,
    cache: Box<CacheX86_64>,
    /// Mappings that the unwinder knows.
    known: HashSet<u32>,
    generation: u32,
}

impl Default for Unwinding {
    fn default() -> Self {
        Self {
            unwinder: UnwinderX86_64::new(),
            cache: Box::default(),
            known: HashSet::new(),
            generation: 0,
        }
    }
}

impl std::fmt::Debug for Unwinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinding").field("known", &self.known).finish_non_exhaustive()
    }
}

/// How a program calls hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooks {
    /// By call instructions.
    Calls,
    /// Some by puns, which put registers on its stack.
    Puns,
}

impl Unwinding {
    /// The places of a stack. `is_ours` says which mapping is the profiler's library.
    pub(super) fn walk(
        &mut self,
        mappings: &mut Mappings,
        seen: &Seen<'_>,
        start: Registers,
        hooks: Hooks,
        is_ours: impl Fn(&Mappings, Place) -> bool,
    ) -> Stack {
        let word = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(start.sp)).map_err(drop)?;
            let bytes = seen.stack.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        let mut places = vec![mappings.place(start.ip, seen.time)];
        let mut registers = UnwindRegsX86_64::new(start.ip, start.sp, start.bp);
        let mut address = FrameAddress::from_instruction_pointer(start.ip);
        // Trampolines and stubs have no unwind information; those that are called leave the stack
        // as it is, so that the return address lies on top.
        let is_hook = places[0] == Place::NOWHERE || is_ours(mappings, places[0]);
        if is_hook
            && hooks == Hooks::Calls
            && let Ok(back) = word(start.sp)
            && let Some(caller) = FrameAddress::from_return_address(back)
        {
            let place = mappings.place(caller.address_for_lookup(), seen.time);
            if place != Place::NOWHERE && !is_ours(mappings, place) {
                registers = UnwindRegsX86_64::new(back, start.sp + 8, start.bp);
                address = caller;
                places.push(place);
            }
        }
        let is_whole = loop {
            self.learn(mappings, places[places.len() - 1]);
            let next = self.unwinder.unwind_frame(
                address,
                &mut registers,
                &mut self.cache,
                &mut |address| word(address),
            );
            match next.map(|next| next.map(FrameAddress::from_return_address)) {
                Ok(Some(Some(caller))) if places.len() < MOST => address = caller,
                // A return address of zero is the end that the first frame of a thread is given.
                Ok(None | Some(None)) => break true,
                _ => break false,
            }
            places.push(mappings.place(address.address_for_lookup(), seen.time));
        };
        Stack { places: places.into(), is_whole }
    }

    /// Adds the mapping of a place to the unwinder.
    fn learn(&mut self, mappings: &mut Mappings, place: Place) {
        if self.generation != mappings.generation {
            *self = Self { generation: mappings.generation, ..Self::default() };
        }
        if place == Place::NOWHERE || !self.known.insert(place.mapping) {
            return;
        }
        let (Some(image), Some(mapped)) =
            (mappings.image(place.mapping), mappings.get(place.mapping))
        else {
            return;
        };
        let span = |section: &(u64, Bytes)| section.0..section.0 + section.1.len() as u64;
        let contents =
            |section: &Option<(u64, Bytes)>| section.as_ref().map(|(_, bytes)| bytes.clone());
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: image.frames.as_ref().map(span),
            eh_frame: contents(&image.frames),
            eh_frame_hdr_svma: image.index.as_ref().map(span),
            eh_frame_hdr: contents(&image.index),
            ..ExplicitModuleSectionInfo::default()
        };
        let range = mapped.start as u64..mapped.end as u64;
        self.unwinder.add_module(Module::new(String::new(), range, image.bias as u64, sections));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::asm;
    use std::hint::black_box;
    use wordpatch::os::threads::current;

    #[inline(never)]
    fn inner() -> (Registers, Vec<u8>) {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: (1) reads registers.
        #[allow(unsafe_code)]
        unsafe {
            asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
        }
        // SAFETY: (1) the stack of a test's thread has more than so much above the innermost frame,
        // since its callers keep it.
        #[allow(unsafe_code)]
        let stack = unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(sp as usize), 3000)
        }
        .to_vec();
        (Registers { ip, sp, bp }, stack)
    }

    #[inline(never)]
    fn outer() -> (Registers, Vec<u8>) {
        let room = black_box([7u8; 4000]);
        let seen = black_box(inner());
        black_box(room);
        seen
    }

    #[test]
    fn callers_are_found_without_frame_pointers() {
        let (registers, stack) = black_box(outer());
        let mut mappings = Mappings::default();
        let seen = Seen {
            thread: current(),
            time: 0,
            address: registers.ip,
            user: Some(registers),
            stack: &stack,
        };
        let seen =
            Unwinding::default().walk(&mut mappings, &seen, registers, Hooks::Calls, |_, _| false);
        let start = |mappings: &mut Mappings, at: usize| {
            let start = mappings.start(seen.places[at]);
            mappings.address(start)
        };
        assert!(seen.places.len() >= 2, "{seen:?}");
        assert_eq!(start(&mut mappings, 0), Some(inner as *const () as usize));
        assert_eq!(start(&mut mappings, 1), Some(outer as *const () as usize));
        assert!(!seen.is_whole, "the copy ends within its caller's frame");
    }
}
