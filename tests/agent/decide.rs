//! The agent's decisions as tables: what a look asks for, and what a verdict does.

use std::collections::BTreeMap;
use std::time::Duration;

use schedpatch::finding::Finding;
use schedpatch::journal::{Bad, Commit, Hold, Journal};
use schedpatch::phase::{Action, Change, Decision, Fault, NodeState, Phase, Subject, after_verdict, decide};
use schedpatch::plan::{Outcome, Plan, Step, StepKind, TargetNow};
use schedpatch::revision::Digest;
use schedpatch::target::Ours;
use schedpatch::target::static_pod::{self, StaticPod};
use schedpatch::timestamp::Timestamp;
use schedpatch::verify::{Cause, Failure, Verdict};

const MANIFEST: &str = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");

/// A plan towards `wanted` on a host whose manifest carries `stands`.
fn plan(wanted: Option<&str>, stands: Option<&str>) -> Plan {
    let mut spec = static_pod::read(MANIFEST).expect("the example is sound");
    spec.ours = stands.map(|revision| Ours { revision: revision.to_owned(), generation: 3 });
    let (path, text) = ("/m.yaml".into(), MANIFEST.to_owned());
    let target = TargetNow { kind: &StaticPod, path, text, digest: Digest::of_bytes(b"now"), spec };
    Plan { revision: wanted.map(str::to_owned), target: Some(target), ..Plan::default() }
}

fn with_commit(mut plan: Plan) -> Plan {
    let step = Step {
        kind: StepKind::ReplaceTarget,
        path: "/m.yaml".into(),
        access: schedpatch::plan::Access { mode: 0o600, user: None, group: None },
        why: String::new(),
        before: None,
        after: Vec::new(),
    };
    plan.outcome = Outcome::Change(vec![step]);
    plan
}

fn with_error(mut plan: Plan, rule: &'static str) -> Plan {
    plan.outcome = Outcome::Refused;
    plan.findings.push(Finding::error(rule, "what", "way out").in_file("/a.yaml").at_line(Some(3)));
    plan
}

fn bad(revision: &str) -> Journal {
    let reason = format!("{revision} fails");
    let (since, original, digest) = (Timestamp::default(), None, None);
    let bad = Bad { reason, since, original, digest, retries: 0, is_reported: false, by_preflight: false };
    Journal { bad: BTreeMap::from([(revision.to_owned(), bad)]), ..Journal::default() }
}

fn good(revision: &str) -> Journal {
    let commit = Commit {
        revision: revision.to_owned(),
        generation: 3,
        digest: None,
        text: Digest::of_bytes(b"good"),
        files: BTreeMap::new(),
        since: Timestamp::default(),
    };
    Journal { last_good: Some(commit), ..Journal::default() }
}

fn fault() -> Fault {
    Fault { revision: "a".to_owned(), reason: "a fails".to_owned(), by_preflight: false }
}

fn phase_of(decide: &Decision) -> Option<(Phase, &str)> {
    match decide {
        Decision::Stay(node_state) => Some((node_state.phase, node_state.reason.as_str())),
        _ => None,
    }
}

#[test]
fn a_hold_comes_before_everything() {
    let hold = Some(Hold { by: "schedpatch restore".to_owned(), since: Timestamp::default() });
    let decide = |plan: &Plan| decide(plan, &Journal { hold: hold.clone(), ..bad("a") }, false);
    for plan in [plan(None, None), with_commit(plan(Some("a"), None)), with_error(plan(None, None), "x")] {
        assert_eq!(phase_of(&decide(&plan)), Some((Phase::Restored, "Held")));
    }
    for plan in [plan(None, Some("a")), with_error(plan(None, Some("a")), "x"), Plan::default()] {
        assert_eq!(phase_of(&decide(&plan)), Some((Phase::Blocked, "Held")), "ours is not out");
    }
}

