//! Writes traces: in blocks, each of which is complete on the disk before the next one begins.

use crate::binary;
use crate::block::{BlockKind, LARGEST, pack};
use crate::cursor::{put_counted, put_number};
use crate::event::{Change, Event};
use crate::program::Program;
use crate::{MAGIC, VERSION};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};

/// A block is written when it has this number of bytes …
const FULL: usize = 64 << 10;
/// … or when an event is added this long after the last block was written.
const LATEST: Duration = Duration::from_millis(200);
/// The maximum number of bytes of one event; a longer write is several events.
const PIECE: usize = 32 << 10;

/// The destination of a trace.
pub trait Sink {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates to this length.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Sink for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
}

/// A trace that is being written.
///
/// The recorder continues whatever happens to the file: an error is stored, later events are
/// dropped, and the trace ends with the last block that fitted.
#[derive(Debug)]
pub struct Writer<S: Sink> {
    sink: S,
    /// The length of the file.
    len: u64,
    /// Events that are not written yet, and their number.
    plain: Vec<u8>,
    pending: u64,
    /// The number of events written.
    written: u64,
    /// The length and the number of events of the file before its last block.
    before: (u64, u64),
    last: Instant,
    host_time: Option<Duration>,
    failure: Option<io::Error>,
}

impl<S: Sink> Writer<S> {
    /// Begins a trace.
    pub fn new(sink: S, program: &Program) -> io::Result<Self> {
        let mut this = Self {
            sink,
            len: 0,
            plain: Vec::with_capacity(FULL + PIECE + 64),
            pending: 0,
            written: 0,
            before: (0, 0),
            last: Instant::now(),
            host_time: None,
            failure: None,
        };
        this.append(&beginning(program)?)?;
        this.before = (this.len, 0);
        Ok(this)
    }

    /// Appends an event.
    pub fn push(&mut self, event: &Event) {
        if self.failure.is_some() {
            return;
        }
        let (change, again): (_, fn(Change) -> Event) = match event {
            Event::Host(change) => (change, Event::Host),
            Event::Found(change) => (change, Event::Found),
            Event::Seen(change) => (change, Event::Seen),
            Event::Own(change) => (change, Event::Own),
            event => return self.put(event),
        };
        match change {
            Change::Write { bytes, .. } if bytes.len() > PIECE => {
                pieces(change, |piece| self.put(&again(piece)));
            }
            _ => self.put(event),
        }
    }

    fn put(&mut self, event: &Event) {
        binary::put(&mut self.plain, event);
        self.pending += 1;
        if self.plain.len() >= FULL || self.last.elapsed() >= LATEST {
            self.flush();
        }
    }

    /// Writes the events that are not written yet.
    pub fn flush(&mut self) {
        self.last = Instant::now();
        if self.pending == 0 || self.failure.is_some() {
            return;
        }
        // Only a forged event of many values exceeds the size of a block.
        let (before, block) = (self.len, pack(BlockKind::Events, &self.plain));
        match self.append(&block) {
            Ok(()) => {
                self.before = (before, self.written);
                self.written += self.pending;
            }
            Err(error) => self.failure = Some(error),
        }
        self.plain.clear();
        self.pending = 0;
    }

    /// Ends the trace here, and records why: later events are dropped.
    pub fn stop(&mut self, why: impl Into<String>) {
        self.flush();
        self.failure.get_or_insert_with(|| io::Error::other(why.into()));
    }

    /// The error because of which the trace is incomplete.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Records at the end of the trace how long the host had control in calls of the program.
    pub fn tell_host_time(&mut self, time: Duration) {
        self.host_time = Some(time);
    }

    /// The number of its events.
    pub fn events(&self) -> u64 {
        self.written + self.pending
    }

    /// Ends the trace; returns the number of its events, its sink, and the error because of which
    /// it is incomplete.
    pub fn finish(mut self) -> (u64, S, Option<io::Error>) {
        self.flush();
        if self.failure.is_none()
            && let Err(error) = self.append(&end(self.written, "", self.host_time))
        {
            self.failure = Some(error);
        }
        if let Some(error) = &self.failure {
            // If there was no space for a block, there may be space for the end block, or in place
            // of the last block.
            let why = error.to_string();
            if self.append(&end(self.written, &why, self.host_time)).is_err() {
                let (len, written) = self.before;
                self.written = written;
                if self.sink.cut(len).is_ok() {
                    self.len = len;
                    let _ = self.append(&end(written, &why, self.host_time));
                }
            }
        }
        (self.written, self.sink, self.failure)
    }

    /// Appends bytes to the file: all of them or none.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.sink.append(bytes) {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If this fails, too, readers find an incomplete block.
                let _ = self.sink.cut(self.len);
                Err(error)
            }
        }
    }
}

/// The bytes before the events, for recorders that write the events themselves.
pub fn beginning(program: &Program) -> io::Result<Vec<u8>> {
    let head = program.pack();
    if head.len() > LARGEST {
        let what = "the program's arguments are longer than a megabyte";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    bytes.extend(pack(BlockKind::Program, &head));
    for piece in program.module.iter().flat_map(|module| module.chunks(LARGEST)) {
        bytes.extend(pack(BlockKind::Module, piece));
    }
    Ok(bytes)
}

/// The last block: the number of events, why there are no more, and how long the host had control.
pub fn end(events: u64, why: &str, host_time: Option<Duration>) -> Vec<u8> {
    let mut plain = Vec::new();
    put_number(&mut plain, events);
    put_counted(&mut plain, why.as_bytes());
    if let Some(time) = host_time {
        put_number(&mut plain, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
    pack(BlockKind::End, &plain)
}

/// Splits a write into pieces.
fn pieces(change: &Change, mut each: impl FnMut(Change)) {
    let Change::Write { memory, address, bytes } = change else { return };
    for (i, piece) in bytes.chunks(PIECE).enumerate() {
        let address = address.wrapping_add((i * PIECE) as u64);
        each(Change::Write { memory: *memory, address, bytes: piece.to_vec() });
    }
}
