//! Requests to the session of a running program, as lines: `status`, `attach hotness,top=5`,
//! `report json hotness`, `detach all`. The control socket of `wasm-aot run` takes these requests,
//! and so does an embedder's ([`Requests::steered`](crate::recording::Requests)), or any other
//! source of lines that an embedder has.
//!
//! It takes the requests of native programs ([`control::Request`]), and some of its own. Requests
//! that change what is measured apply to attached built-in monitors, which then begin again.

use control::Request;
use profiler::Packing;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasm_aot_instrument::monitor::Report;
use wasm_aot_instrument::observer::Switched;
use wasm_aot_instrument::session::{Attached, Client, ClientKind, Session, SessionError, Set};

/// Monitors that make a profile, the cheapest first.
const TIMING: [&str; 2] = ["latency", "profile"];
/// The only monitor with a budget.
const BUDGETED: &str = "latency";

/// A session that takes requests as lines.
///
/// ```
/// use std::sync::Arc;
/// use wasm_aot::monitor::MonitorSet;
/// use wasm_aot::observer::Observation;
/// use wasm_aot::session::Session;
/// use wasm_aot::steering::Steering;
/// use wasm_aot::{Engine, Linker, Module, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (func (export "f") (call $g)) (func $g))"#)?;
/// let monitors = Arc::new(MonitorSet::of(&module));
/// let session = Arc::new(Session::new(Arc::new(Observation::of(&module)), monitors));
/// let steering = Steering::new("server.wasm", session);
/// let mut store = Store::new(&engine, ());
/// let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
/// let f = instance.get_typed_func::<(), ()>(&mut store, "f")?;
///
/// steering.obey("attach icount")?;
/// f.call(&mut store, ())?;
/// let report = String::from_utf8(steering.obey("report csv icount")?)?;
/// assert!(report.starts_with("monitor,function,"));
/// assert!(steering.obey("attach nothing").unwrap_err().contains("no monitor is called nothing"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Steering {
    program: String,
    session: Arc<Session>,
    begun: Instant,
}

impl Steering {
    /// Steers the session of a program with this name in lists of programs.
    pub fn new(program: impl Into<String>, session: Arc<Session>) -> Self {
        Self { program: program.into(), session, begun: Instant::now() }
    }

    /// The session of the program.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Obeys a request; returns a text, or the bytes of a profile; or one line that says why not.
    pub fn obey(&self, line: &str) -> Result<Vec<u8>, String> {
        survived(|| self.obey_shared(line))
    }

