//! Facts about a program that are needed before it is rewritten.

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use wasm_aot_trace::Declared;
use wasmparser::{
    ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, Operator, Parser, Payload,
    ValType,
};
use whamm_rewrite::Program;

/// The largest table that engines make: the limit of WebAssembly's JavaScript interface.
const LARGEST_TABLE: usize = 10_000_000;

/// The module of WASI's first preview.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// A program: which parts of it the host may reach, and what refers to its functions.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) declared: Declared,
    /// Functions to which there are references: in tables, globals, code.
    pub(crate) referred: BTreeSet<u32>,
    /// Memories that are recorded: those that the host may reach, or all.
    pub(crate) memories: BTreeSet<u32>,
    /// Tables and mutable globals that the host may reach.
    pub(crate) tables: BTreeSet<u32>,
    /// The tables among them whose elements are host objects.
    pub(crate) objects: BTreeSet<u32>,
    pub(crate) globals: BTreeSet<u32>,
    /// The functions that segments put into tables that the host may reach: their indices plus 1.
    pub(crate) elements: BTreeMap<u32, Vec<u32>>,
    /// Whether exceptions may pass through gateways: the program has tags.
    pub(crate) throws: bool,
    /// Whether it catches them by the older instructions, which a module must not mix with the
    /// newer ones.
    pub(crate) is_older: bool,
}

impl App {
    /// Reads a program; returns an error if it cannot be recorded.
    pub(crate) fn read(
        program: &Program<'_>,
        declared: Declared,
        is_raw: bool,
    ) -> Result<Self, Error> {
        if let Some(what) = declared.refusal() {
            return Err(Error::Refused(what));
        }
        if declared.exports.iter().any(|(name, ..)| name.starts_with("record:")) {
            return Err(Error::Again);
        }
        let imported = declared.imported;
        let exported = |kind: ExternalKind| {
            let own = declared.exports.iter().filter(move |export| export.1 == kind);
            own.map(|export| export.2).collect::<BTreeSet<u32>>()
        };
        let (mut memories, mut tables, mut globals) = (
            exported(ExternalKind::Memory),
            exported(ExternalKind::Table),
            exported(ExternalKind::Global),
        );
        memories.extend(0..imported.memories);
        if is_raw {
            memories.extend(0..declared.memories.len() as u32);
        }
        tables.extend(0..imported.tables);
        globals.extend(0..imported.globals);
        globals.retain(|global| declared.globals[*global as usize].mutable);
        let is_reference = |global: &u32| {
            matches!(declared.globals[*global as usize].content_type, ValType::Ref(_))
        };
        let is_function = |global: &u32| {
            let ty = declared.globals[*global as usize].content_type;
            matches!(ty, ValType::Ref(ty) if !ty.is_extern_ref())
        };
        if is_raw {
            let own = imported.globals..declared.globals.len() as u32;
            let is_number = |global: &u32| !is_reference(global);
            let is_mutable = |global: &u32| declared.globals[*global as usize].mutable;
            globals.extend(own.filter(is_number).filter(is_mutable));
        }
        if globals.iter().any(is_function) {
            return Err(Error::Unsupported(
                "a global of references to functions that the host may change",
            ));
        }
        if tables.iter().any(|table| declared.tables[*table as usize].table64) {
            return Err(Error::Unsupported("a table of 64 bits that the host may change"));
        }
        let is_of_objects =
            |table: &&u32| declared.tables[**table as usize].element_type.is_extern_ref();
        let objects = tables.iter().filter(is_of_objects).copied().collect();
        let (referred, elements) = (BTreeSet::new(), BTreeMap::new());
        let throws = declared.tag(0).is_some();
        let mut app = Self {
            declared,
            referred,
            memories,
            tables,
            objects,
            globals,
            elements,
            throws,
            is_older: false,
        };
        for payload in Parser::new(0).parse_all(program.bytes) {
            app.section(payload.map_err(whamm_rewrite::Error::from)?)?;
        }
        for body in &program.bodies {
            for instruction in body.instructions()? {
                app.operator(&instruction.operator)?;
            }
        }
        Ok(app)
    }

