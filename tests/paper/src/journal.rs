//! The journal of finished runs: a file for each, so that an experiment of hours continues where it
//! was interrupted.
//!
//! The results belong to one build of the profiler; with another build the journal begins anew. At
//! the end of the experiment the folder is renamed: the next experiment measures again, and the
//! files of the last one stay for inspection.

use crate::corpus::CorpusError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The finished runs of an experiment.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Opens the journal in a folder, for the build whose files are given.
    pub(crate) fn open(folder: &Path, build: &[&Path]) -> io::Result<Self> {
        let mut hash = DefaultHasher::new();
        for file in build {
            let mut bytes = Vec::new();
            File::open(file)?.read_to_end(&mut bytes)?;
            bytes.hash(&mut hash);
        }
        let journal = Self { folder: folder.to_owned() };
        let mark = format!("{:016x}", hash.finish());
        if fs::read_to_string(folder.join("build")).ok().as_ref() != Some(&mark) {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder)?;
            fs::write(folder.join("build"), mark)?;
        }
        Ok(journal)
    }

    /// The number of its runs.
    pub(crate) fn len(&self) -> usize {
        fs::read_dir(&self.folder).map_or(0, Iterator::count).saturating_sub(1)
    }

    /// The entry under a name.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()
    }

    /// Writes an entry, whole or not at all.
    pub(crate) fn put<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let unfinished = self.folder.join("unfinished");
        fs::write(&unfinished, serde_json::to_vec(value)?)?;
        fs::rename(unfinished, self.file(name))
    }

    /// The entry under a name; if there is none, the result of a new run, which is written.
    pub(crate) fn kept<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        find: impl FnOnce() -> Result<T, CorpusError>,
    ) -> Result<T, CorpusError> {
        if let Some(known) = self.get(name) {
            return Ok(known);
        }
        let found = find()?;
        self.put(name, &found).map_err(CorpusError::io(name))?;
        Ok(found)
    }

    /// Closes the journal at the end of the experiment, and keeps it as the last one.
    pub(crate) fn close(self) -> io::Result<PathBuf> {
        let last = self.folder.with_file_name("last");
        let _ = fs::remove_dir_all(&last);
        fs::rename(&self.folder, &last)?;
        Ok(last)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_kept_for_the_same_build_and_forgotten_for_another() {
        let folder = std::env::temp_dir().join(format!("paper-journal-{}", std::process::id()));
        let (build, open) = (folder.join("tool"), folder.join("open"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&build, "one").unwrap();
        Journal::open(&open, &[&build]).unwrap().put("a", &7).unwrap();
        let again = Journal::open(&open, &[&build]).unwrap();
        assert_eq!((again.get::<i32>("a"), again.get::<i32>("b"), again.len()), (Some(7), None, 1));
        fs::write(&build, "two").unwrap();
        let other = Journal::open(&open, &[&build]).unwrap();
        assert_eq!((other.get::<i32>("a"), other.len()), (None, 0));
        assert!(other.close().unwrap().ends_with("last") && !open.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
