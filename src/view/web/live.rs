//! Server-sent events: that something changed, never what. The page asks again and gets it rendered and escaped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_core::Stream;
use tokio::sync::mpsc;

use super::Shared;
use crate::ids::RunId;
use crate::view::tables::Life;

/// How often a log's size is looked at (SPEC 2.5).
const LOOK: Duration = Duration::from_millis(100);
/// Looks between two questions whether a run still lives, and whether the list of runs changed.
const LOOKS_A_PULSE: u32 = 10;
/// Pulses between two signs of life on a quiet stream.
const PULSES_A_SIGN: u32 = 15;

/// Tells whenever the list of runs would look different.
pub(super) fn runs(shared: Arc<Shared>) -> Response {
    stream(move |sender| async move {
        let mut known = None;
        let mut quiet = 0;
        loop {
            let seen = shared.desk.look(|library| library.signature().ok()).await;
            let Some(seen) = seen else { return };
            let event = if known.as_ref().is_some_and(|known| *known != seen) {
                Some("event: changed\ndata: runs\n\n")
            } else {
                quiet += 1;
                (quiet % PULSES_A_SIGN == 1).then_some(": here\n\n")
            };
            known = Some(seen);
            if !tell(&sender, event).await || !wait(&sender, LOOK * LOOKS_A_PULSE).await {
                return;
            }
        }
    })
}

/// Tells whenever the log of a run has grown or its process has gone; ends when nothing more will come.
pub(super) fn run(shared: Arc<Shared>, run: RunId) -> Response {
    stream(move |sender| async move {
        let of = run.clone();
        let Some(Ok(dir)) = shared.desk.look(move |library| library.dir(&of)).await else { return };
        let size = || std::fs::metadata(dir.events()).map_or(0, |file| file.len());
        let mut known = size();
        let mut looks = 0;
        if !tell(&sender, Some(": here\n\n")).await {
            return;
        }
        while wait(&sender, LOOK).await {
            looks += 1;
            let of = run.clone();
            let over = looks % LOOKS_A_PULSE == 0
                && shared.desk.look(move |library| library.life(&of).ok()).await.flatten() != Some(Life::Alive);
            let seen = size();
            let event = if over || seen != known {
                Some("event: changed\ndata: log\n\n")
            } else {
                (looks % (LOOKS_A_PULSE * PULSES_A_SIGN) == 0).then_some(": here\n\n")
            };
            known = seen;
            if !tell(&sender, event).await {
                return;
            }
            if over {
                tell(&sender, Some("event: over\ndata: log\n\n")).await;
                return;
            }
        }
    })
}

/// A stream that a task writes. The task ends when the reader has gone.
fn stream<F: Future<Output = ()> + Send + 'static>(write: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(write(sender));
    super::typed("text/event-stream", Body::from_stream(Events(receiver)))
}

/// Sends an event, if there is one; says whether anybody still listens.
async fn tell(sender: &mpsc::Sender<Bytes>, event: Option<&'static str>) -> bool {
    match event {
        Some(event) => sender.send(Bytes::from_static(event.as_bytes())).await.is_ok(),
        None => true,
    }
}

/// Waits; says whether anybody still listens.
async fn wait(sender: &mpsc::Sender<Bytes>, span: Duration) -> bool {
    tokio::select! {
        () = sender.closed() => false,
        () = tokio::time::sleep(span) => true,
    }
}

/// The receiving end of the channel as a stream.
struct Events(mpsc::Receiver<Bytes>);

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}
