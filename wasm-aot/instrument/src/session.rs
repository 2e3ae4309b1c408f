//! One session for everything that observes a program: static monitors, attached ones and monitor
//! modules. They have one name space and one set of verbs, so that a user (`ctl`, an embedder) has
//! a single interface.
//!
//! ```text
//!   Session ──▶ clients: name, kind, whether it observes, what became of it
//!      │ attach, detach, set, report, events, explain
//!      ├── MonitorSet   built in: static, or attached while the program runs
//!      └── Observation  modules, from the beginning or attached
//! ```
//!
//! Two clients of one name are distinguished by their kinds: the one that is later in the order
//! above is called `NAME (attached)`, `NAME (module)`, `NAME (module 2)`.

use crate::lower::{Census, Lowering};
use crate::monitor::{AttachError, MonitorSet, Report};
use crate::observer::{Matched, Observation, ObserverError, Selection, SelectionError, Switched};
use std::fmt::{self, Display};
use std::sync::Arc;
use wasm_aot_engine::{Error, Module};

pub use crate::client::{Client, ClientKind};

/// A monitor that was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// The monitor that it has replaced, with its options.
    pub before: Option<String>,
    /// How many probes a module has, plus its functions that the engine calls.
    pub matches: usize,
}

/// The result of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// A built-in monitor observes, or rests.
    Whole,
    /// Probes of a module.
    Probes(Switched),
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is nothing that could be switched.
    #[error("nothing is attached")]
    Nothing,
    /// No client has that name.
    #[error("{0} is not attached")]
    NotAttached(String),
    /// It is compiled in.
    #[error("{0} is compiled in, and observes to the end: only what was attached can be switched")]
    Compiled(String),
    /// Probes of it are selected, and it is no module.
    #[error("{0} is built in, and is switched as a whole: on {0}, or off {0}")]
    OnlyWhole(String),
    /// The module is attached already, with the same options.
    #[error("{0} looks at the program already: detach it first")]
    Already(String),
    /// Calls of these are not counted.
    #[error("{0}: its calls are not counted: say how long, as burst 10ms 990ms")]
    NotCounted(String),
    /// A built-in monitor is not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A module is not attached.
    #[error(transparent)]
    Observer(#[from] ObserverError),
    /// No probe is selected.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The code cannot be changed.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// How a client was lowered in the program's code.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Its name in its session.
    pub name: String,
    pub(crate) lowering: Lowering,
    pub(crate) census: Census,
}

impl Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Census { one_shot, inlined, called } = self.census;
        writeln!(f, "{}: {}", self.name, self.lowering)?;
        let kinds = [(one_shot, "one-shot"), (inlined, "inlined"), (called, "called")].into_iter();
        let kinds: Vec<String> = kinds
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        if !kinds.is_empty() {
            writeln!(f, "    probes: {}", kinds.join(", "))?;
        }
        self.lowering.reasons.iter().try_for_each(|reason| writeln!(f, "    {reason}"))
    }
}

/// All that observes one program.
///
/// ```
/// use std::sync::Arc;
/// use wasm_aot_engine::{Engine, Linker, Module, Store};
/// use wasm_aot_instrument::monitor::MonitorSet;
/// use wasm_aot_instrument::observer::Observation;
/// use wasm_aot_instrument::session::Session;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::default();
/// let text = r#"(module (func (export "f") (call $g) (call $g)) (func $g))"#;
/// let module = Module::new(&engine, wat::parse_str(text)?)?;
/// let monitors = Arc::new(MonitorSet::of(&module));
/// let session = Session::new(Arc::new(Observation::of(&module)), monitors);
/// let mut store = Store::new(&engine, ());
/// let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
/// let f = instance.get_func(&mut store, "f").expect("exported");
///
/// session.attach("icount")?;
/// f.call(&mut store, &[])?;
/// let (client, report) = session.reports(Some("icount"))?.swap_remove(0);
/// assert!(client.is_on && report.is_some_and(|report| report.rows.len() == 2));
/// assert!(session.explain()[0].to_string().starts_with("icount: edge counters"));
///
/// session.detach("icount")?;
/// assert!(session.clients().is_empty() && session.detach("icount").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    observation: Arc<Observation>,
    built_in: Arc<MonitorSet>,
}

impl Session {
    /// A session of a program with its monitor modules, and its built-in monitors.
    pub fn new(observation: Arc<Observation>, built_in: Arc<MonitorSet>) -> Self {
        built_in.bind(observation.module());
        Self { observation, built_in }
    }

