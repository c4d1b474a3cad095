//! Whether a pod fits on a node: the kubelet's own admission, asked before the pod is bound. A pod that the kubelet refuses
//! fails as `OutOfcpu` or the like, and its controller makes another one, again and again.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Container, Node, Pod, Port, Quantities};
use crate::quantity::{show, thousandths};

/// Amounts by resource, in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// What a pod takes of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    amounts: Amounts,
    ports: Vec<(u16, String, String)>,
}

/// What the pods of a node take, by the pods' UIDs.
#[derive(Clone, Debug, Default)]
pub struct Usage(HashMap<String, Needs>);

impl Needs {
    /// What a pod takes: the larger of its containers together and of each init container, plus overhead.
    pub fn of(pod: &Pod) -> Self {
        let spec = &pod.spec;
        let mut running = Amounts::new();
        let mut peak = Amounts::new();
        for container in &spec.init_containers {
            let own = amounts(&container.resources.requests);
            if container.restart_policy == "Always" {
                add(&mut running, &own);
                raise(&mut peak, &running);
            } else {
                let mut at_that_time = running.clone();
                add(&mut at_that_time, &own);
                raise(&mut peak, &at_that_time);
            }
        }
        for container in &spec.containers {
            add(&mut running, &amounts(&container.resources.requests));
        }
        raise(&mut running, &peak);
        // resources of the whole pod count instead of its containers'
        for (resource, amount) in amounts(&spec.resources.requests) {
            running.insert(resource, amount);
        }
        add(&mut running, &amounts(&spec.overhead));
        let containers = spec.containers.iter().chain(&spec.init_containers);
        Self { amounts: running, ports: containers.flat_map(host_ports).collect() }
    }
}

impl Usage {
    /// What these pods take.
    pub fn of<'pods>(pods: impl IntoIterator<Item = &'pods Pod>) -> Self {
        let taking = pods.into_iter().filter(|pod| !pod.is_over());
        Self(taking.map(|pod| (pod.metadata.uid.clone(), Needs::of(pod))).collect())
    }

    /// Counts a pod that is about to be bound.
    pub fn reserve(&mut self, uid: &str, needs: Needs) {
        self.0.insert(uid.to_owned(), needs);
    }

    /// Forgets a pod that was not bound after all.
    pub fn release(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Adds what another count has and this one has not.
    pub fn extend(&mut self, other: impl IntoIterator<Item = (String, Needs)>) {
        for (uid, needs) in other {
            self.0.entry(uid).or_insert(needs);
        }
    }

    /// What of a pod does not fit on the node, in words.
    pub fn misfit(&self, uid: &str, needs: &Needs, node: &Node) -> Option<String> {
        let others = || self.0.iter().filter(|(other, _)| *other != uid).map(|(_, needs)| needs);
        let allocatable = amounts(&node.status.allocatable);
        let room = |resource: &str| allocatable.get(resource).copied().unwrap_or(0);
        let pods = room("pods") / 1000;
        let count = i128::try_from(others().count()).unwrap_or(i128::MAX);
        if allocatable.contains_key("pods") && count + 1 > pods {
            return Some(format!("it runs {count} pods of {pods}"));
        }
        for (resource, wanted) in needs.amounts.iter().filter(|(_, wanted)| **wanted > 0) {
            let taken: i128 = others().filter_map(|needs| needs.amounts.get(resource)).sum();
            let free = room(resource) - taken;
            if *wanted > free {
                let (wanted, free) = (show(resource, *wanted), show(resource, free.max(0)));
                return Some(format!("the pod requests {wanted} {resource}, {free} is free"));
            }
        }
        let is_taken =
            |port: &(u16, String, String)| others().flat_map(|needs| &needs.ports).any(|other| clash(port, other));
        let port = needs.ports.iter().find(|port| is_taken(port))?;
        Some(format!("another pod uses the host port {}/{}", port.0, port.1))
    }
}

