//! The last words of a run: how it ended, why, what it cost, and the exact command that comes next.
//!
//! The command is one that fia will accept: a verdict where the unchanged-tree guard holds and the recovery
//! ledger has room (SPEC 10.6), a plain resume where neither does, a raised limit where one was reached.

use std::io::{self, Write};

use chrono::{DateTime, Utc};

use super::dollars::{all_saved_usd, saved_words, yet_words};
use super::frame::Frame;
use super::human::handle;
use super::numbers::{due, percent, plural, span};
use super::paint::{Ink, Paint};
use super::projection::Projection;
use super::rows::{PhaseRow, PhaseState, RunSummary};
use super::savings::Savings;
use super::{text, words};
use crate::event::{Outcome, RepoPath, Usage};
use crate::state::recovery::{RECOVERIES, Recovery};
use crate::store::DataDir;

/// Token budgets are proposed in whole millions.
const MILLION: u64 = 1_000_000;
/// Paths that are listed of those that a commit left out.
const LISTED: usize = 10;
/// Columns of the first line before the run's id or the commit.
const FIRST_COLUMNS: usize = 60;

/// What the last words are made of.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// What is known of the run.
    pub state: &'a Projection,
    /// Its limits.
    pub frame: &'a Frame,
    /// What rotation saved; `None` when it was not counted.
    pub savings: Option<&'a Savings>,
    /// Whether anything may run.
    pub brake: Brake,
    /// What comes next where the run itself does not stay; `None` for a command on it.
    pub instead: Option<&'a str>,
}

/// Whether every run of the repository is stopped, those to come as well (`fia stop --all`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// They are: what comes next would end at once.
    On,
    /// They are not.
    Off,
}

impl Brake {
    /// Of a data directory.
    pub fn of(data: &DataDir) -> Self {
        if data.is_stopped() { Self::On } else { Self::Off }
    }
}

