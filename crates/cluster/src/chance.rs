//! Chance from a seed: the same seed and the same words give the same number, whatever happened before, so that one
//! more pod in a simulation does not reshuffle all the others.

/// Spreads the bits of a number (the finaliser of splitmix64).
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number from a seed and the words that say what it is for.
pub fn draw(seed: u64, words: &[&str]) -> u64 {
    let mut state = mix(seed);
    for word in words {
        // FNV-1a: simple, and the same on every machine and in every version.
        let hash =
            word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        state = mix(state ^ hash);
    }
    state
}

/// A number in `low..=high`.
pub fn between(seed: u64, words: &[&str], low: u64, high: u64) -> u64 {
    low + draw(seed, words) % (high - low + 1)
}
