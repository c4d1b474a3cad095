//! What is wrong with a configuration file, and where.

use std::path::PathBuf;

/// Why a configuration file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read
    #[error("cannot read {}: {why}; name the file with --config, and mount it into the pod", file.display())]
    Unreadable {
        /// Which file
        file: PathBuf,
        /// Why
        why: String,
    },
    /// Something in it is wrong
    #[error("{}:{line}: {why}", file.display())]
    Wrong {
        /// Which file
        file: PathBuf,
        /// Where, from 1
        line: usize,
        /// What, and the way out
        why: String,
    },
}
