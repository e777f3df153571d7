//! What a run costs with the real claude under three policies of rotation, at a provider that caches as real ones do.

use fia::economy::prices::Rates;
use fia::event::Usage;
use fia::provider::{CacheScope, LoggedRequest, Options};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::runs::{Cli, Stage, of, report};
use super::support::test_env::TestEnv;

/// The ceiling that is configured unless somebody says otherwise, in tokens.
const CEILING: u64 = 180_000;

/// Phases of one builder.
const PHASES: [&str; 4] = ["model", "store", "view", "polish"];

/// Requests of a phase, the last of which reports.
const REQUESTS: usize = 12;

/// Twelve requests a phase, each with a result of about 5,000 tokens. A fresh session first reads again what it needs.
fn scenario() -> Value {
    let read = json!({"do": "bash", "command": "head -c 21000 /dev/zero | tr '\\0' x"});
    let mut work = vec![read.clone(); REQUESTS - 1];
    work.push(json!({"text": report(&json!({"status": "success", "summary": "done"}))}));
    let after_rotation = [vec![read; 3], work.clone()].concat();
    json!({"rules": [
        {"match": "# Fresh session", "steps": after_rotation},
        {"match": "JOB-7", "steps": work},
    ], "exhausted": {"text": "no rule matched"}})
}

/// What a run came to.
#[derive(Debug)]
struct Bill {
    units: f64,
    written: u64,
    read: u64,
    largest: u64,
    rotations: Vec<(String, String)>,
}

fn usage(request: &LoggedRequest) -> Option<Usage> {
    let tokens = |field| request.usage(field).unwrap_or(0);
    request.context_tokens()?;
    let (cache_read, cache_write) = (tokens("cache_read_input_tokens"), tokens("cache_creation_input_tokens"));
    Some(Usage { input: tokens("input_tokens"), output: 0, cache_read, cache_write, cache_write_1h: 0 })
}

/// Runs the four phases under a policy and adds up what the provider saw.
fn bill(policy: &str) -> Bill {
    let options = Options { cache_scope: CacheScope::Model, ..Options::default() };
    let stage = Stage::with(Cli::Claude, scenario(), TestEnv::new(), options);
    let config = stage.env.read("fia.config.yaml");
    let model = format!("model: {} }}", Cli::Claude.model());
    assert!(config.contains(&model), "{config}");
    let config = config.replace(&model, &format!("model: {}, {policy} }}", Cli::Claude.model()));
    let steps: Vec<String> =
        PHASES.iter().map(|name| format!("      - {{ name: {name}, agent: builder }}\n")).collect();
    stage.env.write("fia.config.yaml", &format!("{config}workflows:\n  four:\n    steps:\n{}", steps.concat()));
    let finished = stage.run(&["run", "four", "JOB-7", "-q"]);
    assert!(finished.status.success(), "{finished}");
    let events = stage.events();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let rotations = of(&events, "session_rotation");
    let rotations = rotations.iter().map(|event| (text(event, "phase"), text(&event["payload"], "reason")));
    let requests = stage.provider.requests();
    let usages: Vec<Usage> = requests.iter().filter_map(usage).collect();
    Bill {
        units: usages.iter().map(|usage| Rates::STANDARD.units(usage)).sum(),
        written: usages.iter().map(|usage| usage.cache_write).sum(),
        read: usages.iter().map(|usage| usage.cache_read).sum(),
        largest: usages.iter().map(Usage::context).max().unwrap_or(0),
        rotations: rotations.collect(),
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r6_9_rotating_by_price_costs_less_than_at_a_ceiling_and_than_never() {
    let never = bill("session_rotation_context: 0");
    let ceiling = bill(&format!("session_rotation_context: {CEILING}"));
    let price = bill(&format!("session_rotation: break_even, session_rotation_context: {CEILING}"));
    println!("policy        units   of never   written        read   largest  rotations");
    for (name, bill) in [("never", &never), ("ceiling", &ceiling), ("break_even", &price)] {
        let (share, count) = (100.0 * bill.units / never.units, bill.rotations.len());
        let Bill { units, written, read, largest, .. } = bill;
        println!("{name:10} {units:9.0} {share:9.1}% {written:9} {read:11} {largest:9} {count:10}");
    }
    let rotated = |phase: &str, reason: &str| (phase.to_owned(), reason.to_owned());
    assert_eq!(never.rotations, []);
    assert_eq!(ceiling.rotations, [rotated("04_polish", "ceiling")]);
    assert_eq!(price.rotations[0], rotated("02_store", "break_even"));
    assert!(price.units < ceiling.units && ceiling.units < never.units, "{never:?} {ceiling:?} {price:?}");
}
