//! One run: where it stands, its contexts, its phases, its files, and what happened last.

use std::fmt::Write as _;

use axum::response::Response;
use chrono::{DateTime, Utc};

use super::library::{Library, Missing};
use super::page::{Page, Part, cell, figure, phase_state, state};
use super::{events, files};
use crate::event::Usage;
use crate::ids::RunId;
use crate::view::markup::escape;
use crate::view::numbers::{ago, count, ms_between, or_unknown, percent, plural, span};
use crate::view::projection::Projection;
use crate::view::rows::{AgentRow, PhaseRow};
use crate::view::tables::{self, Life, RunState, engine};
use crate::view::words;

/// A live run without a record for so long is said to be silent, in milliseconds.
const SILENT_MS: u64 = 120_000;
/// Events that the page shows.
const EVENTS: usize = 30;

pub(super) fn page(library: &mut Library, root: &str, run: &RunId, part: Part) -> Result<Response, Missing> {
    let dir = library.dir(run)?;
    let life = library.life(run)?;
    let known = match life {
        // The run file lags behind a live log.
        Life::Alive => library.follow(run)?.state.clone().so_far(),
        Life::Gone => library.glance(run)?.ok_or(Missing::NotFound)?.0,
    };
    let now = Utc::now();
    let id = escape(run.as_str());
    let mut body = head(&known, life, now);
    body += "<h2>Context</h2>\n<table id=\"agents\">\n<tr><th>agent<th>engine<th>live context<th class=\"num\">of\
             <th class=\"num\">requests<th class=\"num\">cache<th class=\"num\">rotated<th>last</tr>\n";
    known.agents.iter().for_each(|row| body += &agent(row, now));
    let _infallible = writeln!(
        body,
        "</table>\n<div class=\"wide\"><img alt=\"live context over time, tokens by phase\" \
         src=\"{}/run/{id}/plot.svg?{}\"></div>",
        escape(root),
        known.run.events
    );
    body += "<h2>Phases</h2>\n<div class=\"wide\"><table id=\"phases\">\n<tr><th>phase<th>status<th>agent<th>engine\
             <th class=\"num\">time<th class=\"num\">requests<th class=\"num\">context<th class=\"num\">tokens\
             <th class=\"num\">cost<th>note</tr>\n";
    known.phases.iter().for_each(|row| body += &phase(root, run, row, now));
    body += "</table></div>\n<h2>Last events</h2>\n";
    body += &events::last(&dir, EVENTS)?;
    body += &format!("<p><a href=\"{}/run/{id}/events\">all events</a></p>\n", escape(root));
    body += &files::list(root, run, &dir)?;
    let title = format!("fia {run} {}", known.run.workflow);
    let live = (life == Life::Alive).then(|| format!("{root}/run/{run}/live"));
    Ok(Page { root, title: &title, run: Some(run), live }.response(part, body))
}

/// The picture of a run.
pub(super) fn plot(library: &mut Library, run: &RunId) -> Result<Response, Missing> {
    let followed = library.follow(run)?;
    Ok(super::typed("image/svg+xml", followed.plot.svg(&followed.state)))
}

fn head(known: &Projection, life: Life, now: DateTime<Utc>) -> String {
    let run = &known.run;
    let (class, stands) = state(run, life);
    let spend = &run.spend;
    let mut facts = vec![
        format!("tokens {}", spend.tokens_text(Usage::total)),
        format!("cost {}", spend.cost_text()),
        plural(spend.requests, "request"),
        format!("cache {}", or_unknown(spend.cache_hit_ratio(), percent)),
        plural(u64::from(run.rotations), "rotation"),
        plural(u64::from(run.relays), "relay"),
        plural(u64::from(run.cache_breaks), "cache break"),
    ];
    let (time, stale) = match RunState::of(run, life) {
        RunState::Ended => (run.elapsed_ms, None),
        RunState::Interrupted => (run.elapsed_ms, Some(run.updated_at)),
        RunState::Running | RunState::Waiting => {
            (run.so_far(now), (ms_between(run.updated_at, now) > SILENT_MS).then_some(run.updated_at))
        }
    };
    facts.insert(0, format!("time {}", span(time)));
    let reason = run.reason.clone().or_else(|| run.waiting.as_ref().map(|wait| wait.reason.clone()));
    let reason = reason.filter(|reason| !reason.is_empty()).map(|reason| format!(": {}", escape(&reason)));
    let stale = stale.map(|last| format!("<p class=\"note\">last record {}</p>\n", ago(last, now)));
    format!(
        "<h1>{}</h1>\n<p>{}</p>\n<p id=\"state\" class=\"{class}\">{}{}</p>\n{}<p class=\"quiet\">{}</p>\n",
        escape(&format!("{} {}", run.workflow, run.run)),
        escape(&run.prompt),
        escape(&stands),
        reason.unwrap_or_default(),
        stale.unwrap_or_default(),
        escape(&facts.join(" · "))
    )
}

fn agent(row: &AgentRow, now: DateTime<Utc>) -> String {
    let full = row.ceiling.filter(|&ceiling| ceiling > 0).or(row.window);
    let context = match (row.context_tokens, full) {
        (Some(context), Some(full)) => {
            format!("<meter min=\"0\" max=\"{full}\" high=\"{full}\" value=\"{context}\"></meter> {}", count(context))
        }
        (Some(context), None) => count(context),
        (None, _) if row.unmetered => "– not reported".to_owned(),
        (None, _) => "–".to_owned(),
    };
    let model = row.engine.map(|engine| words::engine_model(engine, row.model.as_deref().unwrap_or("")));
    format!(
        "<tr>{}{}<td>{context}</td>{}{}{}{}{}</tr>\n",
        cell(row.agent.as_str()),
        cell(&model.unwrap_or_default()),
        figure(&or_unknown(full, count)),
        figure(&count(row.spend.requests)),
        figure(&or_unknown(row.spend.cache_hit_ratio(), percent)),
        figure(&row.rotations.to_string()),
        cell(&row.last_at.map_or_else(|| "not started".to_owned(), |at| ago(at, now)))
    )
}

fn phase(root: &str, run: &RunId, row: &PhaseRow, now: DateTime<Utc>) -> String {
    let (class, stands) = phase_state(row.status);
    let works = |text: String| figure(if row.agent.is_some() { &text } else { "" });
    let time = row.elapsed_ms.unwrap_or_else(|| ms_between(row.started_at, now));
    let rotated = row.rotation.as_ref().map(|rotation| {
        let reason = words::rotation_reason(rotation.reason, rotation.context_tokens, rotation.cap);
        format!("↻ fresh session: {reason}")
    });
    let notes = [rotated, Some(tables::phase_note(row)).filter(|note| !note.is_empty())];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let name = escape(row.phase.as_str());
    format!(
        "<tr><td><a href=\"{}/run/{}/events?phase={name}\">{name}</a></td><td class=\"{class}\">{}</td>{}{}{}{}{}{}{}{}</tr>\n",
        escape(root),
        escape(run.as_str()),
        escape(&stands),
        cell(row.agent.as_ref().map_or("", |agent| agent.as_str())),
        cell(&engine(row)),
        figure(&span(time)),
        works(row.spend.requests.to_string()),
        works(tables::context_course(row)),
        works(row.spend.tokens_text(Usage::total)),
        works(row.spend.cost_text()),
        cell(&notes.join("; "))
    )
}
