//! Where the profile of this process is written.

use super::current;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wordpatch::os;

/// Where the profile of this process is written.
pub(in crate::runtime) fn output_path() -> PathBuf {
    let template = current().config.output.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(template.len() + 16);
    let mut bytes = template.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, byte == b'%') {
            (_, true) => match bytes.next() {
                Some(b'p') => path.extend_from_slice(os::threads::process().to_string().as_bytes()),
                Some(b'e') => path.extend_from_slice(program_name().as_bytes()),
                Some(other) => path.push(other),
                None => path.push(b'%'),
            },
            (byte, false) => path.push(byte),
        }
    }
    match IMAGE.load(Relaxed) {
        0 => {}
        image => path.extend_from_slice(format!(".{image}").as_bytes()),
    }
    current().directory.join(OsStr::from_bytes(&path))
}

/// Where it is written if the `fastinst run` that was going to read it was killed.
pub(in crate::runtime) fn orphans_path() -> PathBuf {
    current().directory.join(format!("fastinst.{}", os::threads::process()))
}

/// How often this process has become another program, as far as profiles show.
pub(super) static IMAGE: AtomicUsize = AtomicUsize::new(0);

/// If a profile of this process exists already, it is of the program that it was before it became
/// this one by `exec`. That profile is kept.
pub(super) fn keep_earlier_images() {
    const MOST: usize = 10_000;
    if !current().config.output.as_os_str().as_bytes().windows(2).any(|pair| pair == b"%p") {
        return;
    }
    // Files have the time of the latest tick of the kernel's clock.
    const TICK: Duration = Duration::from_millis(20);
    let Some(age) = os::threads::process_age() else { return };
    let is_ours = |path: PathBuf| {
        let written = std::fs::metadata(path).and_then(|data| data.modified()).ok();
        written.and_then(|at| at.elapsed().ok()).is_some_and(|elapsed| elapsed <= age + TICK)
    };
    while is_ours(output_path()) && IMAGE.load(Relaxed) < MOST {
        IMAGE.fetch_add(1, Relaxed);
    }
}

fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name()
        .map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().replace('/', "_"))
}
