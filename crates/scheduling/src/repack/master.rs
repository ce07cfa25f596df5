//! The covering programme over patterns: buy fractions of patterns so that every kind is covered, as cheaply as possible.
//!
//! A revised simplex with an explicit inverse. Columns come one at a time from whoever prices patterns against the
//! current values; a few dozen suffice, so nothing cleverer is needed.

/// One way to fill one node: how many of each kind, at what price.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    /// In [`Lanes::all`](crate::repack::lanes::Lanes).
    pub(crate) lane: usize,
    /// The type it was made for, in the catalogue of the lane's template.
    pub(crate) kind: usize,
    pub(crate) counts: Vec<(usize, u32)>,
    pub(crate) price: f64,
}

pub(crate) struct Master {
    /// Basic patterns, one for each row.
    basis: Vec<Pattern>,
    inverse: Vec<Vec<f64>>,
    /// How much of each basic pattern is bought.
    amounts: Vec<f64>,
}

const EPSILON: f64 = 1e-9;

impl Master {
    /// `first` has one pattern for each row, holding that kind alone.
    pub(crate) fn new(first: Vec<Pattern>, demand: &[u32]) -> Self {
        let rows = first.len();
        let mut inverse = vec![vec![0.0; rows]; rows];
        let mut amounts = vec![0.0; rows];
        for (row, pattern) in first.iter().enumerate() {
            let held = f64::from(pattern.counts[0].1);
            inverse[row][row] = 1.0 / held;
            amounts[row] = f64::from(demand[row]) / held;
        }
        Self { basis: first, inverse, amounts }
    }

    /// What one more of each kind is worth: never negative, as a pattern may be bought for less than it could hold.
    pub(crate) fn values(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.basis.len()];
        for (pattern, row) in self.basis.iter().zip(&self.inverse) {
            values.iter_mut().zip(row).for_each(|(value, entry)| *value += pattern.price * entry);
        }
        values.iter_mut().for_each(|value| *value = value.max(0.0));
        values
    }

    pub(crate) fn cost(&self) -> f64 {
        self.basis.iter().zip(&self.amounts).map(|(pattern, amount)| pattern.price * amount).sum()
    }

    /// What is bought, each with how many.
    pub(crate) fn solution(&self) -> impl Iterator<Item = (&Pattern, f64)> {
        self.basis.iter().zip(self.amounts.iter().copied()).filter(|(_, amount)| *amount > EPSILON)
    }

    /// Brings a pattern in; whether anything changed.
    pub(crate) fn enter(&mut self, pattern: Pattern) -> bool {
        let column: Vec<f64> = self
            .inverse
            .iter()
            .map(|row| pattern.counts.iter().map(|(kind, count)| row[*kind] * f64::from(*count)).sum())
            .collect();
        let mut leaving: Option<(f64, usize)> = None;
        for (row, entry) in column.iter().enumerate() {
            if *entry > EPSILON {
                let ratio = self.amounts[row] / entry;
                // The first of equals, so that the answer is the same everywhere.
                if leaving.is_none_or(|(best, _)| ratio < best - EPSILON) {
                    leaving = Some((ratio, row));
                }
            }
        }
        let Some((step, row)) = leaving else { return false };
        for (other, entry) in column.iter().enumerate() {
            if other != row {
                self.amounts[other] = (self.amounts[other] - step * entry).max(0.0);
            }
        }
        self.amounts[row] = step;
        let pivot = column[row];
        let mut pivot_row = std::mem::take(&mut self.inverse[row]);
        pivot_row.iter_mut().for_each(|entry| *entry /= pivot);
        for (other, target) in self.inverse.iter_mut().enumerate() {
            if other != row && column[other].abs() > EPSILON {
                let factor = column[other];
                target.iter_mut().zip(&pivot_row).for_each(|(entry, from)| *entry -= factor * from);
            }
        }
        self.inverse[row] = pivot_row;
        self.basis[row] = pattern;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(counts: &[(usize, u32)], price: f64) -> Pattern {
        Pattern { lane: 0, kind: 0, counts: counts.to_vec(), price }
    }

    #[test]
    fn a_better_mix_replaces_what_is_dearer() {
        // Ten of each kind; alone a node holds one, together one of each at the same price.
        let first = vec![pattern(&[(0, 1)], 1.0), pattern(&[(1, 1)], 1.0)];
        let mut master = Master::new(first, &[10, 10]);
        assert_eq!(master.cost(), 20.0);
        assert_eq!(master.values(), [1.0, 1.0]);
        assert!(master.enter(pattern(&[(0, 1), (1, 1)], 1.0)));
        assert!((master.cost() - 10.0).abs() < 1e-6);
        let values = master.values();
        assert!((values[0] + values[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_bought_covers_the_demand() {
        let first = vec![pattern(&[(0, 2)], 3.0), pattern(&[(1, 4)], 5.0)];
        let mut master = Master::new(first, &[7, 9]);
        master.enter(pattern(&[(0, 1), (1, 2)], 2.0));
        master.enter(pattern(&[(0, 3), (1, 1)], 2.5));
        let mut covered = [0.0, 0.0];
        for (pattern, amount) in master.solution() {
            pattern.counts.iter().for_each(|(kind, count)| covered[*kind] += f64::from(*count) * amount);
        }
        assert!(covered[0] > 7.0 - 1e-6 && covered[1] > 9.0 - 1e-6, "{covered:?}");
    }
}
