//! The barrier that makes other cores see stores into code: as the environment asks
//! (`WORDPATCH_BARRIER` and its neighbours, read once), or the best available.

use crate::error::Error;
use std::sync::OnceLock;
use wordpatch::{Barrier, Config};

/// Waits until every core executes the bytes that were stored before.
pub(super) fn pass() -> Result<(), Error> {
    static BARRIER: OnceLock<Result<Barrier, String>> = OnceLock::new();
    let asked = || {
        let policy = Config::from_env().and_then(|config| config.policy());
        policy.map(|policy| policy.barrier).map_err(|error| error.to_string())
    };
    let barrier = BARRIER.get_or_init(asked).clone().map_err(Error::Attach)?;
    barrier.pass().map_err(Error::system)
}
