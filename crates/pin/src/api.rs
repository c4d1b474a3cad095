//! What schedpatch-pin asks of the API server.

use kube::Client;
use kube::core::params::ListParams;
use serde_json::{Value, json};

use crate::model::{Node, Pod};

pub use schedpatch_service::api::ApiError;

/// The API server, with the requests that are about pins.
#[derive(Clone, Debug)]
pub struct Api(schedpatch_service::api::Api);

impl std::ops::Deref for Api {
    type Target = schedpatch_service::api::Api;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Api {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self(schedpatch_service::api::Api::new(client))
    }

    /// A node as it is now. Listed by name, since the right to list is all that is asked for.
    pub async fn node(&self, name: &str) -> Result<Option<Node>, ApiError> {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        Ok(self.list("/api/v1/nodes", &params).await?.0.pop())
    }

    /// The pods of a node as they are now.
    pub async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, ApiError> {
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        Ok(self.list("/api/v1/pods", &params).await?.0)
    }

    /// Binds a pod to a node, if it is still the same pod.
    pub async fn bind(&self, pod: &Pod, node: &str) -> Result<(), ApiError> {
        let meta = &pod.metadata;
        let binding = json!({ "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": meta.name, "namespace": meta.namespace, "uid": meta.uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node } });
        let path = format!("/api/v1/namespaces/{}/pods", meta.namespace);
        self.create_subresource(&path, &meta.name, "binding", &binding).await
    }

    /// Applies a JSON patch to a pod.
    pub async fn patch_pod(&self, pod: &Pod, patch: &Value) -> Result<(), ApiError> {
        let pods = format!("/api/v1/namespaces/{}/pods", pod.metadata.namespace);
        self.patch(&pods, &pod.metadata.name, patch, "application/json-patch+json").await
    }

    /// Merges labels into a node.
    pub async fn label_node(&self, node: &str, labels: &Value) -> Result<(), ApiError> {
        let patch = json!({ "metadata": { "labels": labels } });
        self.patch("/api/v1/nodes", node, &patch, "application/merge-patch+json").await
    }
}
