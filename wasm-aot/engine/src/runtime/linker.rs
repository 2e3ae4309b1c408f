//! Resolves imports by name.

use super::function::{Caller, Func};
use super::handle::Extern;
use super::instance::Instance;
use super::module::{ImportType, Module};
use super::store::AsContextMut;
use super::value::Val;
use crate::engine::Engine;
use crate::error::{Error, Printable};
use crate::types::{ExternType, FuncType};
use std::collections::HashMap;
use std::sync::Arc;

/// Makes a host function in a store.
type Make = Arc<
    dyn Fn(&mut dyn FnMut(FuncType, Arc<super::function::Body>) -> Func) -> Func
        + Send
        + Sync
        + 'static,
>;

/// The definition of a name.
enum Item<T> {
    /// An item of one store.
    Extern(Extern),
    /// A host function for every store.
    Host(Make, std::marker::PhantomData<fn(T)>),
}

/// Items for modules that import something with that type.
type Typed<T> = Vec<(FuncType, Item<T>)>;

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Extern(item) => Self::Extern(*item),
            Self::Host(make, data) => Self::Host(Arc::clone(make), *data),
        }
    }
}

impl<T: 'static> Item<T> {
    /// The item in a store.
    fn in_store(&self, mut store: impl AsContextMut<Data = T>) -> Extern {
        match self {
            Self::Extern(item) => *item,
            Self::Host(make, _) => {
                let mut context = store.as_context_mut();
                Extern::Func(make(&mut |ty, raw| Func::host(context.core(), ty, raw)))
            }
        }
    }
}

/// A module whose imports have been resolved: instances are made without searching for names.
pub struct InstancePre<T> {
    module: Module,
    items: Vec<Item<T>>,
}

impl<T> std::fmt::Debug for InstancePre<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstancePre").field("module", &self.module).finish_non_exhaustive()
    }
}

impl<T: 'static> InstancePre<T> {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Makes an instance. Items that were [defined](Linker::define) from a store can be used in
    /// that store only.
    pub fn instantiate(&self, mut store: impl AsContextMut<Data = T>) -> Result<Instance, Error> {
        let found: Vec<Extern> = self.items.iter().map(|item| item.in_store(&mut store)).collect();
        Instance::new(store, &self.module, &found)
    }
}

/// Provides modules with their imports, by name.
pub struct Linker<T> {
    engine: Engine,
    items: HashMap<(String, String), Item<T>>,
    /// Functions for modules that import a name with another type than that of its item.
    others: HashMap<(String, String), Typed<T>>,
    shadowing: bool,
}

impl<T> std::fmt::Debug for Linker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.items.keys()).finish()
    }
}

impl<T: 'static> Linker<T> {
    /// A linker without definitions.
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            items: HashMap::new(),
            others: HashMap::new(),
            shadowing: false,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether a name may be defined again.
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

    /// Defines an item of one store.
    pub fn define(
        &mut self,
        module: &str,
        name: &str,
        item: impl Into<Extern>,
    ) -> Result<&mut Self, Error> {
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

    /// Defines a host function under a name that is defined already, for modules that import it
    /// with the type of this one.
    pub fn func_wrap_too<P, R>(
        &mut self,
        module: &str,
        name: &str,
        body: impl super::typed::IntoFunc<T, P, R>,
    ) -> &mut Self {
        let (ty, raw) = body.into_raw();
        let own = ty.clone();
        let make: Make = Arc::new(move |place| place(ty.clone(), Arc::clone(&raw.0)));
        let others = self.others.entry((module.to_owned(), name.to_owned())).or_default();
        others.push((own, Item::Host(make, std::marker::PhantomData)));
        self
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

    /// Defines a host function that takes and returns values as machine code does: integers in the
    /// lower bits.
    pub fn func_plain(
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
    pub fn instance(
        &mut self,
        store: impl AsContextMut<Data = T>,
        module: &str,
        instance: Instance,
    ) -> Result<&mut Self, Error> {
        for (name, item) in instance.exports(store) {
            self.define(module, &name, item)?;
        }
        Ok(self)
    }

    /// Defines the functions that a module imports and that have no definition as functions that
    /// trap when they are called.
    pub fn unknown_imports_as_traps(&mut self, module: &Module) -> Result<&mut Self, Error> {
        for import in module.imports() {
            let key = (import.module.to_owned(), import.name.to_owned());
            if let ExternType::Func(ty) = import.ty
                && !self.items.contains_key(&key)
            {
                let error = UnknownImport { module: key.0, name: key.1 };
                self.func_new(import.module, import.name, ty, move |_, _, _| {
                    Err(Error::host(error.clone()))
                })?;
            }
        }
        Ok(self)
    }

    /// What is defined under a name.
    pub fn get(
        &self,
        store: impl AsContextMut<Data = T>,
        module: &str,
        name: &str,
    ) -> Option<Extern> {
        Some(self.items.get(&(module.to_owned(), name.to_owned()))?.in_store(store))
    }

    /// Resolves the imports of a module, all of which are defined.
    pub fn prelink(&self, module: &Module) -> Result<InstancePre<T>, Error> {
        let (mut items, mut missing) = (Vec::new(), Vec::new());
        for import in module.imports() {
            let key = (import.module.to_owned(), import.name.to_owned());
            let others = self.others.get(&key).into_iter().flatten();
            let other = others
                .into_iter()
                .find(|(ty, _)| matches!(&import.ty, ExternType::Func(asked) if asked == ty));
            match other.map(|(_, item)| item).or_else(|| self.items.get(&key)) {
                Some(item) => items.push(item.clone()),
                None => missing.push(import),
            }
        }
        match missing.is_empty() {
            true => Ok(InstancePre { module: module.clone(), items }),
            false => Err(Error::Link(unknown(&missing))),
        }
    }

    /// Makes an instance of a module, whose imports are all defined.
    pub fn instantiate(
        &self,
        store: impl AsContextMut<Data = T>,
        module: &Module,
    ) -> Result<Instance, Error> {
        self.prelink(module)?.instantiate(store)
    }
}

/// A program has called an imported function that has no definition, see
/// [`Linker::unknown_imports_as_traps`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program calls \"{}\" \"{}\", which it imports and is not defined",
    Printable(&shortened(.module)),
    Printable(&shortened(.name))
)]
pub struct UnknownImport {
    /// From which module.
    pub module: String,
    /// Under which name.
    pub name: String,
}

/// How many imports are named that are not defined.
const NAMED: usize = 6;

/// How much of a name or type stays readable in a message: in a module they may have any length.
const READABLE: usize = 100;

/// A name or type, or the beginning of a long one.
pub(super) fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(READABLE) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The message for imports that are not defined: a program for another host may lack dozens.
fn unknown(missing: &[ImportType<'_>]) -> String {
    let named = missing.iter().take(NAMED).map(|import| {
        let (module, name) = (shortened(import.module), shortened(import.name));
        let ty = import.ty.to_string();
        format!("\"{}\" \"{}\" ({})", Printable(&module), Printable(&name), shortened(&ty))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match missing.len().saturating_sub(NAMED) {
        0 => format!("unknown import: {named}"),
        more => format!("unknown imports: {named}, and {more} more"),
    }
}
