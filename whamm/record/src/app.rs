//! Facts about a program that are needed before it is rewritten.

mod functions;

use crate::Error;
use crate::types::{Types, index_of};
use std::collections::{BTreeMap, BTreeSet};
use wasm_aot_trace::Declared;
use wasm_encoder::Encode;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasmparser::{
    ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, Operator, Parser, Payload,
    ValType,
};
use whamm_rewrite::Program;

/// The largest gap before a segment of elements in a shadow's initial contents. Segments beyond it
/// are put there when the program begins.
const GAP: usize = 4096;

/// The most elements with which a shadow is filled that has an initial value for all.
const FILLED: u64 = 1 << 16;

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
    /// The same for segments whose place is computed when the program begins.
    pub(crate) placed: Vec<PlacedElements>,
    /// Whether references to functions of the host are recorded. Otherwise the host gives none, or
    /// the trace ends where it does.
    pub(crate) takes_functions: bool,
    pub(crate) types: Types,
    /// The types and tables of calls through tables.
    pub(crate) indirect: BTreeSet<(u32, u32)>,
    /// The types of calls by references, and those of functions in casts and tests.
    pub(crate) referenced: BTreeSet<u32>,
    pub(crate) tested: BTreeSet<u32>,
    /// The tables that the program's instructions and segments change.
    pub(crate) changed: BTreeSet<u32>,
    /// Whether instructions read or change functions in a table that the host may change, or
    /// objects that are neither functions nor of the host.
    accesses_functions: bool,
    accesses_others: bool,
    /// Whether the program has tail calls: then engines have them, and code that was added must not
    /// leave frames behind.
    pub(crate) has_tail_calls: bool,
    /// Whether exceptions may pass through gateways: the program has tags.
    pub(crate) throws: bool,
    /// Whether it catches them by the older instructions, which a module must not mix with the
    /// newer ones.
    pub(crate) is_older: bool,
}

