//! Signals become levels and bells: what reaches a live run from outside.

use std::cell::Cell;
use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::run::{Audience, Bells, Level};

/// Within this time of the first, another signal of its kind is the same one heard twice: `timeout` of GNU coreutils
/// signals its child and then its own group, in which the child is.
const ECHO: Duration = Duration::from_secs(1);

/// The first signal that asked for an end: its number, and when it came.
type First = Option<(i32, Instant)>;

/// Listens for signals as long as the runtime lives.
pub(super) struct Signals {
    pub(super) bells: Bells,
    /// Rings as others do by signal.
    pub(super) news: Rc<watch::Sender<u64>>,
    first: Rc<Cell<First>>,
}

/// What a signal asks for after the first one; `None` when it is the first one again.
fn asked(first: First, number: i32, now: Instant) -> Option<Level> {
    match first {
        None => Some(Level::Interrupt),
        Some((earlier, at)) if earlier == number && now.duration_since(at) < ECHO => None,
        Some(_) => Some(Level::Kill),
    }
}

impl Signals {
    /// Starts listening; before anything is locked, since an unheard bell kills.
    pub(super) fn listen() -> io::Result<Self> {
        let (level, level_seen) = watch::channel(Level::Running);
        let (news, news_seen) = watch::channel(0);
        let first: Rc<Cell<First>> = Rc::default();
        let (level, news) = (Rc::new(level), Rc::new(news));
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let mut coming = signal(kind)?;
            let (level, first) = (Rc::clone(&level), Rc::clone(&first));
            tokio::task::spawn_local(async move {
                while coming.recv().await.is_some() {
                    let (number, now) = (kind.as_raw_value(), Instant::now());
                    let Some(next) = asked(first.get(), number, now) else { continue };
                    first.set(first.get().or(Some((number, now))));
                    // The run may be over already.
                    let _unheard = level.send(next);
                }
            });
        }
        let mut rings = signal(SignalKind::user_defined1())?;
        let bell = Rc::clone(&news);
        tokio::task::spawn_local(async move {
            while rings.recv().await.is_some() {
                bell.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { bells: Bells { level: level_seen, news: news_seen, audience: Audience::Nobody }, news, first })
    }

    /// Does what a run left to do, unless one more signal comes, or it was ended by a second one already.
    pub(super) async fn unless_another(&self, rest: impl Future<Output = ()>) {
        let mut level = self.bells.level.clone();
        if *level.borrow_and_update() == Level::Kill {
            return;
        }
        tokio::select! {
            biased;
            Ok(()) = level.changed() => {}
            () = rest => {}
        }
    }

    /// Keeps a bell that nobody waits for from killing this process, which holds the lock for a moment only.
    pub(super) fn bells_only() -> io::Result<tokio::signal::unix::Signal> {
        signal(SignalKind::user_defined1())
    }

    /// The exit status of a process that was ended by a signal.
    pub(super) fn status(&self) -> Option<ExitCode> {
        let (number, _) = self.first.get()?;
        u8::try_from(128 + number).ok().map(ExitCode::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one_and_a_later_or_another_one_kills() {
        let (int, term) = (SignalKind::interrupt().as_raw_value(), SignalKind::terminate().as_raw_value());
        let began = Instant::now();
        let first = Some((term, began));
        assert_eq!(asked(None, term, began), Some(Level::Interrupt));
        assert_eq!(asked(first, term, began), None);
        assert_eq!(asked(first, term, began + ECHO / 2), None);
        assert_eq!(asked(first, term, began + ECHO), Some(Level::Kill));
        assert_eq!(asked(first, int, began), Some(Level::Kill));
    }
}
