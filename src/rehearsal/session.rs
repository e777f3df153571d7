//! The saved conversation of a scripted session: JSON lines that only ever grow.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::event::Usage;
use crate::solid;

/// What an agent was told is nobody else's business.
const FILE_MODE: u32 = 0o600;

/// Characters a token, before the growth factor.
const BYTES_PER_TOKEN: f64 = 4.0;

/// A session and the bytes it holds.
#[derive(Debug)]
pub(super) struct Conversation {
    id: String,
    file: File,
    /// Bytes that the next request would send: system prompt and every message.
    bytes: u64,
    /// Bytes that the last request sent, all of them in the cache since.
    cached: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Saved {
    Session { id: String },
    Message { role: String, text: String },
    Request { bytes: u64 },
}

impl Conversation {
    /// Starts a session in a new file. A file that is in the way belongs to a session that was archived
    /// or given up, so it is replaced.
    pub(super) fn fresh(path: &Path, system: &str) -> io::Result<Self> {
        let file = solid::open(OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE), path)?;
        let mut random = [0_u8; 4];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let id = format!("s-{:08x}", u32::from_le_bytes(random));
        let mut conversation = Self { id: id.clone(), file, bytes: system.len() as u64, cached: 0 };
        conversation.save(&Saved::Session { id })?;
        Ok(conversation)
    }

    /// Opens a saved session; `None` when the file holds another one or none.
    pub(super) fn resume(path: &Path, wanted: &str, system: &str) -> io::Result<Option<Self>> {
        let file = match solid::open(OpenOptions::new().read(true).append(true), path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut known, mut bytes, mut cached) = (None, system.len() as u64, 0);
        for line in BufReader::new(&file).lines() {
            match serde_json::from_str(&line?) {
                Ok(Saved::Session { id }) => known = Some(id),
                Ok(Saved::Message { text, .. }) => bytes += text.len() as u64,
                Ok(Saved::Request { bytes }) => cached = bytes,
                // A torn last line of a killed engine.
                Err(_) => {}
            }
        }
        Ok(known.filter(|id| id == wanted).map(|id| Self { id, file, bytes, cached }))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Adds a message.
    pub(super) fn add(&mut self, role: &str, text: &str) -> io::Result<()> {
        self.bytes += text.len() as u64;
        self.save(&Saved::Message { role: role.to_owned(), text: text.to_owned() })
    }

    /// Counts one model call.
    pub(super) fn request(&mut self, growth: f64) -> Usage {
        let (before, now) = (tokens(self.cached, growth), tokens(self.bytes, growth));
        self.cached = self.bytes;
        // A session that cannot be written is noticed at the next message.
        let _unsaved = self.save(&Saved::Request { bytes: self.bytes });
        Usage { input: 0, output: 0, cache_read: before, cache_write: now - before, cache_write_1h: 0 }
    }

    fn save(&mut self, saved: &Saved) -> io::Result<()> {
        let mut line = serde_json::to_vec(saved).expect("plain data");
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a count of tokens made up for a rehearsal, saturating at the ends"
)]
fn tokens(bytes: u64, growth: f64) -> u64 {
    (bytes as f64 / BYTES_PER_TOKEN * growth).round() as u64
}
