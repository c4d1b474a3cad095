//! The API is away or refuses: nothing new is begun, nothing is taken back, and all goes on when it is there again.

use std::fs;

use crate::agent::{ADMIN, Agent, LONG};
use crate::cluster::Node;
use crate::control_plane::{ControlPlane, MANIFESTS};
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick a_change_while_the_api_is_away_waits_for_it,
    Quick a_change_in_whose_middle_the_api_goes_away_is_proven_when_it_is_back,
    Quick while_the_api_hangs_a_change_is_not_ready_and_waits_for_it,
    Quick an_agent_whom_the_api_does_not_know_begins_nothing_until_its_token_is_renewed,
];

fn a_change_while_the_api_is_away_waits_for_it(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let away = Away::begin(control_plane.node());
    agent.wait_for("Unknown", 0, LONG);
    let now = control_plane.readyz().last().expect("samples");
    assert_eq!(now.code, 200, "this very text was proven before: {}", now.said);

    let (manifest, wanted) = (control_plane.manifest(), Wanted::another());
    control_plane.write_source(&wanted.text());
    let waiting = agent.wait_for_reason("ApiAway", 0, LONG);
    assert_eq!(waiting.phase, "Waiting");
    assert_eq!(control_plane.manifest(), manifest, "nothing new is begun");
    drop(away);
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
}

fn a_change_in_whose_middle_the_api_goes_away_is_proven_when_it_is_back(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let (since, wanted) = (agent.told().len(), Wanted::another());
    control_plane.write_source(&wanted.text());
    agent.wait_for("Verifying", since, LONG);
    let away = Away::begin(control_plane.node());
    agent.wait_for("Unknown", since, LONG);
    assert_ne!(control_plane.readyz().last().expect("samples").code, 200, "nobody has proven it");
    drop(away);
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
    let told = agent.told();
    assert!(!told.iter().skip(since).any(|told| told.reason == "RollingBack"), "nothing is taken back: {told:#?}");
}

fn while_the_api_hangs_a_change_is_not_ready_and_waits_for_it(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let server = control_plane.node().run(&["pgrep", "-x", "kube-apiserver"]).succeeded().stdout;
    control_plane.node().run(&["kill", "-STOP", server.trim()]).succeeded();
    let (manifest, wanted, begin) = (control_plane.manifest(), Wanted::another(), std::time::Instant::now());
    control_plane.write_source(&wanted.text());
    control_plane.readyz().wait("/readyz to say 503", seconds(5), |sample| sample.code == 503);
    let took = begin.elapsed();
    let waiting = agent.wait_for_reason("ApiAway", 0, seconds(60));
    control_plane.node().run(&["kill", "-CONT", server.trim()]).succeeded();
    assert!(took < seconds(2), "not ready any more after {took:?}");
    assert_eq!(waiting.phase, "Waiting", "{}", waiting.message);
    assert_eq!(control_plane.manifest(), manifest, "nothing new is begun");
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
}

fn an_agent_whom_the_api_does_not_know_begins_nothing_until_its_token_is_renewed(control_plane: &ControlPlane) {
    let (agent, wanted) = Agent::start_ready(control_plane);
    drop(agent);
    let admin = fs::read_to_string(control_plane.node().path(ADMIN)).expect("kubeadm wrote it");
    let keep = |line: &&str| !line.trim().starts_with("client-");
    let with_token = admin.lines().filter(keep).collect::<Vec<_>>().join("\n") + "\n    tokenFile: " + TOKEN + "\n";
    let kubeconfig = "/etc/kubernetes/e2e/token.conf";
    fs::write(control_plane.node().path(kubeconfig), with_token).expect("the node's files can be written");
    fs::write(control_plane.node().path(TOKEN), "nobody-gave-this").expect("the node's files can be written");

    let agent = Agent::start_as(control_plane, kubeconfig, &[]);
    let unknown = agent.wait_for("Unknown", 0, LONG);
    assert!(unknown.message.contains("Unauthorized"), "{}", unknown.message);
    let mark = control_plane.mark();
    control_plane.readyz().wait_until_ready_at(wanted, seconds(5));
    let next = Wanted::another();
    control_plane.write_source(&next.text());
    let waiting = agent.wait_for_reason("TokenRefused", 0, LONG);
    assert!(waiting.message.contains("Unauthorized"), "{}", waiting.message);
    control_plane.readyz().wait("/readyz to say 503", seconds(5), |sample| sample.code == 503);
    agent.kill_9();
    let agent = Agent::start_as(control_plane, kubeconfig, &[]);
    agent.wait_for_reason("TokenRefused", 0, LONG);
    control_plane.no_restart(mark).unwrap_or_else(|seen| panic!("{seen}"));

    // as the kubelet does with a service account's token, for an agent that goes on running
    fs::write(control_plane.node().path(TOKEN), new_token(control_plane.node()))
        .expect("the node's files can be written");
    control_plane.readyz().wait_until_ready_at(next, LONG);
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
struct Away<'a>(Node<'a>);

const HIDDEN: &str = "/etc/kubernetes/e2e/kube-apiserver.yaml";

impl<'a> Away<'a> {
    #[track_caller]
    fn begin(node: Node<'a>) -> Self {
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
