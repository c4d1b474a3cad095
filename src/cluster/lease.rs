//! The Lease that all agents share: what is rolled out, and whose turn it is. Replaced only as it was read.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::{ANSWER_TIMEOUT, root_cause};
use crate::rollout::{REQUESTS, Record, RecordError};

/// Where it is, for every release: a second one is refused by Helm itself.
pub(crate) const NAMESPACE: &str = "kube-system";
/// Its name.
pub(crate) const NAME: &str = "schedpatch-rollout";
/// The annotation that holds the record.
const RECORD: &str = "schedpatch.io/rollout";

/// Why the Lease was not read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseError {
    /// The API server does not answer
    Away(String),
    /// It does not let us
    Forbidden(String),
    /// Somebody else wrote it since it was read
    Overtaken,
}

/// The Lease as it was read.
#[derive(Clone, Debug)]
pub struct LeaseNow(Lease);

impl LeaseNow {
    /// Of an object that was read elsewhere.
    pub(crate) fn new(lease: Lease) -> Self {
        Self(lease)
    }

    /// What it says; nothing where nobody has written anything yet.
    pub fn record(&self) -> Result<Option<Record>, RecordError> {
        self.annotations().get(RECORD).map(|text| Record::read(text)).transpose()
    }

    /// What people may have asked for.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.0.metadata.annotations.as_ref().unwrap_or(&NONE)
    }
}

/// The way to the Lease.
#[derive(Clone)]
pub struct RolloutLease(Api<Lease>);

impl std::fmt::Debug for RolloutLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RolloutLease")
    }
}

impl RolloutLease {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        Self(Api::namespaced(client, NAMESPACE))
    }

    /// To follow it.
    pub(crate) fn api(&self) -> Api<Lease> {
        self.0.clone()
    }

    /// As it is in this moment; none where there is none.
    pub async fn read(&self) -> Result<Option<LeaseNow>, LeaseError> {
        Ok(answered(self.0.get_opt(NAME)).await?.map(LeaseNow))
    }

    /// Replaces the record, unless somebody else wrote since the Lease was read. Requests of people are taken away: they are in
    /// the record now.
    pub async fn replace(&self, now: &LeaseNow, record: &Record) -> Result<(), LeaseError> {
        let mut lease = now.0.clone();
        let text = record.write().map_err(|error| LeaseError::Away(error.to_string()))?;
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(RECORD.to_owned(), text);
        annotations.retain(|key, _| !REQUESTS.contains(&key.as_str()));
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = record.entry.as_ref().map(|entry| entry.node.clone());
        answered(self.0.replace(NAME, &PostParams::default(), &lease)).await.map(drop)
    }

    /// Asks for something by an annotation, as a person could with kubectl.
    pub async fn ask(&self, key: &str, value: &str) -> Result<(), LeaseError> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        answered(self.0.patch_metadata(NAME, &PatchParams::default(), &Patch::Merge(&patch))).await.map(drop)
    }

    /// Makes it, where the chart did not.
    pub async fn create(&self) -> Result<(), LeaseError> {
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(BTreeMap::from([("app.kubernetes.io/part-of".to_owned(), "schedpatch".to_owned())])),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, ..Lease::default() };
        answered(self.0.create(&PostParams::default(), &lease)).await.map(drop)
    }
}

async fn answered<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, LeaseError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(LeaseError::Overtaken),
        Ok(Err(error)) => Err(match &error {
            kube::Error::Api(status) if status.code == 403 => LeaseError::Forbidden(root_cause(&error)),
            _ => LeaseError::Away(root_cause(&error)),
        }),
        Err(_) => Err(LeaseError::Away(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()))),
    }
}
