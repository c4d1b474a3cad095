//! Profiles: names, plugins that exist, and the plugins that every profile needs.

use std::collections::BTreeSet;

use serde_yaml::{Mapping, Value};
use yaml_edit::Segment;

use super::capped::Capped;
use super::decode::whole;
use super::values::is_percentage;
use super::{LintContext, LintRule, key, plugins};
use crate::compose::read::Config;
use crate::finding::{Finding, Level};

/// One profile of a file.
struct Profile<'a> {
    config: &'a Config,
    value: &'a Value,
    place: Vec<Segment>,
}

/// What one file shows.
pub(super) fn check(config: &Config, judge: LintContext<'_>) -> Vec<Finding> {
    let Some(profiles) = config.content.get("profiles").and_then(Value::as_sequence) else { return Vec::new() };
    let mut findings = Capped::default();
    let mut names = BTreeSet::new();
    for (index, value) in profiles.iter().enumerate() {
        let profile = Profile { config, value, place: vec![key("profiles"), Segment::Index(index)] };
        let name = value.get("schedulerName").filter(|name| !name.is_null());
        let name = name
            .and_then(Value::as_str)
            .or_else(|| (profiles.len() == 1 && name.is_none()).then_some("default-scheduler"));
        match name {
            None | Some("") => {
                findings.push(profile.finding(LintRule::ProfileName, &[], "the profile has no schedulerName"));
            }
            Some(name) if !names.insert(name) => {
                findings.push(profile.finding(LintRule::ProfileName, &[], format!("a second profile is named {name}")));
            }
            Some(_) => {}
        }
        if !is_percentage(value.get("percentageOfNodesToScore").and_then(whole)) {
            let message = "percentageOfNodesToScore must be between 0 and 100";
            findings.push(profile.finding(LintRule::OutOfRange, &["percentageOfNodesToScore"], message));
        }
        findings.extend(profile.check_plugins(judge));
        findings.extend(profile.check_plugin_config(judge));
    }
    findings.into_vec()
}

impl Profile<'_> {
    fn finding(&self, rule: LintRule, fields: &[&str], message: impl Into<String>) -> Finding {
        let place: Vec<_> = self.place.iter().cloned().chain(fields.iter().map(|field| key(field))).collect();
        rule.at(self.config, &place, message)
    }

    fn check_plugins(&self, judge: LintContext<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (point, set) in self.value.get("plugins").and_then(Value::as_mapping).into_iter().flatten() {
            let point = point.as_str().unwrap_or_default();
            let mut seen = BTreeSet::new();
            for (index, plugin) in list(set, "enabled").iter().enumerate() {
                let name = plugin.get("name").and_then(Value::as_str).unwrap_or_default();
                let at = |rule: LintRule, message: String| {
                    let mut place = self.place.clone();
                    place.extend([key("plugins"), key(point), key("enabled"), Segment::Index(index)]);
                    rule.at(self.config, &place, message)
                };
                if name.is_empty() {
                    findings.push(at(LintRule::UnknownPlugin, format!("a plugin of {point} has no name")));
                } else if !plugins::exists(name, judge.version) {
                    let message = format!("kube-scheduler {} has no plugin {name:?}", judge.version);
                    findings.push(expected(at(LintRule::UnknownPlugin, message), name, judge));
                } else if point != "multiPoint" && plugins::is_refused(name, &self.config.version, judge.version) {
                    findings.push(at(
                        LintRule::UnknownPlugin,
                        format!("kube-scheduler {} refuses the plugin {name}", judge.version),
                    ));
                }
                if !plugins::serves(name, point) {
                    findings.push(at(LintRule::UnknownPlugin, format!("the plugin {name} does not serve {point}")));
                }
                if !seen.insert(name) {
                    findings.push(at(LintRule::PluginTwice, format!("the plugin {name} is enabled twice")));
                }
                if plugin.get("weight").and_then(whole).is_some_and(|weight| weight < 0) {
                    findings.push(at(LintRule::OutOfRange, format!("the weight of {name} must not be below 0")));
                }
            }
        }
        findings
    }

    fn check_plugin_config(&self, judge: LintContext<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for (index, item) in list(self.value, "pluginConfig").iter().enumerate() {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            let mut place = self.place.clone();
            place.extend([key("pluginConfig"), Segment::Index(index)]);
            if !seen.insert(name) {
                findings.push(LintRule::PluginTwice.at(
                    self.config,
                    &place,
                    format!("the plugin {name} is configured twice"),
                ));
            }
            let args = item.get("args").filter(|args| !args.is_null() && !args.is_mapping());
            if args.is_some() && plugins::has_args(name, judge.version) {
                place.push(key("args"));
                findings.push(LintRule::WrongType.at(
                    self.config,
                    &place,
                    format!("the args of {name} must be a mapping"),
                ));
                continue;
            }
            if plugins::is_refused(name, &self.config.version, judge.version) {
                let message = format!("kube-scheduler {} refuses the plugin {name}", judge.version);
                findings.push(LintRule::UnknownPlugin.at(self.config, &place, message));
            }
        }
        findings
    }
}

