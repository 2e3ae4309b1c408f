use super::super::Permissions;
use super::super::beneath::Lookup;
use super::super::scratch::{
    BUFFER, CREAT, DIRECTORY, EXCL, FOLLOW, NAME, READ, RESULT, ROOT, TRUNC, WRITE, World,
    both_ways,
};
use super::*;
use std::fs;

const FILE: u8 = 4;
const DIR: u8 = 3;
const LINK: u8 = 7;

fn create(world: &mut World, path: &str) {
    let fd = world.open(path, CREAT).unwrap();
    world.close(fd).unwrap();
}

#[test]
fn paths_with_dots_and_slashes_lead_where_they_say() {
    both_ways(|mut world| {
        world.on_path("path_create_directory", "dir").unwrap();
        world.on_path("path_create_directory", "dir/nested/").unwrap();
        create(&mut world, "dir/nested/file");
        for path in [
            "dir/nested/file",
            "dir/.//nested/../../dir/nested/../nested///./file",
            "./dir/nested/./file",
        ] {
            let fd = world.open(path, 0).unwrap();
            assert_eq!(world.fstat(fd).unwrap().filetype, FILE, "{path}");
            world.close(fd).unwrap();
        }
        for path in
            ["dir/nested", "dir/nested/", "dir/nested///", "dir/nested/.", "dir/nested/..", "."]
        {
            let fd = world.open_as(ROOT, 0, path, 0, 0, 0).unwrap();
            assert_eq!(world.fdstat(fd).unwrap().filetype, DIR, "{path}");
            world.close(fd).unwrap();
        }
        for path in
            ["dir/nested/file/", "dir/nested/file///", "dir/nested/file/.", "dir/nested/file/.."]
        {
            assert_eq!(world.open(path, 0), Err(Errno::NOTDIR), "{path}");
        }
    });
}

#[test]
fn what_is_not_there_is_not_found() {
    both_ways(|mut world| {
        assert_eq!(world.open("none", 0), Err(Errno::NOENT));
        assert_eq!(world.open("none/file", CREAT), Err(Errno::NOENT));
        assert_eq!(world.open("", 0), Err(Errno::NOENT));
        assert_eq!(world.stat("none", FOLLOW), Err(Errno::NOENT));
        assert_eq!(world.readlink("none"), Err(Errno::NOENT));
        for call in ["path_unlink_file", "path_remove_directory"] {
            assert_eq!(world.on_path(call, "none"), Err(Errno::NOENT));
            assert_eq!(world.on_path(call, ""), Err(Errno::NOENT));
        }
        assert_eq!(world.on_path("path_create_directory", ""), Err(Errno::NOENT));
        assert_eq!(world.rename("none", "other"), Err(Errno::NOENT));
        assert_eq!(world.link("none", "other", 0), Err(Errno::NOENT));
        assert_eq!(world.symlink("", "link"), Err(Errno::NOENT));
    });
}

#[test]
fn paths_that_are_no_text_are_refused() {
    both_ways(|mut world| {
        assert_eq!(world.open("file\0", CREAT), Err(Errno::INVAL));
        world.put(NAME, b"\xff\xfe");
        assert_eq!(world.call("path_unlink_file", &[ROOT, NAME, 2]), Err(Errno::ILSEQ));
        assert_eq!(world.call("path_unlink_file", &[ROOT, NAME, 1 << 31]), Err(Errno::FAULT));
        let long = "a/".repeat(2047) + "ab";
        assert_eq!(world.open(&long, 0), Err(Errno::NAMETOOLONG));
        assert_eq!(world.open(&"n".repeat(300), CREAT), Err(Errno::NAMETOOLONG));
    });
}

