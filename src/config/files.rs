//! The files that a config names: prompts, schemas, the script of a rehearsal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::document::Document;
use super::layer::Layers;
use super::pointer::below;
use super::problem::{BUILT_IN, Problem};
use super::{Prompts, Template, builtin};

/// Where the script of the scripted engine is named.
const SCRIPT: &str = "/engines/scripted/script";

/// Reads what a config names, relative to its folder, and remembers what was read.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    folder: &'a Path,
    top: &'a Path,
    read: Vec<PathBuf>,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(config: Option<&'a Path>, top: &'a Path) -> Self {
        let folder = config.and_then(Path::parent).unwrap_or(top);
        Self { folder, top, read: config.map(Path::to_owned).into_iter().collect(), problems: Vec::new() }
    }

    /// The prompts of every agent in force.
    pub(crate) fn prompts(&mut self, document: &Document, layers: &Layers) -> BTreeMap<String, Prompts> {
        let agents = layers.get("/agents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut prompts = BTreeMap::new();
        for (index, agent) in agents.iter().enumerate() {
            let name = agent["name"].as_str().unwrap_or_default();
            let shipped = builtin::prompts(name);
            let mut template = |key: &str, text: &str| {
                let at = format!("/agents/{index}/prompt_engineering/{key}");
                self.template(document, layers, &at).unwrap_or_else(|| Template {
                    text: text.to_owned(),
                    file: format!("{}:{}/{key}.md", BUILT_IN, shipped.role),
                })
            };
            let (system, user) = (template("system", shipped.system), template("user", shipped.user));
            prompts.insert(name.to_owned(), Prompts { system, user });
        }
        prompts
    }

    fn template(&mut self, document: &Document, layers: &Layers, at: &str) -> Option<Template> {
        let written = layers.get(at)?.as_str()?;
        let text = self.text(document, at, written)?;
        if text.trim().is_empty() {
            self.problems.push(document.problem(at, format!("`{written}` is empty")));
        }
        Some(Template { text, file: self.shown(written) })
    }

    /// The schema files that steps of the file's workflows name as their output.
    pub(crate) fn schemas(&mut self, document: &Document) -> IndexMap<String, Value> {
        let mut schemas = IndexMap::new();
        for (name, workflow) in document.value["workflows"].as_object().into_iter().flatten() {
            let steps = below(&below("/workflows", name), "steps");
            self.schemas_of(document, &workflow["steps"], &steps, &mut schemas);
        }
        schemas
    }

    fn schemas_of(&mut self, document: &Document, steps: &Value, at: &str, schemas: &mut IndexMap<String, Value>) {
        for (index, step) in steps.as_array().into_iter().flatten().enumerate() {
            let at = format!("{at}/{index}");
            self.schemas_of(document, &step["parallel"], &below(&at, "parallel"), schemas);
            let Some(written) = step["output"].as_str().filter(|output| is_schema_file(output)) else { continue };
            if schemas.contains_key(written) {
                continue;
            }
            let at = below(&at, "output");
            let Some(text) = self.text(document, &at, written) else { continue };
            match schema(&text) {
                Ok(schema) => {
                    schemas.insert(written.to_owned(), schema);
                }
                Err(message) => self.problems.push(document.problem(&at, format!("`{written}`: {message}"))),
            }
        }
    }

    /// Makes the script's path one from the top of the work tree, where engines start.
    pub(crate) fn script(&mut self, layers: &mut Layers) {
        let Some(written) = layers.get(SCRIPT).and_then(Value::as_str) else { return };
        let path = self.folder.join(written);
        let path = path.strip_prefix(self.top).unwrap_or(&path).display().to_string();
        layers.replace(SCRIPT, json!(path));
    }

    /// The files that were read and are inside of the work tree, relative to its top, in order of reading.
    pub(crate) fn judge_files(&self) -> Vec<String> {
        let top = self.top.canonicalize().unwrap_or_else(|_| self.top.to_owned());
        let mut files: Vec<String> = Vec::new();
        for path in &self.read {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            // Both names count where a link leads to the file.
            for (path, top) in [(path.as_path(), self.top), (real.as_path(), top.as_path())] {
                let inside = path.strip_prefix(top).ok().and_then(Path::to_str).map(str::to_owned);
                files.extend(inside.filter(|file| !files.contains(file)));
            }
        }
        files
    }

    fn text(&mut self, document: &Document, at: &str, written: &str) -> Option<String> {
        let path = self.folder.join(written);
        match read_text(&path) {
            Ok(text) => {
                self.read.push(path);
                Some(text)
            }
            Err(message) => {
                self.problems.push(document.problem(at, format!("`{written}`: {message}")));
                None
            }
        }
    }

    fn shown(&self, written: &str) -> String {
        let path = self.folder.join(written);
        path.strip_prefix(self.top).unwrap_or(&path).display().to_string()
    }
}

/// The largest file that is read, in bytes: far above what anybody writes by hand.
const MAX_BYTES: u64 = 1024 * 1024;

/// The text of a file, or why there is none. What is no regular file may have no end.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read it: {error}");
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].split(|byte| *byte == b'\n').count();
        format!("it is not UTF-8: byte {} of it, in line {line}", good + 1)
    })
}

/// Whether an output is a schema file rather than an envelope type.
pub(crate) fn is_schema_file(output: &str) -> bool {
    Path::new(output).extension().is_some_and(|extension| extension == "json")
}

fn schema(text: &str) -> Result<Value, String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if !schema.is_object() {
        return Err("a JSON Schema is an object".to_owned());
    }
    jsonschema::validator_for(&schema).map_err(|error| format!("it is no JSON Schema: {error}"))?;
    Ok(schema)
}
