//! Hosts in the middle of a story, and the operation that comes next.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedpatch::finding::Finding;
use schedpatch::journal::Initiator;
use schedpatch::plan::{Direction, Plan};
use schedpatch::reconcile::{self, Env, Outcome, Request};
use schedpatch::settings::{Preflight, Settings};
use schedpatch::timestamp::Timestamp;

use super::faulty_fs::{Call, Fault, FaultyFs};
use super::whole_host::{Expectation, Kind, Places};

pub const KUBEADM: Places =
    Places { manifests: "/etc/kubernetes/manifests", target: "kube-scheduler.yaml", state: "/var/lib/schedpatch" };
pub const RKE2: Places = Places {
    manifests: "/var/lib/rancher/rke2/agent/pod-manifests",
    target: "kube-scheduler.yaml",
    state: "/var/lib/schedpatch",
};

/// What the lock says while the tested operation runs.
pub const COMMAND: &str = "now";

/// The story of a run that was killed right after its commit.
pub const AFTER_KILL: &str = "proof of what a killed run left";

/// Stories in which a preflight goes on when the operation begins.
pub const IN_PREFLIGHT: [&str; 2] = ["commit of what a preflight tries", "proof during a preflight"];

/// What is run next.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Apply(&'static str),
    /// The agent has seen the scheduler run with it
    Prove(&'static str),
    LastGood,
    Restore,
    Purge,
    /// A preflight that comes to nothing: its file comes and goes
    Preflight(&'static str),
}

/// A host before an operation.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub places: Places,
    pub operation: Operation,
    /// The host's tree, not to be changed
    pub template: PathBuf,
    /// A source with this marker in it
    sources: PathBuf,
    pub expectation: Expectation,
    /// The target before schedpatch came
    pub original: Vec<u8>,
}

impl Drop for Scenario {
    /// What is in memory is not left there.
    fn drop(&mut self) {
        if let Some(home) = self.template.parent().filter(|home| home.starts_with("/dev/shm")) {
            let _ = fs::remove_dir_all(home);
            // and what held it, once it is empty
            home.ancestors().skip(1).take(2).for_each(|dir| drop(fs::remove_dir(dir)));
        }
    }
}

/// Builds all stories below a directory of its own.
pub fn all(suite: &str) -> Vec<Scenario> {
    vec![
        build(suite, "first apply", "kubeadm-1.36", KUBEADM, Operation::Apply("a"), |_| {}),
        build(suite, "re-apply with changed source", "kubeadm-1.36", KUBEADM, Operation::Apply("e"), |story| {
            story.run(Operation::Apply("a"));
            story.proven("a");
            for source in ["b", "c", "d"] {
                story.run(Operation::Apply(source));
            }
        }),
        build(suite, "apply over drift", "rke2-1.34", RKE2, Operation::Apply("a"), |story| {
            story.run(Operation::Apply("a"));
            let upgraded =
                String::from_utf8(story.original.clone()).expect("text").replace("--profiling=false", "--v=3");
            assert_ne!(upgraded.as_bytes(), story.original, "the upgrade changes something");
            fs::write(story.target(), upgraded).expect("written");
        }),
        build(suite, "back to last good", "rke2-1.34", RKE2, Operation::LastGood, |story| {
            story.run(Operation::Apply("a"));
            story.proven("a");
            story.run(Operation::Apply("b"));
        }),
        build(suite, "restore", "kubeadm-1.36", KUBEADM, Operation::Restore, |story| {
            story.run(Operation::Apply("a"));
        }),
        build(
            suite,
            "restore after others edited",
            "kubespray-1.30-has-config",
            KUBEADM,
            Operation::Restore,
            |story| {
                story.run(Operation::Apply("a"));
                let edited = fs::read_to_string(story.target()).expect("text") + "# edited by somebody else\n";
                fs::write(story.target(), edited).expect("written");
            },
        ),
        build(suite, "restore and purge", "kubeadm-1.36", KUBEADM, Operation::Purge, |story| {
            story.run(Operation::Apply("a"));
            story.run(Operation::Apply("b"));
        }),
    ]
}

