//! How much the sources may hold, checked before anything of them is built.
//!
//! A megabyte of `[1,1,…]` is half a million values, and each takes a hundred times its text once it is built. The agent
//! runs with little memory on a control-plane node, so it counts first.

use yaml_edit::{Size, size_at_most, size_of};

use super::read::text_of;
use crate::finding::Finding;

/// All sources together may hold so many values, however short they are…
const VALUES: usize = 20_000;
/// …and one more for every so many bytes. A configuration takes about as many for each of its values.
const BYTES_PER_VALUE: usize = 10;
/// …but never more than these, which the agent builds within the memory that the chart gives it. A list or a mapping counts
/// for several: a mapping of one key takes five times the room of two words.
const MOST_VALUES: usize = 400_000;
const OF_A_COLLECTION: usize = 3;
/// One mapping may have so many keys.
const KEYS: usize = 10_000;

/// Refuses files that hold too much: path and content of each that is going to be read.
pub(crate) fn check(files: &[(&str, &[u8])]) -> Result<(), Finding> {
    let texts = || files.iter().filter_map(|(file, content)| Some((*file, text_of(content)?)));
    let bytes: usize = texts().map(|(_, text)| text.len()).sum();
    let most = (VALUES + bytes / BYTES_PER_VALUE).min(MOST_VALUES);
    let sum = |sizes: &[Size]| sizes.iter().fold(0, |sum: usize, size| sum.saturating_add(size.values));
    let room = |sizes: &[Size]| {
        let collections = sizes.iter().fold(0, |sum: usize, size| sum.saturating_add(size.collections));
        sum(sizes).saturating_add(collections.saturating_mul(OF_A_COLLECTION))
    };
    let is_within = |sizes: &[Size]| sum(sizes) <= most && room(sizes) <= MOST_VALUES;
    let at_a_glance: Option<Vec<Size>> = texts().map(|(_, text)| size_at_most(text)).collect();
    if at_a_glance.is_some_and(|sizes| is_within(&sizes) && sizes.iter().all(|size| size.keys <= KEYS)) {
        return Ok(());
    }
    let sizes: Vec<Size> = texts().map(|(_, text)| size_of(text)).collect();
    if let Some((size, (file, _))) = sizes.iter().zip(texts()).find(|(size, _)| size.keys > KEYS) {
        let message = format!("a mapping of this file has {} keys, and may have {KEYS}", size.keys);
        return Err(too_much(message).in_file(file));
    }
    let all = sum(&sizes);
    match sizes.iter().zip(texts()).max_by_key(|(size, _)| size.values) {
        Some((size, (file, _))) if all <= most && !is_within(&sizes) => {
            let message = format!(
                "this file holds {} values, {} of them lists and mappings; the sources together may hold {MOST_VALUES}, and each list or mapping counts for {OF_A_COLLECTION} more",
                size.values, size.collections
            );
            Err(too_much(message).in_file(file))
        }
        Some((size, (file, _))) if all > most => {
            let message = format!(
                "this file holds {} values, the sources together hold {all} in {bytes} bytes, and may hold {most}: {VALUES} and one for every {BYTES_PER_VALUE} bytes, at most {MOST_VALUES}",
                size.values
            );
            Err(too_much(message).in_file(file))
        }
        _ => Ok(()),
    }
}

fn too_much(message: String) -> Finding {
    let way_out = "shorten the file; a file of data for others to read must not end in .yaml, .yml or .json";
    Finding::error("too-many-values", message, way_out)
}
