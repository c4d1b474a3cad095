//! The part of a profile that decides in which order pods are scheduled. A scheduler has one queue, so all its profiles
//! must say the same about it.

use serde_yaml::{Mapping, Value};

use super::lint::is_upstream;
use super::schema;
use super::version::Version;

/// The default queueSort plugin.
const DEFAULT_SORT: &str = "PrioritySort";

const POINT: &str = "queueSort";
const MULTI_POINT: &str = "multiPoint";

/// The fields that give another profile the queue sort of this one, and nothing else of it.
pub(super) fn of(profile: &Value, version: Version) -> Mapping {
    let set = |point: &str| profile.get("plugins").and_then(|plugins| plugins.get(point)).and_then(Value::as_mapping);
    let mut plugins = Mapping::new();
    let mut sorters: Vec<&str> = Vec::new();
    if let Some(own) = set(POINT).filter(|own| own.values().any(|list| !is_empty(list))) {
        sorters.extend(names(own, "enabled"));
        plugins.insert(POINT.into(), own.clone().into());
    }
    if let Some((everywhere, enabled)) = set(MULTI_POINT).and_then(everywhere) {
        plugins.insert(MULTI_POINT.into(), everywhere.into());
        // it sorts the queue for all, and serves only its own profile otherwise
        let off: Vec<Value> = enabled.iter().map(|name| plugin(name)).collect();
        for point in points(version).filter(|point| ![POINT, MULTI_POINT].contains(point) && !enabled.is_empty()) {
            plugins.insert(point.into(), Mapping::from_iter([("disabled".into(), off.clone().into())]).into());
        }
        sorters.extend(enabled);
    }
    let mut fields = Mapping::new();
    if !plugins.is_empty() {
        fields.insert("plugins".into(), plugins.into());
    }
    // the arguments of a queue sort must be the same in all profiles too
    let configs = profile.get("pluginConfig").and_then(Value::as_sequence).into_iter().flatten();
    let is_sorter =
        |config: &&Value| config.get("name").and_then(Value::as_str).is_some_and(|name| sorters.contains(&name));
    let configs: Vec<Value> = configs.filter(is_sorter).cloned().collect();
    if !configs.is_empty() {
        fields.insert("pluginConfig".into(), configs.into());
    }
    fields
}

/// What `multiPoint` says about the queue: the plugins that may sort it, if the default does not. Which of them does
/// is known only to their image.
fn everywhere(set: &Mapping) -> Option<(Mapping, Vec<&str>)> {
    let is_off = names(set, "disabled").any(|name| name == DEFAULT_SORT || name == "*");
    let enabled: Vec<&str> = names(set, "enabled").filter(|name| !is_upstream(name)).collect();
    let keeps_default = names(set, "enabled").any(|name| name == DEFAULT_SORT);
    if !is_off || keeps_default {
        return None;
    }
    let list = |names: &[&str]| Value::from(names.iter().map(|name| plugin(name)).collect::<Vec<_>>());
    let set = [("enabled".into(), list(&enabled)), ("disabled".into(), list(&[DEFAULT_SORT]))];
    Some((Mapping::from_iter(set), enabled))
}

fn plugin(name: &str) -> Value {
    Mapping::from_iter([("name".into(), name.into())]).into()
}

fn names<'a>(set: &'a Mapping, list: &str) -> impl Iterator<Item = &'a str> {
    let items = set.get(list).and_then(Value::as_sequence).into_iter().flatten();
    items.filter_map(|item| item.get("name").and_then(Value::as_str))
}

fn is_empty(list: &Value) -> bool {
    list.as_sequence().is_none_or(Vec::is_empty)
}

/// The extension points that a release knows.
fn points(version: Version) -> impl Iterator<Item = &'static str> {
    schema::POINTS.iter().filter(move |point| version.is_within(point.first, point.last)).map(|point| point.name)
}