/// The same, and what only the agent does, for which there is no command.
pub fn all_of_agent(suite: &str) -> Vec<Scenario> {
    let prove = build(suite, "proof of a change", "kubeadm-1.36", KUBEADM, Operation::Prove("b"), |story| {
        story.run(Operation::Apply("a"));
        story.proven("a");
        story.run(Operation::Apply("b"));
    });
    let after_kill = build(suite, AFTER_KILL, "rke2-1.34", RKE2, Operation::Prove("b"), |story| {
        story.run(Operation::Apply("a"));
        story.proven("a");
        story.run_killed_after_commit(Operation::Apply("b"));
    });
    let preflight = build(suite, "preflight", "kubeadm-1.36", KUBEADM, Operation::Preflight("b"), |story| {
        story.run(Operation::Apply("a"));
        story.proven("a");
    });
    let [commits, proves] = IN_PREFLIGHT;
    let commit = build(suite, commits, "kubeadm-1.36", KUBEADM, Operation::Apply("b"), |story| {
        story.run(Operation::Apply("a"));
        story.proven("a");
        story.begin_preflight("b");
    });
    let prove_meanwhile = build(suite, proves, "kubeadm-1.36", KUBEADM, Operation::Prove("a"), |story| {
        story.run(Operation::Apply("a"));
        story.begin_preflight("b");
    });
    all(suite).into_iter().chain([prove, after_kill, preflight, commit, prove_meanwhile]).collect()
}

/// A host on which something is done before the operation that is tested.
pub struct Story {
    root: PathBuf,
    sources: PathBuf,
    places: Places,
    original: Vec<u8>,
}

impl Story {
    fn run(&self, operation: Operation) {
        let outcome = run(&self.root, &self.sources, operation, "earlier", &FaultyFs::new(Fault::None));
        let outcome = outcome.unwrap_or_else(|why| panic!("{operation:?}: {why}"));
        assert!(outcome.receipt.is_some_and(|receipt| receipt.committed), "{operation:?} commits");
    }

    fn target(&self) -> PathBuf {
        self.root.join(self.places.manifests.trim_start_matches('/')).join(self.places.target)
    }

    /// What stands is the last good.
    fn proven(&self, source: &'static str) {
        run(&self.root, &self.sources, Operation::Prove(source), "earlier", &FaultyFs::new(Fault::None))
            .unwrap_or_else(|why| panic!("proof of {source}: {why}"));
        let journal = fs::read(self.root.join("var/lib/schedpatch/state.json")).expect("there");
        let journal: serde_json::Value = serde_json::from_slice(&journal).expect("JSON");
        assert_eq!(journal["lastGood"], journal["current"], "it is the last good");
        assert!(journal["lastGood"].is_object(), "something is");
    }

    /// The kubelet has a preflight to run, and the agent waits for it.
    fn begin_preflight(&self, source: &'static str) {
        let settings = settings(&self.root, Some(self.sources.join(source)));
        let request = Request::new(&settings, Direction::Apply, Initiator::Agent, "earlier", Duration::from_secs(10));
        let env = Env { fs: &FaultyFs::new(Fault::None), clock: &|| Timestamp::from_unix(1_800_000_000) };
        begin_preflight(&self.root, &request, &env).unwrap_or_else(|why| panic!("preflight of {source}: {why}"));
    }

    /// The manifest is replaced, and not one call is made after that.
    fn run_killed_after_commit(&self, operation: Operation) {
        let copy = self.root.with_file_name("calls");
        copy_tree(&self.root, &copy);
        let counted = FaultyFs::new(Fault::None);
        run(&copy, &self.sources, operation, "earlier", &counted).unwrap_or_else(|why| panic!("{operation:?}: {why}"));
        let is_commit = |call: &Call| matches!(call, Call::Rename { to, .. } if to == self.places.target);
        let commit = counted.calls().iter().position(is_commit).expect("it commits");
        let before = fs::read(self.target()).expect("there");
        let _ = run(&self.root, &self.sources, operation, "earlier", &FaultyFs::new(Fault::Kill(commit + 1)));
        assert_ne!(fs::read(self.target()).expect("there"), before, "it was committed");
    }
}