#[test]
fn opening_creates_keeps_truncates_or_refuses() {
    both_ways(|mut world| {
        let fd = world.open("file", CREAT | EXCL).unwrap();
        world.write(fd, b"abc").unwrap();
        assert_eq!(world.open("file", CREAT | EXCL), Err(Errno::EXIST));
        world.open("file", CREAT).unwrap();
        assert_eq!(world.stat("file", 0).unwrap().size, 3);
        world.open("file", TRUNC).unwrap();
        assert_eq!(world.stat("file", 0).unwrap().size, 0);
        assert_eq!(world.open("file", DIRECTORY), Err(Errno::NOTDIR));
        for flags in [CREAT, EXCL, TRUNC] {
            assert_eq!(world.open("new", DIRECTORY | flags), Err(Errno::INVAL));
        }
        assert_eq!(world.open("file", 1 << 4), Err(Errno::INVAL));
        assert_eq!(world.open_as(ROOT, 2, "file", 0, 0, 0), Err(Errno::INVAL));
        assert_eq!(world.open_as(ROOT, 0, "file", 0, 1 << 30, 0), Err(Errno::INVAL));
        assert_eq!(world.open_as(ROOT, 0, "file", 0, 0, 1 << 5), Err(Errno::INVAL));
    });
}

#[test]
fn directories_are_opened_to_read_only() {
    both_ways(|mut world| {
        assert_eq!(world.open_as(ROOT, 0, ".", DIRECTORY, READ | WRITE, 0), Err(Errno::ISDIR));
        assert_eq!(world.open_as(ROOT, 0, ".", 0, WRITE, 0), Err(Errno::ISDIR));
        let given = world.fdstat(ROOT).unwrap();
        let fd = world.open_as(ROOT, 0, ".", 0, given.base, 4).unwrap();
        let opened = world.fdstat(fd).unwrap();
        assert_eq!(
            (opened.base, opened.inheriting, opened.flags),
            (given.base, given.inheriting, 0)
        );
        assert_eq!(opened.base & Rights::FD_SEEK.0, 0);
    });
}

#[test]
fn opening_needs_a_directory() {
    both_ways(|mut world| {
        let file = world.open("file", CREAT).unwrap();
        assert_eq!(world.open_as(file, 0, "x", CREAT, 0, 0), Err(Errno::NOTDIR));
        assert_eq!(world.open_as(0, 0, "x", CREAT, 0, 0), Err(Errno::BADF));
        assert_eq!(world.open_as(99, 0, "x", CREAT, 0, 0), Err(Errno::BADF));
        assert_eq!(world.call("path_unlink_file", &[file, NAME, 1]), Err(Errno::BADF));
    });
}

#[test]
fn links_are_followed_only_when_asked() {
    both_ways(|mut world| {
        world.on_path("path_create_directory", "target").unwrap();
        create(&mut world, "file");
        world.symlink("target", "to_dir").unwrap();
        world.symlink("file", "to_file").unwrap();
        assert_eq!(world.open_as(ROOT, 0, "to_dir", 0, 0, 0), Err(Errno::LOOP));
        assert_eq!(world.open_as(ROOT, 0, "to_dir", DIRECTORY, 0, 0), Err(Errno::NOTDIR));
        assert!(world.open_as(ROOT, FOLLOW, "to_dir", DIRECTORY, 0, 0).is_ok());
        assert!(world.open_as(ROOT, 0, "to_dir/", 0, 0, 0).is_ok());
        assert_eq!(world.open("to_file", 0), Err(Errno::LOOP));
        assert_eq!(world.open_as(ROOT, FOLLOW, "to_file", DIRECTORY, 0, 0), Err(Errno::NOTDIR));
        assert!(world.open_as(ROOT, FOLLOW, "to_file", 0, READ, 0).is_ok());
        create(&mut world, "to_dir/inside");
        assert!(world.stat("target/inside", 0).is_ok());
        assert_eq!(world.stat("to_file", 0).unwrap().filetype, LINK);
        assert_eq!(world.stat("to_file", FOLLOW).unwrap().filetype, FILE);
        assert_eq!(world.readlink("to_file"), Ok(b"file".to_vec()));
        assert_eq!(world.readlink("file"), Err(Errno::INVAL));
    });
}

