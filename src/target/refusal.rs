//! Why a target is not edited: one value for every reason, with its line and the way out.

use yaml_edit::ErrorKind;

use crate::finding::{Finding, rules};

rules! {
    /// A reason not to edit. The name is stable: people grep for it and tests pin it.
    Rule {
        /// The text is no YAML.
        NotYaml = "not-yaml", "correct the file; the scheduler cannot be started from it either";
        /// The document is no v1 Pod.
        NotAPod = "not-a-pod", "name the static pod of the scheduler with --target FILE";
        /// The Pod lacks a name, or a field of it has the wrong type.
        MalformedPod = "malformed-pod", "correct the file; the kubelet cannot run it either";
        /// No container runs kube-scheduler.
        NoScheduler = "no-scheduler", "name the static pod of the scheduler with --target FILE";
        /// A container that looks like the scheduler's does not say what it runs.
        NoCommand = "no-command", "write the program into command: kube-scheduler";
        /// More than one container runs kube-scheduler.
        SeveralSchedulers = "several-schedulers", "leave one kube-scheduler container in the pod";
        /// kube-scheduler is started by a shell or another program that we cannot look into.
        Wrapper = "wrapper", "let command name kube-scheduler itself and put its flags into command or args";
        /// A key appears twice in one mapping.
        DuplicateKey = "duplicate-key", "delete one of the two";
        /// A tab is where YAML counts columns.
        Tab = "tab", "indent with spaces";
        /// The file holds more than one document.
        SeveralDocuments = "several-documents", "keep one document per file";
        /// The file is a template or holds placeholders.
        Template = "template", "render the template first; the file must be the text that the scheduler is started from";
        /// An anchor, alias, tag or merge key is on something that must be changed.
        Anchor = "anchor", "write the value out in place of the anchor, alias, tag or merge key";
        /// The file is JSON.
        Json = "json", "convert the manifest to YAML: kubectl create --dry-run=client -o yaml -f FILE";
        /// The file holds a byte order mark, at its beginning or elsewhere.
        ByteOrderMark = "byte-order-mark", "save the file as UTF-8 without a byte order mark";
        /// The file has a `%` directive.
        Directive = "directive", "delete the line that begins with %";
        /// A character ends a line for one YAML reader and not for another.
        LineSeparator = "line-separator", "use ordinary line breaks; write the character as an escape in double quotes";
        /// Something that must be changed is written in a form that cannot be changed safely.
        Shape = "shape", "write it in the plain form that kubeadm writes: block style, one value per line";
        /// A name or path that we need is taken by something that is not ours.
        Taken = "taken", "rename it, or delete it if it is left over";
        /// Our own record of what to undo cannot be read.
        UndoRecord = "undo-record", "take schedpatch's parts out by hand and delete the annotations schedpatch.io/*";
        /// The generation cannot be raised.
        Generation = "generation", "correct the generation in the state file, or in the annotation schedpatch.io/generation";
        /// Two YAML readers do not agree about the file.
        ReadersDisagree = "readers-disagree", "write the place in question in a plainer way";
        /// systemd does not load the unit.
        UnitNotLoaded = "unit-not-loaded", "correct the line; systemd-analyze verify FILE shows it too";
        /// The command line of the unit is written in a form that cannot be changed safely.
        UnitShape = "unit-shape", "write it as the installer of k3s does, or leave the unit as it is: --k3s-method drop-in";
        /// A drop-in of the unit sets the command line in its place.
        UnitOverridden = "unit-overridden", "take ExecStart= out of that drop-in, or leave the unit as it is: --k3s-method drop-in";
        /// The method drop-in cannot try a new command line before it counts.
        Untriable = "k3s-untriable", "correct what the message names, or have no trial and restart k3s yourself: --k3s-restart manual";
        /// The unit does not start a k3s server.
        NoServer = "no-k3s-server", "name the unit of the server with --target FILE";
        /// More than one unit starts a k3s server.
        SeveralServers = "several-k3s-servers", "use --k3s-method execstart and name the unit with --target FILE";
        /// The k3s server runs no scheduler.
        SchedulerDisabled = "scheduler-disabled", "run this on a server that has a scheduler";
        /// A configuration file of k3s cannot be read.
        K3sConfig = "k3s-config", "correct the file; k3s cannot start with it either";
        /// Something that k3s reads later has the last word about the scheduler's arguments.
        ConfigOverridden = "k3s-config-overridden", "correct what has the last word, or use --k3s-method execstart; with another K3S_CONFIG_FILE give --target CONFIG_FILE.d/90-schedpatch.yaml";
        /// The scheduler has no pod of its own.
        NoPod = "no-pod", "leave that flag out";
        /// A flag of the scheduler that ends k3s.
        LoggingFlag = "k3s-logging-flag", "leave the flag out; k3s itself has --v and --debug";
        /// The edit was made, but re-reading it did not give exactly what was meant.
        Unproven = "unproven", "please report this file; nothing was changed";
    }
}

/// The answer of an editor that will not edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", .line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct Refusal {
    /// Which rule.
    pub rule: Rule,
    /// Where, counted from 1.
    pub line: Option<usize>,
    /// What was found, in words.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self { rule, line: None, message: message.into() }
    }

    pub(crate) fn at_line(rule: Rule, line: usize, message: impl Into<String>) -> Self {
        Self { rule, line: Some(line), message: message.into() }
    }
}

impl From<yaml_edit::Error> for Refusal {
    fn from(error: yaml_edit::Error) -> Self {
        let rule = match error.kind {
            ErrorKind::NotYaml => Rule::NotYaml,
            ErrorKind::Empty => Rule::NotAPod,
            ErrorKind::DuplicateKey => Rule::DuplicateKey,
            ErrorKind::Tab => Rule::Tab,
            ErrorKind::SeveralDocuments => Rule::SeveralDocuments,
            ErrorKind::Template => Rule::Template,
            ErrorKind::Anchor => Rule::Anchor,
            ErrorKind::ByteOrderMark => Rule::ByteOrderMark,
            ErrorKind::Directive => Rule::Directive,
            ErrorKind::LineSeparator => Rule::LineSeparator,
            ErrorKind::Shape => Rule::Shape,
            ErrorKind::ReadersDisagree => Rule::ReadersDisagree,
            // whatever else may come is no edit that was proven
            _ => Rule::Unproven,
        };
        Self { rule, line: error.line, message: error.message }
    }
}

impl From<Refusal> for Finding {
    fn from(refusal: Refusal) -> Self {
        Self::error(refusal.rule.name(), refusal.message, refusal.rule.way_out()).at_line(refusal.line)
    }
}
