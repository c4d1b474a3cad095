//! Objects that are read and written one by one: leases, claims, volumes, classes of storage.

use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::api::{Answer, State, answer, failure};

/// Kind and key of the object at a path; the key ends in a slash if the path is a list's.
fn locate(path: &[&str]) -> Option<(&'static str, String)> {
    Some(match path {
        ["apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases", name] => {
            ("leases", format!("{namespace}/{name}"))
        }
        ["apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases"] => ("leases", format!("{namespace}/")),
        ["api", "v1", "namespaces", namespace, "persistentvolumeclaims", name] => {
            ("claims", format!("{namespace}/{name}"))
        }
        ["api", "v1", "persistentvolumes", name] => ("volumes", (*name).to_owned()),
        ["apis", "storage.k8s.io", "v1", "storageclasses", name] => ("classes", (*name).to_owned()),
        _ => return None,
    })
}

/// Whether such objects are served.
pub fn is_served(path: &[&str]) -> bool {
    locate(path).is_some()
}

impl State {
    /// Gets, creates or replaces an object; a replacement of another version is a conflict.
    pub fn serve(&mut self, method: &Method, path: &[&str], object: &Value) -> Answer {
        let Some((kind, key)) = locate(path) else { return failure(404, "no such kind") };
        if self.forbidden.contains(kind) {
            return failure(403, "you may not read this");
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = if *method == Method::POST { format!("{key}{name}") } else { key };
        let there = self.objects.get(kind).and_then(|objects| objects.get(&key)).cloned();
        match (method, there) {
            (&Method::GET, Some(there)) => return answer(StatusCode::OK, &there),
            (&Method::GET | &Method::PUT, None) => return failure(404, "no such object"),
            (&Method::POST, Some(_)) => return failure(409, "it exists already"),
            (&Method::PUT, Some(there))
                if there["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] =>
            {
                return failure(409, "it has changed");
            }
            _ => {}
        }
        self.change(kind, &key, |_| Some(object.clone()));
        let now = self.objects.get(kind).and_then(|objects| objects.get(&key)).cloned().unwrap_or_default();
        answer(StatusCode::OK, &now)
    }
}
