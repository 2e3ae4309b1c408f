//! Tests of attempts to escape.
//!
//! A guest has a directory, and a secret is beside it. Every path that might lead there is tried
//! with every call, first undisturbed, then while another thread repeatedly replaces a directory of
//! the guest by a link that leads out, or moves it elsewhere.

use super::beneath::Lookup;
use super::errno::Errno;
use super::scratch::{
    CREAT, DIRECTORY, FOLLOW, NAME, OTHER, READ, ROOT, TRUNC, WRITE, World, both_ways,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

const SECRET: &[u8] = b"not for guests";

/// Puts a secret beside the guest's directory, and links that lead there within it.
fn tempting(world: &World) {
    let (root, outside) = (world.root(), world.scratch.as_ref().unwrap().outside().to_owned());
    fs::create_dir(outside.join("vault")).unwrap();
    fs::write(outside.join("vault/secret"), SECRET).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "inside").unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("../vault", root.join("beside")).unwrap();
    symlink("../vault/secret", root.join("secret")).unwrap();
    symlink(outside.join("vault"), root.join("absolute")).unwrap();
    symlink("/", root.join("all")).unwrap();
    symlink("dir/../../vault", root.join("roundabout")).unwrap();
    symlink("beside", root.join("twice")).unwrap();
    symlink("../vault/new", root.join("dangling")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
}

/// Paths that would lead to the vault's files if they were allowed to.
const WAYS: &[&str] = &[
    "../vault/secret",
    "dir/../../vault/secret",
    "./../vault/secret",
    "../granted/../vault/secret",
    "up/vault/secret",
    "beside/secret",
    "absolute/secret",
    "all/etc/passwd",
    "roundabout/secret",
    "twice/secret",
    "dir/../beside/secret",
    "beside/../vault/secret",
    "magic/etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "../",
    "dir/../..",
    "up/",
    "all/",
    "beside/.",
];

fn unharmed(world: &World) {
    let outside = world.scratch.as_ref().unwrap().outside();
    assert_eq!(fs::read(outside.join("vault/secret")).unwrap(), SECRET);
    let names = |path: &Path| {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names(&outside.join("vault")), ["secret"]);
    assert_eq!(names(outside).len(), 2);
}

#[test]
fn no_path_leads_out() {
    both_ways(|mut world| {
        tempting(&world);
        for way in WAYS {
            for lookup in [0, FOLLOW] {
                for oflags in [0, CREAT, DIRECTORY, TRUNC] {
                    for base in [0, READ, WRITE] {
                        let told = world.open_as(ROOT, lookup, way, oflags, base, 0);
                        // Creating a name with a slash at its end is refused without a lookup.
                        let unseen = oflags == CREAT && told == Err(Errno::ISDIR);
                        assert!(unseen || told == Err(Errno::PERM), "{way} {oflags}: {told:?}");
                    }
                }
                assert_eq!(world.stat(way, lookup), Err(Errno::PERM), "{way}");
                let times = world.call(
                    "path_filestat_set_times",
                    &[ROOT, lookup, NAME, way.len() as u64, 0, 0, 1],
                );
                assert_eq!(times, Err(Errno::PERM), "{way}");
            }
            assert_eq!(world.readlink(way), Err(Errno::PERM), "{way}");
        }
        unharmed(&world);
    });
}

#[test]
fn nothing_is_made_removed_or_renamed_outside() {
    both_ways(|mut world| {
        tempting(&world);
        for way in WAYS {
            for call in ["path_create_directory", "path_remove_directory", "path_unlink_file"] {
                let told = world.on_path(call, way);
                // If the name itself is `..`, the kernel refuses it with other errors.
                assert!(told.is_err(), "{call} {way}");
            }
            for told in [
                world.rename(way, "dir/stolen"),
                world.rename("dir/file", way),
                world.link(way, "dir/stolen", 0),
                world.link("dir/file", way, 0),
                world.symlink("dir/file", way),
            ] {
                assert!(told.is_err(), "{way}");
            }
        }
        for end in ["secret", "new"] {
            let way = format!("beside/{end}");
            assert_eq!(world.on_path("path_unlink_file", &way), Err(Errno::PERM));
            assert_eq!(world.on_path("path_create_directory", &way), Err(Errno::PERM));
            assert_eq!(world.link("dir/file", &way, 0), Err(Errno::PERM));
        }
        unharmed(&world);
        assert!(world.stat("dir/file", 0).is_ok());
    });
}

#[test]
fn links_as_last_names_do_not_lead_out_either() {
    both_ways(|mut world| {
        tempting(&world);
        for name in [
            "up",
            "beside",
            "secret",
            "absolute",
            "all",
            "roundabout",
            "twice",
            "dangling",
            "magic",
        ] {
            assert_eq!(world.open_as(ROOT, FOLLOW, name, 0, READ, 0), Err(Errno::PERM), "{name}");
            assert_eq!(
                world.open_as(ROOT, FOLLOW, name, CREAT, READ | WRITE, 0),
                Err(Errno::PERM),
                "{name}"
            );
            assert_eq!(world.open_as(ROOT, 0, name, 0, READ, 0), Err(Errno::LOOP), "{name}");
            assert_eq!(world.stat(name, FOLLOW), Err(Errno::PERM), "{name}");
            assert_eq!(world.stat(name, 0).unwrap().filetype, 7, "{name}");
            let slash = format!("{name}/");
            for lookup in [0, FOLLOW] {
                assert_eq!(world.stat(&slash, lookup), Err(Errno::PERM), "{slash}");
            }
            assert!(world.on_path("path_create_directory", &slash).is_err(), "{slash}");
            assert!(world.on_path("path_remove_directory", &slash).is_err(), "{slash}");
            assert!(world.on_path("path_unlink_file", &slash).is_err(), "{slash}");
            assert!(world.rename(&slash, "dir/stolen").is_err(), "{slash}");
            assert!(world.rename("dir", &slash).is_err(), "{slash}");
            assert_eq!(world.link(&slash, "dir/stolen", 0), Err(Errno::PERM), "{slash}");
        }
        unharmed(&world);
    });
}

#[test]
fn links_that_begin_at_the_hosts_root_are_not_made() {
    both_ways(|mut world| {
        assert_eq!(world.symlink("/etc", "link"), Err(Errno::PERM));
        // Links that lead out by dots can be created, since a tree may be moved, but they lead
        // nowhere.
        world.symlink("../vault", "link").unwrap();
        assert_eq!(world.stat("link", FOLLOW), Err(Errno::PERM));
    });
}

#[test]
fn directories_opened_beneath_are_bounds_of_their_own() {
    both_ways(|mut world| {
        tempting(&world);
        let dir = world.open_as(ROOT, 0, "dir", DIRECTORY, READ, 0).unwrap();
        assert!(world.open_as(dir, 0, "file", 0, READ, 0).is_ok());
        assert_eq!(world.open_as(dir, 0, "../dir/file", 0, READ, 0), Err(Errno::PERM));
        assert_eq!(world.open_as(dir, 0, "..", DIRECTORY, READ, 0), Err(Errno::PERM));
    });
}

/// Lets a guest try for a while, with an adversary on the host.
fn race(
    lookup: Lookup,
    adversary: impl Fn(&Path) + Sync,
    attempt: impl Fn(&mut World) -> bool,
) -> u32 {
    let mut world = World::rooted(lookup);
    tempting(&world);
    let root = world.root();
    fs::create_dir(root.join("trap")).unwrap();
    fs::write(root.join("trap/secret"), "bait").unwrap();
    symlink("../vault", root.join("way_out")).unwrap();
    let over = AtomicBool::new(false);
    let mut inside = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                adversary(&root);
            }
        });
        let end = Instant::now() + Duration::from_millis(250);
        while Instant::now() < end {
            inside += u32::from(attempt(&mut world));
        }
        over.store(true, Ordering::Relaxed);
    });
    unharmed(&world);
    inside
}