    /// The program.
    pub fn module(&self) -> &Module {
        self.observation.module()
    }

    /// The monitor modules of the program.
    pub fn observation(&self) -> &Arc<Observation> {
        &self.observation
    }

    /// All clients, each with a name of its own.
    pub fn clients(&self) -> Vec<Client> {
        let mut clients: Vec<Client> = Vec::new();
        for client in self.built_in.clients().into_iter().chain(self.observation.clients()) {
            let name = own_name(&clients, &client);
            clients.push(Client { name, ..client });
        }
        clients
    }

    fn client(&self, name: &str) -> Result<Client, SessionError> {
        let found = self.clients().into_iter().find(|client| client.name == name);
        found.ok_or_else(|| SessionError::NotAttached(name.into()))
    }

    /// The client of that name that can be detached: a compiled one may have the same name.
    fn guest(&self, name: &str) -> Result<Client, SessionError> {
        let client = self.client(name)?;
        match client.kind {
            ClientKind::Compiled => {
                let other = format!("{name} (attached)");
                self.client(&other).map_err(|_| SessionError::Compiled(name.into()))
            }
            ClientKind::Attached | ClientKind::Module => Ok(client),
        }
    }

    /// Whether any client observes at the moment.
    pub fn is_on(&self) -> bool {
        self.clients().iter().any(|client| client.is_on)
    }

    /// Whether any attached client observes.
    pub fn is_attached(&self) -> bool {
        self.built_in.is_on()
    }

    /// The clients that can be switched, or an error if there are none.
    fn guests(&self) -> Result<Vec<Client>, SessionError> {
        let guests: Vec<Client> = self.clients().into_iter().filter(Client::can_go).collect();
        if guests.is_empty() { Err(SessionError::Nothing) } else { Ok(guests) }
    }

    /// Attaches a built-in monitor, in place of one with the same name.
    pub fn attach(&self, text: &str) -> Result<Attached, SessionError> {
        let name = text.split(',').next().unwrap_or_default();
        let before = self
            .clients()
            .into_iter()
            .find(|client| client.kind == ClientKind::Attached && client.monitor == name);
        let before = before.map(|client| client.text);
        let name = self.built_in.attach(text)?.to_owned();
        Ok(Attached { name, before, matches: 0 })
    }

    /// Attaches a built-in monitor in place of one with the same name, and discards its earlier
    /// data, even with the same options.
    pub fn attach_anew(&self, text: &str) -> Result<(), SessionError> {
        self.built_in.attach_anew(text)?;
        Ok(())
    }

    /// Whether a module may be attached with this text: it is not attached with the same options,
    /// and one with other options can be replaced.
    pub fn admit(&self, name: &str, text: &str) -> Result<(), SessionError> {
        match self.observation.client(name) {
            Some(client) if !client.can_go() || client.text == text => {
                Err(SessionError::Already(name.into()))
            }
            _ => Ok(()),
        }
    }

    /// Attaches a module that was matched with the program, in place of one with the same name.
    pub fn attach_module(&self, matched: Matched) -> Result<Attached, SessionError> {
        let name = matched.name().to_owned();
        let before = self.observation.client(&name);
        if before.is_some() {
            self.observation.detach(&name)?;
        }
        let matches = self.observation.attach(matched)?;
        Ok(Attached { name, before: before.map(|client| client.text), matches })
    }

    /// Detaches a client. What it has seen stays.
    pub fn detach(&self, name: &str) -> Result<(), SessionError> {
        let client = self.guest(name)?;
        if !client.can_go() {
            return Err(SessionError::Compiled(client.name));
        }
        match client.kind {
            ClientKind::Module => self.observation.detach_client(client.number)?,
            ClientKind::Attached | ClientKind::Compiled => self.built_in.detach(&client.monitor)?,
        };
        Ok(())
    }

    /// Detaches all clients that can be detached.
    pub fn detach_all(&self) -> Result<(), SessionError> {
        self.built_in.detach_all()?;
        for client in self.clients().iter().filter(|client| client.kind == ClientKind::Module) {
            self.observation.detach_client(client.number)?;
        }
        Ok(())
    }