#[test]
fn links_to_links_are_followed_and_circles_are_not() {
    both_ways(|mut world| {
        world.on_path("path_create_directory", "a").unwrap();
        world.on_path("path_create_directory", "a/b").unwrap();
        create(&mut world, "a/b/file");
        world.symlink("../a/./b", "a/up").unwrap();
        world.symlink("a/up/../up/", "around").unwrap();
        // `a/up` leads to `a/b`, whose parent is `a`.
        assert!(world.stat("around/file", 0).is_ok());
        world.symlink("me", "me").unwrap();
        assert_eq!(world.open_as(ROOT, FOLLOW, "me", 0, 0, 0), Err(Errno::LOOP));
        assert_eq!(world.open_as(ROOT, 0, "me", 0, 0, 0), Err(Errno::LOOP));
        assert_eq!(world.stat("me/x", FOLLOW), Err(Errno::LOOP));
    });
}

#[test]
fn dangling_links_create_what_they_name() {
    both_ways(|mut world| {
        world.symlink("later", "link").unwrap();
        assert_eq!(world.open_as(ROOT, FOLLOW, "link", 0, READ, 0), Err(Errno::NOENT));
        assert_eq!(world.open_as(ROOT, 0, "link", 0, READ, 0), Err(Errno::LOOP));
        assert_eq!(
            world.open_as(ROOT, FOLLOW, "link", CREAT | EXCL, READ | WRITE, 0),
            Err(Errno::EXIST)
        );
        assert!(world.open_as(ROOT, FOLLOW, "link", CREAT, READ | WRITE, 0).is_ok());
        assert_eq!(world.stat("later", 0).unwrap().filetype, FILE);
    });
}

#[test]
fn directories_are_made_and_removed() {
    both_ways(|mut world| {
        world.on_path("path_create_directory", "dir").unwrap();
        assert_eq!(world.on_path("path_create_directory", "dir"), Err(Errno::EXIST));
        create(&mut world, "dir/file");
        assert_eq!(world.on_path("path_remove_directory", "dir"), Err(Errno::NOTEMPTY));
        assert_eq!(world.on_path("path_remove_directory", "dir/file"), Err(Errno::NOTDIR));
        assert_eq!(world.on_path("path_remove_directory", "dir/file/"), Err(Errno::NOTDIR));
        assert_eq!(world.on_path("path_unlink_file", "dir"), Err(Errno::ISDIR));
        assert_eq!(world.on_path("path_unlink_file", "dir/"), Err(Errno::ISDIR));
        assert_eq!(world.on_path("path_unlink_file", "dir/file/"), Err(Errno::NOTDIR));
        world.on_path("path_unlink_file", "dir/file").unwrap();
        assert_eq!(world.on_path("path_remove_directory", "dir/"), Ok(()));
        assert!(world.on_path("path_remove_directory", ".").is_err());
        assert!(world.on_path("path_create_directory", ".").is_err());
    });
}

#[test]
fn names_of_links_are_removed_not_what_they_name() {
    both_ways(|mut world| {
        create(&mut world, "file");
        world.symlink("file", "link").unwrap();
        world.on_path("path_unlink_file", "link").unwrap();
        assert!(world.stat("file", 0).is_ok());
        world.on_path("path_create_directory", "dir").unwrap();
        world.symlink("dir", "link").unwrap();
        assert_eq!(world.on_path("path_remove_directory", "link"), Err(Errno::NOTDIR));
        assert_eq!(world.on_path("path_unlink_file", "link/"), Err(Errno::NOTDIR));
        assert!(world.stat("dir", 0).is_ok());
    });
}

#[test]
fn renaming_replaces_only_its_like() {
    both_ways(|mut world| {
        world.on_path("path_create_directory", "source").unwrap();
        world.rename("source/", "target").unwrap();
        world.rename("target", "source/").unwrap();
        world.rename("source/", "target/").unwrap();
        world.rename("target", "source").unwrap();
        world.on_path("path_create_directory", "target").unwrap();
        world.rename("source", "target").unwrap();
        world.on_path("path_create_directory", "source").unwrap();
        create(&mut world, "target/file");
        assert_eq!(world.rename("source", "target"), Err(Errno::NOTEMPTY));
        assert_eq!(world.rename("source", "target/file"), Err(Errno::NOTDIR));
        create(&mut world, "file");
        assert_eq!(world.rename("file", "source"), Err(Errno::ISDIR));
        assert_eq!(world.rename("file/", "other"), Err(Errno::NOTDIR));
        assert_eq!(world.rename("source", "source/beneath"), Err(Errno::INVAL));
        world.rename("file", "target/file").unwrap();
        assert_eq!(world.stat("file", 0), Err(Errno::NOENT));
        assert!(world.rename(".", "x").is_err());
    });
}

