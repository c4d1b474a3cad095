//! What no lint can see: the scheduler does not come up with it, the agent takes it back and quotes the scheduler.

use crate::agent::{Agent, LONG, terminate};
use crate::extender::Pod;
use crate::runner::Test;
use crate::stage::Stage;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wish::Wish;

pub const TESTS: &[Test] = tests![
    Quick a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words,
    Quick a_flag_that_the_scheduler_does_not_know_is_rolled_back_with_its_words,
    Quick an_image_that_cannot_be_had_is_rolled_back_with_the_kubelets_words,
    Quick what_fails_is_taken_back_though_something_else_is_wanted_meanwhile,
    Quick an_agent_that_stops_in_the_middle_takes_back_what_is_not_wanted_any_more,
    Quick with_a_second_control_plane_node_no_change_is_begun,
];

/// What the lint refuses.
const REFUSED: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparalellism: 5\n";

fn a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    let (since, bad) = (agent.told().len(), Wish::another());
    stage.wish(&bad.bad_text());
    is_rolled_back(stage, &agent, since, good, &["Nonsense"]);

    // nobody tries it again, not even an agent that knows nothing of it
    let manifest = stage.manifest();
    agent.kill_9();
    let agent = Agent::start(stage, &[]);
    agent.wait_for("RolledBack", 0, LONG);
    assert_eq!(stage.manifest(), manifest, "a bad revision is remembered");

    let mended = Wish::another();
    stage.wish(&mended.text());
    stage.readyz().wait_until_ready_at(mended, LONG);
}

fn a_flag_that_the_scheduler_does_not_know_is_rolled_back_with_its_words(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    drop(agent);
    let agent = Agent::start(stage, &["--scheduler-arg", "unknown-flag=1"]);
    is_rolled_back(stage, &agent, 0, good, &["unknown flag: --unknown-flag"]);
}

fn an_image_that_cannot_be_had_is_rolled_back_with_the_kubelets_words(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    drop(agent);
    let image = format!("registry.k8s.io/kube-scheduler:v1.{}.99", stage.bed.minor());
    let agent = Agent::start(stage, &["--scheduler-image", &image]);
    is_rolled_back(stage, &agent, 0, good, &["Image", &image]);
}

fn what_fails_is_taken_back_though_something_else_is_wanted_meanwhile(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    let (since, before) = (agent.told().len(), stage.applied());
    stage.wish(&Wish::another().bad_text());
    agent.wait_for("Verifying", since, LONG);
    stage.wish(REFUSED);
    let blocked = agent.wait_for("Blocked", since, LONG);
    assert!(blocked.message.contains("paralellism"), "{}", blocked.message);
    let back = stage.readyz().wait("what was good to run again", LONG, |sample| {
        sample.running == [good.mark()].into() && !sample.moving && stage.applied() != before
    });
    assert_eq!(back.code, 503, "{}", back.said);
    agent.wait_for("Blocked", agent.told().len() - 1, LONG);
    let pod = Pod::create(stage.node(), "though-blocked", "welcome");
    pod.wait_until_it_runs();
    let mended = Wish::another();
    stage.wish(&mended.text());
    stage.readyz().wait_until_ready_at(mended, LONG);
}

fn an_agent_that_stops_in_the_middle_takes_back_what_is_not_wanted_any_more(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    let since = agent.told().len();
    stage.wish(&Wish::another().bad_text());
    agent.wait_for("Verifying", since, LONG);
    stage.wish(REFUSED);
    agent.wait_for("Blocked", since, LONG);
    let committed = stage.applied().expect("committed");
    terminate(&agent.outer_pid());
    let now = wait_until("another revision to stand", seconds(30), || {
        stage.applied().filter(|now| now.revision != committed.revision).ok_or_else(|| "the same".to_owned())
    });
    stage.wait_for_applied(&now);
    stage.readyz().wait("what was good to run again", LONG, |sample| sample.running == [good.mark()].into());
}

fn with_a_second_control_plane_node_no_change_is_begun(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let node = stage.node().path("/etc/kubernetes/e2e/second.json");
    let second = serde_json::json!({ "apiVersion": "v1", "kind": "Node", "metadata":
        { "name": "second", "labels": { "node-role.kubernetes.io/control-plane": "" } } });
    std::fs::write(&node, second.to_string()).expect("the node's files can be written");
    stage.node().kubectl(&["create", "-f", "/etc/kubernetes/e2e/second.json"]).succeeded();
    let (since, manifest) = (agent.told().len(), stage.manifest());
    stage.wish(&Wish::another().text());
    let blocked = agent.wait_for("Blocked", since, LONG);
    stage.node().kubectl(&["delete", "node", "second"]).succeeded();
    assert_eq!(blocked.reason, "SeveralControlPlanes");
    assert_eq!(stage.manifest(), manifest, "nothing new is begun");
    let alone = Wish::another();
    stage.wish(&alone.text());
    stage.readyz().wait_until_ready_at(alone, LONG);
}

/// The phase, the words in the annotation, and a scheduler that works with what was good.
#[track_caller]
fn is_rolled_back(stage: &Stage, agent: &Agent<'_>, since: usize, good: Wish, words: &[&str]) {
    let rolled_back = agent.wait_for("RolledBack", since, LONG);
    for word in words {
        assert!(rolled_back.message.contains(word), "{word:?} in {}", rolled_back.message);
    }
    let told = stage.wait_for_annotated("RolledBack");
    assert_eq!(told["message"], rolled_back.message);
    stage.bed.note(&format!("rolled back: {}", rolled_back.message));
    let now = stage.readyz().last().expect("samples");
    assert_eq!((now.code, now.running), (503, [good.mark()].into()), "{}", now.said);
    let pod = Pod::create(stage.node(), "after-a-rollback", "welcome");
    pod.wait_until_it_runs();
}
