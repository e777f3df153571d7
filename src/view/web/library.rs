//! What the pages are made of: one thread reads all files, so that a long log keeps nobody but its reader waiting.

use std::fmt;
use std::sync::mpsc;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::oneshot;

use crate::event::Event;
use crate::ids::{RunId, Seq};
use crate::store::{DataDir, Entry, LogReader, RunDir, StoreError, Tail};
use crate::view::frame::Frame;
use crate::view::plot::PlotFold;
use crate::view::projection::Projection;
use crate::view::tables::Life;

/// Runs on one page.
pub(super) const A_PAGE: usize = 50;

/// Logs that are kept open, with what was made of them.
const OPEN: usize = 8;

/// Where runs are and how to look at one.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The data directory.
    pub data: DataDir,
    /// Whether a process is at a run.
    pub life: fn(&DataDir, &RunDir) -> Result<Life, StoreError>,
    /// What is known of a run without reading its log; `None` when it has no records.
    pub projection: fn(&RunDir, Life) -> Result<Option<Projection>, StoreError>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("there is no such thing here")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

type Question = Box<dyn FnOnce(&mut Library) + Send>;

/// Where questions are handed in. Dropped, its thread ends.
pub(super) struct Desk(mpsc::Sender<Question>);

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    /// Starts the thread that reads.
    pub(super) fn open(sources: Sources) -> std::io::Result<Self> {
        let (sender, questions) = mpsc::channel::<Question>();
        let mut library = Library { sources, open: Vec::new() };
        let read = move || questions.into_iter().for_each(|question| question(&mut library));
        std::thread::Builder::new().name("view".to_owned()).spawn(read)?;
        Ok(Self(sender))
    }

    /// Has a page made.
    pub(super) async fn ask<F>(&self, make: F) -> Response
    where
        F: FnOnce(&mut Library) -> Result<Response, Missing> + Send + 'static,
    {
        match self.look(make).await {
            Some(Ok(response)) => response,
            Some(Err(Missing::NotFound)) => StatusCode::NOT_FOUND.into_response(),
            Some(Err(Missing::Store(error))) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}{cause}\n")).into_response()
            }
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    /// Has something looked up; `None` when the thread has gone.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Library) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        // Whoever asked may have gone; then the answer is for nobody.
        let question: Question = Box::new(move |library| drop(sender.send(look(library))));
        self.0.send(question).ok()?;
        answer.await.ok()
    }
}

/// All runs, and the logs of some of them.
pub(super) struct Library {
    sources: Sources,
    /// The one used last stands last.
    open: Vec<Followed>,
}

/// A log that was read so far, with what is known from it.
pub(super) struct Followed {
    run: RunId,
    reader: LogReader,
    pub(super) state: Projection,
    pub(super) frame: Frame,
    pub(super) plot: PlotFold,
}

impl Followed {
    fn read(&mut self) -> Result<(), StoreError> {
        while let Some(entry) = self.reader.next()? {
            if let Entry::Record { line, .. } = entry
                && let Ok(record) = line.decode()
            {
                self.state.push(&record);
                self.plot.push(&record);
                if let Event::RunStart(start) = &record.event {
                    self.frame.push(start);
                }
            }
        }
        Ok(())
    }
}

impl Library {
    /// All runs, newest first.
    pub(super) fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.sources.data.list()
    }

    /// What is known of a run by its run file; `None` when it has no records.
    pub(super) fn glance(&self, run: &RunId) -> Result<Option<(Projection, Life)>, StoreError> {
        let dir = self.sources.data.run(run);
        let life = (self.sources.life)(&self.sources.data, &dir)?;
        Ok((self.sources.projection)(&dir, life)?.map(|state| (state, life)))
    }

    /// The directory of a run that is there: a name from an address is looked up, never made a path of.
    pub(super) fn dir(&self, run: &RunId) -> Result<RunDir, Missing> {
        let there = self.runs()?.contains(run);
        if there { Ok(self.sources.data.run(run)) } else { Err(Missing::NotFound) }
    }

    pub(super) fn life(&self, run: &RunId) -> Result<Life, StoreError> {
        (self.sources.life)(&self.sources.data, &self.sources.data.run(run))
    }

    /// A run by its whole log, up to now.
    pub(super) fn follow(&mut self, run: &RunId) -> Result<&Followed, Missing> {
        let dir = self.dir(run)?;
        let mut followed = match self.open.iter().position(|known| known.run == *run) {
            Some(at) => self.open.remove(at),
            None => Followed {
                run: run.clone(),
                reader: LogReader::open(&dir.events(), Tail::Growing)?,
                state: Projection::default(),
                frame: Frame::default(),
                plot: PlotFold::default(),
            },
        };
        followed.read()?;
        if followed.state.run.events == Seq(0) {
            return Err(Missing::NotFound);
        }
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push(followed);
        Ok(&self.open[self.open.len() - 1])
    }

    /// What changes when the list of runs would look different.
    pub(super) fn signature(&self) -> Result<String, StoreError> {
        let mut signature = String::new();
        for run in self.runs()?.iter().take(A_PAGE) {
            let dir = self.sources.data.run(run);
            let changed = std::fs::metadata(dir.run_file()).and_then(|file| file.modified()).ok();
            signature += &format!("{run} {changed:?} {:?}\n", (self.sources.life)(&self.sources.data, &dir)?);
        }
        Ok(signature)
    }
}
