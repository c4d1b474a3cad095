//! Which files of a source are configuration, and which are only copied beside it.

use serde_yaml::{Mapping, Value};

use super::version::GROUP;
use super::yaml11;
use crate::finding::Finding;
use crate::observe::Source;

const KIND: &str = "KubeSchedulerConfiguration";

/// A file of kind KubeSchedulerConfiguration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where it was read
    pub file: String,
    /// `v1` of `kubescheduler.config.k8s.io/v1`
    pub version: String,
    /// All of it
    pub content: Mapping,
}

/// The files of the sources, told apart.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub configs: Vec<Config>,
    /// Name, content and path of every other file
    pub others: Vec<(String, Vec<u8>, String)>,
}

/// Sorts all files, or says what is wrong with some.
pub(crate) fn sort(sources: &[Source]) -> Result<Sorted, Vec<Finding>> {
    let mut sorted = Sorted::default();
    let mut findings = Vec::new();
    for source in sources {
        for (name, content) in &source.files {
            let file = format!("{}/{name}", source.dir.trim_end_matches('/'));
            match read(name, content) {
                Ok(Some((version, content))) => sorted.configs.push(Config { file, version, content }),
                Ok(None) => sorted.others.push((name.clone(), content.clone(), file)),
                Err(finding) => findings.push(finding.in_file(file)),
            }
        }
    }
    if findings.is_empty() { Ok(sorted) } else { Err(findings) }
}

/// A configuration and its version; `None` for a file of another sort.
fn read(name: &str, content: &[u8]) -> Result<Option<(String, Mapping)>, Finding> {
    let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
    if !is_yaml {
        return Ok(None);
    }
    let broken = |why: String, line| {
        let way_out = "mend the file; a file that is no YAML must not end in .yaml, .yml or .json";
        Finding::error("source-not-yaml", format!("cannot be read as YAML: {why}"), way_out).at_line(line)
    };
    let text = str::from_utf8(content).map_err(|_| broken("it is not UTF-8 text".to_owned(), None))?;
    let value: Value = serde_yaml::from_str(text)
        .map_err(|error| broken(error.to_string(), error.location().map(|location| location.line())))?;
    let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (field("apiVersion"), field("kind"));
    let Some(version) = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) else {
        return if kind == KIND { Err(wrong_group(&api_version)) } else { Ok(None) };
    };
    if kind != KIND {
        let message = format!("the kind {kind:?} of {api_version} is none that a scheduler can be configured with");
        return Err(Finding::error("source-kind", message, format!("use kind: {KIND}, or take the file out")));
    }
    if let Some((word, line)) = yaml11::first_ambiguous(text) {
        let message = format!("the bare word {word} means different things to different YAML readers");
        let way_out = format!("write \"{word}\" in quotes if it is text, else true, false or the plain number");
        return Err(Finding::error("yaml-1.1", message, way_out).at_line(Some(line)));
    }
    match value {
        Value::Mapping(content) => Ok(Some((version.to_owned(), content))),
        _ => Ok(None),
    }
}

fn wrong_group(api_version: &str) -> Finding {
    let message = format!("a {KIND} has apiVersion {GROUP}/…, not {api_version:?}");
    Finding::error(
        "source-kind",
        message,
        format!("write apiVersion: {GROUP}/v1 (or a version that your scheduler accepts)"),
    )
}
