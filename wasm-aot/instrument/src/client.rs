//! The description of one client: a monitor of whatever kind that observes a program.

use std::time::Instant;

/// What kind of client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A built-in monitor that observes from the beginning to the end.
    Compiled,
    /// A built-in monitor that was attached.
    Attached,
    /// A monitor that is a module.
    Module,
}

/// A monitor that observes the program.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its unique name in its session.
    pub name: String,
    /// The name of its monitor, which other clients may have, too.
    pub monitor: String,
    /// Its kind.
    pub kind: ClientKind,
    /// The text of the request: its name with its options, as far as they are known.
    pub text: String,
    /// Since when it is attached.
    pub since: Option<Instant>,
    /// Whether it observes at the moment.
    pub is_on: bool,
    /// Of a module that can be switched: how many of its probes are on, of how many.
    pub probes: Option<(usize, usize)>,
    /// Its number among all clients that ever observed, modules or others.
    pub number: usize,
}

impl Client {
    /// Whether it can be switched and detached.
    pub fn can_go(&self) -> bool {
        match self.kind {
            ClientKind::Compiled => false,
            ClientKind::Attached => true,
            ClientKind::Module => self.probes.is_some(),
        }
    }
}
