//! An ahead-of-time WebAssembly engine: from a module's bytes to machine code, files of it, and the
//! runtime around it.
//!
//! `wasm-aot` is the crate that embedders use; it re-exports all names of this one. Monitors and
//! probes are built on [`instrument`]. `DESIGN.md` walks through the files.

// Programs that tests share refer to the crate by this name.
#[cfg(test)]
extern crate self as wasm_aot;

mod array;
mod artifact;
mod cache;
mod compile;
mod engine;
mod error;
mod exception;
mod features;
pub mod inspection;
mod module;
mod offsets;
mod registry;
mod runtime;
mod stack;
mod trap;
mod types;
mod verification;
mod vm;

pub use cache::Cache;
pub use compile::{Cpu, Optimize, Options, Sites};
pub use engine::{Config, Engine};
pub use error::{
    Backtrace, CompileError, Error, ExceptionReport, FrameInfo, Place, ProbeReport, TrapReport,
    demangled,
};
pub use features::{Proposal, Specification};
pub use runtime::{
    AsContextMut, BlockCount, BranchCount, CallCount, Caller, Counts, Demand, Demanded, EdgeCount,
    ExnRef, ExportType, Extern, ExternRef, Func, FunctionCounts, Global, HostResult, ImportType,
    Instance, InstancePre, InstructionCount, InterruptHandle, IntoFunc, Limits, Linker, LoopCount,
    Memory, Module, Params, RawFunc, Results, SharedMemory, Store, StoreAccess, StoreContextMut,
    Table, Tag, TaskError, TaskHandle, TypedFunc, UnknownImport, Val, WasmTy,
};
pub use trap::Trap;
pub use types::*;
pub use verification::verify;

/// The engine's interface for instruments: the parts that the code of monitors and probes is built
/// from, and their access to modules and stores.
pub mod instrument {
    pub use crate::error::Printable;
    pub use crate::features::Features;

    /// What is compiled into code: plans of hooks, and the emitter that writes them.
    pub mod compile {
        pub use crate::compile::{
            Access, Action, Budget, Call, Callee, Calls, Capture, Carried, Cpu, Detours, Draft,
            Emitter, Firing, Guest, HookId, Import, Inline, InstanceSlots, Mode, OneShotClient,
            OneShotProbe, Options, OsrLoops, Plan, Receiver, Recompilation, Sequence, Sites, Span,
            Target, Text, Wanted, Word, compile,
        };
    }

    /// The declarations of a module.
    pub mod module {
        pub use crate::module::{
            Body, Import, ModuleInfo, Reading, Space, debug_information, operand_type, read,
        };
    }

    /// Tables that map code offsets to numbers.
    pub mod offsets {
        pub use crate::offsets::{ASIDE, NOTHING, Offsets};
    }

    /// The runtime's interface for instruments.
    pub mod runtime {
        pub use crate::runtime::{
            Beginning, BlockCount, Boundary, Call, Callee, CompileEvents, Counted, Counts,
            Crossing, Due, EdgeCount, FunctionCounts, Growth, Guests, InstructionCount,
            Interruption, MemoryRange, Module, ModuleInner, ObservedLayer, Origin, Places, Prunes,
            Share, SiteProbe, SiteProbeKind, StoreCore, StoreId, TakesEffect, Val, activation_slot,
            binary, call_guest, callers, identity, introduce_all_to, memory_of, note_probe_failure,
            spelled, store_id_of, waiting, with_store_of,
        };
    }

    /// Data structures that machine code and the runtime share.
    pub mod vm {
        pub use crate::vm::{Builtin, Cell, context};
    }
}
