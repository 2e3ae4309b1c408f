//! Introduces each module, before its first instance begins, to the instrument that observes all
//! modules of the process.

use super::module::Module;
use std::sync::OnceLock;

/// The instrument that observes all modules, if there is one.
static MEETS_ALL: OnceLock<fn(&Module)> = OnceLock::new();

/// Has every module of this process introduced to an instrument before its first instance begins.
/// There is only one such instrument; a second one is ignored.
pub fn introduce_all_to(meet: fn(&Module)) {
    let _ = MEETS_ALL.set(meet);
}

/// The state of a module's introduction.
#[derive(Debug, Default)]
pub(super) struct Introduction {
    title: OnceLock<String>,
    is_made: OnceLock<()>,
}

impl Module {
    /// Sets the module's title in reports of the process: the name of its file, for instance. The
    /// first title counts; without one it is the module's own name.
    pub fn entitle(&self, title: &str) {
        self.inner.introduction.title.get_or_init(|| title.to_owned());
    }

    /// Its title in such reports.
    pub fn title(&self) -> &str {
        let title = self.inner.introduction.title.get().map(String::as_str);
        title.or(self.name()).unwrap_or("wasm")
    }

    /// Introduces it, once. Another thread that begins an instance meanwhile waits.
    pub(super) fn introduce(&self) {
        if let Some(meet) = MEETS_ALL.get() {
            self.inner.introduction.is_made.get_or_init(|| meet(self));
        }
    }
}
