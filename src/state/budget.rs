//! Budgets of `stop:` (SPEC 10.3): what of them is used, what is to be warned of, and when they end a run.
//!
//! Totals are over the life of a run, so a resume does not begin anew. What unfinished turns have shown so far
//! counts as if it were spent, since it is.

use super::RunState;
use crate::event::{BudgetWarning, Outcome, Usage};
use crate::ids::PhaseName;
use crate::plan::Stop;

/// Shares of a limit that are warned of, in percent.
pub const WARNED_PERCENT: [u32; 2] = [50, 80];

/// One limit and what of it is used, in the limit's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meter {
    /// The key of `stop:`.
    pub limit: &'static str,
    /// Used so far, as far as it is known.
    pub used: f64,
    /// The limit.
    pub of: f64,
}

/// The key of the limit that each phase has for itself.
pub(super) const PHASE_TOKENS: &str = "phase_token_budget";

/// Reads every limit that is switched on. `stretch_ms` is the age of this stretch.
pub fn meters(stop: &Stop, state: &RunState, phase: Option<&PhaseName>, stretch_ms: u64) -> Vec<Meter> {
    let open = || state.spend.open.values();
    let usage = open().fold(state.spend.usage, |sum, turn| sum + turn.usage);
    let dollars = open().fold(state.spend.cost_usd, |sum, turn| sum + turn.cost_usd);
    let ended_here = phase.and_then(|name| state.phases.get(name)).map_or(Usage::NONE, |phase| phase.usage);
    let here = open().filter(|turn| turn.phase.as_ref() == phase).fold(ended_here, |sum, turn| sum + turn.usage);
    let of_phase = if phase.is_some() { stop.phase_token_budget } else { 0 };
    let all = [
        Meter { limit: "token_budget", used: real(usage.total()), of: real(stop.token_budget) },
        Meter { limit: PHASE_TOKENS, used: real(here.total()), of: real(of_phase) },
        Meter { limit: "cost_budget_usd", used: dollars, of: stop.cost_budget_usd },
        Meter {
            limit: "budget_minutes",
            used: real(state.spend.earlier_ms.saturating_add(stretch_ms)) / 60_000.0,
            of: stop.budget_minutes,
        },
    ];
    all.into_iter().filter(|meter| meter.of > 0.0).collect()
}

/// The first limit that is used up, as the end of the run.
pub fn passed(meters: &[Meter]) -> Option<(Outcome, String)> {
    let over = meters.iter().find(|meter| meter.used >= meter.of)?;
    let (used, of) = (amount(over.limit, over.used), amount(over.limit, over.of));
    Some((Outcome::BudgetExhausted, format!("`{}` is used up: {used} of {of}", over.limit)))
}

/// Shares that are reached and were not warned of.
pub fn warnings(meters: &[Meter], state: &RunState, phase: Option<&PhaseName>) -> Vec<BudgetWarning> {
    let warned_here = phase.and_then(|name| state.phases.get(name)).map(|phase| &phase.warned);
    let warned = |limit: &str, percent: u32| match (limit, warned_here) {
        (PHASE_TOKENS, Some(warned)) => warned.contains(&percent),
        _ => state.warned.contains(&(limit.to_owned(), percent)),
    };
    let is_reached = |meter: &Meter, percent: u32| meter.used * 100.0 >= meter.of * f64::from(percent);
    let highest = |meter: &Meter| WARNED_PERCENT.into_iter().rev().find(|percent| is_reached(meter, *percent));
    // Who jumps over both is warned of the higher one.
    let reached = meters.iter().filter_map(|meter| Some((meter, highest(meter)?)));
    reached
        .filter(|(meter, percent)| !warned(meter.limit, *percent))
        .map(|(meter, percent)| BudgetWarning {
            limit: meter.limit.to_owned(),
            percent,
            used: meter.used,
            of: meter.of,
        })
        .collect()
}

/// Ends a run that has changed more paths than it may; looked at before a phase only.
pub fn too_broad(stop: &Stop, state: &RunState) -> Option<(Outcome, String)> {
    let changed = state.changed.len();
    let over = stop.breadth_ceiling > 0 && u64::try_from(changed).unwrap_or(u64::MAX) > stop.breadth_ceiling;
    let reason = || format!("the run has changed {changed} paths, `breadth_ceiling` allows {}", stop.breadth_ceiling);
    over.then(|| (Outcome::BreadthExceeded, reason()))
}

