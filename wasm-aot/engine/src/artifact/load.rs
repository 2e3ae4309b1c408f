//! Loads files of machine code: compares the header with this engine, checks the digest, and maps
//! everything else.

use super::digest::Digest;
use super::header::{AT, FileSection, Header, MAGIC, PREFIX, ROOM, VERSION};
use crate::array::{Array, Mapping, Plain};
use crate::compile::{Options, Tables, Target};
use crate::error::Error;
use crate::module::{ModuleInfo, Names};
use crate::offsets::Offsets;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Opens a file without waiting for a writer.
fn open(path: &Path) -> std::io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Whether a path names a file that looks like machine code. What comes through a pipe is left in
/// it.
pub(crate) fn is_machine_code(path: &Path) -> bool {
    let mut start = [0; 4];
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file
        && open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *b"\x7fELF"
}

/// A file that was opened, and what its header says.
struct Opened {
    file: File,
    len: usize,
    header: Header,
}

impl Opened {
    /// Opens a file that is whole, and made by us for this processor; and if it is to be executed,
    /// for us to trust.
    fn new(path: &Path, target: &Target, is_executed: bool) -> Result<Self, String> {
        let file = if is_executed { open_trusted(path) } else { open(path) };
        let file = file.map_err(|error| error.to_string())?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("not a file".into());
        }
        let len = metadata.len() as usize;
        let header = check(&file, len, target)?;
        Ok(Self { file, len, header })
    }

    fn mapping(&self) -> Result<Arc<Mapping>, Error> {
        Ok(Arc::new(Mapping::new(&self.file, self.len)?))
    }
}

/// What a file holds: the parts of a module, and where its code is.
pub(crate) struct Loaded {
    pub(crate) file: File,
    /// Where in the file the code is.
    pub(crate) text: Range<usize>,
    /// The code, to be copied where files may not be executed.
    pub(crate) code: Array<u8>,
    pub(crate) info: ModuleInfo,
    pub(crate) tables: Tables,
    pub(crate) module: Array<u8>,
    pub(crate) monitors: Array<u8>,
    pub(crate) options: Options,
    pub(crate) counters: u32,
    pub(crate) calls: u32,
    pub(crate) loops: u32,
}

/// Loads a compiled module.
pub(crate) fn load(path: &Path, target: &Target) -> Result<Loaded, Error> {
    let refused = |why: String| Error::Artifact(format!("{}: {why}", path.display()));
    loaded(Opened::new(path, target, true).map_err(refused)?, refused)
}

/// Loads what a file would contain: from a file in memory that has no name, so that its code is
/// mapped as any other's.
pub(crate) fn load_bytes(bytes: &[u8], target: &Target) -> Result<Loaded, Error> {
    let refused = |why: String| Error::Artifact(format!("machine code in memory: {why}"));
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("wasm-aot", flags).map_err(Error::system)?);
    file.write_all(bytes).map_err(Error::system)?;
    let header = check(&file, bytes.len(), target).map_err(refused)?;
    loaded(Opened { file, len: bytes.len(), header }, refused)
}

fn loaded(opened: Opened, refused: impl Fn(String) -> Error) -> Result<Loaded, Error> {
    let damaged = || {
        refused("damaged: a table has no whole number of entries; compile the module again".into())
    };
    let mapping = opened.mapping()?;
    let (bytes, header) = (mapping.bytes(), &opened.header);
    let mut info: ModuleInfo =
        postcard::from_bytes(&bytes[header.range(FileSection::Info)]).map_err(|_| damaged())?;
    info.names = names(&mapping, header, &info).ok_or_else(damaged)?;
    let trampolines = postcard::from_bytes(&bytes[header.range(FileSection::Trampolines)])
        .map_err(|_| damaged())?;
    let offsets = |blocks, steps| {
        Some(Offsets {
            blocks: row(&mapping, header, blocks)?,
            steps: row(&mapping, header, steps)?,
        })
    };
    let tables = Tables {
        functions: row(&mapping, header, FileSection::Functions).ok_or_else(damaged)?,
        trampolines,
        traps: offsets(FileSection::Traps, FileSection::TrapSteps).ok_or_else(damaged)?,
        addresses: offsets(FileSection::Addresses, FileSection::AddressSteps)
            .ok_or_else(damaged)?,
        handlers: row(&mapping, header, FileSection::Handlers).ok_or_else(damaged)?,
        osr_exits: row(&mapping, header, FileSection::OsrExits).ok_or_else(damaged)?,
        patchable_sites: row(&mapping, header, FileSection::PatchableSites).ok_or_else(damaged)?,
        one_shot_sites: Vec::new(),
        frames: Vec::new(),
        owners: None,
    };
    let module = row(&mapping, header, FileSection::Module).ok_or_else(damaged)?;
    let monitors = row(&mapping, header, FileSection::Monitors).ok_or_else(damaged)?;
    Ok(Loaded {
        text: header.range(FileSection::Text),
        code: row(&mapping, header, FileSection::Text).ok_or_else(damaged)?,
        info,
        tables,
        module,
        monitors,
        options: header.options,
        counters: header.counters,
        calls: header.calls,
        loops: header.loops,
        file: opened.file,
    })
}

