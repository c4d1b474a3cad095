//! schedpatch
pub mod edit;
