//! Prompt templates (SPEC 3.5).
//!
//! Values are put in as they are and never rendered again, so a prompt may speak of `{{ braces }}`. Names that
//! do not exist are found before a run. A system prompt knows only what holds for a whole run.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use crate::config::did_you_mean;

/// What a user template can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UserValues<'a> {
    /// What the run was asked for.
    pub prompt: &'a str,
    /// The trimmed envelope of an earlier phase, or the failures of a check; empty when nothing went before.
    pub previous_envelope: &'a str,
    /// The folder in which agents exchange files.
    pub context_handoff_dir: &'a str,
    /// The run.
    pub run_id: &'a str,
}

/// What a system template can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SystemValues<'a> {
    /// What the run was asked for.
    pub prompt: &'a str,
    /// The folder in which agents exchange files.
    pub context_handoff_dir: &'a str,
    /// The run.
    pub run_id: &'a str,
}

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot render the {kind} prompt: {reason}")]
pub struct PromptError {
    kind: &'static str,
    reason: String,
}

/// Which of the two prompts of an agent a template is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    System,
    User,
}

impl Kind {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::System => &["prompt", "context_handoff_dir", "run_id"],
            Self::User => &["prompt", "previous_envelope", "context_handoff_dir", "run_id"],
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// Renders a user template.
///
/// # Errors
///
/// The template is none, or uses what is not there; [`super::check`] finds both before a run.
pub fn render_user(template: &str, values: UserValues<'_>) -> Result<String, PromptError> {
    render(template, values, Kind::User)
}

/// Renders a system template. One without variables comes out byte for byte.
///
/// # Errors
///
/// The template is none, or uses what is not there; [`super::check`] finds both before a run.
pub fn render_system(template: &str, values: SystemValues<'_>) -> Result<String, PromptError> {
    render(template, values, Kind::System)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the usual delimiters differ from one another"));
    environment
}

fn render(template: &str, values: impl Serialize, kind: Kind) -> Result<String, PromptError> {
    let fail = |error: minijinja::Error| PromptError { kind: kind.as_str(), reason: reason(&error) };
    environment().render_str(template, Serde(values)).map_err(fail)
}

/// A flaw of a template and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Checks a template of a kind; all unknown names at once.
pub(crate) fn check(template: &str, kind: Kind) -> Vec<Flaw> {
    let environment = environment();
    let flaw = |error: &minijinja::Error| Flaw { line: error.line().unwrap_or(1), message: reason(error) };
    let compiled = match environment.template_from_str(template) {
        Ok(compiled) => compiled,
        Err(error) => return vec![flaw(&error)],
    };
    let names = kind.names();
    let is_known =
        |name: &String| names.contains(&name.as_str()) || environment.globals().any(|(global, _)| global == name);
    let mut unknown: Vec<_> = compiled.undeclared_variables(false).into_iter().filter(|name| !is_known(name)).collect();
    unknown.sort();
    let flaws = unknown.into_iter().map(|name| {
        let near = did_you_mean(&name, names.iter().copied());
        let message = format!("a {} template has no `{name}`; it has {}{near}", kind.as_str(), names.join(", "));
        Flaw { line: line_of(template, &name), message }
    });
    let mut flaws: Vec<_> = flaws.collect();
    if flaws.is_empty() {
        // Filters and the like are only looked up when they are used.
        let values: std::collections::BTreeMap<_, _> = names.iter().map(|name| (*name, "x")).collect();
        flaws.extend(compiled.render(Serde(values)).err().map(|error| flaw(&error)));
    }
    flaws
}

/// The first line with `name` as a word inside of a tag, from 1.
fn line_of(template: &str, name: &str) -> usize {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut at = 0;
    while let Some(found) = template[at..].find(name).map(|found| at + found) {
        let (before, after) = (&template[..found], &template[found + name.len()..]);
        let is_whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let opened = before.rfind("{{").max(before.rfind("{%"));
        let closed = before.rfind("}}").max(before.rfind("%}"));
        if is_whole && opened > closed {
            return 1 + before.matches('\n').count();
        }
        at = found + name.len();
    }
    1
}

fn reason(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: UserValues<'_> =
        UserValues { prompt: "{{ run_id }} & <b>", previous_envelope: "", context_handoff_dir: "h", run_id: "r" };

    #[test]
    fn r3_5_values_are_put_in_as_they_are_and_never_rendered_again() {
        let text = render_user("{{ prompt }} in {{ context_handoff_dir }} of {{ run_id }}\n", USER).unwrap();
        assert_eq!(text, "{{ run_id }} & <b> in h of r\n");
    }

    #[test]
    fn r3_5_a_template_without_variables_comes_out_byte_for_byte() {
        let values = SystemValues { prompt: "p", context_handoff_dir: "h", run_id: "r" };
        let text = "a\r\n\n  {\"status\": \"success\"}\n\n";
        assert_eq!(render_system(text, values).unwrap(), text);
    }

    #[test]
    fn r3_5_a_system_template_knows_only_what_holds_for_a_whole_run() {
        let flaws = check("a\nb {{ previous_envelope }}\n{{ prompt }}", Kind::System);
        assert_eq!(flaws.len(), 1);
        assert_eq!(flaws[0].line, 2);
        assert!(flaws[0].message.contains("prompt, context_handoff_dir, run_id"), "{}", flaws[0].message);
        let values = SystemValues { prompt: "p", context_handoff_dir: "h", run_id: "r" };
        assert!(render_system("{{ previous_envelope }}", values).is_err());
    }

    #[test]
    fn all_unknown_names_of_a_template_are_found_with_their_lines() {
        let flaws = check("promt\n{{ prompt }}\n{% if promt %}x{% endif %}\n{{ other.thing }}", Kind::User);
        let lines: Vec<_> = flaws.iter().map(|flaw| flaw.line).collect();
        assert_eq!(lines, [4, 3]);
        assert!(flaws[1].message.contains("did you mean `prompt`?"), "{}", flaws[1].message);
    }

    #[test]
    fn a_template_that_cannot_be_read_or_uses_an_unknown_filter_has_a_line() {
        assert_eq!(check("a\n{{ prompt", Kind::User)[0].line, 2);
        assert_eq!(check("a\n\n{{ prompt | nofilter }}", Kind::User)[0].line, 3);
        assert_eq!(check("{% set x = 1 %}{{ x }}{% for i in range(2) %}{{ i }}{% endfor %}", Kind::User), []);
    }
}
