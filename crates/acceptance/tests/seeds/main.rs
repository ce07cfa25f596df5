//! What five teams do with it, as they wrote it down.
