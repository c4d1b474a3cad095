//! What one file of a source is: a configuration, something that only looks like one, or another file.

use std::cell::OnceCell;

use serde_yaml::{Mapping, Value};
use yaml_edit::{Error, ErrorKind, Lines, Segment, lines_of_places};

use super::placeholder;
use super::version::GROUP;
use super::yaml11;
use crate::finding::Finding;
use crate::target::{Refusal, Rule};

const KIND: &str = "KubeSchedulerConfiguration";

/// The kind of the scheduler's configuration before 1.23.
const OLD_KIND: &str = "Policy";

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
    lines: OnceCell<Lines>,
}

impl Config {
    /// The line of a place in the file. Looked up only for messages.
    pub fn line(&self, place: &[Segment]) -> Option<usize> {
        self.lines.get_or_init(|| lines_of_places(&self.text)).get(place)
    }

    /// Leaves out what a newer version does not know any more and what never had an effect there.
    pub fn upgrade(&mut self) {
        for gone in ["healthzBindAddress", "metricsBindAddress"] {
            self.content.shift_remove(gone);
        }
    }

    /// Whether it has a profile.
    pub fn has_profiles(&self) -> bool {
        self.content.get("profiles").and_then(Value::as_sequence).is_some_and(|profiles| !profiles.is_empty())
    }
}

/// What a file is.
#[derive(Debug)]
pub(crate) enum Content {
    /// A configuration
    Config(Box<Config>),
    /// An object that somebody took for a configuration, whatever the file is named
    Mistaken(Finding),
    /// A configuration for schedulers before 1.23. Beside one for newer schedulers it is only another alternative.
    Outdated(Finding),
    /// Another file
    Other,
}

/// Whether a file has to be read: by its name it is YAML, or it names a kind that matters.
pub(crate) fn may_be_config(name: &str, content: &[u8]) -> bool {
    is_named_yaml(name) || names_kind(content) || names(content, OLD_KIND)
}

/// Whether a file must be YAML, by its name.
pub(crate) fn is_named_yaml(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| name.to_ascii_lowercase().ends_with(end))
}

/// Whether a file says that it is a configuration.
pub(crate) fn names_kind(content: &[u8]) -> bool {
    names(content, KIND)
}

fn names(content: &[u8], word: &str) -> bool {
    content.windows(word.len()).any(|part| part == word.as_bytes())
}

/// The text of a file, as it is read and counted.
pub(crate) fn text_of(content: &[u8]) -> Option<&str> {
    let text = str::from_utf8(content).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads a file.
pub(crate) fn read(file: &str, content: &[u8]) -> Result<Content, Finding> {
    let broken = |why: &str, line| {
        let way_out = "correct the file; a file that is not YAML must not end in .yaml, .yml or .json";
        Finding::error("source-not-yaml", format!("cannot be read as YAML: {why}"), way_out).in_file(file).at_line(line)
    };
    let text = text_of(content).ok_or_else(|| broken("it is not UTF-8 text", None))?;
    let survey = match yaml_edit::survey(text, yaml11::is_ambiguous) {
        Ok(survey) => survey,
        Err(Error { kind: ErrorKind::Empty, .. }) => return Ok(Content::Other), // an empty file
        Err(error) => return Err(unreadable(text, error, broken).in_file(file)),
    };
    let value = match survey.values {
        Some(value) => value,
        None => serde_yaml::from_str(text)
            .map_err(|error| broken(&error.to_string(), error.location().map(|location| location.line())))?,
    };
    let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (field("apiVersion"), field("kind"));
    let may_be_unfilled = kind == KIND && placeholder::is_possible(text);
    if let Some((found, place)) = may_be_unfilled.then(|| placeholder::find(&value)).flatten() {
        let finding = template(format!("the configuration is not filled in: it holds {found}"));
        return Err(finding.in_file(file).at_line(lines_of_places(text).get(&place)));
    }
    let Some(version) = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) else {
        if kind == KIND {
            return Err(wrong_group(&api_version).in_file(file).at_line(line_of(text, "apiVersion")));
        }
        let at_kind = |finding: Finding| finding.in_file(file).at_line(line_of(text, "kind"));
        let has = |keys: &[&str]| keys.iter().any(|key| value.get(key).is_some());
        return Ok(match kind.as_str() {
            "ConfigMap" if has(&["data", "binaryData"]) => Content::Mistaken(at_kind(config_map())),
            OLD_KIND if api_version == "v1" && has(&["extenders", "predicates", "priorities"]) => {
                Content::Outdated(at_kind(policy()))
            }
            _ => Content::Other,
        });
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
        return Err(ambiguous(&word).in_file(file).at_line(Some(line)));
    }
    match value {
        Value::Mapping(content) => {
            let (file, text) = (file.to_owned(), text.to_owned());
            Ok(Content::Config(Box::new(Config { file, version, content, text, lines: OnceCell::new() })))
        }
        _ => Ok(Content::Other),
    }
}

/// A text that is no YAML, or that no two readers would read alike.
fn unreadable(text: &str, error: Error, broken: impl Fn(&str, Option<usize>) -> Finding) -> Finding {
    let line_text = error.line.and_then(|line| text.lines().nth(line.saturating_sub(1))).unwrap_or_default();
    match (error.kind, placeholder::verb_in(line_text)) {
        (ErrorKind::Template, _) => template(error.message).at_line(error.line),
        (ErrorKind::NotYaml, Some(verb)) => {
            template(format!("the file is not filled in: it holds {verb}")).at_line(error.line)
        }
        (ErrorKind::NotYaml, None) => broken(&error.message.replace("cannot be read as YAML: ", ""), error.line),
        _ => Finding::from(Refusal::from(error)),
    }
}

/// A word that YAML 1.1 and 1.2 read differently.
fn ambiguous(word: &str) -> Finding {
    let message = format!("the bare word {word} means different things to different YAML readers");
    let way_out = match word {
        "<<" => "write the merged keys out".to_owned(),
        _ => format!("write \"{word}\" in quotes if it is text, else true, false or the plain number"),
    };
    Finding::error("yaml-1.1", message, way_out)
}

/// A template, or a value that a person or a script still has to fill in.
fn template(message: String) -> Finding {
    let way_out = "fill in the value, or render the template first: a source must be the text that the scheduler reads";
    Finding::error(Rule::Template.name(), message, way_out)
}

fn config_map() -> Finding {
    let message = "this file is a ConfigMap object, which holds files, and is no configuration itself";
    let way_out = "put the files of its data into the source, each as a file of its own; in a cluster create the ConfigMap with kubectl and mount it as the source";
    Finding::error("source-kind", message, way_out)
}

fn policy() -> Finding {
    let message = format!("this file is a Policy, which no scheduler since 1.23 reads, and no {KIND}");
    let way_out = "write its extenders into a KubeSchedulerConfiguration, with httpTimeout as a duration such as \"5s\"; predicates and priorities are plugins of a profile there";
    Finding::error("source-kind", message, way_out)
}

/// The line of a key of the whole document.
fn line_of(text: &str, key: &str) -> Option<usize> {
    lines_of_places(text).get(&[Segment::Key(key.to_owned())])
}

fn wrong_group(api_version: &str) -> Finding {
    let message = match api_version {
        "" => format!("a {KIND} has no apiVersion"),
        other => format!("a {KIND} has apiVersion {GROUP}/…, not {other:?}"),
    };
    let way_out = format!("write apiVersion: {GROUP}/v1 (or a version that your scheduler accepts)");
    Finding::error("source-kind", message, way_out)
}
