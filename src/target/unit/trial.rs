//! The place of a trial: a drop-in of systemd that a restart of the host forgets. Pure.
//!
//! It sets the whole command line, and holds the text that is on trial as comments, with the digest of what it was made from: a
//! target or unit that somebody changed since makes it stale.

use unit_edit::{Unit, effective};

use super::server;
use crate::host::HostPath;
use crate::revision::Digest;
use crate::target::refusal::{Refusal, Rule};
use crate::target::{HostFiles, OnTrial};

/// Name of our drop-in: behind those that others have, but for the few that begin with 9.
const NAME: &str = "90-schedpatch.conf";
const HEAD: &str = "# schedpatch tries this command line: it is proven and kept, or this file goes, at the latest when the host restarts\n";
const MARK: &str = "# schedpatch-trial: v1 ";
/// Begins each line of the text on trial.
const LINE: &str = "#: ";

/// Where the drop-in of a unit is.
pub(super) fn path(unit: &str) -> HostPath {
    HostPath::from(format!("/run/systemd/system/{unit}.d/{NAME}"))
}

/// Whether a drop-in is the place of a trial.
pub(super) fn is_path(drop_in: &str) -> bool {
    drop_in.starts_with("/run/systemd/system/") && drop_in.rsplit('/').next() == Some(NAME)
}

/// What a trial is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base<'a> {
    /// The text of the target itself
    pub on_disk: &'a str,
    /// The unit's path
    pub unit_path: &'a str,
    /// The unit's text
    pub unit: &'a str,
}

impl Base<'_> {
    fn digest(&self) -> Digest {
        Digest::of_bytes(format!("{}\0{}", self.on_disk, self.unit).as_bytes())
    }
}

/// The drop-in that tries a text: the command line that `unit` with its drop-ins sets, with further arguments behind so many words of
/// it. There they come before the arguments of the command line itself, like those of the files that k3s reads.
pub(super) fn write(
    base: Base<'_>,
    unit: &str,
    text: &str,
    (behind, more): (usize, &[String]),
    host: &dyn HostFiles,
) -> Result<Vec<u8>, Refusal> {
    let name = base.unit_path.rsplit('/').next().unwrap_or_default();
    let fragment = Unit::parse(base.unit_path, unit.as_bytes());
    let texts = server::drop_ins(name, host);
    let drop_ins: Vec<Unit<'_>> = texts.iter().map(|(path, text)| Unit::parse(path, text.as_bytes())).collect();
    refuse_later_word(&drop_ins)?;
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let command = effective(&fragment, &drop_ins)?.to_drop_in_with(behind, &more)?;
    let command =
        String::from_utf8(command).map_err(|_| Refusal::new(Rule::Unproven, "the command line is no UTF-8 text"))?;
    let mark = format!("{MARK}{} {}\n", base.digest(), Digest::of_bytes(text.as_bytes()));
    let lines: Vec<String> = text.split('\n').map(|line| format!("{LINE}{line}\n")).collect();
    Ok(format!("{HEAD}{mark}{}{command}", lines.concat()).into_bytes())
}

