//! Facts about a program that are needed before it is profiled.

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{
    CompositeInnerType, ConstExpr, ElementItems, ExternalKind, MemoryType, Name, NameSectionReader,
    Operator, Parser, Payload, TypeRef,
};
use whamm_rewrite::{Body, Program};

/// The module of WASI's first preview.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";
/// The module of the host interface: a program that imports it was rewritten before.
pub(crate) const PROF: &str = "prof";

/// A memory of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppMemory {
    pub(crate) is_shared: bool,
    pub(crate) is_64: bool,
    /// Whether it may have no page.
    pub(crate) may_be_empty: bool,
}

impl AppMemory {
    fn of(memory: &MemoryType) -> Self {
        let may_be_empty = memory.initial == 0;
        Self { is_shared: memory.shared, is_64: memory.memory64, may_be_empty }
    }
}

/// A program: its functions, and what refers to them.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// The number of parameters of each type; `None` if it is not a function type.
    types: Vec<Option<u32>>,
    /// The type of each function, imported ones first.
    pub(crate) functions: Vec<u32>,
    /// Modules and names of imported functions.
    pub(crate) imports: Vec<(String, String)>,
    /// Memories.
    pub(crate) memories: Vec<AppMemory>,
    /// Exported functions, by name.
    pub(crate) exports: Vec<(String, u32)>,
    /// Names of all exports.
    pub(crate) exported: BTreeSet<String>,
    /// The memory that WASI uses.
    pub(crate) wasi_memory: Option<u32>,
    /// Functions to which there are references: in tables, globals, code.
    pub(crate) referred: BTreeSet<u32>,
    /// Whether it makes tail calls.
    pub(crate) tails: bool,
    /// Whether it makes tail calls through tables or references.
    pub(crate) tails_indirectly: bool,
    /// Whether it catches exceptions.
    pub(crate) catches: bool,
    /// Whether it calls functions through tables or references, by tail calls or others.
    pub(crate) calls_indirectly: bool,
    /// Whether it has a start function.
    starts: bool,
    /// Names of functions.
    names: BTreeMap<u32, String>,
}

impl App {
    /// Reads a program; returns an error if it cannot be profiled.
    pub(crate) fn read(program: &Program<'_>) -> Result<Self, Error> {
        let mut app = Self { starts: program.start.is_some(), ..Self::default() };
        for payload in Parser::new(0).parse_all(program.bytes) {
            app.section(payload.map_err(whamm_rewrite::Error::from)?)?;
        }
        for body in &program.bodies {
            for instruction in body.instructions()? {
                let operator = instruction.operator;
                app.tails |= is_tail_call(&operator);
                app.tails_indirectly |= is_indirect_tail_call(&operator);
                app.calls_indirectly |= app.tails_indirectly
                    || matches!(operator, Operator::CallIndirect { .. } | Operator::CallRef { .. });
                app.catches |= matches!(
                    operator,
                    Operator::TryTable { .. } | Operator::Catch { .. } | Operator::CatchAll
                );
                if let Operator::RefFunc { function_index } = operator {
                    app.referred.insert(function_index);
                }
            }
        }
        Ok(app)
    }

