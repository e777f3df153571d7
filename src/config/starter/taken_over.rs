//! A configuration of the folder `imp/` moved to the top of the repository.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::config::document::Document;
use crate::config::files::is_schema_file;
use crate::config::files::read_text;
use crate::config::load::roster_problems;
use crate::config::pointer::below;
use crate::config::problem::{ConfigError, Problem};
use crate::config::table::FILE;
use crate::config::yaml::Mark;

/// The text of `fia.config.yaml` made of `path`, a configuration in a folder below `top`: the same, with the paths that
/// were relative to its folder relative to `top`. Comments and layout stay.
///
/// # Errors
///
/// Everything that is wrong with the file, and a path that is written in a way that cannot be replaced where it
/// stands, such as one with escapes.
pub fn taken_over(path: &Path, top: &Path) -> Result<String, ConfigError> {
    let shown = path.strip_prefix(top).unwrap_or(path);
    let text = read_text(path).map_err(|message| Problem::with(shown.display().to_string(), message))?;
    let (document, mut findings) = Document::read(&shown.display().to_string(), text, FILE);
    findings.problems.extend(roster_problems(&document));
    ConfigError::unless_empty(findings.problems)?;
    let folder = shown.parent().unwrap_or(Path::new(""));
    let mut lines: Vec<String> = document.text.trim_start_matches('\u{feff}').split('\n').map(str::to_owned).collect();
    let mut problems = Vec::new();
    for (mark, pointer) in places(&document).into_iter().rev() {
        let written = document.value.pointer(&pointer).and_then(Value::as_str).unwrap_or_default();
        let moved = moved(folder, written);
        if !lines.get_mut(mark.line - 1).is_some_and(|line| replace(line, mark.column, written, &moved)) {
            problems.push(document.problem(&pointer, format!("write `{moved}` here; it cannot be replaced by itself")));
        }
    }
    ConfigError::unless_empty(problems)?;
    Ok(format!("# Taken over from {} by `fia init`.\n{}", shown.display(), lines.join("\n")))
}

/// Where paths stand that are relative to the file; an alias stands where its anchor does.
fn places(document: &Document) -> BTreeMap<Mark, String> {
    let mut pointers = vec!["/engines/scripted/script".to_owned()];
    let agents = document.value["agents"].as_array().map_or(0, Vec::len);
    for index in 0..agents {
        pointers.extend(["system", "user"].map(|key| format!("/agents/{index}/prompt_engineering/{key}")));
    }
    for (name, workflow) in document.value["workflows"].as_object().into_iter().flatten() {
        outputs(&workflow["steps"], &below(&below("/workflows", name), "steps"), &mut pointers);
    }
    let is_written = |pointer: &String| document.value.pointer(pointer).is_some();
    let place = |pointer: String| Some((document.mark(&pointer)?, pointer));
    pointers.into_iter().filter(is_written).filter_map(place).collect()
}

/// The outputs of steps that are schema files.
fn outputs(steps: &Value, at: &str, pointers: &mut Vec<String>) {
    for (index, step) in steps.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}/{index}");
        if step["output"].as_str().is_some_and(is_schema_file) {
            pointers.push(below(&at, "output"));
        }
        outputs(&step["parallel"], &below(&at, "parallel"), pointers);
    }
}

/// A path relative to `folder` as one relative to where `folder` is; an absolute one stays.
fn moved(folder: &Path, written: &str) -> String {
    let mut path = PathBuf::new();
    for component in folder.join(written).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if path.components().next_back().is_some_and(|last| last != Component::ParentDir) => {
                path.pop();
            }
            Component::ParentDir | Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                path.push(component);
            }
        }
    }
    path.display().to_string()
}

/// Replaces a scalar that begins at this column, counted from 1; false when it is not written there as it reads.
fn replace(line: &mut String, column: usize, written: &str, moved: &str) -> bool {
    let Some((start, first)) = line.char_indices().nth(column - 1) else { return false };
    let start = if first == '"' || first == '\'' { start + 1 } else { start };
    let is_there = line[start..].starts_with(written);
    if is_there {
        line.replace_range(start..start + written.len(), moved);
    }
    is_there
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    fn over(text: &str) -> Result<String, ConfigError> {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("imp")).unwrap();
        let path = top.path().join("imp/fia.config.yaml");
        fs::write(&path, text).unwrap();
        taken_over(&path, top.path())
    }

    #[test]
    fn paths_are_moved_and_everything_else_stays() {
        let before = "\u{feff}# Ours.\r
defaults: { coding_agent: scripted }   # a comment\r
agents:
  - name: builder
    prompt_engineering: { system: &own \"p/ä.md\", user: ./p/user.md }  # 'p/user.md'
  - { name: planner, prompt_engineering: { system: *own, user: ../shared/user.md } }
  - { name: scout, prompt_engineering: { system: /abs/system.md } }
engines: { scripted: { script: 'r.yaml' } }
workflows:
  own:
    steps:
      - { name: build, agent: builder, output: build }
      - { name: look, parallel: [{ name: a, agent: scout, output: s/risk.json }] }
";
        let after = "# Taken over from imp/fia.config.yaml by `fia init`.
# Ours.\r
defaults: { coding_agent: scripted }   # a comment\r
agents:
  - name: builder
    prompt_engineering: { system: &own \"imp/p/ä.md\", user: imp/p/user.md }  # 'p/user.md'
  - { name: planner, prompt_engineering: { system: *own, user: shared/user.md } }
  - { name: scout, prompt_engineering: { system: /abs/system.md } }
engines: { scripted: { script: 'imp/r.yaml' } }
workflows:
  own:
    steps:
      - { name: build, agent: builder, output: build }
      - { name: look, parallel: [{ name: a, agent: scout, output: imp/s/risk.json }] }
";
        assert_eq!(over(before).unwrap(), after);
    }

    #[test]
    fn a_path_that_is_not_written_as_it_reads_is_named() {
        let text = "agents:\n  - name: builder\n    prompt_engineering: { system: \"p\\x2fs.md\" }\n";
        let error = over(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "1 problem in imp/fia.config.yaml\n  3:35 agents[0].prompt_engineering.system: write `imp/p/s.md` here; it \
             cannot be replaced by itself"
        );
    }

    #[test]
    fn a_file_with_mistakes_is_not_taken_over() {
        let error = over("defaults: { sesion: resident }\n").unwrap_err().to_string();
        assert!(error.contains("1:13") && error.contains("did you mean `session`?"), "{error}");
    }
}
