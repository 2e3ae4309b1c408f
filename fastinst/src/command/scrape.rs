//! A port that metrics are scraped from: as much of HTTP/1.1 (RFC 9112) as a scraper needs.

use super::{Failure, say};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// No scraper is waited for longer, and no request is longer.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST: usize = 8192;

/// Answers each request for `/metrics` with what there is then; ends with the process.
pub(crate) fn serve(
    address: &str,
    metrics: impl Fn() -> Result<String, Failure>,
) -> Result<ExitCode, Failure> {
    let failed = |error| {
        Failure::Refused(format!(
            "cannot listen on {address}: {error}; give an address such as 127.0.0.1:9464"
        ))
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    say(&format!("serving http://{bound}/metrics; Ctrl-C ends it"));
    for stream in listener.incoming() {
        // A scraper that has left is no reason to end.
        let _ = stream.and_then(|stream| answer(stream, &metrics));
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(mut stream: TcpStream, metrics: impl Fn() -> Result<String, Failure>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = request(&mut stream)?;
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match metrics() {
            Ok(text) => {
                ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
            }
            Err(failure) => ("503 Service Unavailable", "text/plain", format!("{failure}\n")),
        },
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// All of a request's head.
fn request(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut piece)?;
        if read == 0 || head.len() > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&piece[..read]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
