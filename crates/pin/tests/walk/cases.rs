//! Single situations on the same API.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Fault;
use crate::world::World;

pub fn node_of(world: &World, pod: usize) -> String {
    let pod = world.api.get("pods", &format!("default/web-{pod}")).expect("the pod is there");
    pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
}

pub fn reasons(world: &World) -> Vec<String> {
    let state = world.api.state();
    state.events.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

pub async fn seconds(number: u64) {
    tokio::time::sleep(Duration::from_secs(number)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_label_says_so_and_is_bound_at_once_when_it_comes() {
    let world = World::new(1);
    world.create_pod(0, false);
    seconds(60).await;
    assert_eq!(node_of(&world, 0), "");
    assert_eq!(reasons(&world), ["NoNodeLabelled"], "one event, not one a look");
    world.label(2, 0, true, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(node_of(&world, 0), "n2");
    world.unlabel(2, 0);
    world.label(3, 0, true, 0);
    seconds(60).await;
    assert_eq!(node_of(&world, 0), "n2", "relabelling acts on the next pod");
    world.delete_pod(0, true);
    world.create_pod(0, false);
    seconds(1).await;
    assert_eq!(node_of(&world, 0), "n3");
}

#[tokio::test(start_paused = true)]
async fn of_several_labelled_nodes_the_first_good_one_by_value_is_taken() {
    let world = World::new(1);
    world.label(3, 0, false, 1);
    world.label(1, 0, false, 2);
    world.label(2, 0, false, 2);
    world.set_ready(3, false);
    world.create_pod(0, false);
    seconds(1).await;
    assert_eq!(node_of(&world, 0), "n1", "n3 is not Ready, and n1 comes before n2");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_cordoned_or_gone_keeps_its_pod_waiting_and_the_events_say_so() {
    let world = World::new(1);
    world.label(0, 0, false, 0);
    world.set_ready(0, false);
    world.create_pod(0, false);
    seconds(1).await;
    world.cordon(0, true);
    world.set_ready(0, true);
    seconds(1).await;
    world.delete_node(0);
    seconds(1).await;
    assert_eq!(node_of(&world, 0), "");
    assert_eq!(
        reasons(&world),
        ["NodeNotReady", "NodeNotReady", "NodeCordoned", "NodeCordoned", "NodeMissing", "NodeMissing"]
    );
    world.create_node(0);
    world.label(0, 0, false, 0);
    seconds(1).await;
    assert_eq!(node_of(&world, 0), "n0", "the node is back");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_waits_and_is_tried_again_when_there_is_room() {
    let world = World::new(1);
    let big = |name: &str, node: &str| {
        json!({ "metadata": { "name": name, "namespace": "default", "uid": name }, "spec": { "schedulerName": "other", "nodeName": node,
            "containers": [{ "resources": { "requests": { "cpu": "3950m" } } }] } })
    };
    world.api.change("pods", "default/big", |_| Some(big("big", "n0")));
    world.label(0, 0, false, 0);
    world.create_pod(0, false);
    seconds(5).await;
    assert_eq!(node_of(&world, 0), "");
    assert_eq!(reasons(&world), ["DoesNotFit", "DoesNotFit"]);
    world.api.change("pods", "default/big", |_| None);
    seconds(11).await;
    assert_eq!(node_of(&world, 0), "n0");
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_together_are_counted_before_any_of_them_shows_on_the_node() {
    let world = World::new(1);
    for pod in 0..50 {
        world.label(0, pod, false, 0);
        world.create_pod(pod, false);
    }
    seconds(60).await;
    let bound = (0..50).filter(|pod| node_of(&world, *pod) == "n0").count();
    assert_eq!(bound, 40, "the node has room for 40 pods of 100m");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_bound_is_asked_for_once_and_not_over_and_over() {
    let world = World::new(1);
    world.create_pod(0, false);
    seconds(1).await;
    world.api.state().requests.clear();
    // the label arrives, but the news that the pod is bound does not
    world.api.mute("pods");
    world.bind_behind_our_back(0, 3);
    world.label(1, 0, false, 0);
    seconds(9).await;
    assert_eq!(world.api.state().requests.get("POST pods/binding"), Some(&1));
    assert_eq!(node_of(&world, 0), "n3");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_pods_at_once_are_bound_with_one_request_each_and_few_looks() {
    let world = World::new(1);
    let labels: Vec<usize> = (0..100).collect();
    for pod in &labels {
        world.label(pod % 4, *pod, false, 0);
        world.create_pod(*pod, false);
    }
    // all four nodes hold 40 pods of 100m
    seconds(2).await;
    assert!(labels.iter().all(|pod| node_of(&world, *pod) == format!("n{}", pod % 4)));
    let requests = world.api.state().requests.clone();
    assert_eq!(requests["POST pods/binding"], 100, "{requests:?}");
    assert!(requests["GET nodes"] <= 4 + 2 && requests["GET pods"] <= 4 + 4, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn events_come_behind_the_bindings_and_none_is_lost() {
    let world = World::new(1);
    for pod in 0..100 {
        world.label(pod % 4, pod, false, 0);
    }
    seconds(1).await;
    world.api.set_fault(Fault::Slow(50));
    for pod in 0..100 {
        world.create_pod(pod, false);
    }
    while (0..100).any(|pod| node_of(&world, pod).is_empty()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(reasons(&world).len() <= 2, "events took the API server's time from bindings: {:?}", reasons(&world));
    seconds(30).await;
    assert_eq!(reasons(&world), vec!["Scheduled"; 100]);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_it_lists_every_delay() {
    let world = World::new(0);
    world.api.state().may_watch = false;
    world.start(0);
    seconds(1).await;
    world.create_pod(0, false);
    world.label(1, 0, false, 0);
    seconds(3).await;
    assert_eq!(node_of(&world, 0), "", "nobody looked yet");
    seconds(9).await;
    assert_eq!(node_of(&world, 0), "n1");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_went_away_while_the_watch_was_silent_does_not_count() {
    let world = World::new(1);
    world.label(1, 0, false, 0);
    seconds(1).await;
    world.api.set_fault(Fault::Mute);
    world.unlabel(1, 0);
    seconds(2).await;
    world.api.set_fault(Fault::None);
    // the pod's watch speaks again before the nodes'
    world.create_pod(0, false);
    seconds(30).await;
    assert_eq!(node_of(&world, 0), "");
    assert!(world.api.state().violations.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_answer_was_lost_is_not_done_twice() {
    let world = World::new(1);
    world.label(1, 0, false, 0);
    world.api.set_fault(Fault::LoseAnswers);
    world.create_pod(0, false);
    seconds(60).await;
    assert_eq!(node_of(&world, 0), "n1");
    world.api.set_fault(Fault::None);
    seconds(60).await;
    assert_eq!(world.api.state().requests["POST pods/binding"], 1, "the watch showed that it was done");
}

#[tokio::test(start_paused = true)]
async fn the_api_away_and_back() {
    let world = World::new(1);
    seconds(1).await;
    world.api.set_fault(Fault::Refuse);
    world.create_pod(0, false);
    world.label(1, 0, false, 0);
    seconds(120).await;
    assert_eq!(node_of(&world, 0), "");
    world.api.set_fault(Fault::None);
    seconds(6).await;
    assert_eq!(node_of(&world, 0), "n1");
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_gets_its_affinity_and_loses_the_gate_and_one_without_a_label_keeps_it() {
    let world = World::new(1);
    world.create_pod(0, true);
    world.create_pod(1, true);
    world.label(2, 0, false, 0);
    seconds(1).await;
    let pod = |number: usize| world.api.get("pods", &format!("default/web-{number}")).expect("it is there");
    assert_eq!(pod(0)["spec"]["schedulingGates"], json!([]));
    let required = &pod(0)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"][0]["matchFields"][0]["values"], json!(["n2"]));
    assert_eq!(pod(1)["spec"]["affinity"], Value::Null);
    assert_eq!(pod(1)["spec"]["schedulingGates"][0]["name"], "schedpatch.io/pin");
    assert!(reasons(&world).contains(&"NoNodeLabelled".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn pods_of_others_and_pods_that_are_gated_or_being_deleted_are_left_alone() {
    let world = World::new(1);
    world.label(0, 0, false, 0);
    world.label(0, 2, false, 0);
    world.api.change("pods", "default/web-2", |_| {
        Some(json!({ "metadata": { "name": "web-2", "namespace": "default", "uid": "g" },
            "spec": { "schedulerName": "test", "schedulingGates": [{ "name": "quota" }] } }))
    });
    world.label(0, 1, false, 0);
    world.api.change("pods", "default/web-1", |_| {
        Some(json!({ "metadata": { "name": "web-1", "namespace": "default", "uid": "o" }, "spec": { "schedulerName": "default-scheduler" } }))
    });
    world.api.set_fault(Fault::Hang);
    world.create_pod(0, false);
    world.delete_pod(0, false);
    world.api.set_fault(Fault::None);
    seconds(30).await;
    assert!((0..3).all(|pod| node_of(&world, pod).is_empty()));
    assert_eq!(reasons(&world), ["SchedulingGated"]);
    assert!(!world.api.state().requests.contains_key("POST pods/binding"));
}
