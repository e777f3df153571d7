//! Scales and their ticks.

/// A linear scale from values to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    full: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// 0 at pixel `from`, `full` at pixel `to`.
    pub(super) fn new(full: u64, from: f64, to: f64) -> Self {
        Self { full: float(full.max(1)), from, to }
    }

    /// The pixel of a value, never outside.
    pub(super) fn at(&self, value: u64) -> f64 {
        let share = (float(value) / self.full).min(1.0);
        self.from + (self.to - self.from) * share
    }
}

/// A value as a coordinate.
#[expect(clippy::cast_precision_loss, reason = "pixels need no more than a few digits")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// Round values from 0 to `full`, at most so many steps: 1, 2 or 5 times a power of ten apart.
pub(super) fn decimal_ticks(full: u64, steps: u64) -> Vec<u64> {
    let mut step: u64 = 1;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut power: u64 = 1;
    while full / step > steps {
        let Some(factor) = factors.next() else { break };
        step = power.saturating_mul(factor);
        if factor == 10 {
            power = power.saturating_mul(10);
        }
    }
    ticks(full, step)
}

/// Round spans from 0 to `full` milliseconds.
pub(super) fn time_ticks(full: u64, steps: u64) -> Vec<u64> {
    const STEPS: [u64; 16] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800];
    let fits = |step: &&u64| full / (**step * 1_000) <= steps;
    let step = STEPS.iter().find(fits).map_or_else(|| full.div_ceil(steps.max(1)), |step| step * 1_000);
    ticks(full, step)
}

fn ticks(full: u64, step: u64) -> Vec<u64> {
    (0..=full / step.max(1)).map(|tick| tick * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(decimal_ticks(187_000, 5), [0, 50_000, 100_000, 150_000]);
        assert_eq!(decimal_ticks(3, 5), [0, 1, 2, 3]);
        assert_eq!(time_ticks(595_000, 8), [0, 120_000, 240_000, 360_000, 480_000]);
        for full in [0, 1, 9, 10, 11, 999, 1_000_000_007, u64::MAX] {
            assert!(decimal_ticks(full, 5).len() <= 6, "{full}");
            assert!(time_ticks(full, 8).len() <= 9, "{full}");
        }
    }

    #[test]
    fn a_value_never_leaves_its_scale() {
        let scale = Scale::new(100, 10.0, 20.0);
        let pixels = [0, 50, 100, u64::MAX].map(|value| format!("{:.1}", scale.at(value)));
        assert_eq!(pixels, ["10.0", "15.0", "20.0", "20.0"]);
    }
}
