//! Merges the reports of several threads.

use super::name::{EXIT, is_report};
use super::{Observation, ObserverError};
use wasm_aot_body::report::{Declaration, SECTION};
use wasm_aot_engine::instrument::runtime::ModuleInner;
use wasmparser::{Parser, Payload};

/// Why the reports of several instances of a module cannot be merged, if so. A module without
/// reports leaves the merging to the reader of its memory.
pub(super) fn unmergeable(module: &ModuleInner) -> Option<String> {
    let reports = |name: &str| name == EXIT || is_report(name);
    module.info.exports.iter().find(|export| reports(&export.name))?;
    match declaration(module) {
        None => Some(format!(
            "it reports, and does not say (in a section {SECTION}) what of that can be added up"
        )),
        Some(declaration) => {
            declaration.refused().map(|why| format!("what it reports cannot be merged: {why}"))
        }
    }
}

/// A module's declaration of its reports.
pub(super) fn declaration(module: &ModuleInner) -> Option<Declaration> {
    let own = |payload| match payload {
        Ok(Payload::CustomSection(section)) if section.name() == SECTION => Some(section.data()),
        _ => None,
    };
    Parser::new(0).parse_all(&module.bytes).find_map(own).and_then(Declaration::read)
}

impl Observation {
    /// Merges the reports that the instances of a monitor have made of their threads: rows of
    /// variables that are only added to are summed.
    pub fn merged(&self, name: &str, reports: &[&str]) -> Result<String, ObserverError> {
        let refused = |why: String| ObserverError::Threads { monitor: name.to_owned(), why };
        let monitors = self.monitors.lock();
        let Some(monitor) = monitors.iter().find(|monitor| monitor.observer.name() == name) else {
            return Err(refused("it does not look at the program".into()));
        };
        let module = &monitor.observer.module.inner();
        match declaration(module) {
            None => {
                Err(refused(unmergeable(module).unwrap_or_else(|| "it reports nothing".into())))
            }
            Some(declaration) => declaration
                .merge(reports)
                .map_err(|why| refused(format!("what it reports cannot be merged: {why}"))),
        }
    }
}
