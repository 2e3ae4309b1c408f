//! Access of monitors to the memories of the program: functions of the module `wasm-aot:ext`, with
//! the meaning of the instructions of these names.
//!
//! | function | parameters | result |
//! |---|---|---|
//! | `memory_size` | memory | its pages (i64) |
//! | `memory_copy` | memory, address (i64), from which memory, address there (i64), length (i64) | |
//! | `memory_fill` | memory, address (i64), byte, length (i64) | |
//! | `memory_init` | memory, address (i64), data segment, offset there (i64), length (i64) | |
//! | `active_data_start`, `active_data_len` | memory | range of all active data (i64) |
//!
//! A memory is an i32: from 0 on, that memory of the program; below 0, one of the calling module's,
//! of which -1 is the first. A range that is not inside of its memory is a trap of the monitor, and
//! nothing is written. A memory or segment that is not there is an error that names it.
//!
//! The memories exist from the event `engine:instantiated` on. Before, the size is the one that the
//! program declares, and everything else that accesses a memory is an error.

use super::host::Program;
use super::rule::MARKER;
use super::switches::Switches;
use std::sync::{Arc, OnceLock};
use wasm_aot_body::segments;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Caller;
use wasm_aot_engine::Error;
use wasm_aot_engine::Instance;
use wasm_aot_engine::Linker;
use wasm_aot_engine::Memory;
use wasm_aot_engine::instrument::runtime::{MemoryRange, StoreCore};
use wasmparser::{DataKind, Parser, Payload};

/// What a monitor's functions see of its program's memories.
#[derive(Clone, Debug)]
struct Memories {
    program: Arc<Program>,
    switches: Switches,
    /// Where the active data of each memory begin, and how long the range of all of them is: read
    /// when a monitor asks.
    data: Arc<OnceLock<Vec<(i64, i64)>>>,
}

impl Memories {
    fn new(program: &Arc<Program>, switches: &Switches) -> Self {
        Self { program: Arc::clone(program), switches: switches.clone(), data: Arc::default() }
    }

    /// Where the active data of a memory begin, and how long the range of all of them is.
    fn active_data(&self, memory: i32) -> Result<(i64, i64), Error> {
        let spans = self.data.get_or_init(|| {
            let all = active(&self.program.bytes);
            let own = |memory| all.iter().filter(move |segment| segment.0 == memory);
            let span = |memory| segments::span(own(memory).map(|&(_, at, len)| (at, len)));
            (0..self.program.info.memories.len()).map(span).collect()
        });
        Ok(spans[self.index(memory)?])
    }

    /// The index of one of the program's memories.
    fn index(&self, memory: i32) -> Result<usize, Error> {
        let count = self.program.info.memories.len();
        let found = usize::try_from(memory).ok().filter(|memory| *memory < count);
        found.ok_or_else(|| {
            Error::Link(match count {
                0 => format!("there is no memory {memory}: the program has none"),
                1 => format!("there is no memory {memory}: the program has one, memory 0"),
                _ => format!("there is no memory {memory}: the program has {count}"),
            })
        })
    }

    /// The program's instance in a store, if it exists.
    fn instance(&self, core: &StoreCore) -> Result<Option<Instance>, Error> {
        let Some(observed) = self.switches.observed() else { return Ok(None) };
        match Instance::all_of(core, &observed)[..] {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            _ => Err(Error::Link(
                "the program has several instances here, so that it is not known whose memory \
                 this is"
                    .into(),
            )),
        }
    }

    /// The program's instance, which has to exist.
    fn running(&self, core: &StoreCore) -> Result<Instance, Error> {
        let early = "the program's memories do not exist yet: they do from engine:instantiated on";
        self.instance(core)?.ok_or_else(|| Error::Link(early.into()))
    }

    /// A memory by the number that a monitor gives.
    fn memory<T>(&self, caller: &mut Caller<'_, T>, number: i32) -> Result<Memory, Error> {
        let own = caller.instance();
        let mut context = caller.as_context_mut();
        let core = context.core();
        if number >= 0 {
            let index = self.index(number)?;
            let found = self.running(core)?.memory(core, index as u32);
            return found.ok_or_else(|| Error::Link(format!("there is no memory {number}")));
        }
        let found = own.and_then(|own| own.memory(core, (!number).cast_unsigned()));
        found.ok_or_else(|| Error::Link(format!("the monitor has no memory {}", !number)))
    }

