//! Functions: of instances, and of the host.
//!
//! # Safety
//!
//! This module exists to call machine code and to be called by it. Types are compared before values
//! cross.
#![allow(unsafe_code)]

use super::activation::{self, CodeEntry, Failure};
use super::boundary::{self, Call, Callee, Crossing};
use super::handle::Extern;
use super::instance::{Instance, InstanceData};
use super::store::{AsContextMut, StoreContextMut, StoreCore};
use super::value::Val;
use super::{backtrace, bridge};
use crate::error::{Error, ExceptionReport};
use crate::exception::{ExnRef, StoreId};
use crate::registry::{self, TypeId};
use crate::types::FuncType;
use crate::vm::{self, HOST_MAGIC};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;

/// A function of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Func {
    reference: NonNull<vm::FuncRef>,
    store: StoreId,
}

// SAFETY: (1) the reference lies in what the store owns, and is only read with the store at hand.
unsafe impl Send for Func {}
// SAFETY: as above.
unsafe impl Sync for Func {}

/// The code of a host function: it receives the values that machine code passes.
pub(crate) type Body = dyn Fn(&mut StoreCore, Option<NonNull<InstanceData>>, &[u128], &mut [u128]) -> Result<(), Error>
    + Send
    + Sync;

/// A function of the host, as machine code sees it: trampolines know its first fields.
#[repr(C)]
pub(crate) struct HostFunction {
    magic: u64,
    cell: *const vm::StoreCell,
    call: extern "C" fn(*mut Self, *mut u128) -> u32,
    raise: extern "C" fn(*mut Self),
    pub(crate) reference: vm::FuncRef,
    /// The instance that imports it, if this is the copy for one, and as which function.
    caller: Option<NonNull<InstanceData>>,
    import: u32,
    store: *mut StoreCore,
    ty: FuncType,
    body: std::sync::Arc<Body>,
}

impl std::fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunction").field("ty", &self.ty).finish_non_exhaustive()
    }
}

/// What a host function knows of its caller: the store, its data, and what the calling
/// instance exports.
#[derive(Debug)]
pub struct Caller<'a, T> {
    context: StoreContextMut<'a, T>,
    instance: Option<Instance>,
}

impl<'a, T> Caller<'a, T> {
    pub(crate) fn new(context: StoreContextMut<'a, T>, instance: Option<Instance>) -> Self {
        Self { context, instance }
    }

    /// The calling instance, if it imports the function.
    pub fn instance(&self) -> Option<Instance> {
        self.instance
    }

    /// What the calling instance exports under a name.
    pub fn get_export(&mut self, name: &str) -> Option<Extern> {
        self.instance?.get_export(&mut self.context, name)
    }

    /// The first memory of the calling instance, exported or not: the one that its instructions
    /// access unless they name another.
    pub fn first_memory(&mut self) -> Option<super::handle::Memory> {
        let core = self.context.core();
        let index = *self.instance?.data(core)?.memories.first()?;
        Some(super::handle::Memory { index, store: core.id })
    }

    /// The embedder's data.
    pub fn data(&self) -> &T {
        self.context.data()
    }

    /// The embedder's data.
    pub fn data_mut(&mut self) -> &mut T {
        self.context.data_mut()
    }

    /// Runs the tasks that other threads have posted to the store, unless a monitor calls.
    pub fn run_tasks(&mut self) {
        let core = self.context.core();
        let is_program =
            self.instance.and_then(|instance| instance.data(core).map(|data| !data.looks_on.get()));
        if is_program.unwrap_or_default() && core.tasks().are_waiting() {
            core.run_tasks();
        }
    }

    /// The Wasm frames of the current call.
    pub fn backtrace(&mut self) -> crate::error::Backtrace {
        backtrace::here(self.context.core())
    }
}

impl<T> AsContextMut for Caller<'_, T> {
    type Data = T;

    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        self.context.as_context_mut()
    }
}

