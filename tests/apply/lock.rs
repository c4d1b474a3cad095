//! One writer at a time.

use super::host::{APPLY, Host, said};
use schedpatch::apply::{Claim, Lock, RealFs};
use schedpatch::host::Root;
use schedpatch::timestamp::Timestamp;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn who_waits_is_told_for_whom_and_only_as_long_as_asked() {
    let host = Host::new("lock");
    let root = Root::open(&host.root.join("host")).expect("opened");
    let claim = Claim {
        state_dir: "/var/lib/schedpatch",
        command: "run",
        now: Timestamp::from_unix(1_794_853_868),
        timeout: Duration::ZERO,
    };
    let lock = Lock::take(&RealFs, &root, &claim, &mut |_| {}).expect("nobody else has it");
    let begun = Instant::now();
    let said = host.refuses(&["apply", "--source", "a", "--lock-timeout", "300ms"], "locked");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let holder = format!("schedpatch run, process {}", std::process::id());
    assert!(said.contains(&holder) && said.contains("since 2026-11-16T18:31:08Z"), "{said}");
    drop(lock);
    host.ok(&APPLY);
}

#[test]
fn appliers_at_once_take_turns() {
    let host = Host::new("turns");
    let run = |source: &'static str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_clear().current_dir(&host.root).args(["apply", "--source", source, "--host-root", "host"]);
        command.stdout(std::process::Stdio::null()).spawn().expect("started")
    };
    let mut running: Vec<_> = (0..8).map(|number| run(if number % 2 == 0 { "a" } else { "b" })).collect();
    for child in &mut running {
        assert!(child.wait().expect("ended").success());
    }
    assert_eq!(host.status()["drift"], "none");
    assert!(host.status()["inFlight"].is_null());
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn a_lock_that_cannot_be_looked_at_is_an_error_and_no_endless_loop() {
    let host = Host::new("files");
    let script =
        format!("ulimit -n 6; exec \"{}\" apply --source a --host-root host", env!("CARGO_BIN_EXE_schedpatch"));
    let output =
        Command::new("timeout").args(["20", "sh", "-c", &script]).current_dir(&host.root).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}
