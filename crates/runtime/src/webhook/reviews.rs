//! Reading a ConversionReview from whoever can reach the port, in bounded memory.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What an API server sends: one object, at most 3 MiB as it accepts no larger request, or a list of thousands of usual ones.
const LARGEST: usize = 16 << 20;
/// Nearly every review; so much of each is always read.
const USUAL: usize = 256 << 10;
/// What is beyond the usual of all reviews together, in KiB: two of the largest at once.
const ROOM: u32 = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge,
    /// There is no room beside the other large ones.
    Busy,
    BrokenOff,
}

/// What is read, and its share of the room until it is dropped.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads reviews, sharing the room.
pub(super) struct Reviews {
    room: Arc<Semaphore>,
}

impl Reviews {
    pub(super) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM as usize)) }
    }

    pub(super) async fn read<B>(&self, mut body: B) -> Result<Review, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut whole = Vec::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::BrokenOff)?.into_data() else { continue };
            let length = whole.len() + data.len();
            if length > LARGEST {
                return Err(Refusal::TooLarge);
            }
            let wanted = length.saturating_sub(USUAL).div_ceil(1 << 10);
            let more = wanted - room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if more > 0 {
                let more = u32::try_from(more).expect("the largest in KiB");
                let got = self.room.clone().try_acquire_many_owned(more).map_err(|_| Refusal::Busy)?;
                match &mut room {
                    Some(room) => room.merge(got),
                    None => room = Some(got),
                }
            }
            whole.extend_from_slice(&data);
        }
        Ok(Review { bytes: whole.into(), _room: room })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn read(reviews: &Reviews, length: usize) -> Result<Review, Refusal> {
        reviews.read(Full::new(Bytes::from(vec![b' '; length]))).await
    }

    #[tokio::test]
    async fn large_reviews_share_a_room_and_usual_ones_are_always_read() {
        let reviews = Reviews::new();
        assert_eq!(read(&reviews, LARGEST + 1).await.err(), Some(Refusal::TooLarge));
        let held = [read(&reviews, LARGEST).await.unwrap(), read(&reviews, LARGEST).await.unwrap()];
        assert_eq!(held[0].bytes.len(), LARGEST);
        assert_eq!(read(&reviews, LARGEST).await.err(), Some(Refusal::Busy));
        assert_eq!(read(&reviews, USUAL).await.unwrap().bytes.len(), USUAL, "whatever the others hold");
        drop(held);
        assert!(read(&reviews, LARGEST).await.is_ok(), "the room is given back");
    }
}
