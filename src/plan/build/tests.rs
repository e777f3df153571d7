use indexmap::IndexMap;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::config::tests::{loaded, loaded_with};
use crate::event::Expect;
use crate::plan::{Relay, RotationPolicy, SessionMode, describe};

fn request(workflow: &str) -> Request<'_> {
    Request { workflow, prompt: "do it", choices: &[] }
}

fn plan(text: &str, workflow: &str) -> Plan {
    let config = loaded_with(text, &[("Cargo.toml", b"")]).unwrap().config;
    build(&config, request(workflow)).unwrap().0
}

#[test]
fn r4_2_every_built_in_workflow_can_be_planned_without_a_config() {
    let config = loaded_with("", &[("Cargo.toml", b"")]).unwrap().config;
    for workflow in workflow::catalog(&config).unwrap() {
        let (plan, _) = build(&config, request(&workflow.name)).unwrap();
        assert_eq!(plan.workflow, workflow.name);
    }
}

#[test]
fn a_workflow_that_needs_a_check_that_is_not_there_says_where() {
    let error = build(&loaded("").unwrap().config, request("build_test")).unwrap_err().to_string();
    assert!(error.starts_with("1 problem in built-in:build_test.yaml\n  6:42 workflows.build_test.steps[1].repair.check[0]: no check is called `test`"), "{error}");
}

#[test]
fn the_limits_in_the_table_are_those_of_the_run() {
    assert_eq!(stop(&loaded("").unwrap().config), Stop::default());
    assert_eq!(crate::config::table::STOP.len(), 10);
}

#[test]
fn an_empty_prompt_is_refused() {
    let config = loaded("").unwrap().config;
    let error = build(&config, Request { prompt: " \n", ..request("build") }).unwrap_err().to_string();
    assert!(error.contains("the prompt is empty"), "{error}");
}

#[test]
fn a_plan_holds_all_that_a_run_needs_and_nothing_else() {
    let text = "\
defaults: { coding_agent: claude, model: sonnet, effort: high, relay: resume, session: resident, protected_files: [x] }
agents:
  - name: builder
    coding_agent: pi
    model: openai/x
    writes: [src/]
    session_rotation_context: 5
    session_rotation: break_even
    phase_overrides: { fix_9: { thinking: low }, 'fix_*': { effort: medium } }
    fallbacks: [ { coding_agent: claude, model: opus, effort: xhigh } ]
engines: { scripted: { script: s.yaml, args: [-v] }, claude: { env: { A: 1, B: null } } }
checks: { test: { run: make test }, other: { run: make other, timeout_minutes: 0 } }
context_pruning: { mode: adaptive, keepLastAssistants: 2 }
workflows: { w: { description: d, steps: [ { agent: builder, gates: [other] }, { name: tests, repair: { check: [test], fix: builder } } ] } }
";
    let plan = plan(text, "w");
    let choice =
        |engine, model: &str, level: &str| EngineChoice { engine, model: model.into(), level: Some(level.into()) };
    let builder = &plan.agents["builder"];
    assert_eq!(plan.agents.keys().map(AgentName::as_str).collect::<Vec<_>>(), ["builder"]);
    assert_eq!(
        builder.choices,
        [
            EngineChoice { engine: EngineName::Pi, model: "openai/x".into(), level: None },
            choice(EngineName::Claude, "opus", "xhigh")
        ]
    );
    assert_eq!((builder.ceiling, builder.rotation), (5, RotationPolicy::BreakEven));
    assert_eq!(builder.writes, Writes::Only(vec!["src/".into()]));
    assert_eq!(builder.level(&builder.choices[0], "fix_9"), Some("low"));
    assert_eq!(builder.level(&builder.choices[0], "fix_1"), Some("medium"));
    assert_eq!(builder.level(&builder.choices[0], "build"), None);
    assert_eq!(builder.level(&builder.choices[1], "fix_1"), Some("medium"));
    assert_eq!(builder.level(&builder.choices[1], "build"), Some("xhigh"));
    assert_eq!((plan.relay, plan.session), (Relay::Resume, SessionMode::Resident));
    assert_eq!(plan.engines[&EngineName::Scripted].args, ["--script", "s.yaml", "-v"]);
    let env: IndexMap<String, Option<String>> = [("A".into(), Some("1".into())), ("B".into(), None)].into();
    assert_eq!(plan.engines[&EngineName::Claude].env, env);
    let check = |run: &str, timeout_minutes| Check { run: run.into(), timeout_minutes };
    let checks: IndexMap<CheckName, Check> =
        [("test".into(), check("make test", 10.0)), ("other".into(), check("make other", 0.0))].into();
    assert_eq!(plan.checks, checks);
    assert_eq!(plan.context_pruning, json!({"mode": "adaptive", "keep_last_assistants": 2}));
    assert_eq!((plan.protected_files, plan.judge_files), (vec!["x".to_owned()], vec!["fia.config.yaml".to_owned()]));
    let Action::Repair { fix, .. } = &plan.steps[1].action else { panic!("no repair") };
    assert_eq!((fix.agent.as_str(), fix.output.as_str()), ("builder", "build"));
}

