//! draft
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("wordpatch changes running x86-64 code on Linux; there is nothing it could do elsewhere");

pub mod os;

mod access;
mod addr;
mod atlas;
mod barrier;
mod batch;
mod calibration;
pub mod capi;
mod claim;
mod code_memory;
mod completion;
mod config;
mod effect;
mod error;
mod flight;
mod fork;
mod granule;
mod ledger;
pub mod live;
mod pending;
mod policy;
pub mod protocol;
mod site;
#[cfg(test)]
mod specimen;
mod sync;
mod ticks;
mod trap;
mod vendor;
mod word;

pub use access::{Access, Refusal};
pub use addr::CodeAddr;
pub use barrier::{Barrier, BarrierError, Silent};
pub use batch::{Batch, Committed};
pub use calibration::{Calibration, CalibrationError, FailedWait, Machine};
pub use code_memory::CodeMemory;
pub use completion::background_failures;
pub use config::{Config, ConfigError};
pub use error::{AdoptError, PatchError, TrapError};
pub use granule::Granule;
pub use ledger::Phase;
pub use pending::Pending;
pub use policy::Policy;
pub use protocol::Layout;
pub use site::{PatchSite, Survey};
pub use ticks::Ticks;
pub use trap::install_trap_handler;
pub use vendor::FetchOrder;
pub use word::Word;
