//! The order, number and pauses of patches, against an API that does as it is told.

use std::sync::Mutex;

use super::*;
use crate::config::parse;
use crate::judge::refuse;
use crate::pods::Judged;
use crate::select::Choice;
use crate::snapshot::{Snapshot, Values};

/// An extender with pods that wait, and what became of them.
struct Stage {
    state: Arc<State>,
    /// Name of the pod and when it was patched
    patched: Arc<Mutex<Vec<(String, u64)>>>,
    most_at_once: Arc<Mutex<(usize, usize)>>,
    start: Instant,
    sender: mpsc::UnboundedSender<Vec<Wake>>,
    task: tokio::task::JoinHandle<()>,
}

fn refused(code: u16) -> ApiError {
    ApiError::Refused { code, reason: "x".to_owned(), message: "x".to_owned() }
}

impl Stage {
    /// `answer` gets the pod's name and how often it was patched before.
    fn new(took: Duration, answer: impl Fn(&str, usize) -> Result<(), u16> + Send + Sync + 'static) -> Self {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: cpu, query: q, prefer: lower, avoidAbove: 0.5, whenAllExceed: reject}\n";
        let snapshot = Snapshot::empty(Arc::new(parse("test.yaml".as_ref(), text).expect("valid")));
        let state = Arc::new(State::new(snapshot, None, 1));
        let (sender, receiver) = mpsc::unbounded_channel();
        let (patched, most_at_once) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<(usize, usize)>>::default());
        let start = Instant::now();
        let (own, log, most, answer) =
            (Arc::clone(&state), Arc::clone(&patched), Arc::clone(&most_at_once), Arc::new(answer));
        let task = tokio::spawn(async move {
            let patch = move |pod: Waiting| {
                let (log, most, answer) = (Arc::clone(&log), Arc::clone(&most), Arc::clone(&answer));
                async move {
                    let before = {
                        let mut log = log.lock().expect("unpoisoned");
                        let before = log.iter().filter(|(name, _)| *name == pod.name).count();
                        log.push((pod.name.clone(), start.elapsed().as_secs()));
                        before
                    };
                    {
                        let mut most = most.lock().expect("unpoisoned");
                        *most = (most.0 + 1, most.1.max(most.0 + 1));
                    }
                    tokio::time::sleep(took).await;
                    most.lock().expect("unpoisoned").0 -= 1;
                    answer(&pod.name, before).map_err(refused)
                }
            };
            work(&own, receiver, patch).await;
        });
        Self { state, patched, most_at_once, start, sender, task }
    }

    /// These values of the nodes x and y.
    fn values(&self, x: f64, y: f64) -> Snapshot {
        let empty = self.state.snapshot();
        let series = [("x", x), ("y", y)]
            .map(|(node, value)| format!(r#"{{"metric":{{"node":"{node}"}},"value":[1,"{value}"]}}"#));
        let body =
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(","));
        let mut index = Arc::clone(&empty.index);
        let policy = &empty.config.policies[0];
        let read = Values::read(policy, &[body.as_bytes()], &Arc::default(), &mut index, Instant::now());
        Snapshot { values: vec![Arc::new(read.expect("an answer"))], index, ..(*empty).clone() }
    }

    /// A round of queries brings these values.
    fn round(&self, values: &Snapshot) {
        let woken = self.state.tracker().recovered(values, Instant::now());
        self.sender.send(woken).expect("taken");
    }

    /// A threshold refuses this pod on both nodes.
    fn refuse(&self, name: &str) {
        let (high, choice) = (self.values(0.9, 0.9), Choice { mask: 1, ..Choice::default() });
        let refusals = refuse(&high.columns(&choice, Instant::now()), &[0, 1]);
        let waiting = || Waiting { namespace: "n".to_owned(), name: name.to_owned(), uid: name.to_owned() };
        let judged = Judged { snapshot: &high, choice, asked: &[0, 1], refusals: &refusals };
        self.state.tracker().judged(name, waiting, judged, Instant::now());
    }

    /// A threshold refuses this pod, and a node recovers at once.
    fn recover(&self, name: &str) {
        self.refuse(name);
        self.round(&self.values(0.1, 0.9));
    }

    fn patched(&self) -> Vec<(String, u64)> {
        self.patched.lock().expect("unpoisoned").clone()
    }

    fn of(&self, name: &str) -> Vec<u64> {
        self.patched().into_iter().filter(|(own, _)| own == name).map(|(_, at)| at).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_api_server_does_not_take_keeps_nobody_waiting_and_is_given_up() {
    let stage = Stage::new(Duration::ZERO, |name, _| if name == "stuck" { Err(500) } else { Ok(()) });
    stage.recover("stuck");
    for number in 0..20 {
        stage.recover(&format!("p{number}"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.patched().iter().filter(|(name, _)| name.starts_with('p')).count(), 20);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(stage.of("stuck"), [0, 1, 3, 7, 15], "five tries, in seconds");
}

#[tokio::test(start_paused = true)]
async fn a_recovery_still_counts_after_an_outage_of_the_api_server() {
    // tokio takes what is ready at the same time in any order, so one round could miss a lost wake
    for second_node_recovers in [false, true].repeat(20) {
        let stage = Stage::new(Duration::ZERO, |_, before| if before < 5 { Err(503) } else { Ok(()) });
        stage.recover("a");
        for seconds in (1..).take(120) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let y = if second_node_recovers && seconds > 2 { 0.1 } else { 0.9 };
            stage.round(&stage.values(0.1, y));
        }
        let times = stage.of("a");
        assert_eq!(&times[..5], [0, 1, 3, 7, 15], "five tries during the outage, in seconds");
        assert!(times.len() == 6 && times[5] <= 32, "woken once the API server is back, and then no more: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_patches_are_on_their_way_at_the_same_time() {
    let stage = Stage::new(Duration::from_secs(10), |_, _| Ok(()));
    for number in 0..12 {
        stage.recover(&format!("p{number}"));
    }
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(stage.patched().len(), 12);
    assert_eq!(stage.most_at_once.lock().expect("unpoisoned").1, AT_A_TIME);
    assert!(stage.start.elapsed() < Duration::from_secs(36));
}

#[tokio::test(start_paused = true)]
async fn only_what_may_change_is_tried_again() {
    for (code, tries) in [(401, 5), (408, 5), (409, 5), (429, 5), (503, 5), (403, 1), (404, 1), (422, 1)] {
        let stage = Stage::new(Duration::ZERO, move |_, _| Err(code));
        stage.recover("a");
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(stage.of("a").len(), tries, "{code}");
        assert_eq!(stage.state.tracker().is_waiting("a"), code != 404, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_wait_any_more_is_left_alone() {
    let stage = Stage::new(Duration::ZERO, |_, before| if before == 0 { Err(500) } else { Ok(()) });
    stage.recover("bound");
    stage.recover("deleted meanwhile");
    stage.state.tracker().gone("bound");
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.state.tracker().gone("deleted meanwhile");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((stage.of("bound").len(), stage.of("deleted meanwhile").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_patched_again_after_its_pause_and_not_before() {
    let stage = Stage::new(Duration::ZERO, |_, _| Ok(()));
    for _ in 0..3 {
        stage.recover("a");
        tokio::time::sleep(Duration::from_mins(1)).await;
        stage.recover("a");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let times = stage.of("a");
    assert!(times.windows(2).all(|two| two[1] - two[0] >= 15), "{times:?}");
}

#[test]
fn each_reason_is_logged_once_until_a_patch_succeeds() {
    let mut complaints = Complaints::default();
    assert!(complaints.is_new(500) && !complaints.is_new(500) && complaints.is_new(403));
}