#[test]
fn what_a_look_asks_for() {
    let none = Journal::default;
    let cases: [(&str, Plan, Journal, bool, Decision); 7] = [
        ("up to date", plan(Some("a"), Some("a")), none(), true, Decision::Verify),
        ("new", with_commit(plan(Some("a"), None)), none(), false, Decision::Apply(Change::New)),
        ("new over good", with_commit(plan(Some("b"), Some("a"))), good("a"), false, Decision::Apply(Change::New)),
        ("good again", with_commit(plan(Some("a"), None)), good("a"), false, Decision::Apply(Change::Known)),
        ("only files", plan(Some("a"), Some("a")), none(), false, Decision::Apply(Change::Files)),
        (
            "wanted failed before",
            with_error(plan(Some("a"), None), "bad-revision"),
            bad("a"),
            false,
            Decision::VerifyLastGood(fault()),
        ),
        (
            "what stands failed, and nobody took it back",
            with_error(plan(Some("a"), Some("a")), "bad-revision"),
            bad("a"),
            false,
            Decision::RollBack(fault()),
        ),
    ];
    for (name, plan, journal, settled, expected) in cases {
        assert_eq!(decide(&plan, &journal, settled), expected, "{name}");
    }
}

#[test]
fn errors_block_with_place_and_way_out() {
    let blocked = decide(&with_error(plan(None, Some("a")), "unknown-field"), &Journal::default(), false);
    let Decision::Stay(node_state) = blocked else { panic!("{blocked:?}") };
    assert_eq!((node_state.phase, node_state.reason.as_str()), (Phase::Blocked, "UnknownField"));
    assert_eq!(node_state.message, "/a.yaml:3: what; way out");
    let nothing = decide(&plan(None, Some("a")), &Journal::default(), true);
    assert_eq!(phase_of(&nothing), Some((Phase::Pending, "NoSource")), "what stands stays");
}

fn verdicts() -> [Verdict; 7] {
    let failed = |cause| Verdict::Failed(Failure { cause, message: "it said no".to_owned(), instance: None });
    [
        Verdict::Proven("one".to_owned()),
        failed(Cause::Ended),
        failed(Cause::NotPulled),
        Verdict::Wait("not yet".to_owned(), Duration::ZERO),
        Verdict::Unknown("away".to_owned()),
        Verdict::Nudge,
        Verdict::Dead("away".to_owned()),
    ]
}

fn told(next: &Action) -> String {
    match next {
        Action::Say(node_state) => format!("say {} {}", node_state.phase.name(), node_state.is_ready()),
        Action::Prove => "prove".to_owned(),
        Action::Nudge => "nudge".to_owned(),
        Action::RollBack(failure) => format!("roll back {}", failure.cause.reason()),
        Action::Forgive(_) => "forgive".to_owned(),
        Action::Resume => "resume".to_owned(),
    }
}

#[test]
fn what_a_verdict_does() {
    let wanted = |was_proven, waits_for_image| Subject::Wanted { was_proven, waits_for_image };
    let last_good = |was_proven, may_clear| Subject::LastGood { failed: fault(), was_proven, may_clear };
    let (verifying, unknown, degraded) = ("say Verifying false", "say Unknown false", "say Degraded false");
    // proven, ended, not pulled, wait, unknown, nudge, dead
    let table: [(Subject, [&str; 7]); 7] = [
        (
            wanted(false, false),
            ["prove", "roll back SchedulerEnds", "roll back CannotStart", verifying, unknown, "nudge", unknown],
        ),
        (wanted(false, true), ["prove", "roll back SchedulerEnds", degraded, verifying, unknown, "nudge", unknown]),
        (wanted(true, true), ["say Ready true", degraded, degraded, verifying, "say Unknown true", degraded, unknown]),
        (last_good(false, false), ["prove", degraded, degraded, verifying, unknown, "nudge", unknown]),
        (last_good(true, false), ["say RolledBack false", degraded, degraded, verifying, unknown, degraded, unknown]),
        (last_good(true, true), ["say RolledBack false", "forgive", "forgive", verifying, unknown, degraded, unknown]),
        (
            Subject::Original { reason: "why".to_owned() },
            ["resume", degraded, degraded, degraded, unknown, degraded, unknown],
        ),
    ];
    for (subject, expected) in table {
        for (verdict, expected) in verdicts().iter().zip(expected) {
            assert_eq!(told(&after_verdict(verdict, &subject)), expected, "{subject:?} {verdict:?}");
        }
    }
}

#[test]
fn only_measured_phases_are_ready() {
    for phase in Phase::ALL {
        let node_state = NodeState::new(phase, "", "");
        assert_eq!(node_state.is_ready(), matches!(phase, Phase::Ready | Phase::Restored), "{phase:?}");
        let before = NodeState { was_proven: true, ..node_state };
        assert_eq!(before.is_ready(), matches!(phase, Phase::Ready | Phase::Restored | Phase::Unknown), "{phase:?}");
    }
}
