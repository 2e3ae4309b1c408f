//! What a running program is asked from outside: a line comes in through a private socket, an answer goes out.
//!
//! ```text
//!     attach hotness,top=5    →    ok\n…            the answer's text, to the end
//!     attach hottness         →    error\nno monitor is called hottness …
//! ```
//!
//! Whoever sends rubbish, or nothing, is answered or left after some seconds; the program does not notice.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasm_aot::Module;
use wasm_aot::monitor::Live;
use wasm_aot::observer::Switches;
use wordpatch::os::sockets::{self, Listener};

/// The longest line that is read.
const LINE: u64 = 4096;
/// How long somebody is waited for who has connected.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket's name of a process.
fn name(pid: u32) -> String {
    format!("wasm-aot-{pid}.sock")
}

/// A program that can be asked.
#[derive(Debug)]
pub(crate) struct Control {
    program: PathBuf,
    module: Module,
    live: Live,
    /// What switches monitors that are modules, by their names.
    switches: Vec<(String, Switches)>,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether what is attached rests.
    off: bool,
    /// How long it is on, and how long it is off, in turn; and which turn-taking this is, so that the one before ends.
    burst: Option<(Duration, Duration)>,
    bursts: u64,
}

/// The socket, which is removed when the program is over.
#[derive(Debug)]
pub(crate) struct Open(Option<PathBuf>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Control {
    /// Has a program answer. If that is not possible it runs all the same.
    pub(crate) fn open(program: PathBuf, module: Module, switches: Vec<(String, Switches)>) -> Open {
        let Ok(listener) = Listener::bind(&name(std::process::id())) else { return Open(None) };
        let path = listener.path().to_owned();
        let live = Live::new(module.clone());
        let control = Arc::new(Self { program, module, live, switches, begun: Instant::now(), state: Mutex::default() });
        let serve = move || {
            while let Ok(stream) = listener.accept() {
                let _ = control.answer(&stream);
            }
        };
        let started = std::thread::Builder::new().name("control".into()).stack_size(1 << 20).spawn(serve);
        Open(started.is_ok().then_some(path))
    }

    fn answer(self: &Arc<Self>, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(LINE)).read_line(&mut line)?;
        let answer = match self.obey(line.trim()) {
            Ok(text) => format!("ok\n{text}"),
            Err(why) => format!("error\n{why}"),
        };
        (&mut &*stream).write_all(answer.as_bytes())
    }

    fn obey(self: &Arc<Self>, line: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
        match (verb, &rest[..]) {
            ("status", []) => Ok(self.status()),
            ("attach", [monitor]) => self.attach(monitor),
            ("detach", [monitor]) => self.detach(monitor),
            ("on", [monitor]) => self.switch_module(monitor, true),
            ("off", [monitor]) => self.switch_module(monitor, false),
            ("on", []) => self.switch(true),
            ("off", []) => self.switch(false),
            ("burst", ["none"]) => self.no_burst(),
            ("burst", [on, off]) => self.burst(on, off),
            ("report", [format]) => self.report(None, format),
            ("report", [format, monitor]) => self.report(Some(monitor), format),
            ("sites", []) => Ok(self.sites()),
            _ => Err("expected status, attach, detach, on, off, burst, report or sites".into()),
        }
    }

    fn status(&self) -> String {
        let state = self.state.lock();
        let mut text = format!("program   {}\nrunning   {:.1?}\n", self.program.display(), self.begun.elapsed());
        let on = match (self.live.is_on(), state.burst) {
            (true, Some(_)) => "on, in bursts",
            (false, Some(_)) => "off, in bursts",
            (true, None) => "on",
            (false, None) => "off",
        };
        let _ = writeln!(text, "observing {on}");
        for (name, since) in self.live.attached() {
            let _ = writeln!(text, "attached  {name} for {:.1?}", since.elapsed());
        }
        text
    }

    /// Switches a monitor that is a module.
    fn switch_module(&self, monitor: &str, on: bool) -> Result<String, String> {
        let Some((name, switches)) = self.switches.iter().find(|(name, _)| name == monitor) else {
            let known: Vec<&str> = self.switches.iter().map(|(name, _)| name.as_str()).collect();
            return Err(match known[..] {
                [] => "no monitor of the program can be switched: run it with --monitor FILE,toggle".into(),
                _ => format!("{monitor}: no such monitor; there are {}", known.join(", ")),
            });
        };
        switches.switch_all(on);
        let now = switches.on().unwrap_or_default();
        Ok(format!("{name} is {}: {now} probes are called\n", if on { "on" } else { "off" }))
    }

    fn sites(&self) -> String {
        let (all, loops) = (self.module.sites(), self.module.loop_sites());
        let state = if self.live.is_on() { "on" } else { "off" };
        format!("functions {} sites, {state}\nloops {loops} sites, {state}\n", all - loops)
    }

    fn attach(&self, monitor: &str) -> Result<String, String> {
        let name = self.live.attach(monitor).map_err(|error| error.to_string())?;
        let when = "functions with their next call, and loops with their next turn";
        Ok(format!("{name} is attached: {when}\n"))
    }

    fn detach(&self, monitor: &str) -> Result<String, String> {
        let failed = |error: wasm_aot::Error| error.to_string();
        match monitor {
            "all" => self.live.detach_all().map_err(failed)?,
            _ if self.live.detach(monitor).map_err(failed)? => {}
            _ => return Err(format!("{monitor} is not attached")),
        }
        if self.live.attached().is_empty() {
            let mut state = self.state.lock();
            (state.burst, state.bursts) = (None, state.bursts + 1);
        }
        Ok(String::new())
    }

    fn switch(&self, on: bool) -> Result<String, String> {
        if self.live.attached().is_empty() {
            return Err("nothing is attached".into());
        }
        self.state.lock().off = !on;
        self.live.switch(on).map(|()| String::new()).map_err(|error| error.to_string())
    }

    fn no_burst(&self) -> Result<String, String> {
        let mut state = self.state.lock();
        (state.burst, state.bursts) = (None, state.bursts + 1);
        self.live.switch(!state.off).map(|()| String::new()).map_err(|error| error.to_string())
    }

    /// What is attached observes and rests in turn until somebody says otherwise.
    fn burst(self: &Arc<Self>, on: &str, off: &str) -> Result<String, String> {
        let time = |text: &str| humantime::parse_duration(text).map_err(|error| format!("{text}: {error}, as 10ms or 1s"));
        let (on, off) = (time(on)?, time(off)?);
        if on.is_zero() || off.is_zero() {
            return Err("both times have to be longer than nothing".into());
        }
        let mut state = self.state.lock();
        if self.live.attached().is_empty() {
            return Err("nothing is attached".into());
        }
        (state.burst, state.off, state.bursts) = (Some((on, off)), false, state.bursts + 1);
        let (control, number) = (Arc::clone(self), state.bursts);
        let take_turns = move || while control.turn(number, true, on) && control.turn(number, false, off) {};
        let started = std::thread::Builder::new().name("bursts".into()).stack_size(1 << 20).spawn(take_turns);
        started.map(|_| String::new()).map_err(|error| format!("no thread: {error}"))
    }

    /// One turn of a burst; tells whether there is to be another one.
    fn turn(&self, number: u64, on: bool, time: Duration) -> bool {
        {
            let state = self.state.lock();
            if state.bursts != number {
                return false;
            }
            if !state.off {
                // What cannot be switched stays as it is until the next turn.
                let _ = self.live.switch(on);
            }
        }
        std::thread::sleep(time);
        true
    }

    fn report(&self, monitor: Option<&str>, format: &str) -> Result<String, String> {
        let attached = self.live.attached();
        if !attached.iter().any(|(name, _)| monitor.is_none_or(|monitor| *name == monitor)) {
            return Err(monitor.map_or("nothing is attached".into(), |monitor| format!("{monitor} is not attached")));
        }
        super::monitors::Format::of(format).map(|format| format.write(&self.live.reports(monitor)))
    }
}

/// Asks a program, and gives what it answers.
pub(crate) fn ask(pid: u32, line: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            format!("process {pid} is no program of `wasm-aot run`, or was started with --no-control")
        }
        _ => format!("process {pid}: {error}"),
    };
    let mut stream = sockets::connect(&name(pid)).map_err(failed)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("error", why)) => Err(why.trim_end().to_owned()),
        _ => Err(format!("process {pid} gave no answer")),
    }
}

/// The processes that can be asked. What ended ones have left behind is removed.
pub(crate) fn programs() -> Vec<u32> {
    let Ok(entries) = sockets::folder().and_then(std::fs::read_dir) else { return Vec::new() };
    let pid = |name: &str| name.strip_prefix("wasm-aot-")?.strip_suffix(".sock")?.parse().ok();
    let mut pids: Vec<u32> = entries.flatten().filter_map(|entry| pid(&entry.file_name().to_string_lossy())).collect();
    pids.retain(|pid| {
        let lives = std::path::Path::new(&format!("/proc/{pid}")).exists();
        if !lives && let Ok(folder) = sockets::folder() {
            let _ = std::fs::remove_file(folder.join(name(*pid)));
        }
        lives
    });
    pids.sort_unstable();
    pids
}