/// Called by the trampoline: arguments are in `values`, results go there. Returns a number other
/// than 0 if it has failed.
extern "C" fn call_host(function: *mut HostFunction, values: *mut u128) -> u32 {
    // SAFETY: (1) the trampoline passes on the vmctx that it was called with: this function's.
    let host = unsafe { &*function };
    // SAFETY: (1) the store outlives its functions; (2) machine code of it waits for us, so that
    // no other code uses it.
    let store = unsafe { &mut *host.store };
    store.make_room();
    let (params, results) = (host.ty.params().len(), host.ty.results().len());
    // Results overwrite the arguments, so the arguments are copied first: few of them without an
    // allocation.
    let (mut few, mut many) = ([0u128; 16], Vec::new());
    let args = match few.get_mut(..params) {
        Some(args) => args,
        None => {
            many.resize(params, 0);
            &mut many[..]
        }
    };
    // SAFETY: (1) the trampoline's frame has room for the parameters and for the results; (2)
    // nothing of ours overlaps it.
    unsafe { std::ptr::copy_nonoverlapping(values, args.as_mut_ptr(), params) };
    // SAFETY: as above.
    let results = unsafe { std::slice::from_raw_parts_mut(values, results) };
    let call = Call {
        instance: host.caller.map(Instance::from_data),
        import: host.import,
        function: Func { reference: NonNull::from(&host.reference), store: store.id },
    };
    if store.is_observed() {
        // SAFETY: (1) machine code passes arguments of the function's type.
        let args = unsafe { store.seen(args, host.ty.params()) };
        store.cross(Crossing::Calls(call, &args));
    }
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| {
        (host.body)(store, host.caller, args, results)
    }));
    if store.is_observed()
        && let Ok(done) = &caught
    {
        // SAFETY: (1) a function that has not failed gives results of its type.
        let results = done.as_ref().map(|()| unsafe { store.seen(results, host.ty.results()) });
        store.cross(Crossing::Returns(call, results.as_deref().map_err(|error| *error)));
    }
    if matches!(caught, Ok(Ok(()))) && store.tasks().are_waiting() {
        // SAFETY: (1) the instance that imports the function lives as long as the store.
        let is_program =
            host.caller.is_some_and(|caller| !unsafe { caller.as_ref() }.looks_on.get());
        is_program.then(|| store.run_tasks());
    }
    let failure = match caught {
        Ok(Ok(())) if store.interruption().is_requested() && store.interruption().take() => {
            Failure::Error(Error::Trap(crate::error::TrapReport {
                trap: crate::Trap::Interrupted,
                backtrace: backtrace::here(store),
            }))
        }
        Ok(Ok(())) => return 0,
        Ok(Err(Error::Exception(ExceptionReport { exception: Some(exception), .. })))
            if exception.raw(store).is_ok() =>
        {
            Failure::Exception(exception.raw(store).expect("checked"))
        }
        Ok(Err(error)) => {
            note_failure(&error, store);
            Failure::Error(located(error, store))
        }
        Err(panic) => Failure::Panic(panic),
    };
    store.pending = Some(failure);
    1
}

/// Records where a host function was called that has failed. A failure that the host passes on from
/// code that it has called has happened further in.
fn note_failure(error: &Error, store: &mut StoreCore) {
    let Error::Host(error) = error else { return };
    let address = std::ptr::from_ref(&**error).cast::<()>() as usize;
    if store.failed_at.0 != address {
        store.failed_at = (address, backtrace::here(store));
        super::dump::remember_failure(store);
    }
}

/// Gives a trap of the host the place where the host was called.
fn located(error: Error, store: &StoreCore) -> Error {
    match error {
        Error::Trap(mut report) if report.backtrace.frames.is_empty() => {
            report.backtrace = backtrace::here(store);
            Error::Trap(report)
        }
        other => other,
    }
}

/// Called by the trampoline after a failure: continues where the failure is handled.
extern "C" fn raise_host(function: *mut HostFunction) {
    // SAFETY: (1) as in `call_host`.
    let store = unsafe { &mut *(*function).store };
    let failure = store.pending.take().expect("the call before has failed");
    // SAFETY: (1) this function owns nothing by now, and neither does the trampoline.
    unsafe {
        match failure {
            Failure::Exception(exception) => {
                let (frame, pc) = store.exit();
                super::throw::throw(store, exception, frame, pc, false)
            }
            other => activation::fail(other),
        }
    }
}

