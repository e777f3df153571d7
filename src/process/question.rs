//! A short command that is asked something and is gone afterwards.

use super::{Child, CommandSpec, Exit, Finish, Keep, Limits, SpawnError};
use crate::lines::RawLine;

/// The most output that is listened to, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// How it ended.
    pub exit: Exit,
    /// The first 64 KiB of its output, then the end of its standard error.
    pub text: String,
}

/// Runs a command until it has said all, or until `gives_up` brings the reason not to wait for it any more: then it is
/// killed.
///
/// # Errors
///
/// As [`Child::spawn`].
pub async fn ask<T>(spec: &CommandSpec, gives_up: impl Future<Output = T>) -> Result<Result<Said, T>, SpawnError> {
    let mut child = Child::spawn(spec, Keep::default(), Limits::default())?;
    child.close_stdin();
    let mut heard = Vec::new();
    let given_up = {
        let listen = async {
            while let Some(line) = child.line().await {
                if let RawLine::Line(line) = line
                    && heard.len() < MAX_BYTES
                {
                    heard.extend_from_slice(line);
                    heard.push(b'\n');
                }
            }
        };
        tokio::select! {
            biased;
            () = listen => None,
            reason = gives_up => Some(reason),
        }
    };
    let how = if given_up.is_some() { Finish::KillNow } else { Finish::Closing };
    let ended = child.finish(how, &mut |_| {}).await;
    heard.extend_from_slice(&ended.stderr_tail);
    let said = Said { exit: ended.exit, text: String::from_utf8_lossy(&heard).into_owned() };
    Ok(given_up.map_or(Ok(said), Err))
}
