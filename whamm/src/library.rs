//! Libraries: modules with functions that a script calls.
//!
//! A library is given as `name=path` or `name(module)=path`; its exports define its functions'
//! types. Calls with `@static` run here, in an interpreter, with bounded fuel and memory, and are
//! not needed when the program runs.

use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::guest::Guest;
use crate::hir::{Expr, ExprKind};
use crate::types::Ty;
use std::collections::HashMap;
use std::rc::Rc;
use thiserror::Error;
use wasmparser::{CompositeInnerType, ExternalKind, Parser, Payload, TypeRef, ValType};

/// A library as the user has given it.
#[derive(Clone, Debug)]
pub struct LibraryFile {
    /// Its name in scripts.
    pub name: String,
    /// The module from which its functions are imported when the program runs.
    pub module: String,
    /// A Wasm module, in binary or text.
    pub bytes: Vec<u8>,
}

/// The parameters and results of a library's function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    /// Its parameters.
    pub params: Vec<Ty>,
    /// Its result.
    pub result: Option<Ty>,
}

/// A library and its exports.
#[derive(Debug)]
pub(crate) struct Library {
    /// Its name in scripts.
    pub name: String,
    /// The module from which its functions are imported.
    pub module: String,
    /// Its functions; `None` if the language has no type for a parameter or a result.
    pub functions: HashMap<Rc<str>, Option<Signature>>,
    /// The name of its first exported memory, and whether that has 64-bit addresses.
    pub memory: Option<(String, bool)>,
    bytes: Vec<u8>,
}

