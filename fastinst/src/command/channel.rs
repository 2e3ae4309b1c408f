//! The channel: how the profiles of a program's processes get to this command.

use super::{Failure, report, say};
use fastinst::handover::Handover;
use fastinst::lines;
use profiler::Profile;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// How often files are written where there is no mapping.
const INTERVAL: &str = "1s";

/// How profiles are received.
pub(super) struct Channel {
    /// The mapping; `None` if it could not be made.
    handover: Option<Handover>,
    folder: Folder,
}

impl Channel {
    pub(super) fn open() -> Result<Self, Failure> {
        let folder = Folder::choose();
        match Handover::new() {
            Ok(handover) => Ok(Self { handover: Some(handover), folder }),
            Err(error) => {
                folder.make()?;
                say(&format!(
                    "no memory can be shared with the program ({error}): its profile is written every {INTERVAL}; if it is killed, calls after the latest profile are lost"
                ));
                Ok(Self { handover: None, folder })
            }
        }
    }

    /// The environment variables for the library.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let output = self.folder.0.join("profile.%p").into_os_string();
        let how = match &self.handover {
            Some(handover) => ("FASTINST_HANDOVER", handover.path().into()),
            None => ("FASTINST_INTERVAL", INTERVAL.into()),
        };
        vec![("FASTINST_OUTPUT", output), how]
    }

    /// The sum of the profiles that all processes have left so far; `None` if there are none.
    pub(super) fn profile(&self) -> Option<Profile> {
        self.read().0
    }

    /// The same, and why a profile that a process has left is missing, if one is.
    pub(super) fn read(&self) -> (Option<Profile>, Option<String>) {
        let (mut profiles, mut failure) = (Vec::new(), None);
        for read in self.handover.iter().flat_map(Handover::read_all) {
            match read {
                Ok(profile) => profiles.push(profile),
                Err(error) => {
                    let missing = "a profile that the program has left cannot be read";
                    failure = Some(format!("{missing}: {error}"));
                }
            }
        }
        profiles.iter_mut().for_each(lines::name);
        profiles.extend(self.folder.profiles());
        ((!profiles.is_empty()).then(|| Profile::merge(&profiles)), failure)
    }
}

/// A private folder for profiles that do not fit into the mapping. Made when it is needed, removed
/// at the end.
struct Folder(PathBuf);

impl Folder {
    /// A name that other users cannot guess.
    fn choose() -> Self {
        let mut random = [0u8; 8];
        // SAFETY: (1) a buffer and its length. Where it stays zero, the number of the process makes
        // the name one's own.
        #[allow(unsafe_code)]
        unsafe {
            libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0);
        }
        let name = format!("fastinst-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        Self(std::env::temp_dir().join(name))
    }

    fn make(&self) -> Result<(), Failure> {
        let made = std::fs::DirBuilder::new().mode(0o700).create(&self.0);
        made.map_err(|error| Failure::Write { path: self.0.clone(), error })
    }

    /// The profiles that the processes have written, in the order of their numbers. A process that
    /// was killed while it wrote one has left the previous file.
    fn profiles(&self) -> Vec<Profile> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten();
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"profile."))
        });
        paths.sort();
        paths
            .iter()
            .filter_map(|path| report::read(path).map_err(|failure| say(&failure.to_string())).ok())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                say(&format!("cannot remove {}: {error}", self.0.display()));
            }
            _ => {}
        }
    }
}
