//! `wasm-aot record --serve`: receives traces from pages, workers and node, sent by the scripts of
//! `whamm record --glue`.
//!
//! ```text
//!     POST /TOKEN/NAME/ID/OFFSET        a piece of the trace ID, which belongs at that place
//!     POST /TOKEN/NAME/ID/OFFSET/end    the last one
//! ```
//!
//! Requests are accepted from this machine only, and only from scripts with the token: any page may
//! send something to a port, but only pages that contain the script know the token. This file
//! implements only the part of HTTP/1.1 (RFC 9112) that is needed for that.

mod received;

use super::Failure;
use parking_lot::Mutex;
use received::Received;
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The limits: the time to wait for a sender, and the sizes of a head and of a piece.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 16 << 10;
const LONGEST_PIECE: usize = 64 << 20;
/// The maximum number of open traces, and of senders.
const MOST_TRACES: usize = 256;
const MOST_SENDERS: usize = 64;

/// Receives traces until the process is killed.
pub(super) fn serve(port: u16, script: &Path, folder: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("--serve {port}: cannot listen on 127.0.0.1: {error}"))
    };
    let text = super::read(script)?;
    let token = token_of(&text).ok_or_else(|| {
        Failure::usage(format!(
            "{}: not a script of `whamm record --glue`: with --serve, name the one that sends the \
             traces",
            script.display()
        ))
    })?;
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let server = Arc::new(Server {
        token: token.to_owned(),
        hosts: [format!("127.0.0.1:{}", bound.port()), format!("localhost:{}", bound.port())],
        folder: folder.to_owned(),
        traces: Mutex::default(),
        senders: Mutex::new(0),
    });
    super::complain(format!("receiving traces on {bound} into {}; Ctrl-C ends", folder.display()));
    for stream in listener.incoming() {
        // A sender that has disconnected does not end the server.
        let Ok(stream) = stream else { continue };
        let server = Arc::clone(&server);
        let mut senders = server.senders.lock();
        if *senders >= MOST_SENDERS {
            let _ = answer(&stream, "503 Service Unavailable");
            continue;
        }
        *senders += 1;
        drop(senders);
        let own = Arc::clone(&server);
        let serve = move || {
            let _ = own.serve(&stream);
            *own.senders.lock() -= 1;
        };
        if std::thread::Builder::new().name("sender".into()).spawn(serve).is_err() {
            *server.senders.lock() -= 1;
        }
    }
    Ok(())
}

/// Returns the token in a script.
fn token_of(script: &[u8]) -> Option<&str> {
    let line = script.split(|byte| *byte == b'\n').next()?;
    let token = std::str::from_utf8(line).ok()?.strip_prefix("// fi-record ")?.trim_end();
    let is_token = token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_token.then_some(token)
}

#[derive(Debug)]
struct Server {
    token: String,
    /// The names of this machine that are accepted in requests: another name means that the sender
    /// was redirected here.
    hosts: [String; 2],
    folder: PathBuf,
    /// `None` for a trace that has ended.
    traces: Mutex<HashMap<String, Option<Received>>>,
    senders: Mutex<usize>,
}

/// A request of a sender.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    host: String,
    len: usize,
    /// The part of the piece that has arrived with the head.
    begun: Vec<u8>,
}

