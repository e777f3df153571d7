//! Prices of models as data, dated; what is not known stays unknown.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::matches;
use crate::event::Usage;

/// How long a provider keeps what was written to its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLifetime {
    /// Five minutes, renewed by every read.
    FiveMinutes,
    /// One hour.
    OneHour,
}

impl CacheLifetime {
    /// The span itself.
    pub fn duration(self) -> Duration {
        match self {
            Self::FiveMinutes => Duration::from_secs(300),
            Self::OneHour => Duration::from_secs(3600),
        }
    }
}

/// What a token costs relative to an uncached input token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Read from the cache.
    pub read: f64,
    /// Written to a cache of five minutes.
    pub write_5m: f64,
    /// Written to a cache of one hour.
    pub write_1h: f64,
}

impl Rates {
    /// What Anthropic's models have in common, and what is assumed where prices are not known. Source: the
    /// pricing page of its platform documentation, read in November 2026; its newest models read for less.
    pub const STANDARD: Self = Self { read: 0.1, write_5m: 1.25, write_1h: 2.0 };

    /// Of a token written to a cache of that lifetime.
    pub fn write(&self, lifetime: CacheLifetime) -> f64 {
        match lifetime {
            CacheLifetime::FiveMinutes => self.write_5m,
            CacheLifetime::OneHour => self.write_1h,
        }
    }

    /// Input of a usage in uncached tokens: what it costs without its output.
    pub fn units(&self, usage: &Usage) -> f64 {
        let hour = usage.cache_write_1h.min(usage.cache_write);
        real(usage.input)
            + self.read * real(usage.cache_read)
            + self.write_5m * real(usage.cache_write - hour)
            + self.write_1h * real(hour)
    }
}

/// Dollars a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written to a cache of five minutes.
    pub write_5m: f64,
    /// Written to a cache of one hour.
    pub write_1h: f64,
}

impl Prices {
    /// Writing costs 1.25 and 2 times as much as input with all models of the built-in table.
    const fn listed(input: f64, output: f64, cache_read: f64) -> Self {
        Self { input, output, cache_read, write_5m: 1.25 * input, write_1h: 2.0 * input }
    }

    /// Dollars of a usage.
    pub fn cost_usd(&self, usage: &Usage) -> f64 {
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let dollars = self.input * real(usage.input)
            + self.output * real(usage.output)
            + self.cache_read * real(usage.cache_read)
            + self.write_5m * real(usage.cache_write - hour)
            + self.write_1h * real(hour);
        dollars / 1_000_000.0
    }

