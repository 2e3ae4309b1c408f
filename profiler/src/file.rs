//! The file of a profile: all of its functions, in compressed columns.
//!
//! ```text
//!   "fastinst" │ version │ sum of what follows │ bytes of the packed columns, inflated and deflated │ they │ the other column
//!       8           4               4                           8             8
//! ```
//!
//! Whole numbers are stored exactly; times and shares with seven digits. A file has no size limit.
//! A file that is read may take at most [`RATIO`] times its own size in memory, plus [`SLACK`]. A
//! profile that would need more is written uncompressed, so that its file is large enough.
//!
//! Files of earlier versions are JSON, and can still be read.

use crate::profile::Profile;
use crate::{ClockEvidence, ClockSource, Figure, Policy, Timed};
use columns::{Reader, Writer};
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

mod columns;
mod foreign;
mod functions;

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"fastinst";
/// The version of the format. Files of later versions are refused with their number.
const VERSION: u32 = 3;
/// The latest version whose files are JSON.
const JSON: u32 = 2;
/// The earliest version that is read. Its totals are means times counts, by the wall clock, and are
/// reconciled without a sampling clock.
const EARLIER: u32 = 1;
/// The size limit of JSON files: no file of these versions was as large.
const LARGEST_JSON: usize = 64_000_000;

/// The size of the header before the columns.
const FRONT: usize = 32;
/// The memory that a file may take when it is read, as a multiple of its size, and in addition.
const RATIO: usize = 64;
const SLACK: usize = 1 << 20;
/// Below this size, starting to compress takes longer than writing the bytes as they are.
const LITTLE: usize = 32 << 10;
/// This level takes a third of the default level's time, and a tenth more space.
const LEVEL: Compression = Compression::new(1);

/// The contents of a file of the earlier versions.
#[derive(Serialize, Deserialize)]
struct File<P> {
    fastinst: u32,
    profile: P,
}

/// Why a file is not a profile.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It has another format.
    #[error("not a fastinst profile but {0}")]
    NoProfile(&'static str),
    /// It has another version.
    #[error(
        "it has format version {0}, and this fastinst reads versions up to {VERSION}: use the fastinst that wrote it"
    )]
    Version(u32),
    /// It has impossible numbers.
    #[error("function {0} has impossible numbers: the file is damaged")]
    Unsound(u32),
    /// A part of it is missing or changed.
    #[error("it is damaged: a part of it is missing or changed")]
    Damaged,
    /// It is too large.
    #[error("it has {0} bytes, more than any profile: it is damaged, or not a profile")]
    TooLarge(usize),
    /// It would be too large in memory.
    #[error(
        "it would inflate to {0} bytes, more than any profile: it is damaged, or not a profile"
    )]
    Bomb(u64),
}

/// The way to encode a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As small as possible.
    Deflated,
    /// As fast as possible, for a reader that is waiting.
    Plain,
}

