//! The seam between kinds of targets. A target kind is one folder that answers four questions behind one trait, and nothing
//! outside it knows how: which scheduler is this (`read`), how is our edit put in and taken out (`edit`, `restore`,
//! `recommit`), what makes it effective (`activation`), and what runs (`observer`).
//!
//! Reading and editing are pure: text in, text out. Every kind keeps these laws: what is not ours stays, byte for byte;
//! editing twice is editing once; taking out what was put in gives the old text; and what is not understood is a
//! [`Refusal`], never a rewrite.

mod activation;
mod around;
mod elsewhere;
mod file;
mod flags;
mod observation;
mod preflight;
mod refusal;
mod spec;
pub mod static_pod;
pub mod unit;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use kube::Client;

use crate::finding::Finding;
use crate::host::HostPath;
use crate::revision::Digest;

pub use activation::{Activation, NotLoaded, Restartable, Restarter};
pub use around::{Around, Context, FileText, HostFiles, Program};
pub use elsewhere::{SCHEDULER_PODS, SchedulerElsewhere, StartState, schedulers_elsewhere};
pub use file::{OnTrial, TargetFile};
pub use flags::{Flag, all_of as read_flags, last as last_flag, value_of as flag_of};
pub use observation::{
    Answer, Expectation, Instance, Observation, Observer, Obstacle, Probe, Running, ServiceExpectation, UNKNOWN_START,
    Waiting, Words,
};
pub use preflight::{PreflightEnd, PreflightManifest, PreflightObserver, PreflightRun, PreflightState};
pub use refusal::{Refusal, Rule};
pub use spec::{CONFIG_FILE, HostMount, Identity, Mount, Ours, RunAs, SchedulerSpec, Service, Wanted, local_address};
pub(crate) use static_pod::is_preflight;

/// What files say about their schedulers, or why they cannot be edited; by their path.
pub type Specs = BTreeMap<String, Result<SchedulerSpec, Refusal>>;

/// Files among which one is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The directory
    pub dir: &'a str,
    /// Its files; none if it is not there
    pub files: Option<&'a [TargetFile]>,
    /// What is known of them already
    pub known: &'a Specs,
    /// What else of the host matters
    pub around: &'a Around,
    /// The file that was asked for
    pub target: Option<&'a str>,
}

/// The file to edit.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The file
    pub file: &'a TargetFile,
    /// Its text
    pub text: &'a str,
    /// Digest of its text
    pub digest: Digest,
    /// What it says about its scheduler
    pub spec: SchedulerSpec,
    /// About its neighbours
    pub warnings: Vec<Finding>,
}

/// Where an observer looks.
pub struct Here<'a> {
    /// The API
    pub client: &'a Client,
    /// Name of this node
    pub node: &'a str,
    /// Root of the host's file tree
    pub host_root: &'a Path,
    /// A way to ask an endpoint of this host whether it is well
    pub probe: &'a dyn Fn(&str) -> Option<Probe>,
}

impl std::fmt::Debug for Here<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("node", &self.node).field("host_root", &self.host_root).finish_non_exhaustive()
    }
}

/// A kind of target.
pub trait TargetKind: Debug + Send + Sync {
    /// Its name, for people
    fn name(&self) -> &'static str;

    /// Whether its directory means something only where a marker shows the platform.
    fn needs_marker(&self) -> bool {
        false
    }

    /// Whether a file of its directory may be about a scheduler.
    fn is_candidate(&self, file: &TargetFile) -> bool {
        file.names_scheduler()
    }

    /// Whether the files of its directory that are no candidates matter all the same.
    fn keeps_neighbours(&self) -> bool {
        true
    }

    /// The file that is schedpatch's own and is the target, where it is one. It need not be there: then its text is empty.
    fn own_file(&self) -> Option<&'static str> {
        None
    }

    /// Reads what else of the host says something about these files, a text on trial above all; whatever is read is kept as
    /// [`Around`].
    fn look_around(&self, _files: &mut [TargetFile], _host: &dyn HostFiles) {}

    /// Where a text is tried before it is written into the target, and what has to be there; nothing where it is written at once.
    fn trial(
        &self,
        _on_disk: &str,
        _text: &str,
        _context: Context<'_>,
    ) -> Result<Option<(HostPath, Vec<u8>)>, Refusal> {
        Ok(None)
    }

    /// Reads a text, or says why it cannot be edited.
    fn read<'a>(&self, text: &'a str, context: Context<'a>) -> Result<Box<dyn Definition + 'a>, Refusal>;

    /// Finds the one file that defines the scheduler, or the one that was asked for.
    fn choose<'a>(&self, candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding>;

    /// What happens after a commit, in a sentence.
    fn what_follows(&self, spec: &SchedulerSpec) -> String;

    /// What makes a new text effective.
    fn activation(&self, spec: &SchedulerSpec) -> Activation;

    /// What must be seen once this text is effective.
    fn expectation(&self, spec: &SchedulerSpec) -> Expectation;

    /// Begins to follow what runs here.
    fn observer(&self, spec: &SchedulerSpec, here: &Here<'_>) -> Box<dyn Observer>;

    /// A preflight of a text, which the scheduler itself judges while the running one goes on; none where this kind has no way
    /// to make one.
    fn preflight(&self, _text: &str, _run: &PreflightRun<'_>) -> Result<Option<PreflightManifest>, Refusal> {
        Ok(None)
    }

    /// Begins to follow a preflight here.
    fn preflight_observer(&self, _identity: &Identity, _here: &Here<'_>) -> Option<Box<dyn PreflightObserver>> {
        None
    }
}

/// A text of a target that was read, to be asked and edited without reading it again. What it gives out is proven.
pub trait Definition: Debug {
    /// What it says about its scheduler, or why it cannot be edited.
    fn spec(&self) -> Result<SchedulerSpec, Refusal>;

    /// The text with our edit; the very same text where all of that is in place.
    fn edit(&self, wanted: &Wanted) -> Result<String, Refusal>;

    /// The text without our edit; the very same text where there is none.
    fn restore(&self) -> Result<String, Refusal>;

    /// The same edit under another generation, for one more commit; with the revision whose failure it follows, if it does.
    fn recommit(&self, generation: u64, rolled_back_from: Option<&str>) -> Result<String, Refusal>;
}

/// What a text says about its scheduler, or why it cannot be edited.
pub fn read(kind: &dyn TargetKind, text: &str, context: Context<'_>) -> Result<SchedulerSpec, Refusal> {
    kind.read(text, context)?.spec()
}

/// The same without our edit, which must not be taken for the target's own will.
pub fn read_original(kind: &dyn TargetKind, text: &str, context: Context<'_>) -> Result<SchedulerSpec, Refusal> {
    let definition = kind.read(text, context)?;
    let spec = definition.spec()?;
    if spec.ours.is_none() { Ok(spec) } else { read(kind, &definition.restore()?, context) }
}
