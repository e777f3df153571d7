//! Standard error of a child: always read, kept on disk, its end kept in memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::child::PIPE_BYTES;

/// What is kept in memory: enough for the last words of any CLI.
const TAIL_BYTES: usize = 64 * 1024;

/// What one read takes, a pipe's whole content on Linux.
const READ_BYTES: usize = 64 * 1024;

/// Files that may wait for the reading task to come round.
const FILES_QUEUE: usize = 16;

/// The task that reads a child's standard error. It ends with the stream, or when this is dropped.
#[derive(Debug)]
pub(super) struct Errors {
    task: JoinHandle<Kept>,
    enough: oneshot::Sender<()>,
    /// Other files to keep what comes in.
    files: mpsc::Sender<Option<File>>,
    kept: Option<Kept>,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The last 64 KiB.
    pub(super) tail: Vec<u8>,
    /// Why not all of it is on disk.
    pub(super) unsaved: Option<io::Error>,
    /// Whether it was read to its end.
    pub(super) whole: bool,
}

impl Errors {
    /// Starts reading.
    pub(super) fn read(stream: impl AsyncRead + Unpin + Send + 'static, file: Option<File>) -> Self {
        let (enough, stop) = oneshot::channel();
        let (files, next_file) = mpsc::channel(FILES_QUEUE);
        Self { task: tokio::spawn(keep(stream, file, stop, next_file)), enough, files, kept: None }
    }

    /// Keeps what comes from now on in another file, and forgets what came before.
    pub(super) fn keep(&self, file: Option<File>) {
        // A full queue is one of a reader that has ended.
        let _ended = self.files.try_send(file);
    }

    /// Waits for the end of the stream. Safe to cancel.
    pub(super) async fn ended(&mut self) {
        if self.kept.is_none() {
            self.kept = Some((&mut self.task).await.unwrap_or_default());
        }
    }

    /// Stops reading and hands over what there is.
    pub(super) async fn take(self) -> Kept {
        drop(self.enough);
        match self.kept {
            Some(kept) => kept,
            None => self.task.await.unwrap_or_default(),
        }
    }
}

async fn keep(
    mut stream: impl AsyncRead + Unpin,
    mut file: Option<File>,
    mut stop: oneshot::Receiver<()>,
    mut files: mpsc::Receiver<Option<File>>,
) -> Kept {
    let mut kept = Kept::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            _ = &mut stop => {
                kept.add_ready(&mut stream, &mut buffer, file.as_ref()).await;
                break;
            }
            Some(next) = files.recv() => {
                (file, kept) = (next, Kept::default());
                continue;
            }
            read = stream.read(&mut buffer) => read,
        };
        let Ok(bytes @ 1..) = read else {
            kept.whole = true;
            break;
        };
        kept.add(&buffer[..bytes], file.as_ref());
    }
    let surplus = kept.tail.len().saturating_sub(TAIL_BYTES);
    kept.tail.drain(..surplus);
    kept
}

impl Kept {
    /// Takes what lies in the pipe already, and no more than one holds.
    async fn add_ready(&mut self, stream: &mut (impl AsyncRead + Unpin), buffer: &mut [u8], file: Option<&File>) {
        let mut left = PIPE_BYTES;
        while left > 0 {
            match timeout(Duration::ZERO, stream.read(buffer)).await {
                Ok(Ok(bytes @ 1..)) => {
                    self.add(&buffer[..bytes], file);
                    left = left.saturating_sub(bytes);
                }
                Ok(Ok(0) | Err(_)) => {
                    self.whole = true;
                    return;
                }
                Err(_) => return,
            }
        }
    }

    fn add(&mut self, bytes: &[u8], file: Option<&File>) {
        if let (Some(mut file), None) = (file, &self.unsaved) {
            self.unsaved = file.write_all(bytes).err();
        }
        // Trimmed only at twice its size, so that each byte is moved once.
        if self.tail.len() + bytes.len() > 2 * TAIL_BYTES {
            let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(bytes);
    }
}
