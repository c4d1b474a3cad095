//! The API is away or refuses: nothing new is begun, nothing is taken back, and all goes on when it is there again.

use std::fs;

use crate::agent::{ADMIN, Agent, LONG};
use crate::bed::Node;
use crate::runner::Test;
use crate::stage::{MANIFESTS, Stage};
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wish::Wish;

pub const TESTS: &[Test] = tests![
    Quick a_change_while_the_api_is_away_waits_for_it,
    Quick a_change_in_whose_middle_the_api_goes_away_is_proven_when_it_is_back,
    Quick while_the_api_hangs_a_change_is_not_ready_and_waits_for_it,
    Quick an_agent_whom_the_api_does_not_know_begins_nothing_until_its_token_is_renewed,
];

fn a_change_while_the_api_is_away_waits_for_it(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let away = Away::begin(stage.node());
    agent.wait_for("Unknown", 0, LONG);
    let now = stage.readyz().last().expect("samples");
    assert_eq!(now.code, 200, "this very text was proven before: {}", now.said);

    let (manifest, wish) = (stage.manifest(), Wish::another());
    stage.wish(&wish.text());
    let waiting = agent.wait_for("Waiting", 0, LONG);
    assert_eq!(waiting.reason, "ApiAway");
    assert_eq!(stage.manifest(), manifest, "nothing new is begun");
    drop(away);
    stage.readyz().wait_until_ready_at(wish, LONG);
}

fn a_change_in_whose_middle_the_api_goes_away_is_proven_when_it_is_back(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let (since, wish) = (agent.told().len(), Wish::another());
    stage.wish(&wish.text());
    agent.wait_for("Verifying", since, LONG);
    let away = Away::begin(stage.node());
    agent.wait_for("Unknown", since, LONG);
    assert_ne!(stage.readyz().last().expect("samples").code, 200, "nobody has proven it");
    drop(away);
    stage.readyz().wait_until_ready_at(wish, LONG);
    let told = agent.told();
    assert!(!told.iter().skip(since).any(|told| told.reason == "RollingBack"), "nothing is taken back: {told:#?}");
}

fn while_the_api_hangs_a_change_is_not_ready_and_waits_for_it(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let server = stage.node().run(&["pgrep", "-x", "kube-apiserver"]).succeeded().stdout;
    stage.node().run(&["kill", "-STOP", server.trim()]).succeeded();
    let (manifest, wish, begin) = (stage.manifest(), Wish::another(), std::time::Instant::now());
    stage.wish(&wish.text());
    stage.readyz().wait("/readyz to say 503", seconds(5), |sample| sample.code == 503);
    let took = begin.elapsed();
    let waiting = agent.wait_for("Waiting", 0, seconds(60));
    stage.node().run(&["kill", "-CONT", server.trim()]).succeeded();
    assert!(took < seconds(2), "not ready any more after {took:?}");
    assert_eq!(waiting.reason, "ApiAway", "{}", waiting.message);
    assert_eq!(stage.manifest(), manifest, "nothing new is begun");
    stage.readyz().wait_until_ready_at(wish, LONG);
}

fn an_agent_whom_the_api_does_not_know_begins_nothing_until_its_token_is_renewed(stage: &Stage) {
    let (agent, wish) = Agent::start_ready(stage);
    drop(agent);
    let admin = fs::read_to_string(stage.node().path(ADMIN)).expect("kubeadm wrote it");
    let keep = |line: &&str| !line.trim().starts_with("client-");
    let with_token = admin.lines().filter(keep).collect::<Vec<_>>().join("\n") + "\n    tokenFile: " + TOKEN + "\n";
    let kubeconfig = "/etc/kubernetes/e2e/token.conf";
    fs::write(stage.node().path(kubeconfig), with_token).expect("the node's files can be written");
    fs::write(stage.node().path(TOKEN), "nobody-gave-this").expect("the node's files can be written");

    let agent = Agent::start_as(stage, kubeconfig, &[]);
    let unknown = agent.wait_for("Unknown", 0, LONG);
    assert!(unknown.message.contains("Unauthorized"), "{}", unknown.message);
    let mark = stage.mark();
    stage.readyz().wait_until_ready_at(wish, seconds(5));
    let next = Wish::another();
    stage.wish(&next.text());
    let waiting = agent.wait_for("Waiting", 0, LONG);
    assert!(waiting.message.contains("Unauthorized"), "{}", waiting.message);
    stage.readyz().wait("/readyz to say 503", seconds(5), |sample| sample.code == 503);
    agent.kill_9();
    let agent = Agent::start_as(stage, kubeconfig, &[]);
    agent.wait_for("Waiting", 0, LONG);
    stage.no_restart(mark).unwrap_or_else(|seen| panic!("{seen}"));

    // as the kubelet does with a service account's token, for an agent that goes on running
    fs::write(stage.node().path(TOKEN), new_token(stage.node())).expect("the node's files can be written");
    stage.readyz().wait_until_ready_at(next, LONG);
}

const TOKEN: &str = "/etc/kubernetes/e2e/token";

/// Of an account that may do what the agent does.
#[track_caller]
fn new_token(node: Node<'_>) -> String {
    let account = "kube-system:e2e-agent";
    node.kubectl(&["-n", "kube-system", "create", "serviceaccount", "e2e-agent"]);
    let binding = ["create", "clusterrolebinding", "e2e-agent", "--clusterrole=cluster-admin", "--serviceaccount"];
    node.kubectl(&[&binding[..], &[account]].concat());
    let token = node.kubectl(&["-n", "kube-system", "create", "token", "e2e-agent"]).succeeded().stdout;
    token.trim().to_owned()
}

/// The node without its API server, until this is dropped.
struct Away<'bed>(Node<'bed>);

const HIDDEN: &str = "/etc/kubernetes/e2e/kube-apiserver.yaml";

impl<'bed> Away<'bed> {
    #[track_caller]
    fn begin(node: Node<'bed>) -> Self {
        fs::rename(node.path(MANIFESTS).join("kube-apiserver.yaml"), node.path(HIDDEN)).expect("renamed");
        let away = Self(node);
        wait_until("the API server to end", LONG, || {
            let asked = node.run(&["pgrep", "-x", "kube-apiserver"]);
            if asked.status == 0 { Err("it runs".to_owned()) } else { Ok(()) }
        });
        away
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        let _ = fs::rename(self.0.path(HIDDEN), self.0.path(MANIFESTS).join("kube-apiserver.yaml"));
        let back = || self.0.run(&["kubectl", "--request-timeout=2s", "get", "--raw", "/readyz"]).status == 0;
        let begin = std::time::Instant::now();
        while begin.elapsed() < LONG && !back() {
            std::thread::sleep(seconds(1));
        }
    }
}
