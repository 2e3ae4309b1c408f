//! The files of profiles: existing files, and full file systems.

mod support;

use std::ffi::CString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::*;

/// A program, and a folder to write to.
fn stage() -> Option<(PathBuf, PathBuf)> {
    if !has("gcc") {
        return None;
    }
    let to = folder("outputs");
    Some((compile("calls.c", &to, &["-O1", "-finstrument-functions"]), folder("outputs-to")))
}

#[allow(unsafe_code)]
fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: (1) a name that lives across the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Checks that the program has ended normally, and that one line gives the reason why there is no
/// profile.
fn complains(output: &Output, what: &str) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(line.contains("cannot write") && line.lines().count() == 1, "{what}: {line}");
}

#[test]
fn a_pipe_or_a_link_that_lies_by_chance_where_the_profile_goes_is_left_alone() {
    let Some((program, to)) = stage() else { return };
    make_fifo(&to.join("p.calls"));
    complains(&run(&mut preloaded(&program, "exact", &to.join("p.%e"))), "a pipe");
    assert!(std::fs::metadata(to.join("p.calls")).unwrap().file_type().is_fifo());
    std::os::unix::fs::symlink("/dev/full", to.join("q.calls")).unwrap();
    complains(&run(&mut preloaded(&program, "exact", &to.join("q.%e"))), "a link to a device");
    assert!(std::fs::symlink_metadata(to.join("q.calls")).unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2);
}

#[test]
fn a_pipe_that_is_named_gets_the_profile_and_one_without_a_reader_is_told() {
    let Some((program, to)) = stage() else { return };
    let pipe = to.join("pipe");
    make_fifo(&pipe);
    complains(&run(&mut preloaded(&program, "exact", &pipe)), "no reader");
    let mut reader =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    let output = run(&mut preloaded(&program, "exact", &pipe));
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(7), &b""[..]));
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let profile: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(calls(&profile, "leaf"), 200_000.0);
}

#[test]
fn a_link_to_standard_output_is_written_through_and_stays() {
    let Some((program, _)) = stage() else { return };
    let output = run(&mut preloaded(&program, "exact", Path::new("/dev/stdout")));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"leaf\""), "{output:?}");
    assert!(std::fs::symlink_metadata("/dev/stdout").is_ok_and(|data| data.is_symlink()));
}

#[test]
fn a_draft_that_an_earlier_process_of_the_same_number_has_left_costs_nothing() {
    let Some((program, to)) = stage() else { return };
    let mut command = preloaded(Path::new("/bin/sh"), "exact", &to.join("p.json"));
    let output = run(command
        .arg("-c")
        .arg("touch .p.json.$$.draft; exec \"$0\"")
        .arg(&program)
        .current_dir(&to));
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(7), &b""[..]));
    assert_eq!(calls(&profile(&to.join("p.json")), "leaf"), 200_000.0);
}

#[test]
fn a_full_disk_is_told_in_a_line_and_no_draft_stays() {
    let Some((program, to)) = stage() else { return };
    // A file system of one page, which the profile does not fit into.
    let script = "mount -t tmpfs -o size=4k none \"$1\" || exit 99; \"$0\"; code=$?; ls -A \"$1\"; exit $code";
    let mut command = clean(Command::new("unshare"));
    command.args(["-m", "/bin/sh", "-c", script]).arg(&program).arg(&to);
    command
        .env("FASTINST_POLICY", "exact")
        .env("FASTINST_FORMAT", "json")
        .env("FASTINST_OUTPUT", to.join("p.json"));
    let output = run(command.env("LD_PRELOAD", library()));
    if output.status.code() != Some(7) {
        println!("SKIPPED: no file system can be mounted here");
        return;
    }
    complains(&output, "a full disk");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "a draft: {output:?}");
}

#[test]
fn a_profile_whose_folder_vanishes_is_kept_elsewhere() {
    let to = folder("outputs-vanishing");
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    let (gone, temporary) = (to.join("gone"), to.join("temporary"));
    std::fs::create_dir_all(&gone).unwrap();
    std::fs::create_dir_all(&temporary).unwrap();
    let script = format!("rm -r {}; exec {}", gone.display(), program.display());
    let mut command = fastinst();
    command.arg("run").arg("-o").arg(gone.join("p.profile")).args(["/bin/sh", "-c", &script]);
    let output = run(command.env("TMPDIR", &temporary));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot write") && said.contains("; the profile is in"), "{said}");
    // The program's own status is not hidden.
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let kept: Vec<PathBuf> =
        std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert!(said.contains(kept.to_str().unwrap()), "{said}");
    let report = run(fastinst().arg("report").arg(kept));
    assert!(report.status.success() && !report.stdout.is_empty(), "{report:?}");
}

#[test]
fn the_program_is_never_replaced_by_its_profile() {
    let to = folder("outputs-program");
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    let before = std::fs::read(&program).unwrap();
    let output = run(fastinst().arg("run").arg("-o").arg(&program).arg(&program));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("name another file") && output.stdout.is_empty(), "{said}");
    assert!(std::fs::read(&program).unwrap() == before);
    let plain = run(&mut clean(Command::new(&program)));
    let observed = run(&mut preloaded(&program, "count", &program));
    assert_eq!((observed.status, &observed.stdout), (plain.status, &plain.stdout));
    let said = String::from_utf8_lossy(&observed.stderr).into_owned();
    assert!(said.lines().count() == 1 && said.contains("name another file"), "{said}");
    assert!(std::fs::read(&program).unwrap() == before);
}
