//! Installing as a new user does it: a prefix, a tarball, a Debian package; and uninstalling.

mod support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::*;

fn script(name: &str) -> Command {
    clean(Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name)))
}

/// The folder of this test's own command; nothing is built.
fn built() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_fastinst")).parent().unwrap()
}

fn install(prefix: &Path) -> Output {
    let mut command = script("install");
    command.args(["--parts", "fastinst", "--built"]).arg(built()).arg("--prefix").arg(prefix);
    run(command.stdin(std::process::Stdio::null()))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command of a prefix profiles with the library of that prefix.
fn assert_works(prefix: &Path) {
    let program = compile("calls.c", &folder("installed"), &["-O1", "-finstrument-functions"]);
    let output = run(clean(Command::new(prefix.join("bin/fastinst"))).arg("run").arg(program));
    assert!(output.status.code() == Some(7) && said(&output).contains("200k"), "{output:?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files
}

/// Every page that is named in one is there.
fn assert_pages_lead_somewhere(pages: &Path) {
    let mut named = vec!["fastinst".to_owned()];
    for at in 0.. {
        let Some(name) = named.get(at) else { break };
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
        let lines = page.lines().filter_map(|line| line.strip_suffix("(1)"));
        named.extend(lines.map(|line| line.replace('\\', "")).collect::<Vec<_>>());
    }
    assert!(named.contains(&"fastinst-ctl-snapshot".to_owned()), "{named:?}");
}

#[test]
fn what_is_installed_works_has_pages_and_goes_without_a_trace() {
    if !has("gcc") {
        return;
    }
    let to = folder("install");
    let prefix = to.join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    std::fs::write(prefix.join("mine"), "").unwrap();
    for _ in 0..2 {
        let output = install(&prefix);
        assert!(output.status.success() && said(&output).contains("into PATH"), "{output:?}");
    }
    assert_works(&prefix);
    assert_pages_lead_somewhere(&prefix.join("share/man/man1"));
    for name in [
        "share/man/man1/fastinst.1",
        "share/bash-completion/completions/fastinst",
        "share/zsh/site-functions/_fastinst",
        "share/fish/vendor_completions.d/fastinst.fish",
        "share/doc/fastinst/docs/other-tools.md",
        "share/doc/fastinst/docs/figures/table.svg",
    ] {
        assert!(prefix.join(name).metadata().is_ok_and(|data| data.len() > 100), "{name}");
    }
    // A C program is linked with the options of the pkg-config file.
    let told = std::fs::read_to_string(prefix.join("lib/pkgconfig/fastinst.pc")).unwrap();
    let value = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let folder = prefix.join("lib/pkgconfig/../..");
        let folder = folder.to_str().unwrap();
        let line = line
            .replace("${libdir}", "${prefix}/lib")
            .replace("${includedir}", "${prefix}/include");
        line.replace("${prefix}", folder).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let source = to.join("use.c");
    std::fs::write(
        &source,
        "#include <fastinst.h>\nint main(void) { return fastinst_start() ? 0 : 1; }\n",
    )
    .unwrap();
    let program = to.join("use");
    let output = run(Command::new("gcc")
        .args(value("Cflags:"))
        .arg(&source)
        .args(value("Libs:"))
        .arg("-o")
        .arg(&program));
    assert!(output.status.success(), "{output:?}");
    assert!(
        run(clean(Command::new(&program)).env("LD_LIBRARY_PATH", prefix.join("lib")))
            .status
            .success()
    );
    let output = run(script("install").arg("--uninstall").arg("--prefix").arg(&prefix));
    assert!(output.status.success() && said(&output).contains("removed"), "{output:?}");
    assert_eq!(files(&to.join("prefix")), [prefix.join("mine")]);
    assert_eq!(std::fs::read_dir(&prefix).unwrap().count(), 1, "empty folders are left");
}

#[test]
fn a_tarball_and_a_debian_package_work_where_they_are_unpacked() {
    if !has("gcc") || !has("dpkg-deb") {
        return;
    }
    let to = folder("package");
    let output =
        run(script("package").args(["--parts", "fastinst", "--built"]).arg(built()).arg(&to));
    assert!(output.status.success(), "{output:?}");
    let made = String::from_utf8(output.stdout).unwrap();
    let mut made = made.lines();
    let (tarball, package) = (made.next().unwrap(), made.next().unwrap());
    let prefix = to.join("from-tarball");
    std::fs::create_dir(&prefix).unwrap();
    let unpacked =
        run(Command::new("tar").args(["--strip-components=1", "-xzf", tarball, "-C"]).arg(&prefix));
    assert!(unpacked.status.success(), "{unpacked:?}");
    assert_works(&prefix);
    let root = to.join("from-package");
    let unpacked = run(Command::new("dpkg-deb").args(["-x", package]).arg(&root));
    assert!(unpacked.status.success(), "{unpacked:?}");
    assert_works(&root.join("usr"));
    let told = run(Command::new("dpkg-deb").args(["-f", package, "Version", "Architecture"]));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("Architecture: amd64"), "{told}");
}

#[test]
fn what_cannot_be_installed_is_told_in_a_line_and_leaves_nothing() {
    let to = folder("refusals");
    let refused = |arguments: &[&OsStr], code: i32, why: &str| {
        let output = run(script("install").args(arguments));
        let line = said(&output);
        assert_eq!((output.status.code(), line.lines().count()), (Some(code), 1), "{output:?}");
        assert!(line.contains(why), "{line}");
    };
    let [prefix, built] = [to.as_os_str(), built().as_os_str()];
    refused(&["--frob".as_ref()], 2, "unknown option --frob");
    refused(&["--prefix".as_ref()], 2, "needs a value");
    refused(&["--parts".as_ref(), "all".as_ref()], 2, "there is no part all");
    refused(&["--uninstall".as_ref(), "--prefix".as_ref(), prefix], 1, "nothing is installed");
    let nowhere = ["--built".as_ref(), "/nowhere".as_ref(), "--prefix".as_ref(), prefix];
    refused(&nowhere, 1, "is not there");
    let fresh = to.join("fresh");
    refused(&[&nowhere[..3], &[fresh.as_os_str()]].concat(), 1, "is not there");
    let from =
        ["--built".as_ref(), built, "--parts".as_ref(), "fastinst".as_ref(), "--prefix".as_ref()];
    refused(&[&from[..], &["/proc/1/none".as_ref()]].concat(), 1, "cannot write to");
    // The loader could not read such a name.
    refused(
        &[&from[..], &[to.join("a b").as_os_str()]].concat(),
        1,
        "path contains a space or colon",
    );
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
    // A file system that is too small.
    let script = format!(
        "mount -t tmpfs -o size=2m none \"$1\" || exit 99; \"$0\" --built {} --parts fastinst --prefix \"$1\"; code=$?; ls -A \"$1\"; exit $code",
        self::built().display()
    );
    let mut command = clean(Command::new("unshare"));
    command.args(["-m", "sh", "-c", &script]).arg(self::script("install").get_program()).arg(&to);
    let output = run(&mut command);
    if output.status.code() != Some(1) {
        println!("SKIPPED: no file system can be mounted here");
        return;
    }
    assert!(
        said(&output).lines().count() == 1 && said(&output).contains("cannot write to"),
        "{output:?}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_library_whose_path_the_loader_cannot_read_is_named() {
    let to = folder("with a space");
    std::fs::create_dir_all(to.join("bin")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_fastinst"), to.join("bin/fastinst")).unwrap();
    let without = run(clean(Command::new(to.join("bin/fastinst"))).args(["run", "/bin/true"]));
    assert!(said(&without).contains("scripts/install"), "{without:?}");
    std::fs::copy(library(), to.join("bin/libfastinst.so")).unwrap();
    let output = run(clean(Command::new(to.join("bin/fastinst"))).args(["run", "/bin/true"]));
    assert_eq!((output.status.code(), said(&output).lines().count()), (Some(1), 1), "{output:?}");
    assert!(said(&output).contains("its path contains a space or colon"), "{output:?}");
}