/// A finding about a plugin; only a note where another image was asked for and the plugin is none of Kubernetes.
fn expected(finding: Finding, name: &str, judge: LintContext<'_>) -> Finding {
    match judge.foreign_image().filter(|_| !plugins::is_upstream(name)) {
        None => finding,
        Some(image) => {
            let message = format!("the plugin {name} is none of Kubernetes, so {image} must bring it");
            let way_out = "nothing, if the image has the plugin; else correct the name";
            Finding { level: Level::Info, message, way_out: way_out.to_owned(), ..finding }
        }
    }
}

/// Arguments in the sources for plugins that neither this release has nor any profile enables.
pub(super) fn check_unused(sources: &[Config], all: &[&Config], judge: LintContext<'_>) -> Vec<Finding> {
    let enabled: BTreeSet<&str> = all.iter().flat_map(|config| profiles(config)).flat_map(enabled_anywhere).collect();
    let does_something = |config: &Config, name: &str| {
        name.is_empty()
            || enabled.contains(name)
            || plugins::exists(name, judge.version)
            || plugins::is_refused(name, &config.version, judge.version)
    };
    let mut findings = Capped::default();
    for config in sources {
        for (number, profile) in profiles(config).iter().enumerate() {
            for (index, item) in list(profile, "pluginConfig").iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                if does_something(config, name) {
                    continue;
                }
                let meant = plugins::meant(name, judge.version).map(|own| format!("; perhaps {own} is meant"));
                let message = format!(
                    "kube-scheduler {} has no plugin {name:?} and no profile enables it, so its arguments do nothing{}",
                    judge.version,
                    meant.unwrap_or_default()
                );
                let place =
                    [key("profiles"), Segment::Index(number), key("pluginConfig"), Segment::Index(index), key("name")];
                let finding = LintRule::UnusedPluginConfig.at(config, &place, message);
                // what a release dropped is left over from an upgrade, and must not stop one
                let level = if plugins::is_upstream(name) { Level::Warning } else { finding.level };
                findings.push(expected(Finding { level, ..finding }, name, judge));
            }
        }
    }
    findings.into_vec()
}

fn profiles(config: &Config) -> &[Value] {
    config.content.get("profiles").and_then(Value::as_sequence).map_or(&[], Vec::as_slice)
}

/// Names of the plugins that a profile enables, at whatever point.
fn enabled_anywhere(profile: &Value) -> impl Iterator<Item = &str> {
    let sets = profile.get("plugins").and_then(Value::as_mapping).into_iter().flat_map(Mapping::values);
    sets.flat_map(|set| list(set, "enabled")).filter_map(|plugin| plugin.get("name")?.as_str())
}

/// What shows only in the merged profiles: each needs one way to sort its queue, the same in all, and one to bind.
pub(crate) fn check_merged<'a>(profiles: impl Iterator<Item = (&'a Value, &'a str)>) -> Vec<Finding> {
    let rule = LintRule::PluginSet;
    let mut findings = Vec::new();
    let mut first = None;
    for (profile, file) in profiles {
        let mut refuse = |message: String| {
            findings.push(Finding::error(rule.name(), message, rule.way_out()).in_file(file));
        };
        let name = profile.get("schedulerName").and_then(Value::as_str).unwrap_or_default();
        if *first.get_or_insert_with(|| point(profile, "queueSort")) != point(profile, "queueSort") {
            refuse(format!(
                "the profile {name} uses another queueSort plugin than the first profile; kube-scheduler requires the same one in all profiles"
            ));
        }
        // what a plugin of another image serves, only that image knows
        let (every, _) = point(profile, "multiPoint");
        let may_serve = every.iter().any(|own| !plugins::is_upstream(own));
        let sorters = effective(profile, "queueSort", "PrioritySort");
        if sorters != 1 && !(sorters == 0 && may_serve) {
            refuse(format!("the profile {name} has {sorters} queueSort plugins, and needs one"));
        }
        if effective(profile, "bind", "DefaultBinder") == 0 && !may_serve {
            refuse(format!("the profile {name} has no bind plugin"));
        }
    }
    findings
}

/// Names of the plugins that a profile enables and disables at a point.
fn point(profile: &Value, point: &str) -> (Vec<String>, Vec<String>) {
    let set = profile.get("plugins").and_then(|plugins| plugins.get(point)).cloned();
    let set = set.unwrap_or_else(|| Value::Mapping(Mapping::new()));
    let names = |key: &str| {
        list(&set, key)
            .iter()
            .map(|item| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
            .collect()
    };
    (names("enabled"), names("disabled"))
}

/// How many plugins serve a point, where one of them is on by default.
fn effective(profile: &Value, at: &str, default: &str) -> usize {
    let (enabled, disabled) = point(profile, at);
    let (every, nowhere) = point(profile, "multiPoint");
    let names = |list: &[String], name: &str| list.iter().any(|own| own == name || own == "*");
    let by_default =
        !names(&disabled, default) && (!names(&nowhere, default) || every.iter().any(|own| own == default));
    let mut serving: BTreeSet<&str> = enabled.iter().map(String::as_str).collect();
    if by_default {
        serving.insert(default);
    }
    serving.len()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_sequence).map_or(&[], Vec::as_slice)
}
