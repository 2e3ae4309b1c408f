//! Calls on open files: reading, writing, seeking, attributes, flags.

use super::WasiCtx;
use super::descriptor::{Descriptor, File, Output};
use super::errno::Errno;
use super::guest::Guest;
use super::interruption::{Patience, is_ready};
use super::outcome::{Answer, Outcome};
use super::transfer::Spans;
use super::types::{FdFlags, Fdstat, Filestat, FstFlags, Rights};
use rustix::event::PollFlags;
use rustix::fd::AsFd;
use rustix::fs::{Advice, FallocateFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::num::NonZeroU64;

/// The maximum number of bytes written at a time to a file that may make the writer wait: a pipe
/// that is ready accepts them at once (pipe(7), `PIPE_BUF`).
const PIECE: usize = 4096;

/// The maximum number of bytes that one system call moves between a file and the guest's memory: a
/// few milliseconds.
const UNSEEN: usize = 4 << 20;

/// The maximum number of bytes that are copied at a time into a buffer of the embedder, however
/// many a guest requests.
const COPIED: usize = 1 << 20;

impl WasiCtx {
    /// Reads at the file's position, or the next bytes of a stream.
    pub fn fd_read(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        iovs: u32,
        len: u32,
        read: u32,
    ) -> Answer {
        memory.expect(read, 4)?;
        let spans = Spans::listed(memory, iovs, len)?;
        let entry = self.table.get_mut(fd)?;
        entry.allow(Rights::FD_READ)?;
        let count = match &mut entry.descriptor {
            Descriptor::File(file) => read_file(memory, &self.patience, file, &spans)?,
            Descriptor::Input(input) => {
                let count = spans.fill(input.rest());
                input.take(count);
                count as u32
            }
            Descriptor::Directory(_) | Descriptor::Output(_) => return Err(Errno::BADF.into()),
        };
        Ok(memory.write_u32(read, count)?)
    }

    /// Reads at an offset.
    pub fn fd_pread(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        iovs: u32,
        len: u32,
        offset: u64,
        read: u32,
    ) -> Answer {
        memory.expect(read, 4)?;
        let spans = Spans::listed(memory, iovs, len)?;
        let file = self.positioned(fd, Rights::FD_READ)?;
        let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let count = in_pieces(memory, &self.patience, &spans, |piece, done| {
            self.patience.retry(|| piece.fill_from(file.as_fd(), Some(offset.saturating_add(done))))
        })?;
        Ok(memory.write_u32(read, count)?)
    }

    /// Writes at the file's position, or at its end.
    pub fn fd_write(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        iovs: u32,
        len: u32,
        written: u32,
    ) -> Answer {
        memory.expect(written, 4)?;
        let spans = Spans::listed(memory, iovs, len)?;
        let count = match &self.table.allowing(fd, Rights::FD_WRITE)?.descriptor {
            Descriptor::File(file) if file.waits => write_stream(&self.patience, file, &spans)?,
            Descriptor::File(file) => in_pieces(memory, &self.patience, &spans, |piece, _| {
                self.patience.retry(|| piece.empty_into(file.as_fd(), None))
            })?,
            Descriptor::Output(Output::Discard) => u32::try_from(spans.total()).unwrap_or(u32::MAX),
            Descriptor::Output(Output::Buffer(buffer)) => {
                let bytes = spans.piece(0, COPIED).copied();
                match buffer.append(&bytes) {
                    0 if !bytes.is_empty() => return Err(Errno::NOSPC.into()),
                    count => count as u32,
                }
            }
            Descriptor::Directory(_) | Descriptor::Input(_) => return Err(Errno::BADF.into()),
        };
        Ok(memory.write_u32(written, count)?)
    }

    /// Writes at an offset; at its end if the file is open for appending.
    pub fn fd_pwrite(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        iovs: u32,
        len: u32,
        offset: u64,
        written: u32,
    ) -> Answer {
        memory.expect(written, 4)?;
        let spans = Spans::listed(memory, iovs, len)?;
        let file = self.positioned(fd, Rights::FD_WRITE)?;
        let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let count = in_pieces(memory, &self.patience, &spans, |piece, done| {
            self.patience
                .retry(|| piece.empty_into(file.as_fd(), Some(offset.saturating_add(done))))
        })?;
        Ok(memory.write_u32(written, count)?)
    }

    /// Moves the file's position.
    pub fn fd_seek(
        &mut self,
        memory: &Guest<'_>,
        fd: u32,
        offset: i64,
        whence: u32,
        position: u32,
    ) -> Answer {
        memory.expect(position, 8)?;
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(Errno::INVAL.into()),
        };
        // Reading the position requires a weaker right than moving it.
        let right = if whence == 1 && offset == 0 { Rights::FD_TELL } else { Rights::FD_SEEK };
        let file = self.positioned(fd, right)?;
        Ok(memory.write_u64(position, rustix::fs::seek(file, to)?)?)
    }

    /// Returns the file's position.
    pub fn fd_tell(&mut self, memory: &Guest<'_>, fd: u32, position: u32) -> Answer {
        memory.expect(position, 8)?;
        let file = self.positioned(fd, Rights::FD_TELL)?;
        Ok(memory.write_u64(position, rustix::fs::tell(file)?)?)
    }

    /// Returns a file that has a position. For streams, the error is that they have no position,
    /// and not that they are not files.
    fn positioned(&self, fd: u32, rights: Rights) -> Result<&File, Errno> {
        let entry = self.table.get(fd)?;
        if rights == Rights::FD_READ || rights == Rights::FD_WRITE {
            entry.allow(rights)?;
        }
        match &entry.descriptor {
            Descriptor::Input(_) | Descriptor::Output(_) => Err(Errno::SPIPE),
            Descriptor::File(file) if file.waits && !entry.has(Rights::FD_SEEK) => {
                Err(Errno::SPIPE)
            }
            Descriptor::File(file) => entry.allow(rights).map(|()| file),
            Descriptor::Directory(_) => Err(Errno::BADF),
        }
    }

    /// Closes a descriptor.
    pub fn fd_close(&mut self, _memory: &Guest<'_>, fd: u32) -> Answer {
        self.table.remove(fd)?;
        Ok(())
    }

    /// Closes `to` and gives its number to the descriptor of `from`.
    pub fn fd_renumber(&mut self, _memory: &Guest<'_>, from: u32, to: u32) -> Answer {
        Ok(self.table.renumber(from, to)?)
    }

    /// Returns flags, kind and rights of a descriptor.
    pub fn fd_fdstat_get(&mut self, memory: &Guest<'_>, fd: u32, stat: u32) -> Answer {
        memory.expect(stat, Fdstat::SIZE)?;
        Ok(memory.write(stat, &self.table.get(fd)?.stat().to_bytes())?)
    }

    /// Changes the flags that can be changed: appending, and failing instead of waiting.
    pub fn fd_fdstat_set_flags(&mut self, _memory: &Guest<'_>, fd: u32, flags: u32) -> Answer {
        let flags = FdFlags::from_raw(flags)?;
        let entry = self.table.get_mut(fd)?;
        entry.allow(Rights::FD_FDSTAT_SET_FLAGS)?;
        match &mut entry.descriptor {
            Descriptor::File(file) => Ok(file.set_flags(flags)?),
            _ => Err(Errno::BADF.into()),
        }
    }

    /// Drops rights.
    pub fn fd_fdstat_set_rights(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        base: u64,
        inheriting: u64,
    ) -> Answer {
        let (base, inheriting) = (Rights::from_raw(base)?, Rights::from_raw(inheriting)?);
        Ok(self.table.get_mut(fd)?.restrict(base, inheriting)?)
    }

    /// Returns the attributes of an open file.
    pub fn fd_filestat_get(&mut self, memory: &Guest<'_>, fd: u32, stat: u32) -> Answer {
        memory.expect(stat, Filestat::SIZE)?;
        let filestat = match self.table.allowing(fd, Rights::FD_FILESTAT_GET)?.descriptor.host() {
            Some(host) => Filestat::from(&rustix::fs::fstat(host)?),
            None => Filestat::of_stream(),
        };
        Ok(memory.write(stat, &filestat.to_bytes())?)
    }

    /// Sets the size of a file.
    pub fn fd_filestat_set_size(&mut self, _memory: &Guest<'_>, fd: u32, size: u64) -> Answer {
        let file = self.table.file(fd, Rights::FD_FILESTAT_SET_SIZE)?;
        self.patience.retry(|| rustix::fs::ftruncate(file, size))
    }

    /// Sets the times of an open file.
    pub fn fd_filestat_set_times(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        atim: u64,
        mtim: u64,
        flags: u32,
    ) -> Answer {
        let times = times(atim, mtim, flags)?;
        let entry = self.table.allowing(fd, Rights::FD_FILESTAT_SET_TIMES)?;
        match &entry.descriptor {
            Descriptor::Directory(directory) if !directory.writable => Err(Errno::PERM.into()),
            descriptor => Ok(rustix::fs::futimens(descriptor.host().ok_or(Errno::BADF)?, &times)?),
        }
    }

    /// Advises the kernel how a part of a file will be used.
    pub fn fd_advise(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        offset: u64,
        len: u64,
        advice: u32,
    ) -> Answer {
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::INVAL.into()),
        };
        let file = self.table.file(fd, Rights::FD_ADVISE)?;
        if i64::try_from(offset).is_err() || i64::try_from(len).is_err() {
            return Err(Errno::INVAL.into());
        }
        Ok(rustix::fs::fadvise(file, offset, NonZeroU64::new(len), advice)?)
    }

    /// Allocates space for a part of a file.
    pub fn fd_allocate(&mut self, _memory: &Guest<'_>, fd: u32, offset: u64, len: u64) -> Answer {
        let file = self.table.file(fd, Rights::FD_ALLOCATE)?;
        self.patience.retry(|| rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len))
    }

    /// Writes data and attributes to the disk.
    pub fn fd_sync(&mut self, _memory: &Guest<'_>, fd: u32) -> Answer {
        let entry = self.table.allowing(fd, Rights::FD_SYNC)?;
        let host = entry.descriptor.host().ok_or(Errno::INVAL)?;
        self.patience.retry(|| rustix::fs::fsync(host))
    }

    /// Writes data to the disk.
    pub fn fd_datasync(&mut self, _memory: &Guest<'_>, fd: u32) -> Answer {
        let entry = self.table.allowing(fd, Rights::FD_DATASYNC)?;
        let host = entry.descriptor.host().ok_or(Errno::INVAL)?;
        self.patience.retry(|| rustix::fs::fdatasync(host))
    }
}

