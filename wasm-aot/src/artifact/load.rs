//! Loading: our header is compared with what we are, the hash with what is there, and everything else is mapped.

use super::array::{Array, Mapping, Plain};
use super::header::{AT, Header, MAGIC, PREFIX, Part, ROOM, VERSION};
use crate::compile::Target;
use crate::error::Error;
use crate::module::ModuleInfo;
use crate::runtime::{Code, Module, Tables};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// What is hashed: the header and every part.
pub(super) fn hash(file: &[u8], header: &Header, encoded: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(encoded);
    for part in Part::ALL {
        hash_part(&mut hasher, file.get(header.range(part)).unwrap_or_default());
    }
    *hasher.finalize().as_bytes()
}

/// Large parts are hashed on all processors.
fn hash_part(hasher: &mut blake3::Hasher, part: &[u8]) {
    const LARGE: usize = 1 << 20;
    match part.len() < LARGE {
        true => hasher.update(part),
        false => hasher.update_rayon(part),
    };
}

/// Opens a file without waiting for anybody to write to it.
fn open(path: &Path) -> std::io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Whether a path names a file that looks like machine code. What comes through a pipe is left in it.
pub(crate) fn is_machine_code(path: &Path) -> bool {
    let mut start = [0; 4];
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file && open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// Loads a compiled module.
pub(crate) fn load(path: &Path, target: &Target) -> Result<Module, Error> {
    let refused = |why: String| Error::Artifact(format!("{}: {why}", path.display()));
    let file = open(path).map_err(|error| refused(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| refused(error.to_string()))?;
    trusted(&metadata).map_err(&refused)?;
    let len = metadata.len() as usize;
    if len < AT + ROOM {
        return Err(refused("not a compiled module: too short".into()));
    }
    let mapping = Arc::new(Mapping::new(&file, len)?);
    let header = check(mapping.bytes(), target).map_err(&refused)?;
    let damaged = || refused("damaged: a table has no whole number of entries; compile the module again".into());
    let bytes = mapping.bytes();
    let info: ModuleInfo = postcard::from_bytes(&bytes[header.range(Part::Info)]).map_err(|_| damaged())?;
    let trampolines = postcard::from_bytes(&bytes[header.range(Part::Trampolines)]).map_err(|_| damaged())?;
    let tables = Tables {
        functions: row(&mapping, &header, Part::Functions).ok_or_else(damaged)?,
        trampolines,
        traps: row(&mapping, &header, Part::Traps).ok_or_else(damaged)?,
        addresses: row(&mapping, &header, Part::Addresses).ok_or_else(damaged)?,
        handlers: row(&mapping, &header, Part::Handlers).ok_or_else(damaged)?,
    };
    let module = row(&mapping, &header, Part::Module).ok_or_else(damaged)?;
    let code = Code::of_file(&file, header.range(Part::Text), &bytes[header.range(Part::Text)], tables)?;
    Module::assemble(info, code, module, header.options, header.counters)
}

fn row<T: Plain>(mapping: &Arc<Mapping>, header: &Header, part: Part) -> Option<Array<T>> {
    Array::mapped(mapping, header.range(part))
}

/// Whether nobody but us, or who may do everything, can have written the file.
fn trusted(metadata: &std::fs::Metadata) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    // Our own group counts as well: it may have other members.
    let others = metadata.mode() & 0o022 != 0;
    if !metadata.is_file() {
        return Err("not a file".into());
    }
    if others {
        return Err("others may write it, and it would be executed: chmod go-w, or compile the module again".into());
    }
    if metadata.uid() != user && metadata.uid() != 0 {
        return Err(format!(
            "it belongs to user {}, and it would be executed: copy it, or compile the module yourself",
            metadata.uid()
        ));
    }
    Ok(())
}

/// Our header, if the file is whole and made by us for this processor.
fn check(file: &[u8], target: &Target) -> Result<Header, String> {
    let place = &file[AT..AT + ROOM];
    if place[..16] != MAGIC {
        return Err("not a compiled module of this engine".into());
    }
    let len = u64::from_le_bytes(place[16..24].try_into().expect("eight bytes")) as usize;
    let encoded = place.get(PREFIX..PREFIX.saturating_add(len)).ok_or("damaged: its header is too long")?;
    let header: Header = postcard::from_bytes(encoded).map_err(|_| "made by another version: compile the module again")?;
    if header.version != VERSION {
        return Err(format!("made by version {}, and this is {VERSION}: compile the module again", header.version));
    }
    if hash(file, &header, encoded)[..] != place[24..PREFIX] {
        return Err("damaged: its hash is another; compile the module again".into());
    }
    let ours = target.features();
    let lacking = header.features.split(',').find(|feature| !ours.split(',').any(|our| our == *feature));
    if let Some(lacking) = lacking {
        return Err(format!("compiled for a processor with {lacking}, which this one lacks: compile the module again"));
    }
    if header.options.reservations && !target.options.reservations {
        return Err("compiled for memories that reserve eight gigabytes of addresses, which this process may not: compile the module again".into());
    }
    if Part::ALL.iter().any(|part| header.range(*part).end > file.len()) {
        return Err("damaged: cut short".into());
    }
    Ok(header)
}

/// The options that a file was compiled with, and its module.
pub(crate) fn origin(path: &Path, target: &Target) -> Result<(crate::Options, Vec<u8>), Error> {
    let refused = |why: String| Error::Artifact(format!("{}: {why}", path.display()));
    let file = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    if file.len() < AT + ROOM {
        return Err(refused("not a compiled module: too short".into()));
    }
    let header = check(&file, target).map_err(refused)?;
    Ok((header.options, file[header.range(Part::Module)].to_vec()))
}
