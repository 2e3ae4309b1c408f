//! The processor's vendor, and its promise about the order of fetches.

use crate::os::cpu;
use std::sync::OnceLock;

/// The order in which an instruction fetch that needs two granules may see other cores' stores to
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchOrder {
    /// Stores become visible to fetch in program order, and fetch reads upwards: never a new front
    /// with an old back. AMD documents this (AMD64 APM volume 2, section 7.6.1).
    Upwards,
    /// No promise: the back may have been fetched long before the front.
    Any,
}

impl FetchOrder {
    /// The promise of this processor's vendor.
    pub fn of_this_processor() -> Self {
        static ORDER: OnceLock<FetchOrder> = OnceLock::new();
        *ORDER.get_or_init(|| match &cpu::vendor_id() {
            // Hygon's processors are AMD's Zen under another name.
            b"AuthenticAMD" | b"HygonGenuine" => Self::Upwards,
            _ => Self::Any,
        })
    }
}
