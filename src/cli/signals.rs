//! Signals become levels and bells: what reaches a live run from outside.

use std::cell::Cell;
use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::run::{Audience, Bells, Level};

/// Listens for signals as long as the runtime lives.
pub(super) struct Signals {
    pub(super) bells: Bells,
    /// Rings as others do by signal.
    pub(super) news: Rc<watch::Sender<u64>>,
    /// The first signal that asked for an end, by number.
    ended_by: Rc<Cell<Option<i32>>>,
}

impl Signals {
    /// Starts listening; before anything is locked, since an unheard bell kills.
    pub(super) fn listen() -> io::Result<Self> {
        let (level, level_seen) = watch::channel(Level::Running);
        let (news, news_seen) = watch::channel(0);
        let ended_by = Rc::new(Cell::new(None));
        let (level, news) = (Rc::new(level), Rc::new(news));
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let mut coming = signal(kind)?;
            let (level, ended_by) = (Rc::clone(&level), Rc::clone(&ended_by));
            tokio::task::spawn_local(async move {
                while coming.recv().await.is_some() {
                    let next = if *level.borrow() == Level::Running { Level::Interrupt } else { Level::Kill };
                    ended_by.set(ended_by.get().or(Some(kind.as_raw_value())));
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
        Ok(Self { bells: Bells { level: level_seen, news: news_seen, audience: Audience::Nobody }, news, ended_by })
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
        let number = self.ended_by.get()?;
        u8::try_from(128 + number).ok().map(ExitCode::from)
    }
}