fn amount(limit: &str, amount: f64) -> String {
    match limit {
        "cost_budget_usd" => format!("{amount:.2} USD"),
        "budget_minutes" => format!("{amount:.1} min"),
        _ => format!("{amount:.0} tokens"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "tokens and milliseconds of a run are far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::state::{OpenTurn, Spend};

    fn used(tokens: u64, cost_usd: f64, earlier_ms: u64) -> RunState {
        let usage = Usage { cache_read: tokens, ..Usage::default() };
        RunState { spend: Spend { usage, cost_usd, earlier_ms, ..Spend::default() }, ..RunState::default() }
    }

    fn stop() -> Stop {
        Stop { token_budget: 1000, cost_budget_usd: 2.0, budget_minutes: 10.0, ..Stop::default() }
    }

    /// The same run with a turn of this agent and phase that has not ended.
    fn open(mut state: RunState, agent: &str, tokens: u64, cost_usd: f64) -> RunState {
        let usage = Usage { output: tokens, ..Usage::default() };
        state.spend.open.insert(agent.into(), OpenTurn { phase: Some(agent.into()), usage, cost_usd });
        state
    }

    fn ends(stop: &Stop, state: &RunState, stretch_ms: u64) -> Option<String> {
        passed(&meters(stop, state, None, stretch_ms)).map(|(outcome, reason)| {
            assert_eq!(outcome, Outcome::BudgetExhausted);
            reason
        })
    }

    #[test]
    fn r10_3_each_budget_ends_the_run_when_it_is_used_up_and_not_before() {
        let quiet = |state: &RunState| assert_eq!(ends(&stop(), state, 0), None);
        quiet(&used(999, 1.99, 599_000));
        let told = |state, stretch| ends(&stop(), &state, stretch).unwrap();
        assert_eq!(told(used(1000, 0.0, 0), 0), "`token_budget` is used up: 1000 tokens of 1000 tokens");
        assert_eq!(told(used(0, 2.5, 0), 0), "`cost_budget_usd` is used up: 2.50 USD of 2.00 USD");
        assert_eq!(told(used(0, 0.0, 300_000), 300_000), "`budget_minutes` is used up: 10.0 min of 10.0 min");
    }

    #[test]
    fn r10_3_a_limit_of_0_is_off() {
        let off = Stop { token_budget: 0, phase_token_budget: 0, cost_budget_usd: 0.0, budget_minutes: 0.0, ..stop() };
        assert_eq!(ends(&off, &open(used(u64::MAX, 1e9, u64::MAX), "a", u64::MAX, 1e9), u64::MAX), None);
    }

    #[test]
    fn r10_3_what_unfinished_turns_have_used_counts_and_that_of_all_agents_together() {
        let two = |first, second, dollars| open(open(used(500, 0.5, 0), "a", first, 0.5), "b", second, dollars);
        assert_eq!(ends(&stop(), &two(300, 199, 0.9), 0), None);
        assert!(ends(&stop(), &two(300, 200, 0.9), 0).is_some());
        assert!(ends(&stop(), &two(0, 0, 1.0), 0).is_some());
        let stop = Stop { token_budget: 0, phase_token_budget: 1000, ..stop() };
        let of_phase = |phase: &str| meters(&stop, &two(300, 200, 0.0), Some(&phase.into()), 0)[0].used;
        assert_eq!((of_phase("a"), of_phase("b"), of_phase("c")), (300.0, 200.0, 0.0), "its own turns only");
    }

    #[test]
    fn r10_3_half_and_four_fifths_are_warned_of_once_each() {
        let mut state = used(500, 0.0, 0);
        let told = |state: &RunState, now| {
            let meters = meters(&stop(), &open(state.clone(), "a", now, 0.0), None, 0);
            warnings(&meters, state, None)
                .into_iter()
                .map(|warning| (warning.limit, warning.percent))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&used(499, 0.0, 0), 0), []);
        assert_eq!(told(&state, 0), [("token_budget".to_owned(), 50)]);
        assert_eq!(told(&state, 300), [("token_budget".to_owned(), 80)]);
        state.warned.insert(("token_budget".to_owned(), 50));
        assert_eq!(told(&state, 0), []);
        assert_eq!(told(&state, 300), [("token_budget".to_owned(), 80)]);
    }

    #[test]
    fn r10_3_breadth_counts_the_paths_changed_and_allows_as_many_as_it_says() {
        let mut state = RunState::default();
        let stop = Stop { breadth_ceiling: 2, ..stop() };
        for name in ["a", "b"] {
            state.changed.insert(crate::event::RepoPath::new(name.as_bytes()), (None, None));
        }
        assert_eq!(too_broad(&stop, &state), None);
        state.changed.insert(crate::event::RepoPath::new(*b"c"), (None, None));
        let (outcome, reason) = too_broad(&stop, &state).unwrap();
        assert_eq!(
            (outcome, &*reason),
            (Outcome::BreadthExceeded, "the run has changed 3 paths, `breadth_ceiling` allows 2")
        );
        assert_eq!(too_broad(&Stop { breadth_ceiling: 0, ..stop }, &state), None);
    }
}