    /// The same prices relative to an uncached input token; the standard ones where input is free.
    pub fn rates(&self) -> Rates {
        if self.input <= 0.0 {
            return Rates::STANDARD;
        }
        Rates {
            read: self.cache_read / self.input,
            write_5m: self.write_5m / self.input,
            write_1h: self.write_1h / self.input,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
fn real(tokens: u64) -> f64 {
    tokens as f64
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPrices {
    /// The name or pattern that found it.
    pub pattern: String,
    /// Prices of a request; `None` is unknown.
    pub prices: Option<Prices>,
    /// Prices of a request with more input tokens than this, cached ones included.
    pub long_prompt: Option<(u64, Prices)>,
    /// Window in tokens; `None` is unknown.
    pub context_window: Option<u64>,
    /// The day on which the prices were true.
    pub as_of: String,
    /// Where they come from.
    pub source: String,
}

impl ModelPrices {
    /// Prices of one request with so many input tokens, cached ones included.
    pub fn of_request(&self, context_tokens: u64) -> Option<&Prices> {
        match &self.long_prompt {
            Some((over, prices)) if context_tokens > *over => Some(prices),
            Some(_) | None => self.prices.as_ref(),
        }
    }
}

/// The day on which the built-in prices were read.
pub const BUILT_IN_AS_OF: &str = "2026-10-24";

/// Where the built-in prices come from.
pub const BUILT_IN_SOURCE: &str = "platform.claude.com/docs/en/about-claude/pricing";

/// Built-in prices by model id: the first pattern that matches counts.
///
/// Only ids that name a version are listed. What an alias (`sonnet`) stands for changes with the CLI, and
/// other vendors' models are not listed: both are unknown until the engine names the model or the `models`
/// section of the configuration prices it. Surcharges of batch, fast and regional modes are left out.
const BUILT_IN: &[(&str, Prices)] = &[
    ("*claude-fable-5-1*", Prices::listed(10.0, 50.0, 0.25)),
    ("*claude-fable-5*", Prices::listed(10.0, 50.0, 1.0)),
    ("*claude-opus-5-5*", Prices::listed(4.0, 20.0, 0.2)),
    ("*claude-opus-5*", Prices::listed(5.0, 25.0, 0.5)),
    ("*claude-opus-4-5*", Prices::listed(5.0, 25.0, 0.5)),
    ("*claude-opus-4-6*", Prices::listed(5.0, 25.0, 0.5)),
    ("*claude-opus-4-7*", Prices::listed(5.0, 25.0, 0.5)),
    ("*claude-opus-4-8*", Prices::listed(5.0, 25.0, 0.5)),
    ("*claude-opus-4*", Prices::listed(15.0, 75.0, 1.5)),
    ("*claude-sonnet-5-5*", Prices::listed(2.0, 10.0, 0.1)),
    ("*claude-sonnet-5*", Prices::listed(2.0, 10.0, 0.2)),
    ("*claude-sonnet-4*", Prices::listed(3.0, 15.0, 0.3)),
    ("*claude-3-7-sonnet*", Prices::listed(3.0, 15.0, 0.3)),
    ("*claude-haiku-5-5*", Prices::listed(0.1, 0.5, 0.01)),
    ("*claude-haiku-4-5*", Prices::listed(1.0, 5.0, 0.1)),
    ("*claude-3-5-haiku*", Prices::listed(0.8, 4.0, 0.08)),
];

/// Models whose long requests cost more as a whole: pattern, input tokens, prices above.
const BUILT_IN_LONG: &[(&str, u64, Prices)] = &[("*claude-haiku-5-5*", 100_000, Prices::listed(0.5, 2.5, 0.05))];

/// Finds what is known of a model: the `models` section of the configuration first (exact name, then patterns
/// in order), then the built-in table. `None` is unknown.
pub fn find(configured: &Value, model: &str) -> Option<ModelPrices> {
    find_configured(configured, model).or_else(|| find_built_in(model))
}

/// The built-in table, in the order in which its patterns are tried.
pub fn built_in() -> impl Iterator<Item = ModelPrices> {
    BUILT_IN.iter().map(|(pattern, prices)| of_table(pattern, prices))
}

fn find_built_in(model: &str) -> Option<ModelPrices> {
    let (pattern, prices) = BUILT_IN.iter().find(|(pattern, _)| matches(pattern, model))?;
    Some(of_table(pattern, prices))
}

fn of_table(pattern: &str, prices: &Prices) -> ModelPrices {
    let long_prompt =
        BUILT_IN_LONG.iter().find(|(long, ..)| *long == pattern).map(|(_, over, prices)| (*over, *prices));
    ModelPrices {
        pattern: pattern.to_owned(),
        prices: Some(*prices),
        long_prompt,
        context_window: None,
        as_of: BUILT_IN_AS_OF.to_owned(),
        source: BUILT_IN_SOURCE.to_owned(),
    }
}

#[derive(Deserialize)]
struct Configured {
    #[serde(default)]
    context_window: Option<u64>,
    #[serde(default)]
    prices: Option<Prices>,
    #[serde(default)]
    as_of: Option<String>,
}

fn find_configured(section: &Value, model: &str) -> Option<ModelPrices> {
    let models = section.as_object()?;
    let (pattern, value) =
        models.get_key_value(model).or_else(|| models.iter().find(|(pattern, _)| matches(pattern, model)))?;
    let known: Configured = serde_json::from_value(value.clone()).ok()?;
    let built_in = find_built_in(model);
    Some(ModelPrices {
        pattern: pattern.clone(),
        prices: known.prices.or(built_in.as_ref().and_then(|model| model.prices)),
        long_prompt: if known.prices.is_some() { None } else { built_in.as_ref().and_then(|model| model.long_prompt) },
        context_window: known.context_window,
        as_of: known.as_of.unwrap_or_else(|| "unknown".to_owned()),
        source: "fia.config.yaml".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn usage() -> Usage {
        Usage { input: 10, output: 1000, cache_read: 100_000, cache_write: 3000, cache_write_1h: 1000 }
    }

    #[test]
    fn the_parts_of_a_cache_write_are_priced_apart() {
        let units = Rates::STANDARD.units(&usage());
        assert!((units - (10.0 + 10_000.0 + 2500.0 + 2000.0)).abs() < 1e-9, "{units}");
        let prices = find(&Value::Null, "claude-sonnet-4-5-20250929").unwrap().prices.unwrap();
        let dollars = (30.0 + 15_000.0 + 30_000.0 + 7500.0 + 6000.0) / 1e6;
        assert!((prices.cost_usd(&usage()) - dollars).abs() < 1e-12);
    }

    #[test]
    fn a_newer_version_is_found_before_its_family() {
        let input = |model| find(&Value::Null, model).and_then(|m| m.prices).map(|p| p.input);
        assert_eq!(input("claude-opus-5-5[1m]"), Some(4.0));
        assert_eq!(input("anthropic/claude-opus-4-5"), Some(5.0));
        assert_eq!(input("claude-opus-4-1-20250805"), Some(15.0));
        for unknown in ["sonnet", "openai-codex/gpt-5.6", ""] {
            assert_eq!(input(unknown), None);
        }
    }

    #[test]
    fn every_built_in_pattern_can_be_reached() {
        for (pattern, prices) in BUILT_IN {
            let model = pattern.replace('*', "");
            assert_eq!(find(&Value::Null, &model).unwrap().prices, Some(*prices), "{pattern}");
            assert!(prices.cache_read < prices.input && prices.input < prices.write_5m, "{pattern}");
        }
    }

    #[test]
    fn long_requests_have_their_own_prices_where_the_vendor_does() {
        let model = find(&Value::Null, "claude-haiku-5-5").unwrap();
        assert_eq!(model.of_request(100_000), Some(&Prices::listed(0.1, 0.5, 0.01)));
        assert_eq!(model.of_request(100_001), Some(&Prices::listed(0.5, 2.5, 0.05)));
    }

    #[test]
    fn r3_5_configured_prices_come_first_and_a_window_alone_keeps_the_built_in_ones() {
        let models = json!({
            "sonnet*": {"context_window": 200_000, "prices":
                {"input": 3, "output": 15, "cache_read": 0.3, "write_5m": 3.75, "write_1h": 6}, "as_of": "2026-11-01"},
            "claude-opus-5-5": {"context_window": 400_000},
        });
        let sonnet = find(&models, "sonnet").unwrap();
        assert_eq!((sonnet.context_window, sonnet.as_of.as_str()), (Some(200_000), "2026-11-01"));
        let rates = sonnet.prices.unwrap().rates();
        assert_eq!(Rates { read: 0.3 / 3.0, ..Rates::STANDARD }, rates);
        let opus = find(&models, "claude-opus-5-5").unwrap();
        assert_eq!((opus.context_window, opus.prices.unwrap().input), (Some(400_000), 4.0));
    }
}
