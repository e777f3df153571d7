//! The files of a run's agents by page: prompts as they were sent, transcripts, standard error, digests.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};

use axum::response::Response;
use serde::Deserialize;

use super::library::{Library, Missing};
use super::page::{Page, Part};
use crate::ids::RunId;
use crate::store::{RunDir, StoreError};
use crate::view::markup::{escape, escape_block};
use crate::view::numbers::bytes;

/// Bytes on one page: cut at the last line end in it, if there is one.
const A_PAGE: u64 = 64 * 1024;

/// What of an agent's directory is shown; session files are the engine's own.
const SHOWN: [&str; 5] = [".user.md", ".transcript.jsonl", ".stderr", ".digest.md", "system.md"];

/// What the address asks for.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    /// Where the page begins, in bytes.
    from: u64,
}

/// A file of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) agent: String,
    pub(super) file: String,
}

/// Links to all files of a run.
pub(super) fn list(root: &str, run: &RunId, dir: &RunDir) -> Result<String, StoreError> {
    let places = places(dir)?;
    let mut list = format!("<details id=\"files\"><summary>{} files</summary>\n<ul>\n", places.len());
    for Place { agent, file } in places {
        let (agent, file) = (escape(&agent), escape(&file));
        list += &format!(
            "<li><a href=\"{}/run/{}/file/{agent}/{file}\">{agent}/{file}</a></li>\n",
            escape(root),
            escape(run.as_str())
        );
    }
    Ok(list + "</ul></details>\n")
}

/// One page of a file.
pub(super) fn page(
    library: &Library,
    root: &str,
    run: &RunId,
    place: &Place,
    asked: Asked,
) -> Result<Response, Missing> {
    let dir = library.dir(run)?;
    // A name from an address is looked up, never made a path of.
    if !places(&dir)?.contains(place) {
        return Err(Missing::NotFound);
    }
    let path = dir.path().join("agents").join(&place.agent).join(&place.file);
    let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let from = asked.from.min(length);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut shown = Vec::new();
    file.take(A_PAGE).read_to_end(&mut shown).map_err(failed)?;
    let mut next = from + shown.len() as u64;
    if next < length
        && let Some(newline) = memchr::memrchr(b'\n', &shown)
    {
        shown.truncate(newline + 1);
        next = from + shown.len() as u64;
    }
    let name = format!("{}/{}", place.agent, place.file);
    let mut body = format!("<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n", escape(&name), bytes(length));
    body += &format!("<pre>{}</pre>\n<p>", escape_block(&String::from_utf8_lossy(&shown)));
    if from > 0 {
        body += "<a href=\"?from=0\">first page</a> ";
    }
    if next < length {
        body += &format!("<a href=\"?from={next}\">next page</a>");
    }
    body += "</p>\n";
    let title = format!("fia {run}: {name}");
    Ok(Page { root, title: &title, run: Some(run), live: None }.response(Part::default(), body))
}

/// All files that are shown, by name. Links and folders are none.
fn places(dir: &RunDir) -> Result<Vec<Place>, StoreError> {
    let agents = dir.path().join("agents");
    let failed = |source| StoreError::Io { action: "list", path: agents.clone(), source };
    let mut places = Vec::new();
    let entries = match fs::read_dir(&agents) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(places),
        Err(error) => return Err(failed(error)),
    };
    for agent in entries {
        let agent = agent.map_err(failed)?;
        if !agent.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        for file in fs::read_dir(agent.path()).map_err(failed)? {
            let file = file.map_err(failed)?;
            let (Ok(agent), Ok(name)) = (agent.file_name().into_string(), file.file_name().into_string()) else {
                continue;
            };
            if file.file_type().map_err(failed)?.is_file() && SHOWN.iter().any(|end| name.ends_with(end)) {
                places.push(Place { agent, file: name });
            }
        }
    }
    places.sort();
    Ok(places)
}
