//! What a running program is asked from outside: a line comes in through a private socket, an
//! answer goes out.
//!
//! ```text
//!     attach hotness,top=5    →    ok\n…            the answer's text, to the end
//!     attach hottness         →    error\nno monitor is called hottness …
//! ```
//!
//! Whoever sends rubbish, or nothing, is answered or left after some seconds; the program does not
//! notice.

use super::burst::{Burst, Until};
use super::modules::{self, Chosen, World};
use super::monitors::Format;
use super::spell;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wasm_aot::monitor::{Live, Report, Watch};
use wasm_aot::observer::{Observation, Program, Selection, Switches};
use wasm_aot::wasi::Interruption;
use wasm_aot::{AsContextMut, Engine, ErrandHandle, Limits};
use wordpatch::os::sockets::{self, Listener};

/// How often events are counted that somebody waits for.
const LOOK: Duration = Duration::from_millis(2);
/// The longest line that is read.
const LINE: u64 = 4096;
/// How long somebody is waited for who has connected.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket's name of a process.
fn name(pid: u32) -> String {
    format!("wasm-aot-{pid}.sock")
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) program: PathBuf,
    /// The program, and the modules that look at it.
    pub(crate) observed: Arc<Observation>,
    /// The monitors that are compiled in.
    pub(crate) watch: Arc<Watch>,
    /// What the program's thread is asked for.
    pub(crate) errands: ErrandHandle<World>,
    pub(crate) engine: Engine,
    /// What has it come back that waits for something.
    pub(crate) interruption: Interruption,
    /// What monitors may take, and how long.
    pub(crate) limits: Limits,
    pub(crate) patience: Duration,
}

/// A program that can be asked.
#[derive(Debug)]
pub(crate) struct Control {
    asked: Asked,
    live: Live,
    /// What modules compare themselves with, once one has come.
    compared: OnceLock<Arc<Program>>,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether what is attached rests.
    off: bool,
    /// How long it is on, and how long it is off, in turn; and which turn-taking this is, so that
    /// the one before ends.
    burst: Option<Burst>,
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
    pub(crate) fn open(asked: Asked) -> Open {
        let Ok(listener) = Listener::bind(&name(std::process::id())) else { return Open(None) };
        let path = listener.path().to_owned();
        let live = Live::new(asked.observed.module().clone());
        let (compared, state) = (OnceLock::new(), Mutex::default());
        let control = Arc::new(Self { asked, live, compared, begun: Instant::now(), state });
        let serve = move || {
            while let Ok(stream) = listener.accept() {
                let _ = control.answer(&stream);
            }
        };
        let started =
            std::thread::Builder::new().name("control".into()).stack_size(8 << 20).spawn(serve);
        Open(started.is_ok().then_some(path))
    }

