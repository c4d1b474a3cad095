//! The repository itself: documents that agree with the code, and modules that keep to their part.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

mod docs;
mod faults;
mod fences;
mod links;
