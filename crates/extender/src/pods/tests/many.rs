//! As many pods as are remembered.

use super::*;

#[expect(clippy::disallowed_methods, reason = "the time that it takes")]
#[tokio::test(start_paused = true)]
async fn five_thousand_different_pods_on_five_thousand_nodes_are_looked_through_at_once() {
    let mut tracker = Tracker::default();
    let nodes: Vec<String> = (0..5000).map(|number| format!("node-{number}")).collect();
    let mut values: Vec<(&str, f64)> = nodes.iter().map(|name| (name.as_str(), 0.9)).collect();
    let own: Vec<String> = (0..5000).map(|number| format!("node-{number}/app-{number}")).collect();
    values.extend(own.iter().map(|name| (name.as_str(), 0.8)));
    let high = snapshot(&Snapshot::empty(config(", whenAllExceed: reject, match: {app: labels.app}")), &values);
    let asked: Vec<u32> = (0..5000).collect();
    for number in 0..6000 {
        let choice = choice(Some(&format!("app-{number}")));
        let refusals = refuse(&high.columns(&choice, Instant::now()), &asked);
        let waiting = || Waiting { namespace: String::new(), name: String::new(), uid: format!("u{number}") };
        let judged = Judged { snapshot: &high, choice, asked: &asked, refusals: &refusals };
        tracker.judged(&format!("u{number}"), waiting, judged, Instant::now());
    }
    assert_eq!(tracker.waiting(), 5000, "more are not remembered");
    let began = std::time::Instant::now();
    assert!(tracker.recovered(&high, Instant::now()).is_empty());
    for value in &mut values {
        value.1 = 0.1;
    }
    let low = snapshot(&high, &values);
    assert_eq!(tracker.recovered(&low, Instant::now()).len(), 5000);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_pods_take_bounded_memory() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9)]);
    for number in 0..5000 {
        let keys = vec![Some("k".repeat(1024)); 64];
        let choice = Choice { mask: 1, keys, ..Choice::default() };
        ask_as(&mut tracker, &format!("u{number}"), choice, &high, &["x"]);
    }
    assert!(tracker.waiting() < 300, "{} pods with keys of 64 KiB each", tracker.waiting());
    let low = snapshot(&high, &[("x", 0.1)]);
    let woken = tracker.recovered(&low, Instant::now());
    for wake in &woken {
        tracker.gone(&wake.uid);
    }
    ask(&mut tracker, "after", &high, &["x"]);
    assert_eq!(tracker.waiting(), 1, "the memory of gone pods is free again");
}
