//! The program as the kernel sees it, through strace: killed before every call that changes a file, and failing at it.
//! Run by `hack/crash`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::rng::Rng;
use crate::support::scenario::{self, Scenario};
use crate::support::{Effort, effort};

/// Every call with which Linux lets a program change files and directories, or make changes last.
const CHANGING: &str = "creat,open,openat,openat2,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,\
symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,truncate,ftruncate,fallocate,setxattr,lsetxattr,fsetxattr,\
removexattr,lremovexattr,fremovexattr,write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,splice,mknod,mknodat,\
utime,utimes,futimesat,utimensat,fsync,fdatasync,sync,syncfs,sync_file_range,mount,umount2,pivot_root,io_uring_setup";

const ERRNOS: [&str; 7] = ["ENOSPC", "EIO", "EROFS", "EACCES", "EDQUOT", "EINTR", "EMFILE"];

/// Pairs of kills per scenario, where not all are tried.
const PAIRS: usize = 15;

/// A call that changes a file.
#[derive(Clone, Debug)]
struct Traced {
    syscall: String,
    /// The how-manieth call of this name it is, from 1, as strace counts
    number: usize,
    /// What it is, in the words of `HostFs`, and the last part of the name
    meaning: (&'static str, String),
}

/// Runs the program under strace, and gives what strace wrote.
fn strace(scenario: &Scenario, root: &Path, inject: Option<&str>) -> (Option<i32>, String) {
    let log = root.with_file_name("strace.log");
    let mut command = Command::new("strace");
    command.arg("-f").arg("-s").arg("300").arg("-o").arg(&log).arg("-e").arg(format!("trace={CHANGING}"));
    if let Some(inject) = inject {
        command.arg("-e").arg(format!("inject={inject}"));
    }
    let output = command.arg(env!("CARGO_BIN_EXE_schedpatch")).args(scenario.flags(root)).env_clear().output();
    let output = output.expect("strace runs: hack/crash installs it");
    (output.status.code(), fs::read_to_string(&log).expect("strace wrote its log"))
}

fn run(scenario: &Scenario, root: &Path) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_schedpatch")).args(scenario.flags(root)).env_clear().output();
    let output = output.expect("the program runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The calls of a log that change a file, in order.
fn parse(log: &str) -> Vec<Traced> {
    let mut counts = std::collections::BTreeMap::new();
    let mut found = Vec::new();
    for line in log.lines() {
        let call = line.split_once(' ').map_or(line, |(_, call)| call).trim_start();
        let Some((syscall, args)) = call.split_once('(') else { continue };
        let number = counts.entry(syscall.to_owned()).or_insert(0);
        *number += 1;
        if let Some(meaning) = meaning(syscall, args) {
            found.push(Traced { syscall: syscall.to_owned(), number: *number, meaning });
        }
    }
    found
}

/// What a call does, in the words of `HostFs`; none for reading and for printing.
fn meaning(syscall: &str, args: &str) -> Option<(&'static str, String)> {
    let quoted: Vec<&str> = args.split('"').skip(1).step_by(2).collect();
    let name = |index: usize| quoted.get(index).unwrap_or(&"").rsplit('/').next().unwrap_or_default().to_owned();
    match syscall {
        "openat" | "openat2" | "open" | "creat" => {
            let changes = ["O_CREAT", "O_TRUNC", "O_TMPFILE"].iter().any(|flag| args.contains(flag));
            changes.then(|| (if args.contains("O_EXCL") { "create" } else { "lock" }, name(0)))
        }
        "mkdirat" => Some(("make dir", name(0))),
        "write" if args.starts_with("1, ") || args.starts_with("2, ") => None,
        "write" => Some(("write", String::new())),
        "fchown" => Some(("owner", String::new())),
        "fchmod" => Some(("mode", String::new())),
        "fsetxattr" => Some(("label", String::new())),
        "fsync" => Some(("sync", String::new())),
        "renameat" => Some(("rename", name(1))),
        "unlinkat" if args.contains("AT_REMOVEDIR") => Some(("remove dir", name(0))),
        "unlinkat" => Some(("remove", name(0))),
        _ => Some(("NOT THROUGH THE DOOR", syscall.to_owned())),
    }
}

/// The same of a call through `HostFs`.
fn in_words(call: &Call) -> (&'static str, String) {
    match call {
        Call::MakeDir { name, .. } => ("make dir", name.clone()),
        Call::Create { name, .. } => ("create", name.clone()),
        Call::OpenLock { name, .. } => ("lock", name.clone()),
        Call::Write { .. } => ("write", String::new()),
        Call::SetOwner { .. } => ("owner", String::new()),
        Call::SetMode { .. } | Call::SetDirMode { .. } => ("mode", String::new()),
        Call::SetLabel { .. } => ("label", String::new()),
        Call::Sync { .. } | Call::SyncDir { .. } => ("sync", String::new()),
        Call::Rename { to, .. } => ("rename", to.clone()),
        Call::RemoveFile { name, .. } => ("remove", name.clone()),
        Call::RemoveDir { name, .. } => ("remove dir", name.clone()),
    }
}

fn traced(scenario: &Scenario) -> Vec<Traced> {
    let (code, log) = strace(scenario, &scenario.host("traced"), None);
    assert_eq!(code, Some(0), "{}: {log}", scenario.name);
    parse(&log)
}

fn recover(scenario: &Scenario, root: &Path) -> Result<(), String> {
    run(scenario, root).map_err(|why| format!("recovery: {why}"))?;
    scenario.expectation.check_settled(root).map_err(|why| format!("after recovery: {why}"))
}

fn fail(scenario: &Scenario, root: &Path, what: &str, why: &str) -> ! {
    panic!("{}, {what}: {why}\nthe host is in {}", scenario.name, root.display())
}

#[test]
fn no_call_bypasses_host_fs() {
    let mut calls = 0;
    for scenario in scenario::all("bypass") {
        let fs = FaultyFs::new(Fault::None);
        scenario.run(&scenario.host("fs"), &fs).expect("it runs");
        let through: Vec<_> = fs.calls().iter().map(in_words).collect();
        let made: Vec<_> = traced(&scenario).into_iter().map(|call| call.meaning).collect();
        assert_eq!(made, through, "{}: the kernel saw the left, `HostFs` the right", scenario.name);
        calls += made.len();
    }
    println!("HostFs: {calls} calls that change files in 7 operations, all of them through it");
}

#[test]
fn killed_before_every_call_that_changes_a_file() {
    let (mut points, mut pairs) = (0, 0);
    for scenario in scenario::all("strace-kill") {
        let calls = traced(&scenario);
        for call in &calls {
            let root = scenario.host("one");
            let what = format!("killed before {} number {}", call.syscall, call.number);
            kill(&scenario, &root, call);
            scenario.expectation.check_instant(&root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
            recover(&scenario, &root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
            points += 1;
        }
        println!("{:<32} killed before each of {} calls", scenario.name, calls.len());
        let mut rng = Rng::new(11);
        let chosen: Vec<(usize, usize)> = if effort() == Effort::All {
            (0..calls.len()).flat_map(|first| (0..calls.len()).map(move |second| (first, second))).collect()
        } else {
            (0..PAIRS).map(|_| (rng.below(calls.len()), rng.below(calls.len()))).collect()
        };
        for (first, second) in chosen {
            let root = scenario.host("two");
            let what = format!("killed before {first}, and in recovery before {second}");
            kill(&scenario, &root, &calls[first]);
            // recovery makes other calls; where it makes fewer, nobody is killed
            let _ = strace(&scenario, &root, Some(&injected(&calls[second], "signal=KILL")));
            scenario.expectation.check_instant(&root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
            recover(&scenario, &root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
            pairs += 1;
        }
    }
    println!("strace, kills: {points} points and {pairs} pairs, 0 violations");
}

fn injected(call: &Traced, what: &str) -> String {
    format!("{}:{what}:when={}", call.syscall, call.number)
}

fn kill(scenario: &Scenario, root: &Path, call: &Traced) {
    let (code, log) = strace(scenario, root, Some(&injected(call, "signal=KILL")));
    assert!(code.is_none() || code == Some(137), "{}: nobody was killed at {call:?}\n{log}", scenario.name);
}

#[test]
fn every_error_at_every_call_that_changes_a_file() {
    let (mut points, mut told) = (0, 0);
    for scenario in scenario::all("strace-errors") {
        for (at, call) in traced(&scenario).iter().enumerate() {
            for (number, errno) in ERRNOS.into_iter().enumerate() {
                if effort() < Effort::All && (at + number) % ERRNOS.len() >= 2 {
                    continue;
                }
                let root = scenario.host("one");
                let what = format!("{errno} at {} number {}", call.syscall, call.number);
                let (code, _) = strace(&scenario, &root, Some(&injected(call, &format!("error={errno}"))));
                assert!(matches!(code, Some(0 | 1)), "{}, {what}: exit code {code:?}", scenario.name);
                told += usize::from(code == Some(1));
                scenario.expectation.check_instant(&root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
                recover(&scenario, &root).unwrap_or_else(|why| fail(&scenario, &root, &what, &why));
                points += 1;
            }
        }
    }
    println!("strace, errors: {points} points, {told} told with exit code 1, the rest mended on the way, 0 violations");
}

/// A small file system of its own, for as long as this lives.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf) -> Self {
        fs::create_dir_all(&at).expect("a directory");
        shell(&format!("mount -t tmpfs -o size=256k,nr_inodes=200 none {}", at.display()));
        Self(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        shell(&format!("umount {}", self.0.display()));
    }
}

fn shell(script: &str) {
    let done = Command::new("sh").arg("-ec").arg(script).status().expect("a shell");
    assert!(done.success(), "{script}");
}

/// A real full disk: the less room, the earlier it fails.
#[test]
fn a_full_disk_is_told_and_nothing_is_changed() {
    let scenario = scenario::all("full").into_iter().next().expect("the first story");
    let small = Small::new(scenario.template.with_file_name("full"));
    let (at, from, home) = (small.0.display(), scenario.template.display(), small.0.as_path());
    shell(&format!("cp -a {from}/. {at}"));
    let (mut sizes, mut told) = (0, 0);
    for free in (0..=48).rev().step_by(4) {
        shell(&format!("rm -rf {at}/fill {at}/var/lib/schedpatch && cp -a {from}/etc/. {at}/etc"));
        shell(&format!(
            "n=$(($(df --output=avail -k {at} | tail -1) - {free})); [ $n -le 0 ] || head -c ${{n}}k /dev/zero > {at}/fill"
        ));
        if let Err(why) = run(&scenario, home) {
            assert!(why.contains("Free some space"), "{why}");
            told += 1;
        }
        scenario.expectation.check_instant(home).unwrap_or_else(|why| fail(&scenario, home, "full", &why));
        shell(&format!("rm -f {at}/fill"));
        recover(&scenario, home).unwrap_or_else(|why| fail(&scenario, home, "room again", &why));
        sizes += 1;
    }
    assert!(told > 3, "the disk was never full");
    println!("full disk: {sizes} sizes, {told} times too small and told, {sizes} times recovered with room");
}
