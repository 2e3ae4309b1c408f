//! Where processes have their sockets, and how they are reached.
//!
//! A process has its socket in its user's folder, by its own environment and in its own namespaces.
//! So the socket is searched there, through /proc/PID. The credentials of the listening process
//! prove that it is the intended one.

use crate::{Answer, Request};
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wordpatch::os::sockets::{self, peer};
use wordpatch::os::trust;

/// Which kind of program listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tower {
    /// A native program under the profiler.
    Native,
    /// A program of the WebAssembly engine.
    Wasm,
}

impl Tower {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Native, Self::Wasm];

    fn prefix(self) -> &'static str {
        match self {
            Self::Native => "fastinst-",
            Self::Wasm => "wasm-aot-",
        }
    }

    /// What the socket of a process is called.
    pub fn socket(self, process: i32) -> String {
        format!("{}{process}{SUFFIX}", self.prefix())
    }
}

/// How the message ends where a process has no socket.
pub const NO_SOCKET: &str = "has no control socket: it is not being profiled";

const SUFFIX: &str = ".sock";
/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval of the checks whether it was stopped meanwhile: then it never answers.
const LOOK: Duration = Duration::from_millis(200);

/// A program that answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub process: i32,
    /// Its kind.
    pub tower: Tower,
    path: PathBuf,
    /// Its number as it knows it itself.
    own: i32,
}

impl Program {
    /// The program of that number; one of the kind that is named first, if it is both. Why there is
    /// none: one line.
    pub fn find(process: i32, towers: [Tower; 2]) -> Result<Self, String> {
        let Some(status) = Status::of(process) else {
            return Err(format!("there is no process {process}"));
        };
        let own = status.own.unwrap_or(process);
        for folder in folders(process, status.user) {
            for tower in towers {
                let path = folder.join(tower.socket(own));
                if fs::symlink_metadata(&path).is_ok() {
                    return Ok(Self { process, tower, path, own });
                }
            }
        }
        let user = trust::user();
        if user != 0 && status.user != user {
            return Err(format!(
                "process {process} belongs to {}: run this command as that user or as root",
                name_of(status.user)
            ));
        }
        Err(format!("process {process} {NO_SOCKET}"))
    }

    /// Its own report of what it runs.
    pub fn runs(&self) -> Option<String> {
        let Answer::Done(status) = self.ask(&Request::Status.line()).ok()? else { return None };
        let status = String::from_utf8_lossy(&status);
        let name = status.lines().find_map(|line| line.strip_prefix("program"))?;
        Some(name.trim().to_owned())
    }

    /// Whether its socket is there, as far as a file says.
    pub fn listens(&self) -> bool {
        Status::of(self.process).is_some() && fs::symlink_metadata(&self.path).is_ok()
    }

