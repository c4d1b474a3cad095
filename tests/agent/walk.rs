//! A random walk over changes and faults, with the laws checked after every step. One number repeats it:
//! `SCHEDPATCH_WALK_SEED=7 cargo test --test agent walk`; more steps: `SCHEDPATCH_WALK_STEPS=100000` (`just walk`).

use std::collections::BTreeSet;
use std::fs;

use schedpatch::journal::{Bad, Journal};
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::target::static_pod;

use crate::api::Fault;
use crate::kubelet::NEW_IMAGE;
use crate::node::{MANIFEST, NAME, Node, config, story};
use crate::support::rng::Rng;

/// Steps of one walk, before the world is calmed and looked at.
const STEPS_TO_CALM: usize = 25;

/// Walks that once broke a law: an end that was asked for counted as a failure, a proven revision stayed Degraded, a revision
/// that others had edited stayed Verifying, an answer that came late found Ready said of the revision before.
const FOUND: [u64; 5] = [2300, 1032, 740, 2029, 1721];

const FAULTS: [Fault; 10] = [
    Fault::Refuse,
    Fault::Hang,
    Fault::Code(401),
    Fault::Code(403),
    Fault::Code(410),
    Fault::Code(429),
    Fault::Code(500),
    Fault::Slow(3_000),
    Fault::NoNodes,
    Fault::WrongPods,
];

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn a_random_walk_breaks_no_law() {
    let steps = usize::try_from(from_env("SCHEDPATCH_WALK_STEPS").unwrap_or(1_000)).expect("not so many");
    let seeds = match from_env("SCHEDPATCH_WALK_SEED") {
        Some(seed) => vec![seed],
        None => (0..steps.div_ceil(STEPS_TO_CALM) as u64).chain(FOUND).collect(),
    };
    let half = seeds.len().div_ceil(2).max(1);
    let counts = std::thread::scope(|scope| {
        let halves = seeds.chunks(half).map(|seeds| scope.spawn(|| seeds.iter().map(|seed| walk(*seed)).collect()));
        let halves: Vec<std::thread::ScopedJoinHandle<'_, Vec<Counts>>> = halves.collect();
        halves.into_iter().fold(Counts::default(), |mut all, half| {
            let counts = half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            for counts in counts {
                all.add(counts);
            }
            all
        })
    });
    println!(
        "{} walks, {} steps, {} commits, {} rollbacks, {} agents, 0 violations",
        seeds.len(),
        counts.steps,
        counts.commits,
        counts.rollbacks,
        counts.agents
    );
    assert!(seeds.len() < 20 || counts.rollbacks > 0 && counts.commits > seeds.len() as u64, "nothing happened");
}

#[derive(Clone, Copy, Default)]
struct Counts {
    steps: u64,
    commits: u64,
    rollbacks: u64,
    agents: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.agents += other.agents;
    }
}

fn walk(seed: u64) -> Counts {
    let counts = std::rc::Rc::new(std::cell::Cell::new(Counts::default()));
    let out = std::rc::Rc::clone(&counts);
    story(|node| async move {
        let mut walker = Walker::new(node, seed);
        walker.node.source(&config("one"));
        walker.node.start();
        for _ in 0..STEPS_TO_CALM {
            walker.step().await;
        }
        walker.calm_down().await;
        out.set(walker.counts);
    });
    counts.get()
}

struct Walker {
    node: Node,
    rng: Rng,
    seed: u64,
    done: Vec<String>,
    counts: Counts,
    wanted: String,
    has_typo: bool,
    /// Whether the API has shown a pod that is not there
    has_lied: bool,
    /// Since when the API has not let anybody begin something new: the generation of that moment, and what was known
    closed: Option<Closed>,
    generation: u64,
}

/// What may be committed while nothing new may be begun.
struct Closed {
    known: BTreeSet<String>,
}

