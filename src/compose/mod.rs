//! Stage 2: from what the user mounted and what the target already has, one configuration. Pure: data in, text out.
//!
//! Sources decide scheduling, the target decides identity.

mod identity;
mod limits;
pub mod lint;
mod merge;
mod placeholder;
mod proof;
mod queue_sort;
mod read;
mod render;
mod schema;
mod source;
mod version;
mod yaml11;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_yaml::{Mapping, Value};
use yaml_edit::Segment;

pub(crate) use version::FIRST_WITH_LIVEZ;
pub use version::{KnownVersion, Version, disagreement, find as find_version};

use crate::finding::{Finding, Level};
use crate::observe::Source;
use crate::settings::SchedulerOverrides;
use crate::target::{CONFIG_FILE, SchedulerSpec};
use crate::url;
use identity::Identity;
use merge::Merged;
use read::{Config, Content};
use source::Sorted;
use version::GROUP;

/// In a configuration: the directory that holds it and the files beside it, as the scheduler sees it.
pub const DIR_VARIABLE: &str = "$(SCHEDPATCH_DIR)";

/// What is composed for.
#[derive(Debug)]
pub struct Target<'a> {
    /// The scheduler without our edit
    pub spec: &'a SchedulerSpec,
    /// Its release
    pub version: Version,
    /// The configuration file that it already has: its path on the host, and its content or why it cannot be read
    pub base: Option<(String, Result<&'a [u8], &'a str>)>,
}

