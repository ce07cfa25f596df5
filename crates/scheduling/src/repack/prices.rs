//! What resources are worth: for pods that may go to the same places the highest prices at which no type has room for more
//! than it costs.
//!
//! That is the dual of buying nodes in fractions and dividing pods over them, so what pods come to at these prices is the
//! least they can cost where no pod is too large for some type. Where there are many pods of many sizes it is also nearly
//! what they do cost. It takes a programme with a column for each resource, however many kinds of pods there are.

/// The prices per grain, by resource. `demand` is what is asked for in total; each type has room and a price.
pub(crate) fn of_resources<'a>(demand: &[f64], types: impl Iterator<Item = (&'a [i64], f64)>) -> Vec<f64> {
    let types: Vec<(&[i64], f64)> = types.filter(|(_, price)| *price > 0.0).collect();
    let mut most = vec![0.0_f64; demand.len()];
    types
        .iter()
        .for_each(|(room, _)| most.iter_mut().zip(*room).for_each(|(most, room)| *most = most.max(*room as f64)));
    let used: Vec<usize> = (0..demand.len()).filter(|at| demand[*at] > 0.0 && most[*at] > 0.0).collect();
    let total = used.iter().map(|at| demand[*at] / most[*at]).fold(0.0, f64::max);
    let dearest = types.iter().map(|(_, price)| *price).fold(0.0, f64::max);
    // In shares of the largest room, price and demand there is, so that one tolerance suits all.
    let rows = types.iter().map(|(room, price)| {
        let row = used.iter().map(|at| room[*at] as f64 / most[*at]).collect();
        (row, price / dearest)
    });
    let goal = used.iter().map(|at| demand[*at] / most[*at] / total).collect();
    let found = Dictionary::new(rows.collect(), goal).solve();
    let mut prices = vec![0.0; demand.len()];
    used.iter().zip(found).for_each(|(at, price)| prices[*at] = price * dearest / most[*at]);
    prices
}

const TINY: f64 = 1e-9;

/// The simplex method on a dictionary: as many columns as there are resources, a row for each type. All right sides are
/// positive, so that nothing bought at all is where it starts.
struct Dictionary {
    rows: Vec<(Vec<f64>, f64)>,
    goal: Vec<f64>,
    /// By column and row: the variable there. Prices come before slacks.
    outside: Vec<usize>,
    inside: Vec<usize>,
}

impl Dictionary {
    fn new(rows: Vec<(Vec<f64>, f64)>, goal: Vec<f64>) -> Self {
        let (columns, count) = (goal.len(), rows.len());
        Self { rows, goal, outside: (0..columns).collect(), inside: (columns..columns + count).collect() }
    }

    fn solve(mut self) -> Vec<f64> {
        let columns = self.goal.len();
        // Each step takes the first variable that helps, by number, so that no sequence of steps leads back; far fewer are
        // needed with so few columns.
        for _ in 0..1_000 {
            let helps = (0..columns).filter(|column| self.goal[*column] > TINY);
            let Some(entering) = helps.min_by_key(|column| self.outside[*column]) else { break };
            let bounding = (0..self.rows.len()).filter(|row| self.rows[*row].0[entering] > TINY);
            let step = |row: &usize| self.rows[*row].1 / self.rows[*row].0[entering];
            let leaving =
                bounding.min_by(|a, b| step(a).total_cmp(&step(b)).then_with(|| self.inside[*a].cmp(&self.inside[*b])));
            let Some(leaving) = leaving else { break };
            self.pivot(entering, leaving);
        }
        let mut prices = vec![0.0; columns];
        for (variable, (_, right)) in self.inside.iter().zip(&self.rows) {
            if *variable < columns {
                prices[*variable] = right.max(0.0);
            }
        }
        prices
    }

    fn pivot(&mut self, column: usize, row: usize) {
        let (mut by, mut right) = std::mem::take(&mut self.rows[row]);
        let pivot = by[column];
        by[column] = 1.0;
        by.iter_mut().for_each(|entry| *entry /= pivot);
        right /= pivot;
        let eliminate = |row: &mut Vec<f64>| {
            let factor = std::mem::replace(&mut row[column], 0.0);
            row.iter_mut().zip(&by).for_each(|(entry, by)| *entry -= factor * by);
            factor
        };
        for (other, (entries, other_right)) in self.rows.iter_mut().enumerate() {
            if other != row {
                *other_right -= eliminate(entries) * right;
            }
        }
        eliminate(&mut self.goal);
        self.rows[row] = (by, right);
        std::mem::swap(&mut self.outside[column], &mut self.inside[row]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_that_are_both_needed_give_two_prices() {
        // Cores and gibibytes: 2 and 4 for 3, 2 and 8 for 4; a third that is dear for what it has.
        let types: [(&[i64], f64); 3] = [(&[2, 4], 3.0), (&[2, 8], 4.0), (&[2, 6], 4.0)];
        let prices = of_resources(&[10.0, 30.0], types.into_iter());
        assert!((prices[0] - 1.0).abs() < 1e-9 && (prices[1] - 0.25).abs() < 1e-9, "{prices:?}");
    }

    #[test]
    fn what_is_not_scarce_is_free() {
        let types: [(&[i64], f64); 2] = [(&[2, 4], 3.0), (&[2, 8], 4.0)];
        let prices = of_resources(&[10.0, 1.0], types.into_iter());
        assert!((prices[0] - 1.5).abs() < 1e-9 && prices[1].abs() < 1e-9, "{prices:?}");
    }

    #[test]
    fn no_type_has_room_for_more_than_it_costs() {
        // A fixed sequence of types and demands.
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below + 1
        };
        for _ in 0..200 {
            let rooms: Vec<Vec<i64>> = (0..40).map(|_| (0..3).map(|_| draw(1_000) as i64).collect()).collect();
            let costs: Vec<f64> = rooms.iter().map(|_| draw(100) as f64).collect();
            let demand: Vec<f64> = (0..3).map(|_| draw(100_000) as f64).collect();
            let prices = of_resources(&demand, rooms.iter().map(Vec::as_slice).zip(costs.iter().copied()));
            let worth = |room: &[i64]| room.iter().zip(&prices).map(|(room, price)| *room as f64 * price).sum::<f64>();
            let mut fullest = 0.0_f64;
            for (room, cost) in rooms.iter().zip(&costs) {
                assert!(worth(room) <= cost * (1.0 + 1e-6), "{room:?} {cost} {prices:?}");
                fullest = fullest.max(worth(room) / cost);
            }
            assert!(fullest > 1.0 - 1e-6, "prices could be higher");
        }
    }
}
