//! The configuration files of k3s: `config.yaml`, then `config.yaml.d` in the order of names. Pure.
//!
//! `key` replaces what earlier files said, `key+` adds to it. What the files say comes before the command line's own arguments,
//! and of two values of one scheduler flag the last counts.

use serde_yaml::{Mapping, Value};

use crate::host::HostPath;
use crate::target::refusal::{Refusal, Rule};
use crate::target::{FileText, HostFiles};

/// The key that gives arguments to the scheduler.
pub(super) const SCHEDULER_ARG: &str = "kube-scheduler-arg";

/// One configuration file.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub path: HostPath,
    content: Mapping,
}

/// Reads the files, the base first. `own` is a text that stands in place of what its path has.
pub(super) fn read(base: &str, host: &dyn HostFiles, own: Option<(&str, &str)>) -> Result<Vec<ConfigFile>, Refusal> {
    let dir = format!("{base}.d");
    let is_yaml = |path: &HostPath| path.ends_with(".yaml") || path.ends_with(".yml");
    let mut paths: Vec<HostPath> = host.files_in(&dir).into_iter().filter(is_yaml).collect();
    if let Some((path, text)) = own {
        paths.retain(|other| *other != path);
        if !text.is_empty() {
            paths.push(HostPath::from(path));
        }
    }
    paths.sort();
    paths.insert(0, HostPath::from(base));
    let mut files = Vec::new();
    for path in paths {
        let text = match own {
            Some((own, text)) if path == own => Some(Ok(text.to_owned())),
            _ => host.text(&path),
        };
        files.extend(text.map(|text| parse(path, text)).transpose()?);
    }
    Ok(files)
}

pub(super) fn parse(path: HostPath, text: FileText) -> Result<ConfigFile, Refusal> {
    let refuse = |why: String| Refusal::new(Rule::K3sConfig, format!("{path}: {why}"));
    let text = text.map_err(refuse)?;
    let value: Value = serde_yaml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    match value {
        Value::Mapping(content) => Ok(ConfigFile { path, content }),
        Value::Null => Ok(ConfigFile { path, content: Mapping::new() }),
        _ => Err(refuse("it is no list of settings".to_owned())),
    }
}

impl ConfigFile {
    /// The values of a key in this file, and whether they replace what came before.
    pub fn values(&self, key: &str) -> Option<(Vec<String>, bool)> {
        let adding = format!("{key}+");
        let replacing = self.content.get(key).map(|value| (texts(value), true));
        replacing.or_else(|| self.content.get(adding.as_str()).map(|value| (texts(value), false)))
    }
}

/// The values of a key over all files.
pub(super) fn values(files: &[ConfigFile], key: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (values, replaces) in files.iter().filter_map(|file| file.values(key)) {
        if replaces {
            all.clear();
        }
        all.extend(values);
    }
    all
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Sequence(items) => items.iter().flat_map(texts).collect(),
        Value::String(text) => vec![text.clone()],
        Value::Bool(flag) => vec![flag.to_string()],
        Value::Number(number) => vec![number.to_string()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Around;

    #[test]
    fn a_plus_adds_and_a_later_file_without_it_replaces() {
        let mut around = Around::default();
        let mut add = |path: &str, text: &str| around.files.insert(HostPath::from(path), Ok(text.to_owned()));
        add("/c.yaml", "kube-scheduler-arg: [a=1]\ndata-dir: /data\n");
        add("/c.yaml.d/10.yaml", "kube-scheduler-arg+: b=2\n");
        add("/c.yaml.d/20.yml", "# nothing\n");
        add("/c.yaml.d/30.txt", "kube-scheduler-arg: [never]\n");
        let read_all = |around: &Around, own| values(&read("/c.yaml", around, own).unwrap(), SCHEDULER_ARG);
        assert_eq!(read_all(&around, None), ["a=1", "b=2"]);
        assert_eq!(read_all(&around, Some(("/c.yaml.d/15.yaml", "kube-scheduler-arg+: [c]"))), ["a=1", "b=2", "c"]);
        around.files.insert(HostPath::from("/c.yaml.d/90.yaml"), Ok("kube-scheduler-arg: [d]".to_owned()));
        assert_eq!(read_all(&around, None), ["d"]);
        around.files.insert(HostPath::from("/c.yaml"), Ok("a: [".to_owned()));
        assert_eq!(read("/c.yaml", &around, None).unwrap_err().rule, Rule::K3sConfig);
    }
}
