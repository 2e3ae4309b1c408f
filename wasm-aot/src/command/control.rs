//! What a running program is asked from outside: a line comes in through a private socket, an
//! answer goes out.
//!
//! ```text
//!     attach hotness,top=5    →    ok\n…            the answer's text, to the end
//!     attach hottness         →    error\nno monitor is called hottness …
//! ```
//!
//! It takes the words of native programs ([`Request`]), and some of its own. Those that change what
//! is measured apply to built-in monitors that are attached, which begin anew then.
//!
//! Whoever sends rubbish, or nothing, is answered or left after some seconds; the program does not
//! notice.

use super::burst::{Burst, Until};
use super::modules::{self, Chosen, World};
use super::monitors::{Format, Told};
use super::spell;
use control::registry::{self, NO_SOCKET, Program as Listening, Tower};
use control::{Answer, Request};
use parking_lot::Mutex;
use profiler::Packing;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wasm_aot::observer::{Program, Switched, Switches};
use wasm_aot::session::{Attached, Client, ClientKind, Session, SessionError, Set};
use wasm_aot::wasi::Interruption;
use wasm_aot::{AsContextMut, Engine, ErrandHandle, Limits};
use wordpatch::os::sockets::Listener;

/// Monitors that make a profile, the one that costs least first.
const TIMING: [&str; 2] = ["latency", "profile"];
/// The monitor that has a budget.
const BUDGETED: &str = "latency";

