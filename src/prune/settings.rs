//! The settings of context pruning, normalised: every value usable, nothing left to check.
//!
//! Values that make no sense keep their default, as the configuration has already warned about them; both
//! the `snake_case` keys of the configuration and `camelCase` spellings are read.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::economy::pattern::matches;
use crate::economy::prices::CacheLifetime;

/// What replaces a cleared result unless the configuration says otherwise.
pub const PLACEHOLDER: &str = "[Old tool result content cleared]";

/// Time after which a cache that was written for five minutes is taken for gone.
const DEFAULT_TTL: Duration = Duration::from_secs(300);

/// How old tool results are shortened.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which rules apply.
    pub mode: Mode,
    /// Idle time that opens the gate.
    pub ttl: Ttl,
    /// Assistant messages at the end from which on nothing changes.
    pub keep_last_assistants: usize,
    /// Share of the window from which on results are trimmed, 0 to 1.
    pub soft_trim_ratio: f64,
    /// Share of the window down to which results are cleared, 0 to 1.
    pub hard_clear_ratio: f64,
    /// Characters that the eligible results must hold together before any is cleared.
    pub min_prunable_tool_chars: u64,
    /// How a result is trimmed.
    pub soft_trim: SoftTrim,
    /// How a result is cleared.
    pub hard_clear: HardClear,
    /// Which tools' results may change.
    pub tools: ToolFilter,
    /// Whether a round may also run on a warm cache, when it pays.
    pub warm_break_even: bool,
    /// Share of `hard_clear_ratio` down to which clearing goes on once begun.
    pub low_mark: Option<f64>,
    /// Tokens of eligible results that open a round whatever the ratio, at four characters each.
    pub absolute_trigger_tokens: Option<u64>,
    /// Keeps a result whose replacement would be longer.
    pub never_grow: bool,
    /// What becomes of images in old results.
    pub images: Images,
}

/// Sets of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Prune only what the provider's cache has forgotten anyway.
    CacheTtl,
    /// The same with lower ratios, and also on a warm cache when it pays.
    Adaptive,
}

impl Mode {
    /// Reads the name of a mode; `None` is off.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "cache-ttl" | "cache_ttl" => Some(Self::CacheTtl),
            "adaptive" => Some(Self::Adaptive),
            _ => None,
        }
    }
}

/// Idle time that opens the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// As long as the provider keeps the cache of this login.
    CacheLifetime,
    /// So long.
    After(Duration),
    /// Never: the configuration says 0 or less.
    Never,
}

impl Ttl {
    /// The idle time for a cache of that lifetime; `None` never prunes.
    pub fn resolve(self, lifetime: CacheLifetime) -> Option<Duration> {
        match self {
            Self::CacheLifetime => Some(lifetime.duration()),
            Self::After(ttl) => Some(ttl),
            Self::Never => None,
        }
    }
}

/// How a result is trimmed: its first and last characters stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftTrim {
    /// Characters that a result may have without being trimmed.
    pub max_chars: u64,
    /// Characters kept at its start.
    pub head_chars: u64,
    /// Characters kept at its end.
    pub tail_chars: u64,
}

impl SoftTrim {
    /// Whether a result of so many characters is trimmed.
    pub fn applies(self, chars: u64) -> bool {
        chars > self.max_chars && self.head_chars.saturating_add(self.tail_chars) < chars
    }
}

/// How a result is cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardClear {
    /// Whether results are cleared at all.
    pub enabled: bool,
    /// What takes their place; never blank.
    pub placeholder: String,
}

/// What becomes of images in old results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    /// A result with an image is left alone.
    Keep,
    /// An image becomes a short text, and the result is treated as any other.
    Marker,
}

impl Settings {
    /// The defaults of a mode.
    pub fn of(mode: Mode) -> Self {
        let adaptive = mode == Mode::Adaptive;
        Self {
            mode,
            ttl: Ttl::CacheLifetime,
            keep_last_assistants: 3,
            soft_trim_ratio: if adaptive { 0.1 } else { 0.3 },
            hard_clear_ratio: if adaptive { 0.1 } else { 0.5 },
            min_prunable_tool_chars: 50_000,
            soft_trim: SoftTrim { max_chars: 4000, head_chars: 1500, tail_chars: 1500 },
            hard_clear: HardClear { enabled: true, placeholder: PLACEHOLDER.to_owned() },
            tools: ToolFilter::default(),
            warm_break_even: adaptive,
            low_mark: adaptive.then_some(0.5),
            absolute_trigger_tokens: adaptive.then_some(60_000),
            never_grow: false,
            images: Images::Keep,
        }
    }

