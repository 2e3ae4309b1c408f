//! Tools that a test needs and that may not be installed.

use std::process::Command;

/// Says that a test does not take place; where everything is required, that is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("FASTINST_TEST_REQUIRE").is_none(), "{why}");
    println!("SKIPPED: {why}");
}

/// Whether something was found; if not, a test without it is [skipped](skip).
pub fn require(found: bool, what: &str) -> bool {
    if !found {
        skip(&format!("{what} is missing: scripts/test installs it"));
    }
    found
}

/// Whether a program of this name is installed; if not, a test without it is [skipped](skip).
pub fn is_there(name: &str) -> bool {
    require(Command::new(name).arg("--version").output().is_ok(), name)
}
