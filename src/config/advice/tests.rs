use pretty_assertions::assert_eq;

use super::*;
use crate::config::tests::loaded;

/// claude has a window of 200,000 and compacts at 190,000; cursor says nothing; pi is not installed.
struct Known;

impl Facts for Known {
    fn is_installed(&self, engine: EngineName) -> bool {
        engine != EngineName::Pi
    }

    fn reports_usage(&self, engine: EngineName) -> bool {
        engine != EngineName::Cursor
    }

    fn window(&self, engine: EngineName, _model: &str) -> Option<u64> {
        (engine == EngineName::Claude).then_some(200_000)
    }

    fn compacts_at(&self, engine: EngineName, _model: &str) -> Option<u64> {
        (engine == EngineName::Claude).then_some(190_000)
    }
}

/// What is said of an agent `a` with these keys.
fn said(keys: &str) -> Vec<String> {
    let config = loaded(&format!("agents: [{{name: a, coding_agent: claude, {keys}}}]")).unwrap().config;
    advise(&config, &Known)
        .iter()
        .map(|warning| warning.0.message.clone())
        .filter(|text| text.starts_with("a: "))
        .collect()
}

#[test]
fn r3_6_a_ceiling_that_never_fires_is_named() {
    assert_eq!(said(""), Vec::<String>::new());
    assert_eq!(said("session_rotation_context: 0"), Vec::<String>::new());
    assert_eq!(
        said("session_rotation_context: 200001"),
        ["a: the ceiling of 200001 tokens is above the model's window of 200000 and never fires"]
    );
    assert_eq!(
        said("session_rotation_context: 195000"),
        ["a: claude compacts at 190000 tokens, before the ceiling of 195000 fires"]
    );
}

#[test]
fn r3_6_a_window_of_the_config_beats_the_known_one() {
    let text = "agents: [{name: a, coding_agent: claude, model: big, session_rotation_context: 185000}]\nmodels: {'b*': {context_window: 100000}}";
    let warnings = advise(&loaded(text).unwrap().config, &Known);
    assert_eq!(
        warnings[0].to_string(),
        "fia.config.yaml:1:80 agents[0].session_rotation_context: a: the ceiling of 185000 tokens is above the model's window of 100000 and never fires"
    );
}

#[test]
fn r3_6_roles_without_usage_overrides_and_missing_fallbacks_are_named() {
    let config = loaded("agents: [{name: a, coding_agent: cursor}]").unwrap().config;
    assert_eq!(advise(&config, &Known)[0].0.message, "a: cursor does not report usage, so this agent never rotates");
    assert_eq!(said("phase_overrides: {'fix_*': {effort: low}}").len(), 1);
    assert_eq!(said("fallbacks: [{coding_agent: cursor}, {coding_agent: pi}]"), ["a: pi is not installed"]);
}

#[test]
fn a_level_that_the_engine_does_not_know_is_named() {
    assert_eq!(said("thinking: minimal"), ["a: claude has no level `minimal`, so it uses its own default"]);
    assert_eq!(said("thinking: low"), Vec::<String>::new());
}

#[test]
fn r3_2_keys_that_are_not_acted_on_are_said_once() {
    let config = loaded("qa: 1\nagents: [{name: a, coding_agent: claude, color: red}]").unwrap().config;
    let warnings: Vec<_> = advise(&config, &Known).iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["fia.config.yaml:1:5 qa: not acted on: qa, agents[0].color"]);
}

#[test]
fn agents_for_whom_no_engine_is_there_are_named_once() {
    let said = |text: &str| {
        let warnings = advise(&loaded(text).unwrap().config, &Known);
        let told = warnings.iter().map(|warning| warning.0.message.clone());
        told.filter(|text| text.contains("installed, so")).collect::<Vec<_>>()
    };
    assert_eq!(said("defaults: {coding_agent: pi}"), ["pi is not installed, so no agent can work"]);
    assert_eq!(
        said("agents: [{name: a, coding_agent: pi}, {name: b, coding_agent: pi, fallbacks: [{coding_agent: claude}]}]"),
        ["pi is not installed, so a cannot work"]
    );
    assert_eq!(said("defaults: {coding_agent: claude}"), Vec::<String>::new());
}
