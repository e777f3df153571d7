//! What reading a file brings to light.

use super::problem::{Problem, Warning};
use super::table::Unit;

/// What reading a file brings besides its values.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
    /// Knobs that degraded, by pointer: the default that stands may come from another layer.
    pub(crate) degraded: Vec<Degraded>,
    /// Pointers of keys that are accepted and not acted on.
    pub(crate) not_served: Vec<String>,
}

/// A knob whose value could not be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Degraded {
    pub(crate) at: String,
    /// The value as written.
    pub(crate) written: String,
    pub(crate) unit: Unit,
    pub(crate) default: u64,
}