fn build(
    suite: &str,
    name: &'static str,
    golden: &str,
    places: Places,
    operation: Operation,
    before: impl FnOnce(&Story),
) -> Scenario {
    let home = super::scratch(suite).join(name.replace(' ', "-"));
    let _ = fs::remove_dir_all(&home);
    let root = home.join("template");
    copy_tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden).join("host"), &root);
    // git keeps neither modes nor empty directories
    fs::create_dir_all(root.join("var/lib")).expect("a directory");
    let manifests = root.join(places.manifests.trim_start_matches('/'));
    fs::set_permissions(&manifests, fs::Permissions::from_mode(0o755)).expect("a mode");
    let target = manifests.join(places.target);
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("a mode");
    let sources = home.join("sources");
    for marker in ["a", "b", "c", "d", "e"] {
        make_source(&sources, marker);
    }
    let original = fs::read(&target).expect("the manifest");
    let story = Story { root: root.clone(), sources: sources.clone(), places: places.clone(), original };
    before(&story);

    let reference = home.join("reference");
    copy_tree(&root, &reference);
    run(&reference, &sources, operation, COMMAND, &FaultyFs::new(Fault::None))
        .unwrap_or_else(|why| panic!("{name}: {why}"));
    let kind = match operation {
        Operation::Apply(_) => Kind::Applies,
        Operation::Prove(_) => Kind::Proves,
        Operation::Preflight(_) => Kind::Tries,
        Operation::LastGood | Operation::Restore | Operation::Purge => Kind::Holds,
    };
    let expectation = Expectation::new(places.clone(), &root, &reference, kind);
    if matches!(operation, Operation::LastGood) {
        let text = fs::read_to_string(reference.join(&places.manifests[1..]).join(places.target)).expect("text");
        assert!(text.contains("schedpatch.io/revision"), "{name}: the last good is one of ours");
    }
    expectation.check_settled(&reference).unwrap_or_else(|why| panic!("{name}, without faults: {why}"));
    Scenario { name, places, operation, template: root, sources, expectation, original: story.original }
}

impl Scenario {
    /// A fresh copy of the host.
    pub fn host(&self, case: &str) -> PathBuf {
        let root = self.template.with_file_name(format!("case-{case}"));
        let _ = fs::remove_dir_all(&root);
        copy_tree(&self.template, &root);
        root
    }

    /// Runs the operation.
    pub fn run(&self, root: &Path, fs: &FaultyFs<'_>) -> Result<Outcome, String> {
        run(root, &self.sources, self.operation, COMMAND, fs)
    }

    /// Runs another operation.
    pub fn run_other(&self, root: &Path, operation: Operation) -> Result<Outcome, String> {
        run(root, &self.sources, operation, COMMAND, &FaultyFs::new(Fault::None))
    }

    /// Takes ours out, whatever state the host is in.
    pub fn restore(&self, root: &Path) -> Result<Outcome, String> {
        run(root, &self.sources, Operation::Restore, COMMAND, &FaultyFs::new(Fault::None))
    }

    /// The settings of the operation.
    pub fn settings(&self, root: &Path) -> Settings {
        let source = match self.operation {
            Operation::Apply(source) | Operation::Prove(source) | Operation::Preflight(source) => {
                Some(self.sources.join(source))
            }
            _ => None,
        };
        settings(root, source)
    }

    /// Flags for the program from outside.
    pub fn flags(&self, root: &Path) -> Vec<String> {
        let host_root = ["--host-root".to_owned(), root.display().to_string()];
        let command: Vec<String> = match self.operation {
            Operation::Apply(source) => {
                let source = self.sources.join(source).display().to_string();
                vec!["apply".to_owned(), "--source".to_owned(), source]
            }
            Operation::LastGood => ["restore", "--to", "last-good"].map(str::to_owned).to_vec(),
            Operation::Restore => vec!["restore".to_owned()],
            Operation::Purge => ["restore", "--purge"].map(str::to_owned).to_vec(),
            Operation::Prove(_) | Operation::Preflight(_) => panic!("no command does this: see all_of_agent"),
        };
        command.into_iter().chain(host_root).collect()
    }

