//! Trampolines for types that no module has: compiled when first needed, and kept.
//!
//! # Safety
//!
//! This module exists to own a little code for as long as the process lives.
#![allow(unsafe_code)]

use crate::compile::{self, Target};
use crate::error::Error;
use crate::registry::{self, TypeId};
use parking_lot::Mutex;
use std::collections::HashMap;
use wordpatch::CodeMemory;

/// The trampolines that enter and leave functions of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) enter: *const u8,
    pub(crate) leave: *const u8,
}

// SAFETY: (1) addresses of code that is never freed or changed.
unsafe impl Send for Pair {}

#[derive(Default)]
struct Bridges {
    pairs: Vec<(TypeId, Pair)>,
    by_type: HashMap<TypeId, usize>,
    room: Option<(CodeMemory, usize)>,
    full: Vec<CodeMemory>,
}

static BRIDGES: Mutex<Option<Bridges>> = Mutex::new(None);
/// How much is mapped at a time.
const CHUNK: usize = 64 << 10;

/// The trampolines of a type.
pub(crate) fn for_type(ty: TypeId, target: &Target) -> Result<Pair, Error> {
    let mut bridges = BRIDGES.lock();
    let bridges = bridges.get_or_insert_default();
    if let Some(known) = bridges.by_type.get(&ty) {
        return Ok(bridges.pairs[*known].1);
    }
    let [enter, leave] = compile::bridge(&registry::look_up(ty), target)?;
    let pair = Pair { enter: bridges.place(&enter)?, leave: bridges.place(&leave)? };
    bridges.by_type.insert(ty, bridges.pairs.len());
    bridges.pairs.push((ty, pair));
    Ok(pair)
}

impl Bridges {
    fn place(&mut self, code: &[u8]) -> Result<*const u8, Error> {
        let fits =
            self.room.as_ref().is_some_and(|(memory, used)| used + code.len() <= memory.len());
        if !fits {
            let memory = CodeMemory::new(code.len().max(CHUNK)).map_err(Error::system)?;
            self.full.extend(self.room.replace((memory, 0)).map(|(memory, _)| memory));
        }
        let (memory, used) = self.room.as_mut().expect("made above");
        memory.write(*used, code);
        let at = (memory.base().get() + *used) as *const u8;
        *used = (*used + code.len()).next_multiple_of(16);
        Ok(at)
    }
}
