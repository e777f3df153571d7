//! The real coding-agent CLIs, as `test/engines.sh` installed them, pointed at a provider on loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use fia::provider::Provider;
use serde_json::{Value, json};

use super::test_env::TestEnv;

/// The model name that claude is started with.
pub(crate) const CLAUDE_MODEL: &str = "claude-sonnet-4-5";

/// Where an engine's program is; `name` is claude, node or pi.
pub(crate) fn installed(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder for temporary files is in target");
    let folder = std::env::var_os("FIA_ENGINES_DIR").map_or_else(|| target.join("engines"), PathBuf::from);
    let list = std::fs::read_to_string(folder.join("paths"))
        .unwrap_or_else(|error| panic!("{}: {error}; run `sh test/engines.sh` first", folder.join("paths").display()));
    let path = list.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    PathBuf::from(path.unwrap_or_else(|| panic!("{name} is not in {}", folder.join("paths").display())))
}

/// claude for one turn, printing its stream; the prompt is still to be added. It retries `retries` times.
pub(crate) fn claude(env: &TestEnv, provider: &Provider, retries: u32) -> Command {
    let mut command = env.command(installed("claude"));
    command
        .env("CLAUDE_CONFIG_DIR", env.home().join(".claude"))
        .env("ANTHROPIC_BASE_URL", provider.base_url())
        .env("ANTHROPIC_API_KEY", "dummy")
        .env("CLAUDE_CODE_MAX_RETRIES", retries.to_string())
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        // Lets it bypass permissions as root, which it is in many containers.
        .env("IS_SANDBOX", "1")
        .args(["-p", "--output-format", "stream-json", "--verbose", "--model", CLAUDE_MODEL])
        .args(["--permission-mode", "bypassPermissions"]);
    command
}

/// pi for one turn, printing its events; the prompt is still to be added. It retries `retries` times, at once.
pub(crate) fn pi(env: &TestEnv, provider: &Provider, retries: u32) -> Command {
    let model = json!({"id": "loop-1", "name": "Loop 1", "reasoning": true, "input": ["text"], "contextWindow": 200_000,
                       "maxTokens": 16_000,
                       "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}});
    let models = json!({"providers": {"loop": {"baseUrl": provider.base_url(), "api": "anthropic-messages",
                                               "apiKey": "dummy", "models": [model]}}});
    let retry = json!({"retry": {"enabled": retries > 0, "maxRetries": retries, "baseDelayMs": 1}});
    env.write_home(".pi/agent/models.json", &models.to_string());
    env.write_home(".pi/agent/settings.json", &retry.to_string());
    let mut command = env.command(installed("node"));
    command
        .env("PI_CODING_AGENT_DIR", env.home().join(".pi/agent"))
        .env("PI_OFFLINE", "1")
        .env("PI_TELEMETRY", "0")
        .env("PI_SKIP_VERSION_CHECK", "1")
        .arg(installed("pi"))
        .args(["-p", "--mode", "json", "--provider", "loop", "--model", "loop-1"]);
    command
}

/// A provider that answers by a scenario that comes with it.
pub(crate) fn builtin(name: &str) -> Provider {
    let scenario = fia::provider::Scenario::builtin(name).expect("a scenario that comes with the provider");
    Provider::spawn_thread(scenario, fia::provider::Options::default()).expect("a free port")
}

/// A provider that answers by a scenario written here.
pub(crate) fn scripted(scenario: Value) -> Provider {
    let scenario = fia::provider::Scenario::from_value(scenario).expect("a scenario with a meaning");
    Provider::spawn_thread(scenario, fia::provider::Options::default()).expect("a free port")
}
