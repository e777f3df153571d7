//! The layers of the source tree, checked: use goes down only, edges do not know each other, the core is pure, files
//! stay short and say what they are for.
//!
//! The check reads `crate::` paths in code, not in comments. A new module in `src/` gets its place in [`LAYERS`].

use std::fmt::Write as _;
use std::path::Path;

/// The modules of the crate, highest layer first. A module may use those of lower layers, and those of its own layer
/// unless these are edges. Modules that are not there yet have their place already.
const LAYERS: [Layer; 8] = [
    Layer { name: "the command line", modules: &["cli"] },
    Layer { name: "the run loop", modules: &["run"] },
    Layer { name: EDGES, modules: &["engine", "process", "store", "tree", "gateway", "view", "provider", "rehearsal"] },
    Layer { name: "simulation", modules: &["simulate"] },
    Layer { name: CORE, modules: &["state", "session", "channel", "prune", "economy", "envelope", "plan"] },
    Layer { name: "what the user wrote", modules: &["config", "workflow"] },
    Layer { name: "the shared vocabulary", modules: &["event", "ids"] },
    Layer { name: "the ground", modules: &["host", "fault", "mask", "lines", "solid", "visible"] },
];

const EDGES: &str = "the edges";
const CORE: &str = "the pure core";

/// Which edge may use which.
const AGREED_EDGES: [(&str, &str); 3] = [
    // An adapter makes a CommandSpec and reads an Exit; spawning stays with `process`.
    ("engine", "process"),
    // A view reads what the store reads.
    ("view", "store"),
    // The acting side of the scripted engine prints the lines that its adapter decodes.
    ("rehearsal", "engine"),
];

/// What a pure module cannot need: I/O, a clock, randomness, async, logging.
const IMPURE: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "Utc::now",
    "getrandom",
    "tokio::",
    "async fn",
    "tracing::",
];

/// The most lines a file may have.
const MAX_LINES: usize = 500;

struct Layer {
    name: &'static str,
    modules: &'static [&'static str],
}

/// A source file: its path below `src/`, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The module of the crate that it belongs to; `None` for the two roots.
    fn module(&self) -> Option<&str> {
        let first = self.path.split('/').next()?;
        let module = first.strip_suffix(".rs").unwrap_or(first);
        (!["lib", "main"].contains(&module)).then_some(module)
    }

    /// Its lines without comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| {
            let code = if line.trim_start().starts_with("//") { "" } else { line };
            (index + 1, code.split(" // ").next().unwrap_or_default())
        })
    }

    /// The modules that it names by a `crate::` path, with their lines.
    fn uses(&self) -> Vec<(usize, String)> {
        let code: Vec<(usize, &str)> = self.code().collect();
        let mut uses = Vec::new();
        for (index, (line, text)) in code.iter().enumerate() {
            for (at, path) in text.match_indices("crate::") {
                // `$crate::` is a macro's, `my_crate::` another name.
                if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                    continue;
                }
                let rest = &text[at + path.len()..];
                if rest.starts_with('{') {
                    let group: Vec<&str> = code[index..].iter().skip(1).map(|(_, text)| *text).collect();
                    let group = format!("{rest}\n{}", group.join("\n"));
                    uses.extend(first_names(&group).into_iter().map(|name| (*line, name)));
                } else {
                    uses.push((*line, identifier(rest)));
                }
            }
        }
        // A path into the root itself, such as a macro, names no module.
        uses.retain(|(_, name)| !name.is_empty());
        uses
    }
}

