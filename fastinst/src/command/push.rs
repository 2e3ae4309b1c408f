//! Sending profiles to a server: as much of HTTP/1.1 (RFC 9112) as one request needs.

use super::Failure;
use std::fmt::{self, Display};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server is waited for; and the most that is read of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: u64 = 1 << 16;

/// Where profiles are sent.
#[derive(Debug)]
pub(crate) struct Server {
    /// Name or address, and port.
    host: String,
    path: String,
}

impl Server {
    /// From a URL; without a path in it, the service's own path is taken.
    pub(crate) fn parse(url: &str, path: &str) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::Usage(format!("--push {url}: {why}"));
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(refused(
                    "https is not supported: use the address of an agent or collector on this machine, which forwards profiles",
                ));
            }
            _ => return Err(refused("expected http://HOST:PORT")),
        };
        let (host, own) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        // An IPv6 address is in brackets.
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || "?#@".contains(c)) {
            return Err(refused("expected http://HOST:PORT"));
        }
        let host = match port.map(str::parse::<u16>) {
            None => format!("{host}:80"),
            Some(Ok(1..)) => host.to_owned(),
            Some(_) => return Err(refused("a port is a number from 1 to 65535")),
        };
        let path = if own.trim_end_matches('/').is_empty() { path } else { own };
        Ok(Self { host, path: path.to_owned() })
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn send(&self, kind: &str, body: &[u8]) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::Refused(format!("cannot send to {self}: {error}; is a server running there?"))
        };
        let answer = self.exchange(kind, body).map_err(failed)?;
        let mut lines = answer.lines();
        let status =
            lines.next().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest);
        if status.starts_with('2') {
            return Ok(());
        }
        let said = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
        let said = said.lines().next().unwrap_or("");
        Err(Failure::Refused(match status {
            "" => format!("{self} did not answer in HTTP"),
            status if said.is_empty() => format!("{self} refused the profile: {status}"),
            status => format!("{self} refused the profile: {status}: {said}"),
        }))
    }

    fn exchange(&self, kind: &str, body: &[u8]) -> io::Result<String> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.host.to_socket_addrs()? {
            let mut stream = match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let Self { host, path } = self;
            write!(
                stream,
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n\
                 Content-Length: {}\r\nUser-Agent: fastinst/{}\r\nConnection: close\r\n\r\n",
                body.len(),
                env!("CARGO_PKG_VERSION")
            )?;
            stream.write_all(body)?;
            stream.flush()?;
            let mut answer = Vec::new();
            // A server may close before all was read; what it said until then counts.
            let read = stream.take(LONGEST).read_to_end(&mut answer);
            if answer.is_empty() {
                read?;
            }
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        Err(last)
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}
