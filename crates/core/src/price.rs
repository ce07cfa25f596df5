//! Prices as integers: they sort totally and sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// Millionths of a US dollar per hour. EC2 publishes at most six digits for the types we buy, so nothing is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// A price nobody would pay: for a type that cannot be bought it sorts last.
    pub const UNKNOWN: Self = Self(u64::MAX);

    /// From dollars as price lists write them; negative and absurd numbers are no price.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let micro = (dollars * 1e6).round();
        (micro.is_finite() && (0.0..1e15).contains(&micro)).then_some(Self(micro as u64))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `numerator / denominator` of this price, rounded half up to a millionth.
    pub fn fraction(self, numerator: u64, denominator: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(numerator) * 2 + u128::from(denominator);
        Self((scaled / (2 * u128::from(denominator))) as u64)
    }
}

impl Add for MicroUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for MicroUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for MicroUsd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for MicroUsd {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self(0), Add::add)
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.dollars())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_become_whole_millionths_and_back() {
        assert_eq!(MicroUsd::from_dollars(0.41056), Some(MicroUsd(410_560)));
        assert_eq!(MicroUsd(410_560).dollars(), 0.41056);
        assert_eq!(MicroUsd::from_dollars(-1.0), None);
        assert_eq!(MicroUsd::from_dollars(f64::NAN), None);
    }

    #[test]
    fn a_fraction_rounds_half_up() {
        assert_eq!(MicroUsd(5).fraction(1, 2), MicroUsd(3));
        assert_eq!(MicroUsd(204_000).fraction(4, 10), MicroUsd(81_600));
    }

    #[test]
    fn sums_saturate_so_an_unknown_price_stays_the_dearest() {
        assert_eq!(MicroUsd::UNKNOWN + MicroUsd(1), MicroUsd::UNKNOWN);
    }
}