impl Ending<'_> {
    /// Writes the last words as of `now`; nothing while no outcome is recorded.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write(&self, out: &mut dyn Write, now: DateTime<Utc>, paint: Paint) -> io::Result<()> {
        let run = &self.state.run;
        let Some(outcome) = run.outcome else { return Ok(()) };
        if outcome == Outcome::GoalMet {
            return self.write_good(out, paint);
        }
        let reason = run.reason.as_deref().unwrap_or_default();
        let words = words::outcome_words(outcome.as_str());
        let first = if reason.is_empty() { words } else { format!("{words}: {reason}") };
        let first = text::line(&first).into_owned();
        writeln!(out, "{} {}{}", paint.ink(Ink::Bad, "✗"), pad(&first), text::line(run.run.as_str()))?;
        for line in self.details(outcome, now) {
            writeln!(out, "  {}", text::line(&line))?;
        }
        let next = self.instead.map_or_else(|| self.next_command(outcome), str::to_owned);
        writeln!(out, "  next:  {}", paint.ink(Ink::Strong, &text::line(&next)))
    }

    fn write_good(&self, out: &mut dyn Write, paint: Paint) -> io::Result<()> {
        let run = &self.state.run;
        let first = format!("goal met in {}", span(run.elapsed_ms));
        let kept = text::line(&kept(run)).into_owned();
        writeln!(out, "{} {}{kept}", paint.ink(Ink::Good, "✓"), text::left(&first, 28))?;
        writeln!(out, "  {}", self.spent())?;
        for line in left_out(run) {
            writeln!(out, "  {}", text::line(&line))?;
        }
        writeln!(out, "  {}", self.instead.unwrap_or("fia report     fia report --svg context.svg"))
    }

    fn details(&self, outcome: Outcome, now: DateTime<Utc>) -> Vec<String> {
        let run = &self.state.run;
        let mut lines = self.failing(outcome);
        if outcome == Outcome::EngineExhausted {
            lines.extend(run.last_engine_error.clone().filter(|error| !tells(run, error)));
            lines.extend(run.retry_after.map(|at| format!("An engine can go on at {}.", due(at, now))));
        }
        if outcome.is_judged() && !used(run).resume_fits() {
            lines.push(format!("This run has used up its {RECOVERIES} resumes and verdicts."));
        }
        lines.push(match (run.commits, run.worktree) {
            (0, false) => "Work is kept in the tree, nothing was committed.".to_owned(),
            (0, true) => format!("Work is kept in the work tree on branch fia/{}, nothing was committed.", run.run),
            (_, _) => format!("{}; work after that is kept in the tree.", kept(run)),
        });
        lines.extend(left_out(run));
        lines.push(self.spent());
        lines
    }

    /// What was red or in the way at the end.
    fn failing(&self, outcome: Outcome) -> Vec<String> {
        let ended = |states: &[PhaseState]| self.state.phases.iter().rev().find(|row| states.contains(&row.status));
        let phase: Option<&PhaseRow> = match outcome {
            Outcome::VerificationFailed | Outcome::AttemptCap | Outcome::NoProgress => ended(&[PhaseState::Red]),
            Outcome::BlockedByGate | Outcome::Failed => ended(&[PhaseState::Failed]),
            Outcome::GoalMet
            | Outcome::BudgetExhausted
            | Outcome::BreadthExceeded
            | Outcome::EngineExhausted
            | Outcome::StoppedByRequest
            | Outcome::Aborted => None,
        };
        let Some(phase) = phase else { return Vec::new() };
        let checks = phase.checks.iter().filter(|check| !check.passed);
        let reason = self.state.run.reason.as_deref().unwrap_or_default();
        // What the first line says already is not said again, however either was cut.
        let is_new = |line: &&String| !reason.contains(&line.chars().take(FIRST_COLUMNS).collect::<String>());
        let gates = phase.gates.iter().filter(|gate| !gate.passed);
        checks
            .map(|check| {
                format!("failing: {}{} ({})", check.check, words::timed_out(check.timed_out_minutes), check.log)
            })
            .chain(gates.flat_map(|gate| {
                gate.violations.iter().filter(is_new).map(move |line| format!("{}: {line}", gate.gate))
            }))
            .collect()
    }

    /// Tokens, dollars and what rotation saved.
    fn spent(&self) -> String {
        let spend = &self.state.run.spend;
        let reads = spend.read_share().map(|share| format!(" ({} cache reads)", percent(share))).unwrap_or_default();
        let mut line = format!("tokens {}{reads}   cost {}", spend.tokens_text(Usage::total), spend.cost_text());
        let rotations = self.state.run.rotations;
        if rotations > 0 {
            line = format!("{line}   {}", plural(u64::from(rotations), "rotation"));
            if let Some((savings, net)) = self.savings.and_then(|savings| Some((savings, savings.rotation_net()?))) {
                let usd = all_saved_usd(savings.rotations(), self.state, self.frame);
                let yet = usd.and_then(|usd| yet_words(net, usd)).unwrap_or_default();
                line = format!("{line} {}{yet}", saved_words(net));
            }
        }
        line
    }

    /// The command that goes on from this outcome.
    pub fn next_command(&self, outcome: Outcome) -> String {
        let next = self.next_after_release(outcome);
        match (outcome, self.brake) {
            (Outcome::GoalMet, _) | (_, Brake::Off) => next,
            (_, Brake::On) => format!("fia stop --clear && {next}"),
        }
    }

    fn next_after_release(&self, outcome: Outcome) -> String {
        let run = &self.state.run;
        let id = handle(&run.run);
        let resume = format!("fia resume {id}{}", limits(run, None));
        match outcome {
            Outcome::GoalMet => format!("fia report {id}"),
            Outcome::VerificationFailed
            | Outcome::AttemptCap
            | Outcome::NoProgress
            | Outcome::BlockedByGate
            | Outcome::Failed => recovery(run, id, &resume),
            Outcome::BudgetExhausted => {
                let (key, raised) = self.raised_budget();
                format!("fia resume {id}{} --budget {key}={raised}", limits(run, Some(key)))
            }
            // How many paths the run changed is not known here; only without the limit is a resume sure to go on.
            Outcome::BreadthExceeded => {
                let key = "breadth_ceiling";
                format!("fia resume {id}{} --budget {key}=0", limits(run, Some(key)))
            }
            Outcome::StoppedByRequest if run.approval_open => format!("fia approve {id} && {resume}"),
            Outcome::EngineExhausted | Outcome::StoppedByRequest | Outcome::Aborted => resume,
        }
    }

    /// The limit that was reached, doubled: by the sums, else by the last warning, else the token budget.
    fn raised_budget(&self) -> (&str, String) {
        let run = &self.state.run;
        let stop = self.frame.stop.clone().unwrap_or_default();
        let tokens = run.spend.tokens_known.total();
        let phase_tokens = self.state.phases.last().map_or(0, |phase| phase.spend.tokens_known.total());
        let reached = |used: u64, limit: u64| limit > 0 && used >= limit;
        let whole = |limit: f64| format!("{}", limit * 2.0);
        #[expect(clippy::cast_precision_loss, reason = "a run's milliseconds stay far below 2^52")]
        let minutes = run.elapsed_ms as f64 / 60_000.0;
        let key = if reached(tokens, stop.token_budget) {
            "token_budget"
        } else if reached(phase_tokens, stop.phase_token_budget) {
            "phase_token_budget"
        } else if stop.cost_budget_usd > 0.0 && run.spend.cost_known_usd >= stop.cost_budget_usd {
            "cost_budget_usd"
        } else if stop.budget_minutes > 0.0 && minutes >= stop.budget_minutes {
            "budget_minutes"
        } else {
            run.last_budget_warning.as_deref().unwrap_or("token_budget")
        };
        let raised = match key {
            "phase_token_budget" => stop.phase_token_budget.saturating_mul(2).to_string(),
            "cost_budget_usd" => whole(stop.cost_budget_usd),
            "budget_minutes" => whole(stop.budget_minutes),
            // What was used may be far above the limit, as the request under way is let finish.
            _ => stop.token_budget.max(tokens).div_ceil(MILLION / 2).saturating_mul(MILLION).to_string(),
        };
        (key, raised)
    }
}