/// The result of composing.
#[derive(Debug)]
pub struct Composed {
    /// The configuration and the files beside it by name, with [`DIR_VARIABLE`] not yet expanded
    pub files: BTreeMap<String, Vec<u8>>,
    /// Which part came from where
    pub origins: Vec<Origin>,
    /// Where its extenders are: scheme, host and port of each
    pub extenders: Vec<String>,
    /// Whether a scheduler that does not lead is not ready with it
    pub delays_cache: bool,
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

/// Composes. `Ok(None)`: the sources want nothing, so there is nothing to do.
pub fn compose(
    sources: &[Source],
    target: &Target<'_>,
    overrides: &SchedulerOverrides,
    accept: &[String],
) -> Result<Option<Composed>, Vec<Finding>> {
    let one = |finding: Finding| vec![finding];
    let spec = target.spec;
    let base = read_base(target);
    let (mut configs, others) = read_sources(sources, base.as_ref().ok().and_then(Option::as_ref), target.version)?;
    if configs.is_empty() && !overrides.change_the_manifest() {
        return Ok(None);
    }
    if let Some(flag) = spec.flags.iter().find(|flag| flag.name.starts_with("policy-config")) {
        return Err(one(policy(&flag.name).at_line(flag.line)));
    }
    let mut base = base.map_err(one)?;
    let mut identity = Identity::of_target(base.as_mut(), &spec.flags, &overrides.args).map_err(one)?;
    if base.is_none() {
        identity.hide_plain_port(target.version, &spec.flags);
    }

    let judge = lint::LintContext { version: target.version, spec, overrides, beside: &others };
    let mut findings = lint::everything(base.as_ref(), &configs, judge);
    let kubeconfig = identity.kubeconfig().and_then(|(path, from)| lint::kubeconfig(path, from, base.as_ref(), judge));
    findings.extend(kubeconfig);
    let version = common_version(base.as_ref(), configs.iter(), target.version).map_err(one)?;
    for config in &mut configs {
        findings.extend(identity.overrule(config));
    }
    for config in base.iter_mut().chain(&mut configs).filter(|config| config.version != version) {
        config.upgrade();
    }
    let mut merged = merge(base.as_mut(), &mut configs, target.version);
    findings.append(&mut merged.findings);
    findings.extend(lint::merged_profiles(merged.profiles()));
    let findings = lint::accept(findings, accept);
    if findings.iter().any(|finding| finding.level == Level::Error) {
        return Err(findings);
    }

    let version_from = configs.iter().chain(&base).find(|config| config.version == version);
    let from = version_from.map_or("the newest that the scheduler accepts", |config| &config.file);
    let mut origins = vec![Origin { part: "apiVersion".to_owned(), from: from.to_owned() }];
    origins.extend(identity.origins);
    let (fields, merged_origins) = merged.finish();
    origins.extend(merged_origins);
    let head = [("apiVersion", format!("{GROUP}/{version}")), ("kind", "KubeSchedulerConfiguration".to_owned())];
    let mut whole: Mapping = head.into_iter().map(|(key, text)| (Value::from(key), Value::from(text))).collect();
    whole.extend(identity.fields);
    whole.extend(fields);

    origins.extend(wish_origins(overrides));
    origins.extend(others.iter().map(|(name, (_, from))| Origin { part: name.clone(), from: from.clone() }));
    let extenders = urls(&whole);
    let delays_cache = whole.get("delayCacheUntilActive") == Some(&Value::Bool(true));
    let files = write(whole, others).map_err(one)?;
    Ok(Some(Composed { files, origins, extenders, delays_cache, findings }))
}

/// Where the extenders of a configuration are: scheme, host and port of each; none if the text is no configuration.
pub fn extenders_of(text: &str) -> Option<Vec<String>> {
    serde_yaml::from_str::<Value>(text).ok()?.as_mapping().map(urls)
}

/// Where the extenders are. A path or a password is nothing to show.
fn urls(config: &Mapping) -> Vec<String> {
    let extenders = config.get("extenders").and_then(Value::as_sequence).into_iter().flatten();
    extenders.filter_map(|extender| Some(url::shown(extender.get("urlPrefix")?.as_str()?))).collect()
}

/// The files of a revision. As careful as with a manifest: the configuration must read as what was meant.
fn write(config: Mapping, others: Others) -> Result<BTreeMap<String, Vec<u8>>, Finding> {
    if let Some((_, path)) = others.get(CONFIG_FILE) {
        let message = format!("the composed configuration is named {CONFIG_FILE} itself");
        return Err(name_taken(message).in_file(path));
    }
    let mut config = Value::Mapping(config);
    render::settle_numbers(&mut config);
    let text = render::render(&config);
    if !proof::says(&text, &config) {
        return Err(unproven());
    }
    let others = others.into_iter().map(|(name, (content, _))| (name, content));
    Ok(others.chain([(CONFIG_FILE.to_owned(), text)]).collect())
}

/// Name, content and path of the files that are only copied.
type Others = BTreeMap<String, (Vec<u8>, String)>;

/// The configurations that count, in the order of the sources and of the names in them, and all other files.
fn read_sources(
    sources: &[Source],
    base: Option<&Config>,
    version: Version,
) -> Result<(Vec<Config>, Others), Vec<Finding>> {
    let sources = source::sort_all(sources)?;
    let versions = choose_versions(&sources, base, version).map_err(|finding| vec![finding])?;
    let mut configs = Vec::new();
    let mut others = Others::new();
    for (sorted, chosen) in sources.into_iter().zip(versions) {
        configs.extend(sorted.configs.into_iter().filter(|config| Some(config.version.as_str()) == chosen));
        for (name, content, path) in sorted.others {
            match others.get(&name) {
                Some((own, first)) if *own != content => {
                    let message =
                        format!("{first} has the same name and another content, and both go into one directory");
                    return Err(vec![name_taken(message).in_file(path)]);
                }
                Some(_) => {}
                None => {
                    others.insert(name, (content, path));
                }
            }
        }
    }
    Ok((configs, others))
}

/// Which version of each source is used. Where the target has a configuration of its own and a source has an
/// alternative of that very version, that is the one; unless it does not go together with the other sources.
fn choose_versions(
    sources: &[Sorted],
    base: Option<&Config>,
    version: Version,
) -> Result<Vec<Option<&'static str>>, Finding> {
    let choose = |preferred| sources.iter().map(|source| source::choose(&source.configs, version, preferred)).collect();
    let newest: Result<Vec<_>, _> = choose(None);
    let Some(base) = base else { return newest };
    let preferred: Vec<_> = choose(Some(base.version.as_str()))?;
    let fits = |chosen: &[Option<&str>]| {
        let used = sources.iter().zip(chosen).flat_map(|(source, chosen)| {
            source.configs.iter().filter(move |config| Some(config.version.as_str()) == *chosen)
        });
        common_version(Some(base), used, version).is_ok()
    };
    match newest {
        Ok(newest) if !fits(&preferred) && fits(&newest) => Ok(newest),
        _ => Ok(preferred),
    }
}

