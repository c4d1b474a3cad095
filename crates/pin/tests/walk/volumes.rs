//! Bound volumes and the nodes that can mount them.

use serde_json::json;

use crate::cases::{node_of, reasons, seconds};
use crate::world::World;

/// A cluster whose pod web-0 has a claim that is bound to a volume of n1, and is pinned to n0 first and to n1 next.
fn world() -> World {
    let world = World::new(0);
    let term = json!({ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] }] });
    let affinity = json!({ "required": { "nodeSelectorTerms": [term] } });
    world.api.change("volumes", "local-1", |_| Some(json!({ "metadata": {}, "spec": { "nodeAffinity": affinity } })));
    world
        .api
        .change("claims", "default/data", |_| Some(json!({ "metadata": {}, "spec": { "volumeName": "local-1" } })));
    world.api.change("nodes", "n1", |node| {
        let mut node = node?;
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!("n1");
        Some(node)
    });
    world.label(0, 0, false, 1);
    world
}

fn create_pod(world: &World) {
    world.create_pod(0, false);
    world.api.change("pods", "default/web-0", |pod| {
        let mut pod = pod?;
        pod["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
        Some(pod)
    });
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_bound_to_a_node_that_cannot_mount_its_volume() {
    let world = world();
    world.start(0);
    create_pod(&world);
    seconds(30).await;
    assert_eq!(node_of(&world, 0), "");
    assert_eq!(reasons(&world), ["VolumeUnreachable", "VolumeUnreachable"], "once on the pod, once on the node");
    world.label(1, 0, false, 2);
    seconds(1).await;
    assert_eq!(node_of(&world, 0), "n1", "the second choice can mount it");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_bound_or_whose_volume_is_gone_keeps_its_pod_waiting() {
    let world = world();
    world.label(1, 0, false, 0);
    world
        .api
        .change("claims", "default/data", |_| Some(json!({ "metadata": {}, "spec": { "storageClassName": "waits" } })));
    world
        .api
        .change("classes", "waits", |_| Some(json!({ "metadata": {}, "volumeBindingMode": "WaitForFirstConsumer" })));
    world.start(0);
    create_pod(&world);
    seconds(1).await;
    assert_eq!(reasons(&world), ["VolumeWaitsForConsumer"]);
    world.api.change("claims", "default/data", |_| Some(json!({ "metadata": {}, "spec": { "volumeName": "lost" } })));
    seconds(11).await;
    assert_eq!(reasons(&world), ["VolumeWaitsForConsumer", "VolumeNotBound"]);
    assert_eq!(node_of(&world, 0), "");
    world
        .api
        .change("claims", "default/data", |_| Some(json!({ "metadata": {}, "spec": { "volumeName": "local-1" } })));
    seconds(11).await;
    assert_eq!(node_of(&world, 0), "n1");
}

#[tokio::test(start_paused = true)]
async fn volumes_that_may_not_be_read_are_not_checked() {
    for kind in ["volumes", "claims"] {
        let world = world();
        world.api.state().forbidden.insert(kind);
        world.start(0);
        create_pod(&world);
        seconds(1).await;
        assert_eq!(node_of(&world, 0), "n0", "without the right to read {kind}");
    }
}