impl Func {
    /// A function of the host, of any type. Its arguments are of that type; it writes its results
    /// to the slice that is its last parameter.
    pub fn new<T: 'static>(
        mut store: impl AsContextMut<Data = T>,
        ty: FuncType,
        body: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        let raw = raw(ty.clone(), body);
        Self::host(store.as_context_mut().core(), ty, raw)
    }

    /// A function of the host, whose type follows from the closure's.
    pub fn wrap<T: 'static, P, R>(
        mut store: impl AsContextMut<Data = T>,
        body: impl super::typed::IntoFunc<T, P, R>,
    ) -> Self {
        let (ty, raw) = body.into_raw();
        Self::host(store.as_context_mut().core(), ty, raw.0)
    }

    pub(crate) fn host(store: &mut StoreCore, ty: FuncType, body: std::sync::Arc<Body>) -> Self {
        Self { reference: HostFunction::place(store, ty, body, None), store: store.id }
    }

    /// The address of its reference.
    pub(super) fn address(&self) -> usize {
        self.reference.as_ptr() as usize
    }

    /// Its type.
    pub fn ty(&self, mut store: impl AsContextMut) -> Result<FuncType, Error> {
        Ok(registry::look_up(self.type_id(store.as_context_mut().core())?))
    }

    /// Calls it.
    pub fn call(&self, mut store: impl AsContextMut, args: &[Val]) -> Result<Vec<Val>, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let ty = registry::look_up(self.type_id(core)?);
        if args.len() != ty.params().len() {
            return Err(Error::Type(format!(
                "the function takes {} arguments, not {}",
                ty.params().len(),
                args.len()
            )));
        }
        core.make_room();
        let mut values = vec![0u128; ty.params().len().max(ty.results().len())];
        for ((raw, value), ty) in values.iter_mut().zip(args).zip(ty.params()) {
            *raw = value.clone().into_raw(*ty, core)?;
        }
        // SAFETY: (1) the arguments are of the function's type.
        unsafe { self.call_raw(core, values.as_mut_ptr())? };
        // SAFETY: (1) machine code gives results of the function's type.
        Ok(ty
            .results()
            .iter()
            .zip(values)
            .map(|(ty, raw)| unsafe { Val::from_raw(raw, *ty, core) })
            .collect())
    }

    /// The same function with a static type, if it is of that type.
    pub fn typed<P: super::typed::Params, R: super::typed::Results>(
        &self,
        mut store: impl AsContextMut,
    ) -> Result<super::typed::TypedFunc<P, R>, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let (ty, wanted) =
            (registry::look_up(self.type_id(core)?), FuncType::new(P::types(), R::types()));
        if ty != wanted {
            return Err(Error::Type(format!("the function is {ty}, not {wanted}")));
        }
        Ok(super::typed::TypedFunc::new(*self))
    }

    /// Calls it with values in the form that machine code takes.
    ///
    /// # Safety
    /// The values are of the function's type and this store, and there is room for the results.
    pub(crate) unsafe fn call_raw(
        &self,
        store: &mut StoreCore,
        values: *mut u128,
    ) -> Result<(), Error> {
        if !store.is_observed() {
            // SAFETY: (1) the caller, see # Safety.
            return unsafe { self.enter(store, values) };
        }
        let (callee, ty) = (Callee::Function(*self), self.type_id(store)?);
        // SAFETY: (1) as above, in both.
        unsafe { boundary::entered(store, callee, ty, values, |store| self.enter(store, values)) }
    }

    /// The same, without notifying an observer.
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn enter(
        &self,
        store: &mut StoreCore,
        values: *mut u128,
    ) -> Result<(), Error> {
        let reference = self.raw(store)?;
        // SAFETY: (1) a reference of this store, checked by `raw`.
        let vm::FuncRef { code, vmctx, ty } = unsafe { *reference };
        let trampoline = store.enter(TypeId(ty))?;
        // SAFETY: (1) the caller, see # Safety; (2) the trampoline is of the function's type.
        match unsafe { activation::enter(store, CodeEntry { trampoline, code, vmctx }, values) } {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Panic(panic)) => std::panic::resume_unwind(panic),
            Err(Failure::Exception(address)) => {
                // SAFETY: (1) an exception of this store that was thrown just now.
                let exception = unsafe { ExnRef::from_raw(address, store) };
                let backtrace = std::mem::take(&mut store.thrown_at);
                Err(Error::Exception(ExceptionReport { exception, backtrace }))
            }
        }
    }

    pub(crate) fn from_raw(reference: *const vm::FuncRef, store: &StoreCore) -> Option<Self> {
        NonNull::new(reference.cast_mut()).map(|reference| Self { reference, store: store.id })
    }

    fn check(&self, store: &StoreCore) -> Result<(), Error> {
        match self.store == store.id {
            true => Ok(()),
            false => Err(Error::Type("a function of another store".into())),
        }
    }

    pub(crate) fn type_id(&self, store: &StoreCore) -> Result<TypeId, Error> {
        self.check(store)?;
        // SAFETY: (1) a reference of this store, which has not been freed.
        Ok(TypeId(unsafe { self.reference.as_ref().ty }))
    }

    /// Whether it is a function of the host, and of this store.
    pub fn is_host(&self, store: &StoreCore) -> bool {
        // SAFETY: (1) a reference of this store; (2) every vmctx begins with a word that says what
        // it is.
        self.check(store).is_ok()
            && unsafe { *self.reference.as_ref().vmctx.cast::<u64>() } == HOST_MAGIC
    }

    /// The reference, ready to be called by any code.
    pub(crate) fn raw(&self, store: &StoreCore) -> Result<*const vm::FuncRef, Error> {
        self.check(store)?;
        // SAFETY: (1) a reference of this store; (2) changed only here, by the thread that has the
        // store.
        unsafe {
            let reference = self.reference.as_ptr();
            if (*reference).code.is_null() {
                (*reference).code =
                    bridge::for_type(TypeId((*reference).ty), store.engine.target())?.leave;
            }
            Ok(reference)
        }
    }

    /// The import for an instance: code and vmctx. Each importing instance gets a copy of a host
    /// function that knows its caller.
    pub(crate) fn import(
        &self,
        store: &mut StoreCore,
        (caller, import): (NonNull<InstanceData>, u32),
        leave: Option<*const u8>,
    ) -> Result<vm::FuncImport, Error> {
        self.check(store)?;
        // SAFETY: (1) a reference of this store.
        let reference = unsafe { *self.reference.as_ref() };
        if !self.is_host(store) {
            return Ok(vm::FuncImport { code: reference.code, vmctx: reference.vmctx });
        }
        // SAFETY: (1) such a vmctx is a host function.
        let host = unsafe { &*reference.vmctx.cast::<HostFunction>() };
        let copy = HostFunction::place(
            store,
            host.ty.clone(),
            std::sync::Arc::clone(&host.body),
            Some((caller, import)),
        );
        // SAFETY: (1) placed just now.
        let vmctx = unsafe { copy.as_ref().vmctx };
        let code = match leave {
            Some(code) => code,
            None => bridge::for_type(TypeId(reference.ty), store.engine.target())?.leave,
        };
        Ok(vm::FuncImport { code, vmctx })
    }
}

