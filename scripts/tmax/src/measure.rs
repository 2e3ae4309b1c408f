//! The five measurements. Each is a function from a [`Plan`](crate::Plan) to plain numbers.

pub mod costs;
pub mod granule;
pub mod latency;
pub mod latent;
pub mod tears;