    fn section(&mut self, payload: Payload<'_>) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group.map_err(whamm_rewrite::Error::from)?.into_types() {
                        self.types.push(match &ty.composite_type.inner {
                            CompositeInnerType::Func(f) => Some(f.params().len() as u32),
                            CompositeInnerType::Cont(_) => {
                                return Err(Error::Unsupported("stack switching"));
                            }
                            CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) => {
                                return Err(Error::Unsupported("garbage-collected objects"));
                            }
                        });
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    self.import(&import.map_err(whamm_rewrite::Error::from)?)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    self.functions.push(ty.map_err(whamm_rewrite::Error::from)?);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(whamm_rewrite::Error::from)?;
                    self.memories.push(AppMemory::of(&memory));
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    let table = table.map_err(whamm_rewrite::Error::from)?;
                    if let wasmparser::TableInit::Expr(init) = table.init {
                        self.refer(&init)?;
                    }
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    self.refer(&global.map_err(whamm_rewrite::Error::from)?.init_expr)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    self.export(&export.map_err(whamm_rewrite::Error::from)?)?;
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    match element.map_err(whamm_rewrite::Error::from)?.items {
                        ElementItems::Functions(functions) => {
                            for function in functions {
                                let function = function.map_err(whamm_rewrite::Error::from)?;
                                self.referred.insert(function);
                            }
                        }
                        ElementItems::Expressions(_, expressions) => {
                            for expression in expressions {
                                self.refer(&expression.map_err(whamm_rewrite::Error::from)?)?;
                            }
                        }
                    }
                }
            }
            Payload::CustomSection(custom) if custom.name() == "name" => {
                for part in NameSectionReader::new(custom.data_reader()).flatten() {
                    let Name::Function(map) = part else { continue };
                    for naming in map.into_iter().flatten() {
                        self.names.insert(naming.index, naming.name.to_owned());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, import: &wasmparser::Import<'_>) -> Result<(), Error> {
        if import.module == PROF {
            return Err(Error::Again(format!("imports {}.{}", import.module, import.name)));
        }
        match import.ty {
            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                self.functions.push(ty);
                self.imports.push((import.module.to_owned(), import.name.to_owned()));
            }
            TypeRef::Memory(memory) => self.memories.push(AppMemory::of(&memory)),
            _ => {}
        }
        Ok(())
    }

    fn export(&mut self, export: &wasmparser::Export<'_>) -> Result<(), Error> {
        if export.name.starts_with("fastinst:") {
            return Err(Error::Again(format!("exports {}", export.name)));
        }
        self.exported.insert(export.name.to_owned());
        match export.kind {
            ExternalKind::Func | ExternalKind::FuncExact => {
                self.exports.push((export.name.to_owned(), export.index));
            }
            ExternalKind::Memory if export.name == "memory" => {
                self.wasi_memory = Some(export.index);
            }
            _ => {}
        }
        Ok(())
    }

    /// References in a constant expression.
    fn refer(&mut self, expression: &ConstExpr<'_>) -> Result<(), Error> {
        for operator in expression.get_operators_reader() {
            if let Operator::RefFunc { function_index } =
                operator.map_err(whamm_rewrite::Error::from)?
            {
                self.referred.insert(function_index);
            }
        }
        Ok(())
    }

    /// How many functions it has.
    pub(crate) fn len(&self) -> u32 {
        self.functions.len() as u32
    }

    /// How many of them are imported.
    pub(crate) fn imported(&self) -> u32 {
        self.imports.len() as u32
    }

    /// How many parameters a function has.
    pub(crate) fn parameters(&self, function: u32) -> u32 {
        let ty = self.functions.get(function as usize).copied().unwrap_or(u32::MAX);
        self.types.get(ty as usize).copied().flatten().unwrap_or(0)
    }

    /// Whether it has a start function that is counted and not timed.
    pub(crate) fn starts_quietly(&self) -> bool {
        self.starts && !self.exports.is_empty()
    }

    /// Whether it uses WASI.
    pub(crate) fn uses_wasi(&self) -> bool {
        self.imports.iter().any(|import| import.0 == WASI)
    }

    /// Whether a function is a WASI import that does not return.
    pub(crate) fn is_exit(&self, function: u32) -> bool {
        let import = self.imports.get(function as usize);
        import.is_some_and(|import| import.0 == WASI && import.1 == "proc_exit")
    }

    /// The displayed name of a function: its name, otherwise the name of its export or import,
    /// otherwise its number.
    pub(crate) fn name(&self, function: u32) -> String {
        let named = self.names.get(&function).filter(|name| !name.is_empty());
        let exported = || self.exports.iter().find(|export| export.1 == function);
        let imported = || {
            let import = self.imports.get(function as usize)?;
            Some(format!("{}.{}", import.0, import.1))
        };
        let name = named
            .map(|name| demangled(name))
            .or_else(imported)
            .or_else(|| exported().map(|export| export.0.clone()))
            .unwrap_or_else(|| format!("function {function}"));
        // The name is printed, and stored with a terminating zero byte.
        name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// Whether an instruction is a call.
pub(crate) fn is_call(operator: &Operator<'_>) -> bool {
    is_tail_call(operator)
        || matches!(
            operator,
            Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. }
        )
}

/// Whether an instruction is a tail call.
pub(crate) fn is_tail_call(operator: &Operator<'_>) -> bool {
    matches!(operator, Operator::ReturnCall { .. }) || is_indirect_tail_call(operator)
}

/// Whether an instruction is a tail call that does not name its callee.
fn is_indirect_tail_call(operator: &Operator<'_>) -> bool {
    matches!(operator, Operator::ReturnCallIndirect { .. } | Operator::ReturnCallRef { .. })
}

/// Whether a body makes no calls and is short: it has no loop, and no instruction that works on
/// ranges. Also returns its number of instructions.
pub(crate) fn is_leaf(body: &Body<'_>) -> Result<(bool, u32), Error> {
    let (mut is_short, mut instructions) = (true, 0);
    for instruction in body.instructions()? {
        instructions += 1;
        is_short &= !matches!(
            instruction.operator,
            Operator::Loop { .. }
                | Operator::MemoryCopy { .. }
                | Operator::MemoryFill { .. }
                | Operator::MemoryInit { .. }
                | Operator::MemoryGrow { .. }
                | Operator::TableCopy { .. }
                | Operator::TableFill { .. }
                | Operator::TableInit { .. }
                | Operator::TableGrow { .. }
                | Operator::MemoryAtomicWait32 { .. }
                | Operator::MemoryAtomicWait64 { .. }
        );
    }
    Ok((is_short, instructions))
}

/// A name as its language spells it.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = || cpp_demangle::Symbol::new(name).ok()?.demangle().ok();
    name.starts_with("_Z").then(cpp).flatten().unwrap_or_else(|| name.to_owned())
}
