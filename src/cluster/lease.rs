//! The Lease that all agents share: what is rolled out, and whose turn it is. Replaced only as it was read.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::{ANSWER_TIMEOUT, refuses_everything, root_cause};
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
    /// It does not know the caller's token
    Unauthorized(String),
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

    /// Changes with every write.
    pub fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
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
pub struct RolloutLease {
    leases: Api<Lease>,
    client: Client,
}

impl std::fmt::Debug for RolloutLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RolloutLease")
    }
}

impl RolloutLease {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        Self { leases: Api::namespaced(client.clone(), NAMESPACE), client }
    }

    /// To follow it.
    pub(crate) fn api(&self) -> Api<Lease> {
        self.leases.clone()
    }

    /// As it is in this moment; none where there is none.
    pub async fn read(&self) -> Result<Option<LeaseNow>, LeaseError> {
        Ok(self.answered(self.leases.get_opt(NAME)).await?.map(LeaseNow))
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
        self.answered(self.leases.replace(NAME, &PostParams::default(), &lease)).await.map(drop)
    }

    /// Asks for something by an annotation, as a person could with kubectl.
    pub async fn ask(&self, key: &str, value: &str) -> Result<(), LeaseError> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.answered(self.leases.patch_metadata(NAME, &PatchParams::default(), &Patch::Merge(&patch))).await.map(drop)
    }

    /// Makes it, where the chart did not.
    pub async fn create(&self) -> Result<(), LeaseError> {
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(BTreeMap::from([("app.kubernetes.io/part-of".to_owned(), "schedpatch".to_owned())])),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, ..Lease::default() };
        self.answered(self.leases.create(&PostParams::default(), &lease)).await.map(drop)
    }

    async fn answered<T>(&self, asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, LeaseError> {
        let error = match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => return Err(LeaseError::Away(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()))),
        };
        let why = root_cause(&error);
        Err(match error {
            kube::Error::Api(status) if status.code == 409 => LeaseError::Overtaken,
            kube::Error::Api(status) if status.code == 401 => LeaseError::Unauthorized(why),
            kube::Error::Api(status) if status.code == 403 && !refuses_everything(&self.client).await => {
                LeaseError::Forbidden(why)
            }
            _ => LeaseError::Away(why),
        })
    }
}
