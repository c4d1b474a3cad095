//! A simulated agent around the real decisions: it looks, writes with compare-and-swap, commits, judges. Between any two of
//! these anything may happen.

use std::time::Duration;

use schedpatch::revision::Digest;
use schedpatch::rollout::{
    ChangeKind, Failed, Me, NeededChange, NextStep, OnFailure, Other, OwnEtcd, Record, Sealed, View, Why, Work,
    is_trace, step,
};
use schedpatch::timestamp::Timestamp;

use crate::laws;
use crate::rng::Rng;
use crate::world::{Bug, Health, LIMITS, Node, Phase, Text, World, digest, revision};

/// What a process does next.
#[derive(Clone, Debug)]
pub enum Next {
    Look,
    Write { version: u64, record: Box<Record>, why: Why, sent: Duration },
    Commit { wanted: NeededChange, sent: Duration },
}

impl World {
    /// One step of one process.
    pub fn agent(&mut self, number: usize, index: usize, rng: &mut Rng) -> Result<(), String> {
        let clock = self.clock;
        let node = &mut self.nodes[number];
        let process = &mut node.processes[index];
        if process.ends_at.is_some_and(|end| end <= clock) {
            let nonce = node.processes.remove(index).nonce;
            node.free(&nonce);
            return Ok(());
        }
        if clock < process.stalled_until || node.is_lost {
            return Ok(());
        }
        match std::mem::replace(&mut process.next, Next::Look) {
            Next::Look => {
                self.look(number, index, rng);
                Ok(())
            }
            Next::Write { version, record, why, sent } => self.replace(number, index, version, record, why, sent, rng),
            Next::Commit { wanted, sent } => {
                let is_late = clock.saturating_sub(sent) > LIMITS.go;
                if is_late && self.bug != Bug::NoHaste { Ok(()) } else { self.commit(number, index, wanted) }
            }
        }
    }

