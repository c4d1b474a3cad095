//! Sets of nodes, a bit for each position.

/// A set of positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

fn place(position: u32) -> (usize, u64) {
    (usize::try_from(position / 64).unwrap_or(usize::MAX), 1 << (position % 64))
}

impl Bits {
    /// Adds a position, or takes it out.
    pub fn set(&mut self, position: u32, is_in: bool) {
        let (at, bit) = place(position);
        if is_in && at >= self.0.len() {
            self.0.resize(at.saturating_add(1), 0);
        }
        match self.0.get_mut(at) {
            Some(word) if is_in => *word |= bit,
            Some(word) => *word &= !bit,
            None => {}
        }
    }

    /// Whether a position is in it.
    pub fn holds(&self, position: u32) -> bool {
        let (at, bit) = place(position);
        self.0.get(at).is_some_and(|word| word & bit != 0)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Whether some position is in both.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(own, other)| own & other != 0)
    }

    /// Takes out what is in the other one.
    pub fn subtract(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own &= !other;
        }
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_in_and_out() {
        let (mut some, mut others) = (Bits::default(), Bits::default());
        for position in [0, 63, 64, 5000] {
            some.set(position, true);
        }
        others.set(64, true);
        others.set(70, true);
        assert!(some.holds(63) && some.holds(5000) && !some.holds(65) && !some.holds(1_000_000));
        assert!(some.meets(&others) && others.meets(&some));
        some.subtract(&others);
        assert!(!some.holds(64) && some.holds(0) && !some.meets(&others));
        for position in [0, 63, 5000, 9_000_000] {
            some.set(position, false);
        }
        assert!(some.is_empty() && some.bytes() < 1000);
    }
}
