//! A step as a unified diff.

use std::borrow::Cow;

use similar::TextDiff;

use super::{Step, StepKind, secrets};
use crate::revision::Digest;
use crate::target::CONFIG_FILE;
use crate::url::hide_credentials;

/// Lines around a change.
const CONTEXT: usize = 3;

/// The diff of one step. A file beside the configuration may be a key, so nothing of its content is shown.
pub(super) fn unified(step: &Step) -> String {
    let is_side_file = step.kind == StepKind::WriteFile && !step.path.ends_with(&format!("/{CONFIG_FILE}"));
    // a copy of the whole manifest, with all that its environment holds
    let is_copy = step.kind == StepKind::Preflight;
    let after = match str::from_utf8(&step.after) {
        Ok(after) if !is_side_file && !is_copy => after,
        _ => {
            let (size, digest) = (step.after.len(), Digest::of_bytes(&step.after));
            return format!("+++ {}\n{size} bytes, sha256 {digest}\n", step.path);
        }
    };
    let before = step.before.as_deref().map(String::from_utf8_lossy);
    let old_name = if before.is_some() { &step.path } else { "/dev/null" };
    let before = before.unwrap_or_default();
    let is_unit = step.path.ends_with(".service");
    let hide = |text| if is_unit { secrets::hide(text) } else { Cow::Borrowed(text) };
    let diff = TextDiff::from_lines(hide(&before).as_ref(), hide(after).as_ref())
        .unified_diff()
        .context_radius(CONTEXT)
        .header(old_name, &step.path)
        .to_string();
    // a diff is copied into tickets and chats
    hide_credentials(&diff).into_owned()
}