/// A segment of elements whose place is computed when the program begins.
#[derive(Debug)]
pub(crate) struct PlacedElements {
    pub(crate) table: u32,
    /// The code that pushes the index of the first one.
    pub(crate) place: Vec<u8>,
    /// The functions' indices plus 1, as bytes.
    pub(crate) functions: Vec<u8>,
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
        let mut app = Self::reached(declared, is_raw);
        for payload in Parser::new(0).parse_all(program.bytes) {
            app.section(payload.map_err(whamm_rewrite::Error::from)?)?;
        }
        for body in &program.bodies {
            for (_, ty) in body.locals()? {
                app.types.name(ty);
            }
            for instruction in body.instructions()? {
                app.operator(&instruction.operator);
            }
        }
        app.functions_of_the_host()?;
        Ok(app)
    }

    /// What the host may reach, before the program's instructions are known.
    fn reached(declared: Declared, is_raw: bool) -> Self {
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
        if is_raw {
            let own = imported.globals..declared.globals.len() as u32;
            let is_number = |global: &u32| {
                !matches!(declared.globals[*global as usize].content_type, ValType::Ref(_))
            };
            let is_mutable = |global: &u32| declared.globals[*global as usize].mutable;
            globals.extend(own.filter(is_number).filter(is_mutable));
        }
        let is_of_objects =
            |table: &&u32| declared.tables[**table as usize].element_type.is_extern_ref();
        let objects = tables.iter().filter(is_of_objects).copied().collect();
        let throws = declared.tag(0).is_some();
        Self {
            declared,
            referred: BTreeSet::new(),
            memories,
            tables,
            objects,
            globals,
            elements: BTreeMap::new(),
            placed: Vec::new(),
            takes_functions: false,
            types: Types::default(),
            indirect: BTreeSet::new(),
            referenced: BTreeSet::new(),
            tested: BTreeSet::new(),
            changed: BTreeSet::new(),
            accesses_functions: false,
            accesses_others: false,
            has_tail_calls: false,
            throws,
            is_older: false,
        }
    }

    fn section(&mut self, payload: Payload<'_>) -> Result<(), Error> {
        let malformed = whamm_rewrite::Error::from;
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    self.types.group(group.map_err(malformed)?);
                }
                // Imported ones, and those that are declared later.
                for global in &self.declared.globals {
                    self.types.name(global.content_type);
                }
                for table in &self.declared.tables {
                    self.types.name(ValType::Ref(table.element_type));
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    self.refer(&global.map_err(malformed)?.init_expr)?;
                }
            }
            Payload::TableSection(section) => {
                for (table, own) in (self.declared.imported.tables..).zip(section) {
                    if let wasmparser::TableInit::Expr(init) = own.map_err(malformed)?.init {
                        let function = self.refer(&init)?;
                        self.fill_elements(table, function);
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
            ElementItems::Expressions(ty, section) => {
                self.types.name(ValType::Ref(ty));
                for expression in section {
                    let expression = expression.map_err(malformed)?;
                    functions.push(self.refer(&expression)?.map_or(0, |function| function + 1));
                }
            }
        }
        let ElementKind::Active { table_index, offset_expr } = element.kind else { return Ok(()) };
        let table = table_index.unwrap_or(0);
        self.changed.insert(table);
        if !self.tables.contains(&table) || self.objects.contains(&table) {
            return Ok(());
        }
        self.put_elements(table, &offset_expr, &functions)
    }

    /// All elements of a table are this function at first. In a table of more than [`FILLED`], they
    /// are found when they are read.
    fn fill_elements(&mut self, table: u32, function: Option<u32>) {
        let Some(function) = function.filter(|_| self.tables.contains(&table)) else { return };
        let len = self.declared.tables[table as usize].initial;
        if len <= FILLED {
            self.elements.insert(table, vec![function + 1; len as usize]);
        }
    }

    /// Segments that are placed later also replace earlier ones.
    fn put_elements(
        &mut self,
        table: u32,
        offset: &ConstExpr<'_>,
        functions: &[u32],
    ) -> Result<(), Error> {
        let malformed = whamm_rewrite::Error::from;
        let mut operators = offset.get_operators_reader();
        let (first, is_one) =
            (operators.read().map_err(malformed)?, operators.read().map_err(malformed)?);
        let place = match (first, is_one) {
            (Operator::I32Const { value }, Operator::End) => Some(u64::from(value as u32)),
            (Operator::I64Const { value }, Operator::End) => Some(value.cast_unsigned()),
            _ => None,
        };
        let place = place.and_then(|place| usize::try_from(place).ok());
        let len = self.elements.get(&table).map_or(0, Vec::len);
        let place = place.filter(|at| *at <= len + GAP);
        let is_first = self.placed.iter().all(|earlier| earlier.table != table);
        if let Some(at) = place.filter(|_| is_first) {
            let end = at + functions.len();
            let list = self.elements.entry(table).or_default();
            list.resize(list.len().max(end), 0);
            list[at..end].copy_from_slice(functions);
            return Ok(());
        }
        let mut place = Vec::new();
        for operator in offset.get_operators_reader() {
            match operator.map_err(malformed)? {
                Operator::End => break,
                operator => RoundtripReencoder.instruction(operator)?.encode(&mut place),
            }
        }
        let functions = functions.iter().flat_map(|function| function.to_le_bytes()).collect();
        self.placed.push(PlacedElements { table, place, functions });
        Ok(())
    }

    /// Records the functions that a constant expression refers to; returns the last one.
    fn refer(&mut self, expression: &ConstExpr<'_>) -> Result<Option<u32>, Error> {
        let mut found = None;
        for operator in expression.get_operators_reader() {
            let operator = operator.map_err(whamm_rewrite::Error::from)?;
            self.types.operator(&operator);
            if let Operator::RefFunc { function_index } = operator {
                self.referred.insert(function_index);
                found = Some(function_index);
            }
        }
        Ok(found)
    }

    fn operator(&mut self, operator: &Operator<'_>) {
        self.types.operator(operator);
        self.has_tail_calls |= matches!(
            operator,
            Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::ReturnCallRef { .. }
        );
        match operator {
            Operator::RefFunc { function_index } => {
                self.referred.insert(*function_index);
            }
            Operator::CallIndirect { type_index, table_index }
            | Operator::ReturnCallIndirect { type_index, table_index } => {
                self.indirect.insert((*type_index, *table_index));
            }
            Operator::CallRef { type_index } | Operator::ReturnCallRef { type_index } => {
                self.referenced.insert(*type_index);
            }
            Operator::RefTestNonNull { hty }
            | Operator::RefTestNullable { hty }
            | Operator::RefCastNonNull { hty }
            | Operator::RefCastNullable { hty } => self.tested.extend(index_of(*hty)),
            Operator::BrOnCast { to_ref_type, .. } | Operator::BrOnCastFail { to_ref_type, .. } => {
                self.tested.extend(index_of(to_ref_type.heap_type()));
            }
            Operator::TableGet { table } => self.table_access(*table),
            Operator::TableSet { table }
            | Operator::TableGrow { table }
            | Operator::TableFill { table }
            | Operator::TableInit { table, .. } => {
                self.changed.insert(*table);
                self.table_access(*table);
            }
            Operator::TableCopy { dst_table, src_table } => {
                self.changed.insert(*dst_table);
                self.table_access(*dst_table);
                self.table_access(*src_table);
            }
            Operator::Try { .. } => self.is_older = true,
            _ => {}
        }
    }

    fn table_access(&mut self, table: u32) {
        if !self.tables.contains(&table) || self.objects.contains(&table) {
            return;
        }
        match self.is_of_functions(table) {
            true => self.accesses_functions = true,
            false => self.accesses_others = true,
        }
    }

    fn is_of_functions(&self, table: u32) -> bool {
        let ty = self.declared.tables[table as usize].element_type;
        self.declared.is_of_functions(ValType::Ref(ty))
    }

    /// Whether a table's indices have 64 bits.
    pub(crate) fn is_wide_table(&self, table: u32) -> bool {
        self.declared.tables[table as usize].table64
    }

    /// The tables of functions that the host may change.
    pub(crate) fn function_tables(&self) -> impl Iterator<Item = u32> {
        self.tables.iter().copied().filter(|table| self.is_of_functions(*table))
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
