use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

/// Loads `text` as the file of an otherwise empty work tree.
pub(crate) fn loaded(text: &str) -> Result<Loaded, ConfigError> {
    loaded_with(text, &[])
}

/// The same beside other files.
pub(crate) fn loaded_with(text: &str, files: &[(&str, &[u8])]) -> Result<Loaded, ConfigError> {
    let top = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = top.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let path = top.path().join("fia.config.yaml");
    fs::write(&path, text).unwrap();
    load(Some(&path), Surroundings { top: top.path(), engines: &[] })
}

fn config(text: &str) -> Config {
    loaded(text).unwrap().config
}

fn origin(config: &Config, pointer: &str) -> String {
    config.show()["origins"][pointer].as_str().unwrap_or("none").to_owned()
}

/// Holds one field of an `expect.json` against what became of the file.
fn assert_case(name: &str, field: &str, value: &Value, result: &Result<Loaded, ConfigError>) {
    let said = match result {
        Ok(loaded) => loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Err(error) => error.to_string(),
    };
    let outcome = match result {
        Err(_) => "rejected",
        Ok(loaded) if loaded.warnings.is_empty() => "accepted",
        Ok(_) => "accepted_with_warning",
    };
    let words = || value.as_array().unwrap().iter().map(|word| said.contains(word.as_str().unwrap()));
    let fits = match (field, result) {
        ("outcome", _) => value == outcome,
        ("outcome_any_of", _) => value.as_array().unwrap().contains(&json!(outcome)),
        ("values" | "if_accepted_values", Ok(loaded)) => {
            let shown = loaded.config.show();
            value.as_object().unwrap().iter().all(|(at, value)| shown["config"].pointer(at) == Some(value))
        }
        ("if_accepted_values", Err(_)) | ("if_rejected_mentions_any", Ok(_)) => true,
        ("if_rejected_mentions_any", Err(_)) => words().any(|is_said| is_said),
        ("error_mentions" | "error_or_warning_mentions", _) => words().all(|is_said| is_said),
        ("error_line", Err(error)) => {
            let lines = error.problems.iter().map(|problem| problem.mark.unwrap().line);
            lines.eq([usize::try_from(value.as_u64().unwrap()).unwrap()])
        }
        ("rotation", Ok(loaded)) => {
            let context = value["live_context_tokens"].as_u64().unwrap();
            let ceiling = loaded.config.agents()[0]["session_rotation_context"].as_u64().unwrap();
            // The first condition of SPEC 6.3, which `session::rotation` decides by.
            value["next_phase_rotates"] == json!(ceiling > 0 && context >= ceiling)
        }
        (other, _) => panic!("{name}: nobody looks at `{other}`"),
    };
    assert!(fits, "{name}: {field} {value}: {outcome}, {said}");
}

#[test]
fn yaml_cases_have_the_outcome_that_each_expects() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/cases");
    let mut seen = 0;
    for entry in fs::read_dir(cases).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("yaml-") {
            continue;
        }
        seen += 1;
        let expect: Value = serde_json::from_slice(&fs::read(folder.join("expect.json")).unwrap()).unwrap();
        let text = fs::read_to_string(folder.join("config.yaml")).unwrap();
        for (field, value) in expect.as_object().unwrap() {
            assert_case(&name, field, value, &loaded(&text));
        }
    }
    assert_eq!(seen, 10);
}

#[test]
fn r3_1_the_file_is_looked_for_where_it_is_named_then_upwards_then_in_imp() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    let inner = top.join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir_all(top.join("imp")).unwrap();
    assert_eq!(find(&inner, top, None, None), None);
    fs::write(top.join("imp/fia.config.yaml"), "").unwrap();
    assert_eq!(find(&inner, top, None, None), Some(top.join("imp/fia.config.yaml")));
    fs::write(top.join("fia.config.yaml"), "").unwrap();
    assert_eq!(find(&inner, top, None, None), Some(top.join("fia.config.yaml")));
    fs::write(top.join("a/fia.config.yaml"), "").unwrap();
    assert_eq!(find(&inner, top, None, None), Some(top.join("a/fia.config.yaml")));
    assert_eq!(find(&inner, &inner, None, None), None, "not above the top");
    assert_eq!(find(&inner, top, None, Some("x.yaml".as_ref())), Some(inner.join("x.yaml")));
    assert_eq!(find(&inner, top, None, Some("".as_ref())), Some(top.join("a/fia.config.yaml")));
    assert_eq!(find(&inner, top, Some(Path::new("y.yaml")), Some("x.yaml".as_ref())), Some(inner.join("y.yaml")));
}

