//! Which of the files in the manifest directory is the scheduler's.

use std::collections::BTreeMap;

use crate::edit::{self, Refusal, Rule, SchedulerPod};
use crate::finding::Finding;
use crate::observe::ManifestFile;

/// The pod that counts where several run a kube-scheduler.
const POD_NAME: &str = "kube-scheduler";

/// The file to edit.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub file: &'a ManifestFile,
    pub text: &'a str,
    pub pod: SchedulerPod,
    /// About its neighbours
    pub warnings: Vec<Finding>,
}

/// Finds the one static pod that runs kube-scheduler, or the one that was named.
pub(super) fn choose<'a>(files: &'a [ManifestFile], target: Option<&str>, dir: &str) -> Result<Chosen<'a>, Finding> {
    let mut pods: Vec<(&ManifestFile, &str, SchedulerPod)> = Vec::new();
    let mut broken: Vec<Finding> = Vec::new();
    for file in files.iter().filter(|file| file.names_scheduler() || target == Some(file.path.as_str())) {
        match read(file) {
            Ok((text, pod)) => pods.push((file, text, pod)),
            Err(None) if target != Some(file.path.as_str()) => {}
            Err(finding) => broken.push(finding.unwrap_or_else(|| no_pod(file))),
        }
    }
    no_twins(&pods)?;
    let index = match target {
        Some(target) => pods.iter().position(|(file, ..)| file.path == target),
        None => pods.iter().position(|(.., pod)| pod.name == POD_NAME),
    };
    let Some(index) = index else {
        let of_target = |finding: &Finding| target.is_none_or(|target| finding.file.as_deref() == Some(target));
        return Err(match broken.into_iter().find(of_target) {
            Some(finding) if target.is_some() || pods.is_empty() => finding,
            _ => none_fits(&pods, target, dir),
        });
    };
    let (file, text, pod) = pods.swap_remove(index);
    if file.is_link {
        let message = "the manifest is a symbolic link; replacing it would leave the linked file as it is";
        return Err(Finding::error(
            "symlink",
            message,
            "name the real file with --target FILE, or put the file itself there",
        )
        .in_file(&file.path));
    }
    let warnings = broken.into_iter().map(|finding| neighbour(&finding)).collect();
    Ok(Chosen { file, text, pod, warnings })
}

/// The text and what it says; `Err(None)` for a file that is not about a scheduler.
fn read(file: &ManifestFile) -> Result<(&str, SchedulerPod), Option<Finding>> {
    let text = file.text.as_deref().map_err(|why| {
        let finding = Finding::error(
            "unreadable",
            format!("cannot read the manifest: {why}"),
            "mend or remove the file, and run as a user who may read it",
        );
        Some(finding.in_file(&file.path))
    })?;
    match edit::read(text) {
        Ok(pod) => Ok((text, pod)),
        Err(Refusal { rule: Rule::NotAPod | Rule::NoScheduler, line: None, .. }) => Err(None),
        Err(Refusal { rule: Rule::NotAPod, .. }) if !file.is_named_scheduler() => Err(None),
        Err(refusal) => Err(Some(Finding::from(refusal).in_file(&file.path))),
    }
}

fn no_pod(file: &ManifestFile) -> Finding {
    let refusal = file.text.as_deref().ok().and_then(|text| edit::read(text).err());
    let finding =
        refusal.map_or_else(|| Finding::error("not-a-pod", "no static pod", "name another file"), Finding::from);
    finding.in_file(&file.path)
}

/// Two files with one pod's name: the kubelet flips between them, so there is nothing safe to do.
fn no_twins(pods: &[(&ManifestFile, &str, SchedulerPod)]) -> Result<(), Finding> {
    let mut names: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (file, _, pod) in pods {
        if let Some(other) = names.insert((&pod.namespace, &pod.name), &file.path) {
            let message = format!(
                "{other} and {} both define the pod {}/{}, and the kubelet reads every file here whatever its name",
                file.path, pod.namespace, pod.name
            );
            return Err(
                Finding::error("same-pod-twice", message, "move the copy out of this directory").in_file(&file.path)
            );
        }
    }
    Ok(())
}

fn none_fits(pods: &[(&ManifestFile, &str, SchedulerPod)], target: Option<&str>, dir: &str) -> Finding {
    if let Some(target) = target {
        return Finding::error(
            "no-manifest",
            "the target is not there",
            "give the path as the host sees it, without the host root",
        )
        .in_file(target);
    }
    if pods.is_empty() {
        return Finding::error(
            "no-manifest",
            "no static pod here runs kube-scheduler",
            "run this on a control-plane node, or name the file with --target FILE",
        )
        .in_file(dir);
    }
    let list: Vec<_> = pods.iter().map(|(file, _, pod)| format!("{} (pod {})", file.path, pod.name)).collect();
    let message = format!("no pod named {POD_NAME} runs here, but others run the program: {}", list.join(", "));
    Finding::error("which-scheduler", message, "name the one to edit with --target FILE").in_file(dir)
}

fn neighbour(finding: &Finding) -> Finding {
    let message = format!("a file beside the target cannot be used: {}", finding.message);
    let own = Finding::warning("neighbour", message, finding.way_out.clone()).at_line(finding.line);
    Finding { file: finding.file.clone(), ..own }
}

pub(super) fn no_dir(dir: &str) -> Finding {
    Finding::error(
        "no-manifest",
        "the manifest directory is not there",
        "run this on a control-plane node, or give --manifest-dir DIR",
    )
    .in_file(dir)
}
