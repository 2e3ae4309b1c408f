//! Requests to a running program from outside: a line arrives through a private socket, an answer
//! is returned.
//!
//! ```text
//!     attach hotness,top=5    →    ok\n…            the answer's text, to the end
//!     attach hottness         →    error\nno monitor is called hottness …
//! ```
//!
//! The verbs are the session's ([`Steering`]); this file adds those for modules and scripts, and
//! bursts.
//!
//! If a client sends garbage, or nothing, it gets an error or is disconnected after some seconds;
//! the program does not notice.

use super::burst::{Burst, Until};
use super::modules::{self, Chosen, World};
use super::monitors::{Format, Told};
use super::spell;
use control::Answer;
use control::registry::{self, NO_SOCKET, Program as Listening, Tower};
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wasm_aot::observer::{Program, Switches};
use wasm_aot::session::{ClientKind, Session, SessionError};
use wasm_aot::steering::{Steering, attached_as, survived};
use wasm_aot::wasi::Interruption;
use wasm_aot::{AsContextMut, Engine, Limits, TaskHandle};
use wordpatch::os::sockets::Listener;

/// The interval at which a burst that waits for events counts them.
const LOOK: Duration = Duration::from_millis(2);
/// The maximum length of a request.
const LINE: u64 = 4096;
/// The time that a connected client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// What requests are answered with.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) program: PathBuf,
    /// The session of the program, which takes requests as lines.
    pub(crate) steering: Steering,
    /// Posts tasks to the program's thread.
    pub(crate) tasks: TaskHandle<World>,
    pub(crate) engine: Engine,
    /// Makes that thread return from a call in which it waits.
    pub(crate) interruption: Interruption,
    /// The limits of monitors, in memory and time.
    pub(crate) limits: Limits,
    pub(crate) patience: Duration,
}

/// A program that answers requests.
#[derive(Debug)]
pub(crate) struct Control {
    asked: Asked,
    /// The program that modules are matched with; created for the first module.
    compared: OnceLock<Arc<Program>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether attached monitors rest.
    off: bool,
    /// The present burst, and its number: a thread that runs an earlier burst ends.
    burst: Option<Burst>,
    bursts: u64,
}

