//! Which files of a source are configuration, and which are only copied beside it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::thread;

use serde_yaml::{Mapping, Value};

use super::version::{GROUP, Version};
use super::yaml11;
use crate::edit::{self, Place, PlacePath, Refusal, Rule, lines_of_places};
use crate::finding::Finding;
use crate::observe::Source;

const KIND: &str = "KubeSchedulerConfiguration";

/// A few hundred kilobytes take some milliseconds to read, a thread some microseconds to start.
const WORTH_A_THREAD: usize = 100_000;
const THREADS: usize = 4;

/// A file of kind KubeSchedulerConfiguration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where it was read
    pub file: String,
    /// `v1` of `kubescheduler.config.k8s.io/v1`
    pub version: String,
    /// All of it
    pub content: Mapping,
    text: String,
    lines: OnceCell<HashMap<PlacePath, usize>>,
}

impl Config {
    /// The line of a place in the file. Looked up only when somebody is to be told.
    pub fn line(&self, place: &[Place]) -> Option<usize> {
        self.lines.get_or_init(|| lines_of_places(&self.text)).get(place).copied()
    }
}

impl Config {
    /// Leaves out what a newer version does not know any more and what never had an effect there.
    pub fn lift(&mut self) {
        for gone in ["healthzBindAddress", "metricsBindAddress"] {
            self.content.shift_remove(gone);
        }
    }

    /// Whether it has a profile.
    pub fn has_profiles(&self) -> bool {
        self.content.get("profiles").and_then(Value::as_sequence).is_some_and(|profiles| !profiles.is_empty())
    }
}

/// The files of one source, told apart.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub configs: Vec<Config>,
    /// Name, content and path of every other file
    pub others: Vec<(String, Vec<u8>, String)>,
}

/// Sorts the files of every source, or says what is wrong with some.
pub(crate) fn sort_all(sources: &[Source]) -> Vec<Result<Sorted, Vec<Finding>>> {
    let path = |dir: &str, name: &str| format!("{}/{name}", dir.trim_end_matches('/'));
    let files: Vec<(String, &[u8])> = sources
        .iter()
        .flat_map(|source| source.files.iter().map(|(name, content)| (path(&source.dir, name), content.as_slice())))
        .collect();
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    let threads = if bytes < WORTH_A_THREAD { 1 } else { THREADS };
    let mut read = share_out(&files, threads, |(file, content)| read(file, content)).into_iter().zip(&files);
    sources.iter().map(|source| sort(source, read.by_ref().take(source.files.len()))).collect()
}

/// Sorts the files of a source by what was read in them.
fn sort<'a>(
    source: &Source,
    read: impl Iterator<Item = (Result<Option<Config>, Finding>, &'a (String, &'a [u8]))>,
) -> Result<Sorted, Vec<Finding>> {
    let mut sorted = Sorted::default();
    let mut findings = Vec::new();
    for (name, (read, (file, content))) in source.files.keys().zip(read) {
        let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        match read {
            Ok(Some(config)) => sorted.configs.push(config),
            // another name need not be YAML, unless it says that it is a configuration
            Err(finding) if is_yaml || names_kind(content) => findings.push(finding),
            Ok(None) | Err(_) => sorted.others.push((name.clone(), content.to_vec(), file.clone())),
        }
    }
    if findings.is_empty() { Ok(sorted) } else { Err(findings) }
}

/// Does the same with every item, on several threads, and gives the results in the order of the items.
fn share_out<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let run = &|part: &[T]| part.iter().map(&work).collect::<Vec<_>>();
    let (own, others) = items.split_at(items.len().div_ceil(threads));
    thread::scope(|scope| {
        let parts = others.chunks(own.len().max(1));
        let start = |part| (part, thread::Builder::new().spawn_scoped(scope, move || run(part)).ok());
        let others: Vec<_> = parts.map(start).collect();
        let mut results = run(own);
        for (part, thread) in others {
            // no thread was to be had, or it panicked, which then shows here
            results.extend(thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| run(part)));
        }
        results
    })
}

