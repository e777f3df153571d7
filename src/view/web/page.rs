//! What all pages share: the frame around them, cells, and figures with their words.

use axum::response::Response;
use serde::Deserialize;

use crate::event::Outcome;
use crate::ids::RunId;
use crate::view::markup::escape;
use crate::view::rows::{PhaseState, RunSummary};
use crate::view::tables::{Life, RunState};
use crate::view::words;

/// Whether the frame is wanted too: the script asks for the rest alone.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// `?part=1`.
    pub(super) part: u8,
}

/// A page.
pub(super) struct Page<'a> {
    /// `/TOKEN`.
    pub(super) root: &'a str,
    pub(super) title: &'a str,
    /// The run that it is about.
    pub(super) run: Option<&'a RunId>,
    /// Where to hear that it changed; `None` for what does not change any more.
    pub(super) live: Option<String>,
}

impl Page<'_> {
    /// The page around a body, or the body alone when a part was asked for.
    pub(super) fn response(&self, part: Part, body: String) -> Response {
        let html = if part.part == 0 { self.framed(&body) } else { body };
        super::typed("text/html", html)
    }

    fn framed(&self, body: &str) -> String {
        let (root, title) = (escape(self.root), escape(self.title));
        let live = self.live.as_ref().map(|live| format!(" data-live=\"{}\"", escape(live))).unwrap_or_default();
        // Who runs no script gets a page that looks again by itself.
        let refresh =
            if self.live.is_some() { "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n" } else { "" };
        let mut trail = format!("<a href=\"{root}/\">runs</a>");
        if let Some(run) = self.run {
            let run = escape(run.as_str());
            trail += &format!(
                " <span>/</span> <a href=\"{root}/run/{run}\">{run}</a> <span>/</span> \
                 <a href=\"{root}/run/{run}/events\">events</a>"
            );
        }
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n{refresh}\
             <link rel=\"icon\" href=\"{root}/icon.svg\">\n<link rel=\"stylesheet\" href=\"{root}/style.css\">\n\
             <script src=\"{root}/script.js\" defer></script>\n</head>\n<body>\n<header><b>fia</b> {trail}</header>\n\
             <main{live}>\n{body}</main>\n</body>\n</html>\n"
        )
    }
}

/// A table cell of text.
pub(super) fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

/// A table cell of a figure.
pub(super) fn figure(text: &str) -> String {
    format!("<td class=\"num\">{}</td>", escape(text))
}

/// Where a run stands, with the class of its colour.
pub(super) fn state(run: &RunSummary, life: Life) -> (&'static str, String) {
    match (RunState::of(run, life), run.outcome) {
        (RunState::Ended, Some(Outcome::GoalMet)) => ("good", "✓ goal met".to_owned()),
        (RunState::Ended, outcome) => {
            let words = outcome.map(|outcome| words::outcome_words(outcome.as_str())).unwrap_or_default();
            ("bad", format!("✗ {words}"))
        }
        (RunState::Running, _) => ("running", "▶ running".to_owned()),
        (RunState::Waiting, _) => ("note", "⏸ waiting".to_owned()),
        (RunState::Interrupted, _) => ("note", "· interrupted: no process is at it".to_owned()),
    }
}

/// Where a phase stands, with the class of its colour.
pub(super) fn phase_state(status: PhaseState) -> (&'static str, String) {
    let (class, symbol) = match status {
        PhaseState::Running => ("running", "▶"),
        PhaseState::Success => ("good", "✓"),
        PhaseState::Red | PhaseState::Failed => ("bad", "✗"),
        PhaseState::Stopped | PhaseState::Interrupted => ("note", "·"),
    };
    (class, format!("{symbol} {}", status.as_str()))
}
