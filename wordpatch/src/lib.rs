//! draft
#![warn(missing_docs)]
mod addr;
mod barrier;
mod code_memory;
mod granule;
pub mod live;
pub mod os;
pub mod protocol;
mod ticks;
mod vendor;
mod word;

pub use addr::CodeAddr;
pub use barrier::{Barrier, BarrierError, Silent};
pub use code_memory::CodeMemory;
pub use granule::Granule;
pub use ticks::Ticks;
pub use vendor::FetchOrder;
pub use word::Word;
