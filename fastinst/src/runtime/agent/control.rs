//! The control socket: requests to the agent from outside while the program runs.
//!
//! - **No further thread.** The agent looks at its socket ten times a second, and more often while
//!   a client is connected; nothing that it does there waits.
//! - **A high descriptor, closed on exec** ([`wordpatch::os::descriptors`]). A program that closes
//!   all descriptors closes this one, too: then the socket does not exist any more, and no
//!   descriptor of the program's is taken for it.
//! - **Nothing under a filter of system calls.** A socket takes calls that a profile does not. A
//!   filter that the program installs closes the socket before; a filter that was installed from
//!   the beginning may kill, and it cannot be queried, so the socket is opened only on request
//!   (`FASTINST_CONTROL=on`).
//! - **Every figure is of one interval.** If functions were added or removed, or measuring stopped,
//!   counts would belong to different times. So `on`, `only`, `exclude` and `reset` begin the
//!   profile anew, and `off` keeps the one until then.

use super::{Agent, Pace};
use crate::config::ControlChoice;
use crate::format::Format;
use crate::runtime::registry::lock_registry;
use crate::runtime::witness::Witness;
use crate::runtime::{attached, functions, modes, target, unloading};
use control::registry::Tower;
use control::{Answer, Request, Visitors};
use profiler::{Packing, Policy};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::time::Instant;
use wordpatch::CodeAddr;
use wordpatch::os::descriptors::Own;
use wordpatch::os::sockets::Listener;
use wordpatch::os::threads;

/// Whether a filter of system calls may be installed: no call is made that only a socket takes.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Has the socket closed, and waits until no call for it is being made.
pub(in crate::runtime) fn forbid() {
    FORBIDDEN.store(true, Release);
    // The agent serves its socket while it holds the registry.
    drop(lock_registry());
}

/// The process that has a socket, 0 if none has; and its descriptor: number, device, file.
static OWNER: AtomicI32 = AtomicI32::new(0);
static NUMBER: AtomicI32 = AtomicI32::new(-1);
static IDENTITY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// In a forked child: closes its copy of the parent's socket.
pub(in crate::runtime) fn close_copy() {
    let number = NUMBER.swap(-1, AcqRel);
    if number >= 0 && OWNER.load(Acquire) != threads::process() {
        let [device, file] = [0, 1].map(|at| IDENTITY[at].load(Acquire));
        drop(Own::inherited(number, (device, file)));
    }
}

/// Removes the socket of this process, which is about to end.
pub(in crate::runtime) fn remove() {
    let process = threads::process();
    if OWNER.load(Acquire) == process && !FORBIDDEN.load(Acquire) {
        let path = target::folder_of_sockets().join(Tower::Native.socket(process));
        let _ = std::fs::remove_file(path);
    }
}

/// The socket, and the requests that were not answered yet.
#[derive(Debug, Default)]
pub(super) struct Control {
    visitors: Option<Visitors>,
    asked: Vec<String>,
}

impl Control {
    /// Returns without a socket where none is possible, and reports why only if it was requested.
    fn open() -> Self {
        let choice = target::config().control;
        if choice == ControlChoice::Off || FORBIDDEN.load(Acquire) {
            return Self::default();
        }
        match listener(choice) {
            Ok(listener) => {
                let (number, (device, file)) = listener.descriptor().parts();
                IDENTITY[0].store(device, Release);
                IDENTITY[1].store(file, Release);
                NUMBER.store(number, Release);
                OWNER.store(threads::process(), Release);
                Self { visitors: Some(Visitors::new(listener)), asked: Vec::new() }
            }
            Err(why) => {
                if choice == ControlChoice::On {
                    target::complain(&format!("there is no control socket: {why}"));
                }
                Self::default()
            }
        }
    }

    /// How long the agent may sleep.
    pub(super) fn pause(&self) -> std::time::Duration {
        self.visitors.as_ref().map_or(std::time::Duration::MAX, Visitors::pause)
    }

    /// Takes new requests. Returns whether any is unanswered.
    pub(super) fn take_requests(&mut self) -> bool {
        let now = Instant::now();
        if self.visitors.as_ref().is_some_and(|visitors| visitors.is_due(now)) {
            // Checked under the lock: a thread that forbids it waits for the lock, or is seen here.
            let registry = lock_registry();
            if FORBIDDEN.load(Acquire) {
                self.visitors = None;
            }
            self.asked.extend(self.visitors.iter_mut().flat_map(|visitors| visitors.look(now)));
            drop(registry);
        }
        !self.asked.is_empty()
    }

    fn answer(&mut self, answer: &Answer) {
        let _registry = lock_registry();
        if let Some(visitors) = self.visitors.as_mut().filter(|_| !FORBIDDEN.load(Acquire)) {
            visitors.answer(answer, Instant::now());
        }
    }
}

