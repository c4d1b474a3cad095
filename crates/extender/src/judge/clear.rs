//! Which nodes no threshold refuses, for many pods at once: what pods share is computed once.

use std::borrow::Cow;
use std::collections::HashMap;

use tokio::time::Instant;

use crate::select::Choice;
use crate::snapshot::{Bits, Snapshot};

/// Nodes that exceed no threshold, by the pods' policies.
#[derive(Debug)]
pub struct Clear<'s> {
    snapshot: &'s Snapshot,
    /// Policies that can refuse a node now
    refusing: u64,
    /// By policies: by the nodes' plain values
    plain: HashMap<u64, Bits>,
}

impl<'s> Clear<'s> {
    /// As the snapshot shows them at this moment.
    pub fn new(snapshot: &'s Snapshot, now: Instant) -> Self {
        let both = snapshot.config.policies.iter().zip(&snapshot.values).enumerate();
        let refusing = both.filter(|(_, (policy, values))| policy.refuses() && !values.is_stale(policy, now));
        Self { snapshot, refusing: refusing.fold(0, |mask, (number, _)| mask | 1 << number), plain: HashMap::new() }
    }

    /// The nodes that no threshold of a pod's policies refuses. A missing value refuses nothing.
    pub fn nodes(&mut self, choice: &Choice) -> Cow<'_, Bits> {
        let mask = choice.mask & self.refusing;
        let snapshot = self.snapshot;
        let plain = self.plain.entry(mask).or_insert_with(|| {
            let mut bits = Bits::default();
            for position in (0..).take(snapshot.index.names().len()) {
                bits.set(position, !exceeds(snapshot, mask, None, position));
            }
            bits
        });
        let is_special = |number: &usize| {
            let values = snapshot.values.get(*number);
            mask >> number & 1 == 1 && values.is_some_and(|values| values.workload(choice.key(*number)).is_some())
        };
        let mut special = (0..snapshot.values.len()).filter(is_special).peekable();
        if special.peek().is_none() {
            return Cow::Borrowed(plain);
        }
        let mut bits = plain.clone();
        for number in special {
            for (position, _) in snapshot.values[number].workload(choice.key(number)).unwrap_or_default() {
                bits.set(*position, !exceeds(snapshot, mask, Some(choice), *position));
            }
        }
        Cow::Owned(bits)
    }
}

fn exceeds(snapshot: &Snapshot, mask: u64, choice: Option<&Choice>, position: u32) -> bool {
    let mut both = snapshot.config.policies.iter().zip(&snapshot.values).enumerate();
    both.any(|(number, (policy, values))| {
        let key = choice.and_then(|choice| choice.key(number));
        mask >> number & 1 == 1 && policy.exceeds(values.value(key, position))
    })
}
