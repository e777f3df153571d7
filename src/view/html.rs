//! One HTML file that tells a run, to attach to a ticket: it loads nothing, runs nothing, and reads without a server.
//!
//! Everything that agents, tools, files or people wrote is escaped where it is written; the page's own policy
//! forbids scripts, images and connections besides. Memory is bounded: of events the last [`EVENTS`] are kept, of
//! changed paths the first [`PATHS`].

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::dollars::CachePrices;
use super::events::Last;
use super::markup::{escape, escape_block};
use super::numbers::{clock, count, or_unknown, percent, span};
use super::plot::PlotFold;
use super::projection::Projection;
use super::report::{Report, ReportFold};
use super::rows::{PhaseRow, PhaseState};
use super::tables::{context_course, engine};
use super::{paint, words};
use crate::event::{Event, Outcome, PathChange, Record, RepoPath, Usage};

/// Events that a page shows.
pub const EVENTS: usize = 2_000;
/// Changed paths that a page lists.
pub const PATHS: usize = 1_000;
/// Bytes of a prompt that a page shows.
pub const PROMPT_BYTES: usize = 64 * 1024;

/// A prompt that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its file in the run directory.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// The fold that a page is made of.
#[derive(Debug)]
pub struct PageFold {
    report: ReportFold,
    plot: PlotFold,
    last: Last,
    changes: BTreeMap<RepoPath, Change>,
    paths_left_out: u64,
}

/// Whether a path was there before the run touched it, and is there now.
#[derive(Debug, Clone, Copy)]
struct Change {
    before: bool,
    after: bool,
}

impl Default for PageFold {
    fn default() -> Self {
        Self {
            report: ReportFold::default(),
            plot: PlotFold::default(),
            last: Last::new(EVENTS),
            changes: BTreeMap::new(),
            paths_left_out: 0,
        }
    }
}

