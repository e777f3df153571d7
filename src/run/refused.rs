//! Why a stretch of a run did not begin.

use std::path::PathBuf;

use super::RunError;
use crate::ids::RunId;
use crate::state::Impossible;
use crate::state::recovery::{RECOVERIES, VERDICTS};
use crate::store::{LockError, StoreError};
use crate::tree::TreeError;

/// The file with a verdict that no stretch has taken up yet.
pub(super) const VERDICT_FILE: &str = "verdict.json";

/// Why a stretch did not begin. Nothing of a new run is left then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another run works in this work tree.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The log or another file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A run of this id is there.
    #[error("there is a run `{run}` already")]
    Taken {
        /// The id.
        run: RunId,
    },
    /// The log of the run to resume does not fit together.
    #[error("the log of run `{run}` cannot be followed")]
    Log {
        /// The run.
        run: RunId,
        /// What does not fit.
        #[source]
        source: Impossible,
    },
    /// The work tree of the run to resume is gone.
    #[error("the work tree of run `{run}` is gone: `{path}`")]
    WorktreeGone {
        /// The run.
        run: RunId,
        /// Where it was; git's name for it if that is not known.
        path: PathBuf,
    },
    /// The log of the run to resume has lost records that other files of the run speak of.
    #[error("the log of run `{run}` has lost records that were written to it")]
    Lost {
        /// The run.
        run: RunId,
    },
    /// The run may not be gone on with as things are.
    #[error("run `{run}` cannot be resumed: {refusal}")]
    Refused {
        /// The run.
        run: RunId,
        /// Its workflow.
        workflow: String,
        /// Why.
        refusal: Refusal,
    },
    /// The verdict that waits for the run cannot be read.
    #[error("the verdict on run `{run}` cannot be read")]
    Verdict {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The log of the run to resume has lost its plan.
    #[error("the log of run `{run}` holds no plan that can be read")]
    NoPlan {
        /// The run.
        run: RunId,
    },
    /// This machine does not say which boot it is in.
    #[error("cannot tell who this process is")]
    Identity(#[source] std::io::Error),
    /// No random number could be had.
    #[error("cannot make a run id")]
    Random,
    /// The first records could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Why a resume is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All that the run changed is as it was when the run was judged.
    #[error("nothing that the run changed differs from what was judged")]
    Unchanged {
        /// Whether the ledger has room for a verdict.
        verdict_fits: bool,
    },
    /// The ledger is full.
    #[error("its {RECOVERIES} resumes and verdicts are used up")]
    UsedUp,
    /// All verdicts are used up, and there is one to take up.
    #[error("its {VERDICTS} verdicts are used up, and `{VERDICT_FILE}` is another one")]
    NoMoreVerdicts,
}

impl Refusal {
    /// A command that will be accepted, for the run and its workflow.
    pub fn hint(self, run: &str, workflow: &str) -> String {
        match self {
            Self::Unchanged { verdict_fits: true } => format!(
                "change something, or say what is missing: `fia verdict set {run} --missing \"…\"`, then `fia resume {run}`;\n      \
                 if what you mended is no file of the run: `fia resume {run} --retry-unchanged`"
            ),
            Self::Unchanged { verdict_fits: false } => {
                format!("change something, or `fia resume {run} --retry-unchanged`")
            }
            Self::UsedUp => format!("start anew: `fia run {workflow} \"…\"`"),
            Self::NoMoreVerdicts => format!("`fia verdict clear {run}`, then `fia resume {run} --retry-unchanged`"),
        }
    }
}
