//! The power goes on a real file system: ext4 in a file, copied before and after every sync, mounted, recovered from.
//! Needs root; run by `hack/crash`.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::scenario::{self, Scenario};

/// A file system in a file, mounted for as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path) -> Self {
        fs::create_dir_all(at).expect("a directory");
        shell(&format!("mount -o loop {} {}", image.display(), at.display()));
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        shell(&format!("umount {}", self.0.display()));
    }
}

fn shell(script: &str) {
    let done = Command::new("sh").arg("-ec").arg(script).output().expect("a shell");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs the operation on a mounted image; what the disk holds around every sync is copied.
fn copies(scenario: &Scenario, home: &Path) -> Vec<PathBuf> {
    let image = home.join("disk.img");
    shell(&format!("truncate -s 8M {0} && mkfs.ext4 -q -J size=1 {0}", image.display()));
    let mounted = Mounted::new(&image, &home.join("disk"));
    scenario::copy_tree(&scenario.template, &mounted.0.join("host"));
    shell("sync");
    let count = Cell::new(0);
    let copy = || {
        let to = home.join(format!("copy-{}.img", count.replace(count.get() + 1)));
        shell(&format!("cp --sparse=always {} {}", image.display(), to.display()));
    };
    let root = mounted.0.join("host");
    let sync = |path: &str| {
        copy();
        File::open(root.join(path.trim_start_matches('/'))).expect("it is there").sync_all().expect("synced");
        copy();
    };
    let fs = FaultyFs::with(|call| match call {
        Call::Sync { file } => sync(file),
        Call::SyncDir { dir } => sync(dir),
        _ => {}
    });
    scenario.run(&root, &fs).expect("it runs");
    copy();
    (0..count.get()).map(|number| home.join(format!("copy-{number}.img"))).collect()
}

#[test]
fn power_lost_around_every_sync_on_ext4() {
    let mut disks = 0;
    for scenario in scenario::all("ext4") {
        let home = scenario.template.with_file_name("ext4");
        fs::create_dir_all(&home).expect("a directory");
        let copies = copies(&scenario, &home);
        for (number, copy) in copies.iter().enumerate() {
            let mounted = Mounted::new(copy, &home.join("copy"));
            let root = mounted.0.join("host");
            let fail = |why: String| panic!("{}, disk {number}: {why}\n{}", scenario.name, copy.display());
            scenario.expectation.check_instant(&root).unwrap_or_else(fail);
            scenario.run(&root, &FaultyFs::new(Fault::None)).map_or_else(fail, drop);
            scenario.expectation.check_settled(&root).unwrap_or_else(fail);
            drop(mounted);
            fs::remove_file(copy).expect("removed");
            disks += 1;
        }
        println!("{:<32} {} disks", scenario.name, copies.len());
    }
    println!("ext4: {disks} disks mounted and recovered from, 0 violations");
}
