//! What an edit, composing and an apply cost, against their budgets; `just bench` prints the tables. One program, because
//! linking it as it is shipped takes longer than running it.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::too_many_lines,
    reason = "a benchmark, not the library"
)]

mod apply;
mod compose;
mod edit;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [work, state, size] = args.as_slice() {
        return edit::run(work, state, size.parse().expect("a size"));
    }
    for (name, table) in [("edit", edit::table as fn()), ("compose", compose::table), ("apply", apply::table)] {
        if args.is_empty() || args.iter().any(|arg| arg == name) {
            println!("\n== {name}");
            table();
        }
    }
}

/// Runs a program under callgrind and reads the number of its instructions.
fn instructions(program: &Command) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program.get_program())
        .args(program.get_args())
        .output()
        .expect("valgrind runs: install it with your system's package manager");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let line = log.lines().find(|line| line.contains("Collected")).expect("callgrind counts");
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
}