/// The times to set: given, now, or unchanged.
pub(crate) fn times(atim: u64, mtim: u64, flags: u32) -> Result<Timestamps, Errno> {
    let flags = FstFlags::from_raw(flags)?;
    let time = |given, now, at: u64| match (flags.contains(given), flags.contains(now)) {
        (true, true) => Err(Errno::INVAL),
        (true, false) => Ok(Timespec {
            tv_sec: (at / 1_000_000_000) as i64,
            tv_nsec: (at % 1_000_000_000) as i64,
        }),
        (false, true) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        (false, false) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
    };
    Ok(Timestamps {
        last_access: time(FstFlags::ATIM, FstFlags::ATIM_NOW, atim)?,
        last_modification: time(FstFlags::MTIM, FstFlags::MTIM_NOW, mtim)?,
    })
}

/// Reads the available bytes, and waits for them if the file may make readers wait.
fn read_file(
    memory: &Guest<'_>,
    patience: &Patience,
    file: &File,
    spans: &Spans<'_>,
) -> Answer<u32> {
    if !file.waits {
        return in_pieces(memory, patience, spans, |piece, _| {
            patience.retry(|| piece.fill_from(file.as_fd(), None))
        });
    }
    loop {
        if spans.total() > 0 {
            ready(patience, file, PollFlags::IN)?;
        }
        match patience.retry(|| spans.fill_from(file.as_fd(), None)) {
            // Another process has read the bytes, or the host's stream is nonblocking: the guest
            // waits.
            Err(Outcome::Errno(Errno::AGAIN)) if !file.impatient() => {}
            told => return told,
        }
    }
}

