//! Which resident processes live, and which one ends: decisions only, the processes are the caller's.
//!
//! A busy process is never ended for room. Callers hold one lock over a decision and what follows from
//! it, so that a sweep never ends what was just leased.

use std::collections::BTreeMap;
use std::time::Duration;

/// Processes that live at once, those that are still starting counted.
pub const MAX_RESIDENTS: usize = 4;

/// Time without a turn, from the end of the last one, after which a process ends.
pub const IDLE_LIMIT: Duration = Duration::from_secs(1800);

/// The residents of a run by key, each busy or idle. Times are spans since any fixed point.
#[derive(Debug, Clone)]
pub struct Pool<K> {
    residents: BTreeMap<K, State>,
    max: usize,
    idle_limit: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Busy,
    IdleSince(Duration),
}

/// What a turn may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease<K> {
    /// The living process of this key.
    Warm,
    /// A process to be started, after this other one was ended.
    Start {
        /// The one to end first, if room is needed.
        evict: Option<K>,
    },
    /// A process outside the pool, for this turn alone: every place is busy, or this key's own process is.
    Outside,
}

impl<K: Ord + Clone> Default for Pool<K> {
    fn default() -> Self {
        Self::new(MAX_RESIDENTS, IDLE_LIMIT)
    }
}

impl<K: Ord + Clone> Pool<K> {
    /// An empty pool with its limits.
    pub fn new(max: usize, idle_limit: Duration) -> Self {
        Self { residents: BTreeMap::new(), max, idle_limit }
    }

    /// Takes a place for a turn. Call [`Pool::sweep`] first: what has been idle too long is not warm.
    pub fn lease(&mut self, key: &K) -> Lease<K> {
        match self.residents.get(key) {
            Some(State::Busy) => return Lease::Outside,
            Some(State::IdleSince(_)) => {
                self.residents.insert(key.clone(), State::Busy);
                return Lease::Warm;
            }
            None => {}
        }
        let evict = if self.residents.len() < self.max { None } else { self.longest_idle() };
        if self.residents.len() >= self.max && evict.is_none() {
            return Lease::Outside;
        }
        if let Some(out) = &evict {
            self.residents.remove(out);
        }
        self.residents.insert(key.clone(), State::Busy);
        Lease::Start { evict }
    }

    /// A turn of this key ended and its process lives on.
    pub fn release(&mut self, key: &K, now: Duration) {
        if let Some(state) = self.residents.get_mut(key) {
            *state = State::IdleSince(now);
        }
    }

    /// The process of this key is gone.
    pub fn remove(&mut self, key: &K) {
        self.residents.remove(key);
    }

    /// Takes out what has been idle for the limit or longer, for the caller to end.
    pub fn sweep(&mut self, now: Duration) -> Vec<K> {
        let limit = self.idle_limit;
        let expired = |state: &State| match state {
            State::Busy => false,
            State::IdleSince(since) => now.saturating_sub(*since) >= limit,
        };
        let out: Vec<K> = self.residents.iter().filter(|(_, s)| expired(s)).map(|(key, _)| key.clone()).collect();
        for key in &out {
            self.residents.remove(key);
        }
        out
    }

    /// When the next sweep has something to do; `None` while nothing is idle.
    pub fn next_sweep(&self) -> Option<Duration> {
        self.residents.values().filter_map(|state| self.ends_at(*state)).min()
    }

    /// The keys of all living processes, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.residents.keys()
    }

    fn ends_at(&self, state: State) -> Option<Duration> {
        match state {
            State::Busy => None,
            State::IdleSince(since) => Some(since.saturating_add(self.idle_limit)),
        }
    }

    fn longest_idle(&self) -> Option<K> {
        self.residents
            .iter()
            .filter_map(|(key, state)| self.ends_at(*state).map(|end| (end, key)))
            .min_by_key(|(end, _)| *end)
            .map(|(_, key)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn r7_1_a_busy_process_is_never_ended_and_a_full_pool_sends_the_turn_outside() {
        let mut pool = Pool::new(2, IDLE_LIMIT);
        assert_eq!(pool.lease(&"a"), Lease::Start { evict: None });
        assert_eq!(pool.lease(&"b"), Lease::Start { evict: None });
        assert_eq!(pool.lease(&"c"), Lease::Outside);
        assert_eq!(pool.lease(&"a"), Lease::Outside);
        pool.release(&"b", at(5));
        assert_eq!(pool.lease(&"c"), Lease::Start { evict: Some("b") });
        assert!(pool.sweep(at(100_000)).is_empty());
    }

    #[test]
    fn r7_1_idle_counts_from_the_end_of_the_last_turn_and_ends_at_thirty_minutes() {
        let mut pool = Pool::default();
        pool.lease(&"a");
        assert_eq!(pool.next_sweep(), None);
        pool.release(&"a", at(10));
        assert_eq!(pool.next_sweep(), Some(at(1810)));
        assert!(pool.sweep(at(1809)).is_empty());
        assert_eq!(pool.sweep(at(1810)), ["a"]);
        assert_eq!(pool.keys().count(), 0);
        assert_eq!(pool.lease(&"a"), Lease::Start { evict: None });
    }

    #[test]
    fn a_lost_process_leaves_its_place() {
        let mut pool = Pool::new(1, IDLE_LIMIT);
        pool.lease(&"a");
        pool.remove(&"a");
        assert_eq!(pool.lease(&"b"), Lease::Start { evict: None });
    }
}