fn listener(choice: ControlChoice) -> Result<Listener, String> {
    if choice == ControlChoice::Auto && is_filtered() {
        return Err("a filter of system calls was there before".to_owned());
    }
    Listener::bind_in(target::folder_of_sockets(), &Tower::Native.socket(threads::process()))
        .map_err(|error| error.to_string())
}

/// Whether a filter of system calls judges this thread (proc_pid_status(5)).
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    line.is_some_and(|mode| mode.trim() != "0")
}

impl Agent {
    /// Before the agent's thread begins, on the thread that starts it: most often that is the
    /// program's only one, or the program is stopped, so no descriptor is closed meanwhile.
    pub(in crate::runtime) fn open_control(&mut self) {
        self.control = Control::open();
    }

    /// Answers requests. Returns whether the agent is to leave.
    pub(super) fn serve(&mut self) -> bool {
        let mut leaves = false;
        // A busy agent hardly sleeps, and sleeping is where it looks otherwise.
        self.control.take_requests();
        for line in std::mem::take(&mut self.control.asked) {
            let request = Request::parse(&line).map_err(|error| error.to_string());
            leaves |= request == Ok(Request::Stop);
            let result = request.and_then(|request| self.obey(request));
            self.control.answer(&Answer::from(result));
        }
        leaves
    }

    fn obey(&mut self, request: Request) -> Result<Vec<u8>, String> {
        let text = match request {
            Request::Snapshot => {
                let (profile, _unhindered) = self.profile(Format::Profile);
                return Ok(profile.to_bytes(Packing::Plain));
            }
            Request::Status => self.status(),
            Request::Probes => self.list_probes(),
            Request::On if self.frozen.is_none() => "measuring already\n".to_owned(),
            Request::On => {
                self.begin_anew()?;
                "measuring, with a new profile\n".to_owned()
            }
            Request::Off => self.pause_measuring()?,
            Request::Reset => {
                self.begin_anew()?;
                "a new profile begins\n".to_owned()
            }
            Request::Budget(share) => self.set_budget(share)?,
            Request::Only(patterns) => self.select(|config| config.include = patterns)?,
            Request::Exclude(patterns) => self.select(|config| config.exclude = patterns)?,
            Request::Stop => {
                "profiling has ended: the last profile is written, all probes are off\n".to_owned()
            }
        };
        Ok(text.into_bytes())
    }

    /// Switches all probes off; the profile stays what it is.
    fn pause_measuring(&mut self) -> Result<String, String> {
        if self.frozen.is_some() {
            return Ok("off already\n".to_owned());
        }
        require_no_unloading()?;
        let (profile, unhindered) = self.profile(Format::Profile);
        drop(unhindered);
        self.frozen = Some(Box::new(profile));
        self.silence();
        // Its interrupts would take time while nothing is measured.
        self.witness = Witness::None { why: "measuring is off".to_owned() };
        Ok("off: all probes are off, the profile is kept; `on` starts a new one\n".to_owned())
    }

    /// Switches all sites off, whatever is decided later.
    fn silence(&self) {
        let _registry = lock_registry();
        modes::silence_all();
    }

    /// Begins a new profile, under the current settings.
    fn begin_anew(&mut self) -> Result<(), String> {
        require_no_unloading()?;
        self.silence();
        // The kernel counts the memory of its rings: these are closed before new ones are opened.
        self.witness = Witness::None { why: String::new() };
        let mut next = Self::blank(target::clock(), self.began ^ u64::from(self.met));
        next.leave_the_past();
        next.agent_before = super::agent_time();
        modes::end_silence();
        functions::all().for_each(|id| modes::allow(id, true));
        next.meet_all();
        next.installed_all = self.installed_all;
        next.pace = Pace::new(Instant::now());
        std::mem::swap(&mut next.names, &mut self.names);
        std::mem::swap(&mut next.control, &mut self.control);
        *self = next;
        Ok(())
    }

    /// Measures other functions from now on. Patterns that match no function are refused.
    fn select(
        &mut self,
        change: impl FnOnce(&mut crate::config::Config),
    ) -> Result<String, String> {
        let before = target::config().clone();
        let earlier = selected_functions();
        target::change_settings(change)?;
        self.install_named();
        let selected = selected_functions();
        if selected.is_empty() {
            let config = target::config();
            let of = |word: &str, patterns: &[String]| match patterns {
                [] => String::new(),
                _ => format!(" {word} {}", patterns.join(" ")),
            };
            let named = of("only", &config.include) + &of("exclude", &config.exclude);
            target::change_settings(|config| *config = before)?;
            return Err(format!(
                "no function with a probe would be left by{named}; nothing was changed (`probes` lists them)"
            ));
        }
        let is_changed = selected != earlier;
        if self.frozen.is_none() && is_changed {
            self.begin_anew()?;
        }
        let then = match (&self.frozen, is_changed) {
            (Some(_), _) => "off until `on`",
            (None, true) => "a new profile begins",
            (None, false) => "the same as before, the profile continues",
        };
        let (selected, all) = (selected.len(), functions::all().count());
        Ok(format!("{selected} of {all} functions with probes: {then}\n"))
    }

