//! Where the extenders of the applied configuration are, and from which nodes they are not reached.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::cluster::answer;

/// Each extender, and how far it is reached, by what the agents say of their nodes.
pub async fn extenders(client: &Client) -> Result<Vec<(String, String)>, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = answer(nodes.list_metadata(&ListParams::default())).await?;
    let said = nodes.items.into_iter().filter_map(|node| {
        let annotations = node.metadata.annotations?;
        let of = |key: &str| annotations.get(&format!("schedpatch.io/{key}")).cloned();
        Some((node.metadata.name?, of("extenders")?, of("extenders-unreachable").unwrap_or_default()))
    });
    Ok(reached(said))
}

fn reached(said: impl Iterator<Item = (String, String, String)>) -> Vec<(String, String)> {
    let mut found: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for (node, all, unreachable) in said {
        let is_down = |url: &str| unreachable.split(", ").any(|down| down == url);
        for url in all.split(", ").filter(|url| !url.is_empty()) {
            let (nodes, down) = found.entry(url.to_owned()).or_default();
            *nodes += 1;
            down.extend(is_down(url).then(|| node.clone()));
        }
    }
    let shown = |(url, (nodes, down)): (String, (usize, Vec<String>))| {
        let state = if down.is_empty() {
            format!("takes connections from {nodes} of {nodes} nodes")
        } else {
            format!("does not take connections from {}", down.join(", "))
        };
        (url, state)
    };
    found.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extender_is_reached_from_every_node_or_the_others_are_named() {
        let said = |node: &str, down: &str| (node.to_owned(), "http://a:1, http://b:2".to_owned(), down.to_owned());
        let found = reached([said("cp1", ""), said("cp2", "http://b:2")].into_iter());
        assert_eq!(found[0].1, "takes connections from 2 of 2 nodes");
        assert_eq!(found[1].1, "does not take connections from cp2");
    }
}
