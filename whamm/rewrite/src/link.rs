//! Links a module into the program, whose functions inserted code can call.
//!
//! A run-time support is easier to read as a module in text than as a list of instructions. Its
//! functions, globals, memories and data follow those of the program, and its exports are
//! identified by name. It has no tables: it calls functions by index.

use crate::Error;
use crate::decode::Program;
use crate::plan::Plan;
use std::collections::{BTreeMap, HashMap};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{Function, ValType};
use wasmparser::{
    CompositeInnerType, DataKind, ExternalKind, FunctionBody, Name, NameSectionReader, Operator,
    Parser, Payload, TypeRef,
};

/// The indices of a linked module's exports in the program.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// Its functions.
    pub functions: BTreeMap<String, u32>,
    /// Its globals.
    pub globals: BTreeMap<String, u32>,
    /// Its memories.
    pub memories: BTreeMap<String, u32>,
}

impl Plan {
    /// Links a module. `bind` returns, for an import's module and name, the index that the function
    /// or memory will have in the program. All imports that are added have to be known before.
    ///
    /// ```
    /// use whamm_rewrite::{BodyPlan, Plan, Program, emit};
    ///
    /// let bytes = wat::parse_str(r#"(module (func (export "f") (nop)))"#)?;
    /// let support = wat::parse_str(r#"(module
    ///     (memory (export "counts") 1)
    ///     (func (export "count") (param $address i32)
    ///         (i64.store (local.get $address)
    ///             (i64.add (i64.load (local.get $address)) (i64.const 1)))))"#)?;
    /// let program = Program::decode(&bytes)?;
    /// let mut plan = Plan::new(&program);
    /// let linked = plan.link(&program, &support, &|_, _| None)?;
    /// for body in &program.bodies {
    ///     let mut own = BodyPlan::empty(body)?;
    ///     own.put().i32_const(8 * body.function as i32).call(linked.functions["count"]);
    ///     body.instructions()?.into_iter().for_each(|instruction| own.keep(instruction.place));
    ///     plan.bodies.push(own);
    /// }
    /// let counts = linked.memories["counts"];
    /// plan.exports.push(("counts".into(), wasm_encoder::ExportKind::Memory, counts));
    /// wasmparser::Validator::new().validate_all(&emit(&program, &plan)?.module)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn link(
        &mut self,
        program: &Program<'_>,
        module: &[u8],
        bind: &dyn Fn(&str, &str) -> Option<u32>,
    ) -> Result<Linked, Error> {
        let mut places = Places::of(self, program);
        let mut linked = Linked::default();
        let mut bodies = 0;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        for ty in group?.into_types() {
                            self.types.push(shape(&ty.composite_type.inner)?);
                        }
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        places.import(&import?, bind)?;
                    }
                }
                Payload::FunctionSection(section) => {
                    for (n, ty) in (0..).zip(section) {
                        places.own_types.push(places.types + ty?);
                        places.functions.push(places.first_function + n);
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        let index = self.indices.memories() + self.memories.len() as u32;
                        places.memories.push(index);
                        self.memories.push(RoundtripReencoder.memory_type(memory?)?);
                    }
                }
                Payload::GlobalSection(section) => {
                    for global in section {
                        let global = global?;
                        let index = program.globals + self.globals.len() as u32;
                        let ty = RoundtripReencoder.global_type(global.ty)?;
                        let value = places.const_expr(global.init_expr)?;
                        places.globals.push(index);
                        self.globals.push((ty, value));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        places.export(&export?, &mut linked);
                    }
                }
                Payload::DataSection(section) => {
                    for data in section {
                        let data = data?;
                        let DataKind::Active { memory_index, offset_expr } = data.kind else {
                            return Err(Error::Unlinkable("data that is in no memory at first"));
                        };
                        let mut offset = offset_expr.get_operators_reader();
                        let Operator::I32Const { value } = offset.read()? else {
                            return Err(Error::Unlinkable("data whose place is computed"));
                        };
                        let memory = places.memory_index(memory_index)?;
                        self.data.push((memory, value, data.data.to_vec()));
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let function = places.body(&body)?;
                    self.functions.push((places.own_types[bodies], function));
                    bodies += 1;
                }
                Payload::CustomSection(custom) if custom.name() == "name" => {
                    self.names.extend(places.names(custom.data_reader()));
                }
                Payload::TableSection(_) => return Err(Error::Unlinkable("a table")),
                Payload::StartSection { .. } => return Err(Error::Unlinkable("a start function")),
                _ => {}
            }
        }
        Ok(linked)
    }
}

