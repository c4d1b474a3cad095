//! Which files of a source are configuration, and which are only copied beside it.

use std::thread;

use yaml_edit::Segment;

use super::limits;
use super::read::{self, Config, Content};
use super::version::{GROUP, Version};
use crate::finding::Finding;
use crate::observe::Source;

/// A few hundred kilobytes take some milliseconds to read, a thread some microseconds to start.
const WORTH_A_THREAD: usize = 100_000;
const THREADS: usize = 4;

/// The files of one source, told apart.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub configs: Vec<Config>,
    /// Name, content and path of every other file
    pub others: Vec<(String, Vec<u8>, String)>,
}

/// A file of a source.
struct File<'a> {
    path: String,
    name: &'a str,
    content: &'a [u8],
    may_be_config: bool,
}

/// Sorts the files of every source, or says what is wrong with some of the first source that is wrong.
pub(crate) fn sort_all(sources: &[Source]) -> Result<Vec<Sorted>, Vec<Finding>> {
    let files: Vec<File<'_>> = sources
        .iter()
        .flat_map(|source| {
            let dir = source.dir.trim_end_matches('/');
            source.files.iter().map(move |(name, content)| File {
                path: format!("{dir}/{name}"),
                name,
                content,
                may_be_config: read::may_be_config(name, content),
            })
        })
        .collect();
    let to_read: Vec<_> =
        files.iter().filter(|file| file.may_be_config).map(|file| (&*file.path, file.content)).collect();
    limits::check(&to_read).map_err(|finding| vec![finding])?;
    let bytes: usize = to_read.iter().map(|(_, content)| content.len()).sum();
    let threads = if bytes < WORTH_A_THREAD { 1 } else { THREADS };
    let mut read = share_out(&files, threads, |file| {
        if file.may_be_config { read::read(&file.path, file.content) } else { Ok(Content::Other) }
    })
    .into_iter()
    .zip(&files);
    sources.iter().map(|source| sort(read.by_ref().take(source.files.len()))).collect()
}

/// Sorts the files of a source by what was read in them.
fn sort<'a>(read: impl Iterator<Item = (Result<Content, Finding>, &'a File<'a>)>) -> Result<Sorted, Vec<Finding>> {
    let mut sorted = Sorted::default();
    let (mut findings, mut outdated) = (Vec::new(), Vec::new());
    for (content, file) in read {
        let other = || (file.name.to_owned(), file.content.to_vec(), file.path.clone());
        match content {
            Ok(Content::Config(config)) => sorted.configs.push(*config),
            Ok(Content::Mistaken(finding)) => findings.push(finding),
            Ok(Content::Outdated(finding)) => {
                outdated.push(finding);
                sorted.others.push(other());
            }
            // another name need not be YAML, unless it says that it is a configuration
            Err(finding) if read::is_named_yaml(file.name) || read::names_kind(file.content) => findings.push(finding),
            Ok(Content::Other) | Err(_) => sorted.others.push(other()),
        }
    }
    if sorted.configs.is_empty() {
        findings.extend(outdated);
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

/// Which of the alternatives in one source is used: the preferred version where there is a file of it, else the newest
/// that this scheduler accepts. All files of that version are fragments.
pub(crate) fn choose(
    configs: &[Config],
    version: Version,
    preferred: Option<&str>,
) -> Result<Option<&'static str>, Finding> {
    let Some(first) = configs.first() else { return Ok(None) };
    let accepted = version.accepted();
    let is_there = |name: &&&str| configs.iter().any(|config| config.version == **name);
    let own = accepted.iter().filter(|name| preferred == Some(**name)).find(is_there);
    match own.or_else(|| accepted.iter().rev().find(is_there)) {
        Some(name) => Ok(Some(name)),
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
        .at_line(config.line(&[Segment::Key("apiVersion".to_owned())]))
}
