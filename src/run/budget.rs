//! Holds the budgets of a run against what is used, and warns.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Run, RunError, millis};
use crate::event::{Event, Outcome};
use crate::ids::PhaseName;
use crate::state::budget;

impl Run {
    /// Warns of what is nearly used up, and says which limit is.
    pub(super) fn over_budget(&self, phase: Option<&PhaseName>) -> Result<Option<(Outcome, String)>, RunError> {
        let stretch_ms = millis(self.started.elapsed());
        let (meters, warnings) = self.with_state(|state| {
            let meters = budget::meters(&self.stop, state, phase, stretch_ms);
            let warnings = budget::warnings(&meters, state, phase);
            (meters, warnings)
        });
        for warning in warnings {
            self.record(phase, Event::BudgetWarning(warning))?;
        }
        Ok(budget::passed(&meters))
    }

    /// When `budget_minutes` will be used up; `None` when it is off.
    pub(super) fn minutes_end(&self) -> Option<DateTime<Utc>> {
        let budget = super::order::minutes(self.stop.budget_minutes)?;
        let used = Duration::from_millis(self.with_state(|state| state.spend.earlier_ms)) + self.started.elapsed();
        Some((self.now)() + budget.saturating_sub(used))
    }

    /// What forbids another phase.
    pub(super) fn forbidden(&self, phase: Option<&PhaseName>) -> Result<Option<(Outcome, String)>, RunError> {
        if let Some(over) = self.over_budget(phase)? {
            return Ok(Some(over));
        }
        Ok(self.with_state(|state| budget::too_broad(&self.stop, state)))
    }
}