fn shape(ty: &CompositeInnerType) -> Result<(Vec<ValType>, Vec<ValType>), Error> {
    let CompositeInnerType::Func(function) = ty else {
        return Err(Error::Unlinkable("types that are no functions'"));
    };
    let all = |types: &[wasmparser::ValType]| {
        types.iter().map(|ty| RoundtripReencoder.val_type(*ty)).collect::<Result<_, _>>()
    };
    Ok((all(function.params())?, all(function.results())?))
}

/// The indices of a module's items in the program.
struct Places {
    /// The first of its types, and of its own functions.
    types: u32,
    first_function: u32,
    own_types: Vec<u32>,
    functions: Vec<u32>,
    memories: Vec<u32>,
    globals: Vec<u32>,
}

impl Places {
    fn of(plan: &Plan, program: &Program<'_>) -> Self {
        Self {
            types: program.types + plan.types.len() as u32,
            first_function: plan.indices.functions() + plan.functions.len() as u32,
            own_types: Vec::new(),
            functions: Vec::new(),
            memories: Vec::new(),
            globals: Vec::new(),
        }
    }

    fn import(
        &mut self,
        import: &wasmparser::Import<'_>,
        bind: &dyn Fn(&str, &str) -> Option<u32>,
    ) -> Result<(), Error> {
        let place = || {
            let unbound = || Error::Unbound(format!("{} {}", import.module, import.name));
            bind(import.module, import.name).ok_or_else(unbound)
        };
        match import.ty {
            TypeRef::Func(_) => self.functions.push(place()?),
            TypeRef::Memory(_) => self.memories.push(place()?),
            _ => return Err(Error::Unlinkable("imports that are no functions and no memories")),
        }
        Ok(())
    }

    fn export(&self, export: &wasmparser::Export<'_>, linked: &mut Linked) {
        let (from, to) = match export.kind {
            ExternalKind::Func => (&self.functions, &mut linked.functions),
            ExternalKind::Global => (&self.globals, &mut linked.globals),
            ExternalKind::Memory => (&self.memories, &mut linked.memories),
            _ => return,
        };
        to.extend(from.get(export.index as usize).map(|place| (export.name.to_owned(), *place)));
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<Function, Error> {
        let mut locals = Vec::new();
        for local in body.get_locals_reader()? {
            let (count, ty) = local?;
            locals.push((count, RoundtripReencoder.val_type(ty)?));
        }
        let mut function = Function::new(locals);
        for operator in body.get_operators_reader()? {
            function.instruction(&self.instruction(operator?)?);
        }
        Ok(function)
    }

    fn names(&self, reader: wasmparser::BinaryReader<'_>) -> Vec<(u32, String)> {
        let mut all = HashMap::new();
        for part in NameSectionReader::new(reader).flatten() {
            let Name::Function(map) = part else { continue };
            for naming in map.into_iter().flatten() {
                let place = self.functions.get(naming.index as usize).copied();
                let own = place.filter(|place| *place >= self.first_function);
                all.extend(own.map(|place| (place, naming.name.to_owned())));
            }
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable();
        all
    }
}

fn found(list: &[u32], index: u32) -> Result<u32, wasm_encoder::reencode::Error> {
    let missing = wasm_encoder::reencode::Error::InvalidConstExpr;
    list.get(index as usize).copied().ok_or(missing)
}

impl Reencode for Places {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        found(&self.functions, index)
    }

    fn memory_index(&mut self, index: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        found(&self.memories, index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        found(&self.globals, index)
    }

    fn type_index(&mut self, index: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(self.types + index)
    }
}