    pub fn target(&self, root: &Path) -> PathBuf {
        root.join(self.places.manifests.trim_start_matches('/')).join(self.places.target)
    }
}

fn run(root: &Path, sources: &Path, operation: Operation, command: &str, fs: &FaultyFs<'_>) -> Result<Outcome, String> {
    let (direction, source) = match operation {
        Operation::Apply(source) | Operation::Prove(source) | Operation::Preflight(source) => {
            (Direction::Apply, Some(sources.join(source)))
        }
        Operation::LastGood => (Direction::LastGood, None),
        Operation::Restore | Operation::Purge => (Direction::Restore, None),
    };
    let settings = settings(root, source);
    let purge = matches!(operation, Operation::Purge);
    // a child that another test has just forked holds our lock, too, until it runs its own program
    let lock_timeout = Duration::from_secs(10);
    let is_agent = matches!(operation, Operation::Prove(_) | Operation::Preflight(_));
    let initiator = if is_agent { Initiator::Agent } else { Initiator::Person };
    let request = Request { purge, ..Request::new(&settings, direction, initiator, command, lock_timeout) };
    let env = Env { fs, clock: &|| Timestamp::from_unix(1_800_000_000) };
    if matches!(operation, Operation::Preflight(_)) {
        let plan = begin_preflight(root, &request, &env)?;
        reconcile::end_preflights(&request, None, &env).map_err(|finding| told(&finding))?;
        return Ok(Outcome { plan, receipt: None, purged: None, still_loaded: None });
    }
    if matches!(operation, Operation::Prove(_)) {
        let text = reconcile::look(&request).map_err(|finding| told(&finding))?.1.target.ok_or("no target")?.digest;
        assert!(reconcile::prove(&request, &env, text).map_err(|finding| told(&finding))?, "it stands");
    }
    let outcome = reconcile::run(&request, &env, &mut |_| {}).map_err(|finding| told(&finding))?;
    match outcome.plan.findings.first() {
        Some(finding) if outcome.plan.is_refused() => Err(format!("{}: {}", finding.rule, finding.message)),
        _ => Ok(outcome),
    }
}

fn told(finding: &Finding) -> String {
    format!("{}: {}", finding.rule, finding.message)
}

/// Begins the preflight of what is asked for, and gives the plan.
fn begin_preflight(root: &Path, request: &Request<'_>, env: &Env<'_>) -> Result<Plan, String> {
    let preflight = Preflight::On { timeout: Duration::from_mins(10) };
    let settings = Settings { preflight, ..request.settings.clone() };
    let request = Request { settings: &settings, ..request.clone() };
    let (_, plan) = reconcile::look(&request).map_err(|finding| told(&finding))?;
    let manifest = plan.preflight.clone().expect("it needs one").manifest;
    assert!(
        reconcile::begin_preflight(&request, None, env, &manifest, &mut |_| {}).map_err(|finding| told(&finding))?,
        "it begins"
    );
    let dir = plan.target.as_ref().ok_or("no target")?.path.parent();
    if !root.join(dir.as_str().trim_start_matches('/')).join(&manifest.file).is_file() {
        return Err(format!("{} is not where the kubelet looks", manifest.file));
    }
    Ok(plan)
}

fn settings(root: &Path, source: Option<PathBuf>) -> Settings {
    Settings { sources: source.into_iter().collect(), ..Settings::new(root) }
}

fn make_source(sources: &Path, marker: &str) {
    let dir = sources.join(marker);
    fs::create_dir_all(&dir).expect("a directory");
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n\
         - urlPrefix: http://127.0.0.1:8889/{marker}\n  filterVerb: filter\n  ignorable: true\n"
    );
    fs::write(dir.join("config.yaml"), config).expect("written");
    fs::write(dir.join("policy.txt"), format!("beside {marker}\n")).expect("written");
}

/// Copies files with their modes.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).expect("readable")).expect("written");
        }
        let mode = fs::symlink_metadata(entry.path()).expect("there").mode() & 0o7777;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).expect("a mode");
    }
}
