//! Sets of small integers. "Which types meet every requirement" becomes a few ANDs.

use smallvec::SmallVec;

/// Grows on insertion; absent words are zero. Two words inline hold a region's zones without a heap allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: SmallVec<[u64; 2]>,
}

impl Bits {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// All of `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut words = SmallVec::from_elem(u64::MAX, len.div_ceil(64));
        if !len.is_multiple_of(64) {
            *words.last_mut().expect("a partial word means there is one") = (1 << (len % 64)) - 1;
        }
        Self { words }
    }

    pub(crate) fn zeros(len: usize) -> Self {
        Self { words: SmallVec::from_elem(0, len.div_ceil(64)) }
    }

    pub(crate) fn insert(&mut self, index: usize) {
        if index / 64 >= self.words.len() {
            self.words.resize(index / 64 + 1, 0);
        }
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn and(&mut self, other: &Self) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= other.word(index);
        }
    }

    pub(crate) fn and_not(&mut self, other: &Self) {
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word &= !theirs;
        }
    }

    pub(crate) fn or(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word |= theirs;
        }
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn is_subset_of(&self, other: &Self) -> bool {
        self.words.iter().enumerate().all(|(index, word)| word & !other.word(index) == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| Ones(*word).map(move |bit| index * 64 + bit))
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(items: I) -> Self {
        let mut bits = Self::new();
        items.into_iter().for_each(|item| bits.insert(item));
        bits
    }
}

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.is_subset_of(other) && other.is_subset_of(self)
    }
}

impl Eq for Bits {}

/// The positions of a word's ones, lowest first.
pub(crate) struct Ones(pub(crate) u64);

impl Iterator for Ones {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations() {
        let a: Bits = [1, 64, 200].into_iter().collect();
        let b: Bits = [64, 200, 300].into_iter().collect();
        let mut both = a.clone();
        both.and(&b);
        assert_eq!(both.iter().collect::<Vec<_>>(), [64, 200]);
        let mut either = a.clone();
        either.or(&b);
        assert_eq!(either.len(), 4);
        let mut only = a.clone();
        only.and_not(&b);
        assert_eq!(only.iter().next(), Some(1));
        assert!(both.is_subset_of(&b) && !a.is_subset_of(&b) && a.intersects(&b));
        assert_eq!(Bits::full(65).len(), 65);
        assert!(!Bits::full(64).contains(64));
        assert_eq!(Bits::full(3), [0, 1, 2].into_iter().collect());
    }
}
