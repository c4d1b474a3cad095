//! Several configurations into one that does what each of them meant, or a conflict that names both files.
//!
//! Extenders are appended, profiles merged by their name, everything else is said once.

use std::collections::HashMap;

use serde_yaml::{Mapping, Value};
use yaml_edit::Segment;

use super::identity::same;
use super::read::Config;
use super::version::Version;
use super::{Origin, queue_sort};
use crate::finding::Finding;
use crate::url;

/// The profile that a scheduler has when its configuration names none.
const DEFAULT_PROFILE: &str = "default-scheduler";

/// What makes two extenders the same one.
const EXTENDER_IDENTITY: [&str; 5] = ["urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb"];

/// What has been merged so far.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    scalars: Vec<Part>,
    /// Index of each, by its name
    known_scalars: HashMap<String, usize>,
    profiles: Vec<Part>,
    extenders: Vec<Part>,
    /// Where each extender stands, by what makes it the same one
    known_extenders: HashMap<String, usize>,
    known_profiles: HashMap<String, usize>,
    /// Conflicts
    pub findings: Vec<Finding>,
}

/// A part of the result, and the files it came from.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    value: Value,
    from: Vec<String>,
}

impl Merged {
    /// Takes in a configuration whose identity has been taken out; its content moves here.
    pub fn add(&mut self, config: &mut Config) {
        for (key, value) in std::mem::take(&mut config.content) {
            let key = key.as_str().map_or_else(|| plain_text(&key), str::to_owned);
            match (key.as_str(), value) {
                ("apiVersion" | "kind", _) | (_, Value::Null) => {}
                ("extenders", Value::Sequence(items)) => {
                    for (index, item) in items.into_iter().enumerate() {
                        self.add_extender(config, index, item);
                    }
                }
                ("profiles", Value::Sequence(items)) => {
                    for (index, item) in items.into_iter().enumerate() {
                        self.add_profile(config, index, item);
                    }
                }
                (_, value) => self.add_scalar(config, &key, value),
            }
        }
    }

    /// A target without profiles has an implicit one, which must not go when others come. A scheduler has one queue, so
    /// it takes the queue sort of the profile beside it.
    pub fn keep_default_profile(&mut self, from: &str, version: Version) {
        let has_default = self.profiles.iter().any(|profile| profile.name == DEFAULT_PROFILE);
        let Some(beside) = self.profiles.first().filter(|_| !has_default) else { return };
        let mut profile = Mapping::from_iter([("schedulerName".into(), DEFAULT_PROFILE.into())]);
        profile.extend(queue_sort::of(&beside.value, version));
        let sorts = if profile.len() > 1 { format!(", with the queue sort of {}", beside.name) } else { String::new() };
        let from = vec![format!("{from}{sorts}")];
        self.profiles.insert(0, Part { name: DEFAULT_PROFILE.to_owned(), value: Value::Mapping(profile), from });
    }

