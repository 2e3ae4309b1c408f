//! The hostility run: programs in difficult environments, each without and with the preload
//! library.
//!
//! The externally visible behaviour has to be the same: output, error output, exit status. And
//! there is a profile, or one line with the reason why there is none. The table is [`situations`],
//! with [`open`] for known failures; a row is a shell line and a small program in `c/hostility/` or
//! among `fastinst`'s tests.

mod situation;
mod table;

pub use situation::{Expected, Need, Situation};
pub use table::{open, situations};

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The policies of each situation: the default, and the one that times every call.
pub const POLICIES: [&str; 2] = ["adaptive", "exact"];

/// No situation takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The beginning of every line that the preload library prints.
const OURS: &str = "fastinst: ";

/// The result of a situation.
#[derive(Debug)]
pub enum Verdict {
    /// It cannot be tested here; the text is the missing requirement.
    Skipped(String),
    /// The results under each policy.
    Met(Vec<Meeting>),
}

/// A run under the library.
#[derive(Debug)]
pub struct Meeting {
    /// The policy.
    pub policy: &'static str,
    /// The number of profiles.
    pub profiles: usize,
    /// The messages of the library.
    pub reasons: Vec<String>,
    /// The fault, if there is one.
    pub harm: Option<String>,
}

/// The environment of situations: a folder for programs, and the library.
#[derive(Debug)]
pub struct Arena {
    folder: PathBuf,
    library: PathBuf,
    built: Mutex<BTreeMap<String, Result<PathBuf, String>>>,
}