    fn obey_shared(&self, line: &str) -> Result<Vec<u8>, String> {
        let text = match Request::parse(line) {
            Ok(Request::Snapshot) => return self.snapshot(),
            Ok(Request::Status) => Ok(self.status("")),
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

    fn obey_own(&self, line: &str, why: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
        match (verb, &rest[..]) {
            ("attach", [_, ..]) => {
                let monitor = line.strip_prefix("attach").unwrap_or_default().trim();
                let attached = self.session.attach(monitor).map_err(said)?;
                Ok(attached_as(monitor, &attached))
            }
            ("detach", [_, ..]) => self.detach(&rest.join(" ")),
            ("on", _) => self.set(&rest.join(" "), true),
            ("off", _) => self.set(&rest.join(" "), false),
            ("report", [format]) => self.report(None, format),
            ("report", [format, monitor @ ..]) => self.report(Some(&monitor.join(" ")), format),
            ("sites", []) => Ok(self.sites()),
            ("explain", []) => self.explain(),
            ("budget" | "only" | "exclude", _) => Err(why.to_owned()),
            _ => Err(format!("{why}; or attach, detach, report or explain")),
        }
    }

    /// The program, and the attached monitors; `turns` is added after whether it observes.
    pub fn status(&self, turns: &str) -> String {
        let mut text =
            format!("program   {}\nrunning   {:.1?}\n", self.program, self.begun.elapsed());
        let on = if self.session.is_on() { "on" } else { "off" };
        let _ = writeln!(text, "observing {on}{turns}");
        for Client { name, kind, text: options, since, is_on, probes, .. } in self.session.clients()
        {
            let _ = match (kind, probes) {
                (ClientKind::Compiled, _) => {
                    writeln!(text, "compiled  {name} from the beginning")
                }
                (ClientKind::Attached, _) => {
                    let time = since.map_or(Duration::ZERO, |since| since.elapsed());
                    let rests = if is_on { "" } else { ", off" };
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
        let done = self.session.set(which, on).map_err(said)?;
        Ok(match done {
            Set::Whole if on => format!("{which} is on\n"),
            Set::Whole => format!("{which} is off and keeps its results\n"),
            Set::Probes(Switched { on: now, all, .. }) => {
                let on = if on { "on" } else { "off" };
                format!("{which} is {on}: {now} of {all} probes are called\n")
            }
        })
    }

    fn switch(&self, on: bool) -> Result<String, String> {
        self.session.set_all(on).map_err(said)?;
        let state = if on { "are on\n" } else { "are off and keep their results\n" };
        Ok(format!("attached monitors {state}"))
    }

    /// How each client was lowered in the program's code.
    fn explain(&self) -> Result<String, String> {
        let each = self.session.explain();
        match each.is_empty() {
            true => Err("nothing is attached".into()),
            false => Ok(each.iter().map(ToString::to_string).collect()),
        }
    }

    /// The profile of a monitor that measures times, in the file format.
    fn snapshot(&self) -> Result<Vec<u8>, String> {
        let has_times = |client: &&Client| {
            client.kind != ClientKind::Module && TIMING.contains(&client.monitor.as_str())
        };
        let clients = self.session.clients();
        let client = clients.iter().find(has_times).ok_or_else(|| {
            format!("no monitor that measures times is attached: attach {}", TIMING.join(" or "))
        })?;
        let reports = self.session.reports(Some(&client.name)).map_err(said)?;
        let profile = reports.into_iter().find_map(|(_, report)| report?.profile);
        let profile = profile.ok_or_else(|| format!("{} has no results yet", client.name))?;
        Ok(profile.make().to_bytes(Packing::Plain))
    }

    /// Reports of built-in monitors so far.
    fn report(&self, monitor: Option<&str>, format: &str) -> Result<String, String> {
        let reports = self.session.reports(monitor).map_err(said)?;
        let reports = reports.into_iter().filter_map(|(client, report)| Some((client, report?)));
        let joined = |write: fn(&Report) -> String| {
            let texts: Vec<String> = reports.clone().map(|(_, report)| write(&report)).collect();
            texts.join("\n")
        };
        match format {
            // The names that commands of other versions use.
            "table" | "text" => Ok(joined(Report::text)),
            "csv" => Ok(joined(Report::csv)),
            "json" => {
                let each = reports.map(|(client, report)| (client.name, report.json()));
                Ok(serde_json::Value::Object(each.collect()).to_string() + "\n")
            }
            _ => Err(format!("{format}: not a format; use table, json or csv")),
        }
    }

    /// Makes monitors observe only the functions that match patterns, or exclude these.
    fn select(&self, option: &str, patterns: &[String]) -> Result<String, String> {
        let is_other = |pattern: &&String| {
            pattern.contains(',') || pattern.starts_with(['/', '@']) || pattern.starts_with("file:")
        };
        if let Some(other) = patterns.iter().find(is_other) {
            return Err(format!(
                "{other}: functions of WebAssembly are selected by globs without commas, such as parse_*"
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
            true => Err(format!("only the monitor {BUDGETED} has a budget")),
            false => Ok(text),
        }
    }

    /// Attaches those of the built-in monitors again that are wanted, with the options that
    /// `change` makes of their own.
    fn again(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        change: impl Fn(&str) -> String,
    ) -> Result<String, String> {
        let mut attached = self.session.clients();
        attached.retain(|client| client.kind == ClientKind::Attached);
        if attached.is_empty() {
            return Err(format!("no built-in monitor is attached: attach {BUDGETED}"));
        }
        let mut text = String::new();
        for client in attached.iter().filter(|client| is_wanted(&client.monitor)) {
            let options = change(&client.text);
            self.session.attach_anew(&options).map_err(said)?;
            let _ = writeln!(text, "{options} is restarted");
        }
        Ok(text)
    }

    fn sites(&self) -> String {
        let module = self.session.module();
        let (all, loops, patchable) =
            (module.sites(), module.loop_sites(), module.patchable_sites());
        let state = if self.session.is_attached() { "on" } else { "off" };
        let mut text = format!(
            "functions {} sites, {state}\nloops {loops} sites, {state}\n",
            all - loops - patchable
        );
        if patchable > 0 {
            let _ = writeln!(
                text,
                "instructions {} at {patchable} sites",
                module.patchable_instructions()
            );
        }
        text
    }

    fn detach(&self, monitor: &str) -> Result<String, String> {
        Ok(match monitor {
            "all" => {
                self.session.detach_all().map_err(said)?;
                "all attached monitors are detached\n".into()
            }
            _ => {
                self.session.detach(monitor).map_err(said)?;
                format!("{monitor} is detached\n")
            }
        })
    }
}

/// The answer when a monitor was attached.
pub fn attached_as(monitor: &str, Attached { name, before, .. }: &Attached) -> String {
    let when = "takes effect at each function's next call or loop iteration";
    match before {
        Some(before) if before == monitor => format!("{monitor} is already attached\n"),
        Some(before) => format!("{monitor} is attached in place of {before}: {when}\n"),
        None => format!("{name} is attached: {when}\n"),
    }
}

/// Obeys a request. A panic is reported to the caller only.
pub fn survived<T>(obey: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(obey)).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        Err(format!(
            "internal error in wasm-aot; please report it: {}",
            why.unwrap_or("it does not say why")
        ))
    })
}

/// Formats an error.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn said(error: SessionError) -> String {
    error.to_string()
}

/// The text by which a monitor was attached, without one of its options.
fn without(text: &str, option: &str) -> String {
    let is_other = |part: &&str| part.split('=').next() != Some(option);
    text.split(',').filter(is_other).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        let told = survived::<&str>(|| panic!("the {} is lost", "way"));
        assert_eq!(
            told,
            Err("internal error in wasm-aot; please report it: the way is lost".into())
        );
        assert_eq!(survived(|| Ok("yes")), Ok("yes"));
    }

    #[test]
    fn options_are_left_out_by_name() {
        let text = "latency,function=a*,top=5,function=b";
        assert_eq!(without(text, "function"), "latency,top=5");
        assert_eq!(without(text, "exclude"), text);
    }
}
