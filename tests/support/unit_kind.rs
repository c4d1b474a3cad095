//! A second kind of target, to prove the seam: a file with one command line, whose scheduler runs what the file said when it was
//! restarted last.
//!
//! `run/refused` lets a restart fail. `run/text` below the host's root is what runs, `run/instance` which start it is, `run/slow` lets a restart wait until
//! [`finish`] is called.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedpatch::finding::Finding;
use schedpatch::platform::{Marker, Platform, Platforms, Target};
use schedpatch::revision::Digest;
use schedpatch::target::{
    Activation, Answer, Candidates, Chosen, Context, Definition, Expectation, Here, Identity, Instance, Mount,
    Observation, Observer, Ours, Refusal, Restartable, Restarter, Rule, RunAs, Running, SchedulerSpec, TargetKind,
    Wanted, Words, read_flags,
};

pub const DIR: &str = "/etc/units";
pub const PATH: &str = "/etc/units/kube-scheduler.unit";
pub const TEXT: &str = "# kept\nRun=kube-scheduler --kubeconfig=/etc/scheduler.conf\nAfter=network\n";

static PLATFORM: Platform = Platform {
    id: "unit",
    family: "unit",
    markers: &[Marker::SchedulerIn(DIR)],
    target: Target::InDir { kind: &Unit, dir: DIR },
};
pub static PLATFORMS: Platforms = &[&PLATFORM];

const RUN: &str = "Run=kube-scheduler";
const MARK: &str = "# schedpatch ";

#[derive(Debug)]
struct Unit;

#[derive(Debug)]
struct UnitText<'a>(&'a str);

impl UnitText<'_> {
    fn words(&self) -> Option<Vec<&str>> {
        self.0.lines().find_map(|line| line.strip_prefix(RUN)).map(|rest| rest.split_whitespace().collect())
    }

    fn ours(&self) -> Option<Ours> {
        let mut words = self.0.lines().find_map(|line| line.strip_prefix(MARK))?.split(' ');
        Some(Ours { revision: words.next()?.to_owned(), generation: words.next()?.parse().ok()? })
    }
}

impl Definition for UnitText<'_> {
    fn spec(&self) -> Result<SchedulerSpec, Refusal> {
        let words = self.words().ok_or_else(|| refused("no line runs kube-scheduler"))?;
        Ok(SchedulerSpec {
            identity: Identity { name: "unit".to_owned(), ..Identity::default() },
            has_readiness_probe: true,
            probe_paths: Vec::new(),
            image: "kube-scheduler:v1.36.1".to_owned(),
            image_line: None,
            flags: read_flags(&words),
            mounts: vec![Mount { path: "/".to_owned(), host_path: Some("/".to_owned()) }],
            run_as: RunAs::default(),
            host_network: true,
            dns_policy: None,
            service: None,
            ours: self.ours(),
        })
    }

    fn edit(&self, wanted: &Wanted) -> Result<String, Refusal> {
        let Wanted { revision, generation, .. } = wanted;
        let edited = |line: &str| {
            if line.starts_with(RUN) {
                format!("{line} --config={}\n{MARK}{revision} {generation}\n", wanted.config_path())
            } else {
                format!("{line}\n")
            }
        };
        Ok(self.restore()?.lines().map(edited).collect())
    }

    fn restore(&self) -> Result<String, Refusal> {
        let lines = self.0.lines().filter(|line| !line.starts_with(MARK));
        Ok(lines.map(|line| line.split(" --config=").next().unwrap_or_default().to_owned() + "\n").collect())
    }

    fn recommit(&self, generation: u64, _: Option<&str>) -> Result<String, Refusal> {
        let ours = self.ours().ok_or_else(|| refused("nothing of ours"))?;
        let mark = |generation| format!("{MARK}{} {generation}\n", ours.revision);
        Ok(self.0.replace(&mark(ours.generation), &mark(generation)))
    }
}

fn refused(why: &str) -> Refusal {
    Refusal { rule: Rule::NoScheduler, line: None, message: why.to_owned() }
}

