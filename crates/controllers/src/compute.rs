//! Decisions that may take long are made on a thread of their own, so that watches are read, probes answered and
//! interruptions handled meanwhile.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::spawn_blocking;

use crate::context::Context;

/// How long the computation takes that has just been made, in a simulation: virtual time passes only while something waits.
pub type ComputeTime = Box<dyn Fn() -> Duration + Send + Sync>;

/// As [`off_thread`]. Where somebody simulates how long it takes, the answer comes that much later, while the world goes on.
pub(crate) async fn compute<T, F>(context: &Context, computation: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let answer = off_thread(computation).await;
    if let Some(takes) = context.compute_time.get().map(|takes| takes()).filter(|takes| !takes.is_zero()) {
        tokio::time::sleep(takes).await;
    }
    answer
}

/// The answer of a computation that waits for nothing. A runtime of one thread has nothing that could go on meanwhile,
/// and what is simulated on one has to happen in the same order every time: there it is done in place.
async fn off_thread<T, F>(compute: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return compute();
    }
    match spawn_blocking(compute).await {
        Ok(answer) => answer,
        // A panic is that of the caller, as if it had computed itself. Otherwise the runtime ends, and we with it.
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn others_go_on_while_something_is_computed() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (go_on, told) = mpsc::channel();
        // On the one async thread this would wait for itself for ever.
        let computed = runtime.spawn(off_thread(move || told.recv_timeout(std::time::Duration::from_secs(60))));
        runtime.spawn(async move { go_on.send(7).unwrap() });
        assert_eq!(runtime.block_on(computed).unwrap(), Ok(7));
    }

    #[test]
    fn on_one_thread_it_is_computed_in_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here = std::thread::current().id();
        assert_eq!(runtime.block_on(off_thread(|| std::thread::current().id())), here);
    }

    #[test]
    fn a_panic_is_the_callers() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let panicking = std::panic::AssertUnwindSafe(off_thread(|| panic!("a bug of ours")));
        assert!(runtime.block_on(panicking.catch_unwind()).is_err());
    }
}
