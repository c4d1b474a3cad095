//! A life without faults: install, change, failure, rollback, restore.

use schedpatch::phase::Phase;
use schedpatch::plan::Direction;

use crate::node::{MANIFEST, config, story};

#[test]
fn a_configuration_is_applied_proven_changed_rolled_back_and_restored() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let first = node.revision().expect("ours");

        node.source(&config("two"));
        node.until(Phase::Applying, 5).await;
        node.until(Phase::Ready, 60).await;
        let second = node.revision().expect("ours");
        assert_ne!(first, second);

        node.source(&config("crash."));
        node.until(Phase::Verifying, 5).await;
        let failed = node.revision().expect("ours");
        let report = node.until(Phase::RolledBack, 120).await;
        assert_eq!(node.revision().as_ref(), Some(&second));
        assert!(report.node_state.message.contains("the extender crash. is refused"), "{}", node.message());
        let says = [
            format!("revision {failed} failed"),
            "Change the configuration, or".to_owned(),
            "schedpatch rollout retry".to_owned(),
        ];
        for words in says {
            assert!(report.node_state.message.contains(&words), "{words}: {}", node.message());
        }

        node.as_person(Direction::Restore, false).expect("restored");
        node.until(Phase::Restored, 60).await;
        assert_eq!(node.manifest(), MANIFEST);
    });
}

#[test]
fn the_nodes_events_tell_the_story() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        node.pass(5).await;
        let events = node.api.events();
        assert!(events.iter().any(|(_, note)| note.contains("the extender crash. is refused")), "{events:#?}");
    });
}