    /// Reads the `context_pruning` section; `None` when pruning is off, which an absent mode is too.
    pub fn read(section: &Value) -> Option<Self> {
        let keys = Keys(section.as_object()?);
        let mode = Mode::parse(keys.get("mode", "mode")?.as_str()?)?;
        let mut settings = Self::of(mode);
        if let Some(ttl) = keys.get("ttl", "ttl") {
            settings.ttl = read_ttl(ttl);
        }
        keys.count("keep_last_assistants", "keepLastAssistants", |n| {
            settings.keep_last_assistants = usize::try_from(n).unwrap_or(usize::MAX);
        });
        keys.ratio("soft_trim_ratio", "softTrimRatio", |r| settings.soft_trim_ratio = r);
        keys.ratio("hard_clear_ratio", "hardClearRatio", |r| settings.hard_clear_ratio = r);
        keys.count("min_prunable_tool_chars", "minPrunableToolChars", |n| settings.min_prunable_tool_chars = n);
        if let Some(part) = keys.section("soft_trim", "softTrim") {
            part.count("max_chars", "maxChars", |n| settings.soft_trim.max_chars = n);
            part.count("head_chars", "headChars", |n| settings.soft_trim.head_chars = n);
            part.count("tail_chars", "tailChars", |n| settings.soft_trim.tail_chars = n);
        }
        if let Some(part) = keys.section("hard_clear", "hardClear") {
            part.flag("enabled", "enabled", |on| settings.hard_clear.enabled = on);
            let placeholder = part.get("placeholder", "placeholder").and_then(Value::as_str).map(str::trim);
            if let Some(text) = placeholder.filter(|text| !text.is_empty()) {
                text.clone_into(&mut settings.hard_clear.placeholder);
            }
        }
        if let Some(part) = keys.section("tools", "tools") {
            settings.tools = ToolFilter::new(&part.texts("allow"), &part.texts("deny"));
        }
        settings.read_options(&keys);
        Some(settings)
    }

    /// The section that says the same, every key of it. A cache time that follows the login is shown as what it is
    /// until the stream says more.
    pub fn section(&self) -> Value {
        let mode = match self.mode {
            Mode::CacheTtl => "cache-ttl",
            Mode::Adaptive => "adaptive",
        };
        let ttl = match self.ttl {
            Ttl::CacheLifetime => "5m".to_owned(),
            Ttl::After(span) => format!("{}ms", span.as_millis()),
            Ttl::Never => "0".to_owned(),
        };
        let images = match self.images {
            Images::Keep => "keep",
            Images::Marker => "marker",
        };
        json!({
            "mode": mode,
            "ttl": ttl,
            "keep_last_assistants": self.keep_last_assistants,
            "soft_trim_ratio": self.soft_trim_ratio,
            "hard_clear_ratio": self.hard_clear_ratio,
            "min_prunable_tool_chars": self.min_prunable_tool_chars,
            "soft_trim": {
                "max_chars": self.soft_trim.max_chars,
                "head_chars": self.soft_trim.head_chars,
                "tail_chars": self.soft_trim.tail_chars,
            },
            "hard_clear": { "enabled": self.hard_clear.enabled, "placeholder": self.hard_clear.placeholder },
            "tools": { "allow": self.tools.allow, "deny": self.tools.deny },
            "warm_break_even": self.warm_break_even,
            "low_mark": self.low_mark,
            "absolute_trigger_tokens": self.absolute_trigger_tokens.unwrap_or(0),
            "never_grow": self.never_grow,
            "images": images,
        })
    }

    fn read_options(&mut self, keys: &Keys<'_>) {
        keys.flag("warm_break_even", "warmBreakEven", |on| self.warm_break_even = on);
        keys.flag("never_grow", "neverGrow", |on| self.never_grow = on);
        match keys.get("low_mark", "lowMark") {
            Some(Value::Bool(false) | Value::Null) => self.low_mark = None,
            _ => keys.ratio("low_mark", "lowMark", |mark| self.low_mark = Some(mark)),
        }
        match keys.get("absolute_trigger_tokens", "absoluteTriggerTokens") {
            Some(Value::Bool(false) | Value::Null) => self.absolute_trigger_tokens = None,
            _ => keys.count("absolute_trigger_tokens", "absoluteTriggerTokens", |n| {
                self.absolute_trigger_tokens = (n > 0).then_some(n);
            }),
        }
        match keys.get("images", "images").and_then(Value::as_str) {
            Some("marker") => self.images = Images::Marker,
            Some("keep") => self.images = Images::Keep,
            Some(_) | None => {}
        }
    }
}

/// A section whose keys are spelt in either way.
struct Keys<'a>(&'a Map<String, Value>);

impl<'a> Keys<'a> {
    fn get(&self, snake: &str, camel: &str) -> Option<&'a Value> {
        self.0.get(snake).or_else(|| self.0.get(camel))
    }

    fn section(&self, snake: &str, camel: &str) -> Option<Self> {
        self.get(snake, camel)?.as_object().map(Keys)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floored and at least 0")]
    fn count(&self, snake: &str, camel: &str, set: impl FnOnce(u64)) {
        match self.get(snake, camel) {
            Some(value) if value.is_u64() => set(value.as_u64().unwrap_or(0)),
            Some(value) => {
                if let Some(number) = value.as_f64() {
                    set(number.max(0.0).floor() as u64);
                }
            }
            None => {}
        }
    }

    fn ratio(&self, snake: &str, camel: &str, set: impl FnOnce(f64)) {
        if let Some(number) = self.get(snake, camel).and_then(Value::as_f64) {
            set(number.clamp(0.0, 1.0));
        }
    }

    fn flag(&self, snake: &str, camel: &str, set: impl FnOnce(bool)) {
        if let Some(on) = self.get(snake, camel).and_then(Value::as_bool) {
            set(on);
        }
    }

    fn texts(&self, key: &str) -> Vec<&'a str> {
        let list = self.0.get(key).and_then(Value::as_array);
        list.map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect())
    }
}

