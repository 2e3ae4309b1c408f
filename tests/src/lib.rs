//! Shared code of the end-to-end tests.

pub mod c_program;
pub mod hostility;

/// `wordpatch`'s tables on loom's atomics: the same source files, in every interleaving.
#[path = "ledger_model.rs"]
pub mod ledger_model;

#[path = "../../wordpatch/src/addr.rs"]
#[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
mod addr;
#[path = "../../wordpatch/src/atlas.rs"]
#[allow(dead_code, reason = "a model uses a part of it")]
mod atlas;
#[path = "../../wordpatch/src/claim.rs"]
#[allow(dead_code, reason = "a model uses a part of it")]
mod claim;
#[path = "../../wordpatch/src/ledger.rs"]
#[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
mod ledger;

/// In `wordpatch` these are the standard library's.
mod sync {
    pub(crate) use loom::sync::atomic::{
        AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}
