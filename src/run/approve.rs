//! Approvals: a person's yes or no, brought by a file and a signal.

use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::phase::PhaseResult;
use super::stop::Urgency;
use super::{Audience, Level, Run, RunError};
use crate::event::{Approval, ApprovalWait, Event, Order, Outcome, PhaseStatus, Waiting};

/// What stands in `approval.json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    approved: bool,
    #[serde(default)]
    reason: Option<String>,
}

impl Run {
    /// Asks, waits as long as the step allows, and goes on or ends.
    pub(super) async fn approve_phase(&self, order: &Order, wait: ApprovalWait) -> Result<PhaseResult, RunError> {
        let phase = Some(&order.phase);
        self.record(phase, Event::Approval(Approval::Asked))?;
        let seconds = match (wait, self.bells.audience) {
            (ApprovalWait::NotAtAll, Audience::Nobody) => Some(0),
            (ApprovalWait::NotAtAll, Audience::Terminal) | (ApprovalWait::Forever, _) => None,
            (ApprovalWait::Seconds { secs }, _) => Some(secs),
        };
        let until = seconds.and_then(|seconds| self.later(seconds));
        if seconds != Some(0) {
            let waiting = Waiting { until, reason: "approval".to_owned(), agent: None, count: 1 };
            self.record(phase, Event::Waiting(waiting))?;
        }
        let over = async {
            match until {
                Some(until) => self.clock_says(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let (mut level, mut news) = (self.bells.level.clone(), self.bells.news.clone());
        loop {
            // An answer that is there as well stays for the resume.
            if let Some((outcome, reason)) = self.asked(Urgency::NextPhase) {
                return Ok(PhaseResult::stopped(outcome, reason));
            }
            if let Some(answer) = self.answer()? {
                let reason = answer.reason.clone();
                let answered = Approval::Answered { approved: answer.approved, reason: answer.reason };
                self.record(phase, Event::Approval(answered))?;
                // One answer answers one question.
                self.place.dir.remove(Path::new("approval.json"))?;
                return Ok(match (answer.approved, reason) {
                    (true, _) => PhaseResult { status: PhaseStatus::Success, ends_run: None, tree_sha256: None },
                    (false, Some(reason)) => {
                        PhaseResult::stopped(Outcome::StoppedByRequest, format!("rejected: {reason}"))
                    }
                    (false, None) => PhaseResult::stopped(Outcome::StoppedByRequest, "rejected"),
                });
            }
            tokio::select! {
                biased;
                Ok(_) = level.wait_for(|level| *level > Level::Running) => {}
                Ok(()) = news.changed() => {}
                () = &mut over => {
                    return Ok(PhaseResult::stopped(Outcome::StoppedByRequest, "an approval is needed"));
                }
            }
        }
    }

    /// So many seconds from now; `None` when the calendar ends before.
    fn later(&self, seconds: u64) -> Option<DateTime<Utc>> {
        (self.now)().checked_add_signed(TimeDelta::try_seconds(seconds.try_into().ok()?)?)
    }

    fn answer(&self) -> Result<Option<Answer>, RunError> {
        let file = Path::new("approval.json");
        let Some(bytes) = self.place.dir.read(file)? else { return Ok(None) };
        // What cannot be read is no yes.
        let unreadable = Answer { approved: false, reason: Some("approval.json cannot be read".to_owned()) };
        Ok(Some(serde_json::from_slice(&bytes).unwrap_or(unreadable)))
    }
}
