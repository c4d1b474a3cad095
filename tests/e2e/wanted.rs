//! What the sources ask for in the tests of the agent.

use std::sync::atomic::{AtomicU64, Ordering};

/// A configuration that differs from every other by its `parallelism`, in the source as in what a scheduler runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(u64);

/// More than the scheduler's own 16.
static NEXT: AtomicU64 = AtomicU64::new(17);

impl Wanted {
    pub fn another() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// One that was made before, perhaps by an earlier run on the same bed.
    pub fn made_before(mark: u64) -> Self {
        NEXT.fetch_max(mark + 1, Ordering::Relaxed);
        Self(mark)
    }

    pub fn mark(self) -> u64 {
        self.0
    }

    /// With the extender of `extender.py`.
    pub fn text(self) -> String {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {}
extenders:
- urlPrefix: http://127.0.0.1:18889
  filterVerb: filter
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 5s
",
            self.0
        )
    }

    /// A configuration that no lint can see to be bad, since what plugins are told is their own affair; the scheduler says so and ends.
    pub fn bad_text(self) -> String {
        format!(
            "{}profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: Nonsense
",
            self.text()
        )
    }
}
