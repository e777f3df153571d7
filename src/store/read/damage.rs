//! Names for what is not a record.

use std::fmt;

use crate::ids::Seq;

/// A part of a log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Its line, from 1; unknown when reading began in the middle of the file.
    pub line: Option<u64>,
    /// The byte of the file where it begins.
    pub offset: u64,
    /// The highest record number read before it.
    pub behind: Option<Seq>,
    /// What it is.
    pub kind: DamageKind,
}

/// Kinds of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageKind {
    /// A line, or the end of one, that is no record.
    NoRecord {
        /// What the JSON reader says.
        reason: String,
    },
    /// The end of the log is the beginning of a record that was never acknowledged.
    Torn,
    /// A line over 16 MiB.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}")?,
            None => write!(f, "byte {}", self.offset)?,
        }
        if let Some(seq) = self.behind {
            write!(f, ", behind record {seq}")?;
        }
        match &self.kind {
            DamageKind::NoRecord { reason } => write!(f, ": no record: {reason}"),
            DamageKind::Torn => f.write_str(": the log ends in half a record"),
            DamageKind::TooLong { bytes } => write!(f, ": {bytes} bytes, too long for a record"),
        }
    }
}
