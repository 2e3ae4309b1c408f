//! Files of machine code that are damaged or untrustworthy; and caches of them.

use super::{Numbers, one_line, quick};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use wasm_aot::{Cache, Config, Engine, Error, Linker, Module, Optimize, Store, verify};

const ADD: &str = "(module $sum (memory 1) (data (i32.const 0) \"abc\")
    (func (export \"add\") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))";
/// The range of the engine's header in a file.
const HEADER: std::ops::Range<usize> = 4096..8192;

/// A folder that is removed at the end of the test.
struct Folder(test_support::Folder);

impl Folder {
    fn new(name: &str) -> Self {
        Self(test_support::Folder::new(&format!("wasm-aot-hostile-{name}")))
    }

    fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("our file");
        path
    }
}

fn sum(engine: &Engine, module: &Module) -> i32 {
    let mut store = Store::new(engine, ());
    let instance = Linker::new(engine).instantiate(&mut store, module).expect("an instance");
    let add = instance.get_typed_func::<(i32, i32), i32>(&mut store, "add").expect("exported");
    add.call(&mut store, (40, 2)).expect("a result")
}

fn refused(engine: &Engine, path: &Path) -> String {
    let error = Module::from_file(engine, path).expect_err("it cannot be trusted");
    assert!(matches!(error, Error::Artifact(_)), "{error:?}");
    let text = one_line(&error);
    assert!(text.contains(&path.display().to_string()), "{text}");
    text
}

#[test]
fn a_header_that_is_damaged_anywhere_is_refused() {
    let (engine, folder) = (quick(), Folder::new("header"));
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    let len = u64::from_le_bytes(
        whole[HEADER.start + 16..HEADER.start + 24].try_into().expect("eight bytes"),
    ) as usize;
    for at in HEADER.start..HEADER.start + 40 + len {
        for bit in [0x01, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            refused(&engine, &folder.file("damaged.aot", &damaged));
        }
    }
}

#[test]
fn damage_elsewhere_is_refused_unless_it_touches_nothing_that_is_used() {
    let (engine, folder) = (quick(), Folder::new("elsewhere"));
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    let mut numbers = Numbers(11);
    let mut found = 0;
    for _ in 0..400 {
        let mut damaged = whole.clone();
        let at = numbers.below(whole.len());
        damaged[at] ^= 1 << numbers.below(8);
        let path = folder.file("damaged.aot", &damaged);
        match Module::from_file(&engine, &path) {
            Ok(module) => {
                assert_eq!(sum(&engine, &module), 42, "damage at {at}");
                // Only `verify`, which compiles again, compares the sections for debuggers.
                one_line(&verify(&path, None).expect_err("other bytes"));
            }
            Err(error) => {
                one_line(&error);
                found += 1;
            }
        }
    }
    assert!(found > 0);
}

#[test]
fn files_that_are_cut_short_are_refused() {
    let (engine, folder) = (quick(), Folder::new("short"));
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    let module_ends =
        whole.windows(4).rposition(|four| four == b"\0asm").expect("the module is inside");
    for len in (0..=module_ends).step_by(61) {
        refused(&engine, &folder.file("short.aot", &whole[..len]));
    }
}

#[test]
fn files_of_another_version_or_processor_are_refused_by_name() {
    let (engine, folder) = (quick(), Folder::new("version"));
    let mut other = Module::precompile(&engine, ADD).expect("compiled");
    let at = other[HEADER]
        .windows(9)
        .position(|text| text == b"cranelift")
        .expect("the version is in the header");
    other[HEADER.start + at] = b'C';
    let text = refused(&engine, &folder.file("other.aot", &other));
    assert!(
        text.contains("made by version") && text.contains("compile the module again"),
        "{text}"
    );
}

#[test]
fn files_that_others_may_write_are_refused() {
    let (engine, folder) = (quick(), Folder::new("trust"));
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    for mode in [0o602, 0o620, 0o666, 0o777] {
        let path = folder.file("open.aot", &whole);
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("our file");
        assert!(refused(&engine, &path).contains("chmod go-w"), "{mode:o}");
    }
    refused(&engine, &folder.0);
    refused(&engine, &folder.0.join("missing.aot"));
    let path = folder.file("foreign.aot", &whole);
    match chown(&path, Some(4321), None) {
        Ok(()) => assert!(refused(&engine, &path).contains("belongs to user 4321")),
        Err(error) => println!("SKIPPED: a file of somebody else: {error}"),
    }
}

#[test]
fn a_file_for_reservations_is_refused_where_there_are_none() {
    let folder = Folder::new("options");
    let with = quick();
    let without =
        Engine::new(Config::new().optimize(Optimize::None).reservations(false)).expect("an engine");
    let path = folder.file("with.aot", &Module::precompile(&with, ADD).expect("compiled"));
    assert!(refused(&without, &path).contains("eight gigabytes"));
    let path = folder.file("without.aot", &Module::precompile(&without, ADD).expect("compiled"));
    assert_eq!(sum(&with, &Module::from_file(&with, &path).expect("loaded")), 42);
}

#[test]
fn the_same_module_gives_the_same_file_and_another_does_not_verify() {
    let (engine, folder) = (Engine::default(), Folder::new("verify"));
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    assert_eq!(whole, Module::precompile(&engine, ADD).expect("compiled"));
    let path = folder.file("sum.aot", &whole);
    verify(&path, Some(ADD.as_bytes())).expect("what it compiles to");
    one_line(&verify(&path, Some(b"(module)")).expect_err("another module"));
}

#[test]
fn a_cache_that_cannot_be_used_is_no_reason_to_fail() {
    let (engine, folder) = (quick(), Folder::new("useless"));
    let file = folder.file("file", b"no folder");
    for place in [file.join("below"), file.clone(), PathBuf::from("/proc/self/nothing")] {
        assert_eq!(
            sum(
                &engine,
                &Cache::at(&place, 1 << 20).module(&engine, ADD.as_bytes()).expect("compiled")
            ),
            42
        );
    }
    // A cache with a size limit of zero.
    let empty = folder.0.join("empty");
    assert_eq!(
        sum(&engine, &Cache::at(&empty, 0).module(&engine, ADD.as_bytes()).expect("compiled")),
        42
    );
    assert_eq!(fs::read_dir(&empty).expect("a folder").count(), 0);
}

#[test]
fn a_cache_folder_that_others_may_write_is_not_used() {
    let (engine, folder) = (quick(), Folder::new("shared"));
    let shared = folder.0.join("cache");
    fs::create_dir(&shared).expect("a folder");
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).expect("our folder");
    assert_eq!(
        sum(
            &engine,
            &Cache::at(&shared, 1 << 20).module(&engine, ADD.as_bytes()).expect("compiled")
        ),
        42
    );
    assert_eq!(fs::read_dir(&shared).expect("a folder").count(), 0);
}

