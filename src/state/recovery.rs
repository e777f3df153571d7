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

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn r10_6_eight_in_all_are_the_most_and_four_of_them_verdicts() {
        let fits = |resumes, verdicts| {
            let used = Recovery { resumes, verdicts };
            (used.verdict_fits(), used.resume_fits())
        };
        assert_eq!(fits(0, 0), (true, true));
        assert_eq!(fits(3, 3), (true, true));
        assert_eq!(fits(0, 4), (false, true), "four verdicts");
        assert_eq!(fits(7, 0), (false, true), "no room for the resume that takes it up");
        assert_eq!(fits(4, 4), (false, false));
        assert_eq!(fits(8, 0), (false, false));
    }
}