impl TargetKind for Unit {
    fn name(&self) -> &'static str {
        "unit"
    }

    fn read<'a>(&self, text: &'a str, _: Context<'a>) -> Result<Box<dyn Definition + 'a>, Refusal> {
        Ok(Box::new(UnitText(text)))
    }

    fn choose<'a>(&self, candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
        let none = || Finding::error("no-manifest", "there is no unit", "write one").in_file(candidates.dir);
        let file = candidates.files.and_then(<[_]>::first).ok_or_else(none)?;
        let text = file.text.as_deref().map_err(|_| none())?;
        let spec = UnitText(text).spec().map_err(|refusal| Finding::from(refusal).in_file(&file.path))?;
        Ok(Chosen { file, text, digest: Digest::of_bytes(text.as_bytes()), spec, warnings: Vec::new() })
    }

    fn what_follows(&self, _: &SchedulerSpec) -> String {
        "The scheduler restarts.".to_owned()
    }

    fn activation(&self, _: &SchedulerSpec) -> Activation {
        Activation::Restart(&Service)
    }

    fn expectation(&self, spec: &SchedulerSpec) -> Expectation {
        Expectation {
            revision: spec.ours.as_ref().map(|ours| ours.revision.clone()),
            generation: spec.ours.as_ref().map(|ours| ours.generation),
            config: spec.config().map(|(_, path)| path.to_owned()),
            has_readiness_probe: true,
            endpoint: "https://127.0.0.1:10259".to_owned(),
            service: None,
            unnoticed_after: None,
            words: Words { absent: "nothing runs", earlier: "not restarted yet", not_started: "it does not start" },
        }
    }

    fn observer(&self, _: &SchedulerSpec, here: &Here<'_>) -> Box<dyn Observer> {
        Box::new(Watcher(here.host_root.to_owned()))
    }
}

#[derive(Debug)]
struct Service;

impl Restarter for Service {
    fn instance(&self, at: &Restartable<'_>) -> Result<String, String> {
        Ok(running(at.host_root, "instance"))
    }

    fn is_pending(&self, at: &Restartable<'_>) -> Result<bool, String> {
        Ok(at.host_root.join("run/pending").exists())
    }

    fn restart(&self, at: &Restartable<'_>) -> Result<(), String> {
        let host_root = at.host_root;
        let dir = host_root.join("run");
        if dir.join("refused").exists() {
            return Err("the service manager does not answer".to_owned());
        }
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let asked = running(host_root, "asked").parse().unwrap_or(0) + 1;
        fs::write(dir.join("asked"), asked.to_string()).map_err(|error| error.to_string())?;
        fs::write(dir.join("pending"), "").map_err(|error| error.to_string())?;
        if !dir.join("slow").exists() {
            finish(host_root);
        }
        Ok(())
    }
}

/// The restart that was asked for happens.
pub fn finish(host_root: &Path) {
    let dir = host_root.join("run");
    if fs::remove_file(dir.join("pending")).is_ok() {
        let text = fs::read(host_root.join(PATH.trim_start_matches('/'))).expect("the unit is there");
        fs::write(dir.join("text"), text).expect("written");
        fs::write(dir.join("instance"), format!("start-{}", restarts(host_root))).expect("written");
    }
}

/// How often a restart was asked for.
pub fn restarts(host_root: &Path) -> u64 {
    running(host_root, "asked").parse().unwrap_or(0)
}

/// What runs.
pub fn running(host_root: &Path, what: &str) -> String {
    fs::read_to_string(host_root.join("run").join(what)).unwrap_or_default()
}

/// Sees what runs. A configuration that names `slow.` never gets ready.
#[derive(Debug)]
struct Watcher(PathBuf);

impl Watcher {
    fn look(&self) -> Observation {
        let text = running(&self.0, "text");
        let unit = UnitText(&text);
        let Ok(spec) = unit.spec() else { return Observation::Absent };
        let config = spec.config().map(|(_, path)| path.to_owned());
        let content =
            config.as_ref().and_then(|path| fs::read_to_string(self.0.join(path.trim_start_matches('/'))).ok());
        let ready = !content.unwrap_or_default().contains("slow.");
        let instance = Instance { id: running(&self.0, "instance"), ready, ..Instance::default() };
        let (revision, generation) = spec.ours.map(|ours| (ours.revision, ours.generation)).unzip();
        Observation::Running(Running { revision, generation, config, instance: Some(instance) })
    }
}

impl Observer for Watcher {
    fn latest(&mut self) -> (Observation, Duration) {
        (self.look(), Duration::ZERO)
    }

    fn is_away(&self) -> bool {
        false
    }

    fn changed(&mut self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn ask(&mut self) -> Answer<'_, Observation> {
        let seen = self.look();
        Box::pin(async { seen })
    }

    fn why_stale(&mut self) -> Answer<'_, Option<String>> {
        Box::pin(async { None })
    }
}
