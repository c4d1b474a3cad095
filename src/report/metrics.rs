//! The metrics as Prometheus reads them; names and meanings are public (docs/operate/metrics.md).

use std::fmt::Write as _;

use super::{Report, RolloutReport, short};
use crate::phase::Phase;

/// Writes all of them.
pub(super) fn text(report: &Report, extenders: &[(String, bool)]) -> String {
    let mut out = String::new();
    let Report { node_state, counts, .. } = report;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    metric(&mut out, "build_info", "gauge", "Version of the agent.", &[(&version, 1)]);
    let ready = u64::from(node_state.is_ready());
    metric(&mut out, "ready", "gauge", "Whether /readyz says 200.", &[(&[], ready)]);
    let phases = Phase::ALL.map(|phase| ([("phase", phase.name())], u64::from(phase == node_state.phase)));
    let phases: Vec<(&[_], u64)> = phases.iter().map(|(labels, value)| (labels.as_slice(), *value)).collect();
    metric(&mut out, "phase", "gauge", "1 for the phase that this node is in.", &phases);
    let since = report.since.as_unix();
    metric(&mut out, "phase_since_timestamp_seconds", "gauge", "When this phase began.", &[(&[], since)]);
    let (revision, generation) = (report.revision.clone().unwrap_or_default(), report.generation.unwrap_or_default());
    let digest = report.digest.as_ref().map(short).unwrap_or_default();
    let labels = [("revision", revision.as_str()), ("digest", digest.as_str())];
    metric(&mut out, "revision_info", "gauge", "Revision in the manifest, digest of the sources.", &[(&labels, 1)]);
    metric(&mut out, "generation", "gauge", "Generation in the manifest; 0 for none.", &[(&[], generation)]);
    for (name, help, value) in [
        ("turns_total", "Passes of the loop.", counts.turns),
        ("commits_total", "Times that the manifest was replaced.", counts.commits),
        ("failures_total", "Passes that should have written and could not.", counts.failures),
        ("rollbacks_total", "Revisions that failed here and were taken back.", counts.rollbacks),
        ("preflights_refused_total", "Revisions that the scheduler refused in a preflight.", counts.preflights_refused),
        ("drifts_total", "Changes of the manifest by others that were put right.", counts.drifts),
        ("overwritten_total", "Writes of others that a commit replaced in the same instant.", counts.overwritten),
        ("nudges_total", "Commits that the kubelet did not notice at first.", counts.nudges),
    ] {
        metric(&mut out, name, "counter", help, &[(&[], value)]);
    }
    if let Some(proven) = counts.proven {
        metric(&mut out, "last_proof_timestamp_seconds", "gauge", "When a commit was last proven.", &[(&[], proven)]);
    }
    if let Some(millis) = counts.proof_millis {
        let name = "proof_duration_seconds";
        let _ = writeln!(out, "# HELP schedpatch_{name} From the last commit to its proof.");
        let _ = writeln!(out, "# TYPE schedpatch_{name} gauge");
        let _ = writeln!(out, "schedpatch_{name} {}.{:03}", millis / 1_000, millis % 1_000);
    }
    write_rollout(&mut out, &report.rollout.clone().unwrap_or_default());
    let reach: Vec<_> = extenders.iter().map(|(url, is_up)| ([("url", url.as_str())], u64::from(*is_up))).collect();
    let reach: Vec<(&[_], u64)> = reach.iter().map(|(labels, value)| (labels.as_slice(), *value)).collect();
    if !reach.is_empty() {
        metric(&mut out, "extender_reachable", "gauge", "Whether an extender takes connections.", &reach);
    }
    out
}

fn write_rollout(out: &mut String, rollout: &RolloutReport) {
    let RolloutReport { sealed, turn, failed, is_paused, peers } = rollout;
    let sealed = sealed.as_ref().map(short).unwrap_or_default();
    let info = [("sealed", sealed.as_str()), ("turn", turn.as_deref().unwrap_or_default())];
    metric(
        out,
        "rollout_info",
        "gauge",
        "The digest that every node proved last, and the node whose turn it is.",
        &[(&info, 1)],
    );
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    for (name, help, value) in [
        ("rollout_paused", "Whether a person paused the rollout.", u64::from(*is_paused)),
        ("rollout_failed_digests", "Digests that failed and are not tried again.", number(*failed)),
        ("control_planes", "Control-plane nodes that were seen.", number(peers.control_planes)),
        ("schedulers_ready", "Schedulers that were seen to be ready.", number(peers.schedulers)),
        ("agents_running", "Agents that were seen to run.", number(peers.agents)),
    ] {
        metric(out, name, "gauge", help, &[(&[], value)]);
    }
}

type Sample<'a> = (&'a [(&'a str, &'a str)], u64);

fn metric(out: &mut String, name: &str, kind: &str, help: &str, samples: &[Sample<'_>]) {
    let _ = writeln!(out, "# HELP schedpatch_{name} {help}");
    let _ = writeln!(out, "# TYPE schedpatch_{name} {kind}");
    for (labels, value) in samples {
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(out, "schedpatch_{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
