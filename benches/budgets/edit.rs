//! Instructions per edit, counted by callgrind: the same on every run and every load, so commits can be compared.
//!
//! The program runs itself under valgrind, once per line and once more for what the line does not measure (process start,
//! making the input), which is subtracted.

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;

use schedpatch::target::Wanted;
use schedpatch::target::static_pod::{self, Draft};

use crate::instructions;

const SIZES: [usize; 4] = [1_400, 7_600, 63_000, 630_000];
const STATES: [&str; 3] = ["unpatched", "patched", "older"];
/// Nothing, the edit alone, the edit and its proof.
const WORK: [&str; 3] = ["none", "edit", "proof"];

/// What an edit may cost: instructions for a manifest as kubeadm writes it, alone and with its proof.
const BUDGET: (u64, u64) = (1_000_000, 3_000_000);
/// How much more a byte may cost in the largest manifest than in the second largest, in percent.
const GROWTH: u64 = 120;

/// Measures everything, and fails when the budget is passed.
pub fn table() {
    let mut per_byte_of_edit = Vec::new();
    println!("instructions per edit; patched: nothing to do; older: another revision over an earlier one");
    println!(
        "{:>9}  {:<10} {:>12} {:>8} {:>14} {:>8}",
        "bytes", "state", "edit", "per byte", "edit + proof", "per byte"
    );
    for size in SIZES {
        for state in STATES {
            let bytes = input(state, size).len();
            let [none, edit, proof] = WORK.map(|work| count(work, state, size));
            let per_byte = |count: u64| count as f64 / bytes as f64;
            let (edit, proof) = (edit - none, proof - none);
            if state == "unpatched" {
                per_byte_of_edit.push(edit * 1000 / bytes as u64);
            }
            // an edit over an earlier one reads two texts, 3.9 KB in all: its figure is printed, not held
            if size == SIZES[0] && state != "older" {
                assert!(edit <= BUDGET.0 && proof <= BUDGET.1, "over budget: {edit} alone, {proof} with proof");
            }
            println!("{bytes:>9}  {state:<10} {edit:>12} {:>8.0} {proof:>14} {:>8.0}", per_byte(edit), per_byte(proof));
        }
    }
    let (large, largest) = (per_byte_of_edit[SIZES.len() - 2], per_byte_of_edit[SIZES.len() - 1]);
    assert!(
        largest * 100 <= large * GROWTH,
        "not linear: {large} and {largest} thousandths of an instruction per byte"
    );
    println!("within the budget of {} and {} instructions, and linear", BUDGET.0, BUDGET.1);
}

fn count(work: &str, state: &str, size: usize) -> u64 {
    let own = std::env::current_exe().expect("this program has a path");
    instructions(Command::new(own).args([work, state, &size.to_string()]))
}

/// What one line measures.
pub fn run(work: &str, state: &str, size: usize) {
    let text = input(state, size);
    let wanted = wanted("0123456789ab");
    match work {
        "edit" => drop(black_box(static_pod::patch(black_box(&text), &wanted).expect("it can be edited"))),
        "proof" => {
            let draft = static_pod::patch(black_box(&text), &wanted).expect("it can be edited");
            black_box(draft.prove().expect("it can be proven"));
        }
        _ => drop(black_box(text)),
    }
}

fn wanted(revision: &str) -> Wanted {
    Wanted {
        revision: revision.to_owned(),
        generation: 1,
        config_dir: format!("/var/lib/schedpatch/revisions/{revision}"),
        image: None,
        command: None,
        run_as_user: None,
        dns_policy: None,
        args: Vec::new(),
        mounts: Vec::new(),
    }
}

fn input(state: &str, size: usize) -> String {
    let text = manifest(size);
    let patched =
        |revision| static_pod::patch(&text, &wanted(revision)).and_then(Draft::prove).expect("it can be edited");
    match state {
        "patched" => patched("0123456789ab"),
        "older" => patched("ba9876543210"),
        _ => text,
    }
}

/// What kubeadm writes, grown to a size with what grows in practice: flags, environment, mounts and volumes.
fn manifest(size: usize) -> String {
    let part = size.saturating_sub(1_400) / 4;
    let grown = |line: fn(usize) -> String| {
        let mut lines = String::new();
        for number in 0.. {
            if lines.len() >= part {
                break;
            }
            let _ = write!(lines, "{}", line(number));
        }
        lines
    };
    let flags = grown(|n| format!("    - --feature-gates=Gate{n}=true\n"));
    let env = grown(|n| format!("    - name: VARIABLE_{n}\n      value: \"some value {n}\"\n"));
    let mounts =
        grown(|n| format!("    - mountPath: /etc/ssl/certs/{n}\n      name: certs-{n}\n      readOnly: true\n"));
    let volumes = grown(|n| {
        format!("  - hostPath:\n      path: /etc/ssl/certs/{n}\n      type: DirectoryOrCreate\n    name: certs-{n}\n")
    });
    let env = if env.is_empty() { env } else { format!("    env:\n{env}") };
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
{flags}{env}    image: registry.k8s.io/kube-scheduler:v1.31.2
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /healthz
        port: 10259
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: kube-scheduler
    resources:
      requests:
        cpu: 100m
    startupProbe:
      failureThreshold: 24
      httpGet:
        host: 127.0.0.1
        path: /healthz
        port: 10259
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
{mounts}  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
{volumes}status: {{}}
"
    )
}
