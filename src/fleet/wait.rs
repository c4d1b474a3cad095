//! Asks again and again until all is proven, somebody must act, or the time is up.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use super::ask::{Unanswered, ask};
use super::{Fleet, judge, show};
use crate::finding::Finding;

/// Short enough to see the steps of a change, which take a few seconds each.
const INTERVAL: Duration = Duration::from_secs(1);
/// A node may still show what the agent before this one said; the new one writes within a second or two of its start.
const FINAL_AFTER: Duration = Duration::from_secs(5);

/// Asks until the API answers, at most until then. A refusal is an answer.
pub async fn patiently<T, F: Future<Output = Result<T, Unanswered>>>(
    until: Instant,
    ask: impl Fn() -> F,
) -> Result<T, Finding> {
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(Unanswered::Away(_)) if Instant::now() < until => tokio::time::sleep(INTERVAL).await,
            Err(unanswered) => return Err(unanswered.finding()),
        }
    }
}

/// Waits; tells each change, with the time since the beginning.
pub async fn wait(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
    tell: &mut dyn FnMut(Duration, &str),
) -> Result<Fleet, Finding> {
    let began = Instant::now();
    let mut reported = BTreeMap::new();
    let mut finals = Finals::default();
    loop {
        let mut ended = match Box::pin(ask(client, namespace)).await {
            Ok(answers) => Ok(judge(&answers)),
            Err(Unanswered::Away(finding)) => Err(finding),
            Err(Unanswered::Refused(finding)) => return Err(finding),
        };
        let lines = match &ended {
            Ok(fleet) => lines(fleet),
            Err(finding) => {
                BTreeMap::from([("cluster".to_owned(), (finding.rule.to_owned(), finding.message.clone()))])
            }
        };
        if ended.is_ok() {
            reported.retain(|subject, _| lines.contains_key(subject));
        }
        for (subject, (key, line)) in lines {
            if reported.insert(subject.clone(), key.clone()) != Some(key) {
                tell(began.elapsed(), &format!("{subject}: {line}"));
            }
        }
        let is_late = began.elapsed() >= limit;
        if let Ok(fleet) = &mut ended {
            if fleet.proven || fleet.has_errors() || finals.has_lasted(fleet, began.elapsed()) {
                return ended;
            }
            if is_late {
                fleet.findings.push(late(limit));
            }
        }
        if is_late {
            return ended;
        }
        tokio::time::sleep(INTERVAL.min(limit.saturating_sub(began.elapsed()))).await;
    }
}

/// Since when which node needs somebody.
#[derive(Debug, Default)]
struct Finals(BTreeMap<(String, String), Duration>);

impl Finals {
    fn has_lasted(&mut self, fleet: &Fleet, now: Duration) -> bool {
        let seen = fleet.final_gaps().map(|(node, agent, gap)| {
            let key = (node.to_owned(), format!("{} {}", agent.unwrap_or_default(), gap.reason));
            let since = self.0.get(&key).copied().unwrap_or(now);
            (key, since)
        });
        self.0 = seen.collect();
        self.0.values().any(|since| now.saturating_sub(*since) >= FINAL_AFTER)
    }
}

/// Of each subject: what makes a line news, and the line.
fn lines(fleet: &Fleet) -> BTreeMap<String, (String, String)> {
    let nodes = fleet.nodes.iter().map(|node| {
        let key = (node.said.phase.as_ref(), node.gap.as_ref().map(|gap| &gap.reason));
        let line = match &node.gap {
            None => format!("proven at {}", show::short(fleet.wanted.digest.as_deref().unwrap_or_default())),
            Some(gap) => crate::plan::visible(&format!("{}: {}", gap.reason, gap.message)),
        };
        (node.name.clone(), (format!("{key:?}"), line))
    });
    let counts = show::counts_line(&fleet.counts);
    let steps = fleet.steps().map(|(node, step)| {
        let step = crate::plan::visible(&step);
        (format!("{node} scheduler"), (step.clone(), step))
    });
    nodes.chain(steps).chain([("cluster".to_owned(), (counts.clone(), counts))]).collect()
}

fn late(limit: Duration) -> Finding {
    let message = format!("not all schedulers were proven in {} s", limit.as_secs());
    Finding::warning(
        "not-in-time",
        message,
        "see above what is missing on which node, and the log of its agent; or wait longer",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{AgentPod, Missing, NodeRow};

    fn fleet(agent: &str, reason: &str, r#final: bool) -> Fleet {
        let gap = Missing { reason: reason.to_owned(), message: String::new(), r#final };
        let agent = AgentPod { pod: agent.to_owned(), current: true, stopped: None, ready: false };
        let node = NodeRow { name: "cp1".to_owned(), gap: Some(gap), agent: Some(agent), ..NodeRow::default() };
        let finding = Finding::info("no-agents", "", "");
        Fleet { nodes: vec![node], ..Fleet::unknown(finding) }
    }

    #[test]
    fn each_step_of_a_change_is_a_line_of_its_own() {
        let mut fleet = fleet("a", "NotYetProven", false);
        assert!(!lines(&fleet).contains_key("cp1 scheduler"), "nothing is changed");
        fleet.nodes[0].said.phase = Some("Verifying".to_owned());
        let (key, line) = lines(&fleet)["cp1 scheduler"].clone();
        assert_eq!((line.as_str(), &key), ("the old pod is gone; the new one is not there yet", &line));
    }

    #[test]
    fn only_what_lasts_ends_the_wait() {
        let seconds = Duration::from_secs;
        let mut finals = Finals::default();
        assert!(!finals.has_lasted(&fleet("a", "RevisionFailed", true), seconds(0)));
        assert!(!finals.has_lasted(&fleet("a", "RevisionFailed", true), seconds(4)));
        assert!(
            !finals.has_lasted(&fleet("b", "RevisionFailed", true), seconds(6)),
            "another agent may still say otherwise"
        );
        assert!(!finals.has_lasted(&fleet("b", "NotYetProven", false), seconds(8)));
        assert!(!finals.has_lasted(&fleet("b", "RevisionFailed", true), seconds(30)), "it began anew");
        assert!(finals.has_lasted(&fleet("b", "RevisionFailed", true), seconds(35)));
    }
}
