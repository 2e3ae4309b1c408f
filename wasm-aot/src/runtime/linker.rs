//! Imports by name.

use super::function::{Caller, Func};
use super::handle::Extern;
use super::instance::Instance;
use super::module::Module;
use super::store::AsContextMut;
use super::value::Val;
use crate::engine::Engine;
use crate::error::{Error, Printable};
use crate::types::FuncType;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// How a host function comes into a store.
type Make = Arc<dyn Fn(&mut dyn FnMut(FuncType, Arc<super::function::Call>) -> Func) -> Func + Send + Sync + 'static>;

enum Item<T> {
    /// Something of one store.
    Extern(Extern),
    /// A host function for every store.
    Host(Make, std::marker::PhantomData<fn(T)>),
}

/// Gives modules what they import, by the names that they ask for.
pub struct Linker<T> {
    engine: Engine,
    items: HashMap<(String, String), Item<T>>,
    shadowing: bool,
}

impl<T> std::fmt::Debug for Linker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.items.keys()).finish()
    }
}

impl<T: 'static> Linker<T> {
    /// A linker that knows nothing yet.
    pub fn new(engine: &Engine) -> Self {
        Self { engine: engine.clone(), items: HashMap::new(), shadowing: false }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether a name may be given again.
    pub fn allow_shadowing(&mut self, allow: bool) -> &mut Self {
        self.shadowing = allow;
        self
    }

    fn insert(&mut self, module: &str, name: &str, item: Item<T>) -> Result<&mut Self, Error> {
        let key = (module.to_owned(), name.to_owned());
        if !self.shadowing && self.items.contains_key(&key) {
            return Err(Error::Link(format!("\"{module}\" \"{name}\" is defined already")));
        }
        self.items.insert(key, item);
        Ok(self)
    }

    /// Defines something of one store.
    pub fn define(&mut self, module: &str, name: &str, item: impl Into<Extern>) -> Result<&mut Self, Error> {
        self.insert(module, name, Item::Extern(item.into()))
    }

    /// Defines a host function whose type follows from the closure's.
    pub fn func_wrap<P, R>(
        &mut self,
        module: &str,
        name: &str,
        body: impl super::typed::IntoFunc<T, P, R>,
    ) -> Result<&mut Self, Error> {
        let (ty, raw) = body.into_raw();
        let make: Make = Arc::new(move |place| place(ty.clone(), Arc::clone(&raw.0)));
        self.insert(module, name, Item::Host(make, std::marker::PhantomData))
    }

    /// Defines a host function of any type.
    pub fn func_new(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        body: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<&mut Self, Error> {
        let raw = super::function::raw(ty.clone(), body);
        let make: Make = Arc::new(move |place| place(ty.clone(), Arc::clone(&raw)));
        self.insert(module, name, Item::Host(make, std::marker::PhantomData))
    }

    /// Defines a host function that takes and gives values as machine code does: integers in the lower bits.
    pub(crate) fn func_plain(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        body: impl Fn(Caller<'_, T>, &[u128], &mut [u128]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<&mut Self, Error> {
        let raw = super::function::plain(body);
        let make: Make = Arc::new(move |place| place(ty.clone(), Arc::clone(&raw)));
        self.insert(module, name, Item::Host(make, std::marker::PhantomData))
    }

    /// Defines everything that an instance exports, under a module's name.
    pub fn instance(&mut self, store: impl AsContextMut<Data = T>, module: &str, instance: Instance) -> Result<&mut Self, Error> {
        for (name, item) in instance.exports(store) {
            self.define(module, &name, item)?;
        }
        Ok(self)
    }

    /// What is defined under a name.
    pub fn get(&self, mut store: impl AsContextMut<Data = T>, module: &str, name: &str) -> Option<Extern> {
        Some(match self.items.get(&(module.to_owned(), name.to_owned()))? {
            Item::Extern(item) => *item,
            Item::Host(make, _) => {
                let mut context = store.as_context_mut();
                Extern::Func(make(&mut |ty, raw| Func::host(context.core(), ty, raw)))
            }
        })
    }

    /// Makes an instance of a module, whose imports are all defined.
    pub fn instantiate(&self, mut store: impl AsContextMut<Data = T>, module: &Module) -> Result<Instance, Error> {
        let mut found = Vec::new();
        let mut missing = String::new();
        for import in module.imports() {
            match self.get(&mut store, import.module, import.name) {
                Some(item) => found.push(item),
                None => {
                    let separator = if missing.is_empty() { "" } else { ", " };
                    let (module, name) = (Printable(import.module), Printable(import.name));
                    let _ = write!(missing, "{separator}\"{module}\" \"{name}\" ({})", import.ty);
                }
            }
        }
        match missing.is_empty() {
            true => Instance::new(store, module, &found),
            false => Err(Error::Link(format!("unknown import: {missing}"))),
        }
    }
}
