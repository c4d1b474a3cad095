//! A step as a unified diff.

use similar::TextDiff;

use super::Step;
use crate::compose::hide_credentials;

/// Lines around a change.
const CONTEXT: usize = 3;

/// The diff of one step; a file that is no text is told by its size.
pub(super) fn unified(step: &Step) -> String {
    let Ok(after) = str::from_utf8(&step.after) else {
        return format!("+++ {}\nbinary file of {} bytes\n", step.path, step.after.len());
    };
    let before = step.before.as_deref().map(String::from_utf8_lossy);
    let old_name = if before.is_some() { &step.path } else { "/dev/null" };
    let before = before.unwrap_or_default();
    let diff = TextDiff::from_lines(before.as_ref(), after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(old_name, &step.path)
        .to_string();
    // a diff is copied into tickets and chats
    hide_credentials(&diff).into_owned()
}
