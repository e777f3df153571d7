//! Checks: command lines that code runs and judges.

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::phase::PhaseResult;
use super::stop::Urgency;
use super::wait::Asked;
use super::{Level, Run, RunError, millis};
use crate::event::{CheckRun, CheckStart, Event, Expect, Fault, FaultKind, Order, Outcome, PhaseStatus};
use crate::ids::CheckName;
use crate::lines::RawLine;
use crate::plan;
use crate::process::{Child, CommandSpec, Exit, Finish, Keep, Limits, OWNER, SpawnError, find_program};
use crate::view::words;

/// What a check's shell does first. It waits to be told, so that it is recorded before it does anything, and ends by
/// itself when fia dies before that. Then all output is one stream, in the order in which it was written.
const WAIT_FOR_THE_WORD: &str = "read -r _ || exit\nexec </dev/null 2>&1";

/// How a command line ended.
struct Ended {
    exit: Option<i32>,
    /// Whether its time limit ended it.
    timed_out: bool,
    /// Whether the pattern was found in its output.
    matched: bool,
    /// The request that ended it.
    stopped: Option<Asked>,
}

/// What a check came to.
struct Judged {
    run: CheckRun,
    /// Whether the pattern was found in its output.
    matched: bool,
    /// The request that ended it.
    stopped: Option<Asked>,
    /// Why it could not be started: it has judged nothing.
    unstarted: Option<String>,
}