impl PageFold {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        self.report.push(record);
        self.plot.push(record);
        if let Event::TreeChanged(changed) = &record.event {
            for change in &changed.changes {
                self.change(change);
            }
        }
        self.last.push(record.clone());
    }

    fn change(&mut self, change: &PathChange) {
        if let Some(known) = self.changes.get_mut(&change.path) {
            known.after = change.after.is_some();
        } else if self.changes.len() < PATHS {
            let seen = Change { before: change.before.is_some(), after: change.after.is_some() };
            self.changes.insert(change.path.clone(), seen);
        } else {
            self.paths_left_out += 1;
        }
    }

    /// Writes the page, with the prompts in the order given.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write(
        &self,
        out: &mut dyn Write,
        prompts: impl IntoIterator<Item = Prompt>,
        prices: impl Fn(&str) -> Option<CachePrices>,
    ) -> io::Result<()> {
        let state = &self.report.state().clone().so_far();
        let report = self.report.report(prices);
        write_head(out, state)?;
        write_summary(out, &report)?;
        writeln!(out, "<h2>Context and tokens</h2>\n<div class=\"wide\">{}</div>", self.plot.svg(state))?;
        write_phases(out, state)?;
        write_verdicts(out, state)?;
        write_report(out, &report)?;
        self.write_changes(out)?;
        write_prompts(out, prompts)?;
        self.write_events(out)?;
        writeln!(out, "</main>\n</body>\n</html>")
    }

    fn write_changes(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        writeln!(out, "<h2>Changed paths</h2>\n<table>")?;
        for (path, change) in &self.changes {
            let what = match (change.before, change.after) {
                (false, true) => "added",
                (true, true) => "modified",
                (true, false) => "deleted",
                (false, false) => "added and deleted again",
            };
            writeln!(out, "<tr><td>{what}</td><td><code>{}</code></td></tr>", escape(&path.to_string()))?;
        }
        writeln!(out, "</table>")?;
        if self.paths_left_out > 0 {
            writeln!(out, "<p>{} more changes are left out.</p>", self.paths_left_out)?;
        }
        Ok(())
    }

    fn write_events(&self, out: &mut dyn Write) -> io::Result<()> {
        let total = self.report.state().run.events.0;
        let shown = self.last.records().count() as u64;
        let which = if shown < total { format!("the last {shown} of {total}") } else { total.to_string() };
        writeln!(out, "<h2>Events</h2>\n<details><summary>{which}</summary>\n<table>")?;
        for record in self.last.records() {
            let phase = record.phase.as_ref().map_or("", |phase| phase.as_str());
            let kind = match record.event.kind() {
                "log" => record.event.name(),
                kind => kind,
            };
            writeln!(
                out,
                "<tr><td class=\"num\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                record.seq,
                clock(record.ts),
                escape(phase),
                escape(kind),
                escape(&words::describe(&record.event, record.ts))
            )?;
        }
        writeln!(out, "</table>\n</details>")
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:0;background:#fff;color:#1d1f23}\
main{max-width:1000px;margin:0 auto;padding:24px}h1{font-size:22px;margin:0}h2{font-size:17px;margin:32px 0 8px}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}\
td,th{padding:3px 12px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid #e2e5e9}\
th{color:#5c636d;font-weight:500}.num{text-align:right}.wide{overflow-x:auto}.quiet{color:#5c636d}\
.good{color:#00704f}.bad{color:#b03a00}pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:12.5px;\
background:#f4f5f7;padding:12px;border-radius:6px}td{overflow-wrap:anywhere}summary{cursor:pointer}\
@media(prefers-color-scheme:dark){body{background:#15171b;color:#e8eaed}td,th{border-color:#2b2f36}\
th,.quiet{color:#a2a9b3}pre{background:#1f2228}.good{color:#4cc79a}.bad{color:#ff8f5c}}";

fn write_head(out: &mut dyn Write, state: &Projection) -> io::Result<()> {
    let run = &state.run;
    let (id, workflow) = (escape(run.run.as_str()), escape(&run.workflow));
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>fia {id} {workflow}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>fia {id}</h1>\n<p>{workflow}: “{}”</p>",
        escape(&run.prompt)
    )
}

fn write_summary(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let run = &report.run;
    let (class, outcome) = match run.outcome {
        Some(Outcome::GoalMet) => ("good", "✓ goal met".to_owned()),
        Some(outcome) => ("bad", format!("✗ {}", words::outcome_words(outcome.as_str()))),
        None => ("quiet", "· no outcome yet".to_owned()),
    };
    writeln!(out, "<h2>Summary</h2>\n<table>")?;
    let mut row = |name: &str, class: &str, text: &str| {
        writeln!(out, "<tr><th>{name}</th><td class=\"{class}\">{}</td></tr>", escape(text))
    };
    row("outcome", class, &outcome)?;
    row("reason", "", run.reason.as_deref().unwrap_or_default())?;
    row("started", "", &run.started_at.format("%Y-%m-%d %H:%M:%S UTC").to_string())?;
    row("time", "", &span(run.elapsed_ms))?;
    let reads = or_unknown(report.read_share, percent);
    row("tokens", "", &format!("{} ({reads} cache reads)", run.spend.tokens_text(Usage::total)))?;
    row("cost", "", &run.spend.cost_text())?;
    row("rotations", "", &run.rotations.to_string())?;
    if let Some(commit) = &run.commit {
        row("commit", "", commit)?;
    }
    writeln!(out, "</table>")
}

fn write_phases(out: &mut dyn Write, state: &Projection) -> io::Result<()> {
    writeln!(
        out,
        "<h2>Phases</h2>\n<div class=\"wide\"><table>\n<tr><th>phase<th>status<th>agent<th>engine<th class=\"num\">time\
         <th class=\"num\">requests<th class=\"num\">context<th class=\"num\">tokens<th class=\"num\">cost<th>reason</tr>"
    )?;
    for phase in &state.phases {
        write_phase(out, phase)?;
    }
    writeln!(out, "</table></div>")?;
    for skipped in &state.skipped {
        let (step, when) = (escape(skipped.step.as_str()), escape(&skipped.when));
        writeln!(out, "<p class=\"quiet\">{step} skipped, as <code>{when}</code> does not hold</p>")?;
    }
    Ok(())
}

fn write_phase(out: &mut dyn Write, phase: &PhaseRow) -> io::Result<()> {
    let class = match phase.status {
        PhaseState::Success => "good",
        PhaseState::Red | PhaseState::Failed => "bad",
        PhaseState::Running | PhaseState::Stopped | PhaseState::Interrupted => "quiet",
    };
    let works = phase.agent.is_some();
    let figure = |text: String| if works { escape(&text) } else { String::new() };
    writeln!(
        out,
        "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td><td>{}</td><td class=\"num\">{}</td>\
         <td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}</td></tr>",
        escape(phase.phase.as_str()),
        phase.status.as_str(),
        escape(phase.agent.as_ref().map_or("", |agent| agent.as_str())),
        escape(&engine(phase)),
        or_unknown(phase.elapsed_ms, span),
        figure(count(phase.spend.requests)),
        figure(context_course(phase)),
        figure(phase.spend.tokens_text(Usage::total)),
        figure(phase.spend.cost_text()),
        escape(phase.reason.as_deref().unwrap_or_default())
    )
}

/// Checks and gates, each with what it found.
fn write_verdicts(out: &mut dyn Write, state: &Projection) -> io::Result<()> {
    let judged = state.phases.iter().any(|phase| !phase.checks.is_empty() || !phase.gates.is_empty());
    if !judged {
        return Ok(());
    }
    writeln!(out, "<h2>Checks and gates</h2>\n<table>")?;
    let mut row = |phase: &PhaseRow, name: &str, passed: bool, found: &str| {
        let (class, verdict) = if passed { ("good", "✓ passed") } else { ("bad", "✗ failed") };
        let (phase, name, found) = (escape(phase.phase.as_str()), escape(name), escape(found));
        writeln!(out, "<tr><td>{phase}</td><td>{name}</td><td class=\"{class}\">{verdict}</td><td>{found}</td></tr>")
    };
    for phase in &state.phases {
        for check in &phase.checks {
            let found = format!("{}{}", check.log, words::timed_out(check.timed_out_minutes));
            row(phase, &check.check, check.passed, &found)?;
        }
        for gate in &phase.gates {
            row(phase, &gate.gate, gate.passed, &gate.violations.join("; "))?;
        }
    }
    writeln!(out, "</table>")
}

fn write_report(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut text = Vec::new();
    report.write_text(&mut text, None, paint::Paint::Plain)?;
    let text = String::from_utf8_lossy(&text);
    writeln!(
        out,
        "<h2>Report</h2>\n<div class=\"wide\"><pre style=\"white-space:pre\">{}</pre></div>",
        escape_block(&text)
    )
}

fn write_prompts(out: &mut dyn Write, prompts: impl IntoIterator<Item = Prompt>) -> io::Result<()> {
    let mut prompts = prompts.into_iter().peekable();
    if prompts.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "<h2>Prompts sent</h2>")?;
    for Prompt { file, text } in prompts {
        let whole = |at: &usize| text.is_char_boundary(*at);
        let cut = (0..=text.len().min(PROMPT_BYTES)).rev().find(whole).unwrap_or(0);
        let more = text.len() - cut;
        let more = if more > 0 { format!("\n… [{more} more bytes in {}]", escape(&file)) } else { String::new() };
        writeln!(
            out,
            "<details><summary><code>{}</code></summary>\n<pre>{}{more}</pre></details>",
            escape(&file),
            escape_block(&text[..cut])
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
