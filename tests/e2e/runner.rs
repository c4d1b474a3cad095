//! Runs the tests on a bed, one after the other, and reports.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::Cluster;
use crate::control_plane::ControlPlane;
use crate::options::{Options, Suite};

/// A test and when it is run.
#[derive(Clone, Copy)]
pub struct Test {
    pub name: &'static str,
    pub pace: Pace,
    pub run: fn(&ControlPlane),
}

/// Whether a test takes minutes, and so needs `--all`.
#[derive(Clone, Copy)]
pub enum Pace {
    Quick,
    Slow,
    /// Slow before this minor version of Kubernetes
    SlowBefore(u32),
}

/// Lists tests by the names of their functions.
#[macro_export]
macro_rules! tests {
    ($($pace:ident $(($minor:literal))? $name:ident),* $(,)?) => {
        &[$($crate::runner::Test { name: stringify!($name), pace: $crate::runner::Pace::$pace $(($minor))?, run: $name }),*]
    };
}

/// A signal came: the bed is being taken down.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Where a panic happened, which only its hook is told.
static PLACE: Mutex<String> = Mutex::new(String::new());

pub fn main(suite: impl Fn(Suite) -> Vec<Test>) -> ExitCode {
    let options = Options::parse();
    let tests = suite(options.suite);
    let names: HashSet<_> = tests.iter().map(|test| test.name).collect();
    assert_eq!(names.len(), tests.len(), "two tests have the same name");
    let chosen: Vec<Test> = tests.iter().copied().filter(|test| is_chosen(test, &options.filters)).collect();
    if chosen.is_empty() {
        eprintln!("hack/e2e: no test is called like that: {} (see hack/e2e --list)", options.filters.join(", "));
        return ExitCode::from(2);
    }
    if options.list {
        for test in &chosen {
            println!("{}{}", sentence(test), remark(test));
        }
        return ExitCode::SUCCESS;
    }
    let name = options.name.clone().unwrap_or_else(|| format!("e2e-{}", std::process::id()));
    take_down_when_interrupted(&name, options.keep);
    let begin = Instant::now();
    let (passed, mut failed) =
        panic::catch_unwind(AssertUnwindSafe(|| run(&chosen, &options, &name))).unwrap_or_else(|reason| {
            println!("FAILED  the control_plane could not be set:\n{}", words(reason.as_ref()));
            (0, chosen.len())
        });
    give_way_when_interrupted();
    if options.keep {
        let testbed = "hack/testbed/testbed";
        println!("\nthe bed stays: {testbed} exec --name {name} cp1 bash; {testbed} down --name {name}");
    } else if !Cluster::down(&name) {
        println!("FAILED  the bed could not be taken down: hack/testbed/testbed down --name {name}");
        failed += 1;
    }
    println!("\n{:.0} s in all, with the bed\n{passed} passed, {failed} failed", begin.elapsed().as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many passed and failed.
fn run(chosen: &[Test], options: &Options, name: &str) -> (usize, usize) {
    let bed = match Cluster::up(name, options.version.as_deref(), options.suite.nodes()) {
        Ok(bed) => bed,
        Err(error) => {
            println!("FAILED  the cluster: {error}");
            return (0, chosen.len());
        }
    };
    let minor = bed.minor();
    let (now, left_out): (Vec<_>, Vec<_>) = chosen.iter().partition(|test| options.all || !is_slow(test, minor));
    println!("\n{} tests on Kubernetes {}, bed {}", now.len(), bed.version(), bed.name());
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if let Ok(mut noted) = PLACE.lock() {
            *noted = place;
        }
    }));
    let control_plane = ControlPlane::set(bed);
    let passed = now.iter().filter(|test| passes(test, &control_plane, options.verbose)).count();
    for test in &left_out {
        println!("left out          {}{}", sentence(test), remark(test));
    }
    (passed, now.len() - passed)
}

fn passes(test: &Test, control_plane: &ControlPlane, verbose: bool) -> bool {
    let begin = Instant::now();
    control_plane.cluster.take_notes();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (test.run)(control_plane)));
    let time = begin.elapsed().as_secs_f64();
    give_way_when_interrupted();
    match outcome {
        Ok(()) => {
            println!("ok      {time:6.1} s  {}", sentence(test));
            if verbose {
                tell_notes(control_plane);
            }
        }
        Err(ref reason) => {
            println!("FAILED  {time:6.1} s  {}\n\n{}", sentence(test), words(reason.as_ref()));
            println!("  at {}", PLACE.lock().map(|place| place.clone()).unwrap_or_default());
            tell_notes(control_plane);
            for (component, lines) in [("kube-scheduler", 15), ("kubelet", 30)] {
                println!("\n== the end of {component}'s log\n{}", control_plane.node().log_end(component, lines));
            }
            println!();
        }
    }
    outcome.is_ok()
}

fn tell_notes(control_plane: &ControlPlane) {
    println!(
        "\n== what was done, in seconds since the bed was up\n{}\n",
        control_plane.cluster.take_notes().join("\n")
    );
}

fn words(reason: &(dyn Any + Send)) -> String {
    let text = reason.downcast_ref::<String>().map(String::as_str).or_else(|| reason.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The tests hang on the bed, so it goes first.
fn take_down_when_interrupted(name: &str, keep: bool) {
    let name = name.to_owned();
    std::thread::spawn(move || {
        let interrupted = async {
            let [mut hup, mut int, mut term] = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()]
                .map(|kind| signal(kind).expect("signals can be caught"));
            tokio::select! { _ = hup.recv() => {}, _ = int.recv() => {}, _ = term.recv() => {} }
        };
        let waiting =
            tokio::runtime::Builder::new_current_thread().enable_io().build().expect("signals can be awaited");
        waiting.block_on(interrupted);
        INTERRUPTED.store(true, Ordering::SeqCst);
        eprintln!("hack/e2e: interrupted: {}", if keep { "the bed stays" } else { "taking the bed down" });
        Cluster::stop_coming_up();
        let gone = keep || Cluster::down(&name);
        #[allow(clippy::exit, reason = "the tests cannot be stopped otherwise")]
        std::process::exit(if gone { 130 } else { 1 });
    });
}

/// What fails without its bed is not worth a report; the other thread ends the program.
fn give_way_when_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

fn is_chosen(test: &Test, filters: &[String]) -> bool {
    let matches = |filter: &String| test.name.contains(filter.as_str()) || sentence(test).contains(filter.as_str());
    filters.is_empty() || filters.iter().any(matches)
}

fn is_slow(test: &Test, minor: u32) -> bool {
    match test.pace {
        Pace::Quick => false,
        Pace::Slow => true,
        Pace::SlowBefore(first) => minor < first,
    }
}

fn sentence(test: &Test) -> String {
    test.name.replace('_', " ")
}

fn remark(test: &Test) -> String {
    match test.pace {
        Pace::Quick => String::new(),
        Pace::Slow => " (slow: --all)".to_owned(),
        Pace::SlowBefore(minor) => format!(" (slow before 1.{minor}: --all)"),
    }
}