    /// Whether a profile has been added.
    pub fn has_profiles(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// The profiles as they are merged, each with the last file that had a say in it.
    pub fn profiles(&self) -> impl Iterator<Item = (&Value, &str)> {
        self.profiles.iter().map(|profile| (&profile.value, profile.from.last().map_or("", String::as_str)))
    }

    /// The fields of the result, and where each came from.
    pub fn finish(self) -> (Mapping, Vec<Origin>) {
        let mut fields = Mapping::new();
        let mut origins = Vec::new();
        let mut note = |part: String, from: &[String]| origins.push(Origin { part, from: from.join(", ") });
        for part in self.scalars {
            note(part.name.clone(), &part.from);
            fields.insert(part.name.into(), part.value);
        }
        for (key, parts) in [("profiles", self.profiles), ("extenders", self.extenders)] {
            let mut names = HashMap::new();
            for part in &parts {
                // several extenders may be on one host
                let number = names.entry(part.name.as_str()).and_modify(|count| *count += 1).or_insert(1);
                let number = if *number > 1 { format!(" #{number}") } else { String::new() };
                note(format!("{key}[{}{number}]", part.name), &part.from);
            }
            if !parts.is_empty() {
                fields.insert(key.into(), parts.into_iter().map(|part| part.value).collect::<Vec<_>>().into());
            }
        }
        (fields, origins)
    }

    fn add_scalar(&mut self, config: &Config, key: &str, value: Value) {
        match self.known_scalars.get(key).and_then(|index| self.scalars.get_mut(*index)) {
            Some(part) if same(&part.value, &value) => part.from.push(config.file.clone()),
            Some(part) => {
                let place = [Segment::Key(key.to_owned())];
                self.findings.push(conflict(key, &part.from, config, &place));
            }
            None => {
                self.known_scalars.insert(key.to_owned(), self.scalars.len());
                self.scalars.push(Part::new(key, value, config));
            }
        }
    }

    fn add_extender(&mut self, config: &Config, index: usize, item: Value) {
        let identity =
            EXTENDER_IDENTITY.map(|key| item.get(key).and_then(Value::as_str).unwrap_or_default()).join("\n");
        let same = self.known_extenders.get(&identity).and_then(|index| self.extenders.get_mut(*index));
        match same {
            Some(part) if part.value == item => part.from.push(config.file.clone()),
            Some(part) => {
                let place = [Segment::Key("extenders".to_owned()), Segment::Index(index)];
                let what = format!("the extender {}", part.name);
                self.findings.push(conflict(&what, &part.from, config, &place));
            }
            None => {
                let name = url::shown(item.get("urlPrefix").and_then(Value::as_str).unwrap_or_default());
                self.known_extenders.insert(identity, self.extenders.len());
                self.extenders.push(Part::new(&name, item, config));
            }
        }
    }

    fn add_profile(&mut self, config: &Config, index: usize, item: Value) {
        let said = item.get("schedulerName").filter(|name| !name.is_null());
        let scheduler_name = said.cloned().unwrap_or_else(|| DEFAULT_PROFILE.into());
        let name = scheduler_name.as_str().map_or_else(|| plain_text(&scheduler_name), str::to_owned);
        let known = self.known_profiles.get(&name).and_then(|index| self.profiles.get_mut(*index));
        let Some(part) = known else {
            self.known_profiles.insert(name.clone(), self.profiles.len());
            let mut value = Value::Mapping(Mapping::from_iter([("schedulerName".into(), scheduler_name)]));
            if let (Value::Mapping(named), Value::Mapping(own)) = (&mut value, item) {
                named.extend(own.into_iter().filter(|(key, _)| key.as_str() != Some("schedulerName")));
            }
            self.profiles.push(Part::new(&name, value, config));
            return;
        };
        let merged = match switched(&part.value, &item).or_else(|| switched(&item, &part.value)) {
            Some(plugin) => Err(plugin),
            None => merge_named(&part.value, &item),
        };
        match merged {
            Ok(merged) => {
                part.value = merged;
                part.from.push(config.file.clone());
            }
            Err(what) => {
                let place = [Segment::Key("profiles".to_owned()), Segment::Index(index)];
                let what = format!("{what} of the profile {name}");
                self.findings.push(conflict(&what, &part.from, config, &place));
            }
        }
    }
}

impl Part {
    fn new(name: &str, value: Value, config: &Config) -> Self {
        Self { name: name.to_owned(), value, from: vec![config.file.clone()] }
    }
}

/// A plugin that one profile enables at a point and another only disables there.
fn switched(a: &Value, b: &Value) -> Option<String> {
    let names = |profile: &Value, point: &Value, list: &str| -> Vec<String> {
        let items = profile.get("plugins").and_then(|plugins| plugins.get(point)?.get(list)?.as_sequence().cloned());
        items.unwrap_or_default().iter().filter_map(|item| item.get("name")?.as_str().map(str::to_owned)).collect()
    };
    let points = a.get("plugins").and_then(Value::as_mapping)?.keys();
    points.into_iter().find_map(|point| {
        let (on, also_off) = (names(a, point, "enabled"), names(a, point, "disabled"));
        let (off, also_on) = (names(b, point, "disabled"), names(b, point, "enabled"));
        on.into_iter().find(|name| !also_off.contains(name) && off.contains(name) && !also_on.contains(name))
    })
}

/// Two values into one: mappings key by key, lists of named things by name, everything else must be equal.
/// `Err` names what is not.
fn merge_named(a: &Value, b: &Value) -> Result<Value, String> {
    match (a, b) {
        (a, b) if a == b => Ok(a.clone()),
        (Value::Null, other) | (other, Value::Null) => Ok(other.clone()),
        (Value::Mapping(a), Value::Mapping(b)) if !a.contains_key("name") => {
            let mut merged = a.clone();
            for (key, value) in b {
                let name = key.as_str().unwrap_or_default();
                let value = match merged.get(key) {
                    Some(own) => {
                        merge_named(own, value).map_err(|what| if what.is_empty() { name.to_owned() } else { what })?
                    }
                    None => value.clone(),
                };
                merged.insert(key.clone(), value);
            }
            Ok(Value::Mapping(merged))
        }
        (Value::Sequence(a), Value::Sequence(b)) => {
            let mut merged = a.clone();
            for item in b {
                let name = item.get("name").and_then(Value::as_str);
                match a.iter().find(|own| name.is_some() && own.get("name").and_then(Value::as_str) == name) {
                    Some(own) if own == item => {}
                    Some(_) => return Err(name.unwrap_or_default().to_owned()),
                    None => merged.push(item.clone()),
                }
            }
            Ok(Value::Sequence(merged))
        }
        _ => Err(String::new()),
    }
}

/// A value that should have been text, as text.
fn plain_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn conflict(what: &str, first: &[String], config: &Config, place: &[Segment]) -> Finding {
    let message = format!("{what} is said differently in {} and in {}", first.join(", "), config.file);
    Finding::error("conflict", message, "say it in one of the files only, or the same in both")
        .in_file(config.file.clone())
        .at_line(config.line(place))
}
