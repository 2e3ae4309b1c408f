//! Listing directories, and the names of preopened directories.
//!
//! A listing is read in pieces; the cookie of an entry is the position to continue from. The kernel
//! has such positions too, and they stay correct while files are created and removed, but they are
//! unordered 64-bit values, of which 32-bit C programs keep half. So a cookie is the number of
//! entries before it, and each directory stores the kernel's position after each number of entries.
//! Entries that were not listed through this descriptor are skipped one by one from the last known
//! position.

use super::WasiCtx;
use super::descriptor::{Descriptor, Directory};
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Answer;
use super::types::{Dirent, Filestat, Filetype, Rights};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom};
use std::mem::MaybeUninit;

/// Bounds of the buffer for the kernel's entries: an entry with the longest name fits, and the
/// guest cannot exhaust the host's memory.
const LEAST: usize = 512;
const MOST: usize = 64 << 10;

impl WasiCtx {
    /// Lists entries from a cookie on: as many as fit, the last truncated at the end of the buffer.
    pub fn fd_readdir(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        buffer: u32,
        len: u32,
        cookie: u64,
        used: u32,
    ) -> Answer {
        memory.expect(used, 4)?;
        memory.expect(buffer, len)?;
        let entry = self.table.get_mut(fd)?;
        entry.allow(Rights::FD_READDIR)?;
        let Descriptor::Directory(directory) = &mut entry.descriptor else {
            return Err(Errno::BADF.into());
        };
        let mut room = Room { memory, at: buffer, left: len };
        list(directory, cookie, &mut room)?;
        Ok(memory.write_u32(used, len - room.left)?)
    }

    /// Whether a descriptor is a preopened directory, and the length of its name.
    pub fn fd_prestat_get(&mut self, memory: &Guest<'_>, fd: u32, prestat: u32) -> Answer {
        let name = self.preopened(fd).ok_or(Errno::BADF)?;
        let len = u32::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
        let [a, b, c, d] = len.to_le_bytes();
        Ok(memory.write(prestat, &[0, 0, 0, 0, a, b, c, d])?)
    }

    /// Returns the name of a preopened directory.
    pub fn fd_prestat_dir_name(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        path: u32,
        len: u32,
    ) -> Answer {
        let name = self.preopened(fd).ok_or(Errno::NOTDIR)?;
        if name.len() > len as usize {
            return Err(Errno::NAMETOOLONG.into());
        }
        Ok(memory.write(path, name.as_bytes())?)
    }

    fn preopened(&self, fd: u32) -> Option<&str> {
        match &self.table.get(fd).ok()?.descriptor {
            Descriptor::Directory(directory) => directory.preopened.as_deref(),
            _ => None,
        }
    }
}

/// The guest's buffer for a listing.
struct Room<'a> {
    memory: &'a Guest<'a>,
    at: u32,
    left: u32,
}

impl Room<'_> {
    /// Writes as many bytes as fit.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let fitting = bytes.len().min(self.left as usize);
        self.memory.write(self.at, &bytes[..fitting])?;
        // At the very end of four gigabytes it wraps to zero, but then no space is left.
        self.at = self.at.wrapping_add(fitting as u32);
        self.left -= fitting as u32;
        Ok(())
    }
}

fn list(directory: &mut Directory, cookie: u64, room: &mut Room<'_>) -> Answer {
    let Directory { fd, positions, .. } = directory;
    let mut at = positions.begin(cookie);
    rustix::fs::seek(&*fd, SeekFrom::Start(positions.of(at)))?;
    let own = Filestat::from(&rustix::fs::fstat(&*fd)?).ino;
    let mut bytes = vec![MaybeUninit::uninit(); (room.left as usize).clamp(LEAST, MOST)];
    let mut entries = RawDir::new(&*fd, &mut bytes);
    while room.left > 0 {
        let Some(entry) = entries.next() else { break };
        let entry = entry?;
        at += 1;
        positions.learn(at, entry.next_entry_cookie());
        if at as u64 <= cookie {
            continue;
        }
        let name = entry.file_name().to_bytes();
        let filetype = match entry.file_type() {
            FileType::Unknown => filetype(fd.as_fd(), name),
            known => known.into(),
        };
        // The directory above is not revealed.
        let ino = if name == b".." { own } else { entry.ino() };
        let namlen = u32::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
        room.put(&Dirent { next: at as u64, ino, namlen, filetype }.to_bytes())?;
        room.put(name)?;
    }
    Ok(())
}