/// The first names of a braced list of paths: `{a, b::{c, d}}` has a and b.
fn first_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut at_start = false;
    for (index, c) in group.char_indices() {
        match c {
            '{' => {
                depth += 1;
                at_start = depth == 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            ',' => at_start = depth == 1,
            c if c.is_whitespace() => {}
            _ if at_start => {
                names.push(identifier(&group[index..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The place of a module in the layers, 0 the highest.
fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.modules.contains(&module))
}

/// All that is wrong, each with what to do about it.
fn problems(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources {
        problems.extend(shape_problems(source));
        let Some(module) = source.module() else { continue };
        let Some(layer) = layer_of(module) else {
            problems.push(format!(
                "src/{}: `{module}` has no layer; give it its place in LAYERS of test/architecture.rs and in the docs of \
                 src/lib.rs, or move it into a module that has one",
                source.path
            ));
            continue;
        };
        for (line, used) in source.uses() {
            let place = format!("src/{}:{line}: `{module}` ({})", source.path, LAYERS[layer].name);
            problems.extend(use_problem(module, layer, &used).map(|problem| format!("{place} {problem}")));
        }
        if LAYERS[layer].name == CORE {
            problems.extend(purity_problems(source));
        }
    }
    problems
}

/// What is wrong with a module of a layer using another module.
fn use_problem(module: &str, layer: usize, used: &str) -> Option<String> {
    // What is no module is an item that the root exports; its module is checked where it is defined.
    let used_layer = layer_of(used)?;
    if used == module || used_layer > layer {
        None
    } else if used_layer < layer {
        Some(format!(
            "uses `{used}` ({}), which is above it; take what is needed as a value, or move it down",
            LAYERS[used_layer].name
        ))
    } else if LAYERS[layer].name == EDGES && !AGREED_EDGES.contains(&(module, used)) {
        Some(format!("uses `{used}`, an edge like itself; let `run` join the two, or move what both need below them"))
    } else {
        None
    }
}

fn purity_problems(source: &Source) -> Vec<String> {
    if is_test(source) {
        return Vec::new();
    }
    let code = source.code().take_while(|(_, text)| text.trim() != "#[cfg(test)]");
    code.flat_map(|(line, text)| {
        IMPURE.iter().filter(move |word| text.contains(**word)).map(move |word| {
            format!("src/{}:{line}: `{word}` in the pure core; take what it gives as a value", source.path)
        })
    })
    .collect()
}

/// What is wrong with a file itself.
fn shape_problems(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = source.text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!(
            "src/{}: {lines} lines, at most {MAX_LINES}; split it by noun, and put long tests into a `tests.rs`",
            source.path
        ));
    }
    if !source.text.starts_with("//!") && !is_test(source) {
        problems.push(format!(
            "src/{}: no module docs; begin it with `//!` and say what it is for, promises and refuses",
            source.path
        ));
    }
    if source.path.ends_with("mod.rs") {
        problems.push(format!("src/{}: name it after its folder, beside the folder", source.path));
    }
    problems
}

/// Whether a file holds tests alone.
fn is_test(source: &Source) -> bool {
    source.path.ends_with("/tests.rs")
}

fn sources(folder: &Path) -> Vec<Source> {
    let files = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter();
    files
        .map(|file| file.expect("a readable folder"))
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "rs"))
        .map(|file| Source {
            path: file.path().strip_prefix(folder).expect("a path below it").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(file.path()).expect("UTF-8"),
        })
        .collect()
}

#[test]
fn the_source_tree_keeps_its_layers() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.iter().any(|source| source.path == "lib.rs"), "no sources found");
    let list = problems(&sources).into_iter().fold(String::new(), |mut list, problem| {
        let _ = writeln!(list, "- {problem}");
        list
    });
    assert!(list.is_empty(), "the layers of the source tree are broken:\n{list}");
}

fn made_up(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: format!("//! Docs.\n{text}") }
}

/// The part of each problem that names it.
fn problems_of(sources: &[Source]) -> Vec<String> {
    problems(sources).iter().map(|problem| problem.split([';', ',']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn upward_uses_are_found_in_every_spelling() {
    let text = "use crate::run::Run;\npub(crate) use crate::{\n    ids::{RunId, Seq}, cli,\n    store::RunDir,\n};\n\
                fn f() { crate::view::draw() }\n/// See [`crate::cli`].\n// crate::cli\nlet x = 1; // crate::cli\n\
                $crate::cli; my_crate::cli;";
    assert_eq!(
        problems_of(&[made_up("state/next.rs", text)]),
        [
            "src/state/next.rs:2: `state` (the pure core) uses `run` (the run loop)",
            "src/state/next.rs:3: `state` (the pure core) uses `cli` (the command line)",
            "src/state/next.rs:3: `state` (the pure core) uses `store` (the edges)",
            "src/state/next.rs:7: `state` (the pure core) uses `view` (the edges)",
        ]
    );
}

#[test]
fn edges_use_each_other_only_as_agreed() {
    let sources = [
        made_up("engine/claude.rs", "use crate::process::Exit; use crate::engine::Turn;"),
        made_up("view.rs", "use crate::store::Reader;"),
        made_up("store.rs", "use crate::view::Screen;"),
        made_up("run.rs", "use crate::{engine, process, store, tree, plan, fault};"),
    ];
    assert_eq!(problems_of(&sources), ["src/store.rs:2: `store` (the edges) uses `view`"]);
}

#[test]
fn files_are_short_documented_and_of_a_known_module() {
    let long = "x\n".repeat(MAX_LINES);
    let sources = [
        made_up("plan.rs", &long),
        made_up("plan/tests.rs", &long),
        Source { path: "plan/when.rs".to_owned(), text: "use std::fmt;\n".to_owned() },
        made_up("store/mod.rs", ""),
        made_up("extras.rs", ""),
    ];
    assert_eq!(
        problems_of(&sources),
        [
            "src/plan.rs: 501 lines",
            "src/plan/tests.rs: 501 lines",
            "src/plan/when.rs: no module docs",
            "src/store/mod.rs: name it after its folder",
            "src/extras.rs: `extras` has no layer",
        ]
    );
}

#[test]
fn the_core_does_nothing_but_think() {
    let text = "let now = Instant::now();\n// tokio::spawn\n#[cfg(test)]\nmod tests { use std::fs; }";
    let sources = [made_up("session.rs", text), made_up("session/tests.rs", "use std::fs;"), made_up("store.rs", text)];
    assert_eq!(problems_of(&sources), ["src/session.rs:2: `Instant::now` in the pure core"]);
}