#[test]
fn files_are_given_second_names() {
    both_ways(|mut world| {
        create(&mut world, "file");
        world.link("file", "link", 0).unwrap();
        assert_eq!(world.stat("file", 0).unwrap(), world.stat("link", 0).unwrap());
        assert_eq!(world.stat("link", 0).unwrap().nlink, 2);
        assert_eq!(world.link("file", "link", 0), Err(Errno::EXIST));
        assert_eq!(world.link("file", "file", 0), Err(Errno::EXIST));
        assert_eq!(world.link("file", "new/", 0), Err(Errno::NOENT));
        assert_eq!(world.link("file/", "new", 0), Err(Errno::NOTDIR));
        world.on_path("path_create_directory", "dir").unwrap();
        assert_eq!(world.link("dir", "new", 0), Err(Errno::PERM));
        assert_eq!(world.link("dir/", "new", 0), Err(Errno::PERM));
        assert_eq!(world.link("file", "dir", 0), Err(Errno::EXIST));
        world.symlink("nowhere", "dangling").unwrap();
        world.link("dangling", "second", 0).unwrap();
        assert_eq!(world.readlink("second"), Ok(b"nowhere".to_vec()));
        assert_eq!(world.link("file", "dangling", 0), Err(Errno::EXIST));
        assert_eq!(world.link("dangling", "third", FOLLOW), Err(Errno::INVAL));
    });
}

#[test]
fn symbolic_links_are_made_where_nothing_is() {
    both_ways(|mut world| {
        assert_eq!(world.symlink("source", "target/"), Err(Errno::NOENT));
        world.on_path("path_create_directory", "target").unwrap();
        assert_eq!(world.symlink("source", "target"), Err(Errno::EXIST));
        assert_eq!(world.symlink("source", "target/"), Err(Errno::EXIST));
        create(&mut world, "file");
        assert!(matches!(world.symlink("source", "file/"), Err(Errno::NOTDIR | Errno::EXIST)));
        world.symlink("some/where", "link").unwrap();
        world.put(NAME, b"link");
        world.put(BUFFER, b"----------");
        world.call("path_readlink", &[ROOT, NAME, 4, BUFFER, 4, RESULT]).unwrap();
        assert_eq!((world.u32(RESULT), world.bytes(BUFFER, 6)), (4, &b"some--"[..]));
    });
}

#[test]
fn times_of_links_and_of_what_they_name_are_set_apart() {
    both_ways(|mut world| {
        create(&mut world, "file");
        world.symlink("file", "link").unwrap();
        let (file, link) = (world.stat("file", 0).unwrap(), world.stat("link", 0).unwrap());
        let mut set = |lookup, mtim| {
            world.put(NAME, b"link");
            world
                .call("path_filestat_set_times", &[ROOT, lookup, NAME, 4, 0, mtim, 1 << 2])
                .unwrap();
            (world.stat("file", 0).unwrap().mtim, world.stat("link", 0).unwrap().mtim)
        };
        assert_eq!(set(0, link.mtim - 200), (file.mtim, link.mtim - 200));
        assert_eq!(set(FOLLOW, 77), (77, link.mtim - 200));
        let both =
            world.call("path_filestat_set_times", &[ROOT, 0, NAME, 4, 0, 0, 1 << 2 | 1 << 3]);
        assert_eq!(both, Err(Errno::INVAL));
    });
}

#[test]
fn no_more_is_open_than_the_host_allows() {
    let limited = |builder: super::super::WasiCtxBuilder| builder.max_descriptors(2);
    let mut world = World::rooted_with(Lookup::Kernel, Permissions::ReadWrite, limited);
    let first = world.open("file", CREAT).unwrap();
    world.open("file", 0).unwrap();
    assert_eq!(world.open("file", 0), Err(Errno::MFILE));
    world.close(first).unwrap();
    assert_eq!(world.open("file", 0), Ok(first));
}

