//! Objects of a cluster, as its API would answer.

use schedpatch::fleet::{ClusterObjects, judge};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Two control-plane nodes, both proven.
pub fn cluster() -> Value {
    let text = fs::read_to_string(root().join("tests/formats/cluster.json")).expect("the fixture");
    serde_json::from_str(&text).expect("JSON")
}

pub fn answers(cluster: &Value) -> ClusterObjects {
    pub fn read<T: DeserializeOwned>(value: &Value) -> T {
        T::deserialize(value).expect("an object of the API")
    }
    ClusterObjects {
        nodes: read(&cluster["nodes"]),
        set: read(&cluster["set"]),
        agents: read(&cluster["agents"]),
        schedulers: read(&cluster["schedulers"]),
        config_maps: read::<BTreeMap<_, _>>(&cluster["configMaps"]),
        lease: Ok(read(&cluster["lease"])),
        rollout: None,
    }
}

pub fn judged(cluster: &Value) -> Value {
    serde_json::from_str(&judge(&answers(cluster)).to_json().expect("JSON")).expect("JSON")
}

/// What lacks on each node.
pub fn gaps(status: &Value) -> Vec<&str> {
    let nodes = status["nodes"].as_array().expect("a list");
    nodes.iter().map(|node| node["gap"]["reason"].as_str().unwrap_or("")).collect()
}

/// Sets an annotation of the second node.
pub fn says(cluster: &mut Value, key: &str, value: &str) {
    cluster["nodes"][1]["annotations"][format!("schedpatch.io/{key}")] = value.into();
}