/// How often events are counted that somebody waits for.
const LOOK: Duration = Duration::from_millis(2);
/// The longest line that is read.
const LINE: u64 = 4096;
/// How long somebody is waited for who has connected.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) program: PathBuf,
    /// The program, and all that observes it.
    pub(crate) session: Arc<Session>,
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
        let Ok(listener) = Listener::bind(&Tower::Wasm.socket(std::process::id() as i32)) else {
            return Open(None);
        };
        let path = listener.path().to_owned();
        let (compared, state) = (OnceLock::new(), Mutex::default());
        let control = Arc::new(Self { asked, compared, begun: Instant::now(), state });
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

    /// Does what is asked for by a word that programs of both kinds take, or by one of its own.
    fn obey(self: &Arc<Self>, line: &str) -> Result<Vec<u8>, String> {
        let text = match Request::parse(line) {
            Ok(Request::Snapshot) => return self.snapshot(),
            Ok(Request::Status) => Ok(self.status()),
            Ok(Request::On) => self.switch(true),
            Ok(Request::Off) => self.switch(false),
            Ok(Request::Only(patterns)) => self.select("function", &patterns),
            Ok(Request::Exclude(patterns)) => self.select("exclude", &patterns),
            Ok(Request::Budget(share)) => self.budget(share),
            Ok(Request::Reset) => self.again(|_| true, str::to_owned),
            Ok(Request::Probes) => Ok(self.sites()),
            Ok(Request::Stop) => self.detach("all"),
            Err(why) => self.obey_own(line, &why.to_string()),
        };
        text.map(String::into_bytes)
    }

    fn obey_own(self: &Arc<Self>, line: &str, why: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
        match (verb, &rest[..]) {
            // Names of files may have blanks.
            ("attach", [_, ..]) => {
                self.attach(line.strip_prefix("attach").unwrap_or_default().trim())
            }
            ("detach", [_, ..]) => self.detach(&rest.join(" ")),
            ("on", _) => self.set(&rest.join(" "), true),
            ("off", _) => self.set(&rest.join(" "), false),
            ("burst", ["none"]) => self.no_burst(),
            ("burst", [on, off]) => self.burst(on, Some(off)),
            ("burst", [on]) => self.burst(on, None),
            ("report", [format]) => self.report(None, format),
            ("report", [format, monitor @ ..]) => self.report(Some(&monitor.join(" ")), format),
            ("sites", []) => Ok(self.sites()),
            ("explain", []) => self.explain(),
            ("record", _) => Err(self.not_recorded()),
            ("budget" | "only" | "exclude", _) => Err(why.to_owned()),
            _ => Err(format!("{why}; or attach, detach, burst, report or explain")),
        }
    }

    fn status(&self) -> String {
        let state = self.state.lock();
        let mut text = format!(
            "program   {}\nrunning   {:.1?}\n",
            self.asked.program.display(),
            self.begun.elapsed()
        );
        let on = match (self.session().is_on(), state.burst) {
            (true, Some(_)) => "on, in bursts",
            (false, Some(_)) => "off, in bursts",
            (true, None) => "on",
            (false, None) => "off",
        };
        let _ = writeln!(text, "observing {on}");
        for Client { name, kind, text: options, since, is_on, probes, .. } in
            self.session().clients()
        {
            let _ = match (kind, probes) {
                (ClientKind::Compiled, _) => {
                    writeln!(text, "compiled  {name} from the beginning")
                }
                (ClientKind::Attached, _) => {
                    let time = since.map_or(Duration::ZERO, |since| since.elapsed());
                    let rests = if is_on { "" } else { ", resting" };
                    writeln!(text, "attached  {options} for {time:.1?}{rests}")
                }
                (ClientKind::Module, Some((on, all))) => {
                    writeln!(text, "module    {name}: {on} of {all} probes are called")
                }
                (ClientKind::Module, None) => {
                    writeln!(text, "module    {name}: all of its probes are called")
                }
            };
        }
        text
    }

    /// Switches one client, or probes of a module.
    fn set(&self, which: &str, on: bool) -> Result<String, String> {
        let done = self.session().set(which, on).map_err(said)?;
        Ok(match done {
            Set::Whole if on => format!("{which} observes\n"),
            Set::Whole => format!("{which} rests, and keeps what it has seen\n"),
            Set::Probes(Switched { on: now, all, .. }) => {
                let on = if on { "on" } else { "off" };
                format!("{which} is {on}: {now} of {all} probes are called\n")
            }
        })
    }

    /// Why no recording begins: a program of `wasm-aot run` is inside of a call as long as it is
    /// there.
    fn not_recorded(&self) -> String {
        let program = self.asked.program.display();
        format!(
            "{program} is inside of `_start`, or of what --invoke names, and a recording begins \
             where nothing is executed: record it from its beginning, by \
             `wasm-aot record {program}`"
        )
    }

    /// What became of each client in the program's code.
    fn explain(&self) -> Result<String, String> {
        let each = self.session().explain();
        match each.is_empty() {
            true => Err("nothing is attached".into()),
            false => Ok(each.iter().map(ToString::to_string).collect()),
        }
    }

    /// The profile of a monitor that has times, as a file has it.
    fn snapshot(&self) -> Result<Vec<u8>, String> {
        let has_times = |client: &&Client| {
            client.kind != ClientKind::Module && TIMING.contains(&client.monitor.as_str())
        };
        let clients = self.session().clients();
        let client = clients.iter().find(has_times).ok_or_else(|| {
            format!("no monitor that measures times is attached: attach {}", TIMING.join(" or "))
        })?;
        let reports = self.session().reports(Some(&client.name)).map_err(said)?;
        let profile = reports.into_iter().find_map(|(_, report)| report?.profile);
        let profile = profile.ok_or_else(|| format!("{} has seen nothing yet", client.name))?;
        Ok(profile.to_bytes(Packing::Plain))
    }

    /// Has monitors look at the functions that patterns name, or not at them.
    fn select(&self, option: &str, patterns: &[String]) -> Result<String, String> {
        let is_other = |pattern: &&String| {
            pattern.contains(',') || pattern.starts_with(['/', '@']) || pattern.starts_with("file:")
        };
        if let Some(other) = patterns.iter().find(is_other) {
            return Err(format!(
                "{other}: functions of WebAssembly are named by globs without commas, as parse_*"
            ));
        }
        let chosen: String =
            patterns.iter().map(|pattern| format!(",{option}={pattern}")).collect();
        self.again(|_| true, |text| without(text, option) + &chosen)
    }

    fn budget(&self, share: f64) -> Result<String, String> {
        let percent = (share * 1e6).round() / 1e4;
        let is_budgeted = |monitor: &str| monitor == BUDGETED;
        let change = |text: &str| format!("{},budget={percent}", without(text, "budget"));
        let text = self.again(is_budgeted, change)?;
        match text.is_empty() {
            true => Err(format!("there is no budget: it belongs to the monitor {BUDGETED}")),
            false => Ok(text),
        }
    }

    /// Attaches built-in monitors that are attached anew, those that are wanted, with the options
    /// that `change` makes of their own.
    fn again(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        change: impl Fn(&str) -> String,
    ) -> Result<String, String> {
        let mut attached = self.session().clients();
        attached.retain(|client| client.kind == ClientKind::Attached);
        if attached.is_empty() {
            return Err(format!("no built-in monitor is attached: attach {BUDGETED}"));
        }
        let mut text = String::new();
        for client in attached.iter().filter(|client| is_wanted(&client.monitor)) {
            let options = change(&client.text);
            self.session().attach_anew(&options).map_err(said)?;
            let _ = writeln!(text, "{options} begins anew");
        }
        Ok(text)
    }

    fn session(&self) -> &Session {
        &self.asked.session
    }

    fn sites(&self) -> String {
        let module = self.session().module();
        let (all, loops, bare) = (module.sites(), module.loop_sites(), module.bare_sites());
        let state = if self.session().is_attached() { "on" } else { "off" };
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
        let (Attached { name, before, .. }, notes) = match Chosen::is_file(monitor) {
            true => self.attach_module(monitor)?,
            false => (self.session().attach(monitor).map_err(said)?, String::new()),
        };
        let when = "takes effect at each function's next call or loop iteration";
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
    fn attach_module(&self, text: &str) -> Result<(Attached, String), String> {
        let Asked { session, engine, limits, patience, .. } = &self.asked;
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
        let matched = self.carry_out(compare)?;
        let attached = session.attach_module(matched).map_err(said)?;
        let name = &attached.name;
        spell::begin(observed, &chosen);
        if attached.matches == 0 {
            return Err(format!("{name}: nothing in the program matches any of its exports"));
        }
        let of_it = |(other, why): (String, String)| (other == *name).then_some(why);
        let misfits = observed.misfits().into_iter().filter_map(of_it);
        let shortened = observed.shortened().into_iter().filter_map(of_it);
        let notes = misfits
            .map(|why| format!("note: this export is called nowhere: {why}\n"))
            .chain(shortened.map(|why| format!("note: {why}\n")))
            .collect();
        Ok((attached, notes))
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
        let observed = self.session().observation();
        Some(observed.module()).filter(|_| observed.may_be_stopped())
    }

    fn detach(&self, monitor: &str) -> Result<String, String> {
        match monitor {
            "all" => self.session().detach_all().map_err(said)?,
            _ => self.session().detach(monitor).map_err(said)?,
        }
        if self.session().require().is_err() {
            let mut state = self.state.lock();
            (state.burst, state.bursts) = (None, state.bursts + 1);
        }
        Ok(match monitor {
            "all" => "all monitors that were attached are detached\n".into(),
            _ => format!("{monitor} is detached\n"),
        })
    }

    fn switch(&self, on: bool) -> Result<String, String> {
        self.session().set_all(on).map_err(said)?;
        self.state.lock().off = !on;
        let state = if on { "observes\n" } else { "rests, and keeps what it has seen\n" };
        Ok(format!("what is attached {state}"))
    }

    fn no_burst(&self) -> Result<String, String> {
        let mut state = self.state.lock();
        (state.burst, state.bursts) = (None, state.bursts + 1);
        // Nothing may be attached any more.
        let _ = self.session().set_all(!state.off);
        Ok("what is attached takes no turns any more\n".into())
    }

    /// What is attached observes and rests in turn until somebody says otherwise.
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
            Some(off) => format!("what is attached observes ({on}) and rests ({off}) in turn\n"),
            None => format!("what is attached observes ({on}), and rests then\n"),
        };
        started.map(|_| turns).map_err(|error| format!("no thread: {error}"))
    }

    /// One turn of observing; tells whether the burst still goes on.
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
                    // Looking takes longer for large programs.
                    std::thread::sleep(LOOK.max(4 * begun.elapsed()));
                }
                return false;
            }
        }
        true
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

    /// What a module has to say so far: the program's thread asks it.
    fn ask_module(&self, name: &str, number: usize) -> Result<String, String> {
        let Asked { session, patience, .. } = &self.asked;
        let (own, patience) = (Arc::clone(session.observation()), *patience);
        let ask = move |store: wasm_aot::StoreContextMut<'_, World>| {
            modules::said(store, &own, number, patience)
        };
        self.carry_out(ask).map_err(|error| format!("{name}: {error}"))
    }
}

