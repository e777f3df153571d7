//! A streamed answer: its events one by one, and how it ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_core::Stream;
use tokio::sync::mpsc;

use super::connection::Line;
use super::play::Entry;

/// How a stream ends after its events, and what the log says of it.
#[derive(Debug)]
pub(super) enum Ending {
    /// As HTTP wants it.
    Polite { answer: String },
    /// By a reset of the connection.
    Reset { answer: String },
    /// In silence for so long, and then by a reset.
    Silence(Duration),
}

/// The body of a streamed answer. Its events are written by a task that ends when the client goes away.
pub(super) fn body(entry: Entry, events: Vec<String>, ending: Ending, pause: Duration, line: Line) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(write(entry, events, ending, pause, line, sender));
    Body::from_stream(Events(receiver))
}

async fn write(
    mut entry: Entry,
    mut events: Vec<String>,
    ending: Ending,
    pause: Duration,
    line: Line,
    sender: mpsc::Sender<Bytes>,
) {
    let held_back = match ending {
        Ending::Polite { .. } => events.pop(),
        Ending::Reset { .. } | Ending::Silence(_) => None,
    };
    for event in events {
        if send(&sender, event).await.is_none() {
            return;
        }
        // Even a sleep of no length waits for the next tick of the timer.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    match ending {
        Ending::Polite { answer } => {
            // Logged before the last event leaves: who has the whole answer finds it in the log.
            entry.finish(answer);
            if let Some(last) = held_back {
                send(&sender, last).await;
            }
        }
        Ending::Reset { answer } => {
            entry.finish(answer);
            reset(&line, &sender).await;
        }
        Ending::Silence(silence) => {
            entry.begin("hang mid-stream");
            tokio::select! {
                () = sender.closed() => {}
                () = tokio::time::sleep(silence) => {
                    entry.finish("hang mid-stream: time over");
                    reset(&line, &sender).await;
                }
            }
        }
    }
}

/// Hands an event over and waits until the connection has taken it; `None` when the client has gone.
async fn send(sender: &mpsc::Sender<Bytes>, event: String) -> Option<()> {
    sender.send(Bytes::from(event)).await.ok()?;
    sender.reserve().await.ok().map(drop)
}

/// Breaks the connection, and keeps the body open until that has happened: its end would be a polite one.
async fn reset(line: &Line, sender: &mpsc::Sender<Bytes>) {
    line.reset();
    sender.closed().await;
}

/// The receiving end of the channel as a stream.
struct Events(mpsc::Receiver<Bytes>);

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}