/// Converts a module from binary or text to binary, or returns the reason why it is not a module.
pub fn binary(bytes: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, String> {
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    if bytes.starts_with(COMPONENT) {
        return Err("it is a component; extract its core module".into());
    }
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    let is_text = std::str::from_utf8(bytes)
        .is_ok_and(|text| !text.contains(|c: char| c.is_control() && !c.is_whitespace()));
    if !bytes.starts_with(b"\0asm") && !is_text {
        return Err("it is neither in binary, which begins with \\0asm, nor text".into());
    }
    wat::parse_bytes(bytes).map_err(|e| first_line(&e) + &place_in_text(&e))
}

/// The place of an error in a text, from the second line of the parser's message.
fn place_in_text(error: &wat::Error) -> String {
    let text = error.to_string();
    let place = text.lines().nth(1).and_then(|line| line.trim().strip_prefix("--> <anon>:"));
    let place = place.and_then(|place| place.split_once(':'));
    place.map_or_else(String::new, |(line, column)| format!(", line {line}, column {column}"))
}

impl Library {
    /// Reads the exports of a library.
    pub(crate) fn read(file: &LibraryFile) -> Result<Self, Diagnostics> {
        let fail = |e: String| {
            Diagnostics::general(
                Kind::GeneralError,
                format!("the library `{}` is not a Wasm module: {e}", file.name),
            )
        };
        let bytes = binary(&file.bytes).map_err(fail)?.into_owned();
        let mut validator =
            wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all());
        validator.validate_all(&bytes).map_err(|e| fail(first_line(&e)))?;
        let mut library = Self {
            name: file.name.clone(),
            module: file.module.clone(),
            functions: HashMap::new(),
            memory: None,
            bytes: Vec::new(),
        };
        library.exports(&bytes).map_err(|e| fail(first_line(&e)))?;
        library.bytes = bytes;
        Ok(library)
    }

    /// The library as a part of another module, if that is possible.
    pub(crate) fn guest(&self) -> Option<Guest> {
        Guest::read(&self.bytes)
    }

    fn exports(&mut self, bytes: &[u8]) -> Result<(), wasmparser::Error> {
        let (mut types, mut functions, mut wide) = (Vec::new(), Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        types.extend(group?.into_types().map(|t| match t.composite_type.inner {
                            CompositeInnerType::Func(f) => {
                                Some((f.params().to_vec(), f.results().to_vec()))
                            }
                            _ => None,
                        }));
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        match import?.ty {
                            TypeRef::Func(ty) => functions.push(ty),
                            TypeRef::Memory(m) => wide.push(m.memory64),
                            _ => {}
                        }
                    }
                }
                Payload::FunctionSection(section) => {
                    for ty in section {
                        functions.push(ty?);
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        wide.push(memory?.memory64);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        let index = export.index as usize;
                        if export.kind == ExternalKind::Func {
                            let ty = functions
                                .get(index)
                                .and_then(|&t| types.get(t as usize))
                                .and_then(Option::as_ref);
                            self.functions
                                .insert(export.name.into(), ty.and_then(|(p, r)| signature(p, r)));
                        } else if export.kind == ExternalKind::Memory && self.memory.is_none() {
                            self.memory = Some((
                                export.name.into(),
                                wide.get(index).copied().unwrap_or(false),
                            ));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn signature(params: &[ValType], results: &[ValType]) -> Option<Signature> {
    let params = params.iter().map(|&t| Ty::natural(t)).collect::<Option<_>>()?;
    let result = match results {
        [] => None,
        [one] => Some(Ty::natural(*one)?),
        _ => return None,
    };
    Some(Signature { params, result })
}

/// The first line of an error's text.
pub(crate) fn first_line(e: &dyn std::fmt::Display) -> String {
    e.to_string().lines().next().unwrap_or("").to_string()
}

/// Why a library could not be called while compiling.
#[derive(Debug, Error)]
pub(crate) enum AskError {
    /// It could not be instantiated.
    #[error("the library `{0}` cannot run while compiling: {1}")]
    Instantiate(String, String),
    /// The call failed.
    #[error("`{0}.{1}` failed: {2}")]
    Call(String, String, String),
}

/// Running libraries, which are called while compiling.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    running: HashMap<u32, (wasmi::Store<wasmi::StoreLimits>, wasmi::Instance)>,
}

impl Oracle {
    const FUEL: u64 = 200_000_000;
    const MEMORY: usize = 256 << 20;

    fn instance(
        &mut self,
        number: u32,
        library: &Library,
    ) -> Result<&mut (wasmi::Store<wasmi::StoreLimits>, wasmi::Instance), AskError> {
        use std::collections::hash_map::Entry;
        match self.running.entry(number) {
            Entry::Occupied(e) => Ok(e.into_mut()),
            Entry::Vacant(e) => {
                let fail = |why: String| AskError::Instantiate(library.name.clone(), why);
                let mut config = wasmi::Config::default();
                config.consume_fuel(true);
                let engine = wasmi::Engine::new(&config);
                let limits = wasmi::StoreLimitsBuilder::new().memory_size(Self::MEMORY).build();
                let mut store = wasmi::Store::new(&engine, limits);
                store.limiter(|l| l);
                store.set_fuel(Self::FUEL).map_err(|e| fail(first_line(&e)))?;
                let module = wasmi::Module::new(&engine, &library.bytes)
                    .map_err(|e| fail(first_line(&e)))?;
                let mut linker = wasmi::Linker::new(&engine);
                for import in module.imports() {
                    // Functions that a library imports do not exist while compiling: calling one is
                    // an error with a message.
                    if let wasmi::ExternType::Func(ty) = import.ty() {
                        let name = format!(
                            "it calls {}.{}, which does not exist while compiling",
                            import.module(),
                            import.name()
                        );
                        let trap = move |_: wasmi::Caller<'_, _>,
                                         _: &[wasmi::Val],
                                         _: &mut [wasmi::Val]| {
                            Err(wasmi::Error::new(name.clone()))
                        };
                        linker
                            .func_new(import.module(), import.name(), ty.clone(), trap)
                            .map_err(|e| fail(first_line(&e)))?;
                    }
                }
                let instance = linker
                    .instantiate_and_start(&mut store, &module)
                    .map_err(|e| fail(first_line(&e)))?;
                Ok(e.insert((store, instance)))
            }
        }
    }

    /// Calls a function with constant arguments.
    pub(crate) fn ask(
        &mut self,
        number: u32,
        library: &Library,
        function: &str,
        args: &[Expr],
    ) -> Result<Option<ExprKind>, AskError> {
        let (store, instance) = self.instance(number, library)?;
        let fail = |why: String| AskError::Call(library.name.clone(), function.into(), why);
        let args = args
            .iter()
            .map(value)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| fail("an argument is not constant".into()))?;
        let callee =
            instance.get_func(&*store, function).ok_or_else(|| fail("no such function".into()))?;
        let mut results = vec![wasmi::Val::I32(0); callee.ty(&*store).results().len()];
        store.set_fuel(Self::FUEL).map_err(|e| fail(first_line(&e)))?;
        callee.call(&mut *store, &args, &mut results).map_err(|e| fail(first_line(&e)))?;
        Ok(match results.first() {
            None => Some(ExprKind::Tuple(vec![])),
            Some(wasmi::Val::I32(n)) => Some(ExprKind::Int(i128::from(*n))),
            Some(wasmi::Val::I64(n)) => Some(ExprKind::Int(i128::from(*n))),
            Some(wasmi::Val::F32(x)) => Some(ExprKind::Float(f64::from(f32::from(*x)))),
            Some(wasmi::Val::F64(x)) => Some(ExprKind::Float(f64::from(*x))),
            Some(_) => None,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the type says which bits count")]
fn value(e: &Expr) -> Option<wasmi::Val> {
    Some(match (&e.kind, &e.ty) {
        (ExprKind::Int(n), ty) if ty.wide() => wasmi::Val::I64(*n as i64),
        (ExprKind::Int(n), _) => wasmi::Val::I32(*n as i32),
        (ExprKind::Bool(b), _) => wasmi::Val::I32(i32::from(*b)),
        (ExprKind::Float(x), Ty::F32) => wasmi::Val::F32((*x as f32).into()),
        (ExprKind::Float(x), _) => wasmi::Val::F64((*x).into()),
        _ => return None,
    })
}
