//! Sees what others do to the target in the instant between our last look and our rename.
//!
//! Nothing can prevent a change there: Linux has no rename on condition. So it is at least reported.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use crate::host::Dir;

/// A watch over a directory.
#[derive(Debug)]
pub(super) struct Watch(Option<Inotify>);

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignWrite {
    /// Nobody wrote
    None,
    /// Somebody wrote, and it is lost
    Lost,
    /// Nobody could watch
    Unwatched,
}

impl Watch {
    /// Begins to watch. A host may have no watch left to give; then that is said.
    pub fn arm(dir: &Dir) -> Self {
        let writes = AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE;
        let armed = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).and_then(|inotify| {
            inotify.add_watch(dir.kernel_path().as_str(), writes)?;
            Ok(inotify)
        });
        Self(armed.ok())
    }

    /// Whether anything happened to `name` before `temp` took its place.
    pub fn foreign_write(&self, temp: &str, name: &str) -> ForeignWrite {
        let Some(inotify) = &self.0 else { return ForeignWrite::Unwatched };
        let mut foreign = false;
        while let Ok(events) = inotify.read_events() {
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return ForeignWrite::Unwatched;
                }
                if is_about(&event, temp) && event.mask.contains(AddWatchFlags::IN_MOVED_FROM) {
                    return if foreign { ForeignWrite::Lost } else { ForeignWrite::None };
                }
                foreign |= is_about(&event, name);
            }
        }
        ForeignWrite::Unwatched
    }
}

fn is_about(event: &InotifyEvent, name: &str) -> bool {
    event.name.as_deref().is_some_and(|own| own == name)
}
