use super::*;
use futures_util::FutureExt;
use futures_util::future::join_all;

type Calls = Arc<Mutex<Vec<(u8, Vec<u32>)>>>;

fn batcher(most: usize, takes: Duration) -> (Batcher<u8, u32, u32>, Calls) {
    let calls: Calls = Arc::default();
    let seen = calls.clone();
    let execute: Execute<u8, u32, u32> = Arc::new(move |key, items| {
        seen.lock().unwrap().push((key, items.clone()));
        async move {
            tokio::time::sleep(takes).await;
            items.into_iter().map(|item| item * 10).collect()
        }
        .boxed()
    });
    let window = Window { idle: Duration::from_millis(35), longest: Duration::from_secs(1), most };
    (Batcher::new(window, execute, Arc::new(|_, _| {})), calls)
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_moment_go_together() {
    // covers: AWS-BATCH-01
    let (batcher, calls) = batcher(1000, Duration::ZERO);
    let start = Instant::now();
    let answers = join_all((0..50).map(|n| batcher.add((n % 2) as u8, n))).await;
    assert_eq!(answers, (0..50).map(|n| Ok(n * 10)).collect::<Vec<_>>());
    assert_eq!(start.elapsed(), Duration::from_millis(35));
    let calls = calls.lock().unwrap();
    assert_eq!(calls.iter().map(|(key, items)| (*key, items.len())).collect::<Vec<_>>(), [(0, 25), (1, 25)]);
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_waits_no_longer_than_the_window() {
    // covers: AWS-BATCH-01
    let (batcher, calls) = batcher(1000, Duration::ZERO);
    let add = |n: u32| {
        let batcher = &batcher;
        async move {
            tokio::time::sleep(Duration::from_millis(u64::from(n) * 20)).await;
            batcher.add(0, n).await.unwrap()
        }
    };
    join_all((0..100).map(add)).await;
    let sizes: Vec<usize> = calls.lock().unwrap().iter().map(|(_, items)| items.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert!(sizes[0] <= 51 && sizes.len() == 2, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_goes_at_once() {
    // covers: AWS-BATCH-01
    let (batcher, calls) = batcher(10, Duration::ZERO);
    join_all((0..25).map(|n| batcher.add(0, n))).await;
    let sizes: Vec<usize> = calls.lock().unwrap().iter().map(|(_, items)| items.len()).collect();
    assert_eq!(sizes, [10, 10, 5]);
}

#[tokio::test(start_paused = true)]
async fn at_most_a_hundred_calls_run_at_once() {
    // covers: AWS-BATCH-07
    let (batcher, calls) = batcher(1, Duration::from_secs(10));
    let all = join_all((0..150).map(|n| batcher.add(0, n)));
    tokio::pin!(all);
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut all).await.is_err());
    assert_eq!(calls.lock().unwrap().len(), PARALLEL);
    all.await;
    assert_eq!(calls.lock().unwrap().len(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_batcher_calls_nobody() {
    let (batcher, calls) = batcher(10, Duration::ZERO);
    let waiting = batcher.add(0, 1);
    assert!(tokio::time::timeout(Duration::from_millis(10), waiting).await.is_err());
    drop(batcher);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_call_is_measured() {
    // covers: AWS-MET-06
    let measured: Arc<Mutex<Vec<(usize, Duration)>>> = Arc::default();
    let seen = measured.clone();
    let execute: Execute<u8, u32, u32> = Arc::new(|_, items| async move { items }.boxed());
    let window = Window { idle: Duration::from_millis(35), longest: Duration::from_secs(1), most: 1000 };
    let batcher =
        Batcher::new(window, execute, Arc::new(move |size, waited| seen.lock().unwrap().push((size, waited))));
    join_all((0..7).map(|n| batcher.add(1, n))).await;
    batcher.add(1, 8).await.unwrap();
    let want = [(7, Duration::from_millis(35)), (1, Duration::from_millis(35))];
    assert_eq!(*measured.lock().unwrap(), want);
}
