//! The volumes of a pod that is about to be bound: all must be there, and its node must be able to mount them. kube-scheduler
//! checks the same, but a pod that we bind never meets it.

use k8s_openapi::api::core::v1::NodeSelector;
use serde::Deserialize;

use crate::affinity;
use crate::api::{Api, ApiError};
use crate::model::{Node, Pod};
use crate::reason::Reason;

/// A bound volume and the nodes that can mount it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Its name
    pub name: String,
    required: Option<NodeSelector>,
}

impl Volume {
    /// Whether the node can mount it, by the volume's own nodeAffinity.
    pub fn is_reachable_from(&self, node: &Node) -> bool {
        self.required.as_ref().is_none_or(|required| affinity::selects(required, node))
    }
}

/// What of a claim is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimObject {
    spec: ClaimSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    volume_name: String,
    storage_class_name: String,
}

/// What of a class of storage is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StorageClass {
    volume_binding_mode: String,
}

/// What of a volume is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeObject {
    spec: VolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    node_affinity: Option<VolumeAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeAffinity {
    required: Option<NodeSelector>,
}

/// The bound volumes of the pod, or the claim that keeps it waiting. What we may not read is not checked.
pub async fn volumes(api: &Api, pod: &Pod) -> Result<Result<Vec<Volume>, Reason>, ApiError> {
    let mut bound = Vec::new();
    for volume in &pod.spec.volumes {
        let claim_name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => claim.claim_name.clone(),
            (None, Some(_)) => format!("{}-{}", pod.metadata.name, volume.name),
            (None, None) => continue,
        };
        let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", pod.metadata.namespace);
        let claim: ClaimObject = match api.get(&claims, &claim_name).await {
            Ok(claim) => claim,
            Err(error) if error.code() == 403 => return Ok(Ok(bound)),
            Err(error) if error.code() == 404 => return Ok(Err(Reason::VolumeNotBound(claim_name))),
            Err(error) => return Err(error),
        };
        if claim.spec.volume_name.is_empty() {
            return unbound(api, claim_name, &claim.spec.storage_class_name).await.map(Err);
        }
        match api.get::<VolumeObject>("/api/v1/persistentvolumes", &claim.spec.volume_name).await {
            Ok(object) => {
                let required = object.spec.node_affinity.and_then(|affinity| affinity.required);
                bound.push(Volume { name: claim.spec.volume_name, required });
            }
            Err(error) if error.code() == 403 => {}
            Err(error) if error.code() == 404 => return Ok(Err(Reason::VolumeNotBound(claim_name))),
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(bound))
}

/// Why a claim has no volume yet.
async fn unbound(api: &Api, claim: String, class: &str) -> Result<Reason, ApiError> {
    if class.is_empty() {
        return Ok(Reason::VolumeNotBound(claim));
    }
    match api.get::<StorageClass>("/apis/storage.k8s.io/v1/storageclasses", class).await {
        Ok(class) if class.volume_binding_mode == "WaitForFirstConsumer" => Ok(Reason::VolumeWaitsForConsumer(claim)),
        Err(error) if !matches!(error.code(), 403 | 404) => Err(error),
        _ => Ok(Reason::VolumeNotBound(claim)),
    }
}