/// Exchanges a directory and a link that leads out.
fn exchange(root: &Path) {
    renameat_with(CWD, root.join("trap"), CWD, root.join("way_out"), RenameFlags::EXCHANGE)
        .unwrap();
}

#[test]
fn a_directory_that_becomes_a_link_does_not_lead_out() {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let inside = race(lookup, exchange, |world| {
            let Ok(fd) = world.open_as(ROOT, FOLLOW, "trap/secret", 0, READ, 0) else {
                return false;
            };
            assert_eq!(world.read(fd, 100).unwrap(), b"bait");
            world.close(fd).unwrap();
            true
        });
        assert!(inside > 0, "{lookup:?} never got in");
    }
}

#[test]
fn nothing_is_written_through_a_directory_that_becomes_a_link() {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        race(lookup, exchange, |world| {
            if let Ok(fd) = world.open_as(ROOT, FOLLOW, "trap/new", CREAT | TRUNC, READ | WRITE, 0)
            {
                world.write(fd, b"mine").unwrap();
                world.close(fd).unwrap();
            }
            let _ = world.on_path("path_create_directory", "trap/made");
            let _ = world.on_path("path_remove_directory", "trap/made");
            let _ = world.rename("trap/new", "trap/newer");
            let _ = world.link("trap/newer", "trap/linked", 0);
            world.put(NAME, b"trap/secret");
            let _ = world.call("path_filestat_set_times", &[ROOT, FOLLOW, NAME, 11, 0, 0, 1]);
            world.put(OTHER, b"trap/linked");
            world.on_path("path_unlink_file", "trap/linked").is_ok()
        });
    }
}

#[test]
fn going_up_from_a_directory_that_is_moved_does_not_lead_out() {
    // `deep/a/../..` is the guest's root, unless `a` is moved meanwhile: then the kernel returns
    // another parent.
    let adversary = |root: &Path| {
        let (within, without) = (root.join("deep/a"), root.parent().unwrap().join("a"));
        let _ = fs::create_dir_all(&within);
        let _ = fs::rename(&within, &without);
        let _ = fs::rename(&without, &within);
    };
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let mut world = World::rooted(lookup);
        let root = world.root();
        fs::create_dir_all(root.join("deep/a")).unwrap();
        fs::write(root.join("mark"), "inside").unwrap();
        fs::write(root.parent().unwrap().join("mark"), SECRET).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    adversary(&root);
                }
            });
            let end = Instant::now() + Duration::from_millis(250);
            while Instant::now() < end {
                for way in ["deep/a/../../mark", "deep/a/../mark"] {
                    if let Ok(fd) = world.open_as(ROOT, 0, way, 0, READ, 0) {
                        assert_eq!(world.read(fd, 100).unwrap(), b"inside", "{way}");
                        world.close(fd).unwrap();
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