/// Reads or writes a file that never waits, in pieces. Each piece gets the number of bytes before
/// it. In a single call the kernel would move gigabytes without a check whether the program has to
/// stop. Bytes that were moved before it has to stop, or before an error, are reported first.
fn in_pieces(
    memory: &Guest<'_>,
    patience: &Patience,
    spans: &Spans<'_>,
    mut transfer: impl FnMut(&Spans<'_>, i64) -> Answer<u32>,
) -> Answer<u32> {
    // The most that the kernel moves at once (read(2), NOTES).
    let total = spans.total().min(0x7fff_f000);
    if total <= UNSEEN as u64 {
        return transfer(spans, 0);
    }
    let mut done = 0;
    while done < total {
        if memory.is_stopped() || patience.interrupted() {
            return if done > 0 { Ok(done as u32) } else { Err(Outcome::Interrupted) };
        }
        let most = UNSEEN.min((total - done) as usize);
        match transfer(&spans.piece(done, most), done as i64) {
            Ok(count) => {
                done += u64::from(count);
                if (count as usize) < most {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(outcome) => return Err(outcome),
        }
    }
    Ok(done as u32)
}

/// Writes piece by piece, waiting before each. If the waiting ends otherwise, the bytes written
/// before are reported first.
fn write_stream(patience: &Patience, file: &File, spans: &Spans<'_>) -> Answer<u32> {
    let total = spans.total().min(u64::from(u32::MAX));
    let mut done = 0;
    while done < total {
        let piece = spans.piece(done, PIECE.min((total - done) as usize));
        let written = ready(patience, file, PollFlags::OUT)
            .and_then(|()| patience.retry(|| piece.empty_into(file.as_fd(), None)));
        match written {
            Ok(0) => break,
            Ok(count) => done += u64::from(count),
            Err(Outcome::Errno(Errno::AGAIN)) if !file.impatient() => {}
            Err(_) if done > 0 => break,
            Err(outcome) => return Err(outcome),
        }
    }
    Ok(done as u32)
}

fn ready(patience: &Patience, file: &File, what: PollFlags) -> Answer {
    match file.impatient() {
        true if is_ready(file.as_fd(), what) => Ok(()),
        true => Err(Errno::AGAIN.into()),
        false => patience.wait_for(file.as_fd(), what),
    }
}

#[cfg(test)]
mod tests {
    use super::super::beneath::Lookup;
    use super::super::scratch::{CREAT, LIST, READ, RESULT, ROOT, TRUNC, WRITE, World};
    use super::super::{Buffer, Interruption, Sink, Source};
    use super::*;
    use std::time::{Duration, SystemTime};
    use std::{fs, thread};

    const APPEND: u64 = 1;
    const NONBLOCK: u64 = 4;
    const SYNC: u64 = 16;
    const CUR: u64 = 1;
    const END: u64 = 2;

    fn world() -> World {
        World::rooted(Lookup::Kernel)
    }

    #[test]
    fn what_is_written_is_read_at_its_place() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        assert_eq!(world.write(fd, b"0123456789"), Ok(10));
        assert_eq!(world.read(fd, 4), Ok(vec![]));
        assert_eq!(world.seek(fd, 2, 0), Ok(2));
        assert_eq!(world.read(fd, 4), Ok(b"2345".to_vec()));
        assert_eq!(world.read_at(fd, 100, 8), Ok(b"89".to_vec()));
        assert_eq!(world.write_at(fd, b"xy", 4), Ok(2));
        assert_eq!(world.seek(fd, 0, CUR), Ok(6));
        assert_eq!(fs::read(world.root().join("file")).unwrap(), b"0123xy6789");
    }

    #[test]
    fn what_takes_long_is_moved_by_pieces_and_stops_between_them() {
        const LEN: usize = 2 * UNSEEN + 100;
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap() as u32;
        let mut memory: Vec<u8> = (0..LEN + 64).map(|at| ((at * 7) >> 4) as u8).collect();
        memory[..8].copy_from_slice(&[64u32.to_le_bytes(), (LEN as u32).to_le_bytes()].concat());
        let number = |memory: &[u8]| u32::from_le_bytes(memory[16..20].try_into().unwrap());
        world.ctx.fd_write(&Guest::exclusive(&mut memory), fd, 0, 1, 16).unwrap();
        assert_eq!(number(&memory), LEN as u32);
        assert!(fs::read(world.root().join("file")).unwrap() == memory[64..]);
        let written = memory.clone();
        memory[64..].fill(0);
        world.ctx.fd_pread(&Guest::exclusive(&mut memory), fd, 0, 1, 0, 16).unwrap();
        assert!(number(&memory) == LEN as u32 && memory[64..] == written[64..]);
        let stop = std::sync::atomic::AtomicBool::new(true);
        let read =
            world.ctx.fd_pread(&Guest::exclusive(&mut memory).stopped_by(&stop), fd, 0, 1, 0, 16);
        assert_eq!(read, Err(Outcome::Interrupted));
    }

    #[test]
    fn several_spans_are_one_transfer() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.put(0x5000, b"onetwothree");
        for (at, (address, len)) in
            [(0x5000u32, 3u32), (0, 0), (0x5006, 5), (0x5003, 3)].into_iter().enumerate()
        {
            world.put(LIST + at as u64 * 8, &address.to_le_bytes());
            world.put(LIST + at as u64 * 8 + 4, &len.to_le_bytes());
        }
        world.call("fd_write", &[fd, LIST, 4, RESULT]).unwrap();
        assert_eq!(world.u32(RESULT), 11);
        assert_eq!(fs::read(world.root().join("file")).unwrap(), b"onethreetwo");
    }

    #[test]
    fn positions_move_from_the_start_the_place_and_the_end() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.write(fd, &[7; 100]).unwrap();
        assert_eq!(world.seek(fd, -10, END), Ok(90));
        assert_eq!(world.seek(fd, 5, CUR), Ok(95));
        assert_eq!(world.seek(fd, 1000, 0), Ok(1000));
        assert_eq!(world.seek(fd, -1, 0), Err(Errno::INVAL));
        assert_eq!(world.seek(fd, -2000, CUR), Err(Errno::INVAL));
        assert_eq!(world.seek(fd, 0, 3), Err(Errno::INVAL));
        world.call("fd_tell", &[fd, RESULT]).unwrap();
        assert_eq!(world.u64(RESULT), 1000);
    }

    #[test]
    fn appending_writes_at_the_end_until_it_is_switched_off() {
        let mut world = world();
        let fd = world.open_as(ROOT, 0, "file", CREAT, READ | WRITE, APPEND).unwrap();
        world.write(fd, b"aa").unwrap();
        world.seek(fd, 0, 0).unwrap();
        world.write(fd, b"bb").unwrap();
        assert_eq!(world.seek(fd, 0, CUR), Ok(4));
        assert_eq!(world.fdstat(fd).unwrap().flags, APPEND);
        world.call("fd_fdstat_set_flags", &[fd, 0]).unwrap();
        world.seek(fd, 0, 0).unwrap();
        world.write(fd, b"cc").unwrap();
        assert_eq!(fs::read(world.root().join("file")).unwrap(), b"ccbb");
        assert_eq!(world.fdstat(fd).unwrap().flags, 0);
    }

    #[test]
    fn flags_that_are_settled_at_opening_stay() {
        let mut world = world();
        let fd = world.open_as(ROOT, 0, "file", CREAT, READ | WRITE, APPEND | SYNC).unwrap();
        assert_eq!(world.fdstat(fd).unwrap().flags, APPEND | SYNC);
        assert_eq!(world.call("fd_fdstat_set_flags", &[fd, NONBLOCK]), Err(Errno::INVAL));
        assert_eq!(world.call("fd_fdstat_set_flags", &[fd, NONBLOCK | SYNC]), Ok(()));
        assert_eq!(world.fdstat(fd).unwrap().flags, NONBLOCK | SYNC);
        assert_eq!(world.call("fd_fdstat_set_flags", &[fd, 1 << 5]), Err(Errno::INVAL));
        assert_eq!(world.call("fd_fdstat_set_flags", &[ROOT, 0]), Err(Errno::BADF));
    }

    #[test]
    fn files_do_only_what_they_were_opened_for() {
        let mut world = world();
        let write = world.open_as(ROOT, 0, "file", CREAT, WRITE, 0).unwrap();
        assert_eq!(world.write(write, b"abc"), Ok(3));
        assert_eq!(world.read(write, 1), Err(Errno::BADF));
        let read = world.open_as(ROOT, 0, "file", 0, READ, 0).unwrap();
        assert_eq!(world.read(read, 9), Ok(b"abc".to_vec()));
        assert_eq!(world.write(read, b"x"), Err(Errno::BADF));
        let neither = world.open_as(ROOT, 0, "file", 0, 0, 0).unwrap();
        assert_eq!(world.read(neither, 1), Err(Errno::BADF));
        assert_eq!(world.fdstat(read).unwrap().base & (READ | WRITE), READ);
        assert_eq!(world.fdstat(write).unwrap().base & (READ | WRITE), WRITE);
        assert_eq!(world.fdstat(neither).unwrap().base & (READ | WRITE), 0);
    }

    #[test]
    fn rights_given_up_are_gone() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        let stat = world.fdstat(fd).unwrap();
        let less = stat.base & !(READ | WRITE);
        world.call("fd_fdstat_set_rights", &[fd, less, stat.inheriting]).unwrap();
        assert_eq!(world.fdstat(fd).unwrap().base, less);
        assert_eq!(world.read(fd, 1), Err(Errno::NOTCAPABLE));
        assert_eq!(world.write(fd, b"x"), Err(Errno::NOTCAPABLE));
        assert_eq!(
            world.call("fd_fdstat_set_rights", &[fd, stat.base, stat.inheriting]),
            Err(Errno::NOTCAPABLE)
        );
        assert_eq!(world.call("fd_fdstat_set_rights", &[fd, 1 << 40, 0]), Err(Errno::INVAL));
    }

    #[test]
    fn directories_are_no_files() {
        let mut world = world();
        assert_eq!(world.read(ROOT, 1), Err(Errno::BADF));
        assert_eq!(world.write(ROOT, b"x"), Err(Errno::BADF));
        assert_eq!(world.read_at(ROOT, 1, 0), Err(Errno::BADF));
        assert_eq!(world.write_at(ROOT, b"x", 0), Err(Errno::BADF));
        assert_eq!(world.seek(ROOT, 0, CUR), Err(Errno::BADF));
        assert_eq!(world.call("fd_tell", &[ROOT, RESULT]), Err(Errno::BADF));
        assert_eq!(world.call("fd_allocate", &[ROOT, 0, 1]), Err(Errno::BADF));
        assert_eq!(world.call("fd_advise", &[ROOT, 0, 1, 0]), Err(Errno::BADF));
        assert_eq!(world.call("fd_filestat_set_size", &[ROOT, 0]), Err(Errno::BADF));
        assert_eq!(world.call("fd_sync", &[ROOT]), Ok(()));
        assert_eq!(world.call("fd_datasync", &[ROOT]), Ok(()));
    }

    #[test]
    fn sizes_grow_with_zeros_and_shrink() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.write(fd, b"abc").unwrap();
        world.call("fd_filestat_set_size", &[fd, 5]).unwrap();
        assert_eq!(world.read_at(fd, 9, 0), Ok(b"abc\0\0".to_vec()));
        world.call("fd_filestat_set_size", &[fd, 1]).unwrap();
        assert_eq!(world.fstat(fd).unwrap().size, 1);
        assert_eq!(world.call("fd_filestat_set_size", &[fd, u64::MAX]), Err(Errno::INVAL));
        let again = world.open("file", TRUNC).unwrap();
        assert_eq!(world.fstat(again).unwrap().size, 0);
    }

    #[test]
    fn room_is_made_and_advice_is_taken() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.call("fd_allocate", &[fd, 0, 100]).unwrap();
        world.call("fd_allocate", &[fd, 10, 10]).unwrap();
        assert_eq!(world.fstat(fd).unwrap().size, 100);
        world.call("fd_allocate", &[fd, 90, 20]).unwrap();
        assert_eq!(world.fstat(fd).unwrap().size, 110);
        assert_eq!(world.call("fd_allocate", &[fd, 0, 0]), Err(Errno::INVAL));
        for advice in 0..6 {
            assert_eq!(world.call("fd_advise", &[fd, 10, 50, advice]), Ok(()), "advice {advice}");
        }
        assert_eq!(world.call("fd_advise", &[fd, 0, 0, 0]), Ok(()));
        assert_eq!(world.call("fd_advise", &[fd, 0, 0, 6]), Err(Errno::INVAL));
        assert_eq!(world.call("fd_advise", &[fd, u64::MAX, 1, 0]), Err(Errno::INVAL));
        assert_eq!(world.fstat(fd).unwrap().size, 110);
        assert_eq!(
            (world.call("fd_sync", &[fd]), world.call("fd_datasync", &[fd])),
            (Ok(()), Ok(()))
        );
    }

    #[test]
    fn times_are_set_alone_or_together() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        let before = world.fstat(fd).unwrap();
        world.call("fd_filestat_set_times", &[fd, 5, before.mtim - 100, 1 << 2]).unwrap();
        let after = world.fstat(fd).unwrap();
        assert_eq!((after.atim, after.mtim), (before.atim, before.mtim - 100));
        world.call("fd_filestat_set_times", &[fd, 1_500_000_001, 7, 1 | 1 << 2]).unwrap();
        let after = world.fstat(fd).unwrap();
        assert_eq!((after.atim, after.mtim), (1_500_000_001, 7));
        world.call("fd_filestat_set_times", &[fd, 0, 0, 1 << 1 | 1 << 3]).unwrap();
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(world.fstat(fd).unwrap().mtim.abs_diff(now) < 60_000_000_000);
        assert_eq!(world.call("fd_filestat_set_times", &[fd, 1, 1, 1 | 1 << 1]), Err(Errno::INVAL));
        assert_eq!(
            world.call("fd_filestat_set_times", &[fd, 1, 1, 1 << 2 | 1 << 3]),
            Err(Errno::INVAL)
        );
        assert_eq!(world.call("fd_filestat_set_times", &[fd, 1, 1, 1 << 4]), Err(Errno::INVAL));
    }

    #[test]
    fn closed_and_unknown_numbers_are_bad() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.close(fd).unwrap();
        for bad in [fd, 1000, u64::from(u32::MAX)] {
            assert_eq!(world.close(bad), Err(Errno::BADF));
            assert_eq!(world.read(bad, 1), Err(Errno::BADF));
            assert_eq!(world.fstat(bad), Err(Errno::BADF));
            assert_eq!(world.fdstat(bad), Err(Errno::BADF));
            assert_eq!(world.call("fd_renumber", &[bad, ROOT]), Err(Errno::BADF));
            assert_eq!(world.call("fd_renumber", &[ROOT, bad]), Err(Errno::BADF));
        }
    }

    #[test]
    fn a_renumbered_file_keeps_its_place() {
        let mut world = world();
        let (one, two) = (world.open("one", CREAT).unwrap(), world.open("two", CREAT).unwrap());
        world.write(one, b"abc").unwrap();
        world.call("fd_renumber", &[one, two]).unwrap();
        assert_eq!(world.close(one), Err(Errno::BADF));
        assert_eq!(world.seek(two, 0, CUR), Ok(3));
        world.write(two, b"d").unwrap();
        assert_eq!(fs::read(world.root().join("one")).unwrap(), b"abcd");
    }

    #[test]
    fn nothing_is_done_when_the_result_has_no_place() {
        let mut world = world();
        let fd = world.open("file", CREAT).unwrap();
        world.put(LIST, &[0, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(world.call("fd_write", &[fd, LIST, 1, world.size() - 3]), Err(Errno::FAULT));
        assert_eq!(world.fstat(fd).unwrap().size, 0);
        world.put(LIST, &[0, 0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(world.call("fd_write", &[fd, LIST, 1, RESULT]), Err(Errno::FAULT));
        assert_eq!(world.call("fd_read", &[fd, u64::from(u32::MAX), 2, RESULT]), Err(Errno::FAULT));
        assert_eq!(world.call("fd_read", &[fd, LIST, 0x2000_0001, RESULT]), Err(Errno::FAULT));
    }

    #[test]
    fn embedders_streams_give_and_take() {
        let output = Buffer::default();
        let (given, kept) = (Source::Bytes(b"hello".to_vec()), Sink::Buffer(output.clone()));
        let mut world = World::with(|builder| builder.stdin(given).stdout(kept));
        assert_eq!(world.read(0, 3), Ok(b"hel".to_vec()));
        assert_eq!(world.read(0, 3), Ok(b"lo".to_vec()));
        assert_eq!(world.read(0, 3), Ok(vec![]));
        assert_eq!(world.write(1, b"out"), Ok(3));
        assert_eq!(world.write(2, b"lost"), Ok(4));
        assert_eq!(output.contents(), b"out");
        assert_eq!(world.read(1, 1), Err(Errno::BADF));
        assert_eq!(world.write(0, b"x"), Err(Errno::BADF));
        assert_eq!(world.seek(0, 0, CUR), Err(Errno::SPIPE));
        assert_eq!(world.read_at(0, 1, 0), Err(Errno::SPIPE));
        assert_eq!(world.write_at(1, b"x", 0), Err(Errno::SPIPE));
        assert_eq!(world.write_at(0, b"x", 0), Err(Errno::BADF));
        assert_eq!(world.fstat(1).unwrap().filetype, 0);
    }

    #[test]
    fn a_full_buffer_is_no_space_left() {
        let output = Buffer::with_limit(4);
        let mut world = World::with(|builder| builder.stdout(Sink::Buffer(output)));
        assert_eq!(world.write(1, b"123456"), Ok(4));
        assert_eq!(world.write(1, b"56"), Err(Errno::NOSPC));
        assert_eq!(world.write(1, b""), Ok(0));
    }

    fn pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
        std::io::pipe().unwrap()
    }

    #[test]
    fn pipes_carry_more_than_they_hold() {
        use std::io::Read;
        let (mut reader, writer) = pipe();
        let mut world = World::with(|builder| builder.stdout(Sink::Descriptor(writer.into())));
        let other = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all.len()
        });
        let mut sent = 0;
        while sent < 400_000 {
            sent += world.write(1, &[7; 40_000]).unwrap();
        }
        assert_eq!(world.seek(1, 0, CUR), Err(Errno::SPIPE));
        world.close(1).unwrap();
        assert_eq!(other.join().unwrap(), sent);
    }

    #[test]
    fn impatient_readers_are_told_to_come_again() {
        use std::io::Write;
        let (reader, mut writer) = pipe();
        let mut world = World::with(|builder| builder.stdin(Source::Descriptor(reader.into())));
        world.call("fd_fdstat_set_flags", &[0, NONBLOCK]).unwrap();
        assert_eq!(world.read(0, 5), Err(Errno::AGAIN));
        writer.write_all(b"now").unwrap();
        assert_eq!(world.read(0, 5), Ok(b"now".to_vec()));
        drop(writer);
        assert_eq!(world.read(0, 5), Ok(vec![]));
        assert_eq!(world.call("fd_fdstat_set_flags", &[0, APPEND]), Err(Errno::NOTSUP));
    }

    #[test]
    fn impatient_writers_are_told_to_come_again() {
        let (reader, writer) = pipe();
        let mut world = World::with(|builder| builder.stdout(Sink::Descriptor(writer.into())));
        world.call("fd_fdstat_set_flags", &[1, NONBLOCK]).unwrap();
        let mut taken = 0;
        let end = loop {
            match world.write(1, &[7; 10_000]) {
                Ok(count) => taken += count,
                Err(errno) => break errno,
            }
        };
        assert_eq!(end, Errno::AGAIN);
        assert!(taken >= 4096, "{taken}");
        drop(reader);
        assert_eq!(world.write(1, b"x"), Err(Errno::PIPE));
    }

    #[test]
    fn who_waits_for_a_pipe_can_be_interrupted() {
        let (reader, writer) = pipe();
        let interruption = Interruption::new().unwrap();
        let mut world = World::with(|builder| {
            builder.stdin(Source::Descriptor(reader.into())).interruption(interruption.clone())
        });
        let raiser = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            interruption.raise();
        });
        world.put(LIST, &[0, 64, 0, 0, 5, 0, 0, 0]);
        assert_eq!(world.outcome("fd_read", &[0, LIST, 1, RESULT]), Outcome::Interrupted);
        assert!(world.ctx.interrupted());
        raiser.join().unwrap();
        drop(writer);
    }

    #[test]
    fn a_file_as_standard_input_can_seek_and_a_pipe_cannot() {
        let world = world();
        fs::write(world.root().join("file"), b"abcdef").unwrap();
        let file = fs::File::open(world.root().join("file")).unwrap();
        let mut guest = World::with(|builder| builder.stdin(Source::Descriptor(file.into())));
        assert_eq!(guest.seek(0, 2, 0), Ok(2));
        assert_eq!(guest.read(0, 2), Ok(b"cd".to_vec()));
        assert_eq!(guest.fdstat(0).unwrap().filetype, 4);
        assert_eq!(guest.call("fd_filestat_set_size", &[0, 0]), Err(Errno::BADF));
        let (reader, _writer) = pipe();
        let mut guest = World::with(|builder| builder.stdin(Source::Descriptor(reader.into())));
        assert_eq!(guest.seek(0, 0, 0), Err(Errno::SPIPE));
        assert_eq!(guest.fdstat(0).unwrap().filetype, 0);
    }

    #[test]
    fn devices_that_seek_are_not_taken_for_terminals() {
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let mut guest = World::with(|builder| builder.stdout(Sink::Descriptor(null.into())));
        let stat = guest.fdstat(1).unwrap();
        assert_eq!(stat.filetype, 2);
        assert!(Rights(stat.base).contains(Rights::FD_SEEK));
        assert_eq!(guest.write(1, b"gone"), Ok(4));
    }

    #[test]
    fn standard_streams_can_be_closed_without_closing_the_hosts() {
        let mut guest = World::with(super::super::WasiCtxBuilder::inherit_stdio);
        for fd in 0..3 {
            guest.close(fd).unwrap();
            assert_eq!(guest.close(fd), Err(Errno::BADF));
        }
        assert!(rustix::fs::fstat(std::io::stderr()).is_ok());
    }
}
