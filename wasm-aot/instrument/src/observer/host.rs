//! The host functions for monitor modules beside WASI: reflection on the program, removing probes,
//! and a few tools.

use super::insertion::{self, InsertionRefusal};
use super::rule::MARKER;
use super::switches::Switches;
use crate::probe::{bits, value};
use std::cell::RefCell;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Caller;
use wasm_aot_engine::Error;
use wasm_aot_engine::Func;
use wasm_aot_engine::FuncType;
use wasm_aot_engine::Linker;
use wasm_aot_engine::Memory;
use wasm_aot_engine::Trap;
use wasm_aot_engine::Val;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::module::ModuleInfo;
use wasm_aot_engine::instrument::runtime::activation_slot;

/// The program that is observed, as its monitors see it.
#[derive(Debug)]
pub struct Program {
    pub(crate) bytes: Vec<u8>,
    pub(crate) info: ModuleInfo,
    /// The path of its file, as monitors see it.
    pub(crate) path: String,
}

impl Program {
    /// A program that is going to be observed, in binary or text.
    pub fn new(engine: &wasm_aot_engine::Engine, bytes: &[u8]) -> Result<Arc<Self>, Error> {
        let bytes = wasm_aot_engine::instrument::runtime::binary(bytes)?.into_owned();
        Self::read(engine, bytes)
    }

    /// The program inside of a module that was compiled before.
    pub fn of(
        engine: &wasm_aot_engine::Engine,
        module: &wasm_aot_engine::Module,
    ) -> Result<Arc<Self>, Error> {
        Self::read(engine, module.inner().bytes.to_vec())
    }

    /// The same, with the path that monitors can query. For programs that were not yet matched with
    /// a monitor.
    #[must_use]
    pub fn at_path(mut self: Arc<Self>, path: impl Into<String>) -> Arc<Self> {
        if let Some(own) = Arc::get_mut(&mut self) {
            own.path = path.into();
        }
        self
    }

    /// Whether it imports something of that name.
    pub fn imports(&self, module: &str, name: &str) -> bool {
        self.info.imports.iter().any(|import| import.module == module && import.name == name)
    }

    fn read(engine: &wasm_aot_engine::Engine, bytes: Vec<u8>) -> Result<Arc<Self>, Error> {
        let info =
            wasm_aot_engine::instrument::module::read(&bytes, engine.target().options.features)?
                .info;
        Ok(Arc::new(Self { bytes, info, path: String::new() }))
    }
}

/// Gives a linker the host's modules for one monitor: `whamm:dyninstr`, `whamm:reflect`, `wizeng`,
/// and the marker's, with access to the program's memories.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    program: &Arc<Program>,
    switches: &Switches,
) -> Result<(), Error> {
    linker.func_wrap(MARKER.0, MARKER.1, || {})?;
    slots(linker)?;
    let (own, of) = (switches.clone(), Arc::clone(program));
    let remove = move |mut caller: Caller<'_, T>, id: i32| {
        let id = id.cast_unsigned();
        match own.word(id) {
            Some(word) if id >= insertion::FIRST => {
                own.insertions().remove(&of, &caller.backtrace(), id, &word);
            }
            _ => own.switch(id, false),
        }
    };
    linker.func_wrap("whamm:dyninstr", "remove_probe", remove)?;
    let (own, of) = (switches.clone(), Arc::clone(program));
    let insert = move |caller: Caller<'_, T>, function: i32, pc: i32, callee: Option<Func>| {
        inserted(caller, &of, &own, [function, pc], callee, None)
    };
    linker.func_wrap("whamm:dyninstr", "insert_new_probe", insert)?;
    let (own, of) = (switches.clone(), Arc::clone(program));
    let insert = move |mut caller: Caller<'_, T>,
                       function: i32,
                       pc: i32,
                       callee: Option<Func>,
                       at: i32,
                       len: i32| {
        let params = String::from_utf8_lossy(&text(&mut caller, at, len)?).into_owned();
        inserted(caller, &of, &own, [function, pc], callee, Some(&params))
    };
    linker.func_wrap(MARKER.0, "insert_probe", insert)?;
    tools(linker)?;
    super::program_memory::add_to_linker(linker, program, switches)?;
    super::reflection::add_to_linker(linker, program)
}

/// Inserts a probe at the place that a monitor requests; returns its number, or why not.
fn inserted<T: 'static>(
    mut caller: Caller<'_, T>,
    program: &Program,
    switches: &Switches,
    place: [i32; 2],
    callee: Option<Func>,
    params: Option<&str>,
) -> Result<i32, Error> {
    let Some(callee) = callee else { return Ok(InsertionRefusal::Null as i32) };
    let mut store = caller.as_context_mut();
    let Some((module, index)) = callee.owner(store.core()) else {
        return Ok(InsertionRefusal::Foreign as i32);
    };
    let wish = match insertion::wish(program, place, callee, &module.info, index, params) {
        Ok(wish) => wish,
        Err(refusal) => return Ok(refusal as i32),
    };
    let word = |id: u32| {
        switches.make(id, 1, true);
        switches.word(id).expect("made just now")
    };
    let done = switches.insertions().insert(store, program, wish, switches.resting(), word)?;
    Ok(done.map_or_else(|refusal| refusal as i32, u32::cast_signed))
}