#[test]
fn what_lies_below_a_folder_that_others_may_write_is_not_executed() {
    let (engine, folder) = (quick(), Folder::new("above"));
    let above = folder.0.join("above");
    let place = above.join("cache");
    fs::create_dir_all(&place).expect("folders");
    let whole = Module::precompile(&engine, ADD).expect("compiled");
    let file = place.join("add.aot");
    fs::write(&file, &whole).expect("our file");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("our file");
    let allow = |mode| fs::set_permissions(&above, PermissionsExt::from_mode(mode)).expect("ours");
    allow(0o777);
    let why = refused(&engine, &file);
    assert!(why.contains("above: others may write to it: chmod go-w"), "{why}");
    let sum_of_cached = |place: &Path| {
        sum(&engine, &Cache::at(place, 1 << 20).module(&engine, ADD.as_bytes()).expect("compiled"))
    };
    assert_eq!((sum_of_cached(&place), sum_of_cached(&above.join("new"))), (42, 42));
    assert_eq!(fs::read_dir(&place).expect("a folder").count(), 1, "nothing is kept there");
    assert!(!above.join("new").exists());
    // The sticky bit keeps other users from replacing the file, as in /tmp.
    allow(0o1777);
    assert_eq!(sum(&engine, &Module::from_file(&engine, &file).expect("trusted")), 42);
    assert_eq!(sum_of_cached(&place), 42);
    assert_eq!(fs::read_dir(&place).expect("a folder").count(), 2);
}

#[test]
fn what_is_damaged_in_a_cache_is_compiled_again_and_replaced() {
    let (engine, folder) = (quick(), Folder::new("damaged"));
    let place = folder.0.join("cache");
    let cache = Cache::at(&place, 1 << 20);
    cache.module(&engine, ADD.as_bytes()).expect("compiled");
    let kept =
        fs::read_dir(&place).expect("a folder").next().expect("one file").expect("a name").path();
    let whole = fs::read(&kept).expect("its bytes");
    fs::write(&kept, b"nothing of the kind").expect("our file");
    assert_eq!(sum(&engine, &cache.module(&engine, ADD.as_bytes()).expect("compiled")), 42);
    assert_eq!(fs::read(&kept).expect("its bytes"), whole);
    // A link to a forbidden target is not followed, either.
    fs::remove_file(&kept).expect("our file");
    symlink("/etc/passwd", &kept).expect("a link");
    assert_eq!(sum(&engine, &cache.module(&engine, ADD.as_bytes()).expect("compiled")), 42);
    assert!(fs::symlink_metadata(&kept).expect("a file").is_file());
}

#[test]
fn a_cache_keeps_to_its_limit_and_forgets_what_was_not_used() {
    let (engine, folder) = (quick(), Folder::new("limit"));
    let place = folder.0.join("cache");
    let size = Module::precompile(&engine, ADD).expect("compiled").len() as u64;
    let cache = Cache::at(&place, 4 * size);
    for i in 0..12 {
        let text = ADD.replace("abc", &format!("{i:03}"));
        assert_eq!(sum(&engine, &cache.module(&engine, text.as_bytes()).expect("compiled")), 42);
    }
    let held: u64 = fs::read_dir(&place)
        .expect("a folder")
        .map(|entry| entry.expect("a name").metadata().expect("a file").len())
        .sum();
    assert!(held > 0 && held <= 4 * size, "{held} of {}", 4 * size);
}

#[test]
fn many_at_once_share_a_cache() {
    let (engine, folder) = (quick(), Folder::new("crowd"));
    let place = folder.0.join("cache");
    std::thread::scope(|scope| {
        for i in 0..16 {
            let (engine, place) = (&engine, &place);
            scope.spawn(move || {
                let text = ADD.replace("abc", &format!("{:03}", i % 3));
                assert_eq!(
                    sum(
                        engine,
                        &Cache::at(place, 1 << 20)
                            .module(engine, text.as_bytes())
                            .expect("compiled")
                    ),
                    42
                );
            });
        }
    });
    assert_eq!(fs::read_dir(&place).expect("a folder").count(), 3);
}
