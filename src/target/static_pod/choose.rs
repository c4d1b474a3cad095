//! Which of the files in the manifest directory is the scheduler's.

use super::pod;
use crate::finding::Finding;
use crate::revision::Digest;
use crate::target::{Candidates, Chosen, Identity, Refusal, Rule, SchedulerSpec, Specs, TargetFile};

/// The pod that counts where several run a kube-scheduler.
const POD_NAME: &str = "kube-scheduler";

/// Finds the one static pod that runs kube-scheduler, or the one that was named.
pub(super) fn choose<'a>(candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
    let Candidates { dir, files, known, target, .. } = *candidates;
    let files = files.ok_or_else(|| no_dir(dir))?;
    let mut pods: Vec<(&TargetFile, &str, SchedulerSpec)> = Vec::new();
    let mut broken: Vec<Finding> = Vec::new();
    for file in files {
        let is_target = target == Some(file.path.as_str());
        if !is_target && !file.names_scheduler() && file.text.is_ok() {
            continue;
        }
        match read(file, known) {
            Read::Scheduler(text, pod) => pods.push((file, text, *pod)),
            Read::Broken(finding) => broken.push(finding),
            Read::Other(finding) if is_target || file.is_named_scheduler() => broken.push(finding),
            Read::Other(_) => {}
        }
    }
    let fits = |(file, _, pod): &(&TargetFile, &str, SchedulerSpec)| match target {
        Some(target) => file.path == target,
        None => pod.identity.name == POD_NAME,
    };
    let fitting: Vec<usize> = (0..pods.len()).filter(|index| fits(&pods[*index])).collect();
    for index in &fitting {
        no_twin(files, pods[*index].0, &pods[*index].2)?;
    }
    let [index] = fitting[..] else {
        let of_target = |finding: &Finding| target.is_none_or(|target| finding.file.as_deref() == Some(target));
        return Err(match broken.into_iter().find(of_target) {
            Some(finding) if target.is_some() || pods.is_empty() => finding,
            _ => none_fits(&pods, target, dir),
        });
    };
    let (file, text, pod) = pods.swap_remove(index);
    if file.is_link {
        let message = "the manifest is a symbolic link; replacing it would leave the linked file as it is";
        let way_out = "name the real file with --target FILE, or put the file itself there";
        return Err(Finding::error("symlink", message, way_out).in_file(&file.path));
    }
    let warnings = broken.into_iter().map(|finding| neighbour(&finding)).collect();
    Ok(Chosen { file, text, digest: Digest::of_bytes(text.as_bytes()), spec: pod, warnings })
}

/// What a file of the manifest directory is to us.
enum Read<'a> {
    Scheduler(&'a str, Box<SchedulerSpec>),
    /// Perhaps a scheduler's, but it cannot be used
    Broken(Finding),
    /// Something else
    Other(Finding),
}

fn read<'a>(file: &'a TargetFile, known: &Specs) -> Read<'a> {
    let text = match &file.text {
        Ok(text) => text,
        Err(why) => {
            let way_out = "correct or remove the file, and run as a user who may read it";
            let finding = Finding::error("unreadable", format!("cannot read the manifest: {why}"), way_out);
            return Read::Broken(finding.in_file(&file.path));
        }
    };
    match known.get(file.path.as_str()).cloned().unwrap_or_else(|| pod::read(text)) {
        Ok(pod) => Read::Scheduler(text, Box::new(pod)),
        Err(refusal @ Refusal { rule: Rule::NotAPod | Rule::NoScheduler, .. }) => {
            Read::Other(Finding::from(refusal).in_file(&file.path))
        }
        Err(refusal) => Read::Broken(Finding::from(refusal).in_file(&file.path)),
    }
}

/// Two files with one pod's name: the kubelet flips between them, so there is nothing safe to do.
fn no_twin(files: &[TargetFile], file: &TargetFile, pod: &SchedulerSpec) -> Result<(), Finding> {
    let own = &pod.identity;
    let has_own_identity = |text: &String| {
        let is_own = |other: Identity| (other.namespace, other.name) == (own.namespace.clone(), own.name.clone());
        text.contains(&own.name) && pod::identity(text).is_some_and(is_own)
    };
    let is_twin = |other: &&TargetFile| other.path != file.path && other.text.as_ref().is_ok_and(has_own_identity);
    let Some(twin) = files.iter().find(is_twin) else { return Ok(()) };
    let message = format!(
        "{} and {} both define the pod {}/{}, and the kubelet reads every file here whatever its name",
        file.path, twin.path, own.namespace, own.name
    );
    Err(Finding::error("same-pod-twice", message, "move the copy out of this directory").in_file(&twin.path))
}

fn none_fits(pods: &[(&TargetFile, &str, SchedulerSpec)], target: Option<&str>, dir: &str) -> Finding {
    if let Some(target) = target {
        let way_out = "give the path as the host sees it, without the host root; names that begin with a dot are ignored by the kubelet";
        return Finding::error("no-manifest", "the target is not there", way_out).in_file(target);
    }
    if pods.is_empty() {
        let way_out = "run this on a control-plane node, or name the file with --target FILE";
        return Finding::error("no-manifest", "no static pod here runs kube-scheduler", way_out).in_file(dir);
    }
    let list: Vec<_> = pods
        .iter()
        .map(|(file, _, pod)| format!("{} (pod {}/{})", file.path, pod.identity.namespace, pod.identity.name))
        .collect();
    let message = format!("expected one pod named {POD_NAME}; these run the program: {}", list.join(", "));
    Finding::error("which-scheduler", message, "name the one to edit with --target FILE").in_file(dir)
}

fn neighbour(finding: &Finding) -> Finding {
    let message = format!("a file beside the target cannot be used: {}", finding.message);
    let own = Finding::warning("neighbour", message, finding.way_out.clone()).at_line(finding.line);
    Finding { file: finding.file.clone(), ..own }
}

fn no_dir(dir: &str) -> Finding {
    let way_out = "run this on a control-plane node, or give --manifest-dir DIR";
    Finding::error("no-manifest", "the manifest directory is not there", way_out).in_file(dir)
}
