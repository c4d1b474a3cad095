//! What no lint can see: the scheduler does not come up with it, the agent takes it back and quotes the scheduler.

use crate::agent::{Agent, LONG};
use crate::extender::Pod;
use crate::runner::Test;
use crate::stage::Stage;
use crate::tests;
use crate::wish::Wish;

pub const TESTS: &[Test] = tests![
    Quick a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words,
    Quick a_flag_that_the_scheduler_does_not_know_is_rolled_back_with_its_words,
    Quick an_image_that_cannot_be_had_is_rolled_back_with_the_kubelets_words,
];

fn a_config_that_only_the_scheduler_can_refuse_is_rolled_back_with_its_words(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    let (since, bad) = (agent.told().len(), Wish::another());
    stage.wish(&bad.bad_text());
    is_rolled_back(stage, &agent, since, good, &["Nonsense"]);

    // nobody tries it again, not even an agent that knows nothing of it
    let manifest = stage.manifest();
    drop(agent);
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
