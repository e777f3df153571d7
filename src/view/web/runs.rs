//! The list of all runs.

use axum::response::Response;
use chrono::Utc;
use serde::Deserialize;

use super::library::{A_PAGE, Library, Missing};
use super::page::{Page, Part, cell, figure, state};
use crate::event::Usage;
use crate::ids::RunId;
use crate::view::markup::escape;
use crate::view::numbers::{ago, span};
use crate::view::projection::Projection;
use crate::view::tables::Life;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    part: u8,
    /// Pages before this one.
    page: usize,
}

pub(super) fn page(library: &Library, root: &str, asked: &Asked) -> Result<Response, Missing> {
    let runs = library.runs()?;
    let from = asked.page.saturating_mul(A_PAGE).min(runs.len());
    let mut body = String::from(
        "<h1>Runs</h1>\n<table id=\"runs\">\n<tr><th>run<th>workflow<th>state<th>started<th class=\"num\">time\
         <th class=\"num\">tokens<th class=\"num\">cost<th>prompt</tr>\n",
    );
    for run in runs.iter().skip(from).take(A_PAGE) {
        match library.glance(run) {
            Ok(Some((known, life))) => body += &row(root, run, &known, life),
            Err(error) => {
                body +=
                    &format!("<tr>{}<td colspan=\"7\">{}</td></tr>\n", cell(run.as_str()), escape(&error.to_string()));
            }
            Ok(None) => body += &format!("<tr>{}<td colspan=\"7\">no records</td></tr>\n", cell(run.as_str())),
        }
    }
    body += "</table>\n";
    if runs.is_empty() {
        body += "<p class=\"quiet\">There is no run yet: <code>fia run WORKFLOW PROMPT</code> starts one.</p>\n";
    }
    if from > 0 {
        body += &format!("<a href=\"{}/?page={}\">newer runs</a> ", escape(root), asked.page - 1);
    }
    if from + A_PAGE < runs.len() {
        body += &format!("<a href=\"{}/?page={}\">older runs</a>", escape(root), asked.page + 1);
    }
    let page = Page { root, title: "fia: runs", run: None, live: Some(format!("{root}/live")) };
    Ok(page.response(Part { part: asked.part }, body))
}

fn row(root: &str, run: &RunId, known: &Projection, life: Life) -> String {
    let summary = &known.run;
    let (class, stands) = state(summary, life);
    let id = escape(run.as_str());
    format!(
        "<tr><td><a href=\"{}/run/{id}\">{id}</a></td>{}<td class=\"{class}\">{}</td>{}{}{}{}{}</tr>\n",
        escape(root),
        cell(&summary.workflow),
        escape(&stands),
        cell(&ago(summary.started_at, Utc::now())),
        figure(&span(summary.elapsed_ms)),
        figure(&summary.spend.tokens_text(Usage::total)),
        figure(&summary.spend.cost_text()),
        cell(&summary.prompt)
    )
}
