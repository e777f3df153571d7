//! What a run shows while it goes: a live block on a terminal, plain lines elsewhere.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::Duration;

use chrono::Utc;

use crate::event::{Event, Record};
use crate::run::Watch;
use crate::store::{DataDir, Entry, LogReader, RunDir, StoreError, Tail};
use crate::view::ending::{Brake, Ending};
use crate::view::frame::Frame;
use crate::view::human::PlainLog;
use crate::view::live::Live;
use crate::view::paint::Paint;
use crate::view::projection::Projection;
use crate::view::savings::Savings;
use crate::view::text;

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
    question: Question,
}

/// Where the cursor is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    /// At the end of a question, which nothing is drawn over.
    Open,
    /// At the start of a line, with a question above it that is still open.
    Entered,
    /// At the start of a line.
    None,
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
        Self {
            shared: Rc::new(RefCell::new(Shown { progress, state, frame, savings, paint, question: Question::None })),
        }
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

    /// How much is shown.
    pub(super) fn loudness(&self) -> Loudness {
        match self.shared.borrow().progress {
            Progress::Live(_) | Progress::Plain(_) => Loudness::Usual,
            Progress::None => Loudness::Quiet,
        }
    }

    /// Whether there is a clock to redraw.
    pub(super) fn ticks(&self) -> bool {
        let shown = self.shared.borrow();
        matches!(shown.progress, Progress::Live(_)) && shown.question == Question::None
    }

    /// Puts a question below what stands there. Until it is answered nothing else is drawn.
    pub(super) fn ask(&self, question: &str) {
        let mut shown = self.shared.borrow_mut();
        let mut err = io::stderr().lock();
        if let Progress::Live(live) = &mut shown.progress {
            let _gone = live.clear(&mut err, width());
        }
        let _gone = write!(err, "{}", text::line(question)).and_then(|()| err.flush());
        shown.question = Question::Open;
    }

    /// Takes note that a line was typed below the question.
    pub(super) fn entered(&self) {
        self.shared.borrow_mut().question = Question::Entered;
    }

    /// Goes on drawing: the question was answered, here or elsewhere, or is over.
    pub(super) fn answered(&self) {
        let mut shown = self.shared.borrow_mut();
        if shown.question == Question::Open {
            let _gone = writeln!(io::stderr().lock());
        }
        shown.question = Question::None;
    }

    /// Says a line above the live block, which the next tick draws again.
    pub(super) fn tell(&self, line: &str) {
        let mut shown = self.shared.borrow_mut();
        if shown.question == Question::Open || matches!(shown.progress, Progress::None) {
            return;
        }
        let mut err = io::stderr().lock();
        if let Progress::Live(live) = &mut shown.progress {
            let _gone = live.clear(&mut err, width());
        }
        let _gone = writeln!(err, "{line}");
    }

    /// Redraws the live block.
    pub(super) fn tick(&self) {
        if let Progress::Live(live) = &mut self.shared.borrow_mut().progress {
            // A terminal that went away takes nothing from the run.
            let _gone = live.draw(&mut io::stderr().lock(), Utc::now(), width());
        }
    }

    /// Writes the last words about a run of this data directory.
    pub(super) fn end(&self, data: &DataDir) {
        let place = super::from_here(data.run(&self.state().run.run).path());
        self.end_with(Brake::of(data), None, Some(&place));
    }

    /// Writes the last words; `instead` is what comes next where the run does not stay.
    pub(super) fn end_instead(&self, instead: &str) {
        self.end_with(Brake::Off, Some(instead), None);
    }

    fn end_with(&self, brake: Brake, instead: Option<&str>, place: Option<&str>) {
        let mut shown = self.shared.borrow_mut();
        let mut err = io::stderr().lock();
        if let Progress::Live(live) = &mut shown.progress {
            let _gone = live.clear(&mut err, width());
        }
        let (state, frame, savings) = (&shown.state, &shown.frame, Some(&shown.savings));
        let ending = Ending { state, frame, savings, brake, instead, place };
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
