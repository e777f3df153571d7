//! What a run shows while it goes: a live block on a terminal, plain lines elsewhere.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::Duration;

use chrono::Utc;

use crate::event::{Event, Record};
use crate::run::Watch;
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};
use crate::view::ending::Ending;
use crate::view::frame::Frame;
use crate::view::human::PlainLog;
use crate::view::live::Live;
use crate::view::paint::Paint;
use crate::view::projection::Projection;
use crate::view::savings::Savings;

/// How often the clock of the live block is redrawn.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loudness {
    /// Progress and the end.
    Usual,
    /// The end alone.
    Quiet,
}

/// The screen of a run, on standard error.
#[derive(Clone)]
pub(super) struct Screen {
    shared: Rc<RefCell<Shown>>,
}

struct Shown {
    progress: Progress,
    state: Projection,
    frame: Frame,
    savings: Savings,
    paint: Paint,
}

enum Progress {
    Live(Box<Live>),
    Plain(Box<PlainLog>),
    None,
}

impl Screen {
    pub(super) fn new(loudness: Loudness) -> Self {
        let terminal = io::stderr().is_terminal() && !super::is_dumb();
        let paint = super::paint(terminal);
        let progress = match (loudness, terminal) {
            (Loudness::Quiet, _) => Progress::None,
            (Loudness::Usual, true) => Progress::Live(Box::new(Live::new(paint))),
            (Loudness::Usual, false) => Progress::Plain(Box::default()),
        };
        let (state, frame, savings) = (Projection::default(), Frame::default(), Savings::default());
        Self { shared: Rc::new(RefCell::new(Shown { progress, state, frame, savings, paint })) }
    }

    /// Takes in what earlier stretches of the run wrote, and shows nothing of it.
    pub(super) fn recall(&self, dir: &RunDir) -> Result<(), StoreError> {
        let mut shown = self.shared.borrow_mut();
        let mut log = LogReader::open(&dir.events(), Tail::Final)?;
        while let Some(entry) = log.next()? {
            let Entry::Record { line, .. } = entry else { continue };
            let Ok(record) = line.decode() else { continue };
            shown.take(&record);
            if let Progress::Live(live) = &mut shown.progress {
                live.recall(&record);
            }
        }
        Ok(())
    }

    /// Whether there is a clock to redraw.
    pub(super) fn ticks(&self) -> bool {
        matches!(self.shared.borrow().progress, Progress::Live(_))
    }

    /// Redraws the live block.
    pub(super) fn tick(&self) {
        if let Progress::Live(live) = &mut self.shared.borrow_mut().progress {
            // A terminal that went away takes nothing from the run.
            let _gone = live.draw(&mut io::stderr().lock(), Utc::now(), width());
        }
    }

    /// Writes the last words.
    pub(super) fn end(&self) {
        self.end_with(None);
    }

    /// Writes the last words; `instead` is what comes next where the run does not stay.
    pub(super) fn end_with(&self, instead: Option<&str>) {
        let mut shown = self.shared.borrow_mut();
        let mut err = io::stderr().lock();
        if let Progress::Live(live) = &mut shown.progress {
            let _gone = live.clear(&mut err, width());
        }
        let ending = Ending { state: &shown.state, frame: &shown.frame, savings: Some(&shown.savings), instead };
        let _gone = writeln!(err).and_then(|()| ending.write(&mut err, Utc::now(), shown.paint));
    }

    /// What is known of the run.
    pub(super) fn state(&self) -> Projection {
        self.shared.borrow().state.clone()
    }
}

fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(20)
}

impl Shown {
    fn take(&mut self, record: &Record) {
        self.state.push(record);
        self.savings.push(record);
        if let Event::RunStart(start) = &record.event {
            self.frame.push(start);
        }
    }
}

impl Watch for Screen {
    fn record(&mut self, record: &Record) {
        let mut shown = self.shared.borrow_mut();
        shown.take(record);
        match &mut shown.progress {
            Progress::Live(live) => live.push(record, width()),
            Progress::Plain(plain) => {
                let _gone = plain.push(record, &mut io::stderr().lock());
            }
            Progress::None => {}
        }
    }
}
