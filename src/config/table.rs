//! Every key of the file, once: what it holds and what it is for.
//!
//! The checker walks these tables, the JSON Schema is printed from them, and the documentation is tested
//! against them, so that a key cannot be known to one and not to the others.

use serde_json::Value;

/// A key of a mapping.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    /// What it is for, one line.
    pub(crate) about: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Any text but the empty one; numbers and words such as `no` are taken as written.
    Text,
    /// A folder that is fia's alone.
    DataDir,
    /// Text that also names files of a run: letters, digits, `_`, `-`.
    Name,
    /// `[a-z][a-z0-9_]*`.
    StepName,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An engine by name or alias.
    Engine,
    /// true or false.
    Switch,
    /// A number that degrades to its default with a warning.
    Knob(Knob),
    /// A whole number from 0.
    Whole,
    /// A number from 0.
    Amount,
    /// A number that is brought into its range with a warning.
    Clamped(Range),
    /// A time to live: a number with ms, s, m, h or d, or bare minutes.
    Ttl,
    /// How long an approval is waited for: a number with s, m, h or d, or `never`.
    Wait,
    /// The address of a webhook: https, or http on this machine.
    WebAddress,
    /// Where one may write: a list, which null, an empty or a tagged entry must not widen.
    Patterns,
    /// A list of texts.
    Texts,
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// One text, or a list of at least one.
    OneOrMore,
    /// The value of a variable, or null to unset it.
    Variable,
    /// A mapping of these keys; nothing after the colon is an empty one.
    Section(&'static [Field]),
    /// The same, in which keys may also be spelt in camelCase.
    CamelSection(&'static [Field]),
    /// A mapping from free names.
    Map(&'static Shape),
    /// A mapping from names of the form of [`Shape::Name`].
    Named(&'static Shape),
    /// A mapping from engines.
    ByEngine(&'static Shape),
    /// A list.
    List(&'static Shape),
}

/// A knob of SPEC 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Knob {
    pub(crate) unit: Unit,
    pub(crate) default: u64,
}

impl Knob {
    /// The default as JSON.
    pub(crate) fn value(self) -> Value {
        match u32::try_from(self.default) {
            Ok(default) if self.unit.has_fraction() => Value::from(f64::from(default)),
            _ => Value::from(self.default),
        }
    }
}

/// What a knob counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Tokens,
    Fixes,
    Repairs,
    Paths,
    Minutes,
    Dollars,
}

impl Unit {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Fixes => "fixes",
            Self::Repairs => "repairs",
            Self::Paths => "paths",
            Self::Minutes => "minutes",
            Self::Dollars => "dollars",
        }
    }

    /// Whether half of one makes sense.
    pub(crate) fn has_fraction(self) -> bool {
        match self {
            Self::Minutes | Self::Dollars => true,
            Self::Tokens | Self::Fixes | Self::Repairs | Self::Paths => false,
        }
    }
}

/// The range of a clamped number, from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Range {
    /// 0 to 1.
    Ratio,
    /// Whole numbers.
    Count,
}

const fn field(key: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { key, about, shape, required: false }
}

const fn required(key: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { key, about, shape, required: true }
}

const fn knob(unit: Unit, default: u64) -> Shape {
    Shape::Knob(Knob { unit, default })
}

/// Tokens of live context at which an agent is given a fresh session, unless configured.
pub(crate) const DEFAULT_CEILING: u64 = 180_000;

/// claude's words for how hard to think.
pub(crate) const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
/// pi's words for the same.
pub(crate) const THINKING: &[&str] = &["off", "minimal", "low", "medium", "high"];
/// What an agent may be allowed to use.
pub(crate) const TOOLS: &[&str] = &["read", "grep", "bash", "edit", "write"];
/// More fallbacks than these are a mistake.
pub(crate) const MAX_FALLBACKS: usize = 5;

const CEILING: Shape = knob(Unit::Tokens, DEFAULT_CEILING);
const ROTATION: Shape = Shape::Choice(&["ceiling", "break_even"]);

/// Keys of the wider system that are accepted in every section, whatever they hold, and not acted on.
pub(crate) const NOT_SERVED: &[&str] = &["qa", "sdlc", "color", "purpose", "observability"];

