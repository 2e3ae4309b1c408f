//! Host functions that the program does not import: it gets references to them, and calls those.

use super::{Refusal, State};
use crate::instrument::runtime::Call;
use crate::{Func, StoreContextMut, signature};
use wasm_aot_trace::{Event, Sink};

/// The host functions to which the program has got references.
#[derive(Debug, Default)]
pub(super) struct HostFunctions {
    /// In the order in which it got them.
    pub(super) known: Vec<Func>,
    /// For each call that is none of an import and has not ended, whether the program made it.
    calls: Vec<bool>,
}

impl<S: Sink> State<S> {
    /// The index of a function: of the program, or of the host.
    pub(super) fn function(
        &mut self,
        store: &mut StoreContextMut<'_, ()>,
        function: Func,
    ) -> Result<u32, Refusal> {
        if let Some(index) = self.index_of(store, function.into()) {
            return Ok(index);
        }
        if let Some(index) = self.host_function(function) {
            return Ok(index);
        }
        if !function.is_host(store.core()) {
            return Err("a reference to a function of an instance that is not recorded".into());
        }
        let ty = function.ty(&mut *store).map_err(|error| error.to_string())?;
        let signature = signature::traced(&ty)
            .ok_or_else(|| format!("a host function of a type that traces do not have: {ty}"))?;
        self.push(Event::Function(signature));
        self.host_functions.known.push(function);
        Ok(self.declared.functions() + self.host_functions.known.len() as u32 - 1)
    }

    fn host_function(&self, function: Func) -> Option<u32> {
        let at = self.host_functions.known.iter().position(|known| *known == function)?;
        Some(self.declared.functions() + at as u32)
    }

    /// The function of the host that the program calls; nothing if another caller calls it.
    pub(super) fn called(&mut self, call: Call) -> Result<Option<u32>, Refusal> {
        if let Some(part) = self.part_of(call.instance) {
            return self.import_of(part, call.import).map(Some);
        }
        let function = self.host_function(call.function).filter(|_| self.is_programs_turn);
        self.host_functions.calls.push(function.is_some());
        Ok(function)
    }

    /// Whether a call of the host that has ended is one that the program made.
    pub(super) fn has_called(&mut self, call: Call) -> bool {
        self.part_of(call.instance).is_some() || self.host_functions.calls.pop() == Some(true)
    }
}
