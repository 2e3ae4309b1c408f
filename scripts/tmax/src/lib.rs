//! draft
pub mod storm;
