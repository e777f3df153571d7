use insta::{assert_json_snapshot, assert_snapshot};

use super::*;
use crate::event::{ContextPruned, EngineRelay, FailureKind, PhaseStatus};
use crate::view::paint::Paint;
use crate::view::story::{self, Story};

fn fold(story: &Story) -> ReportFold {
    let mut fold = ReportFold::default();
    story.records.iter().for_each(|record| fold.push(record));
    fold
}

fn text(story: &Story, width: Option<usize>) -> String {
    let prices = |model: &str| (model == "gpt-5.6").then_some(CachePrices { read: 0.1, write: 1.25 });
    let mut out = Vec::new();
    fold(story).report(prices).write_text(&mut out, width, Paint::Plain).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn r12_1_a_report_shows_each_phase_and_agent_and_what_rotation_saved() {
    assert_snapshot!(text(&story::fixed(), None), @"
        fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”

        PHASE     AGENT    ENGINE         REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE   COST   CONTEXT    TIME  LEASE  NOTE
        01 plan   planner  claude sonnet    8     80    38k  182k      2k    83%      1.0  $0.06     0→38k     41s  cold
        02 build  builder  pi gpt-5.6      70    700   186k  7.1M     21k    97%      1.0  $0.88    0→187k  6m 02s  cold
        04 fix_1  builder  pi gpt-5.6      31    310    42k  795k      9k    95%      1.0  $0.09  ↻  0→42k  2m 47s  cold
        total                             109     1k   266k  8.1M     33k    97%           $1.03            9m 30s

        AGENT    ENGINE         REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE   COST  LARGEST  CEILING  WINDOW  ROTATED  RELAYED
        planner  claude sonnet    8     80    38k  182k      2k    83%      1.0  $0.06      38k     180k    200k        0        0
        builder  pi gpt-5.6     101     1k   228k  7.9M     30k    97%      1.2  $0.97     187k     180k    200k        1        0

        checks, commits and approvals: 3 phases in 25s
        reads are 96% of all tokens.
        Rotating before 04 fix_1 saved about 5.3M tokens ($0.51): 31 requests at 12k–42k instead of 187k–200k, minus
        12k written again.
        saved = sum over the requests of the fresh session of (would - context), less what its first request wrote
        again; would = context of the session left + (context - context of the first request), at most the model's
        window. (fia simulate rotation --from-run k3fa shows other ceilings.)
        cache breaks: none
        ");
}

#[test]
fn fewer_tokens_that_are_dearer_are_not_shown_as_saved_dollars() {
    let dear = |_: &str| Some(CachePrices { read: 0.001, write: 100.0 });
    let report = fold(&story::fixed()).report(dear);
    let usd = report.rotations[0].saved_usd.unwrap();
    assert!(usd < -1.0, "{usd}");
    let mut out = Vec::new();
    report.write_text(&mut out, Some(200), Paint::Plain).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("saved about 5.3M tokens, but cost $1.19 more: 31 requests"), "{text}");
}

#[test]
fn in_80_columns_the_last_columns_are_missing() {
    let narrow = text(&story::fixed(), Some(80));
    assert!(narrow.lines().all(|line| crate::view::text::width(line) <= 80), "{narrow}");
    assert!(narrow.contains("READ") && !narrow.contains("LEASE"), "{narrow}");
}

#[test]
fn unknown_stays_unknown() {
    let story = Story::begins("review", "x")
        .phase("01_build", "builder")
        .turn(None)
        .reads([10_000])
        .turn_ends(Some(0.5))
        .ends(PhaseStatus::Success)
        .phase("02_review", "reviewer")
        .turn(None)
        .turn_ends(None)
        .ends(PhaseStatus::Success);
    assert_snapshot!(text(&story, None), @"
        fia 20261130-142210-k3fa  review  “x”

        PHASE      AGENT     ENGINE      REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE    COST  CONTEXT  TIME  LEASE  NOTE
        01 build   builder   pi gpt-5.6    1     10    10k     0     300     0%      1.0   $0.50    0→10k    5s  cold
        02 review  reviewer  cursor        0      –      –     –       –      –        –       –      0→–   0ms  cold
        total                              1    ≥10   ≥10k    ≥0    ≥300     0%           ≥$0.50             5s

        AGENT     ENGINE      REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE   COST  LARGEST  CEILING  WINDOW  ROTATED  RELAYED
        builder   pi gpt-5.6    1     10    10k     0     300     0%      1.0  $0.50      10k     180k    200k        0        0
        reviewer  cursor        0      –      –     –       –      –        –      –        –     180k       –        0        0

        no outcome yet: `≥` stands before what is known so far.
        reads are 0% of all tokens.
        cache breaks: none
        ");
    let report = fold(&story).report(|_| None);
    assert_eq!((report.run.spend.tokens, report.run.spend.cost_usd), (None, None));
}

#[test]
fn breaks_relays_and_pruning_are_told() {
    let broken =
        |cause, expected| Event::CacheBreak(CacheBreak { agent: "builder".into(), expected, seen: 4_000, cause });
    let story = Story::begins("build", "x")
        .phase("01_build", "builder")
        .turn(None)
        .reads([60_000])
        .event(broken(BreakCause::TtlPassed, 60_000))
        .event(broken(BreakCause::TtlPassed, 64_000))
        .event(broken(BreakCause::Unknown, 9_000))
        .event(Event::ContextPruned(ContextPruned {
            agent: "builder".into(),
            reason: "ttl".to_owned(),
            soft: 2,
            hard: 1,
            chars_before: 100_000,
            chars_after: 60_000,
            ratio_before: 0.3,
            ratio_after: 0.2,
            gap_ms: Some(400_000),
            first_changed: None,
        }))
        .reads([50_000, 51_000])
        .event(Event::EngineRelay(EngineRelay {
            agent: "builder".into(),
            from: EngineName::Pi,
            from_model: "gpt-5.6".to_owned(),
            to: EngineName::Claude,
            to_model: "sonnet".to_owned(),
            choice: 1,
            kind: FailureKind::Limit,
            phase: "01_build".into(),
            at_resume: false,
        }))
        .turn_ends(Some(0.1))
        .ends(PhaseStatus::Success);
    assert_snapshot!(text(&story, None), @"
        fia 20261130-142210-k3fa  build  “x”

        PHASE     AGENT    ENGINE      REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE   COST  CONTEXT  TIME  LEASE  NOTE
        01 build  builder  pi gpt-5.6    3     30    61k  100k     900    62%      1.0  $0.10    0→51k   15s  cold   ⇄ 1 relay, cache breaks: 2 ttl passed (116k tokens), 1 unknown (5k tokens)
        total                            3     30    61k  100k     900    62%           $0.10            15s

        AGENT    ENGINE      REQ  INPUT  WRITE  READ  OUTPUT  CACHE  REWRITE   COST  LARGEST  CEILING  WINDOW  ROTATED  RELAYED
        builder  pi gpt-5.6    3     30    61k  100k     900    62%      1.0  $0.10      60k     180k    200k        0        1

        no outcome yet: `≥` stands before what is known so far.
        reads are 62% of all tokens.
        Pruning removed 40k characters in 1 round and saved about 20k reads over 2 requests, at four characters a
        token.
        cache breaks: 2 ttl passed (116k tokens), 1 unknown (5k tokens)
        ");
}

#[test]
fn json_has_exact_figures_and_says_how_they_came_about() {
    let report = serde_json::to_value(fold(&story::fixed()).report(|_| None)).unwrap();
    assert_json_snapshot!(report["phases"][3], @r#"
        {
          "phase": "04_fix_1",
          "kind": "agent",
          "status": "success",
          "agent": "builder",
          "engine": "pi",
          "model": "gpt-5.6",
          "level": null,
          "lease": "cold",
          "spend": {
            "turns": 1,
            "requests": 31,
            "tokens": {
              "input": 310,
              "output": 9300,
              "cache_read": 795000,
              "cache_write": 41690
            },
            "tokens_known": {
              "input": 310,
              "output": 9300,
              "cache_read": 795000,
              "cache_write": 41690
            },
            "cost_usd": 0.09,
            "cost_known_usd": 0.09
          },
          "cache_hit_ratio": 0.9498207885304659,
          "rewrite_factor": 0.9926190476190476,
          "context_before": 0,
          "context_after": 42000,
          "context_max": 42000,
          "ceiling": 180000,
          "window": 200000,
          "rotations": 1,
          "relays": 0,
          "cache_breaks": {},
          "elapsed_ms": 167000
        }
        "#);
    assert_json_snapshot!(report["rotations"], @r#"
        [
          {
            "agent": "builder",
            "phase": "04_fix_1",
            "reason": "ceiling",
            "left": 187000,
            "requests": 31,
            "context": [
              12000,
              42000
            ],
            "would": [
              187000,
              200000
            ],
            "reads_saved": 5272000,
            "written_again": 12000,
            "saved_tokens": 5260000,
            "saved_usd": null
          }
        ]
        "#);
    assert_eq!(report["rotation_formula"], ROTATION_FORMULA);
}