/// Reads a configuration; `None` for a file of another sort.
pub(crate) fn read(file: &str, content: &[u8]) -> Result<Option<Config>, Finding> {
    let broken = |why: String, line| {
        let way_out = "mend the file; a file that is no YAML must not end in .yaml, .yml or .json";
        Finding::error("source-not-yaml", format!("cannot be read as YAML: {why}"), way_out).in_file(file).at_line(line)
    };
    let text = str::from_utf8(content).map_err(|_| broken("it is not UTF-8 text".to_owned(), None))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let survey = match edit::survey(text, yaml11::is_ambiguous) {
        Ok(survey) => survey,
        Err(Refusal { rule: Rule::NotAPod, .. }) => return Ok(None), // an empty file
        Err(refusal) if refusal.rule == Rule::NotYaml => {
            return Err(broken(refusal.message.replace("cannot be read as YAML: ", ""), refusal.line));
        }
        Err(refusal) => return Err(Finding::from(refusal).in_file(file)),
    };
    let value = match survey.values {
        Some(value) => value,
        None => serde_yaml::from_str(text)
            .map_err(|error| broken(error.to_string(), error.location().map(|location| location.line())))?,
    };
    let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (field("apiVersion"), field("kind"));
    let Some(version) = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) else {
        let line = line_of(text, "apiVersion");
        return if kind == KIND { Err(wrong_group(&api_version).in_file(file).at_line(line)) } else { Ok(None) };
    };
    let version = version.to_owned();
    if kind != KIND {
        let message = if kind.is_empty() {
            format!("a file of {api_version} has no kind")
        } else {
            format!("the kind {kind:?} of {api_version} is none that a scheduler can be configured with")
        };
        let finding = Finding::error("source-kind", message, format!("use kind: {KIND}, or take the file out"));
        return Err(finding.in_file(file).at_line(line_of(text, "kind")));
    }
    if let Some((word, line)) = survey.bare {
        let message = format!("the bare word {word} means different things to different YAML readers");
        let way_out = match word.as_str() {
            "<<" => "write the merged keys out".to_owned(),
            _ => format!("write \"{word}\" in quotes if it is text, else true, false or the plain number"),
        };
        return Err(Finding::error("yaml-1.1", message, way_out).in_file(file).at_line(Some(line)));
    }
    match value {
        Value::Mapping(content) => {
            let (file, text) = (file.to_owned(), text.to_owned());
            Ok(Some(Config { file, version, content, text, lines: OnceCell::new() }))
        }
        _ => Ok(None),
    }
}

/// Of alternatives in one source, the newest that this scheduler accepts; all files of that version are fragments.
pub(crate) fn choose(configs: Vec<Config>, version: Version) -> Result<Vec<Config>, Finding> {
    let Some(first) = configs.first() else { return Ok(configs) };
    let accepted = version.accepted();
    let newest = accepted.iter().rev().find(|name| configs.iter().any(|config| config.version == **name));
    match newest {
        Some(newest) => Ok(configs.into_iter().filter(|config| config.version == *newest).collect()),
        None => Err(not_accepted(first, version)),
    }
}

/// Says that a scheduler does not accept the version of a file.
pub(crate) fn not_accepted(config: &Config, version: Version) -> Finding {
    let accepted = version.accepted();
    let message = format!(
        "kube-scheduler {version} does not accept {GROUP}/{}; it accepts {}",
        config.version,
        accepted.join(", ")
    );
    let newest = accepted.last().copied().unwrap_or("v1");
    Finding::error("api-version", message, format!("write the configuration as {GROUP}/{newest}"))
        .in_file(config.file.clone())
        .at_line(config.line(&[Place::Key("apiVersion".to_owned())]))
}

/// The line of a key of the whole document.
fn line_of(text: &str, key: &str) -> Option<usize> {
    lines_of_places(text).get([Place::Key(key.to_owned())].as_slice()).copied()
}

/// Whether a file says that it is a configuration.
fn names_kind(content: &[u8]) -> bool {
    content.windows(KIND.len()).any(|part| part == KIND.as_bytes())
}

fn wrong_group(api_version: &str) -> Finding {
    let message = match api_version {
        "" => format!("a {KIND} has no apiVersion"),
        other => format!("a {KIND} has apiVersion {GROUP}/…, not {other:?}"),
    };
    let way_out = format!("write apiVersion: {GROUP}/v1 (or a version that your scheduler accepts)");
    Finding::error("source-kind", message, way_out)
}
