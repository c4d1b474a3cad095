//! The whole agent on a kind of target that is no static pod: what nobody notices by itself is restarted, judged and rolled back.

use std::fs;
use std::time::Duration;

use schedpatch::phase::Phase;
use schedpatch::plan::Direction;

use crate::node::{Node, config, story};
use crate::support::unit_kind::{PATH, PLATFORMS, TEXT, restarts, running};

fn unit(node: &mut Node) {
    node.settings.platforms = PLATFORMS;
    node.options.limits.timeout = Duration::from_mins(1);
    let root = node.dir.join("host");
    for dir in ["etc/units", "run"] {
        fs::create_dir_all(root.join(dir)).expect("made");
    }
    for file in [PATH.trim_start_matches('/'), "run/text"] {
        fs::write(root.join(file), TEXT).expect("written");
    }
    fs::write(root.join("run/instance"), "start-0").expect("written");
}

#[test]
fn a_restarted_scheduler_is_proven_rolled_back_and_restored() {
    story(|mut node| async move {
        unit(&mut node);
        let root = node.dir.join("host");
        let text = || fs::read_to_string(root.join(PATH.trim_start_matches('/'))).expect("the unit is there");
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        assert_eq!((restarts(&root), running(&root, "text")), (1, text()));
        let good = node.journal().last_good.expect("it is proven").revision;

        node.source(&config("slow."));
        node.until(Phase::RolledBack, 300).await;
        assert_eq!(restarts(&root), 3, "one for the trial, one for the way back");
        assert!(text().contains(&good) && running(&root, "text") == text());
        assert_eq!(node.journal().bad.len(), 1);

        // the way back is finished even when the restart fails at first, and nothing is blamed for that
        node.source(&config("slow.two"));
        node.until(Phase::Verifying, 60).await;
        fs::write(root.join("run/refused"), "").expect("written");
        node.pass(200).await;
        fs::remove_file(root.join("run/refused")).expect("removed");
        node.until(Phase::RolledBack, 600).await;
        assert_eq!((restarts(&root), running(&root, "text")), (5, text()));

        node.as_person(Direction::Restore, false).expect("restored");
        assert_eq!((text().as_str(), running(&root, "text").as_str(), restarts(&root)), (TEXT, TEXT, 6));
        node.until(Phase::Restored, 60).await;
        assert_eq!(restarts(&root), 6, "nothing restarts what is settled");
    });
}
