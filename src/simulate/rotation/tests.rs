use super::recorded::{Recorded, replay};
use super::*;
use crate::event::Usage;
use pretty_assertions::assert_eq;

fn outcome(scenario: usize, policy: &str) -> Outcome {
    let policy = Policy::ALL.into_iter().find(|known| known.name() == policy).unwrap();
    run(&Scenario::all()[scenario].script(), policy, &Rates::STANDARD)
}

/// A line of the table: thousands in the seven scenarios, and the percents.
fn line(policy: &str) -> Vec<String> {
    (0..7)
        .map(|scenario| {
            let outcome = outcome(scenario, policy);
            let saved = saving(&outcome, &self::outcome(scenario, "never"));
            format!("{} ({saved})", thousands(rounded(outcome.cost / 1000.0)))
        })
        .collect()
}

/// Cost in thousands in the scenarios A to G, and percents against never.
const TABLE: &str = "
never | 20,660 (0%) | 29,709 (0%) | 31,205 (0%) | 8,659 (0%) | 33,844 (0%) | 21,144 (0%) | 18,682 (0%)
60k | 7,367 (-64%) | 10,104 (-66%) | 10,173 (-67%) | 7,696 (-11%) | 14,269 (-58%) | 7,895 (-63%) | 3,667 (-80%)
each phase | 7,367 (-64%) | 10,104 (-66%) | 10,173 (-67%) | 7,696 (-11%) | 14,269 (-58%) | 7,895 (-63%) | 3,667 (-80%)
break-even | 7,367 (-64%) | 10,104 (-66%) | 10,173 (-67%) | 7,696 (-11%) | 14,269 (-58%) | 7,895 (-63%) | 3,667 (-80%)
120k | 7,992 (-61%) | 11,036 (-63%) | 11,192 (-64%) | 8,628 (0%) | 14,269 (-58%) | 8,502 (-60%) | 6,429 (-66%)
180k | 9,520 (-54%) | 13,307 (-55%) | 13,623 (-56%) | 8,659 (0%) | 15,189 (-55%) | 10,021 (-53%) | 7,794 (-58%)
300k | 11,764 (-43%) | 16,790 (-43%) | 17,175 (-45%) | 8,659 (0%) | 17,454 (-48%) | 12,257 (-42%) | 10,746 (-42%)
60k mid | 3,881 (-81%) | 4,614 (-84%) | 4,798 (-85%) | 4,614 (-47%) | 9,035 (-73%) | 4,634 (-78%) | 3,762 (-80%)
120k mid | 5,362 (-74%) | 7,343 (-75%) | 7,666 (-75%) | 7,343 (-15%) | 9,780 (-71%) | 5,928 (-72%) | 5,648 (-70%)
180k mid | 6,993 (-66%) | 9,686 (-67%) | 10,015 (-68%) | 8,659 (0%) | 12,022 (-64%) | 7,524 (-64%) | 6,895 (-63%)
break-even mid | 3,842 (-81%) | 4,490 (-85%) | 4,559 (-85%) | 4,490 (-48%) | 9,114 (-73%) | 4,927 (-77%) | 3,378 (-82%)
cold > S mid | 20,660 (0%) | 4,411 (-85%) | 4,468 (-86%) | 4,411 (-49%) | 8,049 (-76%) | 21,144 (0%) | 3,667 (-80%)
cold > S or 180k mid | 6,993 (-66%) | 4,411 (-85%) | 4,468 (-86%) | 4,411 (-49%) | 8,049 (-76%) | 7,524 (-64%) | 3,667 (-80%)";

#[test]
fn r12_2_the_table_of_policies_and_scenarios() {
    let lines: Vec<&str> = TABLE.trim().lines().collect();
    assert_eq!(lines.len(), Policy::ALL.len());
    for (policy, expected) in Policy::ALL.into_iter().zip(lines) {
        let name = policy.name();
        assert_eq!(format!("{name} | {}", line(&name).join(" | ")), expected);
    }
}

#[test]
fn r12_2_scenario_b_in_detail() {
    for (policy, written, read, share, largest, rotations) in [
        ("never", 8_514_000, 190_642_000, "95.7", 645, 0),
        ("180k", 3_961_500, 83_526_500, "95.5", 285, 2),
        ("180k mid", 3_049_500, 58_720_500, "95.1", 180, 4),
        ("60k mid", 1_640_500, 25_615_000, "94.0", 64, 24),
        ("break-even mid", 2_119_500, 18_378_500, "89.6", 62, 68),
        ("cold > S mid", 1_454_000, 25_910_000, "94.7", 64, 23),
    ] {
        let ours = outcome(1, policy);
        assert_eq!((ours.written, ours.read, ours.rotations), (written, read, rotations), "{policy}");
        assert_eq!(format!("{:.1}", 100.0 * ours.read_share()), share, "{policy}");
        assert_eq!(ours.largest / 1000, largest, "{policy}");
    }
}

