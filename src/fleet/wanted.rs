//! What the agents shall bring about: their DaemonSet's sources, with the ConfigMaps' content as the API has it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Container, PodSpec};

use crate::finding::Finding;
use crate::overrides::{OnUpgrade, SchedulerOverrides};
use crate::revision::Digest;

const SOURCE_FLAG: &str = "--source";
const SOURCE_VARIABLE: &str = "SCHEDPATCH_SOURCE";

/// A source directory of the agents that shows a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    /// Name of the ConfigMap, in the agents' namespace
    pub config_map: String,
    /// Whether it may be missing: the mount is optional, and the agents do not read it through the API either
    pub optional: bool,
    /// Only these keys, under these paths
    items: Option<Vec<(String, String)>>,
    /// The directory within the mount; empty, or it ends with `/`
    below: String,
}

/// The pod that a DaemonSet makes.
pub(super) fn template(set: &DaemonSet) -> Option<&PodSpec> {
    set.spec.as_ref()?.template.spec.as_ref()
}

/// The agent's container: the one with a source, or the first.
pub(super) fn agent_of(spec: &PodSpec) -> Option<&Container> {
    spec.containers.iter().find(|container| !source_dirs(container).is_empty()).or_else(|| spec.containers.first())
}

/// Where the agents' sources come from, in their order.
pub(super) fn sources(set: &DaemonSet) -> Result<Vec<Mounted>, Finding> {
    let Some(spec) = template(set) else { return Ok(Vec::new()) };
    let Some(agent) = agent_of(spec) else { return Ok(Vec::new()) };
    let followed = given(agent, "--config-map", "SCHEDPATCH_CONFIG_MAP");
    let of_dir = |dir: &String| {
        let mounted = mounted(spec, agent, dir).ok_or_else(|| elsewhere(dir))?;
        Ok(Mounted { optional: mounted.optional && !followed.contains(&mounted.config_map), ..mounted })
    };
    source_dirs(agent).iter().map(of_dir).collect()
}

/// The digest of the sources, exactly as an agent computes it once its mounts show these ConfigMaps.
pub(super) fn digest(set: &DaemonSet, sources: &[Mounted], maps: &BTreeMap<String, ConfigMap>) -> Digest {
    let empty = ConfigMap::default();
    let files: Vec<_> =
        sources.iter().map(|source| source.files(maps.get(&source.config_map).unwrap_or(&empty))).collect();
    let overrides = template(set).and_then(agent_of).map(overrides).unwrap_or_default();
    Digest::of_wanted(&files, &overrides)
}

/// What the agents ask of the scheduler beside its configuration, by their environment and flags.
fn overrides(agent: &Container) -> SchedulerOverrides {
    let one = |name: &str| values(agent, name).pop();
    let args = values(agent, "arg").into_iter().filter_map(|text| {
        let (name, value) = text.trim_start_matches('-').split_once('=')?;
        Some((name.replace('_', "-"), value.to_owned()))
    });
    let mounts = values(agent, "mount").into_iter().flat_map(|text| {
        text.split(',')
            .filter(|path| !path.is_empty())
            .map(|path| path.trim_end_matches('/').to_owned())
            .collect::<Vec<_>>()
    });
    SchedulerOverrides {
        image: one("image"),
        version: one("version"),
        command: one("command"),
        run_as_user: one("run-as-user").and_then(|user| user.parse().ok()),
        image_on_upgrade: match one("image-on-upgrade").as_deref() {
            Some("keep") => OnUpgrade::Keep,
            _ => OnUpgrade::Remove,
        },
        args: args.collect::<BTreeMap<_, _>>().into_iter().collect(),
        mounts: mounts.collect::<BTreeSet<_>>().into_iter().collect(),
        dns_policy: one("dns-policy"),
    }
}

/// The values of `--scheduler-NAME`, or else the lines of its variable.
fn values(agent: &Container, name: &str) -> Vec<String> {
    let variable = format!("SCHEDPATCH_SCHEDULER_{}", name.to_uppercase().replace('-', "_"));
    given(agent, &format!("--scheduler-{name}"), &variable)
}

