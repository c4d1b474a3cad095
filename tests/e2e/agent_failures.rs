//! What no lint can see: the scheduler does not come up with it, the agent takes it back and quotes the scheduler.

use crate::agent::{Agent, LONG, terminate};
use crate::control_plane::ControlPlane;
use crate::extender::Pod;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words,
    Quick a_flag_that_the_scheduler_does_not_know_is_rolled_back_with_its_words,
    Quick an_image_that_cannot_be_had_is_rolled_back_with_the_kubelets_words,
    Quick what_fails_is_taken_back_though_something_else_is_wanted_meanwhile,
    Quick an_agent_that_stops_in_the_middle_takes_back_what_is_not_wanted_any_more,
    Quick the_last_healthy_scheduler_waits_for_another_one,
];

/// What the lint refuses.
const REFUSED: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparalellism: 5\n";

fn a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words(control_plane: &ControlPlane) {
    let (agent, good) = Agent::start_ready(control_plane);
    let (since, bad) = (agent.told().len(), Wanted::another());
    control_plane.write_source(&bad.bad_text());
    is_rolled_back(control_plane, &agent, since, good, &["Nonsense"]);

    // nobody tries it again, not even an agent that knows nothing of it
    let manifest = control_plane.manifest();
    agent.kill_9();
    let agent = Agent::start(control_plane, &[]);
    agent.wait_for("RolledBack", 0, LONG);
    assert_eq!(control_plane.manifest(), manifest, "a bad revision is remembered");

    let mended = Wanted::another();
    control_plane.write_source(&mended.text());
    control_plane.readyz().wait_until_ready_at(mended, LONG);
}

fn a_flag_that_the_scheduler_does_not_know_is_rolled_back_with_its_words(control_plane: &ControlPlane) {
    let (agent, good) = Agent::start_ready(control_plane);
    drop(agent);
    let agent = Agent::start(control_plane, &["--scheduler-arg", "unknown-flag=1"]);
    is_rolled_back(control_plane, &agent, 0, good, &["unknown flag: --unknown-flag"]);
}

fn an_image_that_cannot_be_had_is_rolled_back_with_the_kubelets_words(control_plane: &ControlPlane) {
    let (agent, good) = Agent::start_ready(control_plane);
    drop(agent);
    let image = format!("registry.k8s.io/kube-scheduler:v1.{}.99", control_plane.cluster.minor());
    let agent = Agent::start(control_plane, &["--scheduler-image", &image]);
    is_rolled_back(control_plane, &agent, 0, good, &["Image", &image]);
}

fn what_fails_is_taken_back_though_something_else_is_wanted_meanwhile(control_plane: &ControlPlane) {
    let (agent, good) = Agent::start_ready(control_plane);
    let (since, before) = (agent.told().len(), control_plane.applied());
    control_plane.write_source(&Wanted::another().bad_text());
    agent.wait_for("Verifying", since, LONG);
    control_plane.write_source(REFUSED);
    let blocked = agent.wait_for("Blocked", since, LONG);
    assert!(blocked.message.contains("paralellism"), "{}", blocked.message);
    let back = control_plane.readyz().wait("what was good to run again", LONG, |sample| {
        sample.running == [good.mark()].into() && !sample.moving && control_plane.applied() != before
    });
    assert_eq!(back.code, 503, "{}", back.said);
    agent.wait_for("Blocked", agent.told().len() - 1, LONG);
    let pod = Pod::create(control_plane.node(), "though-blocked", "welcome");
    pod.wait_until_it_runs();
    let mended = Wanted::another();
    control_plane.write_source(&mended.text());
    control_plane.readyz().wait_until_ready_at(mended, LONG);
}

fn an_agent_that_stops_in_the_middle_takes_back_what_is_not_wanted_any_more(control_plane: &ControlPlane) {
    let (agent, good) = Agent::start_ready(control_plane);
    let since = agent.told().len();
    control_plane.write_source(&Wanted::another().bad_text());
    agent.wait_for("Verifying", since, LONG);
    control_plane.write_source(REFUSED);
    agent.wait_for("Blocked", since, LONG);
    let committed = control_plane.applied().expect("committed");
    terminate(&agent.outer_pid());
    let now = wait_until("another revision to stand", seconds(30), || {
        control_plane.applied().filter(|now| now.revision != committed.revision).ok_or_else(|| "the same".to_owned())
    });
    control_plane.wait_for_applied(&now);
    control_plane.readyz().wait("what was good to run again", LONG, |sample| sample.running == [good.mark()].into());
}

fn the_last_healthy_scheduler_waits_for_another_one(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let node = control_plane.node().path("/etc/kubernetes/e2e/second.json");
    let second = serde_json::json!({ "apiVersion": "v1", "kind": "Node", "metadata":
        { "name": "second", "labels": { "node-role.kubernetes.io/control-plane": "" } } });
    std::fs::write(&node, second.to_string()).expect("the node's files can be written");
    control_plane.node().kubectl(&["create", "-f", "/etc/kubernetes/e2e/second.json"]).succeeded();
    let (since, manifest) = (agent.told().len(), control_plane.manifest());
    control_plane.write_source(&Wanted::another().text());
    let waiting = agent.wait_for_reason("LastHealthy", since, LONG);
    control_plane.node().kubectl(&["delete", "node", "second"]).succeeded();
    assert_eq!(waiting.phase, "Waiting");
    assert_eq!(control_plane.manifest(), manifest, "nothing new is begun");
    let alone = Wanted::another();
    control_plane.write_source(&alone.text());
    control_plane.readyz().wait_until_ready_at(alone, LONG);
}

/// The phase, the words in the annotation, and a scheduler that works with what was good.
#[track_caller]
fn is_rolled_back(control_plane: &ControlPlane, agent: &Agent<'_>, since: usize, good: Wanted, words: &[&str]) {
    let rolled_back = agent.wait_for("RolledBack", since, LONG);
    for word in words {
        assert!(rolled_back.message.contains(word), "{word:?} in {}", rolled_back.message);
    }
    let told = control_plane.wait_for_annotated("RolledBack");
    assert_eq!(told["message"], rolled_back.message);
    control_plane.cluster.note(&format!("rolled back: {}", rolled_back.message));
    let now = control_plane.readyz().last().expect("samples");
    assert_eq!((now.code, now.running), (503, [good.mark()].into()), "{}", now.said);
    let pod = Pod::create(control_plane.node(), "after-a-rollback", "welcome");
    pod.wait_until_it_runs();
}
