//! Serving a socket on a thread that has other work.
//!
//! Nothing here waits. A client that sends slowly, or does not read its answer, is disconnected
//! after a while; one that sends too much is disconnected at once. There is a limited number of
//! places for clients that are served at the same time; others wait in the kernel's queue.
//!
//! | state of a place | what it does at a look |
//! |---|---|
//! | its line is not complete | takes what has come |
//! | asked | nothing: its line was handed out, and the answer is awaited |
//! | answered | sends as much as there is room for; is left when all is sent |

use crate::Answer;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};
use wordpatch::os::sockets::{Listener, Visitor};

/// How many are served at the same time.
const PLACES: usize = 4;
/// The longest line.
const LINE: usize = 64 << 10;
/// How long a client has for its line, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the thread may sleep while no client is there, and while one is.
const PAUSE: Duration = Duration::from_millis(100);
const ATTENTIVE: Duration = Duration::from_millis(2);

/// A listener, and those that have connected.
#[derive(Debug)]
pub struct Visitors {
    listener: Listener,
    places: Vec<Place>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Place {
    visitor: Visitor,
    stage: Stage,
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    Asking(Vec<u8>),
    Asked,
    Answered { bytes: Vec<u8>, sent: usize },
    Left,
}

impl Visitors {
    /// Serves a listener.
    pub fn new(listener: Listener) -> Self {
        Self { listener, places: Vec::new(), looked: None }
    }

    /// Where its socket is.
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// How long the thread may sleep until it looks again.
    pub fn pause(&self) -> Duration {
        if self.places.is_empty() { PAUSE } else { ATTENTIVE }
    }

    /// Whether it is time to look: looking takes system calls.
    pub fn is_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now.duration_since(looked) >= self.pause())
    }

    /// Takes what has come, and sends what there is room for. The lines that were completed since,
    /// which are to be answered in this order.
    pub fn look(&mut self, now: Instant) -> Vec<String> {
        self.looked = Some(now);
        while self.places.len() < PLACES
            && let Ok(Some(visitor)) = self.listener.accept_now()
        {
            let (stage, until) = (Stage::Asking(Vec::new()), now + PATIENCE);
            self.places.push(Place { visitor, stage, until });
        }
        let asked = self.places.iter_mut().filter_map(|place| place.look(now)).collect();
        self.places.retain(|place| !matches!(place.stage, Stage::Left));
        asked
    }

    /// Answers the first request that was not answered yet.
    pub fn answer(&mut self, answer: &Answer, now: Instant) {
        let mut asked = self.places.iter_mut().filter(|place| matches!(place.stage, Stage::Asked));
        if let Some(place) = asked.next() {
            place.stage = Stage::Answered { bytes: answer.bytes(), sent: 0 };
            place.until = now + PATIENCE;
            place.send();
        }
        self.places.retain(|place| !matches!(place.stage, Stage::Left));
    }

    /// Whether a client waits for an answer, or to be sent the rest of one.
    pub fn are_there(&self) -> bool {
        !self.places.is_empty()
    }
}

impl Place {
    /// Its line, if it is complete now.
    fn look(&mut self, now: Instant) -> Option<String> {
        let line = match self.stage {
            Stage::Asking(_) => self.receive(),
            Stage::Answered { .. } => {
                self.send();
                None
            }
            Stage::Asked | Stage::Left => None,
        };
        if now > self.until && !matches!(self.stage, Stage::Asked) {
            self.stage = Stage::Left;
        }
        line
    }

    fn receive(&mut self) -> Option<String> {
        let Stage::Asking(line) = &mut self.stage else { return None };
        let mut buffer = [0; 1024];
        loop {
            match self.visitor.receive(&mut buffer) {
                Ok(0) => break,
                Ok(len) => line.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => break,
            }
            if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
                let text = String::from_utf8_lossy(&line[..end]).into_owned();
                self.stage = Stage::Asked;
                return Some(text);
            }
            if line.len() > LINE {
                break;
            }
        }
        self.stage = Stage::Left;
        None
    }

    fn send(&mut self) {
        let Stage::Answered { bytes, sent } = &mut self.stage else { return };
        while *sent < bytes.len() {
            match self.visitor.send(&bytes[*sent..]) {
                Ok(len) => *sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.visitor.end();
        self.stage = Stage::Left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn served(name: &str) -> Visitors {
        let name = format!("test-{name}-{}.sock", std::process::id());
        Visitors::new(Listener::bind(&name).expect("a socket"))
    }

    fn client(of: &Visitors) -> UnixStream {
        UnixStream::connect(of.path()).expect("a listener")
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_handed_out_when_it_is_complete() {
        let mut visitors = served("pieces");
        let now = Instant::now();
        assert!(visitors.look(now).is_empty() && visitors.is_due(now + PAUSE));
        let mut client = client(&visitors);
        client.write_all(b"only par").unwrap();
        assert!(visitors.look(now).is_empty() && visitors.pause() == ATTENTIVE);
        client.write_all(b"se_*\n").unwrap();
        assert_eq!(visitors.look(now), ["only parse_*"]);
        assert!(visitors.look(now).is_empty(), "once");
        visitors.answer(&Answer::Done(b"done".to_vec()), now);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ok\ndone");
        assert!(!visitors.are_there());
    }

    #[test]
    fn clients_that_say_nothing_too_much_or_do_not_read_keep_no_place() {
        let mut visitors = served("hostile");
        let now = Instant::now();
        let silent = client(&visitors);
        let mut deaf = client(&visitors);
        let gone = client(&visitors);
        drop(gone);
        let mut talkative = client(&visitors);
        deaf.write_all(b"snapshot\n").unwrap();
        talkative.set_nonblocking(true).unwrap();
        let mut written = 0;
        while written <= LINE + 4096 {
            match talkative.write(&[b'x'; 4096]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    visitors.look(now);
                }
                Err(_) => break,
            }
        }
        let mut lines = visitors.look(now);
        lines.extend(visitors.look(now));
        assert!(visitors.places.len() <= 2, "{:?}", visitors.places);
        visitors.answer(&Answer::Done(vec![0; 16 << 20]), now);
        assert!(visitors.are_there());
        visitors.look(now + PATIENCE + PATIENCE);
        assert!(!visitors.are_there());
        drop((silent, deaf));
    }

    #[test]
    fn several_are_answered_in_the_order_in_which_they_were_handed_out() {
        let mut visitors = served("several");
        let now = Instant::now();
        let mut clients: Vec<UnixStream> = (0..PLACES + 2).map(|_| client(&visitors)).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.write_all(format!("{at}\n").as_bytes()).unwrap();
        }
        let mut answered = 0;
        while answered < clients.len() {
            for line in visitors.look(now) {
                visitors.answer(&Answer::Done(line.into_bytes()), now);
                answered += 1;
            }
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("ok\n{at}"));
        }
    }
}
