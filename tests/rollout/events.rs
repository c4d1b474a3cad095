//! What happens to a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use schedpatch::rollout::{AgentState, Record};

use crate::rng::Rng;
use crate::world::{Health, Phase, Quality, Text, World, digest};

impl World {
    /// One thing that nobody expected.
    pub fn event(&mut self, rng: &mut Rng) {
        let number = rng.below(self.nodes.len());
        let name = self.nodes[number].name.clone();
        let clock = self.clock;
        let what = match rng.below(25) {
            0..=2 => {
                self.wanted = rng.below(self.quality.len());
                format!("the sources ask for number {}", self.wanted)
            }
            3 | 4 => {
                let nonces: Vec<String> = self.nodes[number].processes.drain(..).map(|process| process.nonce).collect();
                for nonce in &nonces {
                    self.nodes[number].free(nonce);
                }
                format!("the agent on {name} is killed")
            }
            5..=7 => return self.disturb(number, rng),
            8 => {
                self.nodes[number].agent_has_api = false;
                format!("the agent on {name} loses the API")
            }
            9 => {
                (self.nodes[number].agent_has_api, self.nodes[number].kubelet_has_api) = (false, false);
                format!("{name} loses the API")
            }
            10 | 11 => {
                self.nodes.iter_mut().for_each(|node| (node.agent_has_api, node.kubelet_has_api) = (true, true));
                "the API is back everywhere".to_owned()
            }
            12 => {
                // nobody can know of this before the kubelet tells it
                let node = &mut self.nodes[number];
                node.is_exempt |= node.health == Health::Healthy && node.running == node.file;
                node.file = Text::default();
                format!("somebody writes the original on {name}")
            }
            22 => {
                let node = &mut self.nodes[number];
                node.is_exempt |= node.health == Health::Healthy && node.running == node.file;
                node.original += 1;
                if rng.once_in(2) {
                    node.file = Text::default();
                    format!("somebody writes another original on {name}")
                } else {
                    if node.health == Health::Healthy {
                        (node.health, node.health_since) = (Health::Starting, clock);
                    }
                    format!("somebody changes the text on {name}, and leaves our edit there")
                }
            }
            13 => {
                let node = &mut self.nodes[number];
                if node.health == Health::Healthy {
                    (node.health, node.health_since) = (Health::Starting, clock);
                    // likewise
                    node.is_exempt = true;
                }
                format!("the scheduler on {name} restarts")
            }
            14 => {
                let paused = !self.record.paused;
                self.write(|record| record.paused = paused);
                format!("a person says paused: {paused}")
            }
            15 => {
                self.write(Record::retry);
                "a person says retry".to_owned()
            }
            16 if rng.once_in(3) => {
                let agents = ("set".to_owned(), self.template);
                let nodes = if rng.once_in(2) { BTreeSet::new() } else { BTreeSet::from([name.clone()]) };
                self.write(|record| record.ask_uninstall(&agents, &nodes));
                format!("a person uninstalls {nodes:?}")
            }
            16 if rng.once_in(3) => {
                self.write(Record::cancel_uninstall);
                "a person cancels the uninstall".to_owned()
            }
            16 => {
                self.template += 1;
                "the agents are updated".to_owned()
            }
            17 | 18 => {
                let is_lost = !self.nodes[number].is_lost;
                let are_others_left = self.nodes.iter().filter(|node| !node.is_lost).count() > 2;
                if is_lost && !are_others_left {
                    return;
                }
                self.power(number, !is_lost);
                format!("{name} is {}", if is_lost { "lost" } else { "back" })
            }
            19 | 20 => {
                let (one, is_bad) = (rng.below(self.quality.len()), rng.once_in(2));
                self.quality[one][number] = if is_bad { Quality::Bad } else { Quality::Good };
                self.was_bad[one] |= is_bad;
                format!("number {one} is {} for {name} from now on", if is_bad { "bad" } else { "good" })
            }
            21 => {
                let is_deleted = !self.nodes[number].is_deleted;
                if is_deleted && self.nodes.iter().filter(|node| !node.is_deleted).count() < 3 {
                    return;
                }
                let node = &mut self.nodes[number];
                // others did not see what it did meanwhile
                (node.is_deleted, node.is_exempt) = (is_deleted, true);
                format!("the Node {name} is {}", if is_deleted { "deleted" } else { "registered" })
            }
            _ if rng.once_in(4) => {
                (self.record, self.is_record_lost) = (Record::default(), true);
                self.version += 1;
                "the record is lost".to_owned()
            }
            _ => return,
        };
        self.note(what);
    }

    /// Something happens to the agent of this node.
    pub fn disturb(&mut self, number: usize, rng: &mut Rng) {
        let clock = self.clock;
        let what = if rng.once_in(2) {
            let until = clock + Duration::from_millis(500 * (1 + rng.below(300) as u64));
            self.nodes[number].processes.iter_mut().for_each(|process| process.stalled_until = until);
            "stalls"
        } else {
            // the kubelet replaces a pod: for a moment there are two
            let end = clock + Duration::from_millis(500 * (1 + rng.below(6) as u64));
            self.nodes[number].processes.iter_mut().for_each(|process| process.ends_at = Some(end));
            self.start_agent(number);
            if rng.once_in(2) {
                self.wanted = rng.below(self.quality.len());
            }
            "is replaced"
        };
        self.note(format!("the agent on cp{} {what}", number + 1));
    }

    /// A node goes off, or on again.
    pub fn power(&mut self, number: usize, is_on: bool) {
        let clock = self.clock;
        let node = &mut self.nodes[number];
        node.is_lost = !is_on;
        if is_on {
            (node.health, node.health_since) = (Health::Starting, clock);
        } else {
            node.processes.clear();
            node.lock = None;
            node.shown.is_ready = false;
            node.shown.agent = AgentState::Unknown;
        }
    }

    /// A person mends what is to come back and does not run: until then the node keeps its turn, since nothing good is left
    /// for it.
    pub fn mend(&mut self) {
        for number in 0..self.nodes.len() {
            let sealed = self.nodes[number].journal.sealed.map(|(sealed, _)| sealed);
            let places = [sealed, self.nodes[number].journal.in_place];
            for one in (0..self.quality.len()).filter(|one| places.contains(&Some(digest(*one)))) {
                if places[0] == Some(digest(one)) || self.nodes[number].journal.phase != Phase::Trial {
                    self.quality[one][number] = Quality::Good;
                }
            }
        }
    }

    /// A person deletes the Node.
    pub fn delete(&mut self, number: usize) {
        self.nodes[number].is_deleted = true;
        let name = self.nodes[number].name.clone();
        self.note(format!("the Node {name} is deleted"));
    }

    /// What the kubelet puts right in time.
    pub fn recover(&mut self, rng: &mut Rng) {
        for number in 0..self.nodes.len() {
            if self.nodes[number].is_lost {
                continue;
            }
            let is_old = self.nodes[number].processes.iter().all(|process| process.template < self.template);
            if is_old && rng.once_in(if self.nodes[number].processes.is_empty() { 30 } else { 10 }) {
                let end = self.clock + Duration::from_secs(1);
                self.nodes[number].processes.iter_mut().for_each(|process| process.ends_at = Some(end));
                self.start_agent(number);
            }
        }
    }
}
