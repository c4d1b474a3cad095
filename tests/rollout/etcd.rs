//! A change that restarts a member of etcd: on k3s the server is one process.

use std::time::Duration;

use schedpatch::rollout::{NextStep, OtherEtcd, OwnEtcd, Waiting, Why};

use crate::scene::{Scene, scene};
use crate::world::LIMITS;

/// Three servers with etcd, and nothing that shows a scheduler.
fn servers() -> Scene {
    let mut scene = scene();
    scene.me.etcd = OwnEtcd { restarts: true, may_lose_quorum: false };
    for other in &mut scene.others {
        other.etcd = OtherEtcd { runs: true, is_cordoned: false };
        other.scheduler = schedpatch::rollout::Scheduler::default();
        other.is_server = true;
    }
    scene.waited.members = LIMITS.quorum;
    scene
}

#[test]
fn a_server_goes_once_all_other_members_were_there_for_a_minute() {
    let mut scene = servers();
    scene.writes(Why::TakeTurn);
    scene.waited.members = LIMITS.quorum.saturating_sub(Duration::from_secs(1));
    assert_eq!(scene.step(), NextStep::Wait(Waiting::Quorum { node: None }));
}

#[test]
fn a_member_that_is_not_ready_or_cordoned_keeps_the_others_from_going() {
    let mut scene = servers();
    scene.others[1].is_ready = false;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::Quorum { node: Some("cp3".to_owned()) }));
    scene.others[1].is_ready = true;
    scene.others[0].etcd.is_cordoned = true;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::Quorum { node: Some("cp2".to_owned()) }));
    // a server without a member of etcd does not matter
    scene.others[0].etcd.runs = false;
    scene.others[1].etcd.runs = false;
    scene.writes(Why::TakeTurn);
}

#[test]
fn of_two_members_none_goes_without_consent() {
    let mut scene = servers();
    scene.others.truncate(1);
    assert_eq!(scene.step(), NextStep::Wait(Waiting::TwoMembers));
    scene.me.etcd.may_lose_quorum = true;
    scene.writes(Why::TakeTurn);
    scene.others[0].is_ready = false;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::Quorum { node: Some("cp2".to_owned()) }));
}

#[test]
fn a_turn_that_is_not_used_yet_is_given_back_when_a_member_goes() {
    let mut scene = servers().with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    scene.others[0].is_ready = false;
    assert_eq!(scene.writes(Why::GiveBack).entry, None);
}

#[test]
fn a_lost_turn_of_a_server_that_nobody_can_see_is_kept() {
    let mut scene = servers().with_turn_of("cp2", "theirs");
    scene.waited.turn = LIMITS.takeover * 10;
    scene.waited.holder = LIMITS.clear * 10;
    scene.waited.has_holder_reported = true;
    assert!(
        matches!(scene.step(), NextStep::Wait(Waiting::Turn { .. })),
        "only its own agent, its removal or a person ends it"
    );
    scene.others.remove(0);
    assert_eq!(scene.writes(Why::TakeOver).entry, None);
}

#[test]
fn a_change_that_stops_the_api_waits_whether_more_follows() {
    let mut scene = servers();
    scene.me.may_want_more = true;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::MoreMayFollow));
    scene.me.may_want_more = false;
    scene.writes(Why::TakeTurn);
}

/// Two servers whose data is elsewhere.
fn servers_on_a_database() -> Scene {
    let mut scene = servers();
    scene.me.etcd = OwnEtcd::default();
    scene.others.truncate(1);
    scene.others[0].etcd = OtherEtcd::default();
    scene
}

#[test]
fn the_last_server_is_not_restarted_while_another_one_is_down_or_cordoned() {
    let mut scene = servers_on_a_database();
    scene.writes(Why::TakeTurn);
    scene.others[0].is_ready = false;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::LastHealthy));
    scene.others[0].is_ready = true;
    scene.others[0].etcd.is_cordoned = true;
    assert_eq!(scene.step(), NextStep::Wait(Waiting::LastHealthy));
    scene.waited.health = LIMITS.patience;
    scene.writes(Why::TakeTurn);
}

#[test]
fn a_server_gives_its_turn_back_when_it_has_become_the_last_one_that_serves() {
    let mut scene = servers_on_a_database().with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    scene.others[0].is_ready = false;
    assert_eq!(scene.writes(Why::GiveBack).entry, None);
}

#[test]
fn a_server_that_does_not_serve_itself_waits_for_nobody() {
    let mut scene = servers_on_a_database();
    scene.me.is_healthy = false;
    scene.others[0].is_ready = false;
    scene.writes(Why::TakeTurn);
}