/// What `sh` exits with when a command is not found, or found and not executable.
const NOT_STARTED: [i32; 2] = [126, 127];

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
        let (mut green, mut matched, mut stopped, mut unstarted) = (true, pattern.is_none(), None, None);
        for check in checks {
            let log = check_log(order, check, checks.len());
            let judged = self.run_check(order, check, &log, pattern.as_ref()).await?;
            green &= judged.run.passed;
            matched |= judged.matched;
            if judged.stopped.is_some() || judged.unstarted.is_some() {
                (stopped, unstarted) = (judged.stopped, judged.unstarted);
                break;
            }
            if *expect == Expect::Green && !judged.run.passed {
                self.post_failed_check(&judged.run)?;
            }
        }
        let loss = self.keep_check(before, order).await?;
        if let Some((outcome, reason)) = stopped {
            return Ok(PhaseResult::stopped(outcome, reason));
        }
        if let Some(loss) = loss {
            return Ok(PhaseResult::failed(Outcome::Failed, format!("a check destroyed what git keeps: {loss}")));
        }
        // Neither red nor green: a fix would be paid for what no agent can mend.
        if let Some(unstarted) = unstarted {
            return Ok(PhaseResult::failed(Outcome::Failed, unstarted));
        }
        let passed = match expect {
            Expect::Green => green,
            Expect::Red { .. } => !green && matched,
        };
        let tree_sha256 = if order.round > 0 { Some(self.tree_digest().await?) } else { None };
        let status = if passed { PhaseStatus::Success } else { PhaseStatus::Red };
        Ok(PhaseResult { status, ends_run: None, tree_sha256 })
    }

    /// A check as a gate: what it says against the work, if anything; or the request that ended it.
    pub(super) async fn gate_check(
        &self,
        order: &Order,
        gate: &str,
        look: u32,
    ) -> Result<Result<Vec<String>, Asked>, RunError> {
        let check = CheckName::new(gate);
        let log = format!("context_handoff/{}.gate_{look}.{gate}.log", order.phase);
        let judged = self.run_check(order, &check, &log, None).await?;
        let run = &judged.run;
        let unstarted = judged.unstarted.map(|why| (Outcome::Failed, why));
        Ok(match judged.stopped.or(unstarted) {
            Some(asked) => Err(asked),
            None if run.passed => Ok(Vec::new()),
            None => {
                let ended = words::check_end(run.exit, run.timed_out_minutes);
                Ok(vec![format!("{ended}, output in {}", self.place.shown(&log))])
            }
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
        let script = format!("{WAIT_FOR_THE_WORD}\n{}", command.run);
        let spec = CommandSpec::new("sh", &self.place.top).arg("-c").arg(script).set(OWNER, self.new_owner());
        let keep = Keep { stdout: Some(self.place.dir.open_append(&PathBuf::from(log))?), stderr: None };
        let started = Instant::now();
        let mut unstarted = None;
        let ended = match Child::spawn(&spec, keep, Limits::default()) {
            Ok(mut child) => {
                self.record_check_start(order, check, &child)?;
                child.send(b"go\n".to_vec());
                self.watch_check(child, super::order::minutes(command.timeout_minutes), pattern).await
            }
            Err(error) => {
                unstarted = Some(error.to_string());
                Ended { exit: None, timed_out: false, matched: false, stopped: None }
            }
        };
        if ended.exit.is_some_and(|exit| NOT_STARTED.contains(&exit)) {
            let missing = missing_program(&command, &self.place.top);
            unstarted = missing.map(|error| error.to_string());
        }
        let run = CheckRun {
            check: check.clone(),
            passed: ended.exit == Some(0),
            exit: ended.exit,
            timed_out_minutes: ended.timed_out.then_some(command.timeout_minutes),
            log: log.to_owned(),
            elapsed_ms: millis(started.elapsed()),
        };
        self.record(Some(&order.phase), Event::Check(run.clone()))?;
        let unstarted = unstarted.map(|why| format!("check `{check}` cannot start: {why}"));
        if let Some(message) = unstarted.clone() {
            let fault = Fault { place: order.phase.to_string(), kind: FaultKind::Check, message };
            self.record(Some(&order.phase), Event::Error(fault))?;
        }
        Ok(Judged { run, matched: ended.matched, stopped: ended.stopped, unstarted })
    }

    fn record_check_start(&self, order: &Order, check: &CheckName, child: &Child) -> Result<(), RunError> {
        let mark = self.mark_of(child)?;
        self.record(Some(&order.phase), Event::CheckStart(CheckStart { check: check.clone(), mark }))
    }

    async fn watch_check(
        &self,
        mut child: Child,
        limit: Option<std::time::Duration>,
        pattern: Option<&regex::bytes::Regex>,
    ) -> Ended {
        child.close_stdin();
        let (mut level, mut news) = (self.bells.level.clone(), self.bells.news.clone());
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut matched = false;
        let mut look = |line: RawLine<'_>| {
            if let (RawLine::Line(line), Some(pattern)) = (line, pattern) {
                matched |= pattern.is_match(line);
            }
        };
        let mut timed_out = false;
        let (how, stopped) = loop {
            tokio::select! {
                biased;
                Ok(()) = level.changed() => {
                    let how = if *level.borrow() == Level::Kill { Finish::KillNow } else { Finish::Stop };
                    if let Some(asked) = self.asked(Urgency::Now) {
                        break (how, Some(asked));
                    }
                }
                Ok(()) = news.changed() => {
                    if let Some(asked) = self.asked(Urgency::Now) {
                        break (Finish::Stop, Some(asked));
                    }
                }
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    timed_out = true;
                    break (Finish::Stop, None);
                }
                line = child.line() => match line {
                    Some(line) => look(line),
                    None => break (Finish::Closing, None),
                },
            }
        };
        let ended = child.finish(how, &mut look).await;
        let exit = match (how, ended.exit) {
            (Finish::Closing, Exit::Code(code)) => Some(code),
            (Finish::Closing, Exit::Signal(_)) | (Finish::Stop | Finish::KillNow, _) => None,
        };
        Ended { exit, timed_out, matched, stopped }
    }
}

/// Why the program of a check cannot be started from the top of a work tree; `None` when it can, or when only a shell
/// can tell.
pub fn missing_program(check: &plan::Check, top: &Path) -> Option<SpawnError> {
    find_program(&CommandSpec::new(check.program()?, top)).err()
}

/// Where the whole output of a check goes, relative to the run directory.
fn check_log(order: &Order, check: &CheckName, of: usize) -> String {
    if of == 1 {
        format!("context_handoff/{}.log", order.phase)
    } else {
        format!("context_handoff/{}.{check}.log", order.phase)
    }
}
