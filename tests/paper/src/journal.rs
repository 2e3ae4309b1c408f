//! What has been measured already: a file for each run, so that an experiment of hours goes on
//! where it was interrupted.
//!
//! The results are those of one build of the profiler; with another the journal begins anew. When
//! the experiment has ended the folder is renamed: the next one measures again, and the files of
//! the last are there to look at.

use crate::corpus::CorpusError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The runs of an experiment.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// The one in a folder, of the build whose files are given.
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

    /// How many runs it holds.
    pub(crate) fn len(&self) -> usize {
        fs::read_dir(&self.folder).map_or(0, Iterator::count).saturating_sub(1)
    }

    /// What is written under a name.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    pub(crate) fn put<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let unfinished = self.folder.join("unfinished");
        fs::write(&unfinished, serde_json::to_vec(value)?)?;
        fs::rename(unfinished, self.file(name))
    }

    /// What is written under a name, or is found now and written.
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

    /// The experiment has ended: the journal is kept as the last one.
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
