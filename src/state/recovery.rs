//! How often a run may be gone on with after outcomes that judge it (SPEC 10.6).

/// Resumes and verdicts together.
pub const RECOVERIES: u32 = 8;

/// How many of them may be verdicts.
pub const VERDICTS: u32 = 4;

/// Resumes and verdicts that were used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Resumes after a judged outcome.
    pub resumes: u32,
    /// Verdicts.
    pub verdicts: u32,
}

impl Recovery {
    /// Both together.
    pub fn used(self) -> u32 {
        self.resumes + self.verdicts
    }

    /// Whether there is room for a resume.
    pub fn resume_fits(self) -> bool {
        self.used() < RECOVERIES
    }

    /// Whether there is room for a verdict and the resume that takes it up.
    pub fn verdict_fits(self) -> bool {
        self.verdicts < VERDICTS && self.used() + 2 <= RECOVERIES
    }
}