    /// Sends a request, and waits for the answer.
    pub fn ask(&self, line: &str) -> Result<Answer, String> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => match Status::of(self.process) {
                Some(_) => format!(
                    "process {} no longer listens: it executed another program, was stopped, or installed a system-call filter",
                    self.process
                ),
                None => format!("process {} has ended", self.process),
            },
            ErrorKind::WouldBlock | ErrorKind::TimedOut => match Status::of(self.process) {
                Some(status) if status.is_stopped => {
                    format!("process {0} is stopped: continue it (kill -CONT {0})", self.process)
                }
                _ => format!(
                    "process {} has not answered for {} s",
                    self.process,
                    PATIENCE.as_secs()
                ),
            },
            _ => format!("process {}: {}: {error}", self.process, self.path.display()),
        };
        if Status::of(self.process).is_some_and(|status| status.is_stopped) {
            return Err(failed(ErrorKind::TimedOut.into()));
        }
        let mut stream = self.connect().map_err(failed)?;
        let answer = stream
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.await_answer(&mut stream))
            .map_err(failed)?;
        if answer.is_empty() {
            return Err(failed(ErrorKind::ConnectionReset.into()));
        }
        Answer::read(&answer)
            .ok_or_else(|| format!("process {} gave an unknown answer", self.process))
    }

    /// All that comes, to the end.
    fn await_answer(&self, stream: &mut UnixStream) -> io::Result<Vec<u8>> {
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        let mut heard = Instant::now();
        stream.set_read_timeout(Some(LOOK))?;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(answer),
                Ok(len) => {
                    answer.extend_from_slice(&buffer[..len]);
                    heard = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let is_stopped =
                        Status::of(self.process).is_some_and(|status| status.is_stopped);
                    if is_stopped || heard.elapsed() > PATIENCE {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = sockets::connect_within(&self.path, PATIENCE)?;
        let peer = peer(&stream)?;
        let owner = Status::of(self.process).map(|status| status.user);
        let is_trusted = [Some(trust::user()), Some(0), owner].contains(&Some(peer.user));
        // One of another namespace has no number here.
        let is_meant = [self.process, self.own, 0].contains(&peer.process);
        if is_trusted && is_meant {
            return Ok(stream);
        }
        let why = format!("process {} of user {} listens there", peer.process, peer.user);
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }
}

/// The processes of this user that answer requests, of both kinds, by their process IDs. Sockets of
/// ended processes are removed.
pub fn programs() -> Vec<Program> {
    let Ok(folder) = sockets::folder() else { return Vec::new() };
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let program = |name: &str| {
        let tower = Tower::ALL.into_iter().find(|tower| name.starts_with(tower.prefix()))?;
        let number = name.strip_prefix(tower.prefix())?.strip_suffix(SUFFIX)?;
        Some((tower, number.parse::<i32>().ok()?))
    };
    let mut all: Vec<Program> = entries
        .flatten()
        .filter_map(|entry| {
            let (tower, process) = program(&entry.file_name().to_string_lossy())?;
            Some(Program { process, tower, path: entry.path(), own: process })
        })
        .collect();
    all.retain(|program| {
        let lives = Path::new(&format!("/proc/{}", program.process)).exists();
        if !lives {
            let _ = fs::remove_file(&program.path);
        }
        lives
    });
    all.sort_by_key(|program| program.process);
    all
}

/// Programs of some kinds that answer, and what they run.
#[derive(Clone, Debug)]
pub struct Answering(Vec<(Program, String)>);

/// Why no program is the one that is meant where none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOne {
    /// There is none.
    None,
    /// There are several: one line says which.
    Several(String),
}

impl Answering {
    /// Queries all programs of the user.
    pub fn of(towers: &[Tower]) -> Self {
        let all = programs().into_iter().filter(|program| towers.contains(&program.tower));
        Self(all.filter_map(|program| Some((program.clone(), program.runs()?))).collect())
    }

    /// A line for each; `None` if there is none.
    pub fn lines(&self) -> Option<String> {
        let line =
            |(program, runs): &(Program, String)| format!("{:>8}  {runs}\n", program.process);
        (!self.0.is_empty()).then(|| self.0.iter().map(line).collect())
    }

    /// The only one.
    pub fn only(mut self) -> Result<Program, NotOne> {
        let several = match &self.0[..] {
            [] => return Err(NotOne::None),
            [_] => return Ok(self.0.remove(0).0),
            several => several.iter(),
        };
        let several: Vec<String> =
            several.map(|(program, runs)| format!("{} ({runs})", program.process)).collect();
        let line = format!("several programs are running; name one: {}", several.join(", "));
        Err(NotOne::Several(line))
    }
}

/// Removes the sockets of ended processes.
pub fn sweep() {
    drop(programs());
}

/// The kernel's status of a process.
struct Status {
    user: u32,
    /// Its number in its own namespace.
    own: Option<i32>,
    /// By a signal or a debugger: none of its threads answers.
    is_stopped: bool,
}

impl Status {
    fn of(process: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.strip_prefix(':')?.split_whitespace())
        };
        // A process that has ended and was not waited for has no memory.
        field("VmSize")?;
        // The second is the one by which rights are judged.
        let user = field("Uid")?.nth(1)?.parse().ok()?;
        let own = field("NSpid").and_then(|numbers| numbers.last()?.parse().ok());
        let is_stopped = matches!(field("State")?.next()?, "T" | "t");
        Some(Self { user, own, is_stopped })
    }
}

