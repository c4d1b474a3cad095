//! A pod as the API describes it, without the fields that schedpatch does not read: the whole type is half a megabyte of program.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// Name, annotations and so on
    pub metadata: ObjectMeta,
    /// What is wanted
    pub spec: Option<PodSpec>,
    /// What is
    pub status: Option<PodStatus>,
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodSpec {
    /// Its containers
    pub containers: Vec<ContainerSpec>,
}

/// What is wanted of a container.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerSpec {
    /// Its name
    pub name: String,
    /// The program and perhaps arguments
    pub command: Option<Vec<String>>,
    /// More arguments
    pub args: Option<Vec<String>>,
}

/// What a pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Where it is, in a word
    pub phase: Option<String>,
    /// Why, in a word
    pub reason: Option<String>,
    /// Why, in a sentence
    pub message: Option<String>,
    /// Of each container
    pub container_statuses: Option<Vec<ContainerStatus>>,
}

/// What a container is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Its name
    pub name: String,
    /// Whether it runs and, where it is asked, says that it is ready
    pub ready: bool,
    /// Its id, once it is made
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    /// The image that it was made from, by its digest
    #[serde(rename = "imageID")]
    pub image_id: Option<String>,
    /// What it does now
    pub state: Option<ContainerState>,
    /// What the one before did
    pub last_state: Option<ContainerState>,
}

/// What a container does; one of these.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerState {
    /// It is not made yet
    pub waiting: Option<Waiting>,
    /// It has ended
    pub terminated: Option<Terminated>,
}

/// Why a container is not made yet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Waiting {
    /// In a word
    pub reason: Option<String>,
    /// In a sentence
    pub message: Option<String>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    /// Which one it was
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    /// What it returned
    pub exit_code: i32,
    /// In a word
    pub reason: Option<String>,
    /// Its last words
    pub message: Option<String>,
}

impl Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_for_as_the_whole_type_is() {
        type Whole = k8s_openapi::api::core::v1::Pod;
        assert_eq!(Pod::url_path(&(), Some("kube-system")), Whole::url_path(&(), Some("kube-system")));
        assert_eq!((Pod::kind(&()), Pod::api_version(&())), (Whole::kind(&()), Whole::api_version(&())));
    }

    #[test]
    fn what_the_api_tells_is_read() {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kube-scheduler-cp1","annotations":{"a":"b"}},
            "spec":{"nodeName":"cp1","containers":[{"name":"kube-scheduler","image":"x","command":["kube-scheduler"]}]},
            "status":{"phase":"Running","containerStatuses":[{"name":"kube-scheduler","ready":true,"restartCount":1,
            "containerID":"containerd://1","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},
            "lastState":{"terminated":{"exitCode":1,"reason":"Error","message":"no","containerID":"containerd://0"}}}]}}"#;
        let pod: Pod = serde_json::from_str(text).expect("a pod");
        let status = &pod.status.expect("it has one").container_statuses.expect("it has one")[0];
        assert_eq!((status.ready, status.container_id.as_deref()), (true, Some("containerd://1")));
        assert!(status.state.as_ref().is_some_and(|state| state.waiting.is_none() && state.terminated.is_none()));
        let ended = status.last_state.as_ref().and_then(|state| state.terminated.as_ref()).expect("it ended");
        assert_eq!((ended.exit_code, ended.container_id.as_deref()), (1, Some("containerd://0")));
        assert_eq!(pod.spec.expect("it has one").containers[0].command, Some(vec!["kube-scheduler".to_owned()]));
    }

    #[test]
    fn a_pod_that_the_kubelet_has_not_told_about_is_read() {
        let pod: Pod = serde_json::from_str(r#"{"metadata":{},"spec":{"containers":[]},"status":{}}"#).expect("a pod");
        assert!(pod.status.expect("it has one").container_statuses.is_none());
    }
}