/// Slots of activations. Code of the program has their uses compiled inline; these functions are
/// reached where an event is completed after a trap.
fn slots<T: 'static>(linker: &mut Linker<T>) -> Result<(), Error> {
    let slot = |number: &Val, ty: ValType, written: Option<&Val>| {
        let number = number.i32().unwrap_or_default();
        let written = written.and_then(|value| bits(ty, value)).map(|[low, _]| low);
        let elsewhere = || Error::Link("slots of activations exist only in probes".into());
        activation_slot(number, ty, written)
            .and_then(|low| value(ty, [low, 0]))
            .ok_or_else(elsewhere)
    };
    for (name, ty) in
        [("i32", ValType::I32), ("i64", ValType::I64), ("f32", ValType::F32), ("f64", ValType::F64)]
    {
        let (get, set) =
            (FuncType::new([ValType::I32], [ty]), FuncType::new([ValType::I32, ty], []));
        linker.func_new(
            MARKER.0,
            &format!("frame_get_{name}"),
            get,
            move |_, params, results| {
                results[0] = slot(&params[0], ty, None)?;
                Ok(())
            },
        )?;
        linker.func_new(MARKER.0, &format!("frame_set_{name}"), set, move |_, params, _| {
            slot(&params[0], ty, Some(&params[1])).map(drop)
        })?;
    }
    Ok(())
}

thread_local! {
    /// What monitors print on this thread, while it is captured.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Runs a closure and captures what monitors print meanwhile on this thread through the engine's
/// functions; returns the closure's result and the captured bytes.
pub fn printed_during<R>(what: impl FnOnce() -> R) -> (R, Vec<u8>) {
    let before = KEPT.replace(Some(Vec::new()));
    let result = what();
    (result, KEPT.replace(before).unwrap_or_default())
}

/// Prints to stdout; a closed pipe is not an error.
fn print(bytes: &[u8]) {
    let is_kept = KEPT
        .with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.extend_from_slice(bytes)).is_some());
    if !is_kept {
        let _ = std::io::stdout().write_all(bytes);
    }
}

/// The memory that holds the texts which the calling module passes: its first, exported or not.
pub(super) fn text_memory<T>(caller: &mut Caller<'_, T>) -> Result<Memory, Error> {
    let lacks =
        "a monitor that exchanges texts with the engine has a memory, and this one has none";
    caller.first_memory().ok_or_else(|| Error::Link(lacks.into()))
}

fn text<T>(caller: &mut Caller<'_, T>, at: i32, len: i32) -> Result<Vec<u8>, Error> {
    let memory = text_memory(caller)?;
    let mut bytes = vec![0; (len.cast_unsigned() as usize).min(1 << 24)];
    memory.read(caller.as_context_mut(), at.cast_unsigned() as usize, &mut bytes)?;
    Ok(bytes)
}

/// The tools of `wizeng`.
fn tools<T: 'static>(linker: &mut Linker<T>) -> Result<(), Error> {
    const MODULE: &str = "wizeng";
    linker.func_wrap(MODULE, "puti", |number: i32| print(number.to_string().as_bytes()))?;
    linker.func_wrap(MODULE, "putc", |byte: i32| print(&[byte as u8]))?;
    linker.func_wrap(MODULE, "puts", |mut caller: Caller<'_, T>, at: i32, len: i32| {
        print(&text(&mut caller, at, len)?);
        Ok::<_, Error>(())
    })?;
    linker.func_wrap(MODULE, "error", |mut caller: Caller<'_, T>, at: i32, len: i32| {
        let bytes = text(&mut caller, at, len)?;
        Err::<(), _>(Error::host(format!("the monitor says: {}", String::from_utf8_lossy(&bytes))))
    })?;
    linker
        .func_wrap(MODULE, "crash", || Err::<(), _>(Error::host("the monitor wants to crash")))?;
    for name in ["invoke0", "tail_invoke0"] {
        linker.func_wrap(MODULE, name, |caller: Caller<'_, T>, callee: Option<Func>| {
            invoked(caller, callee)
        })?;
    }
    linker.func_wrap(MODULE, "force_gc", || {})?;
    linker.func_wrap(MODULE, "rdtsc", ticks)?;
    Ok(())
}

/// Calls a function of a monitor that has no parameters and no results.
fn invoked<T>(mut caller: Caller<'_, T>, callee: Option<Func>) -> Result<(), Error> {
    let callee = callee.ok_or(Trap::NullReference)?;
    let ty = callee.ty(caller.as_context_mut())?;
    if !(ty.params().is_empty() && ty.results().is_empty()) {
        return Err(Trap::IndirectCallType.into());
    }
    callee.call(caller.as_context_mut(), &[]).map(drop)
}

/// Nanoseconds since some point in time; other engines count the CPU's ticks.
fn ticks() -> i64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as i64
}
