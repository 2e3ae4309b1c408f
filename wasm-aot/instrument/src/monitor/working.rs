//! A built-in monitor at work, compiled in or attached.

use super::hooked::Hooked;
use super::{Choice, MonitorError, Report, Source};
use crate::lower::Facts;
use std::sync::Arc;
use wasm_aot_engine::instrument::runtime::{Counts, Module};

/// What was chosen, and what keeps what it sees, if that has code of its own.
#[derive(Debug)]
pub(super) struct Working {
    pub(super) choice: Choice,
    pub(super) hooked: Option<Arc<dyn Hooked>>,
}

impl Working {
    /// Makes a monitor ready. The files that it writes to are there afterwards.
    pub(super) fn begin(mut choice: Choice) -> Result<Self, MonitorError> {
        let hooked = match choice.kind.source {
            Source::Hooks(begin) => Some(begin(&choice)?),
            Source::Counts { .. } => {
                choice.open_profile()?;
                None
            }
        };
        Ok(Self { choice, hooked })
    }

    /// What is known of it before it is lowered.
    pub(super) fn facts(&self) -> Facts {
        self.hooked.as_ref().map_or(Facts::Counts, |hooked| hooked.facts())
    }

    /// What it has to say, by these counts if it is made of counts.
    pub(super) fn report(
        &self,
        module: &Module,
        counts: impl FnOnce() -> Option<Counts>,
    ) -> Option<Report> {
        let mut report = match &self.hooked {
            Some(hooked) => Report { shown: self.choice.top(), ..hooked.report(module) },
            None => self.choice.report_of(&counts()?)?,
        };
        self.choice.nobody(module).into_iter().for_each(|nobody| report.remark(nobody));
        Some(report)
    }
}
