//! The faults that `hack/*-faults` plant: each still has its place in the sources.

use std::path::Path;
use std::process::Command;

#[test]
fn every_fault_has_exactly_one_place_in_the_sources() {
    for program in ["hack/rollout-faults", "hack/pin-faults", "hack/unit-faults"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
        let done = match Command::new("python3").arg(&path).arg("--check").output() {
            Ok(done) => done,
            Err(error) => {
                println!("skipped: python3 does not start: {error}");
                return;
            }
        };
        let words = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program}: mend the patterns\n{words}");
    }
}