/// The whole file.
pub(crate) const FILE: &[Field] = &[
    field("defaults", Shape::Section(DEFAULTS), "what an agent leaves out, and what holds for a whole run"),
    field("agents", Shape::List(&Shape::Section(AGENT)), "the roster; built-in roles that it does not name stay"),
    field("engines", Shape::ByEngine(&Shape::Section(ENGINE)), "another program, more arguments, environment"),
    field("models", Shape::Map(&Shape::Section(MODEL)), "windows and prices, by model name or wildcard"),
    field("checks", Shape::Named(&Shape::Section(CHECK)), "commands that judge the tree; test and lint are found"),
    field("stop", Shape::Section(STOP), "limits; 0 switches one off"),
    field("context_pruning", Shape::CamelSection(PRUNING), "shortens old tool results once the cache is cold"),
    field("notify", Shape::Section(NOTIFY), "webhooks"),
    field("workflows", Shape::Named(&Shape::Section(WORKFLOW)), "own workflows; a built-in one's name replaces it"),
];

/// `defaults:`.
pub(crate) const DEFAULTS: &[Field] = &[
    field("coding_agent", Shape::Engine, "the engine"),
    field("model", Shape::Text, "the model, as the engine calls it; left out, the engine chooses"),
    field("effort", Shape::Choice(EFFORTS), "claude's effort"),
    field("thinking", Shape::Choice(THINKING), "pi's thinking level"),
    field("tools", Shape::Choices(TOOLS), "what agents may use"),
    field("harness_engineering", Shape::Texts, "pi extensions"),
    field("relay", Shape::Choice(&["auto", "resume", "off"]), "what happens when an engine dies for good"),
    field("session_rotation_context", CEILING, "live context at which a fresh session begins; 0 = never"),
    field("session_rotation", ROTATION, "whether price decides below the ceiling too"),
    field("rotate_mid_phase", Shape::Switch, "whether a long phase may rotate inside"),
    field("session", Shape::Choice(&["fresh_process", "resident"]), "one process a turn, or one an agent"),
    field("protected_files", Shape::Patterns, "what no agent may write"),
    field("data_dir", Shape::DataDir, "where runs are kept, relative to the repository"),
    field("permissions", Shape::Section(PERMISSIONS), "what is put back without blame"),
];

const PERMISSIONS: &[Field] = &[field("benign_paths", Shape::Patterns, "by-products that are put back without blame")];

/// An entry of `agents:`.
pub(crate) const AGENT: &[Field] = &[
    required("name", Shape::Name, "what workflows call it"),
    field("coding_agent", Shape::Engine, "its engine"),
    field("model", Shape::Text, "its model"),
    field("effort", Shape::Choice(EFFORTS), "claude's effort"),
    field("thinking", Shape::Choice(THINKING), "pi's thinking level"),
    field("tools", Shape::Choices(TOOLS), "what it may use"),
    field("harness_engineering", Shape::Texts, "pi extensions"),
    field("prompt_engineering", Shape::Section(PROMPTS), "own prompt files; else the built-in ones of its name"),
    field("writes", Shape::Patterns, "where it may write; [] is read-only, left out is anywhere not protected"),
    field("session_rotation_context", CEILING, "live context at which a fresh session begins; 0 = never"),
    field("session_rotation", ROTATION, "whether price decides below the ceiling too"),
    field("rotate_mid_phase", Shape::Switch, "whether a long phase may rotate inside"),
    field("phase_overrides", Shape::Map(&Shape::Section(OVERRIDE)), "levels by step: exact name, then first wildcard"),
    field("fallbacks", Shape::List(&Shape::Section(FALLBACK)), "who takes over when its engine dies; at most 5"),
];

const PROMPTS: &[Field] = &[
    field("system", Shape::Text, "file of the system prompt, relative to this file"),
    field("user", Shape::Text, "file of the user prompt, relative to this file"),
];

const OVERRIDE: &[Field] = &[
    field("effort", Shape::Choice(EFFORTS), "claude's effort"),
    field("thinking", Shape::Choice(THINKING), "pi's thinking level"),
];