    fn size<T>(&self, caller: &mut Caller<'_, T>, number: i32) -> Result<i64, Error> {
        if number >= 0 {
            let index = self.index(number)?;
            if self.instance(caller.as_context_mut().core())?.is_none() {
                return Ok(self.program.info.memories[index].minimum.cast_signed());
            }
        }
        let memory = self.memory(caller, number)?;
        Ok(memory.size(caller.as_context_mut())?.cast_signed())
    }

    fn range<T>(
        &self,
        caller: &mut Caller<'_, T>,
        number: i32,
        [at, len]: [i64; 2],
    ) -> Result<MemoryRange, Error> {
        let (at, len) = (at.cast_unsigned(), len.cast_unsigned());
        Ok(MemoryRange { memory: self.memory(caller, number)?, at, len })
    }

    fn init<T>(
        &self,
        caller: &mut Caller<'_, T>,
        to: &MemoryRange,
        segment: i32,
        from: i64,
    ) -> Result<(), Error> {
        let mut context = caller.as_context_mut();
        let core = context.core();
        let (segment, from) = (segment.cast_unsigned(), from.cast_unsigned());
        let found = self.running(core)?.segment_bytes(core, segment, from, to.len);
        let lacks = || Error::Link(format!("the program has no data segment {segment}"));
        to.init(context, &found.ok_or_else(lacks)??)
    }
}

/// The active data of a module: memory, offset and length of each segment whose offset is constant.
fn active(bytes: &[u8]) -> Vec<(usize, i64, usize)> {
    let mut list = Vec::new();
    for payload in Parser::new(0).parse_all(bytes).flatten() {
        let Payload::DataSection(section) = payload else { continue };
        for data in section.into_iter().flatten() {
            if let DataKind::Active { memory_index, offset_expr } = &data.kind
                && let Ok(Some(at)) = segments::constant_offset(offset_expr)
            {
                list.push((*memory_index as usize, at, data.data.len()));
            }
        }
    }
    list
}

/// Gives a linker the functions that access a program's memories.
pub(super) fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    program: &Arc<Program>,
    switches: &Switches,
) -> Result<(), Error> {
    const MODULE: &str = MARKER.0;
    let memories = Memories::new(program, switches);
    let own = memories.clone();
    linker.func_wrap(MODULE, "memory_size", move |mut caller: Caller<'_, T>, memory: i32| {
        own.size(&mut caller, memory)
    })?;
    let own = memories.clone();
    let copy =
        move |mut caller: Caller<'_, T>, to: i32, at: i64, from: i32, there: i64, len: i64| {
            let range = own.range(&mut caller, to, [at, len])?;
            let from = own.memory(&mut caller, from)?;
            range.copy_from(caller, from, there.cast_unsigned())
        };
    linker.func_wrap(MODULE, "memory_copy", copy)?;
    let own = memories.clone();
    let fill = move |mut caller: Caller<'_, T>, memory: i32, at: i64, byte: i32, len: i64| {
        own.range(&mut caller, memory, [at, len])?.fill(caller, byte as u8)
    };
    linker.func_wrap(MODULE, "memory_fill", fill)?;
    let own = memories.clone();
    let init =
        move |mut caller: Caller<'_, T>, to: i32, at: i64, data: i32, from: i64, len: i64| {
            let range = own.range(&mut caller, to, [at, len])?;
            own.init(&mut caller, &range, data, from)
        };
    linker.func_wrap(MODULE, "memory_init", init)?;
    let own = memories.clone();
    linker.func_wrap(MODULE, "active_data_start", move |memory: i32| {
        own.active_data(memory).map(|(start, _)| start)
    })?;
    linker.func_wrap(MODULE, "active_data_len", move |memory: i32| {
        memories.active_data(memory).map(|(_, len)| len)
    })?;
    Ok(())
}