fn amounts(quantities: &Quantities) -> Amounts {
    quantities.iter().filter_map(|(resource, text)| Some((resource.clone(), thousandths(text)?))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

fn raise(peak: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let there = peak.entry(resource.clone()).or_default();
        *there = (*there).max(*amount);
    }
}

fn host_ports(container: &Container) -> impl Iterator<Item = (u16, String, String)> {
    let protocol = |port: &Port| if port.protocol.is_empty() { "TCP".to_owned() } else { port.protocol.clone() };
    let taken = container.ports.iter().filter(|port| port.host_port != 0);
    taken.map(move |port| (port.host_port, protocol(port), port.host_ip.clone()))
}

fn clash(one: &(u16, String, String), other: &(u16, String, String)) -> bool {
    let is_any = |address: &str| matches!(address, "" | "0.0.0.0" | "::");
    one.0 == other.0 && one.1 == other.1 && (is_any(&one.2) || is_any(&other.2) || one.2 == other.2)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "json! reads better without a reference")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(uid: &str, spec: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "uid": uid }, "spec": spec })).expect("a pod")
    }

    fn requests(uid: &str, cpu: &str) -> Pod {
        pod(uid, json!({ "containers": [{ "resources": { "requests": { "cpu": cpu } } }] }))
    }

    fn node(allocatable: Value) -> Node {
        serde_json::from_value(json!({ "status": { "allocatable": allocatable } })).expect("a node")
    }

    fn misfit(pod: &Pod, others: &[Pod], node: &Node) -> Option<String> {
        Usage::of(others).misfit(&pod.metadata.uid, &Needs::of(pod), node)
    }

    #[test]
    fn a_pod_fits_until_its_node_is_full() {
        let node = node(json!({ "cpu": "2", "pods": "110" }));
        assert_eq!(misfit(&requests("b", "500m"), &[requests("a", "1500m")], &node), None);
        let why = misfit(&requests("b", "501m"), &[requests("a", "1500m")], &node).expect("too much");
        assert_eq!(why, "the pod requests 501m cpu, 500m is free");
    }

    #[test]
    fn pods_that_are_over_take_nothing_and_a_pod_is_not_counted_against_itself() {
        let node = node(json!({ "cpu": "1", "pods": "1" }));
        let mut over = requests("a", "1");
        over.status.phase = "Succeeded".to_owned();
        assert_eq!(misfit(&requests("b", "1"), &[over, requests("b", "1")], &node), None);
    }

    #[test]
    fn the_number_of_pods_and_host_ports_count() {
        let full = node(json!({ "pods": "1" }));
        assert_eq!(misfit(&pod("b", json!({})), &[pod("a", json!({}))], &full).as_deref(), Some("it runs 1 pods of 1"));
        let node = node(json!({ "pods": "9" }));
        let port =
            |uid, address| pod(uid, json!({ "containers": [{ "ports": [{ "hostPort": 80, "hostIP": address }] }] }));
        assert!(misfit(&port("b", ""), &[port("a", "10.0.0.1")], &node).is_some());
        assert!(misfit(&port("b", "10.0.0.2"), &[port("a", "10.0.0.1")], &node).is_none());
    }

    #[test]
    fn init_containers_count_by_their_peak_and_sidecars_for_ever() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let sidecar = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } });
        let pod = pod(
            "a",
            json!({ "containers": [container("1")], "initContainers": [sidecar, container("3")],
            "overhead": { "cpu": "1" } }),
        );
        assert_eq!(Needs::of(&pod).amounts["cpu"], 5_000);
    }

    #[test]
    fn an_unknown_resource_does_not_fit() {
        let pod = pod("a", json!({ "containers": [{ "resources": { "requests": { "example.com/gpu": "1" } } }] }));
        let why = misfit(&pod, &[], &node(json!({ "pods": "9" }))).expect("no such device");
        assert_eq!(why, "the pod requests 1 example.com/gpu, 0 is free");
    }
}