#[test]
fn r3_1_without_a_file_the_built_in_roster_works_on_the_engine_that_is_there() {
    let top = tempfile::tempdir().unwrap();
    let around = Surroundings { top: top.path(), engines: &[crate::ids::EngineName::Pi] };
    let config = load(None, around).unwrap().config;
    assert_eq!(
        config.agent_names().collect::<Vec<_>>(),
        ["planner", "builder", "scout", "tester", "reviewer", "documenter"]
    );
    assert!(config.agents().iter().all(|agent| agent["coding_agent"] == "pi"));
    assert_eq!(config.judge_files, Vec::<String>::new());
}

#[test]
fn r3_2_every_effective_value_has_an_origin() {
    let config =
        config("defaults:\n  coding_agent: pi\n  session_rotation_context: 5\nagents:\n  - name: a\n    model: m\n");
    assert_eq!(origin(&config, "/defaults/coding_agent"), "fia.config.yaml:2:17");
    assert_eq!(origin(&config, "/defaults/relay"), "built-in");
    assert_eq!(origin(&config, "/agents/0/model"), "fia.config.yaml:6:12");
    assert_eq!(origin(&config, "/agents/0/coding_agent"), "defaults, fia.config.yaml:2:17");
    assert_eq!(origin(&config, "/agents/0/session_rotation_context"), "defaults, fia.config.yaml:3:29");
    assert_eq!(origin(&config, "/stop/attempt_cap"), "built-in");
    let config = config.with_choices(&["a=claude:opus@high".parse().unwrap()]).unwrap();
    assert_eq!(origin(&config, "/agents/0/model"), "--use a=claude:opus@high");
    let shown = config.show_text();
    assert!(shown.contains("agents[0].effort = \"high\"") && shown.contains("# --use a=claude:opus@high"), "{shown}");
}

#[test]
fn every_shown_value_has_an_origin_and_every_origin_a_value() {
    let config = config(include_str!("../../fia.config.yaml"));
    let shown = config.show();
    for pointer in shown["origins"].as_object().unwrap().keys() {
        assert!(shown["config"].pointer(pointer).is_some(), "{pointer}");
    }
    for line in config.show_text().lines() {
        assert!(line.contains("  # "), "{line}");
    }
}

#[test]
fn r3_3_a_knob_that_degrades_warns_once_and_names_key_value_unit_and_the_default_in_force() {
    let text = "defaults: {session_rotation_context: 90000}\nagents:\n  - name: a\n    session_rotation_context: yes\nstop: {token_budget: }\n";
    let loaded = loaded(text).unwrap();
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "fia.config.yaml:4:31 agents[0].session_rotation_context: `yes` is no usable number of tokens; the default of 90000 tokens stands",
            "fia.config.yaml:5:20 stop.token_budget: nothing is no usable number of tokens; the default of 30000000 tokens stands",
        ]
    );
    assert_eq!(loaded.config.agents()[0]["session_rotation_context"], 90_000);
}

#[test]
fn a_model_is_not_handed_to_an_engine_it_was_not_written_for() {
    let config = config(
        "defaults: {coding_agent: claude, model: sonnet, effort: max}\nagents:\n  - {name: a, coding_agent: pi}\n  - {name: b}\n  - {name: c, thinking: low}",
    );
    let agents = config.agents();
    assert_eq!((&agents[0]["model"], &agents[0]["effort"]), (&Value::Null, &Value::Null));
    assert_eq!((&agents[1]["model"], &agents[1]["effort"]), (&json!("sonnet"), &json!("max")));
    assert_eq!((&agents[2]["effort"], &agents[2]["thinking"]), (&Value::Null, &json!("low")));
    let config = self::config("defaults: {model: x/y}\nagents:\n  - {name: a, coding_agent: pi}");
    assert_eq!(config.agents()[0]["model"], "x/y");
}

#[test]
fn a_role_of_the_file_replaces_the_built_in_one_whole() {
    let config = config("agents: [{name: reviewer}]");
    assert_eq!(
        config.agent_names().collect::<Vec<_>>(),
        ["reviewer", "planner", "builder", "scout", "tester", "documenter"]
    );
    assert_eq!(config.agents()[0].get("writes"), None, "left out is anywhere not protected");
    assert_eq!(config.agents()[1]["writes"], json!([]));
}

#[test]
fn choices_for_one_agent_beat_those_for_all_whatever_their_order() {
    let choices = ["builder=pi:x".parse().unwrap(), "scripted".parse().unwrap()];
    let text =
        "agents: [{name: builder, fallbacks: [{coding_agent: claude}]}, {name: a, fallbacks: [{coding_agent: pi}]}]";
    let config = config(text).with_choices(&choices).unwrap();
    let agents = config.agents();
    assert_eq!((&agents[0]["coding_agent"], &agents[0]["model"]), (&json!("pi"), &json!("x")));
    assert_eq!((&agents[1]["coding_agent"], agents[1].get("fallbacks")), (&json!("scripted"), None));
}

