//! Links the libraries of a monitor to each other, in whichever order they were given, and to the
//! monitor.
//!
//! A library is instantiated after those that it imports from. If libraries import from each other,
//! or one imports from the monitor, which is the last, a function that does not exist yet is called
//! through the host; other imports must exist already.

use super::Failure;
use super::modules::World;
use std::sync::{Arc, OnceLock};
use wasm_aot::{Error, ExternType, Func, FuncType, Instance, Linker, Module, StoreContextMut};

/// A function that is imported before its module has an instance.
struct Awaited {
    library: String,
    module: String,
    name: String,
    ty: FuncType,
    function: Arc<OnceLock<Func>>,
}

/// A monitor's libraries while they are linked.
pub(super) struct Linking<'a> {
    monitor: &'a str,
    awaited: Vec<Awaited>,
}

impl<'a> Linking<'a> {
    /// Instantiates the libraries, and defines their exports in the linker.
    pub(super) fn libraries(
        monitor: &'a str,
        libraries: &[(String, Module)],
        linker: &mut Linker<World>,
        store: &mut StoreContextMut<'_, World>,
    ) -> Result<Self, Failure> {
        let mut linking = Self { monitor, awaited: Vec::new() };
        let mut pending: Vec<&(String, Module)> = libraries.iter().collect();
        while !pending.is_empty() {
            let is_ready = |(own, module): &&(String, Module)| {
                let waits = |other: &&(String, Module)| {
                    &other.0 != own && module.imports().any(|import| import.module == other.0)
                };
                !pending.iter().any(waits)
            };
            let next = pending.iter().position(is_ready).unwrap_or(0);
            let (name, module) = pending.remove(next);
            let named = |error: Error| Failure::new(format!("monitor {monitor}: {name}: {error}"));
            let comes = |from: &str| {
                from == monitor || from == name || pending.iter().any(|other| other.0 == from)
            };
            linking.wait_for(name, module, comes, linker).map_err(named)?;
            let instance = linker.instantiate(&mut *store, module).map_err(named)?;
            linking.provide(name, instance, store)?;
            if instance.get_func(&mut *store, "_initialize").is_some() {
                let initialize =
                    instance.get_typed_func::<(), ()>(&mut *store, "_initialize").map_err(named)?;
                initialize.call(&mut *store, ()).map_err(named)?;
            }
            linker.instance(&mut *store, name, instance).map_err(named)?;
        }
        Ok(linking)
    }

    /// Defines the functions that a library imports from modules that come later.
    fn wait_for(
        &mut self,
        library: &str,
        module: &Module,
        comes: impl Fn(&str) -> bool,
        linker: &mut Linker<World>,
    ) -> Result<(), Error> {
        for import in module.imports().filter(|import| comes(import.module)) {
            let ExternType::Func(ty) = import.ty else { continue };
            let function = Arc::new(OnceLock::new());
            let (early, is_there) = (import.module.to_owned(), Arc::clone(&function));
            linker.func_new(
                import.module,
                import.name,
                ty.clone(),
                move |caller, args, results| {
                    let function: &Func = is_there.get().ok_or_else(|| {
                        Error::host(format!("a function of {early} is called before it has begun"))
                    })?;
                    results.clone_from_slice(&function.call(caller, args)?);
                    Ok(())
                },
            )?;
            let (module, name) = (import.module.to_owned(), import.name.to_owned());
            self.awaited.push(Awaited { library: library.to_owned(), module, name, ty, function });
        }
        Ok(())
    }

    /// Called when the monitor has an instance: its functions can be called.
    pub(super) fn finish(
        mut self,
        instance: Instance,
        store: &mut StoreContextMut<'_, World>,
    ) -> Result<(), Failure> {
        self.provide(self.monitor, instance, store)
    }

    /// Called when a module has an instance: provides its functions to modules that wait for them.
    fn provide(
        &mut self,
        module: &str,
        instance: Instance,
        store: &mut StoreContextMut<'_, World>,
    ) -> Result<(), Failure> {
        for awaited in self.awaited.extract_if(.., |awaited| awaited.module == module) {
            let Awaited { library, name, ty, function, .. } = awaited;
            let wrong = |why: &str| {
                Failure::new(format!(
                    "monitor {}: {library}: imports \"{module}\" \"{name}\", which {why}",
                    self.monitor
                ))
            };
            let found = instance.get_func(&mut *store, &name);
            let found = found.ok_or_else(|| wrong("is no function that is exported there"))?;
            if !found.ty(&mut *store).is_ok_and(|found| found == ty) {
                return Err(wrong("is of another type there"));
            }
            function.get_or_init(|| found);
        }
        Ok(())
    }
}