    /// Has one client observe, or rest; of a module, perhaps only some probes:
    /// `NAME[:RULE][@FUNCTION][+OFFSET]`.
    pub fn set(&self, which: &str, on: bool) -> Result<Set, SessionError> {
        match self.guest(which) {
            Ok(client) if client.kind == ClientKind::Module => {
                let selection = Selection::whole(which);
                let done = self.observation.switch_client(client.number, &selection, on)?;
                return Ok(Set::Probes(done));
            }
            Ok(client) => {
                self.built_in.switch_one(&client.monitor, on)?;
                return Ok(Set::Whole);
            }
            Err(SessionError::Compiled(name)) => return Err(SessionError::Compiled(name)),
            Err(_) => {}
        }
        let selection: Selection = which.parse()?;
        let done = match self.guest(selection.monitor()) {
            Ok(client) if client.kind == ClientKind::Module => {
                self.observation.switch_client(client.number, &selection, on)
            }
            Ok(client) => return Err(SessionError::OnlyWhole(client.name)),
            Err(_) => self.observation.switch(&selection, on),
        };
        done.map(Set::Probes).map_err(|error| match error {
            // Those that are built in can be switched, too.
            SelectionError::NoMonitor { monitor, .. } => {
                let known = self.clients().into_iter().filter(Client::can_go);
                let known = known.map(|client| client.name).collect();
                SelectionError::NoMonitor { monitor, known }.into()
            }
            other => other.into(),
        })
    }

    /// Has all clients that can be switched observe, or rest.
    pub fn set_all(&self, on: bool) -> Result<(), SessionError> {
        self.guests()?;
        self.built_in.switch(on)?;
        self.observation.rest(on)?;
        Ok(())
    }

    /// Starts to count the events that a burst waits for.
    pub fn count_events(&self) -> Result<(), SessionError> {
        let guests = self.guests()?;
        let counted = self.observation.count_events()?;
        if counted || guests.iter().any(|client| client.kind == ClientKind::Attached) {
            return Ok(());
        }
        let names: Vec<String> = guests.into_iter().map(|client| client.name).collect();
        Err(SessionError::NotCounted(names.join(", ")))
    }

    /// Returns an error if no client can be switched.
    pub fn require(&self) -> Result<(), SessionError> {
        self.guests().map(drop)
    }

    /// How many events the attached clients have seen so far.
    pub fn events(&self) -> u64 {
        self.built_in.events() + self.observation.events()
    }

    /// All clients, or the one of that name, with their reports so far. A module has to report on
    /// the program's thread, see [`Observation::report_of`].
    pub fn reports(
        &self,
        name: Option<&str>,
    ) -> Result<Vec<(Client, Option<Report>)>, SessionError> {
        let clients = self.clients();
        let wanted: Vec<Client> = clients
            .into_iter()
            .filter(|client| name.is_none_or(|name| is_meant(client, name)))
            .collect();
        if wanted.is_empty() {
            return Err(
                name.map_or(SessionError::Nothing, |name| SessionError::NotAttached(name.into()))
            );
        }
        let each = wanted.into_iter().map(|client| {
            let report = match client.kind {
                ClientKind::Compiled | ClientKind::Attached => {
                    self.built_in.report_of(client.number)
                }
                ClientKind::Module => None,
            };
            (client, report)
        });
        Ok(each.collect())
    }

    /// How each client was lowered in the program's code, and why not more cheaply.
    pub fn explain(&self) -> Vec<Explanation> {
        let each = self.clients().into_iter().filter_map(|client| {
            let (lowering, census) = match client.kind {
                ClientKind::Compiled | ClientKind::Attached => {
                    self.built_in.explain(client.number)?
                }
                ClientKind::Module => self.observation.explain(client.number)?,
            };
            Some(Explanation { name: client.name, lowering, census })
        });
        each.collect()
    }
}

/// A unique name of a client, among those before it.
fn own_name(before: &[Client], client: &Client) -> String {
    let is_taken = |name: &str| before.iter().any(|other| other.name == name);
    if !is_taken(&client.name) {
        return client.name.clone();
    }
    let kind = match client.kind {
        ClientKind::Compiled => "compiled",
        ClientKind::Attached => "attached",
        ClientKind::Module => "module",
    };
    let first = std::iter::once(format!("{} ({kind})", client.name));
    let further = (2..).map(|number| format!("{} ({kind} {number})", client.name));
    first.chain(further).find(|name| !is_taken(name)).unwrap_or_default()
}

/// Whether a name means a client: its own, or that of a monitor that is present twice.
fn is_meant(client: &Client, name: &str) -> bool {
    client.name == name || client.name.strip_prefix(name).is_some_and(|rest| rest == " (attached)")
}