#[test]
fn a_choice_for_an_unknown_agent_names_the_known_ones() {
    let error = config("").with_choices(&["bilder=pi".parse().unwrap()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 problem in --use bilder=pi\n  no agent is called `bilder`; there are planner, builder, scout, tester, reviewer, documenter; did you mean `builder`?"
    );
}

#[test]
fn agents_given_twice_and_long_chains_are_problems() {
    let six = "{coding_agent: pi}, ".repeat(6);
    let error = loaded(&format!("agents:\n  - name: a\n  - name: a\n    fallbacks: [{six}]\n")).unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
}

#[test]
fn prompt_files_that_cannot_be_used_are_located_problems() {
    let text = "agents:\n  - name: a\n    prompt_engineering: {system: no.md, user: latin.md}\n  - name: b\n    prompt_engineering: {system: empty.md, user: ok.md}\n";
    let files: [(&str, &[u8]); 3] = [("latin.md", b"a\ncaf\xe9"), ("empty.md", b" \n"), ("ok.md", b"{{ prompt }}")];
    let error = loaded_with(text, &files).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 problems in fia.config.yaml\n  3:34 agents[0].prompt_engineering.system: `no.md`: cannot read it: No such file or directory (os error 2)\n  3:47 agents[0].prompt_engineering.user: `latin.md`: it is not UTF-8: byte 6 of it, in line 2\n  5:34 agents[1].prompt_engineering.system: `empty.md` is empty"
    );
}

#[test]
fn r11_3_the_files_in_force_are_judge_files() {
    let text = "agents: [{name: a, prompt_engineering: {user: prompts/u.md}}]\nworkflows: {w: {steps: [{agent: a, output: s.json}]}}\n";
    let files: [(&str, &[u8]); 2] = [("prompts/u.md", b"{{ prompt }}"), ("s.json", br#"{"type": "object"}"#)];
    let config = loaded_with(text, &files).unwrap().config;
    assert_eq!(config.judge_files, ["fia.config.yaml", "prompts/u.md", "s.json"]);
    assert_eq!(config.prompts["a"].user.text, "{{ prompt }}");
    assert_eq!(config.schemas["s.json"], json!({"type": "object"}));
}

#[test]
fn schema_files_must_be_schemas() {
    for (bytes, word) in [(&b"{"[..], "no JSON"), (b"[]", "object"), (br#"{"type": "strin"}"#, "no JSON Schema")] {
        let error =
            loaded_with("workflows: {w: {steps: [{agent: a, output: s.json}]}}", &[("s.json", bytes)]).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let config = config(
        "engines: {claude: {env: {KEY: s3cret, GONE: null}}}\nnotify: {targets: [{kind: webhook, url: 'https://example.invalid/s3cret'}]}",
    );
    let shown = config.show();
    assert_eq!(shown["config"]["engines"]["claude"]["env"], json!({"KEY": "(set)", "GONE": null}));
    assert!(!shown.to_string().contains("s3cret") && !config.show_text().contains("s3cret"));
    assert!(!format!("{:?}", config.notify()).contains("s3cret"));
}

#[test]
fn a_wildcard_matches_the_whole_text() {
    for (pattern, text, matches) in [
        ("sonnet*", "sonnet-5", true),
        ("*", "", true),
        ("a*a", "a", false),
        ("fix_*", "fix_12", true),
        ("fix_*", "prefix_1", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("abc", "abcd", false),
    ] {
        assert_eq!(wildcard(pattern, text), matches, "{pattern} {text}");
    }
}

#[test]
fn r3_1_commands_that_only_read_find_the_data_directory_of_the_whole_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE_NAME);
    let around = Surroundings { top: folder.path(), engines: &[] };
    assert_eq!(data_dir(None, folder.path()).unwrap(), load(None, around).unwrap().config.data_dir());
    for text in ["", "defaults: { data_dir: state/fia }", "defaults:\n  model: m"] {
        fs::write(&file, text).unwrap();
        let whole = load(Some(&file), around).unwrap().config.data_dir();
        assert_eq!(data_dir(Some(&file), folder.path()).unwrap(), whole, "{text}");
    }
    fs::write(&file, "defaults: { data_dirr: state }").unwrap();
    let (light, whole) = (data_dir(Some(&file), folder.path()).unwrap_err(), load(Some(&file), around).unwrap_err());
    assert_eq!(light.to_string(), whole.to_string());
}
