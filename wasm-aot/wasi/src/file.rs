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
mod tests;