    fn section(&mut self, payload: Payload<'_>) -> Result<(), Error> {
        let malformed = whamm_rewrite::Error::from;
        match payload {
            Payload::GlobalSection(section) => {
                for global in section {
                    self.refer(&global.map_err(malformed)?.init_expr)?;
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    if let wasmparser::TableInit::Expr(init) = table.map_err(malformed)?.init {
                        self.refer(&init)?;
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    self.element(element.map_err(malformed)?)?;
                }
            }
            Payload::DataSection(section) => {
                for datum in section {
                    if let DataKind::Active { offset_expr, .. } = datum.map_err(malformed)?.kind {
                        self.refer(&offset_expr)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn element(&mut self, element: wasmparser::Element<'_>) -> Result<(), Error> {
        let malformed = whamm_rewrite::Error::from;
        let mut functions = Vec::new();
        match element.items {
            ElementItems::Functions(section) => {
                for function in section {
                    let function = function.map_err(malformed)?;
                    self.referred.insert(function);
                    functions.push(function + 1);
                }
            }
            ElementItems::Expressions(_, section) => {
                for expression in section {
                    let expression = expression.map_err(malformed)?;
                    functions.push(self.refer(&expression)?.map_or(0, |function| function + 1));
                }
            }
        }
        if let ElementKind::Active { table_index, offset_expr } = element.kind {
            let table = table_index.unwrap_or(0);
            if !self.tables.contains(&table) {
                return Ok(());
            }
            let mut offset = offset_expr.get_operators_reader();
            let Operator::I32Const { value } = offset.read().map_err(malformed)? else {
                return Err(Error::Unsupported(
                    "elements whose place is computed, in a table that the host may change",
                ));
            };
            let at = value as u32 as usize;
            let end = at + functions.len();
            if end > LARGEST_TABLE {
                return Err(Error::Unsupported("elements beyond the largest table of engines"));
            }
            let list = self.elements.entry(table).or_default();
            list.resize(list.len().max(end), 0);
            list[at..end].copy_from_slice(&functions);
        }
        Ok(())
    }

    /// Records the functions that a constant expression refers to; returns the last one.
    fn refer(&mut self, expression: &ConstExpr<'_>) -> Result<Option<u32>, Error> {
        let mut found = None;
        for operator in expression.get_operators_reader() {
            if let Operator::RefFunc { function_index } =
                operator.map_err(whamm_rewrite::Error::from)?
            {
                self.referred.insert(function_index);
                found = Some(function_index);
            }
        }
        Ok(found)
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), Error> {
        let (tables, objects) = (&self.tables, &self.objects);
        let public = |table: &u32| tables.contains(table) && !objects.contains(table);
        let changes = match operator {
            Operator::RefFunc { function_index } => {
                self.referred.insert(*function_index);
                false
            }
            Operator::TableGet { table }
            | Operator::TableSet { table }
            | Operator::TableGrow { table }
            | Operator::TableFill { table }
            | Operator::TableInit { table, .. } => public(table),
            Operator::Try { .. } => {
                self.is_older = true;
                false
            }
            Operator::TableCopy { dst_table, src_table } => public(dst_table) || public(src_table),
            _ => false,
        };
        match changes {
            true => Err(Error::Unsupported(
                "instructions that read or change functions in a table that the host may change",
            )),
            false => Ok(()),
        }
    }

    /// How many functions are imported.
    pub(crate) fn imported(&self) -> u32 {
        self.declared.imports.len() as u32
    }

    /// Whether a memory's addresses have 64 bits.
    pub(crate) fn is_wide(&self, memory: u32) -> bool {
        self.declared.memories[memory as usize].memory64
    }

    /// Whether the program is a command, which its host starts once.
    pub(crate) fn is_command(&self) -> bool {
        self.declared.exports.iter().any(|(name, ..)| name == "_start")
    }

    /// Whether a function is a WASI import that does not return.
    pub(crate) fn is_exit(&self, function: u32) -> bool {
        let import = self.declared.imports.get(function as usize);
        import.is_some_and(|(module, name)| module == WASI && name == "proc_exit")
    }

    /// Whether a function is a WASI import that fills a list of buffers: its second and third
    /// argument are the list's address and length.
    pub(crate) fn fills_buffers(&self, function: u32) -> bool {
        let import = self.declared.imports.get(function as usize);
        import.is_some_and(|(module, name)| {
            module == WASI && ["fd_read", "fd_pread"].contains(&name.as_str())
        })
    }

    /// The memory that WASI uses.
    pub(crate) fn wasi_memory(&self) -> Option<u32> {
        let mut all = self.declared.exports.iter();
        let memory = all.find(|(name, kind, _)| name == "memory" && *kind == ExternalKind::Memory);
        memory.map(|(.., index)| *index)
    }
}
