//! WASI for programs of this engine.
//!
//! # Safety
//!
//! This module exists to lend a program's memory to calls while they last. The program waits for
//! them, and its memory is not moved.
#![allow(unsafe_code)]

use super::{Function, Guest, MODULE, Outcome, Shared, ValueType, WasiCtx, Written, functions};
use std::sync::Arc;
use std::time::Instant;

use wasm_aot_engine::{
    AsContextMut, Caller, Error, Extern, FuncType, Linker, Memory, Trap, ValType,
};

/// No call has more arguments.
const MOST: usize = 9;

/// Defines all WASI calls in a linker. `context` finds a program's world in the embedder's data.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    context: impl Fn(&mut T) -> &mut WasiCtx + Send + Sync + Copy + 'static,
) -> Result<(), Error> {
    link(linker, move |data, function, guest, integers, _| {
        (function.call)(context(data), guest, integers)
    })
}

/// The same for a thread of a program, whose threads share a world.
pub fn add_shared_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    context: impl Fn(&mut T) -> &Shared + Send + Sync + Copy + 'static,
) -> Result<(), Error> {
    link(linker, move |data, function, guest, integers, until| {
        context(data).call(function, guest, integers, until)
    })
}

/// Links calls that `perform` executes; its last argument is the end of the waiting of a repeated
/// call.
fn link<T: 'static>(
    linker: &mut Linker<T>,
    perform: impl Fn(&mut T, &Function, &Guest<'_>, &[u64], &mut Option<Instant>) -> Outcome
    + Send
    + Sync
    + Copy
    + 'static,
) -> Result<(), Error> {
    for function in functions() {
        let ty = FuncType::new(
            function.params.iter().map(value_type),
            function.results.iter().map(value_type),
        );
        linker.func_plain(
            MODULE,
            function.name,
            ty,
            move |mut caller: Caller<'_, T>, args, results| {
                let mut integers = [0u64; MOST];
                let integers = &mut integers[..args.len()];
                let interruption = Arc::clone(caller.as_context_mut().core().interruption());
                let mut until = None;
                let mut call = |caller: &mut Caller<'_, T>| {
                    integers.iter_mut().zip(args).for_each(|(integer, arg)| *integer = *arg as u64);
                    let memory = memory(caller)?;
                    let (base, len) = memory.announced_extent(&mut *caller)?;
                    let is_observed = caller.as_context_mut().core().is_observed();
                    let written = is_observed.then(Written::default);
                    // SAFETY: (1) the memory lives as long as the store, and only its own program
                    // could grow it, which waits for us.
                    let guest =
                        unsafe { Guest::new(base, len) }.stopped_by(interruption.requested());
                    let guest = match &written {
                        Some(written) => guest.noted_in(written),
                        None => guest,
                    };
                    let data = caller.data_mut();
                    let outcome = perform(data, function, &guest, integers, &mut until);
                    for (address, len) in written.iter().flat_map(Written::take) {
                        caller.as_context_mut().wrote(memory, address, len);
                    }
                    Ok::<_, Error>(outcome)
                };
                let mut outcome = call(&mut caller)?;
                while outcome == Outcome::Knocked {
                    caller.run_tasks();
                    outcome = call(&mut caller)?;
                }
                match outcome {
                    Outcome::Errno(errno) => {
                        results.iter_mut().for_each(|result| *result = u128::from(errno.number()));
                        Ok(())
                    }
                    Outcome::Exit(code) => Err(Error::Exit(code as i32)),
                    Outcome::Knocked => unreachable!("looked at before"),
                    Outcome::Interrupted => {
                        // This trap reports the interruption; the next call must not trap for it,
                        // too.
                        interruption.take();
                        Err(Trap::Interrupted.into())
                    }
                }
            },
        )?;
    }
    Ok(())
}

/// The memory of the program that calls: the one that it exports, as WASI requires.
fn memory<T>(caller: &mut Caller<'_, T>) -> Result<Memory, Error> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory),
        _ => Err(Error::Link(
            "a program that uses WASI exports its memory as \"memory\", and this one does not"
                .into(),
        )),
    }
}

fn value_type(ty: &ValueType) -> ValType {
    match ty {
        ValueType::I32 => ValType::I32,
        ValueType::I64 => ValType::I64,
    }
}
