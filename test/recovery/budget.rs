use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;

use crate::story::{Story, Told};

/// Five model calls of 1000 tokens: one before each write, one for the answer.
const FIVE: &str = "phases:\n  build: [{ usage: { input: 900, output: 100, cache_read: 0, cache_write: 0 }, do: [\n\
    { write: { a: '1' } }, { write: { b: '1' } }, { write: { c: '1' } }, { write: { d: '1' } } ] }]\n\
    \x20 polish: [{ usage: { input: 900, output: 100, cache_read: 0, cache_write: 0 } }]\n";

fn story(stop: &str) -> Story {
    Story::new("model: one", &format!("engines: {{ SCRIPTED }}\nstop: {{ {stop} }}\n"), FIVE)
}

fn requests(told: &Told) -> Vec<(String, u32)> {
    told.of(|event| match event {
        Event::AgentEnd(end) => Some((format!("{:?}", end.ended), end.requests)),
        _ => None,
    })
}

#[tokio::test]
async fn r10_3_a_turn_ends_with_the_request_that_used_up_the_budget_of_its_phase() {
    let mut story = story("phase_token_budget: 3000");
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
    let told = story("token_budget: 5000").run().await;
    assert_eq!(requests(&told), [("Completed".to_owned(), 5)]);
    assert_eq!(
        told.story()[2..],
        ["50 % of token_budget", "80 % of token_budget", "turn Completed", "build ends: Success", "budget_exhausted"]
    );
}

#[tokio::test]
async fn r10_3_a_budget_that_is_not_used_up_ends_nothing() {
    let told =
        story("token_budget: 100000, phase_token_budget: 50000, cost_budget_usd: 9, budget_minutes: 60").run().await;
    assert_eq!(told.outcome, Outcome::GoalMet);
    assert!(!told.story().iter().any(|line| line.contains('%')), "{:?}", told.story());
}

#[tokio::test]
async fn r10_3_dollars_of_an_unfinished_turn_count_where_the_model_has_prices() {
    let priced = "models: { one: { prices: { input: 1000, output: 1000, cache_read: 1, write_5m: 1, write_1h: 1 }, as_of: 2026-11-01 } }\n";
    let more = format!("engines: {{ SCRIPTED }}\nstop: {{ cost_budget_usd: 2 }}\n{priced}");
    let told = Story::new("model: one", &more, FIVE).run().await;
    assert_eq!(requests(&told), [("Stopped".to_owned(), 2)], "a dollar a request");
    assert_eq!(told.outcome, Outcome::BudgetExhausted);
    let unpriced = story("cost_budget_usd: 2").run().await;
    assert_eq!(requests(&unpriced).len(), 2, "without prices the turn's own report counts, at its end");
}

#[tokio::test]
async fn r10_3_agents_of_a_block_see_what_all_of_them_have_used() {
    let agents = "model: one, writes: [] }\n  - { name: second, model: one, writes: []";
    let block = "      - { name: both, parallel: [{ name: one, agent: builder }, { name: two, agent: second }] }\n\
                 engines: { SCRIPTED }\nstop: { token_budget: 5000 }\n";
    let turn = |first: &str| {
        let usage = "{ input: 900, output: 100, cache_read: 0, cache_write: 0 }";
        let rest = "{ run: 'true' }, { run: 'true' }, { run: 'true' }";
        format!("[{{ usage: {usage}, do: [{first}{rest}] }}]")
    };
    let (waits, comes) = ("{ run: 'until [ -e ../two ]; do sleep 0.01; done' }, ", "{ run: 'touch ../two' }, ");
    let of_block = format!("one: {}, two: {}", turn(waits), turn(comes));
    let one = "[{ usage: { input: 900, output: 100, cache_read: 0, cache_write: 0 } }]";
    let script = format!("phases: {{ build: {one}, polish: {one}, {of_block} }}");
    let told = Story::new(agents, block, &script).run().await;
    assert_eq!(told.outcome, Outcome::BudgetExhausted);
    let (ended, made): (Vec<_>, Vec<_>) = requests(&told)[2..].iter().cloned().unzip();
    assert_eq!(ended, ["Stopped", "Stopped"]);
    assert!((3..=4).contains(&made.iter().sum::<u32>()), "three are left, and one may be under way: {made:?}");
}

#[tokio::test]
async fn r10_3_breadth_is_looked_at_before_a_phase() {
    let told = story("breadth_ceiling: 3").run().await;
    assert_eq!(told.story()[2..], ["turn Completed", "build ends: Success", "breadth_exceeded"]);
    assert_eq!(told.reason, "the run has changed 4 paths, `breadth_ceiling` allows 3");
    assert_eq!(story("breadth_ceiling: 4").run().await.outcome, Outcome::GoalMet);
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
