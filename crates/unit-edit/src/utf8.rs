//! What systemd takes for valid UTF-8: less than Unicode does.

/// Whether systemd accepts a line with these bytes. It refuses the code points that Unicode reserves for internal use.
pub(crate) fn is_valid(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_allowed))
}

/// Whether systemd accepts this character in a file.
pub(crate) const fn is_allowed(character: char) -> bool {
    let code = character as u32;
    !(code >= 0xFDD0 && code <= 0xFDEF) && code & 0xFFFE != 0xFFFE
}

/// A code point as bytes. systemd encodes surrogates like any other code point, which Rust's `char` cannot hold.
#[expect(
    clippy::cast_possible_truncation,
    reason = "every byte takes six bits at most of the code point, plus its mark"
)]
pub(crate) fn encode(code: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3F) as u8;
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend([0xC0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend([0xE0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => out.extend([0xF0 | (code >> 18 & 0x07) as u8, tail(12), tail(6), tail(0)]),
    }
}