/// The socket, which is removed when the program ends.
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
    /// Makes a program answer requests. If that is not possible, the program runs without.
    pub(crate) fn open(asked: Asked) -> Open {
        let Ok(listener) = Listener::bind(&Tower::Wasm.socket(std::process::id() as i32)) else {
            return Open(None);
        };
        let path = listener.path().to_owned();
        let (compared, state) = (OnceLock::new(), Mutex::default());
        let control = Arc::new(Self { asked, compared, state });
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
        let answer = Answer::from(survived(|| self.obey(line.trim())));
        (&mut &*stream).write_all(&answer.bytes())
    }

    /// Obeys a request, by a verb of the session's or by one of its own: modules and bursts.
    fn obey(self: &Arc<Self>, line: &str) -> Result<Vec<u8>, String> {
        let mut words = line.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
        let own = match (verb, &rest[..]) {
            ("status", []) => Ok(self.status()),
            // File names may contain blanks.
            ("attach", [_, ..]) => {
                let monitor = line.strip_prefix("attach").unwrap_or_default().trim();
                match Chosen::is_file(monitor) {
                    true => self.attach_module(monitor),
                    false => return self.asked.steering.obey(line),
                }
            }
            ("burst", ["none"]) => self.no_burst(),
            ("burst", [on, off]) => self.burst(on, Some(off)),
            ("burst", [on]) => self.burst(on, None),
            ("report", [format]) => self.report(None, format),
            ("report", [format, monitor @ ..]) => self.report(Some(&monitor.join(" ")), format),
            ("record", _) => Err(self.not_recorded()),
            _ => {
                let done = self.asked.steering.obey(line)?;
                self.settle(verb, rest.is_empty());
                return Ok(done);
            }
        };
        own.map(String::into_bytes)
    }

    /// Ends the burst if no monitor is left that it could switch, and records a manual switch of
    /// all monitors, which holds again after a burst.
    fn settle(&self, verb: &str, is_all: bool) {
        let mut state = self.state.lock();
        match verb {
            "on" | "off" if is_all => state.off = verb == "off",
            "detach" | "stop" if self.session().require().is_err() => {
                (state.burst, state.bursts) = (None, state.bursts + 1);
            }
            _ => {}
        }
    }

    fn status(&self) -> String {
        let turns = if self.state.lock().burst.is_some() { ", in bursts" } else { "" };
        self.asked.steering.status(turns)
    }

    /// Why no recording begins: a program of `wasm-aot run` is inside a call as long as it runs.
    fn not_recorded(&self) -> String {
        let program = self.asked.program.display();
        format!(
            "{program} is inside of `_start`, or of what --invoke names, and a recording begins \
             where nothing is executed: record it from its beginning, by \
             `wasm-aot record {program}`"
        )
    }

    fn session(&self) -> &Session {
        self.asked.steering.session()
    }

    /// Attaches a module or a script: the program's thread instantiates it and matches it with the
    /// program.
    fn attach_module(&self, text: &str) -> Result<String, String> {
        let Asked { steering, engine, limits, patience, .. } = &self.asked;
        let session = steering.session();
        let (observed, failed) = (session.observation(), super::Failure::said);
        let chosen = Chosen::parse(text).map_err(failed)?;
        session.admit(&chosen.name(), text).map_err(said)?;
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
        let matched = self.run_in_store(compare)?;
        let attached = session.attach_module(matched).map_err(said)?;
        let name = &attached.name;
        spell::start_spell(observed, &chosen);
        let of_it = |(other, why): (String, String)| (other == *name).then_some(why);
        let mut misfits = observed.misfits().into_iter().filter_map(of_it);
        if attached.matches == 0 {
            // It would observe nothing, but be listed as if it did.
            session.detach(name).map_err(said)?;
            let why = misfits.next().map_or(String::new(), |why| super::behind_colon(&why));
            return Err(format!("{name}: nothing in the program matches any of its exports{why}"));
        }
        let shortened = observed.shortened().into_iter().filter_map(of_it);
        let notes = misfits
            .map(|why| format!("note: this export is never called{}\n", super::behind_colon(&why)))
            .chain(shortened.map(|why| format!("note: {why}\n")));
        Ok([attached_as(text, &attached)].into_iter().chain(notes).collect())
    }

    /// Makes the program's thread run a function with its store.
    fn run_in_store<R: Send + 'static>(
        &self,
        task: impl FnOnce(wasm_aot::StoreContextMut<'_, World>) -> Result<R, String> + Send + 'static,
    ) -> Result<R, String> {
        let Asked { tasks, interruption, patience, .. } = &self.asked;
        let done = tasks.run_in_store(
            self.module_with_safepoints(),
            || interruption.wake(),
            *patience,
            task,
        );
        done.map_err(|error| error.to_string())?
    }

    /// The program, if it can be stopped for a moment at any place.
    fn module_with_safepoints(&self) -> Option<&wasm_aot::Module> {
        let observed = self.session().observation();
        Some(observed.module()).filter(|_| observed.may_be_stopped())
    }

    fn no_burst(&self) -> Result<String, String> {
        let mut state = self.state.lock();
        (state.burst, state.bursts) = (None, state.bursts + 1);
        // Fails if nothing is attached any more.
        let _ = self.session().set_all(!state.off);
        Ok("attached monitors no longer take turns\n".into())
    }

    /// Makes attached monitors observe and rest in turn until another request.
    fn burst(self: &Arc<Self>, on: &str, off: Option<&str>) -> Result<String, String> {
        let burst = Burst::parse(on, off)?;
        let mut state = self.state.lock();
        self.session().require().map_err(said)?;
        if matches!(burst.on, Until::Events(_)) {
            self.session().count_events().map_err(said)?;
        }
        (state.burst, state.off, state.bursts) = (Some(burst), false, state.bursts + 1);
        let (control, number) = (Arc::clone(self), state.bursts);
        let take_turns =
            move || while control.observe(number, burst) && control.rest(number, burst.off) {};
        let started =
            std::thread::Builder::new().name("bursts".into()).stack_size(1 << 20).spawn(take_turns);
        let turns = match off {
            Some(off) => format!("attached monitors are on ({on}) and off ({off}) in turn\n"),
            None => format!("attached monitors are on ({on}), then off\n"),
        };
        started.map(|_| turns).map_err(|error| format!("no thread: {error}"))
    }

    /// One period of observing; returns whether the burst continues.
    fn observe(&self, number: u64, burst: Burst) -> bool {
        let events = || self.session().events();
        let before = if let Until::Events(_) = burst.on { events() } else { 0 };
        if !self.turn(number, true) {
            return false;
        }
        match burst.on {
            Until::Time(time) => std::thread::sleep(time),
            Until::Events(wanted) => {
                while self.state.lock().bursts == number {
                    let begun = Instant::now();
                    if events().saturating_sub(before) >= wanted {
                        return true;
                    }
                    // Counting takes longer for large programs.
                    std::thread::sleep(LOOK.max(4 * begun.elapsed()));
                }
                return false;
            }
        }
        true
    }

    /// One period of resting, or resting for good; returns whether the burst continues.
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

    /// Makes attached monitors observe, or rest, if this is still the current burst.
    fn turn(&self, number: u64, on: bool) -> bool {
        let state = self.state.lock();
        if state.bursts != number {
            return false;
        }
        if !state.off {
            // A monitor that cannot be switched now keeps its state until the next period.
            let _ = self.session().set_all(on);
        }
        true
    }

    fn report(&self, monitor: Option<&str>, format: &str) -> Result<String, String> {
        let format = Format::of(format)?;
        let mut told = Vec::new();
        for (client, report) in self.session().reports(monitor).map_err(said)? {
            match (report, client.kind) {
                (Some(report), _) => told.push((client.name, Told::Report(report))),
                (None, ClientKind::Module) => {
                    let text = self.ask_module(&client.name, client.number)?;
                    let own = self.session().observation();
                    told.push((client.name.clone(), Told::printed(own, &client, text, format)));
                }
                (None, _) => {}
            }
        }
        Ok(format.write(&told))
    }

    /// A module's report so far, which the program's thread obtains from it.
    fn ask_module(&self, name: &str, number: usize) -> Result<String, String> {
        let own = Arc::clone(self.session().observation());
        let patience = self.asked.patience;
        let ask = move |store: wasm_aot::StoreContextMut<'_, World>| {
            modules::said(store, &own, number, patience)
        };
        self.run_in_store(ask).map_err(|error| format!("{name}: {error}"))
    }
}

/// Formats an error.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn said(error: SessionError) -> String {
    error.to_string()
}

/// Finds the program of a process; WebAssembly programs have precedence.
fn find(pid: u32) -> Result<Listening, String> {
    let found = Listening::find(pid as i32, [Tower::Wasm, Tower::Native]);
    found.map_err(|why| match why.ends_with(NO_SOCKET) {
        true => format!(
            "process {pid} is not a program of `wasm-aot run`, or was started with --no-control"
        ),
        false => why,
    })
}

/// Sends a request to a program, and returns its answer.
pub(crate) fn ask(pid: u32, line: &str) -> Result<Vec<u8>, String> {
    match find(pid)?.ask(line)? {
        Answer::Done(bytes) => Ok(bytes),
        Answer::Refused(why) => Err(why),
    }
}

/// The processes that answer requests. Removes the sockets of processes that have ended.
pub(crate) fn programs() -> Vec<u32> {
    let all = registry::programs().into_iter();
    let ours = all.filter(|program| program.tower == Tower::Wasm);
    ours.map(|program| program.process as u32).collect()
}
