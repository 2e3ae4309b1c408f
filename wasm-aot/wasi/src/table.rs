//! The table of descriptors by their numbers.
//!
//! As on POSIX systems, a new descriptor gets the lowest free number. Unlike there, a descriptor
//! can only be renumbered to a number that is open, so that the table is no longer than the number
//! of descriptors that were open at a time.

use super::descriptor::{Descriptor, Directory, Entry, File};
use super::errno::Errno;
use super::types::Rights;
use std::collections::BTreeSet;

/// Descriptors by number.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Option<Entry>>,
    free: BTreeSet<u32>,
    /// The maximum number of open descriptors, if limited.
    limit: Option<u32>,
}

impl Table {
    /// Creates a table with no more than `limit` open descriptors.
    pub(crate) fn with_limit(limit: Option<u32>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Gives an entry the lowest free number.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<u32, Errno> {
        if let Some(fd) = self.free.pop_first() {
            self.entries[fd as usize] = Some(entry);
            return Ok(fd);
        }
        let fd = u32::try_from(self.entries.len()).map_err(|_| Errno::MFILE)?;
        if self.limit.is_some_and(|limit| fd >= limit) {
            return Err(Errno::MFILE);
        }
        self.entries.push(Some(entry));
        Ok(fd)
    }

    pub(crate) fn get(&self, fd: u32) -> Result<&Entry, Errno> {
        self.entries.get(fd as usize).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Entry, Errno> {
        self.entries.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// Returns an entry that has these rights.
    pub(crate) fn allowing(&self, fd: u32, rights: Rights) -> Result<&Entry, Errno> {
        let entry = self.get(fd)?;
        entry.allow(rights).map(|()| entry)
    }

    /// Returns a file that has these rights.
    pub(crate) fn file(&self, fd: u32, rights: Rights) -> Result<&File, Errno> {
        match &self.allowing(fd, rights)?.descriptor {
            Descriptor::File(file) => Ok(file),
            _ => Err(Errno::BADF),
        }
    }

    /// Returns a directory with the rights for a path lookup. The error is "operation not
    /// permitted", since few programs know errors about rights.
    pub(crate) fn directory(&self, fd: u32, rights: Rights) -> Result<&Directory, Errno> {
        let entry = self.get(fd)?;
        match &entry.descriptor {
            Descriptor::Directory(directory) if entry.has(rights) => Ok(directory),
            Descriptor::Directory(_) => Err(Errno::PERM),
            _ => Err(Errno::BADF),
        }
    }

    /// Returns a directory beneath which a call changes something.
    pub(crate) fn writable(&self, fd: u32, rights: Rights) -> Result<&Directory, Errno> {
        let directory = self.directory(fd, rights)?;
        if directory.writable { Ok(directory) } else { Err(Errno::PERM) }
    }

    /// Removes a descriptor from the table; dropping it closes it.
    pub(crate) fn remove(&mut self, fd: u32) -> Result<Entry, Errno> {
        let entry = self.entries.get_mut(fd as usize).and_then(Option::take).ok_or(Errno::BADF)?;
        self.free.insert(fd);
        Ok(entry)
    }

    /// Closes `to` and gives its number to the descriptor of `from`.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        self.get(from)?;
        self.get(to)?;
        if from != to {
            let entry = self.remove(from)?;
            *self.get_mut(to)? = entry;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::Output;
    use super::*;

    fn entry(base: Rights) -> Entry {
        Entry::new(Descriptor::Output(Output::Discard), base, Rights::default())
    }

    #[test]
    fn the_lowest_free_number_is_given_out() {
        let mut table = Table::default();
        for expected in 0..4 {
            assert_eq!(table.insert(entry(Rights::FD_WRITE)), Ok(expected));
        }
        table.remove(2).unwrap();
        table.remove(0).unwrap();
        assert_eq!(table.insert(entry(Rights::FD_WRITE)), Ok(0));
        assert_eq!(table.insert(entry(Rights::FD_WRITE)), Ok(2));
        assert_eq!(table.insert(entry(Rights::FD_WRITE)), Ok(4));
    }

    #[test]
    fn renumbering_needs_both_numbers_and_frees_the_first() {
        let mut table = Table::default();
        table.insert(entry(Rights::FD_WRITE)).unwrap();
        table.insert(entry(Rights::FD_READ)).unwrap();
        assert_eq!(table.renumber(0, 7), Err(Errno::BADF));
        assert_eq!(table.renumber(7, 0), Err(Errno::BADF));
        assert_eq!(table.renumber(1, 1), Ok(()));
        assert_eq!(table.renumber(1, 0), Ok(()));
        assert!(table.get(1).is_err());
        assert!(table.get(0).unwrap().has(Rights::FD_READ));
        assert_eq!(table.insert(entry(Rights::FD_WRITE)), Ok(1));
    }

    #[test]
    fn rights_are_given_up_and_never_come_back() {
        let mut table = Table::default();
        table.insert(entry(Rights::FD_WRITE.or(Rights::FD_SYNC))).unwrap();
        table.get_mut(0).unwrap().restrict(Rights::FD_SYNC, Rights::default()).unwrap();
        assert_eq!(table.allowing(0, Rights::FD_WRITE).err(), Some(Errno::NOTCAPABLE));
        assert_eq!(table.allowing(0, Rights::FD_READ).err(), Some(Errno::BADF));
        let again = table.get_mut(0).unwrap().restrict(Rights::FD_WRITE, Rights::default());
        assert_eq!(again, Err(Errno::NOTCAPABLE));
    }
}