/// The kind of an entry if the file system does not list it.
fn filetype(directory: BorrowedFd<'_>, name: &[u8]) -> Filetype {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Filestat::from(&stat).filetype,
        Err(_) => Filetype::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::beneath::Lookup;
    use super::super::scratch::{BUFFER, CREAT, DIRECTORY, READ, RESULT, ROOT, World};
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;

    /// An entry as a guest reads it: name, number, kind, cookie.
    type Listed = (String, u64, u8, u64);

    /// One call: returns the whole entries, and whether the listing is at its end.
    fn piece(world: &mut World, fd: u64, len: u64, cookie: u64) -> (Vec<Listed>, bool) {
        world.call("fd_readdir", &[fd, BUFFER, len, cookie, RESULT]).unwrap();
        let used = u64::from(world.u32(RESULT));
        let (mut at, mut listed) = (0, Vec::new());
        while at + 24 <= used {
            let entry = BUFFER + at;
            let namlen = u64::from(world.u32(entry + 16));
            if at + 24 + namlen > used {
                break;
            }
            let name =
                String::from_utf8(world.bytes(entry + 24, namlen as usize).to_vec()).unwrap();
            listed.push((
                name,
                world.u64(entry + 8),
                world.bytes(entry + 20, 1)[0],
                world.u64(entry),
            ));
            at += 24 + namlen;
        }
        (listed, used < len)
    }

    fn all(world: &mut World, fd: u64, len: u64) -> Vec<Listed> {
        let (mut listed, mut cookie) = (Vec::new(), 0);
        loop {
            let (more, end) = piece(world, fd, len, cookie);
            cookie = more.last().map_or(cookie, |entry| entry.3);
            listed.extend(more);
            if end {
                return listed;
            }
        }
    }

    #[test]
    fn entries_carry_name_number_and_kind() {
        let mut world = World::rooted(Lookup::Kernel);
        fs::write(world.root().join("file"), "").unwrap();
        fs::create_dir(world.root().join("dir")).unwrap();
        std::os::unix::fs::symlink("file", world.root().join("link")).unwrap();
        let found: BTreeMap<_, _> =
            all(&mut world, ROOT, 4096).into_iter().map(|entry| (entry.0.clone(), entry)).collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), [".", "..", "dir", "file", "link"]);
        let own = world.fstat(ROOT).unwrap().ino;
        for (name, filetype) in [("file", 4), ("dir", 3), ("link", 7)] {
            let ino = world.stat(name, 0).unwrap().ino;
            assert_eq!((found[name].1, found[name].2), (ino, filetype), "{name}");
        }
        assert_eq!((found["."].1, found[".."].1), (own, own), "what lies above is not shown");
    }

    #[test]
    fn a_listing_in_small_pieces_is_the_same_as_in_one() {
        let mut world = World::rooted(Lookup::Kernel);
        for number in 0..200 {
            fs::write(world.root().join(format!("file.{number}")), "").unwrap();
        }
        let whole = all(&mut world, ROOT, 40_000);
        assert_eq!(whole.len(), 202);
        for len in [64, 100, 256, 1000] {
            assert_eq!(all(&mut world, ROOT, len), whole, "{len} bytes at a time");
        }
        for fd in [ROOT, world.open_as(ROOT, 0, ".", DIRECTORY, READ, 0).unwrap()] {
            for last in [150, 100, 199] {
                let (rest, _) = piece(&mut world, fd, 40_000, whole[last].3);
                assert_eq!(rest, whole[last + 1..], "from {last} on, through {fd}");
            }
            assert_eq!(piece(&mut world, fd, 1000, u64::MAX), (vec![], true));
        }
        assert!(whole.iter().all(|entry| entry.3 <= 202), "cookies fit into 32 bits");
    }

    #[test]
    fn files_can_be_removed_while_they_are_listed() {
        let mut world = World::rooted(Lookup::Kernel);
        for number in 0..300 {
            fs::write(world.root().join(format!("{number}")), "").unwrap();
        }
        let (mut cookie, mut removed) = (0, 0);
        loop {
            let (entries, end) = piece(&mut world, ROOT, 200, cookie);
            for (name, .., next) in entries {
                cookie = next;
                if !name.starts_with('.') {
                    world.on_path("path_unlink_file", &name).unwrap();
                    removed += 1;
                }
            }
            if end {
                break;
            }
        }
        assert_eq!(removed, 300);
        assert_eq!(fs::read_dir(world.root()).unwrap().count(), 0);
    }

    #[test]
    fn an_entry_that_does_not_fit_is_cut_off() {
        let mut world = World::rooted(Lookup::Kernel);
        fs::write(world.root().join("a_rather_long_name"), "").unwrap();
        for len in 0..100 {
            world.put(BUFFER, &[0xaa; 128]);
            world.call("fd_readdir", &[ROOT, BUFFER, len, 0, RESULT]).unwrap();
            let used = u64::from(world.u32(RESULT));
            assert_eq!(used, len.min(24 * 3 + 1 + 2 + 18));
            assert!(
                world.bytes(BUFFER + used, 8).iter().all(|&byte| byte == 0xaa),
                "nothing beyond {len}"
            );
        }
    }

    #[test]
    fn only_directories_are_listed() {
        let mut world = World::rooted(Lookup::Kernel);
        let file = world.open("file", CREAT).unwrap();
        for fd in [file, 0, 1, 77] {
            assert_eq!(world.call("fd_readdir", &[fd, BUFFER, 100, 0, RESULT]), Err(Errno::BADF));
        }
        assert_eq!(world.call("fd_readdir", &[ROOT, BUFFER, 0xffff, 0, RESULT]), Err(Errno::FAULT));
    }

    #[test]
    fn given_directories_have_names_and_opened_ones_have_none() {
        let mut world = World::rooted(Lookup::Kernel);
        world.call("fd_prestat_get", &[ROOT, RESULT]).unwrap();
        assert_eq!((world.u32(RESULT), world.u32(RESULT + 4)), (0, 1));
        world.call("fd_prestat_dir_name", &[ROOT, BUFFER, 9]).unwrap();
        assert_eq!(world.bytes(BUFFER, 2), b"/\0");
        assert_eq!(world.call("fd_prestat_dir_name", &[ROOT, BUFFER, 0]), Err(Errno::NAMETOOLONG));
        let opened = world.open_as(ROOT, 0, ".", DIRECTORY, READ, 0).unwrap();
        assert_eq!(world.call("fd_prestat_get", &[opened, RESULT]), Err(Errno::BADF));
        assert_eq!(world.call("fd_prestat_dir_name", &[opened, BUFFER, 9]), Err(Errno::NOTDIR));
        assert_eq!(world.call("fd_prestat_get", &[0, RESULT]), Err(Errno::BADF));
        assert_eq!(world.call("fd_prestat_get", &[99, RESULT]), Err(Errno::BADF));
    }
}