/// An error as it is told.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn said(error: SessionError) -> String {
    error.to_string()
}

/// What a monitor was attached by, without one of its options.
fn without(text: &str, option: &str) -> String {
    let is_other = |part: &&str| part.split('=').next() != Some(option);
    text.split(',').filter(is_other).collect::<Vec<_>>().join(",")
}

/// What came of something that is asked for. If it panics, only whoever has asked hears of it.
fn survived<T>(obey: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(obey)).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        Err(format!("this is a fault of wasm-aot: {}", why.unwrap_or("it does not say why")))
    })
}

/// The program of a process; one of WebAssembly first.
fn find(pid: u32) -> Result<Listening, String> {
    let found = Listening::find(pid as i32, [Tower::Wasm, Tower::Native]);
    found.map_err(|why| match why.ends_with(NO_SOCKET) {
        true => format!(
            "process {pid} is no program of `wasm-aot run`, or was started with --no-control"
        ),
        false => why,
    })
}

/// Asks a program, and gives what it answers.
pub(crate) fn ask(pid: u32, line: &str) -> Result<Vec<u8>, String> {
    match find(pid)?.ask(line)? {
        Answer::Done(bytes) => Ok(bytes),
        Answer::Refused(why) => Err(why),
    }
}

/// The processes that can be asked. What ended ones have left behind is removed.
pub(crate) fn programs() -> Vec<u32> {
    let all = registry::programs().into_iter();
    let ours = all.filter(|program| program.tower == Tower::Wasm);
    ours.map(|program| program.process as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        let told = survived::<&str>(|| panic!("the {} is lost", "way"));
        assert_eq!(told, Err("this is a fault of wasm-aot: the way is lost".into()));
        assert_eq!(survived(|| Ok("yes")), Ok("yes"));
    }

    #[test]
    fn options_are_left_out_by_name() {
        let text = "latency,function=a*,top=5,function=b";
        assert_eq!(without(text, "function"), "latency,top=5");
        assert_eq!(without(text, "exclude"), text);
    }
}
