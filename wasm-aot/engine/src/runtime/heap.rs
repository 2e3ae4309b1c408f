//! The objects that machine code's references denote: exceptions, and values of the host.
//!
//! Objects never move, and machine code keeps no list of its references. So live objects are found
//! conservatively: every word of the stacks that machine code runs on, of tables, globals and
//! exceptions is examined, and if it is the address of an object, the object is kept. A collection
//! happens when as many objects have been made as the one before has left.
//!
//! # Safety
//!
//! This module exists to own objects by address and to read stacks word by word.
#![allow(unsafe_code)]

use super::activation;
use super::store::StoreCore;
use crate::error::Error;
use crate::exception::{ExnRef, Held};
use crate::registry;
use crate::types::{HeapType, ValType};
use crate::vm;
use std::alloc::Layout;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A value of the host that Wasm code can hold.
#[derive(Clone, Debug)]
pub struct ExternRef(Arc<dyn Any + Send + Sync>);

impl ExternRef {
    /// A reference to `value`.
    pub fn new<V: Any + Send + Sync>(value: V) -> Self {
        Self(Arc::new(value))
    }

    /// The value that it refers to.
    pub fn data(&self) -> &(dyn Any + Send + Sync) {
        &*self.0
    }

    /// Whether both refer to the same.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The object at an address.
#[derive(Debug)]
enum Object {
    Exception { layout: Layout, held: Arc<Held> },
    Extern(Box<ExternRef>),
}

/// The objects of a store.
#[derive(Debug)]
pub(crate) struct Heap {
    objects: HashMap<usize, Object>,
    /// How many objects trigger a collection.
    threshold: usize,
}

/// Fewer objects never trigger a collection.
const LEAST: usize = 10_000;

impl Default for Heap {
    fn default() -> Self {
        Self { objects: HashMap::new(), threshold: LEAST }
    }
}

impl Heap {
    /// A place for an exception with that many values.
    pub(crate) fn new_exception(&mut self, tag: *const vm::Tag, values: u32) -> Option<usize> {
        let layout =
            Layout::from_size_align(size_of::<vm::Exception>() + 16 * values as usize, 16).ok()?;
        // SAFETY: (1) the size is not zero; (2) the header is written before a thread sees it.
        let address = unsafe {
            let at = std::alloc::alloc_zeroed(layout).cast::<vm::Exception>();
            if at.is_null() {
                return None;
            }
            at.write(vm::Exception { tag, values, marked: 0 });
            at as usize
        };
        self.objects.insert(address, Object::Exception { layout, held: Arc::default() });
        Some(address)
    }

    /// The address by which machine code knows a value of the host.
    pub(crate) fn extern_in(&mut self, value: &ExternRef) -> usize {
        let boxed = Box::new(value.clone());
        let address = &raw const *boxed as usize;
        self.objects.insert(address, Object::Extern(boxed));
        address
    }

    /// The value of the host at an address.
    ///
    /// # Safety
    /// It is null, or was given by [`extern_in`](Self::extern_in) and is still held.
    pub(crate) unsafe fn extern_out(&self, address: usize) -> Option<ExternRef> {
        match self.objects.get(&address)? {
            Object::Extern(value) => Some((**value).clone()),
            Object::Exception { .. } => None,
        }
    }

