//! Sources through the API: ConfigMaps by their names. The kubelet shows a changed ConfigMap in a mount after up to a minute,
//! the API in milliseconds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::{Followed, Known, refuses_everything};

/// The content of a source: name and content of every file.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What the API says of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sources {
    /// Nothing yet, or it is away; what is mounted may say more
    Unknown,
    /// We may not read one of them, for this reason; what is mounted counts
    Forbidden(String),
    /// There is no ConfigMap of this name
    Missing(String),
    /// All of them, in their order: name and content
    There(Vec<(String, Files)>),
}

/// ConfigMaps that are followed until this is dropped.
pub(crate) struct ConfigMaps {
    followed: Vec<(String, Followed<ConfigMap>)>,
    /// What the API said last: it holds while the API is away
    last: Option<Sources>,
    client: Client,
}

impl std::fmt::Debug for ConfigMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMaps").field("last", &self.last).finish_non_exhaustive()
    }
}

impl ConfigMaps {
    /// Begins to follow these.
    pub fn follow(client: &Client, namespace: &str, names: &[String]) -> Self {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let begin = |name: &String| (name.clone(), Followed::begin(api.clone(), name));
        Self { followed: names.iter().map(begin).collect(), last: None, client: client.clone() }
    }

    /// What is known now.
    pub fn latest(&mut self) -> Sources {
        let known = self.followed.iter_mut().map(|(name, map)| (name.clone(), map.latest().0));
        match (summary(known.collect()), &self.last) {
            // whether a refusal counts is found out by whoever asks
            (Sources::Unknown | Sources::Forbidden(_), Some(last)) => last.clone(),
            (known, _) => {
                self.last = Some(known.clone());
                known
            }
        }
    }

    /// What the API says in this moment, or why it does not.
    pub async fn ask(&mut self) -> Result<Sources, String> {
        let mut known = Vec::new();
        for (name, map) in &mut self.followed {
            match map.ask().await {
                Known::Away(why) => return Err(why),
                answer => known.push((name.clone(), answer)),
            }
        }
        let known = summary(known);
        if let Sources::Forbidden(why) = &known
            && refuses_everything(&self.client).await
        {
            return Err(why.clone());
        }
        self.last = Some(known.clone());
        Ok(known)
    }

    /// Whether the last word about one of them is that the API does not answer.
    pub fn is_away(&self) -> bool {
        self.followed.iter().any(|(_, map)| map.is_away())
    }

    /// Waits for news of one of them.
    pub async fn changed(&mut self) {
        if self.followed.is_empty() {
            return std::future::pending().await;
        }
        let waits = self.followed.iter_mut().map(|(_, map)| Box::pin(map.changed()));
        futures_util::future::select_all(waits).await;
    }
}

fn summary(known: Vec<(String, Known<ConfigMap>)>) -> Sources {
    let mut there = Vec::new();
    for (name, answer) in known {
        match answer {
            Known::NotYet | Known::Away(_) => return Sources::Unknown,
            Known::Forbidden(why) => return Sources::Forbidden(why),
            Known::Absent => return Sources::Missing(name),
            Known::Object(map) => there.push((name, files(*map))),
        }
    }
    Sources::There(there)
}

/// The files that a mount of the ConfigMap would show. Hidden ones an agent passes over.
fn files(map: ConfigMap) -> Files {
    let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
    let bytes = map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0));
    texts.chain(bytes).filter(|(key, _)| !key.starts_with('.')).collect()
}
