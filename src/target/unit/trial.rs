//! The place of a trial: a drop-in of systemd that a restart of the host forgets. Pure.

/// Name of our drop-in.
const NAME: &str = "90-schedpatch.conf";

/// Where the drop-in of a unit is.
pub fn path(unit: &str) -> String {
    format!("/run/systemd/system/{unit}.d/{NAME}")
}