/// A drop-in that systemd reads after ours would have the last word about the command line on trial.
fn refuse_later_word(drop_ins: &[Unit<'_>]) -> Result<(), Refusal> {
    let is_later = |unit: &&Unit<'_>| unit.name().rsplit('/').next().is_some_and(|name| name > NAME);
    let speaks = |unit: &&Unit<'_>| unit.settings().any(|(section, key, _)| (section, key) == ("Service", "ExecStart"));
    match drop_ins.iter().filter(is_later).find(speaks) {
        Some(unit) => {
            let file = unit.name();
            let message = format!(
                "{file} sets ExecStart= after the drop-in in which a new command line is tried ({NAME}); a name that comes before it \
                 would do"
            );
            Err(Refusal::new(Rule::UnitOverridden, message))
        }
        None => Ok(()),
    }
}

/// The text on trial that a drop-in holds; nothing where it is of something else than this.
fn read(drop_in: &str, base: Base<'_>) -> Option<String> {
    let (of, to) = drop_in.lines().find_map(|line| line.strip_prefix(MARK))?.split_once(' ')?;
    let lines: Vec<&str> = drop_in.split('\n').filter_map(|line| line.strip_prefix(LINE)).collect();
    let text = lines.join("\n");
    let is_whole = Digest::of_bytes(text.as_bytes()).to_string() == to;
    (is_whole && base.digest().to_string() == of).then_some(text)
}

/// The text that counts: the one on trial if there is a trial of this very base.
pub(super) fn overlay(base: Base<'_>, host: &dyn HostFiles) -> Option<(String, OnTrial)> {
    let place = path(base.unit_path.rsplit('/').next().unwrap_or_default());
    let drop_in = host.text(&place)?.unwrap_or_default();
    let tried = read(&drop_in, base);
    let on_trial = OnTrial { place, on_disk: base.on_disk.to_owned(), is_stale: tried.is_none() };
    Some((tried.unwrap_or_else(|| base.on_disk.to_owned()), on_trial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Around;

    const UNIT: &str = "[Service]\r\nExecStart=/usr/local/bin/k3s \\\n    server \\\n\n";

    #[test]
    fn a_trial_gives_back_the_very_text_and_is_stale_once_its_base_changes() {
        let base = Base { on_disk: UNIT, unit_path: "/etc/systemd/system/k3s.service", unit: UNIT };
        let text = UNIT.replace("server", "server --kube-scheduler-arg=config=/x");
        let mut around = Around::default();
        let drop_in = String::from_utf8(write(base, &text, &text, (0, &[]), &around).unwrap()).unwrap();
        let command = Unit::parse(NAME, drop_in.as_bytes()).exec_start().unwrap().argv();
        assert_eq!(command.last().unwrap(), b"--kube-scheduler-arg=config=/x", "{drop_in}");
        around.files.insert(path("k3s.service"), Ok(drop_in));
        let (seen, trial) = overlay(base, &around).unwrap();
        assert_eq!((seen.as_str(), trial.is_stale), (text.as_str(), false));
        let changed = UNIT.replace("server", "server --debug");
        let (seen, trial) = overlay(Base { on_disk: &changed, unit: &changed, ..base }, &around).unwrap();
        assert_eq!((seen.as_str(), trial.is_stale), (changed.as_str(), true));
    }

    #[test]
    fn a_later_drop_in_that_has_the_last_word_is_refused() {
        let base = Base { on_disk: "", unit_path: "/etc/systemd/system/k3s.service", unit: UNIT };
        let more = ["--kube-scheduler-arg=config=/y".to_owned()];
        let tried = |name: &str, text: &str| {
            let mut around = Around::default();
            let path = format!("/etc/systemd/system/k3s.service.d/{name}");
            around.files.insert(HostPath::from(path), Ok(text.to_owned()));
            write(base, UNIT, "a: b\n", (2, &more), &around)
        };
        let own = "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server --debug\n";
        assert_eq!(tried("99-local.conf", own).unwrap_err().rule, Rule::UnitOverridden);
        assert!(tried("10-local.conf", own).is_ok());
        assert!(tried("99-local.conf", "[Service]\nRestartSec=3s\n").is_ok());
    }

    #[test]
    fn arguments_of_a_file_are_tried_on_the_command_line() {
        let base = Base { on_disk: "", unit_path: "/etc/systemd/system/k3s.service", unit: UNIT };
        let more = ["--kube-scheduler-arg=config=/y".to_owned()];
        let drop_in = write(base, UNIT, "a: b\n", (2, &more), &Around::default()).unwrap();
        let command = Unit::parse(NAME, &drop_in).exec_start().unwrap().argv();
        assert_eq!(command, [b"/usr/local/bin/k3s".as_slice(), b"server", b"--kube-scheduler-arg=config=/y"]);
        assert_eq!(read(std::str::from_utf8(&drop_in).unwrap(), base).as_deref(), Some("a: b\n"));
    }

    #[test]
    fn a_command_line_that_cannot_be_edited_can_be_tried() {
        let more = ["--kube-scheduler-arg=config=/50%/$y".to_owned()];
        let tried = |command: &str, behind: usize| {
            let unit = format!("[Service]\nExecStart={command}");
            let base = Base { on_disk: "", unit_path: "/etc/systemd/system/k3s.service", unit: &unit };
            let drop_in = write(base, &unit, "a: b\n", (behind, &more), &Around::default()).unwrap();
            let words = Unit::parse(NAME, &drop_in).exec_start().unwrap().argv();
            words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect::<Vec<_>>()
        };
        let ours = "--kube-scheduler-arg=config=/50%%/$$y";
        let seed = tried("/usr/local/k3s start \\  \n    --kube-scheduler-arg=config=/x.yaml\n", 2);
        assert_eq!(seed, ["/usr/local/k3s", "start", ours, "\\"]);
        let without_value = tried("/usr/local/bin/k3s server --kube-scheduler-arg\n", 2);
        assert_eq!(without_value, ["/usr/local/bin/k3s", "server", ours, "--kube-scheduler-arg"]);
        let with_name = tried("@/usr/local/bin/k3s k3s --debug server --token=a\n", 3);
        assert_eq!(with_name, ["k3s", "--debug", "server", ours, "--token=a"]);
    }
}
