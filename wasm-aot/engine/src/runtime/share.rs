//! A client's share of a module's counters: what was counted while the client observed.
//!
//! Counters are shared by all clients and never reset, and may continue to count while one client
//! does not observe. What they count then is saved, and subtracted from that client's report. A
//! thread that leaves code that counts after the last client has gone is still counted for that
//! client.

use super::counts::Reading;
use super::module::Module;

/// A share of what a module's counters say.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// What they have said when it ended, if they had anything to say. None while it goes on.
    ended: Ended,
    /// What was counted while it did not go on.
    foreign: Reading,
}

/// Whether what is counted belongs to a share.
#[derive(Clone, Debug)]
enum Ended {
    Not,
    /// It does not since counters said that, if there were any; nor to another's, if counting
    /// has not begun again since that turn.
    Since(Option<Reading>, Option<u64>),
}

impl Default for Ended {
    fn default() -> Self {
        Self::Since(None, None)
    }
}

impl Share {
    /// All that was ever counted.
    pub fn whole() -> Self {
        Self { ended: Ended::Not, foreign: Reading::default() }
    }

    /// Whether it goes on.
    pub fn goes_on(&self) -> bool {
        matches!(self.ended, Ended::Not)
    }

    /// It goes on: before the code is had to count for it.
    pub fn begin(&mut self, module: &Module) {
        let Ended::Since(since, idle) = &self.ended else { return };
        let foreign = match (module.reading(), since) {
            _ if is_idle(module, *idle) => Reading::default(),
            (Some(now), Some(since)) => now.since(since),
            (now, _) => now.unwrap_or_default(),
        };
        self.foreign = std::mem::take(&mut self.foreign).and(&foreign);
        self.ended = Ended::Not;
    }

    /// It ends: after the code was told not to count for it.
    pub fn end(&mut self, module: &Module) {
        self.ended = Ended::Since(module.reading(), module.idle_since());
    }

    /// What belongs to it so far, if frames wait at these addresses; none if nothing was ever
    /// counted.
    pub fn reading(&mut self, module: &Module, waiting: &[usize]) -> Option<Reading> {
        if let Ended::Since(since, idle) = &mut self.ended
            && is_idle(module, *idle)
        {
            *since = module.reading();
        }
        let reading = match &self.ended {
            Ended::Not => module.reading_at(waiting),
            Ended::Since(Some(since), _) => Some(since.clone()),
            // Nothing was counted so far that could be its own.
            Ended::Since(None, _) => module.reading().map(|now| now.clone().since(&now)),
        };
        reading.map(|reading| reading.since(&self.foreign))
    }
}

/// Whether nothing was counted since that turn.
fn is_idle(module: &Module, since: Option<u64>) -> bool {
    since.is_some() && since == module.idle_since()
}
