//! Helpers for tests of several crates. They do not depend on the tested code; only tests depend on
//! them.
//!
//! A test that lacks a tool prints a message and is skipped, or fails if `FASTINST_TEST_REQUIRE` is
//! set. A test that waits polls with a deadline ([`eventually`]); none asserts a duration.

mod browser;
mod c;
mod command_line;
mod folder;
mod poll;
mod process;
mod terminal;
mod tool;

pub use browser::{Browser, View};
pub use c::{built_alone, compile, rustc_for_wasi};
pub use command_line::follows_the_rules;
pub use folder::Folder;
pub use poll::{PATIENCE, eventually, within};
pub use process::{catches, finished, interruptible, mappings, patiently, resident, send, succeed};
pub use terminal::OnTerminal;
pub use tool::{is_there, require, skip};
