//! The scheduler as a target defines it, and what it shall be, in words that hold for every target kind.

use super::flags::{self, Flag};

/// The name of the configuration's file in the directory of a revision.
pub const CONFIG_FILE: &str = "config.yaml";

/// What a target says about its scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSpec {
    /// How the one who runs it calls it
    pub identity: Identity,
    /// Whether Ready means that the scheduler was asked; else it only means that it runs
    pub has_readiness_probe: bool,
    /// The paths that its probes ask over HTTP
    pub probe_paths: Vec<String>,
    /// Its image
    pub image: String,
    /// Line of its image
    pub image_line: Option<usize>,
    /// Its flags, in order
    pub flags: Vec<Flag>,
    /// What of the host it sees
    pub mounts: Vec<Mount>,
    /// As whom it runs
    pub run_as: RunAs,
    /// Whether it is on the host's network, where cluster names do not resolve without a DNS policy
    pub host_network: bool,
    /// Its DNS policy
    pub dns_policy: Option<String>,
    /// The service that runs it, where a service does
    pub service: Option<Service>,
    /// Our marks, if the target carries an edit of ours
    pub ours: Option<Ours>,
}

/// kube-scheduler's secure port, unless a flag says otherwise.
const DEFAULT_PORT: &str = "10259";

/// The address on this host of who listens there.
pub fn local_address(bind_address: Option<&str>) -> String {
    match bind_address {
        None | Some("0.0.0.0" | "") => "127.0.0.1".to_owned(),
        Some("::") => "[::1]".to_owned(),
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(address) => address.to_owned(),
    }
}

/// A service that runs a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name for the service manager
    pub name: String,
    /// Whether containers, schedpatch's own too, live on while it restarts
    pub spares_containers: bool,
    /// Whether it is started anew however it ends
    pub starts_again: bool,
    /// What tells its program from another of the same name: it may be replaced while a text is on trial
    pub program: String,
    /// Its command line as its files have it
    pub command: Vec<String>,
    /// The drop-ins that were read for it
    pub drop_ins: Vec<String>,
    /// Where the server of this node can be asked, whatever the others say
    pub server: String,
}

impl Service {
    /// Whether a drop-in was read; `/lib` may be another name of `/usr/lib`.
    pub fn reads(&self, drop_in: &str) -> bool {
        let bare = |path: &str| path.strip_prefix("/usr").unwrap_or(path).to_owned();
        self.drop_ins.iter().any(|own| bare(own) == bare(drop_in))
    }
}

/// How the one who runs a scheduler calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace, where it has one
    pub namespace: String,
    /// Its name
    pub name: String,
    /// The part of it that runs the program, where it has several
    pub container: String,
}

/// Our marks in a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The revision that it carries
    pub revision: String,
    /// The generation; 0 if it is no number
    pub generation: u64,
}

/// A part of the host that a scheduler sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where the scheduler sees it
    pub path: String,
    /// What of the host it is; `None` if it is not of the host
    pub host_path: Option<String>,
}

/// The user and the group of a scheduler: who must be able to read files that others must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunAs {
    /// Its user; none means the image's own user, which is root for all known images
    pub user: Option<u32>,
    /// A group that it is certainly in
    pub group: Option<u32>,
    /// Whether it is known not to run as root
    pub non_root: bool,
}

/// What a target shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Identity of what is written
    pub revision: String,
    /// Counter of our commits on this node
    pub generation: u64,
    /// Directory on the host that holds the config; the scheduler sees it at the same path
    pub config_dir: String,
    /// Another image for the scheduler
    pub image: Option<String>,
    /// The scheduler's program in that image, where it is not called `kube-scheduler`
    pub command: Option<String>,
    /// The user that the scheduler runs as
    pub run_as_user: Option<u32>,
    /// Another DNS policy
    pub dns_policy: Option<String>,
    /// Further flags of the scheduler: name without dashes, and value
    pub args: Vec<(String, String)>,
    /// Further parts of the host that the scheduler sees, read-only and at their own path
    pub mounts: Vec<HostMount>,
}

/// A part of the host that the scheduler shall see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMount {
    /// The path, on the host and for the scheduler alike
    pub path: String,
    /// Whether it is a directory; else it is a file
    pub is_dir: bool,
}

impl Wanted {
    /// The config's path, on the host and for the scheduler alike.
    pub fn config_path(&self) -> String {
        format!("{}/{CONFIG_FILE}", self.config_dir)
    }
}

impl SchedulerSpec {
    /// Where on the host a path that the scheduler sees is; `None` if it is not of the host.
    pub fn host_path(&self, path: &str) -> Option<String> {
        host_path(&self.mounts, path)
    }

    /// The last value of a flag.
    pub fn flag(&self, name: &str) -> Option<&str> {
        flags::last(&self.flags, name)?.value.as_deref()
    }

    /// Scheme, host and port where the scheduler itself can be asked on this host.
    pub fn endpoint(&self) -> String {
        let port = self.flag("secure-port").unwrap_or(DEFAULT_PORT);
        format!("https://{}:{port}", local_address(self.flag("bind-address")))
    }

    /// The configuration file that the scheduler was started with.
    pub fn config(&self) -> Option<(&Flag, &str)> {
        let flag = flags::last(&self.flags, "config")?;
        flag.value.as_deref().filter(|path| !path.is_empty()).map(|path| (flag, path))
    }
}

impl RunAs {
    /// Whether the scheduler runs as root.
    pub fn is_root(self) -> bool {
        self.user.unwrap_or(0) == 0 && !self.is_unknown()
    }

    /// Whether only the image knows the user.
    pub fn is_unknown(self) -> bool {
        self.user.is_none() && self.non_root
    }
}

/// Where on the host a path of the scheduler is, by the deepest mount that holds it. `None`: not of the host.
fn host_path(mounts: &[Mount], path: &str) -> Option<String> {
    let holding = mounts.iter().filter_map(|mount| Some((mount, below(&mount.path, path)?)));
    let (mount, rest) = holding.min_by_key(|(_, rest)| rest.len())?;
    let host = mount.host_path.as_ref()?;
    Some(if rest.is_empty() { host.clone() } else { join(host, rest) })
}

/// What is left of `path` below `dir`; empty for `dir` itself.
fn below<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A name below a directory, with one slash between them.
pub(super) fn join(dir: &str, name: &str) -> String {
    format!("{}/{}", dir.trim_end_matches('/'), name.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_through_files_directories_and_the_deepest_mount() {
        let mount = |path: &str, host: Option<&str>| Mount { path: path.into(), host_path: host.map(str::to_owned) };
        let mounts = [
            mount("/etc/kubernetes/", Some("/srv/kube")),
            mount("/etc/kubernetes/config.yaml", Some("/data/c.yaml")),
            mount("/cm", None),
        ];
        assert_eq!(host_path(&mounts, "/etc/kubernetes/x/y.yaml").as_deref(), Some("/srv/kube/x/y.yaml"));
        assert_eq!(host_path(&mounts, "/etc/kubernetes/config.yaml").as_deref(), Some("/data/c.yaml"));
        assert_eq!(host_path(&mounts, "/etc/kubernetesx"), None);
        assert_eq!(host_path(&mounts, "/cm/c.yaml"), None);
        assert_eq!(host_path(&mounts, "/elsewhere"), None);
    }
}
