//! Letting time pass, so that a person always sees it and can always end it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::stop::Urgency;
use super::{Level, Run, RunError};
use crate::event::{Event, Outcome, Step, Waiting};
use crate::state::next::after_wait;

/// How long a wait sleeps before it looks at the clock again: the timer stands still while a machine sleeps,
/// and the clock does not.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// A request from outside that ends what is being done.
pub(super) type Asked = (Outcome, String);

impl Run {
    /// Waits as ordered and returns what comes next: the work, or the end that was asked for meanwhile.
    pub(super) async fn wait(&self, waiting: Waiting, until: DateTime<Utc>) -> Result<Step, RunError> {
        let told = self.with_state(|state| {
            let mut waits = state.phases.values().filter(|phase| phase.wait.is_some());
            waits.any(|phase| Some(phase.started) >= state.stretch_started)
        });
        // A resume says again what it waits for.
        if !told && until > (self.now)() {
            self.record(None, Event::Waiting(waiting))?;
        }
        if let Some((outcome, reason)) = self.wait_until(until).await {
            return Ok(Step::End { outcome, reason });
        }
        Ok(self.with_state(|state| after_wait(&self.plan, &self.stop, state))?)
    }

    /// Waits until a time of the clock. Returns the request that ended the wait, if one did.
    pub(super) async fn wait_until(&self, until: DateTime<Utc>) -> Option<Asked> {
        self.unless_asked(self.clock_says(until)).await
    }

    /// Lets a span pass. Returns the request that ended it early, if one did.
    pub(super) async fn pause(&self, span: Duration) -> Option<Asked> {
        self.unless_asked(tokio::time::sleep(span)).await
    }

    /// Comes back once the clock says that it is so late.
    pub(super) async fn clock_says(&self, until: DateTime<Utc>) {
        loop {
            let left = (until - (self.now)()).to_std().unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
        }
    }

    async fn unless_asked(&self, passes: impl Future<Output = ()>) -> Option<Asked> {
        let (mut level, mut news) = (self.bells.level.clone(), self.bells.news.clone());
        tokio::pin!(passes);
        loop {
            if let Some(asked) = self.asked(Urgency::NextPhase) {
                return Some(asked);
            }
            tokio::select! {
                biased;
                Ok(_) = level.wait_for(|level| *level > Level::Running) => {}
                Ok(()) = news.changed() => {}
                () = &mut passes => return None,
            }
        }
    }

    /// What was asked from outside, if it is at least this urgent.
    pub(super) fn asked(&self, least: Urgency) -> Option<Asked> {
        if *self.bells.level.borrow() > Level::Running {
            return Some((Outcome::Aborted, "interrupted".to_owned()));
        }
        let request = self.stop_files.request().filter(|request| request.urgency >= least)?;
        Some((Outcome::StoppedByRequest, request.reason))
    }
}
