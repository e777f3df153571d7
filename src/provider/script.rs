//! Which response of a scenario answers a request.

use std::collections::HashMap;

use super::request::{Request, canonical, sha256};
use super::scenario::{MainRequests, Repeat, Response, Scenario};

/// A scenario and how far it has been played.
#[derive(Debug)]
pub(super) struct Script {
    scenario: Scenario,
    queue: QueuePosition,
    attempts: HashMap<Attempted, usize>,
}

#[derive(Debug, Default)]
struct QueuePosition {
    entry: usize,
    used: u64,
}

/// What makes two requests attempts at the same step: rule, step, and everything said so far.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Attempted {
    rule: usize,
    step: usize,
    messages_sha256: String,
}

impl Script {
    /// A scenario from its beginning.
    pub(super) fn new(scenario: Scenario) -> Self {
        Self { scenario, queue: QueuePosition::default(), attempts: HashMap::new() }
    }

    /// The token factor that the scenario names.
    pub(super) fn growth(&self) -> Option<f64> {
        self.scenario.growth
    }

    /// The response to a request, and where in the scenario it stands.
    pub(super) fn pick(&mut self, request: &Request<'_>) -> (Response, String) {
        if self.scenario.main == MainRequests::Auto && request.is_side_request() {
            let response = self.scenario.side.clone();
            return (response.unwrap_or_else(|| Response::text(r#"{"title": "Loopback session"}"#)), "side".to_owned());
        }
        if let Some(picked) = self.by_rule(request) {
            return picked;
        }
        if let Some(picked) = self.next_in_queue() {
            return picked;
        }
        (self.scenario.exhausted.clone().unwrap_or_else(|| Response::text("done")), "exhausted".to_owned())
    }

    fn by_rule(&mut self, request: &Request<'_>) -> Option<(Response, String)> {
        let (human, step) = request.position();
        let mut rules = self.scenario.rules.iter().enumerate();
        let (index, rule) = rules.find(|(_, rule)| human.contains(&rule.pattern))?;
        let attempts = match rule.steps.get(step).or(rule.steps.last()) {
            Some(attempts) => &attempts.0[..],
            None => &[],
        };
        let messages_sha256 = sha256(&canonical(request.field("messages")));
        let attempt = self.attempts.entry(Attempted { rule: index, step, messages_sha256 }).or_default();
        let response = attempts.get(*attempt).or(attempts.last()).cloned().unwrap_or_else(|| Response::text("done"));
        *attempt += 1;
        Some((response, format!("rule {index} step {step}")))
    }

    fn next_in_queue(&mut self) -> Option<(Response, String)> {
        let entry = self.queue.entry;
        let response = self.scenario.responses.get(entry)?.clone();
        self.queue.used += 1;
        match response.repeat {
            Repeat::Times(times) if self.queue.used >= times => {
                self.queue = QueuePosition { entry: entry + 1, used: 0 };
            }
            Repeat::Times(_) | Repeat::Forever => {}
        }
        Some((response, format!("queue {entry}")))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn script(scenario: Value) -> Script {
        Script::new(Scenario::from_value(scenario).unwrap())
    }

    /// Picks for a human message with so many answers behind it.
    fn pick(script: &mut Script, human: &str, answers: usize) -> (Response, String) {
        let mut messages = vec![json!({"role": "user", "content": human})];
        messages.extend((0..answers).map(|n| json!({"role": "assistant", "content": n.to_string()})));
        let body = json!({"messages": messages, "tools": [{"name": "Read"}]});
        script.pick(&Request::new(&body, &HeaderMap::new()))
    }

    fn said(text: &str, place: &str) -> (Response, String) {
        (Response::text(text), place.to_owned())
    }

    #[test]
    fn a_rule_answers_by_the_number_of_answers_so_far_and_repeats_its_last_step() {
        let mut script = script(json!({"rules": [
            {"match": "JOB-1", "steps": [{"text": "a"}, {"text": "b"}]},
            {"match": "JOB", "steps": []},
        ]}));
        assert_eq!(pick(&mut script, "do JOB-1 now", 1), said("b", "rule 0 step 1"));
        assert_eq!(pick(&mut script, "do JOB-1 now", 0), said("a", "rule 0 step 0"));
        assert_eq!(pick(&mut script, "do JOB-1 now", 7), said("b", "rule 0 step 7"));
        assert_eq!(pick(&mut script, "JOB-2", 0), said("done", "rule 1 step 0"));
        assert_eq!(pick(&mut script, "else", 0), said("done", "exhausted"));
    }

    #[test]
    fn attempts_at_a_step_are_counted_by_all_that_was_said() {
        let mut script = script(json!({"rules": [{"match": "JOB", "steps": [[{"text": "a"}, {"text": "b"}]]}]}));
        let texts = ["JOB 1", "JOB 1", "JOB 1", "JOB 2"].map(|human| pick(&mut script, human, 0).0);
        assert_eq!(texts, ["a", "b", "b", "a"].map(Response::text));
    }

    #[test]
    fn the_queue_is_taken_in_order_and_an_entry_may_stay() {
        let mut played = script(json!({"responses": [{"text": "a", "repeat": 2}, {"text": "b"}],
                                       "exhausted": {"text": "z"}}));
        let places: Vec<String> = (0..4).map(|_| pick(&mut played, "x", 0).1).collect();
        assert_eq!(places, ["queue 0", "queue 0", "queue 1", "exhausted"]);
        let mut endless = script(json!({"responses": [{"text": "a", "repeat": -1}, {"text": "b"}]}));
        assert!((0..9).all(|_| pick(&mut endless, "x", 0).1 == "queue 0"));
    }

    #[test]
    fn a_request_of_claude_without_tools_takes_nothing_from_the_queue() {
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", "claude-cli/2.1.332 (external)".parse().unwrap());
        let body = json!({"messages": [{"role": "user", "content": "name this"}]});
        let place = |scenario: Value| script(scenario).pick(&Request::new(&body, &headers)).1;
        assert_eq!(place(json!({"responses": [{"text": "a"}]})), "side");
        assert_eq!(place(json!({"responses": [{"text": "a"}], "main": "all"})), "queue 0");
    }
}
