//! One control-plane node: a host tree, a kubelet, an API, and the real agent on them. Time is turned, not waited for.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use schedpatch::agent::{Agent, Options, Outside, Proof, Release, SchedulerAt};
use schedpatch::apply::{HostFs, RealFs};
use schedpatch::finding::Finding;
use schedpatch::host::dir_watcher::{DirWatcher, Ringer};
use schedpatch::journal::{Initiator, Journal};
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Outcome, Request};
use schedpatch::report::{Report, Reporter};
use schedpatch::rollout::OnFailure;
use schedpatch::settings::Settings;
use schedpatch::target::static_pod;
use schedpatch::timestamp::Timestamp;
use schedpatch::verify::{Health, Limits};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::{AGENTS, Api, endpoint};
use crate::kubelet::Kubelet;

pub const MANIFEST: &str = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
pub const NAME: &str = "cp1";

/// A configuration with one extender: `crash.` ends the scheduler, `slow.` is never ready, all others run. The name is in the path,
/// since a host would be looked up by the machine's own DNS, in real time.
pub fn config(extender: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n\
         - urlPrefix: http://127.0.0.1:8889/{extender}\n  filterVerb: filter\n  httpTimeout: 2s\n  ignorable: true\n  nodeCacheCapable: true\n"
    )
}

/// The time of the day, as it is turned.
fn now() -> Timestamp {
    static BEGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let since = Instant::now().into_std().saturating_duration_since(*BEGIN);
    Timestamp::from_unix(1_794_853_868 + since.as_secs())
}

/// Runs a story on a runtime whose time is turned.
pub fn story<F: Future<Output = ()>>(tell: impl FnOnce(Node) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async { tell(Node::new()).await });
}

/// What an endpoint of this host says, by its address.
pub type IsWell = dyn Fn(&str) -> bool + Send + Sync;

/// An agent that runs, and what tells it to stop.
type Running = (JoinHandle<Result<(), Finding>>, oneshot::Sender<()>);

pub struct Node {
    pub name: String,
    pub dir: PathBuf,
    pub api: Api,
    pub kubelet: Rc<RefCell<Kubelet>>,
    pub settings: Settings,
    pub options: Options,
    pub fs: Arc<dyn HostFs + Send + Sync>,
    /// What endpoints of this host say, where it is not the kubelet's to say
    pub is_well: Option<Arc<IsWell>>,
    /// A directory of the host that the agent cannot watch
    pub unwatchable: Option<String>,
    pub report: watch::Receiver<Report>,
    /// Every phase that was reported, with its reason
    pub history: Rc<RefCell<Vec<String>>>,
    ringer: Option<Ringer>,
    agent: Option<Running>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Node {
    fn new() -> Self {
        Self::of(NAME, Api::new(&[NAME]), Release::default())
    }

    /// A node of a cluster that has this API.
    pub fn of(name: &str, api: Api, release: Release) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("schedpatch-agent-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for made in ["host/etc/kubernetes/manifests", "host/var/lib/schedpatch", "source"] {
            fs::create_dir_all(dir.join(made)).expect("a directory");
        }
        let manifest = dir.join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
        fs::write(&manifest, MANIFEST).expect("written");
        let kubelet = Rc::new(RefCell::new(Kubelet::new(&dir.join("host"), &manifest, name, api.clone())));
        let settings = Settings { sources: vec![dir.join("source")], ..Settings::new(dir.join("host")) };
        let options = Options {
            node: name.to_owned(),
            proof: Proof::Observation,
            limits: Limits { settle: Duration::from_secs(10), timeout: Duration::from_mins(5) },
            resync: Duration::from_mins(10),
            on_failure: OnFailure::Back,
            allows_quorum_loss: false,
            release,
            lock_timeout: Duration::from_millis(200),
            clock: now,
        };
        let (_, report) = watch::channel(Report::pending(Timestamp::default()));
        let mut node = Self {
            name: name.to_owned(),
            dir,
            api,
            kubelet,
            settings,
            options,
            fs: Arc::new(RealFs),
            is_well: None,
            unwatchable: None,
            report,
            history: Rc::default(),
            ringer: None,
            agent: None,
            tasks: Vec::new(),
        };
        node.tasks.push(node.turn_the_kubelet());
        node
    }