fn read_ttl(value: &Value) -> Ttl {
    let parsed = match value {
        Value::Number(minutes) => minutes.as_f64().map(|minutes| minutes * 60.0),
        Value::String(text) => ttl_seconds(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match parsed {
        Some(seconds) if seconds <= 0.0 => Ttl::Never,
        Some(seconds) => Ttl::After(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        None => Ttl::After(DEFAULT_TTL),
    }
}

/// Seconds of a number with a unit; a bare number is minutes.
fn ttl_seconds(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.trim().parse().ok()?;
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * seconds)
}

/// Which tools' results may change: `*` stands for any run of characters, deny beats allow, no allow is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    allow: Vec<String>,
    deny: Vec<String>,
}

impl ToolFilter {
    /// Reads patterns: trimmed, lower-cased, empty ones dropped.
    pub fn new(allow: &[&str], deny: &[&str]) -> Self {
        let normal =
            |patterns: &[&str]| patterns.iter().map(|p| p.trim().to_lowercase()).filter(|p| !p.is_empty()).collect();
        Self { allow: normal(allow), deny: normal(deny) }
    }

    /// Whether results of this tool may change.
    pub fn allows(&self, tool: &str) -> bool {
        let tool = tool.trim().to_lowercase();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, &tool));
        !any(&self.deny) && (self.allow.is_empty() || any(&self.allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn ttl(value: &Value) -> Ttl {
        Settings::read(&json!({"mode": "cache-ttl", "ttl": value})).unwrap().ttl
    }

    #[test]
    fn r9_1_a_ttl_is_a_number_with_a_unit_and_bare_minutes() {
        let seconds = |n| Ttl::After(Duration::from_secs(n));
        assert_eq!(ttl(&json!("90s")), seconds(90));
        assert_eq!(ttl(&json!(" 1.5 H ")), seconds(5400));
        assert_eq!(ttl(&json!("2d")), seconds(172_800));
        assert_eq!(ttl(&json!("250ms")), Ttl::After(Duration::from_millis(250)));
        assert_eq!(ttl(&json!(7)), seconds(420));
        assert_eq!(ttl(&json!("soon")), seconds(300));
        assert_eq!(ttl(&json!(["5m"])), seconds(300));
        assert_eq!(ttl(&json!("0")), Ttl::Never);
        assert_eq!(ttl(&json!("-5m")), Ttl::Never);
    }

    #[test]
    fn r9_1_a_ttl_that_is_not_set_follows_the_cache() {
        let settings = Settings::of(Mode::CacheTtl);
        assert_eq!(settings.ttl.resolve(CacheLifetime::FiveMinutes), Some(Duration::from_secs(300)));
        assert_eq!(settings.ttl.resolve(CacheLifetime::OneHour), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn r9_1_a_section_says_what_it_was_read_from() {
        for mode in [Mode::CacheTtl, Mode::Adaptive] {
            let ttl = Ttl::After(Duration::from_secs(300));
            let settings = Settings { ttl, images: Images::Marker, ..Settings::of(mode) };
            assert_eq!(Settings::read(&settings.section()), Some(settings));
        }
    }

    #[test]
    fn r9_1_adaptive_has_lower_ratios_unless_they_are_set() {
        let read = |section| Settings::read(&section).unwrap();
        let adaptive = read(json!({"mode": "adaptive"}));
        assert_eq!(adaptive, Settings::of(Mode::Adaptive));
        let set = read(json!({"mode": "adaptive", "hard_clear_ratio": 0.4, "low_mark": false,
            "absolute_trigger_tokens": 0, "warm_break_even": false, "never_grow": true, "images": "marker"}));
        assert_eq!((set.soft_trim_ratio, set.hard_clear_ratio), (0.1, 0.4));
        assert_eq!((set.low_mark, set.absolute_trigger_tokens, set.warm_break_even), (None, None, false));
        assert_eq!((set.never_grow, set.images), (true, Images::Marker));
    }

    #[test]
    fn r9_1_options_can_be_set_alone_in_either_spelling() {
        let settings = Settings::read(&json!({"mode": "cache-ttl", "warmBreakEven": true, "low_mark": 0.25,
            "soft_trim": {"head_chars": 1.9}, "hardClear": {"enabled": false}}))
        .unwrap();
        assert_eq!((settings.warm_break_even, settings.low_mark), (true, Some(0.25)));
        assert_eq!(settings.soft_trim, SoftTrim { max_chars: 4000, head_chars: 1, tail_chars: 1500 });
        assert!(!settings.hard_clear.enabled);
    }
}
