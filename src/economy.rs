//! What tokens cost, when a fresh session is cheaper, and where the provider's cache was missed.

pub mod break_even;
pub mod cache;
pub(crate) mod pattern;
pub mod prices;
pub mod requests;
pub mod watch;
pub mod windows;
