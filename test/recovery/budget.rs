use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;

use crate::story::{Story, Told};

/// A call that does not end: what an engine does before it hears that it is to end is told, and counts.
const ENDLESS: &str = "exec sleep 600";

/// Calls that end.
const WRITES: [&str; 4] = ["echo 1 > a", "echo 1 > b", "echo 1 > c", "echo 1 > d"];

/// A turn of model calls of 1000 tokens: one before each tool, one for the answer.
fn turn(tools: &[&str]) -> String {
    let tools: Vec<String> = tools.iter().map(|line| format!("{{ run: {line:?} }}")).collect();
    let usage = "{ input: 900, output: 100, cache_read: 0, cache_write: 0 }";
    format!("[{{ usage: {usage}, do: [{}] }}]", tools.join(", "))
}

/// A first phase of these tools, or of those that end when it is resumed; then one without any.
fn script(tools: &[&str]) -> String {
    format!("phases: {{ build: {}, build@2: {}, polish: {} }}", turn(tools), turn(&WRITES), turn(&[]))
}

fn story(stop: &str, tools: &[&str]) -> Story {
    Story::new("model: one", &format!("engines: {{ SCRIPTED }}\nstop: {{ {stop} }}\n"), &script(tools))
}

fn requests(told: &Told) -> Vec<(String, u32)> {
    told.of(|event| match event {
        Event::AgentEnd(end) => Some((format!("{:?}", end.ended), end.requests)),
        _ => None,
    })
}

#[tokio::test]
async fn r10_3_a_turn_ends_with_the_request_that_used_up_the_budget_of_its_phase() {
    let mut story = story("phase_token_budget: 3000", &["true", "true", ENDLESS]);
    let told = story.run().await;
    assert_eq!(requests(&told), [("Stopped".to_owned(), 3)]);
    assert_eq!(
        told.story()[2..],
        [
            "50 % of phase_token_budget",
            "80 % of phase_token_budget",
            "turn Stopped",
            "build ends: Stopped",
            "budget_exhausted"
        ]
    );
    assert_eq!(told.reason, "`phase_token_budget` is used up: 3000 tokens of 3000 tokens");
    let spent = told.of(|event| match event {
        Event::AgentEnd(end) => end.usage.map(|usage| usage.total()),
        _ => None,
    });
    assert_eq!(spent, [3000], "what the unfinished turn showed is counted");
    // Totals survive a resume: nothing is started until the limit is raised.
    let told = story.resume().await;
    assert_eq!((told.outcome, requests(&told)), (Outcome::BudgetExhausted, Vec::new()));
    story.reconfigure("phase_token_budget: 3000", "phase_token_budget: 30000");
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_3_the_request_that_brings_the_answer_is_let_finish_and_the_next_phase_not_begun() {
    let told = story("token_budget: 5000", &WRITES).run().await;
    assert_eq!(requests(&told), [("Completed".to_owned(), 5)]);
    assert_eq!(
        told.story()[2..],
        ["50 % of token_budget", "80 % of token_budget", "turn Completed", "build ends: Success", "budget_exhausted"]
    );
}

#[tokio::test]
async fn r10_3_a_budget_that_is_not_used_up_ends_nothing() {
    let limits = "token_budget: 100000, phase_token_budget: 50000, cost_budget_usd: 9, budget_minutes: 60";
    let told = story(limits, &WRITES).run().await;
    assert_eq!(told.outcome, Outcome::GoalMet);
    assert!(!told.story().iter().any(|line| line.contains('%')), "{:?}", told.story());
}

#[tokio::test]
async fn r10_3_dollars_of_an_unfinished_turn_count_where_the_model_has_prices() {
    let priced = "models: { one: { prices: { input: 1000, output: 1000, cache_read: 1, write_5m: 1, write_1h: 1 }, as_of: 2026-11-01 } }\n";
    let more = format!("engines: {{ SCRIPTED }}\nstop: {{ cost_budget_usd: 2 }}\n{priced}");
    let told = Story::new("model: one", &more, &script(&["true", ENDLESS])).run().await;
    assert_eq!(requests(&told), [("Stopped".to_owned(), 2)], "a dollar a request");
    assert_eq!(told.outcome, Outcome::BudgetExhausted);
    let unpriced = story("cost_budget_usd: 2", &WRITES).run().await;
    assert_eq!(requests(&unpriced).len(), 2, "without prices the turn's own report counts, at its end");
}

#[tokio::test]
async fn r10_3_agents_of_a_block_see_what_all_of_them_have_used() {
    let agents = "model: one, writes: [] }\n  - { name: second, model: one, writes: []";
    let block = "      - { name: both, parallel: [{ name: one, agent: builder }, { name: two, agent: second }] }\n\
                 engines: { SCRIPTED }\nstop: { token_budget: 5000 }\n";
    // The first makes its second call when the other has made one, which makes its second when the first has ended.
    let first = ["until [ -e ../two ]; do sleep 0.01; done", ENDLESS];
    let ended = "until [ $(grep -c '\"type\":\"agent_end\"' .fia/runs/*/events.jsonl) = 3 ]; do sleep 0.01; done";
    let second = [&format!("touch ../two; {ended}"), ENDLESS];
    let (alone, first, second) = (turn(&[]), turn(&first), turn(&second));
    let script = format!("phases: {{ build: {alone}, polish: {alone}, one: {first}, two: {second} }}");
    let told = Story::new(agents, block, &script).run().await;
    assert_eq!(told.outcome, Outcome::BudgetExhausted);
    let stopped = ("Stopped".to_owned(), 2);
    assert_eq!(requests(&told)[2..], [stopped.clone(), stopped], "three were left, and one was under way");
}

#[tokio::test]
async fn r10_3_breadth_is_looked_at_before_a_phase() {
    let told = story("breadth_ceiling: 3", &WRITES).run().await;
    assert_eq!(told.story()[2..], ["turn Completed", "build ends: Success", "breadth_exceeded"]);
    assert_eq!(told.reason, "the run has changed 4 paths, `breadth_ceiling` allows 3");
    assert_eq!(story("breadth_ceiling: 4", &WRITES).run().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_3_minutes_of_the_whole_run_bound_a_wait_and_hold_after_it() {
    let script = "phases: { build: [{ fail: { kind: limit, retry_after: '2026-11-30T12:38:00Z' } }], build@2: [{}] }";
    let with = |minutes: u32| {
        let more = format!("engines: {{ SCRIPTED }}\nstop: {{ budget_minutes: {minutes} }}\n");
        Story::new("model: one", &more, script)
    };
    assert_eq!(with(30).run().await.outcome, Outcome::EngineExhausted, "nothing could follow the wait");
    assert_eq!(with(60).run().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_3_minutes_of_earlier_stretches_count() {
    let script = "phases: { build: [{ fail: { kind: limit, retry_after: '2026-11-30T12:38:00Z' } }], build@2: [{ fail: { kind: login } }] }";
    let mut story = Story::new("model: one", "engines: { SCRIPTED }\nstop: { budget_minutes: 60 }\n", script);
    assert_eq!(story.run().await.outcome, Outcome::EngineExhausted);
    story.reconfigure("budget_minutes: 60", "budget_minutes: 37");
    assert_eq!(story.resume().await.story(), ["80 % of budget_minutes", "budget_exhausted"]);
}
