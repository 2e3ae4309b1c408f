//! Shared code of the end-to-end tests.

pub mod c_program;
pub mod hostility;

/// `wordpatch`'s tables on loom's atomics: the same source files, in every interleaving.
#[path = "ledger_model.rs"]
pub mod ledger_model;

#[path = "../../wordpatch/src/addr.rs"]
#[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
mod addr;
#[path = "../../wordpatch/src/address_map.rs"]
#[allow(dead_code, reason = "a model uses a part of it")]
mod address_map;
#[path = "../../wordpatch/src/ledger.rs"]
#[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
mod ledger;
#[path = "../../wordpatch/src/range_lock.rs"]
#[allow(dead_code, reason = "a model uses a part of it")]
mod range_lock;

/// In `wordpatch` these are the standard library's.
mod sync {
    pub(crate) use loom::sync::atomic::{
        AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}
