//! The method `drop-in`: a file of our own beside the configuration of k3s. Pure.

use std::fmt::Write as _;

use super::config::{self, SCHEDULER_ARG};
use super::exec_start::FLAG;
use super::server::{self, Server};
use super::spec;
use crate::host::HostPath;
use crate::target::refusal::{Refusal, Rule};
use crate::target::{Around, Context, Definition, Ours, SchedulerSpec, Wanted};

/// Begins the line that holds our marks.
const MARK: &str = "# schedpatch: v1 ";

/// The text of our file; empty where there is none.
#[derive(Debug)]
pub(super) struct DropIn<'a> {
    pub text: &'a str,
    pub context: Context<'a>,
    /// The unit of the server, and its text
    pub unit: (&'a str, &'a str),
}

impl<'a> DropIn<'a> {
    /// Finds the one unit around that starts a k3s server.
    pub fn new(text: &'a str, context: Context<'a>) -> Result<Self, Refusal> {
        let unit = one_server(context.around)?;
        Ok(Self { text, context, unit })
    }

    fn note(&self) -> Result<Option<&str>, Refusal> {
        if self.text.is_empty() {
            return Ok(None);
        }
        let line = self.text.lines().find_map(|line| line.strip_prefix(MARK));
        line.map(Some).ok_or_else(|| {
            let message = "this file is not schedpatch's, and its name is the one that schedpatch needs";
            Refusal::new(Rule::Taken, message)
        })
    }

    fn server(&self) -> Result<Server, Refusal> {
        let (path, text) = self.unit;
        server::read(path, text, self.context.around, Some((self.context.path, self.text)))
    }

    /// Nothing that k3s reads after our file may have another word about the same arguments.
    fn refuse_later_word(&self, server: &Server) -> Result<(), Refusal> {
        let overridden = |message: String| Err(Refusal::new(Rule::ConfigOverridden, message));
        let dir = format!("{}.d", server.config_file);
        if self.context.path.rsplit_once('/').map(|(own, _)| own) != Some(dir.as_str()) {
            let message = format!("k3s reads {} and {dir} here, not this directory", server.config_file);
            return overridden(message);
        }
        for file in
            server.files.iter().filter(|file| file.path.as_str() > self.context.path && file.path != server.config_file)
        {
            match file.values(SCHEDULER_ARG) {
                Some((_, true)) => {
                    return overridden(format!(
                        "{} says {SCHEDULER_ARG} without +, which drops what this file adds",
                        file.path
                    ));
                }
                Some((values, false)) if values.iter().any(|value| server::config_path(value).is_some()) => {
                    return overridden(format!("{} gives the scheduler another configuration", file.path));
                }
                _ => {}
            }
        }
        if server.scheduler_arguments_of_command().iter().any(|own| server::config_path(own).is_some()) {
            let message = format!("the command line of {} gives the scheduler another configuration", server.unit);
            return overridden(message);
        }
        Ok(())
    }
}

impl Definition for DropIn<'_> {
    fn spec(&self) -> Result<SchedulerSpec, Refusal> {
        let ours = match self.note()? {
            None => None,
            Some(note) => Some(spec::marks(note).ok_or_else(unreadable_mark)?.0),
        };
        let server = self.server()?;
        self.refuse_later_word(&server)?;
        spec::of_server(&server, self.context.around, ours)
    }

    fn edit(&self, wanted: &Wanted) -> Result<String, Refusal> {
        let is_same = |ours: &Ours| ours.revision == wanted.revision && ours.generation == wanted.generation;
        let marks = self.note()?.and_then(spec::marks).filter(|(ours, _)| is_same(ours));
        let failed = marks.and_then(|(_, failed)| failed);
        Ok(write(&spec::note(&wanted.revision, wanted.generation, failed), &spec::arguments(wanted)?))
    }

    fn restore(&self) -> Result<String, Refusal> {
        self.note().map(|_| String::new())
    }

    fn recommit(&self, generation: u64, rolled_back_from: Option<&str>) -> Result<String, Refusal> {
        let note = self.note()?.ok_or_else(unreadable_mark)?;
        let (ours, _) = spec::marks(note).ok_or_else(unreadable_mark)?;
        let (_, rest) = self.text.split_once(&format!("{MARK}{note}\n")).ok_or_else(unreadable_mark)?;
        let head = format!("{MARK}{}\n", spec::note(&ours.revision, generation, rolled_back_from));
        Ok(head + rest)
    }
}

fn write(note: &str, arguments: &[String]) -> String {
    let mut text =
        format!("{MARK}{note}\n# schedpatch wrote this file; schedpatch restore removes it\n{SCHEDULER_ARG}+:\n");
    for argument in arguments {
        // a text in JSON is one in YAML
        let _ = writeln!(text, "- {}", serde_json::Value::from(argument.as_str()));
    }
    text
}

/// The arguments of our file, as the command line gives them.
pub(super) fn arguments(text: &str) -> Result<Vec<String>, Refusal> {
    let files = config::parse(HostPath::from("our file"), Ok(text.to_owned()))?;
    let values = files.values(SCHEDULER_ARG).map(|(values, _)| values).unwrap_or_default();
    Ok(values.iter().map(|own| format!("{FLAG}{own}")).collect())
}

fn unreadable_mark() -> Refusal {
    Refusal::new(Rule::UndoRecord, "the first line of our file does not say which revision it is of")
}

/// The one unit that starts a k3s server.
pub(super) fn one_server(around: &Around) -> Result<(&str, &str), Refusal> {
    let mut servers = server::units(around).into_iter().filter_map(|path| {
        let (path, text) = around.files.get_key_value(path.as_str())?;
        let text = text.as_deref().ok()?;
        server::read(path, text, around, None).is_ok().then_some((path.as_str(), text))
    });
    match (servers.next(), servers.next()) {
        (Some(server), None) => Ok(server),
        (None, _) => Err(Refusal::new(Rule::NoServer, "no unit starts a k3s server")),
        (Some((first, _)), Some((second, _))) => {
            Err(Refusal::new(Rule::SeveralServers, format!("{first} and {second} both start a k3s server")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::unit::{OWN_FILE, server::CONFIG_FILE};

    #[test]
    fn a_later_word_with_dashes_is_one_too() {
        let refused = |arguments: &str, file: &str| {
            let mut around = Around::default();
            let mut add = |path: &str, text: String| around.files.insert(HostPath::from(path), Ok(text));
            let unit = format!("[Service]\nExecStart=/usr/local/bin/k3s server {arguments}\n");
            add("/etc/systemd/system/k3s.service", unit);
            add(&format!("{CONFIG_FILE}.d/99.yaml"), file.to_owned());
            let path = format!("{CONFIG_FILE}.d/{OWN_FILE}");
            let own = DropIn::new("", Context { path: &path, around: &around }).unwrap();
            own.spec().err().map(|refusal| refusal.rule)
        };
        assert_eq!(refused("", ""), None);
        assert_eq!(refused("--kube-scheduler-arg=--config=/x", ""), Some(Rule::ConfigOverridden));
        assert_eq!(refused("", "kube-scheduler-arg+: [--config=/x]\n"), Some(Rule::ConfigOverridden));
    }
}