/// The folders in which a process may have its socket: its own first.
fn folders(process: i32, user: u32) -> Vec<PathBuf> {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    let is_ours = fs::read_link(&root).is_ok_and(|root| root == Path::new("/"))
        && namespace(&process.to_string()) == namespace("self");
    let seen = |path: &Path| match is_ours {
        true => path.to_owned(),
        false => root.join(path.strip_prefix("/").unwrap_or(path)),
    };
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let runtime = environment
        .split(|&byte| byte == 0)
        .find_map(|pair| pair.strip_prefix(b"XDG_RUNTIME_DIR="))
        .map(|value| PathBuf::from(std::ffi::OsStr::from_bytes(value)))
        .filter(|path| path.is_absolute());
    let mut folders: Vec<PathBuf> = [
        sockets::folder_in(runtime.as_deref(), user),
        sockets::folder_in(None, user),
        // A program that was started as root may have become another user.
        sockets::folder_in(None, 0),
    ]
    .iter()
    .map(|folder| seen(folder))
    .chain([sockets::name_of_folder()])
    .collect();
    let mut known = Vec::new();
    folders.retain(|folder| {
        !known.contains(folder) && {
            known.push(folder.clone());
            true
        }
    });
    folders
}

/// The namespace of mounts.
fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The name of a user; the number if it has no name.
pub fn name_of(user: u32) -> String {
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = known.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines
        .find(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user))
        .map_or_else(|| format!("user {user}"), |fields| fields[0].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordpatch::os::sockets::Listener;

    fn this() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn the_only_program_is_meant_where_none_is_named() {
        let one = |process| {
            let program =
                Program { process, tower: Tower::Wasm, path: PathBuf::new(), own: process };
            (program, format!("{process}.wasm"))
        };
        assert_eq!(Answering(vec![one(7)]).only().map(|program| program.process), Ok(7));
        assert_eq!(Answering(Vec::new()).only(), Err(NotOne::None));
        let both = Answering(vec![one(7), one(8)]);
        assert_eq!(both.lines().unwrap(), "       7  7.wasm\n       8  8.wasm\n");
        let why = "several programs are running; name one: 7 (7.wasm), 8 (8.wasm)";
        assert_eq!(both.only(), Err(NotOne::Several(why.to_owned())));
    }

    #[test]
    fn a_process_is_found_asked_and_listed_and_one_without_a_socket_is_named() {
        let listener = Listener::bind(&Tower::Wasm.socket(this())).unwrap();
        let program = Program::find(this(), Tower::ALL).unwrap();
        assert_eq!((program.process, program.tower), (this(), Tower::Wasm));
        assert!(programs().contains(&program));
        let served = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap();
            let mut line = [0; 7];
            stream.read_exact(&mut line).unwrap();
            stream.write_all(&Answer::Done(line.to_vec()).bytes()).unwrap();
            drop(stream);
            // A second one gets no answer.
            drop(listener.accept().unwrap());
            drop(listener);
        });
        assert_eq!(program.ask("status"), Ok(Answer::Done(b"status\n".to_vec())));
        assert!(program.ask("status").unwrap_err().contains("no longer listens"));
        served.join().unwrap();
        assert!(program.ask("status").unwrap_err().contains("no longer listens"));
        let none = Program::find(this(), Tower::ALL).unwrap_err();
        assert!(none.contains("has no control socket"), "{none}");
    }

    #[test]
    fn a_socket_of_another_process_is_not_asked() {
        // The first process listens nowhere; what lies under its name is ours.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let number = other.id() as i32;
        let listener = Listener::bind(&Tower::Native.socket(number)).unwrap();
        let program = Program::find(number, Tower::ALL).unwrap();
        let why = program.ask("status").unwrap_err();
        assert!(why.contains(&format!("process {} of user", this())), "{why}");
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(Program::find(number, Tower::ALL).unwrap_err().contains("there is no process"));
        // What it has left is removed; another process may have done so already.
        programs();
        assert!(!listener.path().exists());
    }
}