#[test]
fn r4_2_bug_expects_red_before_the_fix() {
    let plan = plan("", "bug");
    let Action::Check { expect, .. } = &plan.steps[1].action else { panic!("no check") };
    assert_eq!(*expect, Expect::Red { pattern: None });
}

#[test]
fn the_digest_names_a_plan_and_survives_its_journey_through_the_log() {
    let (one, other) = (plan("", "sdlc"), plan("", "quick"));
    assert_ne!(one.digest(), other.digest());
    let json = serde_json::to_string(&one).unwrap();
    let back: Plan = serde_json::from_str(&json).unwrap();
    assert_eq!((back.digest(), &back), (one.digest(), &one));
    assert_eq!(one.digest().len(), 64);
}

#[test]
fn variables_of_engines_reach_the_plan_and_not_the_log() {
    let plan = plan("engines: {claude: {env: {KEY: s3cret}}}", "build");
    assert_eq!(plan.engines[&EngineName::Claude].env["KEY"], Some("s3cret".to_owned()));
    assert!(!serde_json::to_string(&plan).unwrap().contains("s3cret"));
}

#[test]
fn a_choice_for_this_run_reaches_the_plan_and_not_the_config() {
    let config = loaded("agents: [{name: builder, fallbacks: [{coding_agent: pi}]}]").unwrap().config;
    let choices = ["scripted".parse().unwrap()];
    let (plan, _) = build(&config, Request { choices: &choices, ..request("build") }).unwrap();
    assert_eq!(
        plan.agents["builder"].choices,
        [EngineChoice { engine: EngineName::Scripted, model: String::new(), level: None }]
    );
    assert_eq!(config.agents()[0]["coding_agent"], "claude");
}

#[test]
fn r4_3_a_plan_is_described_for_people_and_programs() {
    let config = loaded_with(
        "defaults: {model: sonnet, effort: high}\nworkflows: {w: {description: all kinds, steps: [{name: look, parallel: [{agent: scout}, {agent: planner}]}, {agent: builder, gates: [test], input: scout}, {name: tests, repair: {check: test, fix: builder}}, {name: ok, approve: {wait: 24h}, when: tests.passed}, {name: save, commit: }], accept: tests.passed}}",
        &[("Cargo.toml", b"")],
    );
    let (plan, stop) = build(&config.unwrap().config, request("w")).unwrap();
    insta::assert_snapshot!(describe::text(&plan, &stop), @r#"
    w: all kinds
      1  look     side by side
         scout    scout on claude sonnet high                    report scout
         planner  planner on claude sonnet high                  report plan
      2  builder  builder on claude sonnet high                  report build, gates test, given scout
      3  tests    check test, fix builder on claude sonnet high  test_1, then fix_i and test_i+1 while red, at most 3 fixes
      4  ok       approve                                        waits 24 h                                                  when tests.passed
      5  save     commit                                         what the run made
    accepted when tests.passed

    agents, one session each
      planner  claude sonnet high  planner         rotates at 180k  reads only
      builder  claude sonnet high  builder, fix_i  rotates at 180k  writes anywhere
      scout    claude sonnet high  scout           rotates at 180k  reads only

    checks
      test  cargo test  10 min

    limits
      fixes of a repair      3
      tokens of the run      30M
      tokens of a phase      8M
      cost of the run        no limit
      time of the run        no limit
      time of a phase        50 min
      silence of an engine   10 min
      wait for a plan limit  360 min
      paths changed          no limit
    "#);
    let json = describe::json(&plan, &stop);
    assert_eq!(json["agents"]["builder"]["phases"], json!(["builder", "fix_i"]));
    assert_eq!(json["digest"], json!(plan.digest()));
    assert_eq!(json["stop"]["attempt_cap"], 3);
}
