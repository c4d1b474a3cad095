//! The story that the sandbox shows: a change that works, a change that fails, and the way back.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::kubelet::CRASH;
use super::{CONFIG, MANIFEST};
use crate::apply::RealFs;
use crate::finding::Finding;
use crate::journal::Initiator;
use crate::phase::Phase;
use crate::plan::Direction;
use crate::reconcile::{self, Env, Request};
use crate::report::Report;
use crate::settings::Settings;
use crate::timestamp::Timestamp;

/// Pause between two acts, to read.
const PAUSE: Duration = Duration::from_secs(2);
/// An act takes about ten seconds; one that takes longer was interrupted, for example by a command in another terminal.
const ACT_TIMEOUT: Duration = Duration::from_mins(1);

/// What the story needs to know.
#[derive(Debug)]
pub(super) struct Story {
    pub settings: Settings,
    pub manifest: PathBuf,
    pub source: PathBuf,
    pub endpoint: SocketAddr,
    pub clock: fn() -> Timestamp,
    pub report: watch::Receiver<Report>,
}

impl Story {
    /// Tells the story, then what to try.
    pub async fn tell(mut self) {
        say(&format!(
            "SANDBOX. A throw-away host in {}, with a kubeadm scheduler.\n\
             The kubelet, the API and the scheduler are SIMULATED in this process. The agent and its files are real.\n\
             A story in three acts follows (half a minute), then it is your turn. Ctrl-C ends everything and removes the tree.",
            self.settings.host_root.display(),
        ));
        if let Err(why) = self.acts().await {
            say(&format!("The story ends early: {why}."));
        }
        self.suggest();
    }

    async fn acts(&mut self) -> Result<(), String> {
        say(&format!(
            "1/3 APPLY. The source names an extender at 127.0.0.1:8889. The agent edits the manifest and proves the result.\n\
             Source: {}",
            self.source.display(),
        ));
        let report = self.until(Phase::Ready).await?;
        // whether the extender answers is logged just after Ready
        sleep(PAUSE).await;
        let revision = report.revision.unwrap_or_default();
        say(&format!(
            "    Ready: the running scheduler carries revision {revision}.\n\
             \x20   A warning about the extender means: nothing listens on port 8889 here. It is ignorable, so scheduling goes on."
        ));

        say(&format!(
            "2/3 ROLL BACK. The source now names {CRASH}, with which the simulated scheduler does not start."
        ));
        self.write_source(&CONFIG.replace("127.0.0.1", CRASH))?;
        self.until(Phase::RolledBack).await?;
        say(&format!(
            "    RolledBack: the agent put revision {revision} back and quotes the scheduler's last words in the line above.\n\
             \x20   It does not try the failed revision again until the source changes or you insist."
        ));
        sleep(PAUSE).await;

        say(
            "3/3 RESTORE. Like `schedpatch restore`: our edit leaves the manifest, and the agent holds still until `schedpatch apply`.",
        );
        self.restore().map_err(|finding| finding.message)?;
        self.until(Phase::Restored).await?;
        // under the hold nothing happens when the source gets its first text back
        self.write_source(CONFIG)?;
        sleep(PAUSE).await;
        let is_original = fs::read_to_string(&self.manifest).is_ok_and(|text| text == MANIFEST);
        if !is_original {
            return Err("the manifest is not the original, because somebody else changed it".to_owned());
        }
        say("    Restored: the manifest has its original bytes again.");
        Ok(())
    }

    /// Waits for a phase.
    async fn until(&mut self, phase: Phase) -> Result<Report, String> {
        let waited = timeout(ACT_TIMEOUT, self.report.wait_for(|report| report.node_state.phase == phase)).await;
        match waited {
            Ok(Ok(report)) => Ok(report.clone()),
            Ok(Err(_)) => Err("the agent has stopped".to_owned()),
            Err(_) => Err(format!("the node did not become {} in {} s", phase.name(), ACT_TIMEOUT.as_secs())),
        }
    }

    /// Replaces the source by a rename, so that the agent never reads half of it.
    #[expect(clippy::disallowed_methods, reason = "the sandbox writes to its own temporary tree, not to a host")]
    fn write_source(&self, text: &str) -> Result<(), String> {
        let temp = self.source.with_file_name(".config.yaml.new");
        let written = fs::write(&temp, text).and_then(|()| fs::rename(&temp, &self.source));
        written.map_err(|error| format!("cannot write {}: {error}", self.source.display()))
    }

    fn restore(&self) -> Result<(), Finding> {
        let request = Request::new(&self.settings, Direction::Restore, Initiator::Person, "restore", ACT_TIMEOUT);
        let env = Env { fs: &RealFs, clock: &self.clock };
        let outcome = reconcile::run(&request, &env, &mut |_| {})?;
        outcome.plan.error().cloned().map_or(Ok(()), Err)
    }

    /// Prints commands that work as they are.
    fn suggest(&self) {
        let (program, host) = (program(), self.settings.host_root.display());
        let (source, manifest) = (self.source.display(), self.manifest.display());
        say(&format!(
            "YOUR TURN. The agent keeps running, and its log goes on here. Try in another terminal:\n\
             \x20 {program} status --host-root {host}\n\
             \x20 {program} plan --host-root {host} --source {source}      # what apply would change\n\
             \x20 {program} apply --host-root {host} --source {source}      # ends the hold; the agent proves the result\n\
             \x20 cat {manifest}\n\
             \x20 sed -i s/8889/9999/ {source}      # another configuration: the agent applies it\n\
             \x20 sed -i s/127.0.0.1/another.{CRASH}/ {source}      # one that fails: the agent rolls back\n\
             \x20 curl 'http://{endpoint}/readyz?verbose'\n\
             \x20 {program} restore --host-root {host}      # the original bytes again",
            endpoint = self.endpoint,
        ));
    }
}

/// Prints a part of the story, apart from the log lines around it.
fn say(text: &str) {
    // a reader that is gone is no reason to stop
    let _ = writeln!(io::stderr(), "\n{text}");
}

/// How this program was called, so that the commands work as they are printed, in whatever directory the other terminal is.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "schedpatch".to_owned());
    let is_path = called.contains('/');
    std::path::absolute(&called).ok().filter(|_| is_path).map_or(called, |path| path.display().to_string())
}
