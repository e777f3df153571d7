//! Checks: command lines that code runs and judges.

use std::path::PathBuf;

use tokio::time::Instant;

use super::phase::PhaseResult;
use super::{Level, Run, RunError, millis};
use crate::event::{CheckRun, Event, Expect, Fault, FaultKind, Order, Outcome, PhaseStatus};
use crate::ids::CheckName;
use crate::lines::RawLine;
use crate::process::{Child, CommandSpec, Exit, Finish, Keep, Limits};

/// What a command line came to.
struct Judged {
    exit: Option<i32>,
    /// Whether the pattern was found in its output.
    matched: bool,
    interrupted: bool,
}

impl Run {
    /// Runs the checks of a phase, all of them, and says whether the verdict is the expected one.
    pub(super) async fn check_phase(
        &self,
        order: &Order,
        checks: &[CheckName],
        expect: &Expect,
    ) -> Result<PhaseResult, RunError> {
        let before = self.before(&[order]).await?;
        let pattern = match expect {
            Expect::Red { pattern: Some(pattern) } => regex::bytes::Regex::new(pattern).ok(),
            Expect::Red { pattern: None } | Expect::Green => None,
        };
        let (mut green, mut matched, mut interrupted) = (true, pattern.is_none(), false);
        for check in checks {
            let log = check_log(order, check, checks.len());
            let judged = self.run_check(order, check, &log, pattern.as_ref()).await?;
            green &= judged.exit == Some(0);
            matched |= judged.matched;
            interrupted |= judged.interrupted;
            if interrupted {
                break;
            }
            if *expect == Expect::Green && judged.exit != Some(0) {
                self.post_failed_check(check, &log)?;
            }
        }
        self.keep_check(before, order).await?;
        if interrupted {
            return Ok(PhaseResult::stopped(Outcome::Aborted, "interrupted"));
        }
        let passed = match expect {
            Expect::Green => green,
            Expect::Red { .. } => !green && matched,
        };
        let tree_sha256 = if order.round > 0 { Some(self.tree_digest().await?) } else { None };
        let status = if passed { PhaseStatus::Success } else { PhaseStatus::Red };
        Ok(PhaseResult { status, ends_run: None, tree_sha256 })
    }

    /// A check as a gate: what it says against the work, if anything.
    pub(super) async fn gate_check(&self, order: &Order, gate: &str, look: u32) -> Result<Vec<String>, RunError> {
        let check = CheckName::new(gate);
        let log = format!("context_handoff/{}.gate_{look}.{gate}.log", order.phase);
        let judged = self.run_check(order, &check, &log, None).await?;
        Ok(match judged.exit {
            Some(0) => Vec::new(),
            Some(code) => vec![format!("exit {code}, output in {}", self.place.shown(&log))],
            None => vec![format!("did not end by itself, output in {}", self.place.shown(&log))],
        })
    }

    async fn run_check(
        &self,
        order: &Order,
        check: &CheckName,
        log: &str,
        pattern: Option<&regex::bytes::Regex>,
    ) -> Result<Judged, RunError> {
        let command = self.plan.checks.get(check).cloned();
        let command = command.expect("a plan names only checks that it holds");
        // One stream, in the order in which it was written.
        let spec = CommandSpec::new("sh", &self.place.top).arg("-c").arg(format!("exec 2>&1\n{}", command.run));
        let keep = Keep { stdout: Some(self.place.dir.open_append(&PathBuf::from(log))?), stderr: None };
        let started = Instant::now();
        let judged = match Child::spawn(&spec, keep, Limits::default()) {
            Ok(child) => self.watch_check(child, super::agent::minutes(command.timeout_minutes), pattern).await,
            Err(error) => {
                let message = format!("`{check}` cannot be started: {error}");
                let fault = Fault { place: order.phase.to_string(), kind: FaultKind::Check, message };
                self.record(Some(&order.phase), Event::Error(fault))?;
                Judged { exit: None, matched: false, interrupted: false }
            }
        };
        let run = CheckRun {
            check: check.clone(),
            passed: judged.exit == Some(0),
            exit: judged.exit,
            log: log.to_owned(),
            elapsed_ms: millis(started.elapsed()),
        };
        self.record(Some(&order.phase), Event::Check(run))?;
        Ok(judged)
    }

    async fn watch_check(
        &self,
        mut child: Child,
        limit: Option<std::time::Duration>,
        pattern: Option<&regex::bytes::Regex>,
    ) -> Judged {
        child.close_stdin();
        let mut level = self.bells.level.clone();
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut matched = false;
        let mut look = |line: RawLine<'_>| {
            if let (RawLine::Line(line), Some(pattern)) = (line, pattern) {
                matched |= pattern.is_match(line);
            }
        };
        let (how, interrupted) = loop {
            tokio::select! {
                biased;
                Ok(()) = level.changed() => match *level.borrow() {
                    Level::Running => {}
                    Level::Interrupt => break (Finish::Stop, true),
                    Level::Kill => break (Finish::KillNow, true),
                },
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    break (Finish::Stop, false);
                }
                line = child.line() => match line {
                    Some(line) => look(line),
                    None => break (Finish::Closing, false),
                },
            }
        };
        let ended = child.finish(how, &mut look).await;
        let exit = match (how, ended.exit) {
            (Finish::Closing, Exit::Code(code)) => Some(code),
            (Finish::Closing, Exit::Signal(_)) | (Finish::Stop | Finish::KillNow, _) => None,
        };
        Judged { exit, matched, interrupted }
    }
}

/// Where the whole output of a check goes, relative to the run directory.
fn check_log(order: &Order, check: &CheckName, of: usize) -> String {
    if of == 1 {
        format!("context_handoff/{}.log", order.phase)
    } else {
        format!("context_handoff/{}.{check}.log", order.phase)
    }
}
