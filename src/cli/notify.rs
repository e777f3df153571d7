//! Webhooks: what happened in a run, told to others. A hook that fails never fails a run.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::say;
use crate::config::{Notify, Webhook};
use crate::event::{Approval, Event, Outcome, Record};
use crate::gateway::client_for;
use crate::run::Watch;

/// How long one webhook may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the end of a run waits for webhooks that are still on their way.
const LAST_LIMIT: Duration = Duration::from_secs(10);

/// Messages on their way; the task that sends them.
pub(super) struct Sending {
    task: JoinHandle<()>,
}

/// Picks the records that are worth a message.
pub(super) struct Notifier {
    events: Vec<String>,
    queue: mpsc::UnboundedSender<Value>,
}

/// Starts sending, if the configuration asks for it; within a local task set.
pub(super) fn start(notify: &Notify) -> Option<(Notifier, Sending)> {
    if !notify.enabled || notify.targets.is_empty() {
        return None;
    }
    let (queue, messages) = mpsc::unbounded_channel();
    let task = tokio::task::spawn_local(send_all(notify.targets.clone(), messages));
    Some((Notifier { events: notify.events.clone(), queue }, Sending { task }))
}

impl Sending {
    /// Waits a moment for what is still on its way. The notifier must be gone.
    pub(super) async fn finish(self) {
        let _late = tokio::time::timeout(LAST_LIMIT, self.task).await;
    }
}

impl Watch for Notifier {
    fn record(&mut self, record: &Record) {
        if let Some(message) =
            message(record).filter(|message| self.events.iter().any(|event| message["event"] == **event))
        {
            // Whoever sent them is gone only when the program ends.
            let _ended = self.queue.send(message);
        }
    }
}

/// What a record says to others; most say nothing.
#[expect(clippy::wildcard_enum_match_arm, reason = "picks out the few facts that are worth a message")]
fn message(record: &Record) -> Option<Value> {
    let (event, text) = match &record.event {
        Event::RunEnd(end) => ("run_end", format!("{}: {}", end.outcome, end.reason)),
        // A gate or a write that a second try puts right blocks nothing.
        Event::PhaseEnd(end) if end.outcome == Some(Outcome::BlockedByGate) => {
            ("gate_block", end.reason.clone().unwrap_or_default())
        }
        Event::Waiting(waiting) => {
            let until = waiting.until.map_or_else(String::new, |until| format!(" until {}", until.to_rfc3339()));
            ("waiting", format!("waiting for {}{until}", waiting.reason))
        }
        Event::Approval(Approval::Asked) => ("approval", format!("an approval is needed: fia approve {}", record.run)),
        _ => return None,
    };
    let text = crate::mask::secrets(&text).into_owned();
    Some(json!({
        "event": event, "run": record.run, "phase": record.phase, "text": format!("fia {}: {text}", record.run),
        "outcome": match &record.event { Event::RunEnd(end) => Some(end.outcome), _ => None },
    }))
}

async fn send_all(targets: Vec<Webhook>, mut messages: mpsc::UnboundedReceiver<Value>) {
    while let Some(message) = messages.recv().await {
        for target in &targets {
            if let Err(reason) = send(target, &message).await {
                // The address may hold a secret and is not shown.
                say(&format!("warning: a webhook of `notify` was not told: {reason}"));
            }
        }
    }
}

async fn send(target: &Webhook, message: &Value) -> Result<(), String> {
    let url: Url = target.url.parse().map_err(|_| "its address is none".to_owned())?;
    let client = client_for(&url).map_err(|error| error.without_url().to_string())?;
    let request =
        client.post(url).timeout(ANSWER_LIMIT).header("content-type", "application/json").body(message.to_string());
    let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("it answered {}", answer.status())) }
}