    fn turn_the_kubelet(&self) -> JoinHandle<()> {
        let kubelet = Rc::clone(&self.kubelet);
        tokio::task::spawn_local(async move {
            loop {
                kubelet.borrow_mut().tick();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }

    /// Starts an agent.
    pub fn start(&mut self) {
        let (dir_watcher, ringer) = DirWatcher::rung();
        if let Some(dir) = &self.unwatchable {
            ringer.refuse(&self.on_host(dir));
        }
        let (report, told) = watch::channel(Report::pending(Timestamp::default()));
        let (turned, _) = watch::channel(Instant::now());
        let serves = Arc::clone(&self.kubelet.borrow().serves);
        let is_well = self.is_well.clone();
        let scheduler = move |url: &str| {
            let (serves, is_well, url) = (Arc::clone(&serves), is_well.clone(), url.to_owned());
            let answers =
                move || is_well.as_ref().map_or_else(|| serves.load(Ordering::Relaxed), |is_well| is_well(&url));
            Some(Health::by(endpoint(answers), "/livez"))
        };
        let (client, fs) = (Some(self.api.client_of(&self.name)), Arc::clone(&self.fs));
        let outside = Outside { client, dir_watcher, fs, scheduler: SchedulerAt(Arc::new(scheduler)) };
        let agent = Agent::new(self.settings.clone(), self.options.clone(), outside, report, turned);
        let (stop, stopped) = oneshot::channel();
        let agent = tokio::task::spawn_local(agent.run(async {
            let _ = stopped.await;
        }));
        self.agent = Some((agent, stop));
        (self.ringer, self.report) = (Some(ringer), told.clone());
        let reporter = Reporter::new(self.api.client_of(&self.name), &self.name);
        self.tasks.push(tokio::task::spawn_local(reporter.follow(told.clone())));
        self.tasks.push(self.write_history(told));
        self.show_agent(&json!({ "running": {} }));
    }

    /// What the kubelet says of the agent's pod.
    pub fn show_agent(&self, state: &Value) {
        self.show_agent_as(state, &json!({}));
    }

    /// The same, with the end of the container before.
    pub fn show_agent_as(&self, state: &Value, last: &Value) {
        if self.options.release.daemon_set.is_none() {
            return;
        }
        let labels = json!({ "app.kubernetes.io/part-of": "schedpatch", "app.kubernetes.io/component": "agent" });
        let name = format!("agent-{}", self.name);
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "schedpatch", "labels": labels },
            "spec": { "nodeName": self.name, "containers": [{ "name": "schedpatch" }] },
            "status": { "containerStatuses": [{ "name": "schedpatch", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": state, "lastState": last }] } });
        self.api.put(AGENTS, &name, pod);
    }

    fn write_history(&self, mut told: watch::Receiver<Report>) -> JoinHandle<()> {
        let history = Rc::clone(&self.history);
        tokio::task::spawn_local(async move {
            while told.changed().await.is_ok() {
                let report = told.borrow_and_update();
                let line = format!("{} {}", report.node_state.phase.name(), report.node_state.reason);
                let mut history = history.borrow_mut();
                if history.last() != Some(&line) {
                    history.push(line);
                }
            }
        })
    }

    pub fn is_running(&self) -> bool {
        self.agent.as_ref().is_some_and(|(agent, _)| !agent.is_finished())
    }

    /// Asks the agent to end, as the kubelet does, and waits for it.
    pub async fn stop(&mut self) -> Result<(), Finding> {
        let (agent, stop) = self.agent.take().expect("one runs");
        let _ = stop.send(());
        self.show_agent(&json!({ "terminated": { "exitCode": 0 } }));
        tokio::time::timeout(Duration::from_secs(30), agent).await.expect("it ends in time").expect("it does not panic")
    }

    /// Kills the agent where it is waiting.
    pub async fn kill(&mut self) {
        let (agent, _) = self.agent.take().expect("one runs");
        agent.abort();
        let _ = agent.await;
        self.show_agent(&json!({ "terminated": { "exitCode": 137 } }));
    }

    /// Lets time pass.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until this node is in a phase, and gives the report.
    pub async fn until(&mut self, phase: Phase, within: u64) -> Report {
        let history = Rc::clone(&self.history);
        let waited = self.report.wait_for(|report| report.node_state.phase == phase);
        let found =
            tokio::time::timeout(Duration::from_secs(within), waited).await.map(|found| found.map(|r| r.clone()));
        match found {
            Ok(Ok(report)) => report,
            _ => panic!("no {phase:?} within {within} s; {:?}; {history:#?}", self.report.borrow().node_state),
        }
    }

    /// Waits until a report fits.
    pub async fn until_report(&mut self, what: &str, within: u64, fits: impl FnMut(&Report) -> bool) -> Report {
        let history = Rc::clone(&self.history);
        let found = tokio::time::timeout(Duration::from_secs(within), self.report.wait_for(fits)).await;
        let found = found.map(|found| found.map(|r| r.clone()));
        match found {
            Ok(Ok(report)) => report,
            _ => panic!("not {what} within {within} s; {:?}; {history:#?}", self.report.borrow().node_state),
        }
    }

    pub fn phase(&self) -> Phase {
        self.report.borrow().node_state.phase
    }

    pub fn message(&self) -> String {
        self.report.borrow().node_state.message.clone()
    }

    /// Changes the source, and tells the agent as the system would.
    pub fn source(&self, text: &str) {
        self.source_file("config.yaml", text);
    }

    pub fn source_file(&self, name: &str, text: &str) {
        let path = self.dir.join("source").join(name);
        fs::write(&path, text).expect("written");
        self.ring(&path);
    }

    /// Tells the agent that something happened to a path; says whether it watches there.
    pub fn ring(&self, path: &Path) -> bool {
        self.ringer.as_ref().is_some_and(|ringer| ringer.ring(path))
    }

    pub fn on_host(&self, path: &str) -> PathBuf {
        self.dir.join("host").join(path.trim_start_matches('/'))
    }

    pub fn manifest_path(&self) -> PathBuf {
        self.on_host("/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    pub fn manifest(&self) -> String {
        fs::read_to_string(self.manifest_path()).expect("it is there")
    }

    /// The revision in the manifest.
    pub fn revision(&self) -> Option<String> {
        static_pod::read(&self.manifest()).expect("it is sound").ours.map(|ours| ours.revision)
    }

    /// Replaces the manifest, as others do.
    pub fn write_manifest(&self, text: &str) {
        let path = self.manifest_path();
        let temp = self.on_host("/etc/kubernetes/manifests/.other");
        fs::write(&temp, text).expect("written");
        fs::rename(&temp, &path).expect("renamed");
        self.ring(&path);
    }

    pub fn journal(&self) -> Journal {
        match fs::read(self.on_host("/var/lib/schedpatch/state.json")) {
            Ok(bytes) => Journal::from_json(&bytes).expect("it is sound"),
            Err(_) => Journal::default(),
        }
    }

    /// One pass of the command line, as a person runs it. Tells the agent of what changed as the system would.
    pub fn as_person(&self, direction: Direction, retry: bool) -> Result<Outcome, Finding> {
        let settings = Settings { retry, ..self.settings.clone() };
        let command = if direction == Direction::Apply { "apply" } else { "restore" };
        let request = Request::new(&settings, direction, Initiator::Person, command, Duration::from_secs(5));
        let env = Env { fs: &RealFs, clock: &now };
        let outcome = reconcile::run(&request, &env, &mut |_| {});
        self.ring(&self.manifest_path());
        self.ring(&self.on_host("/var/lib/schedpatch/state.json"));
        outcome
    }
}
