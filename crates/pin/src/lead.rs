//! Leader election: of several replicas one acts, by a Lease. Bindings and patches are safe without it (the API server
//! refuses the second one); it saves the others the work.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

/// A lease that was not renewed for this time may be taken.
const DURATION: Duration = Duration::from_secs(15);
/// Pause between two looks at the lease.
const PERIOD: Duration = Duration::from_secs(2);
/// So long a request may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A candidate for a lease.
#[derive(Clone)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Candidate({} for {})", self.identity, self.name)
    }
}

/// What another holder's lease looked like, and since when by our own clock: clocks of different machines are not compared.
#[derive(Debug, Default)]
struct Other {
    version: Option<String>,
    since: Option<Instant>,
}

impl Candidate {
    /// Stands for the lease of this name.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self { leases: Api::namespaced(client, namespace), name: name.to_owned(), identity: identity.to_owned() }
    }

    /// Tries to get and keep the lease, and sends until when it is ours. Never ends.
    pub async fn run(self, until: watch::Sender<Option<Instant>>) {
        let mut other = Other::default();
        let mut complained = false;
        loop {
            let asked = Instant::now();
            let held = match tokio::time::timeout(ANSWER_TIMEOUT, self.turn(&mut other)).await {
                Ok(Ok(is_ours)) => {
                    complained = false;
                    Some(is_ours)
                }
                Ok(Err(error)) => {
                    if !complained {
                        tracing::warn!("cannot use the lease {}: {error}", self.name);
                    }
                    complained = true;
                    None
                }
                Err(_) => None,
            };
            let before = *until.borrow();
            let now = match held {
                Some(true) => Some(asked + DURATION),
                Some(false) => None,
                // without an answer it stays ours until it runs out
                None => before.filter(|until| Instant::now() < *until),
            };
            if before.is_some() != now.is_some() {
                let does = if now.is_some() { "leads now" } else { "does not lead any more" };
                tracing::info!(identity = self.identity, lease = self.name, "this replica {does}");
            }
            until.send_replace(now);
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Whether the lease is ours after one look at it.
    async fn turn(&self, other: &mut Other) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return won(self.leases.create(&PostParams::default(), &lease).await);
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let version = lease.metadata.resource_version.clone();
            if other.since.is_none() || other.version != version {
                *other = Other { version, since: Some(Instant::now()) };
            }
            if other.since.is_none_or(|since| since.elapsed() < DURATION) {
                return Ok(false);
            }
        }
        lease.spec = Some(self.spec(lease.spec.as_ref()));
        won(self.leases.replace(&self.name, &PostParams::default(), &lease).await)
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_ours = old.is_some_and(|old| old.holder_identity.as_deref() == Some(&self.identity));
        let changes = old.and_then(|old| old.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            renew_time: Some(now.clone()),
            acquire_time: old.filter(|_| is_ours).and_then(|old| old.acquire_time.clone()).or(Some(now)),
            lease_transitions: Some(if is_ours || old.is_none() { changes } else { changes + 1 }),
            ..LeaseSpec::default()
        }
    }

    /// Gives the lease back, so that another replica need not wait.
    pub async fn release(&self) {
        let given_back = async {
            let mut lease = self.leases.get(&self.name).await?;
            if let Some(spec) =
                lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity))
            {
                spec.holder_identity = None;
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        let _ = tokio::time::timeout(ANSWER_TIMEOUT, given_back).await;
    }
}

/// A conflict means that another candidate was faster.
fn won(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