impl Server {
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(request) = head(stream)? else { return answer(stream, "400 Bad Request") };
        if !self.hosts.contains(&request.host) {
            return answer(stream, "403 Forbidden");
        }
        // Browsers send this before they let a page send something to this machine.
        if request.method == "OPTIONS" {
            return answer(stream, "204 No Content");
        }
        let words: Vec<&str> = request.path.split('/').collect();
        let (token, name, id, offset, is_last) = match words[..] {
            ["", token, name, id, offset] => (token, name, id, offset, false),
            ["", token, name, id, offset, "end"] => (token, name, id, offset, true),
            _ => return answer(stream, "404 Not Found"),
        };
        if token != self.token {
            return answer(stream, "403 Forbidden");
        }
        let (Ok(offset), "POST", true, true) =
            (offset.parse(), &*request.method, is_plain(name), is_plain(id))
        else {
            return answer(stream, "400 Bad Request");
        };
        if request.len > LONGEST_PIECE || request.begun.len() > request.len {
            return answer(stream, "413 Content Too Large");
        }
        let mut piece = request.begun;
        let at = piece.len();
        piece.resize(request.len, 0);
        stream.read_exact(&mut piece[at..])?;
        let status = self.take(name, id, (offset, is_last), piece);
        answer(stream, status)
    }

    /// Writes a piece to its trace.
    fn take(
        &self,
        name: &str,
        id: &str,
        (offset, is_last): (u64, bool),
        piece: Vec<u8>,
    ) -> &'static str {
        let mut traces = self.traces.lock();
        if !traces.contains_key(id) {
            if traces.values().flatten().count() >= MOST_TRACES {
                return "503 Service Unavailable";
            }
            match Received::create(&self.folder, name) {
                Ok(trace) => {
                    super::complain(format!("{}: recording begins", trace.path().display()));
                    traces.insert(id.to_owned(), Some(trace));
                }
                Err(error) => {
                    super::complain(format!("{}: {name}: {error}", self.folder.display()));
                    return "507 Insufficient Storage";
                }
            }
        }
        let Some(Some(trace)) = traces.get_mut(id) else { return "409 Conflict" };
        match trace.take(offset, piece, is_last) {
            Ok(None) => "200 OK",
            Ok(Some(len)) => {
                super::complain(format!("{}: recorded, {len} bytes", trace.path().display()));
                traces.insert(id.to_owned(), None);
                "200 OK"
            }
            Err(why) => {
                super::complain(format!(
                    "{}: the trace ends here, and the program goes on: {why}",
                    trace.path().display()
                ));
                traces.insert(id.to_owned(), None);
                "507 Insufficient Storage"
            }
        }
    }
}

/// Whether a text can be a part of a file's name.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Reads a request's head; `None` if it is malformed.
fn head(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let read = stream.read(&mut piece)?;
        if read == 0 || head.len() > LONGEST_HEAD {
            return Ok(None);
        }
        head.extend_from_slice(&piece[..read]);
    };
    let begun = head.split_off(end + 4);
    Ok(parsed(&String::from_utf8_lossy(&head[..end]), begun))
}

fn parsed(head: &str, begun: Vec<u8>) -> Option<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut host, mut len) = (String::new(), 0);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match &*name.to_ascii_lowercase() {
            "host" => value.trim().clone_into(&mut host),
            "content-length" => len = value.trim().parse().ok()?,
            // Transfer encodings are not supported.
            "transfer-encoding" => return None,
            _ => {}
        }
    }
    Some(Request { method, path, host, len, begun })
}

fn answer(mut stream: &TcpStream, status: &str) -> io::Result<()> {
    // Pages of any origin can read the answer: it contains nothing but the status.
    write!(
        stream,
        "HTTP/1.1 {status}\r\nAccess-Control-Allow-Origin: *\r\n\
         Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Private-Network: true\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_in_the_first_line_of_a_script() {
        assert_eq!(token_of(b"// fi-record 0123456789abcdef\nx"), Some("0123456789abcdef"));
        for other in [
            "",
            "// fi-record 0123",
            "// fi-record 0123456789abcdeg",
            "x\n// fi-record 0123456789abcdef",
        ] {
            assert_eq!(token_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_head_is_read_as_far_as_it_matters() {
        let head = "POST /t/a/1/0 HTTP/1.1\r\nHost: localhost:7\r\nX: y\r\ncontent-length: 3";
        let request = parsed(head, b"ab".to_vec()).expect("a request");
        assert_eq!((&*request.path, &*request.host, request.len), ("/t/a/1/0", "localhost:7", 3));
        for other in [
            "",
            "POST",
            "POST /\r\nHost",
            "POST /\r\nContent-Length: -1",
            "POST /\r\nTransfer-Encoding: chunked",
        ] {
            assert_eq!(parsed(other, Vec::new()), None, "{other}");
        }
        assert!(is_plain("app-1_a") && !is_plain("") && !is_plain("a.b") && !is_plain(".."));
    }
}