const FALLBACK: &[Field] = &[
    required("coding_agent", Shape::Engine, "the engine"),
    field("model", Shape::Text, "its model"),
    field("effort", Shape::Choice(EFFORTS), "claude's effort"),
    field("thinking", Shape::Choice(THINKING), "pi's thinking level"),
];

const ENGINE: &[Field] = &[
    field("program", Shape::Text, "another program"),
    field("args", Shape::Texts, "more arguments"),
    field("env", Shape::Map(&Shape::Variable), "variables to set, or with null to unset"),
    field("permission_mode", Shape::Text, "claude's permission mode"),
    field("script", Shape::Text, "the script of the scripted engine, relative to this file"),
];

const MODEL: &[Field] = &[
    field("context_window", Shape::Whole, "tokens that fit"),
    field("prices", Shape::Section(PRICES), "dollars for a million tokens"),
    field("as_of", Shape::Text, "when the prices were looked up"),
];

const PRICES: &[Field] = &[
    field("input", Shape::Amount, "input that is not cached"),
    field("output", Shape::Amount, "output"),
    field("cache_read", Shape::Amount, "input read from the cache"),
    field("write_5m", Shape::Amount, "input written to the cache for five minutes"),
    field("write_1h", Shape::Amount, "input written to the cache for an hour"),
];

const CHECK: &[Field] = &[
    required("run", Shape::Text, "the command line; a shell reads it"),
    field("timeout_minutes", Shape::Amount, "minutes after which it counts as failed; 0 = no limit"),
];

/// `stop:`.
pub(crate) const STOP: &[Field] = &[
    field("attempt_cap", knob(Unit::Fixes, 3), "fixes of a repair; 0 = none"),
    field("no_progress_window", knob(Unit::Repairs, 2), "fixes in a row that may change nothing"),
    field("budget_minutes", knob(Unit::Minutes, 0), "minutes of a run, resumes included"),
    field("breadth_ceiling", knob(Unit::Paths, 0), "paths that a run may change"),
    field("token_budget", knob(Unit::Tokens, 30_000_000), "tokens of a run, cache reads included"),
    field("phase_token_budget", knob(Unit::Tokens, 8_000_000), "tokens of one phase"),
    field("cost_budget_usd", knob(Unit::Dollars, 0), "dollars of a run"),
    field("phase_timeout_minutes", knob(Unit::Minutes, 50), "minutes of one try at a phase"),
    field("idle_timeout_minutes", knob(Unit::Minutes, 10), "minutes without a line from the engine"),
    field("limit_wait_minutes", knob(Unit::Minutes, 360), "minutes to wait for a plan limit's reset"),
];

const PRUNING: &[Field] = &[
    field("mode", Shape::Choice(&["off", "cache-ttl", "adaptive"]), "when old tool results are shortened"),
    field("ttl", Shape::Ttl, "how long the provider keeps its cache: 5m, 1h; 0 = never prune"),
    field("keep_last_assistants", Shape::Clamped(Range::Count), "newest answers that protect what follows them"),
    field("soft_trim_ratio", Shape::Clamped(Range::Ratio), "share of the window from which results are trimmed"),
    field("hard_clear_ratio", Shape::Clamped(Range::Ratio), "share of the window from which results are cleared"),
    field("min_prunable_tool_chars", Shape::Clamped(Range::Count), "fewer characters than these are not cleared"),
    field("soft_trim", Shape::CamelSection(SOFT_TRIM), "what a trim leaves"),
    field("hard_clear", Shape::CamelSection(HARD_CLEAR), "what a clear leaves"),
    field("tools", Shape::Section(PRUNED_TOOLS), "whose results may be shortened"),
    field("warm_break_even", Shape::Switch, "whether to prune on a warm cache when it pays"),
    field("low_mark", Shape::Clamped(Range::Ratio), "share of hard_clear_ratio down to which clearing goes on"),
    field("absolute_trigger_tokens", Shape::Clamped(Range::Count), "tokens of results that trigger as well; 0 = off"),
    field("never_grow", Shape::Switch, "whether a result stays when its replacement is longer"),
    field("images", Shape::Choice(&["keep", "marker"]), "what becomes of images in old results"),
];