#[test]
fn r12_2_one_phase_that_never_rotates() {
    for (requests, millions, shares) in [
        (60, "3.9", ["97.5", "95.4", "93.8", "92.1", "89.2"]),
        (120, "11.5", ["98.6", "96.7", "95.2", "93.5", "89.5"]),
        (250, "40.2", ["99.3", "97.7", "95.7", "94.1", "89.7"]),
        (590, "195.2", ["99.7", "97.8", "95.7", "94.2", "89.9"]),
    ] {
        let phase = |stall| run(&Scenario::one_phase(requests, stall).script(), Policy::ALL[0], &Rates::STANDARD);
        assert_eq!([0, 50, 25, 18, 10].map(|stall| format!("{:.1}", 100.0 * phase(stall).read_share())), shares);
        assert_eq!(format!("{:.1}", real(phase(0).tokens()) / 1e6), millions);
    }
}

#[test]
fn r12_2_another_ceiling_gives_other_figures() {
    let script = Scenario::all()[1].script();
    let cost = |ceiling| run(&script, Policy { rule: Rule::Ceiling(ceiling), mid_phase: true }, &Rates::STANDARD).cost;
    assert_eq!([50_000, 70_000, 90_000].map(|ceiling| rounded(cost(ceiling) / 1000.0)), [4816, 5432, 6210]);
}

#[test]
fn r12_2_a_simulation_shows_its_rows_and_the_published_figures() {
    let simulation = simulate();
    assert_eq!(simulation.rows.len(), 13 * 7 + 4 * 5);
    let text = simulation.text();
    assert!(text.contains("180k mid"), "{text}");
    assert!(text.contains("units of 755M cache reads"), "{text}");
    let json = serde_json::to_value(&simulation).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["simulation", "prices", "assumptions", "rows", "published"]);
}

fn recorded() -> Vec<Recorded> {
    let mut requests = Vec::new();
    let mut context = 0;
    for (phase, count) in [(1, 100), (2, 60)] {
        for done in 0..count {
            let cold = done == 0;
            let (read, write) = if context == 0 {
                (20_000, 10_000)
            } else if cold {
                (0, context + 1500)
            } else {
                (context, 1500)
            };
            context = read + write;
            let minutes = i64::from(phase) * 120 + i64::from(done);
            let usage = Usage { input: 4, cache_read: read, cache_write: write, ..Usage::default() };
            requests.push(Recorded {
                at_ms: minutes * 60_000,
                phase,
                session: 1,
                context: context + 4,
                usage: Some(usage),
            });
        }
    }
    requests
}

#[test]
fn r12_2_a_recorded_run_under_other_policies() {
    let requests = recorded();
    let script = Script::recorded(&requests, CacheLifetime::FiveMinutes).unwrap();
    assert_eq!((script.base, script.first, script.requests.len()), (20_000, 30_004, 160));
    assert_eq!(script.requests.iter().filter(|request| request.cold).count(), 2);
    let never = run(&script, Policy::ALL[0], &Rates::STANDARD);
    assert_eq!((never.largest, never.rotations), (requests[159].context, 0));

    let simulation = replay(&requests, CacheLifetime::FiveMinutes, Some(90_000)).unwrap();
    let policies: Vec<&str> = simulation.rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!((policies[0], policies[14], policies[15]), ("as recorded", "90k", "90k mid"));
    let cost = |at: usize| simulation.rows[at]["cost"].as_f64().unwrap();
    assert!((cost(0) / cost(1) - 1.0).abs() < 0.02, "{} {}", cost(0), cost(1));
    assert!(cost(15) < cost(14) && cost(14) < cost(1));
}

#[test]
fn r12_2_a_recorded_run_without_usage_says_what_it_leaves_out() {
    let mut requests = recorded();
    requests[3].usage = None;
    let simulation = replay(&requests, CacheLifetime::FiveMinutes, None).unwrap();
    assert_eq!(simulation.rows[0]["policy"], "never");
    assert!(simulation.assumptions.last().unwrap().contains("left out"));
    assert!(replay(&[], CacheLifetime::FiveMinutes, None).is_none());
}
