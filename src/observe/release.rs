//! The release of a k3s program, by a text in it: `v1.36.3+k3s1`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What follows the release of Kubernetes in the release of k3s.
const SUFFIX: &[u8] = b"+k3s";
/// Longer than any release.
const LONGEST: usize = 32;
const CHUNK: usize = 1 << 20;
/// k3s is a fifth of this.
const MAX_BYTES: u64 = 400 << 20;

/// Searches a program for its release; nothing where it names none, or several.
pub(super) fn find(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?.take(MAX_BYTES);
    let mut buffer = vec![0; LONGEST * 2 + CHUNK];
    let (mut kept, mut found): (usize, Option<String>) = (0, None);
    loop {
        let read = file.read(buffer.get_mut(kept..)?).ok()?;
        let window = buffer.get(..kept + read)?;
        for at in window.windows(SUFFIX.len()).enumerate().filter(|(_, bytes)| *bytes == SUFFIX).map(|(at, _)| at) {
            let release = release_at(window, at);
            match (&found, release) {
                (Some(first), Some(other)) if *first != other => return None,
                (None, other) => found = other,
                _ => {}
            }
        }
        if read == 0 {
            return found;
        }
        // a release may go over the end of a chunk
        let end = kept + read;
        kept = end.min(LONGEST * 2);
        buffer.copy_within(end - kept..end, 0);
    }
}

/// The release whose suffix is here; its last number only if something ends it.
fn release_at(bytes: &[u8], suffix: usize) -> Option<String> {
    let before = bytes.get(suffix.saturating_sub(LONGEST)..suffix)?;
    let start = before.iter().rposition(|byte| *byte == b'v')?;
    let release = std::str::from_utf8(before.get(start..)?).ok()?;
    let numbers = release.strip_prefix('v')?.split('-').next()?;
    let is_release = numbers.split('.').count() == 3 && numbers.split('.').all(|part| part.parse::<u32>().is_ok());
    is_release.then(|| release.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_at_any_place_of_a_program() {
        let dir = std::env::temp_dir().join(format!("schedpatch-release-{}", std::process::id()));
        let say = |padding: usize, text: &str| {
            let content = [vec![b'x'; padding], text.as_bytes().to_vec()].concat();
            #[expect(clippy::disallowed_methods, reason = "a test writes its own file")]
            std::fs::write(&dir, content).unwrap();
            find(&dir)
        };
        for padding in [0, 1, CHUNK - 8, CHUNK - 1, CHUNK, CHUNK + LONGEST * 2 - 7, CHUNK * 3] {
            assert_eq!(say(padding, "v1.36.3+k3s1 and more").as_deref(), Some("v1.36.3"), "{padding}");
        }
        assert_eq!(say(5, "v1.36.3-rc1+k3s1").as_deref(), Some("v1.36.3-rc1"));
        assert_eq!(say(5, "v1.36.3+k3s1 v1.36.3+k3s2").as_deref(), Some("v1.36.3"));
        assert_eq!(say(5, "v1.36.3+k3s1 v1.35.3+k3s2"), None, "two releases");
        assert_eq!(say(5, "v1.36+k3s1"), None);
        assert_eq!(find(Path::new("/there/is/no/such/file")), None);
        #[expect(clippy::disallowed_methods, reason = "a test removes its own file")]
        let _ = std::fs::remove_file(&dir);
    }
}
