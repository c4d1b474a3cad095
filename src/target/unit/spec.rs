//! What a k3s server says about the scheduler inside of it. Pure.

use super::server::Server;
use crate::target::refusal::{Refusal, Rule};
use crate::target::{Around, Identity, Mount, Ours, RunAs, SchedulerSpec, Service, Wanted, flags};

/// Flags of the scheduler that k3s cannot take: it has set up its log already, and ends.
const LOGGING_FLAGS: [&str; 4] = ["v", "vmodule", "logging-format", "log-flush-frequency"];

/// The scheduler of a server, with the flags that k3s itself gives it first.
pub(super) fn of_server(server: &Server, around: &Around, ours: Option<Ours>) -> Result<SchedulerSpec, Refusal> {
    if server.has_no_scheduler() {
        let message = format!("{} has disable-scheduler: it runs no scheduler", server.unit);
        return Err(Refusal::new(Rule::SchedulerDisabled, message));
    }
    let kubeconfig = format!("--kubeconfig={}/server/cred/scheduler.kubeconfig", server.data_dir);
    let mut words = vec![kubeconfig, "--profiling=false".to_owned()];
    words.extend(server.scheduler_arguments().iter().map(|own| format!("--{own}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let release = around.release.clone().or_else(|| around.program.as_ref()?.release.clone());
    Ok(SchedulerSpec {
        identity: Identity { name: server.unit.clone(), ..Identity::default() },
        // k3s says that it is ready before its scheduler is, so the scheduler is asked
        has_readiness_probe: false,
        probe_paths: Vec::new(),
        image: release.map_or_else(|| "k3s".to_owned(), |release| format!("k3s:{release}")),
        image_line: None,
        flags: flags::read(&words, 0),
        mounts: vec![Mount { path: "/".to_owned(), host_path: Some("/".to_owned()) }],
        run_as: RunAs::default(),
        host_network: true,
        dns_policy: None,
        service: Some(Service {
            name: server.unit.clone(),
            spares_containers: server.kills_process_only,
            starts_again: server.starts_again,
            command: server.command.clone(),
            drop_ins: server.drop_ins.clone(),
            program: around.program.as_ref().map_or_else(String::new, |program| program.mark.clone()),
            server: server.endpoint(),
        }),
        ours,
    })
}

/// The arguments that carry what is wanted, `name=value`.
pub(super) fn arguments(wanted: &Wanted) -> Result<Vec<String>, Refusal> {
    let no_pod = [
        ("an image", wanted.image.is_some()),
        ("a program", wanted.command.is_some()),
        ("a user", wanted.run_as_user.is_some()),
        ("a DNS policy", wanted.dns_policy.is_some()),
    ];
    if let Some((what, _)) = no_pod.iter().find(|(_, is_wanted)| *is_wanted) {
        let message = format!("the scheduler is a part of k3s and has no pod, so {what} of its own cannot be given");
        return Err(Refusal::new(Rule::NoPod, message));
    }
    if let Some((name, _)) = wanted.args.iter().find(|(name, _)| LOGGING_FLAGS.contains(&name.as_str())) {
        let message = format!("k3s ends when its scheduler gets the flag {name}: its log is set up already");
        return Err(Refusal::new(Rule::LoggingFlag, message));
    }
    let own = wanted.args.iter().map(|(name, value)| format!("{name}={value}"));
    Ok(std::iter::once(format!("config={}", wanted.config_path())).chain(own).collect())
}

/// Our marks as one line: revision, generation and, after a rollback, the revision that failed.
pub(super) fn note(revision: &str, generation: u64, rolled_back_from: Option<&str>) -> String {
    let failed = rolled_back_from.map_or_else(String::new, |revision| format!(" after={revision}"));
    format!("{revision} {generation}{failed}")
}

/// The same back: our marks, and the revision that failed before.
pub(super) fn marks(note: &str) -> Option<(Ours, Option<&str>)> {
    let mut words = note.split(' ');
    let ours = Ours { revision: words.next()?.to_owned(), generation: words.next()?.parse().ok()? };
    Some((ours, words.next().and_then(|word| word.strip_prefix("after="))))
}