/// A host function that takes and returns values as machine code does.
pub(crate) fn plain<T: 'static>(
    body: impl Fn(Caller<'_, T>, &[u128], &mut [u128]) -> Result<(), Error> + Send + Sync + 'static,
) -> std::sync::Arc<Body> {
    std::sync::Arc::new(move |store, caller, args, results| {
        // SAFETY: (1) the function was made in a store with data of this type.
        let context = unsafe { StoreContextMut::from_core(store) };
        body(Caller::new(context, caller.map(Instance::from_data)), args, results)
    })
}

/// Wraps a host function on values of any type as one that takes the values of machine code.
pub(crate) fn raw<T: 'static>(
    ty: FuncType,
    body: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<(), Error> + Send + Sync + 'static,
) -> std::sync::Arc<Body> {
    std::sync::Arc::new(move |store, caller, args, results| {
        let each = args.iter().zip(ty.params());
        // SAFETY: (1) machine code passes values of the function's type.
        let args: Vec<Val> =
            each.map(|(raw, ty)| unsafe { Val::from_raw(*raw, *ty, store) }).collect();
        let default = |ty: &crate::types::ValType| Val::default_for(*ty).unwrap_or(Val::I32(0));
        let mut values: Vec<Val> = ty.results().iter().map(default).collect();
        // SAFETY: (1) the function was made in a store with data of this type.
        let context = unsafe { StoreContextMut::from_core(&mut *store) };
        body(Caller::new(context, caller.map(Instance::from_data)), &args, &mut values)?;
        for ((raw, value), ty) in results.iter_mut().zip(values).zip(ty.results()) {
            *raw = value.into_raw(*ty, store)?;
        }
        Ok(())
    })
}

impl HostFunction {
    /// Puts a host function into a store.
    fn place(
        store: &mut StoreCore,
        ty: FuncType,
        body: std::sync::Arc<Body>,
        importer: Option<(NonNull<InstanceData>, u32)>,
    ) -> NonNull<vm::FuncRef> {
        let number = registry::number(&ty);
        let mut function = Box::new(Self {
            magic: HOST_MAGIC,
            cell: store.cell(),
            call: call_host,
            raise: raise_host,
            // The code is set when a caller without a trampoline of its own needs it.
            reference: vm::FuncRef {
                code: std::ptr::null(),
                vmctx: std::ptr::null_mut(),
                ty: number.0,
            },
            caller: importer.map(|(caller, _)| caller),
            import: importer.map_or(0, |(_, import)| import),
            store,
            ty,
            body,
        });
        function.reference.vmctx = (&raw mut *function).cast();
        let reference = NonNull::from(&mut function.reference);
        store.hosts.push(function);
        reference
    }
}