    fn look(&mut self, number: usize, index: usize, rng: &mut Rng) {
        if !self.nodes[number].agent_has_api {
            self.repair_without_api(number);
            return;
        }
        let (clock, bug) = (self.clock, self.bug);
        let mut read = (self.version, self.record.clone(), self.others(number));
        let node = &mut self.nodes[number];
        if let (Bug::StaleReadTrusted, Some(old)) = (bug, &node.processes[index].seen)
            && rng.once_in(2)
        {
            read = (self.version, old.1.clone(), old.2.clone());
        }
        if self.is_record_lost {
            read.1.is_rebuilt = self.has_traces();
        }
        let node = &mut self.nodes[number];
        let (version, record, others) = read.clone();
        node.processes[index].seen = Some(read);
        let waits = node.processes[index].memory.note(clock, (&version.to_string(), &record), &others);
        node.note_record(&record);
        let me = self.me(number, index, &record);
        self.annotate(number, &me);
        let view = View {
            record: &record,
            me: &me,
            others: &others,
            waited: waits,
            limits: LIMITS,
            on_failure: OnFailure::Back,
        };
        let nonce = self.nodes[number].processes[index].nonce.clone();
        match step(&view, Timestamp::from_unix(clock.as_secs())) {
            NextStep::Rest | NextStep::Wait(_) => {}
            NextStep::Write(written, why) => {
                if matches!(why, Why::TakeTurn | Why::Adopt) && !self.nodes[number].take(&nonce) {
                    return;
                }
                self.nodes[number].processes[index].next = Next::Write { version, record: written, why, sent: clock };
            }
            NextStep::Go(wanted) => {
                let sent = clock.saturating_sub(waits.own_write.unwrap_or_default());
                if self.nodes[number].take(&nonce) {
                    self.nodes[number].processes[index].next = Next::Commit { wanted, sent };
                    if rng.once_in(self.rest) {
                        self.disturb(number, rng);
                    }
                }
            }
            NextStep::Judge => self.judge(number, &record),
            NextStep::Forget => {
                let journal = &mut self.nodes[number].journal;
                (journal.phase, journal.in_place) = (Phase::Proven, journal.sealed.map(|(digest, _)| digest));
                journal.committed_on = journal.sealed_on;
                self.note(format!("cp{} forgets its trial", number + 1));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a write is made of")]
    fn replace(
        &mut self,
        number: usize,
        index: usize,
        version: u64,
        record: Box<Record>,
        why: Why,
        sent: Duration,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let node = &mut self.nodes[number];
        let nonce = node.processes[index].nonce.clone();
        let is_refused = version != self.version && self.bug != Bug::NoCompareAndSwap;
        if !node.agent_has_api || is_refused {
            if why == Why::TakeTurn {
                node.free(&nonce);
            }
            return Ok(());
        }
        laws::write(self, number, &record, why)?;
        self.note(format!(
            "cp{} writes {why:?} {:?}",
            number + 1,
            record.entry.as_ref().map(|entry| (&entry.node, entry.change, short(entry.digest)))
        ));
        if why == Why::TakeOver {
            self.takeovers += 1;
        }
        let is_mine = record.entry.as_ref().is_some_and(|entry| entry.node == self.nodes[number].name);
        self.record = *record;
        self.is_record_lost = false;
        if self.bug == Bug::NoEntry && is_mine {
            self.record.entry = None;
        }
        if self.bug == Bug::NoSealing {
            self.record.sealed = None;
        }
        self.version += 1;
        if why == Why::TakeTurn && rng.once_in(self.rest) {
            self.disturb(number, rng);
        }
        let node = &mut self.nodes[number];
        let memory = &mut node.processes[index].memory;
        if rng.once_in(40) {
            // the answer is lost
        } else if is_mine {
            memory.wrote_turn(sent);
            if self.bug == Bug::NoEntry && why == Why::TakeTurn {
                let wanted = schedpatch::rollout::NeededChange { change: ChangeKind::New, digest: self.record.digest };
                node.processes[index].next = Next::Commit { wanted, sent };
            }
        } else {
            memory.gave_turn();
        }
        if !is_mine {
            node.free(&nonce);
        }
        Ok(())
    }

    fn commit(&mut self, number: usize, index: usize, wanted: NeededChange) -> Result<(), String> {
        laws::commit(self, number)?;
        self.note(format!("cp{} commits {:?} {}", number + 1, wanted.change, short(wanted.digest)));
        self.commits += 1;
        let is_wanted = wanted.digest == Some(digest(self.wanted));
        let node = &mut self.nodes[number];
        let nonce = node.processes[index].nonce.clone();
        let is_lost = match wanted.change {
            ChangeKind::New | ChangeKind::Restore => false,
            ChangeKind::Back => wanted.digest.is_some() && !node.can_return(),
            ChangeKind::Repair => !is_wanted && node.journal.committed_on != node.original,
        };
        node.journal.in_place = wanted.digest.filter(|_| !is_lost);
        node.journal.committed_on = node.original;
        node.journal.rolled_back_from = None;
        if wanted.change == ChangeKind::Restore {
            node.journal.marks.clear();
            node.journal.sealed = None;
        }
        if node.journal.in_place.is_some() {
            node.journal.generation += 1;
        } else if node.file == node.text() {
            // there is nothing to remove
            node.journal.phase = Phase::Proven;
            node.free(&nonce);
            return Ok(());
        }
        node.journal.phase = Phase::Trial;
        node.write_file();
        (node.is_changing, node.is_exempt) = (true, false);
        // the agent says so before it commits
        (node.has_traces, node.shown.is_changing) = (true, true);
        node.free(&nonce);
        Ok(())
    }

    /// Proves what runs, takes back what does not, puts back what somebody else overwrote in the middle.
    fn judge(&mut self, number: usize, record: &Record) {
        let (clock, wanted) = (self.clock, digest(self.wanted));
        let has_turn = record.entry.as_ref().is_some_and(|entry| entry.node == self.nodes[number].name);
        let node = &mut self.nodes[number];
        if node.file != node.text() {
            if has_turn {
                let is_wanted = node.journal.in_place == Some(wanted);
                if !is_wanted && node.journal.committed_on != node.original {
                    node.journal.in_place = None;
                }
                node.journal.committed_on = node.original;
                node.write_file();
                node.is_changing = true;
            }
            return;
        }
        if node.running != node.file {
            return;
        }
        let lasted = clock.saturating_sub(node.health_since) >= LIMITS.settle;
        match (node.health, node.journal.phase) {
            (Health::Healthy, _) if lasted => node.journal.phase = Phase::Proven,
            (Health::Failing, Phase::Trial) => self.roll_back(number, record),
            _ => {}
        }
    }

    fn roll_back(&mut self, number: usize, record: &Record) {
        let node = &mut self.nodes[number];
        let can_return = node.can_return();
        let journal = &mut node.journal;
        let Some(failed) = journal.in_place else { return };
        let since = Timestamp::from_unix(self.clock.as_secs());
        let words = "it ended".to_owned();
        let mark = (Failed { digest: failed, node: node.name.clone(), words, since }, record.retries);
        journal.marks.push(mark.clone());
        journal.unreported = Some(mark);
        let is_bad = |digest: &Digest| journal.marks.iter().any(|(mark, _)| mark.digest == *digest);
        let sealed = journal.sealed.map(|(digest, _)| digest);
        journal.in_place = sealed.filter(|sealed| can_return && !is_bad(sealed) && !record.has_failed(*sealed));
        journal.committed_on = node.original;
        journal.generation += 1;
        journal.rolled_back_from = Some(failed);
        journal.phase = Phase::GoingBack;
        node.write_file();
        node.is_changing = true;
        self.failures += 1;
        self.note(format!("cp{} rolls {} back", number + 1, short(Some(failed))));
    }

    /// The one commit without a turn.
    fn repair_without_api(&mut self, number: usize) {
        let wanted = digest(self.wanted);
        let node = &mut self.nodes[number];
        let can_repair = node.journal.in_place == Some(wanted) || node.journal.committed_on == node.original;
        let is_drift = node.file != node.text() && node.journal.in_place.is_some();
        if node.journal.phase == Phase::Proven && is_drift && can_repair {
            node.journal.generation += 1;
            node.journal.committed_on = node.original;
            node.journal.phase = Phase::Trial;
            node.write_file();
            (node.is_changing, node.is_exempt) = (true, true);
            self.note(format!("cp{} repairs without the API", number + 1));
        }
    }

    fn others(&self, number: usize) -> Vec<Other> {
        let others = self.nodes.iter().enumerate().filter(|(other, node)| *other != number && !node.is_deleted);
        others.map(|(_, node)| node.shown.clone()).collect()
    }

    fn me(&self, number: usize, index: usize, record: &Record) -> Me {
        let node = &self.nodes[number];
        let process = &node.processes[index];
        let (journal, wanted) = (&node.journal, digest(self.wanted));
        let entry = record.entry.as_ref().filter(|entry| entry.node == node.name);
        let nonce = entry.filter(|_| self.bug == Bug::NonceIgnored).map_or(&process.nonce, |entry| &entry.nonce);
        Me {
            name: node.name.clone(),
            is_listed: !node.is_deleted,
            nonce: nonce.clone(),
            daemon_set: ("set".to_owned(), process.template),
            is_outdated: process.template < self.template,
            wanted: Some(wanted),
            wanted_revision: Some(revision(wanted)),
            is_blocked: self.blocked[number],
            in_place: journal.in_place,
            revision: journal.in_place.map(revision),
            generation: journal.generation,
            work: if journal.phase == Phase::Proven { Work::Settled } else { Work::Pending },
            is_overwritten: node.file != node.text(),
            is_outmoded: false,
            backs_off: false,
            is_fought_over: false,
            too_soon_for: None,
            may_want_more: false,
            last_sealed: journal.sealed.map(|(digest, number)| Sealed {
                digest,
                revision: revision(digest),
                number,
                can_return: node.can_return() || self.bug == Bug::WayBackAssumed,
            }),
            marks: journal.marks.clone(),
            retries: journal.retries,
            unreported: journal.unreported.clone(),
            stopped: None,
            is_healthy: node.health == Health::Healthy,
            is_leader: self.leader == number,
            awaits_preflight: false,
            etcd: OwnEtcd::default(),
        }
    }

    /// What the node says of itself.
    fn annotate(&mut self, number: usize, me: &Me) {
        let shown = &mut self.nodes[number].shown;
        shown.wanted = me.wanted;
        shown.is_blocked = me.is_blocked && me.in_place != me.wanted;
        shown.is_changing = me.work == Work::Pending;
        let phase = if shown.is_changing {
            "Verifying"
        } else if me.marks.is_empty() {
            "Waiting"
        } else {
            "RolledBack"
        };
        let generation = me.in_place.map(|_| ("generation", "1"));
        let is_begun = generation.into_iter().chain([("phase", phase)]).any(|(key, value)| is_trace(key, value));
        shown.proven = me.in_place.filter(|_| me.work == Work::Settled && !me.is_overwritten);
        self.nodes[number].has_traces = is_begun;
    }
}

impl Node {
    /// What the target should say.
    pub fn text(&self) -> Text {
        match self.journal.in_place {
            None => Text::default(),
            digest => {
                Text { digest, generation: self.journal.generation, rolled_back_from: self.journal.rolled_back_from }
            }
        }
    }

    /// Whether what is sealed can be put back: nobody has changed the original since.
    pub fn can_return(&self) -> bool {
        self.journal.sealed_on == self.original
    }

    fn write_file(&mut self) {
        self.file = self.text();
    }

    /// The host's lock.
    fn take(&mut self, nonce: &str) -> bool {
        if self.lock.as_ref().is_some_and(|holder| holder != nonce) {
            return false;
        }
        self.lock = Some(nonce.to_owned());
        true
    }

    pub fn free(&mut self, nonce: &str) {
        if self.lock.as_deref() == Some(nonce) {
            self.lock = None;
        }
    }

    /// What follows from the record for what the host remembers.
    fn note_record(&mut self, record: &Record) {
        let journal = &mut self.journal;
        journal.retries = journal.retries.max(record.retries);
        let is_known = |(failed, retries): &(Failed, u64)| {
            *retries < record.retries || record.has_failed(failed.digest) || record.sealed == Some(failed.digest)
        };
        if journal.unreported.as_ref().is_some_and(is_known) {
            journal.unreported = None;
        }
        let is_sealed = record.sealed.is_some() && journal.in_place == record.sealed;
        if journal.phase == Phase::Proven && is_sealed && journal.committed_on == self.original {
            journal.sealed = journal.in_place.map(|digest| (digest, record.seals));
            journal.sealed_on = journal.committed_on;
        }
    }
}

pub fn short(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "original".to_owned(), |digest| digest.to_string()[..4].to_owned())
}
