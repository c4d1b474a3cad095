//! Stage 2: from what the user mounted and what the target already has, one configuration. Pure: data in, text out.
//!
//! Sources decide scheduling, the target decides identity.

mod identity;
mod render;
mod source;
mod version;
mod yaml11;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_yaml::{Mapping, Value};

pub use version::{KnownVersion, Version, find as find_version};

use crate::edit::{CONFIG_FILE, SchedulerPod, last_flag};
use crate::finding::Finding;
use crate::observe::Source;
use source::Config;
use version::GROUP;

/// In a configuration: the directory that holds it and the files beside it, as the scheduler sees it.
pub const DIR_VARIABLE: &str = "$(SCHEDPATCH_DIR)";

/// The result of composing.
#[derive(Debug)]
pub struct Composed {
    /// The configuration and the files beside it by name, with [`DIR_VARIABLE`] not yet expanded
    pub files: BTreeMap<String, Vec<u8>>,
    /// Which part came from where
    pub origins: Vec<Origin>,
    /// Warnings
    pub findings: Vec<Finding>,
}

/// Where a part of the composed configuration came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Field of the configuration, or name of a file beside it
    pub part: String,
    /// File or flag
    pub from: String,
}

impl Composed {
    /// The files as they are written into `dir`.
    pub fn expanded(&self, dir: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files.clone();
        if let Some(config) = files.get_mut(CONFIG_FILE) {
            *config = String::from_utf8_lossy(config).replace(DIR_VARIABLE, dir).into_bytes();
        }
        files
    }
}

/// Composes. `Ok(None)`: the sources hold no configuration, so there is nothing to do.
pub fn compose(sources: &[Source], pod: &SchedulerPod, version: Version) -> Result<Option<Composed>, Vec<Finding>> {
    let sorted = source::sort(sources)?;
    let mut configs = sorted.configs.into_iter();
    let Some(config) = configs.next() else { return Ok(None) };
    if let Some(second) = configs.next() {
        return Err(vec![several(&config, &second)]);
    }
    accepted(&config, version).map_err(|finding| vec![finding])?;
    if let Some(flag) = pod.flags.iter().find(|flag| flag.name.starts_with("policy-config")) {
        return Err(vec![policy(&flag.name).at_line(flag.line)]);
    }
    let own = last_flag(&pod.flags, "config").and_then(|flag| Some((flag, flag.value.as_deref()?)));
    if let Some((flag, path)) = own.filter(|(_, path)| !path.is_empty()) {
        return Err(vec![existing_config(path).at_line(flag.line)]);
    }

    let Config { file, content, .. } = config;
    let mut rest = content;
    let mut whole = Mapping::new();
    for key in ["apiVersion", "kind"] {
        whole.extend(rest.remove(key).map(|value| (Value::from(key), value)));
    }
    let identity = identity::take(&pod.flags, &mut rest).map_err(|finding| vec![finding])?;
    let mut origins = vec![Origin { part: "apiVersion".to_owned(), from: file.clone() }];
    origins.extend(identity.origins.into_iter().map(|(part, from)| Origin { part, from }));
    origins
        .extend(rest.keys().filter_map(Value::as_str).map(|key| Origin { part: key.to_owned(), from: file.clone() }));
    whole.extend(identity.fields);
    whole.extend(rest);

    let mut files = BTreeMap::from([(CONFIG_FILE.to_owned(), render::render(&whole).into_bytes())]);
    for (name, content, path) in sorted.others {
        if files.contains_key(&name) {
            return Err(vec![name_taken(&name).in_file(path)]);
        }
        origins.push(Origin { part: name.clone(), from: path });
        files.insert(name, content);
    }
    let findings = identity.findings.into_iter().map(|finding| finding.in_file(file.clone())).collect();
    Ok(Some(Composed { files, origins, findings }))
}

fn accepted(config: &Config, version: Version) -> Result<(), Finding> {
    let accepted = version.accepted();
    if accepted.contains(&config.version.as_str()) {
        return Ok(());
    }
    let message = format!(
        "kube-scheduler {version} does not accept {GROUP}/{}; it accepts {}",
        config.version,
        accepted.join(", ")
    );
    let newest = accepted.last().copied().unwrap_or("v1");
    Err(Finding::error("api-version", message, format!("write the configuration as {GROUP}/{newest}"))
        .in_file(config.file.clone()))
}

fn several(first: &Config, second: &Config) -> Finding {
    let message = format!(
        "{} and {} are both a KubeSchedulerConfiguration; several of them (alternatives, fragments) are not merged yet",
        first.file, second.file
    );
    Finding::error("not-yet", message, "leave one KubeSchedulerConfiguration in the sources")
        .in_file(second.file.clone())
}

fn existing_config(path: &str) -> Finding {
    let message =
        format!("the scheduler has --config={path} already; merging with an existing configuration is not done yet");
    Finding::error(
        "not-yet",
        message,
        "put your extenders into that file by hand, or take --config out of the manifest first",
    )
}

fn policy(flag: &str) -> Finding {
    let message = format!(
        "the scheduler has --{flag}: a Policy and a configuration file exclude each other, and 1.23 knows no Policy any more"
    );
    Finding::error(
        "policy",
        message,
        "write the Policy's extenders as a KubeSchedulerConfiguration and take the flag out of the manifest",
    )
}

fn name_taken(name: &str) -> Finding {
    let message =
        format!("a file named {name} is there already: the composed configuration, or a file of another source");
    Finding::error("name-taken", message, "rename the file")
}
