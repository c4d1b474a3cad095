//! What the user wants, as the API has it. What is mounted counts only where the API does not say anything, or may not be asked.

use std::time::Duration;

use super::{Agent, ClientHandle};
use crate::cluster::{ConfigMaps, Sources};
use crate::finding::Finding;
use crate::phase::{NodeState, Phase};
use crate::settings::Source;

/// So long the first look waits for the API to say what is wanted.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

impl Agent {
    /// Takes what the API says of the sources for the next look.
    pub(super) async fn take_sources(&mut self) {
        let names = &self.options.release.config_maps;
        let Some(ClientHandle(client)) = self.outside.client.as_ref().filter(|_| !names.is_empty()) else { return };
        if self.watched.config_maps.is_none() {
            let mut config_maps = ConfigMaps::follow(client, &self.options.release.namespace, names);
            // what is mounted may be a minute old
            let _ = tokio::time::timeout(FIRST_ANSWER, config_maps.ask()).await;
            self.watched.config_maps = Some(config_maps);
        }
        let Some(config_maps) = &mut self.watched.config_maps else { return };
        if config_maps.is_away() {
            // the watch may not know yet that the API is back
            let _ = tokio::time::timeout(FIRST_ANSWER, config_maps.ask()).await;
        }
        let sources = config_maps.latest();
        self.give_sources(&sources);
    }

    /// Whether the API wants in this moment what was planned for; what it wants now is taken for the next look.
    pub(super) async fn confirm_sources(&mut self) -> Result<bool, String> {
        let Some(config_maps) = &mut self.watched.config_maps else { return Ok(true) };
        let sources = config_maps.ask().await?;
        let before = self.settings.given.clone();
        self.give_sources(&sources);
        Ok(self.settings.given == before)
    }

    /// What to say where the API has no sources, or does not let us read them and nothing is mounted either.
    pub(super) fn sources_missing(&mut self, otherwise: &NodeState) -> Option<NodeState> {
        if let (Some(why), "NoSource") = (&self.watched.forbidden, otherwise.reason.as_str()) {
            let release = &self.options.release;
            let message = format!(
                "this agent may not get, list and watch the ConfigMaps {} in namespace {}, and what is mounted holds no \
                 KubeSchedulerConfiguration; what is applied stays; the chart's role gives it that right: {why}",
                release.config_maps.join(", "),
                release.namespace
            );
            return Some(NodeState::new(Phase::Pending, "SourceForbidden", message));
        }
        let finding = self.settings.given.as_ref()?.as_ref().err()?;
        let message = format!("{}; {}", finding.message, finding.way_out);
        Some(NodeState::new(Phase::Pending, "SourceMissing", message))
    }

    fn give_sources(&mut self, sources: &Sources) {
        if matches!(sources, Sources::Missing(_) | Sources::There(_)) {
            self.watched.forbidden = None;
        }
        self.settings.given = match sources {
            Sources::Unknown => None,
            Sources::Forbidden(why) => {
                if self.watched.forbidden.as_ref() != Some(why) {
                    let message =
                        "may not read the sources through the API, so a change is seen only when the kubelet shows it";
                    tracing::warn!("{message}: {why}");
                    self.watched.forbidden = Some(why.clone());
                }
                None
            }
            Sources::Missing(name) => Some(Err(missing(&self.options.release.namespace, name))),
            Sources::There(all) => Some(Ok(all
                .iter()
                .map(|(name, files)| Source { dir: format!("configmap/{name}"), files: files.clone() })
                .collect())),
        };
    }
}

fn missing(namespace: &str, name: &str) -> Finding {
    let message =
        format!("the ConfigMap {namespace}/{name}, which says what is wanted, is not there; what is applied stays");
    Finding::error("source-missing", message, "create it, or install the chart again")
}
