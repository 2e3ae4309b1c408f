//! Host functions that the program does not import: the trace acts for them, too.

use super::{Script, Shared};
use crate::{AsContextMut, Caller, Error, Func, Val, signature};
use std::sync::{Mutex, Weak};
use wasm_aot_trace::Signature;

/// The host functions of a trace, in their order.
#[derive(Default)]
pub(super) struct HostFunctions {
    /// Their types; and the functions to which the program has got references.
    all: Vec<(Signature, Option<Func>)>,
    /// The script that acts for them.
    script: Weak<Mutex<Script>>,
}

impl HostFunctions {
    pub(super) fn set_script(&mut self, script: &Shared) {
        self.script = std::sync::Arc::downgrade(&script.0);
    }

    pub(super) fn add(&mut self, signature: Signature) {
        self.all.push((signature, None));
    }

    /// Whether a function of the program's store is the one of that number.
    pub(super) fn is(&self, number: u32, function: Func) -> bool {
        self.all.get(number as usize).is_some_and(|(_, own)| *own == Some(function))
    }
}

impl Script {
    /// The function of that index, made if it is new.
    pub(super) fn host_function<T: 'static>(
        &mut self,
        store: &mut impl AsContextMut<Data = T>,
        index: u32,
    ) -> Result<Func, Error> {
        let HostFunctions { all, script } = &mut self.host_functions;
        let number = (index - self.functions) as usize;
        let (signature, function) = all.get_mut(number).ok_or_else(|| {
            Error::Link(format!("the trace refers to function {index} before it has its type"))
        })?;
        if let Some(function) = function {
            return Ok(*function);
        }
        let script = script.clone();
        let body = move |caller: Caller<'_, T>, args: &[Val], results: &mut [Val]| {
            let script = script.upgrade().map(Shared);
            let script = script.ok_or_else(|| Error::Link("the replay is over".into()))?;
            script.called(caller, index, args, results)
        };
        let ty = signature::function_type(signature);
        Ok(*function.insert(Func::new(store.as_context_mut(), ty, body)))
    }
}
