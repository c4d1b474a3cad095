//! What a mirror pod must show, according to the manifest in place. Pure.

use crate::compose::Version;
use crate::edit::SchedulerPod;

/// The kubelet runs kube-scheduler's secure port here unless a flag says otherwise.
const DEFAULT_PORT: &str = "10259";

/// What the manifest promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Namespace of the pod
    pub namespace: String,
    /// Name of the mirror pod: the kubelet adds the node's
    pub name: String,
    /// Name of the scheduler's container
    pub container: String,
    /// Our revision; none where the manifest carries nothing of ours
    pub revision: Option<String>,
    /// Our generation
    pub generation: Option<u64>,
    /// The configuration file that the scheduler is started with
    pub config: Option<String>,
    /// Whether Ready means that the scheduler was asked
    pub has_readiness_probe: bool,
    /// Where the scheduler itself can be asked, on this node
    pub health_url: String,
}

impl Expectation {
    /// Of a manifest on this node.
    pub fn of(pod: &SchedulerPod, node: &str, version: Option<Version>) -> Self {
        let address = match pod.flag("bind-address") {
            None | Some("0.0.0.0" | "") => "127.0.0.1".to_owned(),
            Some("::") => "[::1]".to_owned(),
            Some(address) if address.contains(':') => format!("[{address}]"),
            Some(address) => address.to_owned(),
        };
        let port = pod.flag("secure-port").unwrap_or(DEFAULT_PORT);
        // the scheduler serves /livez since 1.31; /healthz is older, and on its way out
        let path = if version.is_some_and(|version| version.is_at_least(31)) { "livez" } else { "healthz" };
        Self {
            namespace: pod.namespace.clone(),
            name: format!("{}-{}", pod.name, node.to_lowercase()),
            container: pod.container.clone(),
            revision: pod.ours.as_ref().map(|ours| ours.revision.clone()),
            generation: pod.ours.as_ref().map(|ours| ours.generation),
            config: pod.config().map(|(_, path)| path.to_owned()),
            has_readiness_probe: pod.has_readiness_probe,
            health_url: format!("https://{address}:{port}/{path}"),
        }
    }
}