    /// Whether it is time for a collection.
    pub(crate) fn is_full(&self) -> bool {
        self.objects.len() >= self.threshold
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for (address, object) in self.objects.drain() {
            free(address, &object);
        }
    }
}

fn free(address: usize, object: &Object) {
    if let Object::Exception { layout, .. } = object {
        // SAFETY: (1) allocated with this layout, and taken out of the table.
        unsafe { std::alloc::dealloc(address as *mut u8, *layout) };
    }
}

/// Frees the objects of a store that no code holds.
#[inline(never)]
pub(crate) fn collect(store: &mut StoreCore) {
    let mut marked = std::collections::HashSet::new();
    let mut open: Vec<usize> = Vec::new();
    {
        let objects = &store.heap.objects;
        let mut look = |word: usize| {
            if objects.contains_key(&word) && marked.insert(word) {
                open.push(word);
            }
        };
        each_stack_word(&mut look);
        for global in
            store.globals.iter().filter(|global| matches!(global.ty.content, ValType::Ref(_)))
        {
            // SAFETY: (1) a global's value lives as long as the store.
            look(unsafe { *global.value } as usize);
        }
        for (address, object) in objects {
            if let Object::Exception { held, .. } = object
                && held.is_held()
            {
                look(*address);
            }
        }
        let tables: Vec<usize> = (0..store.tables.len()).collect();
        for index in tables {
            let table = &mut store.tables[index];
            if table.ty.element.heap.top() != HeapType::Func {
                let len = table.len() as u64;
                table.range(0, len).into_iter().flatten().for_each(|word| look(*word));
            }
        }
        // An exception keeps its values alive.
        while let Some(address) = open.pop() {
            let Some(Object::Exception { layout, .. }) = objects.get(&address) else { continue };
            for at in (address + size_of::<vm::Exception>()..address + layout.size()).step_by(16) {
                // SAFETY: (1) within the object.
                let word = unsafe { *(at as *const usize) };
                if objects.contains_key(&word) && marked.insert(word) {
                    open.push(word);
                }
            }
        }
    }
    store.heap.objects.retain(|address, object| {
        let stays = marked.contains(address);
        if !stays {
            free(*address, object);
        }
        stays
    });
    store.heap.threshold = (store.heap.objects.len() * 2).max(LEAST);
}

/// Calls `look` with every word of this thread's stack between here and its outermost activation.
fn each_stack_word(look: &mut impl FnMut(usize)) {
    let mut at = activation::current().cast_const();
    if at.is_null() {
        return;
    }
    // SAFETY: (1) activations are on this thread's stack and live.
    while let Some(outer) = unsafe { (*at).outer.as_ref() } {
        at = outer;
    }
    let registers = registers();
    registers.iter().for_each(|word| look(*word));
    let mut word = &raw const registers as usize & !7;
    while word < at as usize {
        // SAFETY: (1) between this frame and that of the outermost activation, all of it is this
        // thread's stack.
        look(unsafe { (word as *const usize).read_volatile() });
        word += 8;
    }
}

/// The registers that a caller may keep a reference in while the runtime is called.
#[inline(always)]
fn registers() -> [usize; 6] {
    let mut kept = [0usize; 6];
    // SAFETY: (1) only stores to a local.
    unsafe {
        std::arch::asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) kept.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
    kept
}

impl ExnRef {
    /// The exception at an address.
    ///
    /// # Safety
    /// It is null or an exception of this store.
    pub(crate) unsafe fn from_raw(address: usize, store: &StoreCore) -> Option<Self> {
        let Object::Exception { held, .. } = store.heap.objects.get(&address)? else { return None };
        Some(Self::hold(address, store.id, held))
    }

    /// Its address, if it is of that store.
    pub(crate) fn raw(&self, store: &StoreCore) -> Result<usize, Error> {
        let another = || Error::Type("an exception of another store".into());
        self.address_in(store.id).ok_or_else(another)
    }

    /// A new exception. A host function throws it by failing with it.
    pub fn new(
        mut store: impl super::AsContextMut,
        tag: super::Tag,
        values: &[super::Val],
    ) -> Result<Self, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let (ty, kind) = tag.in_store(core)?;
        if ty.params().len() != values.len() {
            return Err(Error::Type(format!("an exception carries {ty}, not {}", values.len())));
        }
        core.make_room();
        let raw =
            values.iter().zip(ty.params()).map(|(value, ty)| value.clone().into_raw(*ty, core));
        let raw = raw.collect::<Result<Vec<u128>, _>>()?;
        let address = core.heap.new_exception(kind, raw.len() as u32);
        let address =
            address.ok_or_else(|| Error::Resource("no memory for an exception".into()))?;
        // SAFETY: (1) made just now, with room for that many values after it.
        unsafe {
            let place = (address + size_of::<vm::Exception>()) as *mut u128;
            std::ptr::copy_nonoverlapping(raw.as_ptr(), place, raw.len());
            Ok(Self::from_raw(address, core).expect("made just now"))
        }
    }

    /// Its tag.
    pub fn tag(&self, mut store: impl super::AsContextMut) -> Result<super::Tag, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let address = self.raw(core)?;
        // SAFETY: (1) an exception that is held is not freed.
        let kind = unsafe { (*(address as *const vm::Exception)).tag };
        super::Tag::at(kind, core).ok_or_else(|| Error::Type("an exception without a tag".into()))
    }

    /// Its values.
    pub fn values(&self, mut store: impl super::AsContextMut) -> Result<Vec<super::Val>, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let address = self.raw(core)?;
        // SAFETY: (1) an exception that is held is not freed; (2) its values follow it, of its
        // tag's types.
        unsafe {
            let exception = &*(address as *const vm::Exception);
            let ty = registry::look_up(registry::TypeId((*exception.tag).ty));
            let values = (address + size_of::<vm::Exception>()) as *const u128;
            let each = ty.params().iter().enumerate();
            Ok(each.map(|(i, ty)| super::Val::from_raw(values.add(i).read(), *ty, core)).collect())
        }
    }
}
