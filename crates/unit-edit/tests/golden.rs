//! Every folder of `tests/golden`: a unit, the arguments, and what becomes of it.
//!
//! `UPDATE_GOLDEN=1` writes the expected files anew; read the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test writes its expected files")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::arguments;
use unit_edit::{Edit, Unit};

const OWNER: &str = "schedpatch";

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(support::golden()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn expect(path: &Path, found: Option<&[u8]>) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        match found {
            Some(text) => fs::write(path, text).unwrap(),
            None if path.exists() => fs::remove_file(path).unwrap(),
            None => {}
        }
    }
    let expected = fs::read(path).ok();
    let show = |text: Option<&[u8]>| text.map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(show(found), show(expected.as_deref()), "{}", path.display());
    assert_eq!(found, expected.as_deref(), "{}", path.display());
}

#[test]
fn every_unit_is_edited_or_refused_as_expected_and_comes_back_byte_for_byte() {
    let mut count = 0;
    for folder in folders() {
        let before = fs::read(folder.join("in.service")).unwrap();
        let wanted = arguments(&fs::read_to_string(folder.join("arguments")).unwrap());
        let edit = Edit { owner: OWNER, note: "revision=0123abcd", arguments: &wanted };
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        match Unit::parse("k3s.service", &before).edit(&edit) {
            Ok(after) => {
                assert!(!name.starts_with("refused"), "{name} was edited");
                expect(&folder.join("out.service"), Some(&after));
                expect(&folder.join("refusal"), None);
                let edited = Unit::parse("k3s.service", &after);
                assert_eq!(edited.is_applied(&edit), Ok(true), "{name}");
                assert_eq!(edited.edit(&edit).as_deref(), Ok(after.as_slice()), "{name}");
                assert_eq!(edited.restore(OWNER).as_deref(), Ok(before.as_slice()), "{name}");
            }
            Err(error) => {
                expect(&folder.join("out.service"), None);
                expect(&folder.join("refusal"), Some(format!("{:?}\n{error}\n", error.kind).as_bytes()));
            }
        }
        count += 1;
    }
    assert!(count >= 50, "{count} folders");
}
