use super::*;

fn recorder() -> Recorder {
    Recorder::new(Clock::starting_at(Timestamp::UNIX_EPOCH))
}

fn about(uid: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Pod",
        namespace: "default".into(),
        name: format!("pod-{uid}"),
        uid: uid.into(),
    }
}

fn sent(recorder: &Recorder) -> Vec<String> {
    let all = std::mem::take(&mut recorder.state().unsent);
    all.into_iter().map(|(event, _, _)| format!("{} {}", event.reason, event.object.uid)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_told_once_in_its_window() {
    // covers: LC-GEN-19, SCH-ERR-04
    let recorder = recorder();
    let event = |uid: &str, text: &str| Event::normal(about(uid), "Reason", text);
    recorder.publish(event("a", "one text"));
    recorder.publish(event("a", "another text"));
    recorder.publish(event("b", "one text"));
    assert_eq!(sent(&recorder), ["Reason a", "Reason b"]);
    tokio::time::advance(Duration::from_secs(119)).await;
    recorder.publish(event("a", "still the same"));
    assert!(sent(&recorder).is_empty());
    tokio::time::advance(Duration::from_secs(1)).await;
    recorder.publish(event("a", "again"));
    recorder.publish(event("c", "short").within(Duration::from_secs(1)));
    tokio::time::advance(Duration::from_secs(1)).await;
    recorder.publish(event("c", "short"));
    assert_eq!(sent(&recorder), ["Reason a", "Reason c", "Reason c"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_reason_share_a_limit() {
    // covers: LC-GEN-19
    let recorder = recorder();
    let limit = Limit { per_second: 5, burst: 10 };
    for pod in 0..40 {
        recorder.publish(Event::normal(about(&pod.to_string()), "Nominated", "").limited(limit));
    }
    assert_eq!(sent(&recorder).len(), 10);
    tokio::time::advance(Duration::from_secs(1)).await;
    for pod in 40..80 {
        recorder.publish(Event::normal(about(&pod.to_string()), "Nominated", "").limited(limit));
    }
    assert_eq!(sent(&recorder).len(), 5);
}