#[test]
fn files_live_on_without_their_names() {
    both_ways(|mut world| {
        let fd = world.open("file", CREAT).unwrap();
        world.on_path("path_unlink_file", "file").unwrap();
        world.write(fd, b"still").unwrap();
        assert_eq!(world.read_at(fd, 9, 0), Ok(b"still".to_vec()));
        assert_eq!(world.fstat(fd).unwrap().nlink, 0);
        create(&mut world, "file");
        assert_eq!(world.stat("file", 0).unwrap().size, 0);
    });
}

#[test]
fn rights_given_up_bind_what_is_opened_later() {
    both_ways(|mut world| {
        create(&mut world, "file");
        let root = world.fdstat(ROOT).unwrap();
        let less = root.base & !Rights::PATH_FILESTAT_SET_SIZE.0 & !Rights::PATH_CREATE_DIRECTORY.0;
        let inherited = root.inheriting & !WRITE & !Rights::PATH_UNLINK_FILE.0;
        world.call("fd_fdstat_set_rights", &[ROOT, less, inherited]).unwrap();
        assert_eq!(world.open_as(ROOT, 0, "file", TRUNC, 0, 0), Err(Errno::PERM));
        assert_eq!(world.on_path("path_create_directory", "dir"), Err(Errno::PERM));
        assert_eq!(world.open("file", 0), Err(Errno::PERM));
        let fd = world.open_as(ROOT, 0, "file", 0, READ, 0).unwrap();
        assert_eq!(world.fdstat(fd).unwrap().base & (READ | WRITE), READ);
        let below = world.open_as(ROOT, 0, ".", DIRECTORY, READ, 0).unwrap();
        world.put(NAME, b"file");
        assert_eq!(world.call("path_unlink_file", &[below, NAME, 4]), Err(Errno::PERM));
    });
}

#[test]
fn nothing_changes_beneath_a_directory_that_is_given_to_read() {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let mut world = World::rooted_with(lookup, Permissions::ReadOnly, |builder| builder);
        fs::create_dir(world.root().join("dir")).unwrap();
        fs::write(world.root().join("dir/file"), "abc").unwrap();
        let dir = world.open_as(ROOT, 0, "dir", DIRECTORY, READ, 0).unwrap();
        for (fd, path) in [(ROOT, "dir/file"), (dir, "file")] {
            assert_eq!(world.open_as(fd, 0, path, 0, READ | WRITE, 0), Err(Errno::PERM));
            assert_eq!(world.open_as(fd, 0, path, CREAT, READ, 0), Err(Errno::PERM));
            assert_eq!(world.open_as(fd, 0, path, TRUNC, READ, 0), Err(Errno::PERM));
            let file = world.open_as(fd, 0, path, 0, READ, 0).unwrap();
            assert_eq!(world.read(file, 9), Ok(b"abc".to_vec()));
            assert_eq!(world.call("fd_filestat_set_size", &[file, 0]), Err(Errno::BADF));
            assert_eq!(world.call("fd_filestat_set_times", &[file, 0, 0, 1]), Err(Errno::BADF));
            assert_eq!(world.call("fd_allocate", &[file, 0, 10]), Err(Errno::BADF));
        }
        for call in ["path_create_directory", "path_remove_directory", "path_unlink_file"] {
            assert_eq!(world.on_path(call, "dir/file"), Err(Errno::PERM), "{call}");
        }
        assert_eq!(world.rename("dir/file", "x"), Err(Errno::PERM));
        assert_eq!(world.link("dir/file", "x", 0), Err(Errno::PERM));
        assert_eq!(world.symlink("dir/file", "x"), Err(Errno::PERM));
        assert_eq!(
            world.call("path_filestat_set_times", &[ROOT, 0, NAME, 1, 0, 0, 1]),
            Err(Errno::PERM)
        );
        assert_eq!(world.call("fd_filestat_set_times", &[ROOT, 0, 0, 1]), Err(Errno::PERM));
        assert_eq!(world.call("fd_filestat_set_times", &[dir, 0, 0, 1]), Err(Errno::PERM));
        assert_eq!(world.stat("dir/file", 0).unwrap().size, 3);
    }
}
