//! The atomics of the tables that several threads and a signal handler share. They have one name
//! here, so that the loom models can compile the same tables on loom's atomics.

pub(crate) use std::sync::atomic::{
    AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
