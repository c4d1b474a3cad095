//! Fingerprint: whether a look would see something new, for less than a look.

use std::fs;
use std::path::Path;

use crate::support::scenario;
use schedpatch::observe::{self, Fingerprint};

type Change<'a> = (&'static str, Box<dyn Fn(&Path) + 'a>);

#[test]
fn every_change_that_a_look_would_see_moves_the_marks() {
    let scenario = scenario::all("marks").swap_remove(1);
    let root = scenario.host("marked");
    let settings = scenario.settings(&root);
    let snapshot = observe::take_snapshot(&settings).expect("it can be read");
    let marks = || Fingerprint::of(&settings, &snapshot);
    let before = marks();
    assert!(before.is_some() && before == marks(), "nothing has changed");

    let source = settings.sources[0].clone();
    let revision = snapshot.state.revision_files.keys().next().expect("a revision").trim_start_matches('/').to_owned();
    let changed: [Change<'_>; 7] = [
        ("the manifest in place", Box::new(|root| append(&scenario.target(root)))),
        (
            "a neighbour",
            Box::new(|root| fs::write(scenario.target(root).with_file_name("new.yaml"), "").expect("written")),
        ),
        ("the journal", Box::new(|root| append(&root.join("var/lib/schedpatch/state.json")))),
        ("a file of a revision", Box::new(|root| append(&root.join(&revision)))),
        ("a text", Box::new(|root| fs::write(root.join("var/lib/schedpatch/texts/x"), "").expect("written"))),
        ("a source", Box::new(|_| append(&source.join("config.yaml")))),
        ("a new source", Box::new(|_| fs::write(source.join("another.txt"), "").expect("written"))),
    ];
    for (what, change) in changed {
        let before = marks();
        // the system's clock for files has ticks
        std::thread::sleep(std::time::Duration::from_millis(20));
        change(&root);
        assert_ne!(before, marks(), "{what}");
    }
    fs::remove_file(scenario.target(&root)).expect("removed");
    assert_eq!(marks(), None, "who cannot see all must look");
}

fn append(path: &Path) {
    let text = fs::read(path).expect("there");
    fs::write(path, [text.as_slice(), b"\n"].concat()).expect("written");
}