    fn answer(self: &Arc<Self>, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(LINE)).read_line(&mut line)?;
        let answer = match survived(|| self.obey(line.trim())) {
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
            // Names of files may have blanks.
            ("attach", [_, ..]) => {
                self.attach(line.strip_prefix("attach").unwrap_or_default().trim())
            }
            ("detach", [monitor]) => self.detach(monitor),
            ("on", [which]) => self.switch_module(which, true),
            ("off", [which]) => self.switch_module(which, false),
            ("on", []) => self.switch(true),
            ("off", []) => self.switch(false),
            ("burst", ["none"]) => self.no_burst(),
            ("burst", [on, off]) => self.burst(on, Some(off)),
            ("burst", [on]) => self.burst(on, None),
            ("report", [format]) => self.report(None, format),
            ("report", [format, monitor]) => self.report(Some(monitor), format),
            ("sites", []) => Ok(self.sites()),
            _ => Err("expected status, attach, detach, on, off, burst, report or sites".into()),
        }
    }

    fn status(&self) -> String {
        let state = self.state.lock();
        let mut text = format!(
            "program   {}\nrunning   {:.1?}\n",
            self.asked.program.display(),
            self.begun.elapsed()
        );
        let switched = self.asked.observed.switched();
        let is_on = |name: &String| switched.iter().all(|(other, on, _)| other != name || *on > 0);
        let is_watched = self.asked.watch.names().next().is_some()
            || self.asked.observed.names().iter().any(is_on);
        let on = match (self.live.is_on() || is_watched, state.burst) {
            (true, Some(_)) => "on, in bursts",
            (false, Some(_)) => "off, in bursts",
            (true, None) => "on",
            (false, None) => "off",
        };
        let _ = writeln!(text, "observing {on}");
        for name in self.asked.watch.names() {
            let _ = writeln!(text, "compiled  {name} from the beginning");
        }
        for (name, since) in self.live.attached() {
            let rests = if self.live.is_resting(name) { ", resting" } else { "" };
            let options = self.live.options(name).unwrap_or_else(|| name.to_owned());
            let _ = writeln!(text, "attached  {options} for {:.1?}{rests}", since.elapsed());
        }
        for name in self.asked.observed.names() {
            let _ = match switched.iter().find(|(other, ..)| *other == name) {
                Some((_, on, all)) => {
                    writeln!(text, "module    {name}: {on} of {all} probes are called")
                }
                None => writeln!(text, "module    {name}: all of its probes are called"),
            };
        }
        text
    }

    /// Switches one that is attached, or probes of a monitor that is a module.
    fn switch_module(&self, which: &str, on: bool) -> Result<String, String> {
        if self.live.switch_one(which, on).map_err(|error| error.to_string())? {
            return Ok(format!(
                "{which} {}\n",
                if on { "observes" } else { "rests, and keeps what it has seen" }
            ));
        }
        if self.asked.watch.names().any(|name| name == which) {
            return Err(format!(
                "{which} is compiled in, and observes to the end: only what was attached can be switched"
            ));
        }
        let selection: Selection =
            which.parse().map_err(|error: wasm_aot::observer::SelectionError| error.to_string())?;
        let done = self.asked.observed.switch(&selection, on).map_err(|error| error.to_string())?;
        let (now, all) = (done.on, done.all);
        Ok(format!(
            "{which} is {}: {now} of {all} probes are called\n",
            if on { "on" } else { "off" }
        ))
    }

    fn sites(&self) -> String {
        let module = self.asked.observed.module();
        let (all, loops, bare) = (module.sites(), module.loop_sites(), module.bare_sites());
        let state = if self.live.is_on() { "on" } else { "off" };
        let mut text = format!(
            "functions {} sites, {state}\nloops {loops} sites, {state}\n",
            all - loops - bare
        );
        if bare > 0 {
            let _ = writeln!(text, "instructions {} at {bare} sites", module.bare_instructions());
        }
        text
    }

    fn attach(&self, monitor: &str) -> Result<String, String> {
        let before = self.live.options(monitor.split(',').next().unwrap_or_default());
        let (name, notes) = match Chosen::is_file(monitor) {
            true => self.attach_module(monitor)?,
            false => (
                self.live.attach(monitor).map_err(|error| error.to_string())?.to_owned(),
                String::new(),
            ),
        };
        let when = "functions with their next call, and loops with their next turn";
        match before {
            Some(before) if before == monitor => Ok(format!("{monitor} is attached already\n")),
            Some(before) => {
                Ok(format!("{monitor} is attached in place of {before}: {when}\n{notes}"))
            }
            None => Ok(format!("{name} is attached: {when}\n{notes}")),
        }
    }

    /// Attaches a module or a script: the program's thread makes an instance of it and compares it
    /// with the program.
    fn attach_module(&self, text: &str) -> Result<(String, String), String> {
        let Asked { observed, engine, limits, patience, .. } = &self.asked;
        let failed = super::Failure::said;
        let chosen = Chosen::parse(text).map_err(failed)?;
        let name = chosen.name();
        if observed.names().contains(&name) {
            return Err(format!("{name} looks at the program already: detach it first"));
        }
        let compiled = chosen.compile(engine).map_err(failed)?;
        let program = match self.compared.get() {
            Some(program) => program,
            None => {
                let program =
                    Program::of(engine, observed.module()).map_err(|error| error.to_string())?;
                self.compared.get_or_init(|| program)
            }
        };
        let (own, program, engine) = (Arc::clone(observed), Arc::clone(program), engine.clone());
        let (limits, patience) = (*limits, *patience);
        let compare = move |mut store: wasm_aot::StoreContextMut<'_, World>| {
            store.set_limits(limits);
            let how = (patience, &Switches::default());
            let observer = compiled
                .instantiate(store.as_context_mut(), &engine, &program, how)
                .map_err(super::Failure::said)?;
            compiled.remark(&observer);
            own.compare(store, observer, &program).map_err(|error| error.to_string())
        };
        let matched = self.carry_out(compare)?;
        let count = observed.attach(matched).map_err(|error| error.to_string())?;
        spell::begin(observed, &chosen);
        match count {
            0 => Err(format!("{name}: nothing in the program matches any of its exports")),
            _ => {
                let notes = observed
                    .misfits()
                    .into_iter()
                    .filter(|(other, _)| *other == name)
                    .collect::<Vec<_>>()
                    .into_iter();
                let notes = notes
                    .map(|(_, why)| format!("note: this export is called nowhere: {why}\n"))
                    .collect();
                Ok((name, notes))
            }
        }
    }

    /// Has the program's thread do something with its store.
    fn carry_out<R: Send + 'static>(
        &self,
        errand: impl FnOnce(wasm_aot::StoreContextMut<'_, World>) -> Result<R, String> + Send + 'static,
    ) -> Result<R, String> {
        let Asked { errands, interruption, patience, .. } = &self.asked;
        let done = errands.carry_out(self.stoppable(), || interruption.knock(), *patience, errand);
        done.map_err(|error| error.to_string())?
    }

    /// The program, if it may be stopped for a moment wherever it is.
    fn stoppable(&self) -> Option<&wasm_aot::Module> {
        Some(self.asked.observed.module()).filter(|_| self.asked.observed.may_be_stopped())
    }

    fn detach(&self, monitor: &str) -> Result<String, String> {
        let failed = |error: wasm_aot::Error| error.to_string();
        match monitor {
            "all" => {
                self.live.detach_all().map_err(failed)?;
                for name in self.asked.observed.names() {
                    self.asked.observed.detach(&name).map_err(|error| error.to_string())?;
                }
            }
            _ if self.live.detach(monitor).map_err(failed)? => {}
            _ if self.asked.observed.detach(monitor).map_err(|error| error.to_string())? => {}
            _ => return Err(format!("{monitor} is not attached")),
        }
        if self.live.attached().is_empty() {
            let mut state = self.state.lock();
            (state.burst, state.bursts) = (None, state.bursts + 1);
        }
        Ok(match monitor {
            "all" => "all monitors that were attached are detached\n".into(),
            _ => format!("{monitor} is detached\n"),
        })
    }

    fn switch(&self, on: bool) -> Result<String, String> {
        if self.has_nothing() {
            return Err("nothing is attached".into());
        }
        self.state.lock().off = !on;
        let state = if on { "observes\n" } else { "rests, and keeps what it has seen\n" };
        self.switch_all(on).map(|()| format!("what is attached {state}"))
    }

    /// Whether there is nothing that could be switched.
    fn has_nothing(&self) -> bool {
        self.live.attached().is_empty() && self.asked.observed.switched().is_empty()
    }

    fn switch_all(&self, on: bool) -> Result<(), String> {
        self.live.switch(on).map_err(|error| error.to_string())?;
        self.asked.observed.rest(on).map(drop).map_err(|error| error.to_string())
    }

    fn no_burst(&self) -> Result<String, String> {
        let mut state = self.state.lock();
        (state.burst, state.bursts) = (None, state.bursts + 1);
        self.switch_all(!state.off).map(|()| "what is attached takes no turns any more\n".into())
    }

    /// What is attached observes and rests in turn until somebody says otherwise.
    fn burst(self: &Arc<Self>, on: &str, off: Option<&str>) -> Result<String, String> {
        let burst = Burst::parse(on, off)?;
        let mut state = self.state.lock();
        if self.has_nothing() {
            return Err("nothing is attached".into());
        }
        if matches!(burst.on, Until::Events(_)) {
            let counted = self.asked.observed.count_events().map_err(|error| error.to_string())?;
            if !counted && self.live.attached().is_empty() {
                let names = self
                    .asked
                    .observed
                    .switched()
                    .into_iter()
                    .map(|(name, ..)| name)
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(format!(
                    "{names}: its calls are not counted: say how long, as burst 10ms 990ms"
                ));
            }
        }
        (state.burst, state.off, state.bursts) = (Some(burst), false, state.bursts + 1);
        let (control, number) = (Arc::clone(self), state.bursts);
        let take_turns =
            move || while control.observe(number, burst) && control.rest(number, burst.off) {};
        let started =
            std::thread::Builder::new().name("bursts".into()).stack_size(1 << 20).spawn(take_turns);
        let turns = match off {
            Some(off) => format!("what is attached observes ({on}) and rests ({off}) in turn\n"),
            None => format!("what is attached observes ({on}), and rests then\n"),
        };
        started.map(|_| turns).map_err(|error| format!("no thread: {error}"))
    }

    /// One turn of observing; tells whether the burst still goes on.
    fn observe(&self, number: u64, burst: Burst) -> bool {
        let before = if let Until::Events(_) = burst.on { self.events() } else { 0 };
        if !self.turn(number, true) {
            return false;
        }
        match burst.on {
            Until::Time(time) => std::thread::sleep(time),
            Until::Events(events) => {
                while self.state.lock().bursts == number {
                    let begun = Instant::now();
                    if self.events().saturating_sub(before) >= events {
                        return true;
                    }
                    // Looking takes longer for large programs.
                    std::thread::sleep(LOOK.max(4 * begun.elapsed()));
                }
                return false;
            }
        }
        true
    }

    /// How many events all that is attached has seen so far.
    fn events(&self) -> u64 {
        self.live.events() + self.asked.observed.events()
    }

    /// One turn of resting, or the rest for good; tells whether the burst still goes on.
    fn rest(&self, number: u64, time: Option<Duration>) -> bool {
        if !self.turn(number, false) {
            return false;
        }
        match time {
            Some(time) => std::thread::sleep(time),
            None => {
                let mut state = self.state.lock();
                if state.bursts == number {
                    (state.burst, state.off) = (None, true);
                }
                return false;
            }
        }
        true
    }

    /// Has what is attached observe, or rest, if this is still the burst that counts.
    fn turn(&self, number: u64, on: bool) -> bool {
        let state = self.state.lock();
        if state.bursts != number {
            return false;
        }
        if !state.off {
            // What cannot be switched stays as it is until the next turn.
            let _ = self.switch_all(on);
        }
        true
    }

    fn report(&self, monitor: Option<&str>, format: &str) -> Result<String, String> {
        let format = Format::of(format)?;
        let is_wanted = |name: &str| monitor.is_none_or(|monitor| name == monitor);
        let has_reports = self.live.attached().iter().any(|(name, _)| is_wanted(name));
        let modules: Vec<String> =
            self.asked.observed.names().into_iter().filter(|name| is_wanted(name)).collect();
        // Those that are compiled in are on from the beginning to the end.
        let module = self.asked.observed.module();
        let wanted = |report: &Report| is_wanted(report.monitor);
        let mut reports: Vec<Report> = match self.asked.watch.names().any(is_wanted) {
            true => self.asked.watch.reports(module).into_iter().filter(wanted).collect(),
            false => Vec::new(),
        };
        if !has_reports && modules.is_empty() && reports.is_empty() {
            return Err(monitor.map_or("nothing is attached".into(), |monitor| {
                format!("{monitor} is not attached")
            }));
        }
        let mut said = Vec::new();
        for name in modules {
            let text = self.said(&name)?;
            said.push((name, text));
        }
        if has_reports {
            reports.extend(self.live.reports(monitor));
        }
        Ok(format.write_with(&reports, said))
    }

    /// What a module has to say so far: the program's thread asks it.
    fn said(&self, name: &str) -> Result<String, String> {
        let Asked { observed, patience, .. } = &self.asked;
        let (own, of, patience) = (Arc::clone(observed), name.to_owned(), *patience);
        let ask = move |store: wasm_aot::StoreContextMut<'_, World>| {
            modules::said(store, &own, Some(&of), patience)
        };
        self.carry_out(ask).map_err(|error| format!("{name}: {error}"))
    }
}

/// What came of something that is asked for. If it panics, only whoever has asked hears of it.
fn survived(obey: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(obey)).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        Err(format!("this is a fault of wasm-aot: {}", why.unwrap_or("it does not say why")))
    })
}

/// Asks a program, and gives what it answers.
pub(crate) fn ask(pid: u32, line: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            format!(
                "process {pid} is no program of `wasm-aot run`, or was started with --no-control"
            )
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
    let mut pids: Vec<u32> =
        entries.flatten().filter_map(|entry| pid(&entry.file_name().to_string_lossy())).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        let told = survived(|| panic!("the {} is lost", "way"));
        assert_eq!(told, Err("this is a fault of wasm-aot: the way is lost".into()));
        assert_eq!(survived(|| Ok("yes".into())), Ok("yes".into()));
    }
}
