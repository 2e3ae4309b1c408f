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
    assert_eq!((world.call("fd_sync", &[fd]), world.call("fd_datasync", &[fd])), (Ok(()), Ok(())));
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
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
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
