//! A client's share of a module's counters: what was counted while the client observed.
//!
//! Counters are shared by all clients and never reset, and may continue to count while one client
//! does not observe. What they count then is saved, and subtracted from that client's report. A
//! thread that leaves code that counts after the last client has gone is still counted for that
//! client.

use super::counts::Reading;
use super::module::Module;

/// A client's share of a module's counters.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Whether it has ended, and the counters then.
    ended: Ended,
    /// What was counted while the client did not observe.
    foreign: Reading,
}

/// Whether a share has ended.
#[derive(Clone, Debug)]
enum Ended {
    Not,
    /// It ended at this reading of the counters, if there were any. The number is the turn of
    /// counting, if no client was left to count for: until counting begins again, further counts
    /// still belong to this share.
    Since(Option<Reading>, Option<u64>),
}

impl Default for Ended {
    fn default() -> Self {
        Self::Since(None, None)
    }
}

impl Share {
    /// A share of everything that was ever counted.
    pub fn whole() -> Self {
        Self { ended: Ended::Not, foreign: Reading::default() }
    }

    /// Whether its client observes.
    pub fn goes_on(&self) -> bool {
        matches!(self.ended, Ended::Not)
    }

    /// Its client begins to observe. Called before the code is switched to count.
    pub fn begin(&mut self, module: &Module) {
        let Ended::Since(since, idle) = &self.ended else { return };
        let foreign = match is_idle(module, *idle) {
            true => Reading::default(),
            false => match (module.reading(), since) {
                (Some(now), Some(since)) => now.since(since),
                (now, _) => now.unwrap_or_default(),
            },
        };
        self.foreign = std::mem::take(&mut self.foreign).and(&foreign);
        self.ended = Ended::Not;
    }

    /// Its client stops observing. Called after the code was switched.
    pub fn end(&mut self, module: &Module) {
        self.ended = Ended::Since(module.reading(), module.idle_since());
    }

    /// Its counts so far, with frames that wait at these addresses; none if nothing was ever
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
            // None of the counts so far belong to it.
            Ended::Since(None, _) => module.reading().map(|now| now.clone().since(&now)),
        };
        reading.map(|reading| reading.since(&self.foreign))
    }
}

/// Whether nothing was counted since that turn.
fn is_idle(module: &Module, since: Option<u64>) -> bool {
    since.is_some() && since == module.idle_since()
}
