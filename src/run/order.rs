//! An order for an agent, taken apart.

use crate::event::{Order, Work};
use crate::ids::AgentName;

/// The parts of an agent's order.
pub(super) struct AgentOrder<'a> {
    pub(super) order: &'a Order,
    pub(super) agent: &'a AgentName,
    /// The type of its report.
    pub(super) output: &'a str,
    pub(super) gates: &'a [String],
    pub(super) retries: u32,
}

impl<'a> AgentOrder<'a> {
    /// The parts of an order, if it is an agent's.
    pub(super) fn of(order: &'a Order) -> Option<Self> {
        let Work::Agent { agent, output, gates, retries, .. } = &order.work else { return None };
        Some(Self { order, agent, output, gates, retries: *retries })
    }
}

/// A limit in minutes as a span; 0 is none.
pub(super) fn minutes(minutes: f64) -> Option<std::time::Duration> {
    (minutes > 0.0).then(|| std::time::Duration::try_from_secs_f64(minutes * 60.0).ok()).flatten()
}