/// The names in the module inside.
fn names(mapping: &Arc<Mapping>, header: &Header, info: &ModuleInfo) -> Option<Names> {
    let Some(section) = info.names_section() else { return Some(Names::default()) };
    let start = header.range(FileSection::Module).start;
    Some(Names::new(Array::mapped(
        mapping,
        start + section.start as usize..start + section.end as usize,
    )?))
}

fn row<T: Plain>(mapping: &Arc<Mapping>, header: &Header, part: FileSection) -> Option<Array<T>> {
    Array::mapped(mapping, header.range(part))
}

/// Opens a file that no one but us, or the super-user, can have put there.
fn open_trusted(path: &Path) -> std::io::Result<File> {
    wordpatch::os::trust::open(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            let why =
                format!("it would be executed, and {error}, or compile the module again elsewhere");
            std::io::Error::new(ErrorKind::PermissionDenied, why)
        }
        _ => error,
    })
}

/// The header of a file that is whole, and made by us for this processor.
fn check(file: &File, len: usize, target: &Target) -> Result<Header, String> {
    if len < AT + ROOM {
        return Err("not a compiled module: too short".into());
    }
    let mut place = [0; ROOM];
    file.read_exact_at(&mut place, AT as u64).map_err(|error| error.to_string())?;
    if place[..16] != MAGIC {
        return Err("not a compiled module of this engine".into());
    }
    let encoded_len = u64::from_le_bytes(place[16..24].try_into().expect("eight bytes")) as usize;
    let encoded = place
        .get(PREFIX..PREFIX.saturating_add(encoded_len))
        .ok_or("damaged: its header is too long")?;
    let header: Header = postcard::from_bytes(encoded)
        .map_err(|_| "made by another version: compile the module again")?;
    if header.version != VERSION {
        return Err(format!(
            "made by version {}, and this is {VERSION}: compile the module again",
            header.version
        ));
    }
    if header.end() > len || FileSection::ALL.iter().any(|part| header.range(*part).end > len) {
        return Err("damaged: cut short".into());
    }
    let mut digest = Digest::new(encoded);
    digest.read(file, AT + ROOM..header.end()).map_err(|error| error.to_string())?;
    if digest.finish()[..] != place[24..PREFIX] {
        return Err("damaged: its digest is another; compile the module again".into());
    }
    let ours = target.features();
    let lacking =
        header.features.split(',').find(|feature| !ours.split(',').any(|our| our == *feature));
    if let Some(lacking) = lacking {
        return Err(format!(
            "compiled for a processor with {lacking}, which this one lacks: compile the module again"
        ));
    }
    if header.options.reservations && !target.options.reservations {
        return Err("compiled for memories that reserve eight gigabytes of addresses, which this process may not: compile the module again".into());
    }
    Ok(header)
}

/// What a file was made from: options, the module, and what is to look at it.
pub(crate) struct FileOrigin {
    pub(crate) options: Options,
    pub(crate) module: Vec<u8>,
    pub(crate) monitors: Vec<u8>,
}

/// What a file was made from.
pub(crate) fn origin(path: &Path, target: &Target) -> Result<FileOrigin, Error> {
    let refused = |why: String| Error::Artifact(format!("{}: {why}", path.display()));
    let opened = Opened::new(path, target, false).map_err(refused)?;
    let mapping = opened.mapping()?;
    let part = |part| mapping.bytes()[opened.header.range(part)].to_vec();
    Ok(FileOrigin {
        options: opened.header.options,
        module: part(FileSection::Module),
        monitors: part(FileSection::Monitors),
    })
}
