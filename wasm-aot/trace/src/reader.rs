//! Reads traces: one block at a time, from files that may be truncated, damaged or forged.

use crate::binary;
use crate::block::{self, BlockKind, Found};
use crate::cursor::Cursor;
use crate::error::Error;
use crate::event::Event;
use crate::program::{ModuleHash, Program};
use crate::{MAGIC, VERSION};
use std::io::{self, Read};
use std::time::Duration;

/// How a trace ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is complete.
    Whole,
    /// It ends before the program did, for this reason.
    Stopped(String),
    /// It is truncated: the recorder was killed, or the file was cut off.
    Cut,
}

/// A trace that is being read: its events, one by one.
#[derive(Debug)]
pub struct Reader<R: Read> {
    from: R,
    program: Program,
    /// The offsets in the file of the next block and of the last one.
    offset: u64,
    begun: u64,
    /// The current block's bytes, and the position in them.
    plain: Vec<u8>,
    at: usize,
    /// The number of events read.
    events: u64,
    ending: Option<Ending>,
    host_time: Option<Duration>,
    has_failed: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read: the program and its module.
    pub fn new(mut from: R) -> Result<Self, Error> {
        let mut head = [0; MAGIC.len() + 4];
        from.read_exact(&mut head).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::NotATrace,
            _ => Error::Io(error),
        })?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Error::NotATrace);
        }
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let nothing = Program {
            hash: ModuleHash([0; 32]),
            module: None,
            name: String::new(),
            args: Vec::new(),
            recorder: String::new(),
        };
        let mut this = Self {
            from,
            program: nothing,
            offset: head.len() as u64,
            begun: 0,
            plain: Vec::new(),
            at: 0,
            events: 0,
            ending: None,
            host_time: None,
            has_failed: false,
        };
        this.read_program()?;
        Ok(this)
    }

    /// The recorded program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// How the trace ends; known when all events were read.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The time that the host had control in calls of the program, if the trace contains it; known
    /// when all events were read.
    pub fn host_time(&self) -> Option<Duration> {
        self.host_time
    }

    fn read_program(&mut self) -> Result<(), Error> {
        let Some((kind, bytes)) = self.block()? else { return Err(Error::Empty) };
        if kind != BlockKind::Program {
            return Err(self.damaged("the recorded program should be here"));
        }
        let (program, len) = Program::unpack(&bytes).map_err(|what| self.damaged(what))?;
        self.program = program;
        let mut module = Vec::new();
        while (module.len() as u64) < len {
            match self.block()? {
                None => return Err(Error::Empty),
                Some((BlockKind::Module, piece)) if !piece.is_empty() => {
                    module.extend_from_slice(&piece);
                }
                Some(_) => return Err(self.damaged("the module is not whole")),
            }
        }
        if len > 0 {
            if module.len() as u64 != len || ModuleHash::new(&module) != self.program.hash {
                return Err(self.damaged("the module is not the one that was recorded"));
            }
            self.program.module = Some(module);
        }
        Ok(())
    }

    fn block(&mut self) -> Result<Option<(BlockKind, Vec<u8>)>, Error> {
        self.begun = self.offset;
        match block::read(&mut self.from)?.map_err(|what| self.damaged(what))? {
            Found::Block(kind, plain, len) => {
                self.offset += len;
                Ok(Some((kind, plain)))
            }
            Found::End { .. } => Ok(None),
        }
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { offset: self.begun, what: what.into() }
    }

    fn event(&mut self) -> Result<Option<Event>, Error> {
        while self.at == self.plain.len() {
            if self.ending.is_some() {
                return Ok(None);
            }
            match self.block()? {
                None => self.ending = Some(Ending::Cut),
                Some((BlockKind::Events, plain)) => (self.plain, self.at) = (plain, 0),
                Some((BlockKind::End, plain)) => self.ending = Some(self.end(&plain)?),
                Some(_) => return Err(self.damaged("events should be here")),
            }
        }
        let mut cursor = Cursor(&self.plain[self.at..]);
        let event = binary::take(&mut cursor).map_err(|what| self.damaged(what))?;
        self.at = self.plain.len() - cursor.0.len();
        self.events += 1;
        Ok(Some(event))
    }

    fn end(&mut self, plain: &[u8]) -> Result<Ending, Error> {
        let mut cursor = Cursor(plain);
        let (count, why) = cursor
            .number()
            .and_then(|count| Ok((count, cursor.text()?)))
            .map_err(|what| self.damaged(what))?;
        if !cursor.is_empty() {
            let time = cursor.number().map_err(|what| self.damaged(what))?;
            self.host_time = Some(Duration::from_nanos(time));
        }
        if count != self.events || !cursor.is_empty() {
            let what = format!("{count} events were written, and {} are here", self.events);
            return Err(self.damaged(what));
        }
        Ok(if why.is_empty() { Ending::Whole } else { Ending::Stopped(why) })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.event().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}