    /// Installs probes in the unmodified functions that were requested by name: the sampling clock
    /// may never see them running.
    fn install_named(&mut self) {
        if !self.has_puns || target::config().include.is_empty() || !super::may_install() {
            return;
        }
        let mut registry = lock_registry();
        let all = registry.unmodified.as_ref().map(|unmodified| unmodified.all(|_| true));
        registry.install_unmodified(&all.unwrap_or_default());
        drop(registry);
        self.make_accounts();
    }

    fn set_budget(&mut self, share: f64) -> Result<String, String> {
        if !matches!(target::config().policy, Policy::Adaptive { .. }) {
            return Err(format!(
                "the policy {} has no budget; only adaptive has",
                target::config().policy
            ));
        }
        let policy = Policy::Adaptive { budget: share };
        target::change_settings(|config| config.policy = policy.clone())?;
        self.controller.set_policy(policy);
        Ok(format!("measuring may take {} % of the program's CPU time\n", percent(share)))
    }

    fn status(&mut self) -> String {
        let config = target::config();
        let agent = super::agent_time();
        let programs = self.programs_time(agent).as_secs_f64();
        let spent = (agent.saturating_sub(self.agent_before)).as_secs_f64();
        let called = self.functions.iter().filter(|account| account.told > account.earlier).count();
        // A status line must be one line, even if an argument is a script.
        let shown = |arg: std::ffi::OsString| arg.to_string_lossy().replace(char::is_control, " ");
        let command: Vec<String> = std::env::args_os().map(shown).collect();
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<10}{value}");
        };
        row("program", command.join(" "));
        row("process", threads::process().to_string());
        let seconds = self.started.elapsed().as_secs_f64();
        row(
            "measuring",
            match &self.frozen {
                None => format!("on, for {seconds:.1} s"),
                Some(profile) => format!("off, after {:.1} s", profile.header.seconds),
            },
        );
        row("policy", config.policy.to_string());
        if !config.include.is_empty() {
            row("only", config.include.join(", "));
        }
        if !config.exclude.is_empty() {
            row("exclude", config.exclude.join(", "));
        }
        row("functions", format!("{} with probes, {called} called", functions::all().count()));
        row("probes", super::writing::probes(&lock_registry()).to_string());
        row("timed", format!("{} calls", self.samples));
        if self.frozen.is_none() {
            row("cpu", format!("{programs:.2} s of the program, {spent:.3} s of the profiler"));
        }
        row("profile", self.destination());
        text
    }

    /// Where the profile is written.
    fn destination(&self) -> String {
        match super::handover::writer().filter(|writer| writer.has_reader()) {
            Some(_) if attached::is_tied() => "to fastinst attach".to_owned(),
            Some(_) => "to fastinst run".to_owned(),
            None => target::output_path().display().to_string(),
        }
    }

    /// One line for each function that has probes.
    fn list_probes(&mut self) -> String {
        self.make_accounts();
        let registry = lock_registry();
        let mut text = format!("{:>12}  {:<8}  function\n", "calls", "state");
        for id in functions::all() {
            let function = id.function();
            let address = CodeAddr::new(function.address.load(Acquire) as usize);
            let account = &self.functions[id.0 as usize];
            let module = account.module;
            let state = match () {
                () if !target::is_selected(&registry, address) => "left out",
                () if self.frozen.is_some() => "off",
                () if modes::mode_is_sample(function) => "timed",
                () if modes::mode_counts(function) => "counted",
                () => "idle",
            };
            let label = self.names.label(&registry, module, address, true);
            let place =
                module.and_then(|at| registry.entries.get(at)).map(|entry| &entry.module.name);
            let _ = writeln!(
                text,
                "{:>12}  {state:<8}  {}{}",
                account.told - account.earlier,
                label.name,
                place.map(|name| format!(" ({name})")).unwrap_or_default()
            );
        }
        text
    }

    /// Ends measuring for good, when the last profile is written.
    pub(super) fn retire_for_good(&mut self) {
        self.silence();
        self.control = Control::default();
        target::end_for_good();
    }
}

fn require_no_unloading() -> Result<(), String> {
    match unloading::is_going_on() {
        false => Ok(()),
        true => Err("the program is unloading a library: ask again".to_owned()),
    }
}

/// A share as it is written.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

/// The selected functions, of those that have probes.
fn selected_functions() -> Vec<functions::Id> {
    let registry = lock_registry();
    let is_selected = |id: &functions::Id| {
        let address = id.function().address.load(Acquire);
        target::is_selected(&registry, CodeAddr::new(address as usize))
    };
    functions::all().filter(is_selected).collect()
}