impl Arena {
    /// In a new folder below `parent`, with the library that was built beside the running program.
    pub fn new(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("hostility-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        Ok(Self { folder, library: library()?, built: Mutex::default() })
    }

    /// Runs a situation: once plain, once with each policy.
    pub fn meet(&self, situation: &Situation) -> io::Result<Verdict> {
        if let Some(missing) = situation.missing() {
            return Ok(Verdict::Skipped(missing));
        }
        let program = self.program(situation).map_err(io::Error::other)?;
        let plain = self.run(situation, &program, None)?;
        if let Some(why) = &plain.harm {
            return Ok(Verdict::Skipped(format!("without us it {why}")));
        }
        if let Some(why) = refused(situation, &plain.output) {
            return Ok(Verdict::Skipped(why));
        }
        let meet = |policy| {
            let run = self.run(situation, &program, Some(policy))?;
            Ok(judge(situation, policy, &plain, run))
        };
        Ok(Verdict::Met(POLICIES.into_iter().map(meet).collect::<io::Result<_>>()?))
    }

    /// The compiled program of a situation, made once.
    fn program(&self, situation: &Situation) -> Result<PathBuf, String> {
        let key = format!("{} {}", situation.source, situation.flags.join(" "));
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let number = built.len();
        built
            .entry(key)
            .or_insert_with(|| situation.compile(&self.folder.join(format!("program{number}"))))
            .clone()
    }

    fn run(
        &self,
        situation: &Situation,
        program: &Path,
        policy: Option<&'static str>,
    ) -> io::Result<Run> {
        // Shell lines use the name without quotes.
        let name = situation.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let place = self.folder.join(format!("{name}.{}", policy.unwrap_or("plain")));
        let _ = fs::remove_dir_all(&place);
        let written = place.join("out");
        fs::create_dir_all(&written)?;
        // Some programs remove their own file, and find helpers beside it.
        let copy = place.join("program");
        fs::copy(program, &copy)?;
        let mut command = Command::new("/bin/sh");
        command
            .current_dir(&place)
            .arg("-c")
            .arg(situation.line)
            .arg("./program")
            .env_remove("LD_LIBRARY_PATH");
        for (key, _) in std::env::vars_os().filter(|(key, _)| is_ours(&key.to_string_lossy())) {
            command.env_remove(key);
        }
        for (name, source, flags) in situation.helpers {
            let helper = Situation { source, flags, ..*situation };
            let made = self.program(&helper).map_err(io::Error::other)?;
            fs::copy(made, place.join(name))?;
        }
        if let Some(policy) = policy {
            command
                .env("LD_PRELOAD", &self.library)
                .env("FASTINST_POLICY", policy)
                .env("FASTINST_FORMAT", "csv");
            command.env("FASTINST_OUTPUT", written.join("p.%p"));
        }
        let (output, late) = finished(&mut command)?;
        let profiles = fs::read_dir(&written)
            .map_or(Vec::new(), |files| files.flatten().map(|file| file.path()).collect());
        let texts = profiles.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let _ = fs::remove_dir_all(&place);
        Ok(Run { output, profiles: texts, harm: late.then(|| "does not end".to_owned()) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_ours(key: &str) -> bool {
    key.starts_with("FASTINST_") || key.starts_with("WORDPATCH_") || key == "LD_PRELOAD"
}

/// The message of a tool that may not work here; the program itself prints no error.
fn refused(situation: &Situation, plain: &Output) -> Option<String> {
    let needs_more = !matches!(situation.need, Need::Nothing);
    let said = String::from_utf8_lossy(&plain.stderr);
    let complaint = said.lines().next().filter(|_| needs_more && !plain.status.success())?;
    Some(complaint.to_owned())
}

/// The observations of one run.
#[derive(Debug)]
struct Run {
    output: Output,
    profiles: Vec<String>,
    harm: Option<String>,
}

/// The library that cargo built as a dependency of the running program.
fn library() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let dependencies =
        if beside.ends_with("deps") { beside.to_owned() } else { beside.join("deps") };
    let library = dependencies.join("libfastinst.so");
    match library.is_file() {
        true => Ok(library),
        false => Err(io::Error::other(format!(
            "{} is not there: it is built with this program",
            library.display()
        ))),
    }
}

/// Compares a run with the plain one.
fn judge(situation: &Situation, policy: &'static str, plain: &Run, run: Run) -> Meeting {
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    let (ours, others): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with(OURS));
    let expected = String::from_utf8_lossy(&plain.output.stderr).into_owned();
    let whole = run.profiles.iter().filter(|text| !text.is_empty()).count();
    let counted = !situation.works() || run.profiles.iter().any(|text| text.contains("leaf"));
    let harm = match () {
        () if run.harm.is_some() => run.harm,
        () if run.output.status != plain.output.status => {
            Some(format!("ends by {}, plain by {}", ending(&run.output), ending(&plain.output)))
        }
        () if run.output.stdout != plain.output.stdout => {
            Some(differ("prints", &run.output.stdout, &plain.output.stdout))
        }
        () if others != expected.lines().collect::<Vec<_>>() => {
            Some(differ("complains", others.join("\n").as_bytes(), expected.as_bytes()))
        }
        () if whole < run.profiles.len() => Some("leaves an empty profile".to_owned()),
        () => situation.expected.harm(whole, counted, ours.len()),
    };
    Meeting {
        policy,
        profiles: whole,
        reasons: ours.into_iter().map(str::to_owned).collect(),
        harm,
    }
}

fn ending(output: &Output) -> String {
    match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

fn differ(what: &str, found: &[u8], expected: &[u8]) -> String {
    let start = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    format!("{what} {:?}, plain {:?}", start(found), start(expected))
}

/// Waits for the end of a command and of what it prints; ends its whole group if it takes too long,
/// and returns whether it did.
fn finished(command: &mut Command) -> io::Result<(Output, bool)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let end = Instant::now() + PATIENCE;
    let mut late = false;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > end => {
                late = true;
                end_group(&child)?;
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if !late {
        // A grandchild may hold the pipes; if it never closes them, it counts as hung.
        while !(stdout.is_finished() && stderr.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        late = !(stdout.is_finished() && stderr.is_finished());
        if late {
            end_group(&child)?;
        }
    }
    let bytes = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok((Output { status, stdout: bytes(stdout), stderr: bytes(stderr) }, late))
}

/// Ends the child's process group, by the shell's own kill.
fn end_group(child: &Child) -> io::Result<()> {
    let line = format!("kill -9 -{}", child.id());
    Command::new("/bin/sh").args(["-c", &line]).stderr(Stdio::null()).status().map(drop)
}

fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After a read error, the bytes read so far are used.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}