/// The configuration that the target already has.
fn read_base(target: &Target<'_>) -> Result<Option<Config>, Finding> {
    let Some((flag, path)) = target.spec.config() else { return Ok(None) };
    let unusable = |why: &str, way_out: &str| {
        let message = format!("the scheduler's own configuration {path} cannot be merged with: {why}");
        Finding::error("base-config", message, way_out)
    };
    let Some((file, content)) = &target.base else {
        let way_out =
            "mount the file from the host into the scheduler's container, or take --config out of its manifest";
        return Err(unusable("no hostPath mount of its container holds it", way_out).at_line(flag.line));
    };
    let mend = "correct the file, or remove --config from the scheduler's manifest";
    let unread = "put the file there, or remove --config from the scheduler's command line; an agent in a pod sees only what the chart \
                  mounts: name the file's directory in extraHostPaths";
    let content = content.map_err(|why| unusable(why, unread).in_file(file.clone()))?;
    let broken = |finding: Finding| unusable(&finding.message, mend).in_file(file.clone()).at_line(finding.line);
    limits::check(&[(file, content)]).map_err(broken)?;
    let config = match read::read(file, content).map_err(broken)? {
        Content::Config(config) => *config,
        Content::Mistaken(finding) | Content::Outdated(finding) => return Err(broken(finding)),
        Content::Other => {
            return Err(unusable("it is no KubeSchedulerConfiguration", mend).in_file(file.clone()));
        }
    };
    if target.version.accepted().contains(&config.version.as_str()) {
        Ok(Some(config))
    } else {
        Err(source::not_accepted(&config, target.version))
    }
}

fn merge(base: Option<&mut Config>, configs: &mut [Config], version: Version) -> Merged {
    let mut merged = Merged::default();
    if let Some(base) = base {
        merged.add(base);
    }
    let implicit = !merged.has_profiles();
    for config in configs {
        merged.add(config);
    }
    if implicit {
        merged.keep_default_profile("the target's implicit profile", version);
    }
    merged
}

/// The version of the result: the newest of its parts. Older parts are lifted to it where that changes nothing.
fn common_version<'a>(
    base: Option<&'a Config>,
    configs: impl Iterator<Item = &'a Config>,
    version: Version,
) -> Result<String, Finding> {
    let accepted = version.accepted();
    let rank = |config: &&&Config| accepted.iter().position(|name| *name == config.version);
    let all: Vec<&Config> = base.into_iter().chain(configs).collect();
    let Some(newest) = all.iter().max_by_key(rank) else {
        return Ok(accepted.last().copied().unwrap_or("v1").to_owned());
    };
    let stuck = |config: &&&Config| {
        // the weights of the implicit profile changed with v1beta3, so the target's own must not be lifted over that
        let older = |version: &str| matches!(version, "v1beta1" | "v1beta2");
        let is_base = base.is_some_and(|base| std::ptr::eq(base, **config));
        let other_defaults = is_base && older(&config.version) != older(&newest.version);
        config.version != newest.version && (config.has_profiles() || other_defaults)
    };
    match all.iter().find(stuck) {
        None => Ok(newest.version.clone()),
        Some(config) => {
            let message = format!(
                "{} is {}, {} is {}, and profiles, also the implicit one, do not mean the same in both",
                config.file, config.version, newest.file, newest.version
            );
            let way_out = format!("write both in one version, for example {GROUP}/{}", newest.version);
            let line = config.line(&[Segment::Key("apiVersion".to_owned())]);
            Err(Finding::error("mixed-versions", message, way_out).in_file(config.file.clone()).at_line(line))
        }
    }
}

/// What flags, and nothing else, put into the manifest.
fn wish_origins(overrides: &SchedulerOverrides) -> Vec<Origin> {
    let origin = |part: String, flag: &str| Origin { part, from: flag.to_owned() };
    let image = overrides.image.iter().map(|image| origin(format!("image {image}"), "--scheduler-image"));
    let program = overrides.command.iter().map(|command| origin(format!("program {command}"), "--scheduler-command"));
    let user = overrides.run_as_user.iter().map(|user| origin(format!("runAsUser {user}"), "--scheduler-run-as-user"));
    let args = overrides.args.iter().map(|(name, value)| origin(format!("flag --{name}={value}"), "--scheduler-arg"));
    let mounts = overrides.mounts.iter().map(|path| origin(format!("mount {path}"), "--scheduler-mount"));
    let policy =
        overrides.dns_policy.iter().map(|policy| origin(format!("dnsPolicy {policy}"), "--scheduler-dns-policy"));
    image.chain(program).chain(user).chain(args).chain(mounts).chain(policy).collect()
}

fn policy(flag: &str) -> Finding {
    let message = format!(
        "the scheduler has --{flag}: a Policy and a configuration file exclude each other, and 1.23 knows no Policy any more"
    );
    let way_out = "write the Policy's extenders as a KubeSchedulerConfiguration and take the flag out of the manifest";
    Finding::error("policy", message, way_out)
}

fn unproven() -> Finding {
    let message = "the composed configuration does not read back as what was meant";
    Finding::error("config-unproven", message, "please report the sources; nothing was planned")
}

fn name_taken(message: String) -> Finding {
    Finding::error("name-taken", message, "rename the file")
}