const SOFT_TRIM: &[Field] = &[
    field("max_chars", Shape::Clamped(Range::Count), "results up to this length stay"),
    field("head_chars", Shape::Clamped(Range::Count), "characters kept from the beginning"),
    field("tail_chars", Shape::Clamped(Range::Count), "characters kept from the end"),
];

const HARD_CLEAR: &[Field] = &[
    field("enabled", Shape::Switch, "whether results are cleared at all"),
    field("placeholder", Shape::Text, "the text that takes their place"),
];

const PRUNED_TOOLS: &[Field] = &[
    field("allow", Shape::Texts, "tool names or wildcards; none means all"),
    field("deny", Shape::Texts, "tool names or wildcards; beats allow"),
];

const NOTIFY: &[Field] = &[
    field("enabled", Shape::Switch, "whether anything is sent"),
    field("events", Shape::Choices(&["run_end", "gate_block", "waiting", "approval"]), "what is worth a message"),
    field("targets", Shape::List(&Shape::Section(TARGET)), "where messages go"),
];

const TARGET: &[Field] = &[
    required("kind", Shape::Choice(&["webhook"]), "webhook"),
    required("url", Shape::WebAddress, "https, or http on this machine"),
];

/// A workflow.
pub(crate) const WORKFLOW: &[Field] = &[
    field("description", Shape::Text, "what it does, one line"),
    required("steps", Shape::List(&Shape::Section(STEP)), "its steps, in order"),
    field("accept", Shape::Text, "when a run counts as accepted: an expression over its steps"),
];

/// The keys that make a step what it is; a step has exactly one.
pub(crate) const STEP_KINDS: &[&str] = &["agent", "check", "repair", "commit", "approve", "parallel"];

/// A step of a workflow.
pub(crate) const STEP: &[Field] = &[
    field("name", Shape::StepName, "unique in its workflow; left out, the agent or the kind of step"),
    field("when", Shape::Text, "runs only if this holds: an expression over earlier steps"),
    field("agent", Shape::Text, "one phase of this agent"),
    field("output", Shape::Text, "envelope type, or the file of a JSON Schema, relative to this file"),
    field("gates", Shape::Texts, "what its report must pass: gates or checks"),
    field("retries", Shape::Whole, "gate corrections, 1 if left out"),
    field("input", Shape::Text, "the earlier step whose envelope it is given, the last one if left out"),
    field("replay", Shape::Switch, "false runs it again on resume"),
    field("check", Shape::OneOrMore, "checks to run"),
    field("expect", Shape::Choice(&["green", "red"]), "the verdict that counts as passed"),
    field("red_pattern", Shape::Text, "regular expression that a red output must match"),
    field("repair", Shape::Section(REPAIR), "test, fix, test again, while red"),
    field("commit", Shape::Section(&[]), "commits what the run made"),
    field("approve", Shape::Section(APPROVE), "waits for a person"),
    field("wait", Shape::Wait, "how long an approval is waited for without a terminal: 24h, or never to give up"),
    field("parallel", Shape::List(&Shape::Section(PARALLEL_STEP)), "reading agents side by side"),
];

const REPAIR: &[Field] = &[
    required("check", Shape::OneOrMore, "checks of each round"),
    required("fix", Shape::Text, "the agent that fixes"),
];

const APPROVE: &[Field] =
    &[field("wait", Shape::Wait, "how long to wait without a terminal: 24h, or never to give up")];

/// A step inside of `parallel`.
const PARALLEL_STEP: &[Field] = &[
    field("name", Shape::StepName, "unique in its workflow; left out, the agent"),
    required("agent", Shape::Text, "one phase of this agent"),
    field("output", Shape::Text, "envelope type, or the file of a JSON Schema, relative to this file"),
    field("gates", Shape::Texts, "what its report must pass: gates or checks"),
    field("retries", Shape::Whole, "gate corrections, 1 if left out"),
    field("input", Shape::Text, "the earlier step whose envelope it is given"),
    field("replay", Shape::Switch, "false runs it again on resume"),
];