impl Profile {
    /// Writes the profile.
    pub fn to_file(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_bytes(Packing::Deflated))
    }

    /// The bytes that [`from_file`](Self::from_file) reads.
    pub fn to_bytes(&self, packing: Packing) -> Vec<u8> {
        let packed = (packing == Packing::Deflated).then(|| self.pack(true, true)).flatten();
        let encoded = packed.or_else(|| self.pack(false, true)).or_else(|| self.pack(false, false));
        encoded.unwrap_or_default()
    }

    /// The same; `None` if a reader would refuse it, because it takes too much memory.
    fn pack(&self, is_deflated: bool, names_share: bool) -> Option<Vec<u8>> {
        let mut columns = Writer::new(names_share);
        columns.text(&serde_json::to_vec(&(&self.header, &self.modules)).ok()?);
        functions::write(self, &mut columns);
        let names = columns.names;
        let (packed, lower) = columns.finish();
        let mut bytes = Vec::with_capacity(FRONT + packed.len() + lower.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend([0; 8]);
        let deflated = match is_deflated && packed.len() >= LITTLE {
            true => deflate(&packed, &mut bytes)?,
            false => {
                bytes.extend(&packed);
                packed.len()
            }
        };
        bytes[24..FRONT].copy_from_slice(&(deflated as u64).to_le_bytes());
        bytes.extend(&lower);
        seal(&mut bytes);
        (packed.len().max(names) <= limit(bytes.len())).then_some(bytes)
    }

    /// Reads a profile.
    pub fn from_file(bytes: &[u8]) -> Result<Self, FileError> {
        let (mut profile, version) = match bytes.strip_prefix(MAGIC) {
            Some(_) => (Self::from_columns(bytes)?, VERSION),
            None => Self::from_json(bytes)?,
        };
        match profile.functions.iter().find(|function| !function.is_sound(profile.modules.len())) {
            Some(function) => return Err(FileError::Unsound(function.id.0)),
            None if !profile.is_sound() => return Err(FileError::Unsound(0)),
            None => {}
        }
        if version == EARLIER {
            profile.update();
        }
        profile.make_printable();
        Ok(profile)
    }

    fn from_columns(bytes: &[u8]) -> Result<Self, FileError> {
        let word = |at| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or(FileError::Damaged)
        };
        let (version, sum) = (word(8)? as u32, (word(8)? >> 32) as u32);
        if version != VERSION {
            return Err(FileError::Version(version));
        }
        let (inflated, deflated) = (word(16)?, word(24)?);
        if sum != sum_of(bytes) {
            return Err(FileError::Damaged);
        }
        if inflated > limit(bytes.len()) as u64 {
            return Err(FileError::Bomb(inflated));
        }
        let split =
            usize::try_from(deflated).ok().and_then(|at| bytes[FRONT..].split_at_checked(at));
        let (packed, lower) = split.ok_or(FileError::Damaged)?;
        let unpacked;
        let packed = match deflated == inflated {
            true => packed,
            false => {
                unpacked = inflate(packed, inflated as usize)?;
                &unpacked
            }
        };
        let mut columns = Reader::new(packed, lower, limit(bytes.len()))?;
        let front = serde_json::from_slice(columns.text()?);
        let (header, modules) = front.map_err(|_| FileError::Damaged)?;
        let (functions, stacks) = (Vec::new(), Vec::new());
        let mut profile = Self { header, modules, functions, stacks };
        functions::read(&mut columns, &mut profile)?;
        Ok(profile)
    }

    /// Reads a file of an earlier version.
    fn from_json(bytes: &[u8]) -> Result<(Self, u32), FileError> {
        if bytes.len() > LARGEST_JSON {
            return Err(FileError::TooLarge(bytes.len()));
        }
        #[derive(Deserialize)]
        struct Version {
            fastinst: u32,
        }
        let Version { fastinst } = serde_json::from_slice(bytes)
            .map_err(|_| FileError::NoProfile(foreign::kind(bytes)))?;
        if !(EARLIER..=JSON).contains(&fastinst) {
            return Err(FileError::Version(fastinst));
        }
        let file = serde_json::from_slice(bytes);
        let File { profile, .. }: File<Self> = file.map_err(|_| FileError::Damaged)?;
        Ok((profile, fastinst))
    }

    /// Whether the figures that belong to no function are possible measurements.
    fn is_sound(&self) -> bool {
        let header = &self.header;
        let times = [
            header.processor,
            header.system,
            header.unknown,
            header.seconds,
            header.floor,
            header.null,
        ];
        let functions = self.functions.len();
        let is_stack = |stack: &crate::Stack| {
            stack.time.is_finite() && stack.frames.iter().all(|at| (*at as usize) < functions)
        };
        header.hz.is_finite()
            && header.hz > 0.0
            && times.iter().all(|time| time.is_finite())
            && self.stacks.iter().all(is_stack)
    }

    /// Converts a profile of the earlier versions: its times become evidence of probes.
    fn update(&mut self) {
        for function in &mut self.functions {
            let all = function.is_timed_as_of_old();
            let known = |figure: Option<Figure>| {
                figure.map(|figure| if all { figure } else { figure.widened(0.0) })
            };
            let seen = function.mean.map_or(0.0, |mean| mean.value * function.samples as f64);
            function.timed = Timed {
                seen,
                mean: function.mean,
                total: known(function.total),
                own: known(function.own),
            };
        }
        let source = match self.header.policy == Policy::Exact.to_string() {
            true => ClockSource::Probes,
            false => ClockSource::None {
                why: "the profile was written by a version that had no clock".to_owned(),
            },
        };
        self.reconcile(&ClockEvidence { source, ..ClockEvidence::default() });
    }
}

impl crate::Function {
    /// Whether every call of it was timed and has ended, by the data of the earlier version.
    fn is_timed_as_of_old(&self) -> bool {
        self.calls.is_exact() && self.lost == 0 && self.samples as f64 >= self.calls.value
    }

    /// Whether its numbers are possible measurements: a file may contain anything.
    fn is_sound(&self, modules: usize) -> bool {
        let figures = [Some(self.calls), self.mean, self.total, self.own, self.cpu, self.wall];
        let labels = self.arcs.iter().filter_map(|arc| arc.caller.as_ref()).chain([&self.label]);
        let holds =
            |figure: &Figure| (figure.interval().0..=figure.interval().1).contains(&figure.value);
        figures.into_iter().flatten().all(|figure| figure.is_sound() && holds(&figure))
            && self.calls.interval().0 >= 0.0
            && [self.min, self.max]
                .into_iter()
                .flatten()
                .all(|value| value.is_finite() && value >= 0.0)
            && self.min.unwrap_or(0.0) <= self.max.unwrap_or(f64::MAX)
            && self.histogram.is_sound()
            && self.timed.is_sound()
            && self.arcs.iter().all(|arc| arc.share.is_finite())
            && labels
                .into_iter()
                .all(|label| label.module.is_none_or(|module| (module as usize) < modules))
    }
}

/// The memory that a file of this many bytes may take.
fn limit(bytes: usize) -> usize {
    bytes.saturating_mul(RATIO).saturating_add(SLACK)
}

/// The checksum of everything after the version and the checksum itself.
fn sum_of(bytes: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(&bytes[16..]);
    sum.sum()
}

/// Stores the checksum.
fn seal(bytes: &mut [u8]) {
    let sum = sum_of(bytes);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// Appends `all` in compressed form; `None` if that is not shorter.
fn deflate(all: &[u8], to: &mut Vec<u8>) -> Option<usize> {
    let before = to.len();
    to.reserve(all.len());
    let mut deflating = Compress::new(LEVEL, false);
    // The buffer is not extended: if the output does not fit, it would be longer than `all`.
    let end = deflating.compress_vec(all, to, FlushCompress::Finish);
    let taken = to.len() - before;
    (matches!(end, Ok(flate2::Status::StreamEnd)) && taken < all.len()).then_some(taken)
}

fn inflate(packed: &[u8], length: usize) -> Result<Vec<u8>, FileError> {
    let mut all = Vec::with_capacity(length);
    let end = Decompress::new(false).decompress_vec(packed, &mut all, FlushDecompress::Finish);
    let is_whole = matches!(end, Ok(flate2::Status::StreamEnd)) && all.len() == length;
    if is_whole { Ok(all) } else { Err(FileError::Damaged) }
}
