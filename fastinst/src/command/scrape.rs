//! A port that metrics are scraped from: as much of HTTP/1.1 (RFC 9112) as a scraper needs.

use super::{Failure, say};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long a scraper is waited for, and the longest request.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST: usize = 8192;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metrics {
    /// OpenMetrics text.
    Text,
    /// Protocol buffers with native histograms, for scrapers that ask for them.
    Native,
}

impl Metrics {
    /// What a request asks for. A scraper that knows protocol buffers names them in `Accept`.
    fn wanted(request: &str) -> Self {
        let accepts = request.lines().filter_map(|line| line.split_once(':'));
        let mut accepts = accepts.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        match accepts.any(|(_, kinds)| kinds.contains("application/vnd.google.protobuf")) {
            true => Self::Native,
            false => Self::Text,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Text => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Native => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// Answers each request for `/metrics` with what there is then; ends with the process.
pub(crate) fn serve(
    address: &str,
    metrics: impl Fn(Metrics) -> Result<Vec<u8>, Failure>,
) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| {
        let why =
            format!("cannot listen on {address}: {error}; give an address such as 127.0.0.1:9464");
        match error.kind() {
            // It is not an address.
            io::ErrorKind::InvalidInput => Failure::Usage(why),
            _ => Failure::Refused(why),
        }
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    say(&format!("serving http://{bound}/metrics; Ctrl-C ends it"));
    for stream in listener.incoming() {
        // A scraper that has disconnected is not a reason to end.
        let _ = stream.and_then(|stream| answer(stream, &metrics));
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(
    mut stream: TcpStream,
    metrics: impl Fn(Metrics) -> Result<Vec<u8>, Failure>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = request(&mut stream)?;
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let wanted = Metrics::wanted(&request);
            match metrics(wanted) {
                Ok(body) => ("200 OK", wanted.kind(), body),
                Err(failure) => {
                    ("503 Service Unavailable", "text/plain", format!("{failure}\n").into())
                }
            }
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".into()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(&body)?;
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
