//! The least that any extender costs, for hack/extender-bench and hack/extender-e2e: `floor ADDRESS [NODES]`.
//!
//! It reads a request from the socket and answers it without judging anything: no JSON reader, no metrics, no policies. A constant
//! answer would be less, but the scheduler refuses names that it did not send; so the names are copied from the request, and their last
//! byte makes the points, so that pods go to some nodes rather than to all. Full objects go back as they came. What another extender costs beyond this, it spends itself.
#![allow(clippy::expect_used, clippy::disallowed_methods, clippy::panic, reason = "a program for people who measure")]

use std::io::{IoSlice, Read as _, Result, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names in a request that has full objects are not searched for: the answer is about this many nodes, unless another number is given.
const NODES: usize = 5000;
const NAMES_KEY: &[u8] = b"\"NodeNames\":";
const NODES_KEY: &[u8] = b"\"Nodes\":";

/// How many requests were answered; that is the answer to any GET.
static ASKED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let address = std::env::args().nth(1).expect("an address");
    let listener = TcpListener::bind(address).expect("a free port");
    let nodes = std::env::args().nth(2).map_or(NODES, |number| number.parse().expect("a number"));
    let all: Vec<String> =
        (0..nodes).map(|n| format!(r#"{{"Host":"node-{n:05}.example.internal","Score":5}}"#)).collect();
    let all = format!("[{}]", all.join(","));
    for stream in listener.incoming().flatten() {
        let all = all.clone();
        std::thread::spawn(move || connection(stream, all.as_bytes()));
    }
}

/// Answers requests until the client hangs up.
fn connection(mut stream: TcpStream, all: &[u8]) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut bytes, mut filled) = (vec![0; 64 * 1024], 0);
    loop {
        let head = loop {
            if let Some(end) = bytes[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let read = stream.read(&mut bytes[filled..])?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let end = head + length.map_or(0, |length| length.parse().expect("a length"));
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        stream.read_exact(bytes.get_mut(filled..end).unwrap_or_default())?;
        let is_filter = text.starts_with("post /filter");
        answer(&mut stream, &bytes[head..end], is_filter, all)?;
        filled = 0;
    }
}

/// Writes the answer: pieces of the request where that is enough.
fn answer(stream: &mut TcpStream, body: &[u8], is_filter: bool, all: &[u8]) -> Result<()> {
    // before it there is only the pod
    let Some(nodes) = body.windows(NODES_KEY.len()).position(|part| part == NODES_KEY) else {
        return send(stream, &[format!("{}\n", ASKED.load(Ordering::Relaxed)).as_bytes()]);
    };
    ASKED.fetch_add(1, Ordering::Relaxed);
    let is_names = body[nodes + NODES_KEY.len()..].trim_ascii_start().starts_with(b"null");
    let mut keys = body[nodes..].windows(NAMES_KEY.len());
    let is_key = |part: &[u8]| part == NAMES_KEY;
    // the search does not run through names or objects: the key is before the names, and behind the objects
    let key = if is_names { keys.position(is_key) } else { keys.rposition(is_key) };
    let at = nodes + key.expect("names, or null") + NAMES_KEY.len();
    let names = body[at..].trim_ascii_start();
    let names = &names[..names.iter().position(|byte| *byte == b']').map_or(0, |end| end + 1)];
    if !names.is_empty() {
        if is_filter {
            return send(stream, &[b"{\"NodeNames\":", names, b"}"]);
        }
        return send(stream, &[&scores(names)]);
    }
    if !is_filter {
        return send(stream, &[all]);
    }
    send(stream, &[b"{", body[nodes..at - NAMES_KEY.len()].trim_ascii_end(), b"\"NodeNames\":null}"])
}

/// Points from 0 to 9 for each name of the list.
fn scores(names: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(names.len() * 2 + 64);
    for (number, name) in names.split(|byte| *byte == b'"').skip(1).step_by(2).enumerate() {
        out.extend_from_slice(if number == 0 { b"[{\"Host\":\"" } else { b",{\"Host\":\"" });
        out.extend_from_slice(name);
        let points = b'0' + name.last().map_or(0, |byte| byte % 10);
        out.extend_from_slice(&[b"\",\"Score\":".as_slice(), &[points], b"}"].concat());
    }
    out.push(b']');
    out
}

fn send(stream: &mut TcpStream, pieces: &[&[u8]]) -> Result<()> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let mut slices: Vec<IoSlice<'_>> = vec![IoSlice::new(head.as_bytes())];
    slices.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        let written = stream.write_vectored(left)?;
        IoSlice::advance_slices(&mut left, written);
    }
    Ok(())
}
