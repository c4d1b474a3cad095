//! Names of files that are being written: they begin with a dot, so the kubelet passes over them.

/// Ends the names of our unfinished files.
const UNFINISHED: &str = ".schedpatch";

/// The name under which a file is written before it is there.
pub(crate) fn unfinished(name: &str) -> String {
    format!(".{name}{UNFINISHED}")
}

/// The name that a file has once it is there.
pub(crate) fn finished(name: &str) -> &str {
    name.strip_prefix('.').and_then(|name| name.strip_suffix(UNFINISHED)).unwrap_or(name)
}

/// The same for files of our own directory, whose names may be as long as the system allows.
pub(crate) fn unfinished_own(number: usize) -> String {
    format!(".new-{number}{UNFINISHED}")
}

/// Whether a name is that of an unfinished file of ours.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(UNFINISHED) && name.len() > 1 + UNFINISHED.len()
}