impl Walker {
    fn new(node: Node, seed: u64) -> Self {
        let rng = Rng::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17));
        let (wanted, done) = ("one".to_owned(), Vec::new());
        let counts = Counts { agents: 1, ..Counts::default() };
        Self { node, rng, seed, done, counts, wanted, has_typo: false, has_lied: false, closed: None, generation: 0 }
    }

    /// One change or fault, some time, and the laws.
    async fn step(&mut self) {
        self.counts.steps += 1;
        let what = self.rng.below(22);
        let did = self.act(what).await;
        let seconds = [0, 1, 2, 5, 15, 40, 100, 300][self.rng.below(8)];
        self.done.push(format!("{did}; {seconds} s"));
        self.node.pass(seconds).await;
        self.check(seconds > 0);
    }

    async fn act(&mut self, what: usize) -> String {
        match what {
            0..=4 => {
                let extender = self.rng.pick(&["one", "two", "three", "crash.", "slow."]).to_owned();
                self.node.source(&config(&extender));
                self.wanted.clone_from(&extender);
                format!("want {extender}")
            }
            5 => {
                self.node.source(&(config("one") + "nonsense: 1\n"));
                "broken".clone_into(&mut self.wanted);
                "want nonsense".to_owned()
            }
            6..=9 => {
                let fault = FAULTS[self.rng.below(FAULTS.len())];
                self.set_fault(fault);
                format!("fault {fault:?}")
            }
            10 | 11 => {
                self.set_fault(Fault::None);
                "no fault".to_owned()
            }
            12 => {
                self.node.api.reset_watches();
                "reset".to_owned()
            }
            13 => {
                let is_mute = self.rng.once_in(2);
                self.node.api.mute_watches(is_mute);
                format!("mute {is_mute}")
            }
            14 => {
                let is_running = self.rng.once_in(2);
                self.node.kubelet.borrow_mut().is_running = is_running;
                self.node.api.set_node_ready(NAME, is_running);
                format!("kubelet {is_running}")
            }
            15 => {
                self.node.kubelet.borrow_mut().end("panic: runtime error");
                self.node.kubelet.borrow_mut().end("panic: runtime error");
                "the scheduler ends once".to_owned()
            }
            16 => self.restart(true).await,
            17 => self.restart(false).await,
            18 => self.edit_manifest(),
            19 => self.typo(),
            20 => self.upgrade(),
            _ => self.as_person(),
        }
    }

    fn set_fault(&mut self, fault: Fault) {
        self.node.api.set_fault(fault);
        self.has_lied |= fault == Fault::WrongPods;
        let is_closed = !matches!(fault, Fault::None | Fault::Slow(_) | Fault::WrongPods);
        let journal = self.node.journal();
        let known = journal.revisions().into_iter().map(str::to_owned).collect();
        self.closed = is_closed.then(|| self.closed.take().unwrap_or(Closed { known }));
    }

    async fn restart(&mut self, gently: bool) -> String {
        let journal = self.node.journal();
        if gently {
            let ended = self.node.stop().await;
            self.check_law_12(&journal, ended.is_ok());
        } else {
            self.node.kill().await;
        }
        self.node.start();
        self.counts.agents += 1;
        format!("restart, gently: {gently}")
    }

    /// Somebody adds a line that changes nothing.
    fn edit_manifest(&mut self) -> String {
        let text = self.node.manifest();
        let text = text.replace("cpu: 100m", "cpu: 150m");
        self.node.write_manifest(&text);
        "edit".to_owned()
    }

    /// Somebody writes the manifest anew, with this image or that.
    fn upgrade(&mut self) -> String {
        let has_registry = self.rng.once_in(2);
        self.node.kubelet.borrow_mut().has_registry = has_registry;
        let image = if self.rng.once_in(2) { "v1.36.1" } else { NEW_IMAGE };
        self.has_typo = false;
        self.node.write_manifest(&MANIFEST.replace("v1.36.1", image));
        format!("upgrade to {image}, registry {has_registry}")
    }

    /// Somebody makes a mistake, or mends it.
    fn typo(&mut self) -> String {
        let text = self.node.manifest();
        let line = "    - --typo=1\n";
        let text = if text.contains(line) {
            text.replace(line, "")
        } else {
            text.replace("    - --leader-elect=true\n", &format!("    - --leader-elect=true\n{line}"))
        };
        self.has_typo = text.contains(line);
        self.node.write_manifest(&text);
        format!("typo {}", self.has_typo)
    }

    fn as_person(&mut self) -> String {
        let (direction, retry) = match self.rng.below(4) {
            0 => (Direction::Restore, false),
            1 => (Direction::LastGood, false),
            2 => (Direction::Apply, true),
            _ => (Direction::Apply, false),
        };
        let ended = self.node.as_person(direction, retry);
        // a person may begin whatever she likes
        let known = self.node.journal().revisions().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        if let Some(closed) = &mut self.closed {
            closed.known.extend(known);
        }
        format!("person: {direction:?}, retry {retry}, {}", if ended.is_ok() { "done" } else { "refused" })
    }

    /// Law 12: whoever is told to stop leaves a node that schedules: nothing that is on trial.
    fn check_law_12(&self, before: &Journal, is_ok: bool) {
        let journal = self.node.journal();
        let text = schedpatch::revision::Digest::of_bytes(self.node.manifest().as_bytes());
        let has_ours = self.node.revision().is_some();
        let is_held = journal.hold.is_some() || before.hold.is_some();
        if has_ours && is_ok && !is_held && journal.is_current(text) {
            let is_good = journal.has_proven(&self.node.revision().expect("ours"));
            assert!(is_good, "law 12: {} stays on trial\n{}", self.node.revision().expect("ours"), self.story());
        }
    }

    /// What holds after every step; what the agent says only if it had time to look.
    fn check(&mut self, had_time: bool) {
        assert!(self.node.is_running(), "the agent ended\n{}", self.story());
        let journal = self.node.journal();
        // law 5: the manifest is whole, and what it names is there
        let text = fs::read_to_string(self.node.manifest_path()).expect("law 5: it is there");
        let pod = static_pod::read(&text).unwrap_or_else(|refusal| panic!("law 5: {refusal:?}\n{}", self.story()));
        if let (Some(_), Some((_, path))) = (&pod.ours, pod.config()) {
            assert!(self.node.on_host(path).is_file(), "law 5: {path}\n{}", self.story());
        }
        let revision = pod.ours.as_ref().map(|ours| ours.revision.clone());
        // law 8: nothing new is begun unless the API says that this is the only node
        if let (Some(closed), Some(revision)) = (&self.closed, &revision) {
            let is_known = closed.known.contains(revision) || journal.generation == self.generation;
            assert!(is_known, "law 8: {revision} was begun while the API was closed\n{}", self.story());
        }
        // law 6: who is Ready shows a pod of this very revision and generation, as far as the API knew
        let report = self.node.report.borrow().clone();
        if had_time && report.node_state.phase == Phase::Ready {
            assert_eq!(report.revision, revision, "law 6: another revision is in place\n{}", self.story());
            assert!(journal.has_proven(revision.as_deref().unwrap_or_default()), "law 6: no proof\n{}", self.story());
        }
        // law 9: what runs is not banned
        for (marked, bad) in &journal.bad {
            let file = self.node.on_host(&format!("/var/lib/schedpatch/revisions/{marked}/config.yaml"));
            let Ok(config) = fs::read_to_string(file) else { continue };
            let is_at_fault = config.contains("crash.") || config.contains("slow.");
            let is_lie = self.has_lied && bad.reason.contains("the pod of before");
            assert!(
                is_at_fault || is_lie || is_excused(bad) || bad.original.is_some(),
                "law 9: {marked} is banned: {}\n{}",
                bad.reason,
                self.story()
            );
        }
        self.counts.commits += journal.generation.saturating_sub(self.generation);
        self.generation = journal.generation;
        self.counts.rollbacks = self.counts.rollbacks.max(report.counts.rollbacks);
    }

    /// Everything is mended, and some time passes: then the node must be where it belongs.
    async fn calm_down(&mut self) {
        self.set_fault(Fault::None);
        self.node.api.mute_watches(false);
        self.node.api.set_node_ready(NAME, true);
        {
            let mut kubelet = self.node.kubelet.borrow_mut();
            (kubelet.is_running, kubelet.has_registry) = (true, true);
        }
        if self.has_typo {
            self.typo();
        }
        self.done.push("calm".to_owned());
        self.node.pass(2_000).await;
        self.check(true);
        let (report, journal) = (self.node.report.borrow().clone(), self.node.journal());
        let phase = report.node_state.phase;
        let revision = self.node.revision();
        let is_bad =
            |revision: &Option<String>| revision.as_ref().is_some_and(|revision| journal.bad.contains_key(revision));
        assert!(!is_bad(&revision), "a banned revision is in place\n{}", self.story());
        if journal.hold.is_some() {
            assert!(matches!(phase, Phase::Restored | Phase::Blocked), "held, and {phase:?}\n{}", self.story());
            return;
        }
        match self.wanted.as_str() {
            "crash." | "slow." => {
                assert!(matches!(phase, Phase::RolledBack | Phase::Degraded), "{phase:?}\n{}", self.story());
            }
            "broken" => {
                // the last good revision does not fit a manifest that was upgraded meanwhile
                let is_lost = report.node_state.reason == "LastGoodLost";
                assert!(phase == Phase::Blocked || is_lost, "{phase:?}\n{}", self.story());
            }
            _ => {
                let is_foreign_manager = report.node_state.reason == "ForeignManager";
                let is_excused = phase == Phase::RolledBack && self.is_wanted_excused(&journal);
                assert!(
                    phase == Phase::Ready || is_foreign_manager || is_excused,
                    "wanted {}, and {phase:?}
{}",
                    self.wanted,
                    self.story()
                );
            }
        }
        self.check_served();
    }

    /// Whether what is wanted failed by a mistake of others that was mended before the original could fail by it too.
    fn is_wanted_excused(&self, journal: &Journal) -> bool {
        let of_wanted = |revision: &str| {
            let file = self.node.on_host(&format!("/var/lib/schedpatch/revisions/{revision}/config.yaml"));
            // one of which the files are gone may be it
            fs::read_to_string(file).map_or(true, |config| config.contains(&format!("/{}\"", self.wanted)))
        };
        journal.bad.iter().any(|(revision, bad)| of_wanted(revision) && (is_excused(bad) || self.has_lied))
    }

    /// In the end something schedules.
    fn check_served(&self) {
        let serves = self.node.kubelet.borrow().serves.load(std::sync::atomic::Ordering::Relaxed);
        assert!(serves, "nothing schedules\n{}", self.story());
    }

    fn story(&self) -> String {
        let node_state = self.node.report.borrow().node_state.clone();
        format!(
            "seed {} (SCHEDPATCH_WALK_SEED={} cargo test --test agent walk)\n{}\nnow {node_state:?}\n{:?}\n{:#?}\n{}",
            self.seed,
            self.seed,
            self.done.join("\n"),
            self.node.history.borrow(),
            self.node.journal(),
            self.node.manifest()
        )
    }
}

/// Ends that are not the configuration's fault, and that the scheduler's last words tell apart only for us.
fn is_excused(bad: &Bad) -> bool {
    bad.reason.contains("--typo") || bad.reason.contains("panic: runtime")
}
