//! What must hold whatever happens, and what must come about once nothing happens any more.

use schedpatch::revision::Digest;
use schedpatch::rollout::{ChangeKind, Record, Why};

use crate::agent::short;
use crate::world::{Health, Node, Phase, Quality, World, digest};

/// After every step.
pub fn always(world: &World) -> Result<(), String> {
    let changing = world.in_change();
    if changing.len() > 1 {
        return Err(format!("two schedulers are in change: {changing:?}"));
    }
    let good =
        (0..world.quality.len()).find(|number| !world.was_bad[*number] && world.record.has_failed(digest(*number)));
    good.map_or(Ok(()), |number| Err(format!("{} is good and is recorded as failed", short(Some(digest(number))))))
}

/// Of every write that begins something.
pub fn write(world: &World, number: usize, record: &Record, why: Why) -> Result<(), String> {
    let Some(entry) = record.entry.as_ref().filter(|_| why == Why::TakeTurn) else { return Ok(()) };
    let in_place = world.nodes[number].journal.in_place;
    match (entry.change, entry.digest) {
        (ChangeKind::New, Some(wanted)) if world.record.has_failed(wanted) => {
            Err("a failed digest is begun".to_owned())
        }
        (ChangeKind::Back, _) if in_place.is_some() && in_place == world.record.sealed => {
            Err("a node turns back from the sealed digest".to_owned())
        }
        (ChangeKind::Back, Some(to)) if world.record.has_failed(to) => {
            Err("the way back leads to a failed digest".to_owned())
        }
        (ChangeKind::New, _) if world.record.paused => Err("a change begins during a pause".to_owned()),
        _ => Ok(()),
    }
}

/// Of every commit: never the last healthy scheduler while another one starts. The kubelets' reports of the others
/// may be some seconds old.
pub fn commit(world: &World, number: usize) -> Result<(), String> {
    let node = &world.nodes[number];
    let others = || world.nodes.iter().enumerate().filter(|(other, node)| *other != number && !node.is_lost);
    let is_recent = |since: std::time::Duration| world.clock.saturating_sub(since).as_secs() < 4;
    let others_run = others().any(|(_, other)| other.health == Health::Healthy || is_recent(other.health_since));
    let starts = others().any(|(_, other)| other.health == Health::Starting && other.kubelet_has_api);
    if node.health == Health::Healthy && !others_run && starts {
        return Err("the last healthy scheduler is changed while another starts".to_owned());
    }
    Ok(())
}

/// What a calm cluster comes to; why it has not, if it has not.
pub fn goal(world: &World) -> Result<(), String> {
    let record = &world.record;
    if is_degraded(world) {
        return Ok(());
    }
    if let Some(entry) = &record.entry {
        return Err(format!("it is still {}'s turn", entry.node));
    }
    let wanted = digest(world.wanted);
    for (number, node) in world.nodes.iter().enumerate().filter(|(_, node)| !node.is_deleted) {
        let (name, journal) = (&node.name, &node.journal);
        if journal.phase != Phase::Proven || node.file != node.text() || node.running != node.file {
            return Err(format!("{name} is in the middle: {journal:?}"));
        }
        if node.health != Health::Healthy || journal.unreported.is_some() {
            return Err(format!("{name} does not run, or has something to report"));
        }
        if record.must_restore(name) {
            if journal.in_place.is_some() || !record.restored.contains_key(name) {
                return Err(format!("{name} is not restored"));
            }
            continue;
        }
        let is_bad_here = journal.marks.iter().any(|(bad, retries)| bad.digest == wanted && *retries >= record.retries);
        let failed_here =
            journal.in_place.is_some_and(|there| record.has_failed(there) && record.sealed != Some(there));
        if failed_here {
            return Err(format!("{name} still runs what failed"));
        }
        let expected = if record.has_failed(wanted) { record.sealed } else { Some(wanted) };
        let is_excused = is_bad_here || world.blocked[number] || record.paused
            // what was sealed while this node was away cannot be put back here
            || record.has_failed(wanted) && journal.sealed.map(|(digest, _)| digest) != record.sealed
            // or would undo what others changed since
            || record.has_failed(wanted) && !node.can_return()
            // or does not run here
            || record.has_failed(wanted) && journal.in_place.is_none() && journal.marks.iter().any(|(mark, _)| Some(mark.digest) == record.sealed);
        if journal.in_place != expected && !is_excused {
            let (there, expected) = (short(journal.in_place), short(expected));
            return Err(format!("{name} runs {there} instead of {expected}"));
        }
    }
    let mut asked = world.nodes.iter().filter(|node| !node.is_deleted && !record.must_restore(&node.name)).peekable();
    let is_everywhere = asked.peek().is_some() && asked.all(|node| node.journal.in_place == Some(wanted));
    if is_everywhere && !record.has_failed(wanted) && record.sealed != Some(wanted) {
        return Err("every node proved it, and it is not sealed".to_owned());
    }
    Ok(())
}

/// Whether a node has a turn, and even what it went back to does not run: it keeps the turn until a person acts.
fn is_degraded(world: &World) -> bool {
    let holder = world.record.entry.as_ref().and_then(|entry| world.nodes.iter().find(|node| node.name == entry.node));
    holder.is_some_and(|node| node.journal.phase == Phase::GoingBack && node.health == Health::Failing)
}

/// After a digest failed everywhere: the nodes run what they had all proven before.
pub fn back_at(world: &World, proven: Digest) -> Result<(), String> {
    let wanted = digest(world.wanted);
    if is_degraded(world) {
        return Ok(());
    }
    // a scheduler that only ends after a moment may have been taken for a good one
    let passes = |number: usize| world.quality[world.wanted][number] != Quality::Bad;
    let is_elsewhere = |(number, node): &(usize, &Node)| {
        let there = node.journal.in_place;
        let is_excused = there == Some(wanted) && passes(*number) || there.is_none() && !node.can_return();
        !node.is_deleted && there != Some(proven) && !is_excused
    };
    match world.nodes.iter().enumerate().find(is_elsewhere) {
        Some((_, node)) => {
            Err(format!("{} runs {} instead of what all had proven", node.name, short(node.journal.in_place)))
        }
        None => Ok(()),
    }
}