/// The values of a flag, or else the lines of its variable.
fn given(agent: &Container, flag: &str, variable: &str) -> Vec<String> {
    let mut given = Vec::new();
    let mut words = [&agent.command, &agent.args].into_iter().flatten().flatten();
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => given.extend(words.next().cloned()),
            Some(rest) => given.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    if !given.is_empty() {
        return given;
    }
    let text = agent.env.iter().flatten().rfind(|own| own.name == variable).and_then(|own| own.value.clone());
    text.iter().flat_map(|text| text.split('\n')).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

impl Mounted {
    /// The files that an agent finds in the directory. Hidden ones it passes over, and so do we.
    fn files(&self, map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
        let texts = map.data.iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes()));
        let bytes = map.binary_data.iter().flatten().map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()));
        let content: BTreeMap<&str, &[u8]> = texts.chain(bytes).collect();
        let shown: Vec<(&str, &[u8])> = match &self.items {
            None => content.into_iter().collect(),
            Some(items) => {
                items.iter().filter_map(|(key, path)| Some((path.as_str(), *content.get(key.as_str())?))).collect()
            }
        };
        let here = shown.into_iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&self.below)?, bytes)));
        here.filter(|(name, _)| !name.starts_with('.')).map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
    }
}

/// The directories that a container's flags name, or else its environment.
fn source_dirs(container: &Container) -> Vec<String> {
    let mut dirs = Vec::new();
    let mut words = [&container.command, &container.args].into_iter().flatten().flatten();
    while let Some(word) = words.next() {
        match word.strip_prefix(SOURCE_FLAG) {
            Some("") => dirs.extend(words.next().cloned()),
            Some(rest) => dirs.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    let mut variables = container.env.iter().flatten().filter(|variable| variable.name == SOURCE_VARIABLE);
    // of a variable that is set twice the last counts; what does not stand there is not known, as a path that is nowhere
    let variable = variables.next_back().map(|variable| variable.value.clone().unwrap_or_default());
    if !dirs.is_empty() {
        return dirs;
    }
    // one on each line, as the program reads it
    variable.iter().flat_map(|text| text.split('\n')).filter(|dir| !dir.is_empty()).map(str::to_owned).collect()
}

/// The ConfigMap that a directory shows; none if it shows something else.
fn mounted(spec: &PodSpec, agent: &Container, dir: &str) -> Option<Mounted> {
    let dir = plain(dir)?;
    let mounts = agent.volume_mounts.iter().flatten();
    let above = mounts.filter_map(|mount| {
        let path = plain(&mount.mount_path)?;
        let rest = dir.strip_prefix(&path)?.to_owned();
        Some((path.len(), mount, rest))
    });
    let (_, mount, below) = above.max_by_key(|(length, ..)| *length)?;
    if mount.sub_path.is_some() || mount.sub_path_expr.is_some() {
        return None;
    }
    let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    let ConfigMapVolumeSource { name, optional, items, .. } = volume.config_map.as_ref()?;
    let items = items.as_ref().map(|items| items.iter().map(|item| (item.key.clone(), item.path.clone())).collect());
    Some(Mounted { config_map: name.clone(), optional: optional.unwrap_or(false), items, below })
}

/// An absolute path with one `/` at the end; none if it leads through variables or upwards.
fn plain(path: &str) -> Option<String> {
    let is_plain = path.starts_with('/') && !path.contains("$(") && !path.split('/').any(|part| part == "..");
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    is_plain.then(|| parts.fold("/".to_owned(), |path, part| path + part + "/"))
}

fn elsewhere(dir: &str) -> Finding {
    let message =
        format!("the agents' source {dir:?} shows no ConfigMap, so what is wanted cannot be read through the API");
    let way_out = "mount a ConfigMap there, as the chart does; or see each node's annotations and its agent's /readyz";
    Finding::error("source-elsewhere", message, way_out)
}