/// Whether the reason begins with what the engine said, however it was cut.
fn tells(run: &RunSummary, error: &str) -> bool {
    let said = error.split_once(": ").map_or(error, |(_, said)| said);
    let start: String = said.chars().take(FIRST_COLUMNS).collect();
    run.reason.as_deref().is_some_and(|reason| reason.contains(&start))
}

/// What of the recovery ledger is used up.
fn used(run: &RunSummary) -> Recovery {
    Recovery { resumes: run.recoveries.saturating_sub(run.verdicts), verdicts: run.verdicts }
}

/// The limits of the last stretch alone, which the next one needs too, all but one.
fn limits(run: &RunSummary, but: Option<&str>) -> String {
    let key = |limit: &str| limit.split('=').next().map(str::to_owned);
    let kept = run.limits.iter().filter(|limit| key(limit).as_deref() != but);
    kept.flat_map(|limit| [" --budget ", limit]).collect()
}

/// A verdict and a resume while the ledger has room for both, then a resume alone, then another run.
fn recovery(run: &RunSummary, id: &str, resume: &str) -> String {
    if used(run).verdict_fits() {
        format!("fia verdict set {id} --missing \"…\" && {resume}")
    } else if used(run).resume_fits() {
        format!("{resume} --retry-unchanged")
    } else {
        format!("fia run {} \"…\"", run.workflow)
    }
}

/// What was committed.
fn kept(run: &RunSummary) -> String {
    let branch = run.commit_branch.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
    let files = plural(run.committed_paths, "file");
    match (&run.commit, run.commits) {
        (None, _) => "nothing committed".to_owned(),
        (Some(commit), 1) => format!("{files} changed, committed as {}{branch}", words::short_commit(commit)),
        (Some(commit), commits) => {
            format!("{files} in {commits} commits, the last {}{branch}", words::short_commit(commit))
        }
    }
}

/// What the last commit left out, and why.
fn left_out(run: &RunSummary) -> Vec<String> {
    let line = |what: &str, paths: &[RepoPath]| {
        let shown: Vec<String> = paths.iter().take(LISTED).map(ToString::to_string).collect();
        let more = match paths.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" (+{more} more)"),
        };
        (!paths.is_empty()).then(|| format!("{what}: {}{more}", shown.join(" ")))
    };
    let mixed = line("not committed, as you had changed them too", &run.mixed);
    let others = line("named in a report and not committed, or not fit for a commit", &run.left_out);
    mixed.into_iter().chain(others).collect()
}

/// Fills a first line up, or sets it apart by two blanks.
fn pad(first: &str) -> String {
    if text::width(first) < FIRST_COLUMNS { text::left(first, FIRST_COLUMNS) } else { format!("{first}  ") }
}

#[cfg(test)]
mod tests;
