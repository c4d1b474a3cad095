//! What the API does with bindings and patches of pods, and the laws that it judges them by.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::api::{Answer, Fault, State, answer, failure};

impl State {
    /// With an election, only the replica that holds the lease acts.
    fn judge_leader(&mut self, replica: usize, pod: &str) {
        let leases = self.objects.get("leases").into_iter().flat_map(std::collections::BTreeMap::values);
        let holders: Vec<&str> = leases.filter_map(|lease| lease["spec"]["holderIdentity"].as_str()).collect();
        if holders.iter().any(|holder| *holder != format!("replica-{replica}")) {
            let violation = format!("replica {replica} asked to place {pod}, though {holders:?} leads");
            self.violations.push(violation);
        }
    }

    /// Whether a node is labelled for a pod now, or was a second ago.
    fn judge(&mut self, pod: &str, node: &str, what: &str) {
        let (namespace, name) = pod.split_once('/').expect("a full name");
        let forms = [format!("rf.scheduler.test.{namespace}/{name}"), format!("rf.scheduler.test/{name}")];
        let labels =
            self.objects.get("nodes").and_then(|nodes| nodes.get(node)).map(|node| node["metadata"]["labels"].clone());
        let is_labelled = labels.is_some_and(|labels| forms.iter().any(|form| labels.get(form).is_some()));
        let gone = forms.iter().filter_map(|form| self.unlabelled.get(&(node.to_owned(), form.clone()))).max();
        match gone {
            _ if is_labelled => {}
            Some(gone) if gone.elapsed() <= Duration::from_secs(1) => {}
            Some(gone) => {
                self.violations.push(format!("{what} {pod} to {node}, whose label went {:?} ago", gone.elapsed()));
            }
            None => self.violations.push(format!("{what} {pod} to {node}, which was never labelled")),
        }
    }

    /// Binds a pod as the API server does, and notes what no daemon may do.
    pub fn bind(&mut self, replica: usize, pod: &str, binding: &Value) -> Answer {
        self.judge_leader(replica, pod);
        let Some(there) = self.objects.get("pods").and_then(|pods| pods.get(pod)).cloned() else {
            return failure(404, "no such pod");
        };
        let (uid, node) = (
            there["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            binding["target"]["name"].as_str().unwrap_or_default().to_owned(),
        );
        if let Some(bound) = self.bound.get(&(replica, uid.clone())) {
            self.violations
                .push(format!("asked again to bind {pod} to {node}, though its binding to {bound} was answered"));
        }
        // like the real one, it binds whatever has the name if no UID is given
        let wanted = binding["metadata"]["uid"].as_str();
        if wanted.is_none() {
            self.violations.push(format!("asked to bind {pod} whatever its UID is"));
        }
        let is_same = wanted.is_none_or(|wanted| wanted == uid);
        let is_free = there["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        let is_gated = there["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        if !is_same || !is_free || is_gated || there["metadata"].get("deletionTimestamp").is_some() {
            return failure(409, "bound, deleted, gated or another pod");
        }
        if there["spec"]["schedulerName"] != "test" {
            self.violations.push(format!("bound {pod}, which is another scheduler's"));
        }
        self.judge(pod, &node, "bound");
        if self.fault != Some(Fault::LoseAnswers) {
            self.bound.insert((replica, uid), node.clone());
        }
        self.change("pods", pod, |pod| {
            let mut pod = pod?;
            pod["spec"]["nodeName"] = json!(node);
            Some(pod)
        });
        answer(StatusCode::CREATED, &json!({ "kind": "Status", "status": "Success" }))
    }

    /// Applies a patch of gate mode, as far as the laws depend on it.
    pub fn lift(&mut self, replica: usize, pod: &str, patch: &Value) -> Answer {
        self.judge_leader(replica, pod);
        let Some(there) = self.objects.get("pods").and_then(|pods| pods.get(pod)).cloned() else {
            return failure(404, "no such pod");
        };
        let operations = patch.as_array().cloned().unwrap_or_default();
        let value = |path: &str| {
            operations.iter().find(|operation| operation["path"] == path).map(|operation| operation["value"].clone())
        };
        for (path, is) in [
            ("/metadata/uid", &there["metadata"]["uid"]),
            ("/metadata/resourceVersion", &there["metadata"]["resourceVersion"]),
        ] {
            match value(path) {
                Some(wanted) if wanted == *is => {}
                Some(_) => return failure(422, "the test failed"),
                None => self.violations.push(format!("patched {pod} without a test of {path}")),
            }
        }
        let affinity = value("/spec/affinity").unwrap_or_default();
        let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let node =
            required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().unwrap_or_default().to_owned();
        self.judge(pod, &node, "sent");
        self.change("pods", pod, |pod| {
            let mut pod = pod?;
            pod["spec"]["affinity"] = affinity.clone();
            pod["spec"]["schedulingGates"] = json!([]);
            Some(pod)
        });
        answer(StatusCode::OK, &json!({}))
    }
}
