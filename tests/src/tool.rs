//! Tools that a test needs and that may not be installed.

use std::process::Command;

/// Whether `name` is there. Where all tools are required a missing one is a failure, elsewhere it
/// is said aloud.
pub fn is_there(name: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("FASTINST_TEST_REQUIRE").is_none(),
            "{name} is missing: run scripts/test, which installs it"
        );
        println!("SKIPPED: {name} is missing");
    }
    found
}
