//! Tools that a test needs and that may not be installed.

use std::process::Command;

/// Reports that a test is skipped; if all tools are required, that is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("FASTINST_TEST_REQUIRE").is_none(), "{why}");
    println!("SKIPPED: {why}");
}

/// Whether a tool was found; if not, the test is [skipped](skip).
pub fn require(found: bool, what: &str) -> bool {
    if !found {
        skip(&format!("{what} is missing: scripts/test installs it"));
    }
    found
}

/// Whether a program with this name is installed; if not, the test is [skipped](skip).
pub fn is_there(name: &str) -> bool {
    require(Command::new(name).arg("--version").output().is_ok(), name)
}
