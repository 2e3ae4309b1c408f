//! Indices that move because the plan adds imports.

use crate::decode::Program;
use crate::erasure::{Erasure, names_type};
use std::collections::BTreeMap;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{Encode, HeapType, Instruction};
use wasmparser::Operator;

/// Maps indices of the program to indices of the output.
///
/// Imported functions and memories precede all others, so that the program's own move. Other
/// additions follow the existing items, and move nothing.
#[derive(Clone, Debug)]
pub struct Indices {
    imported_functions: u32,
    imported_memories: u32,
    total_functions: u32,
    total_memories: u32,
    /// Added imports of functions: module and name.
    functions: Vec<(String, String)>,
    /// How many imports of memories were added.
    memories: u32,
    replaced: Option<(u32, u32)>,
    /// The functions that replace others in references.
    referred: BTreeMap<u32, u32>,
    erasure: Option<Erasure>,
}

impl Indices {
    /// The identity: nothing moves yet.
    pub fn new(program: &Program<'_>) -> Self {
        Self {
            imported_functions: program.imported_functions,
            imported_memories: program.imported_memories,
            total_functions: program.functions,
            total_memories: program.memories,
            functions: Vec::new(),
            memories: 0,
            replaced: None,
            referred: BTreeMap::new(),
            erasure: None,
        }
    }

    fn added(&self) -> u32 {
        u32::try_from(self.functions.len()).unwrap_or(u32::MAX)
    }

    /// Imports a function and returns its index. The same function is imported once.
    pub fn import_function(&mut self, module: &str, name: &str) -> u32 {
        let is = |f: &(String, String)| f.0 == module && f.1 == name;
        let at = self.functions.iter().position(is).unwrap_or_else(|| {
            self.functions.push((module.to_owned(), name.to_owned()));
            self.functions.len() - 1
        });
        self.imported_functions + u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Imports a memory and returns its index.
    pub fn import_memory(&mut self) -> u32 {
        self.memories += 1;
        self.imported_memories + self.memories - 1
    }

    /// Replaces a function by another wherever the program refers to it.
    pub fn replace(&mut self, function: u32, by: u32) {
        self.replaced = Some((function, by));
    }

    /// Replaces a function by another in references to it: in tables, globals and `ref.func`. Calls
    /// are unchanged.
    pub fn refer(&mut self, function: u32, to: u32) {
        self.referred.insert(function, to);
    }

    /// Removes the types of references to functions.
    pub fn erase(&mut self, erasure: Erasure) {
        self.erasure = Some(erasure);
    }

    /// The types that are removed from references, if any are.
    pub fn erasure(&self) -> Option<&Erasure> {
        self.erasure.as_ref()
    }

    /// The same indices, with the types of references.
    pub(crate) fn with_types(&self) -> Self {
        Self { erasure: None, ..self.clone() }
    }

    /// The function that a reference to this function refers to in the output.
    pub fn reference(&self, function: u32) -> u32 {
        self.referred.get(&function).copied().unwrap_or_else(|| self.function(function))
    }

    /// The added imports of functions, and the index of the first.
    pub fn imported(&self) -> (u32, &[(String, String)]) {
        (self.imported_functions, &self.functions)
    }

    /// How many functions there are before others are added after them.
    pub fn functions(&self) -> u32 {
        self.total_functions + self.added()
    }

    /// How many memories there are before others are added after them.
    pub fn memories(&self) -> u32 {
        self.total_memories + self.memories
    }

    /// How many imports of memories were added.
    pub fn added_memories(&self) -> u32 {
        self.memories
    }

    /// The new index of a memory.
    pub fn memory(&self, memory: u32) -> u32 {
        if memory < self.imported_memories { memory } else { memory + self.memories }
    }

    /// The new index of a function, even if another one replaces it.
    pub fn original(&self, function: u32) -> u32 {
        if function < self.imported_functions { function } else { function + self.added() }
    }

    /// The new index of a function, or of the one that replaces it.
    pub fn function(&self, function: u32) -> u32 {
        match self.replaced {
            Some((old, new)) if old == function => new,
            _ => self.original(function),
        }
    }

    /// Whether any instruction may change.
    pub(crate) fn move_any(&self) -> bool {
        let calls_move = !self.functions.is_empty() || self.replaced.is_some();
        let referred_move = !self.referred.is_empty() || self.erasure.is_some();
        calls_move || referred_move || self.memories > 0
    }

    /// Whether an instruction changes.
    fn changes(&self, op: &Operator<'_>) -> bool {
        match op {
            Operator::RefFunc { function_index } => {
                self.reference(*function_index) != *function_index
            }
            _ => self.memories > 0 || (self.erasure.is_some() && names_type(op)),
        }
    }

    /// Writes an instruction of the program.
    pub(crate) fn write(&mut self, op: Operator<'_>, bytes: &[u8], out: &mut Vec<u8>) {
        match op {
            Operator::Call { function_index: old } if self.function(old) != old => {
                return Instruction::Call(self.function(old)).encode(out);
            }
            Operator::ReturnCall { function_index: old } if self.function(old) != old => {
                return Instruction::ReturnCall(self.function(old)).encode(out);
            }
            Operator::Call { .. } | Operator::ReturnCall { .. } => {
                return out.extend_from_slice(bytes);
            }
            _ => {}
        }
        if self.changes(&op)
            && let Ok(instruction) = self.instruction(op)
        {
            return instruction.encode(out);
        }
        out.extend_from_slice(bytes);
    }
}

impl Reencode for Indices {
    type Error = std::convert::Infallible;

    /// Calls are written elsewhere; all other uses of a function are references.
    fn function_index(&mut self, func: u32) -> Result<u32, Error> {
        Ok(self.reference(func))
    }

    fn type_index(&mut self, ty: u32) -> Result<u32, Error> {
        Ok(self.erasure.as_ref().map_or(ty, |erasure| erasure.signature(ty)))
    }

    fn heap_type(&mut self, ty: wasmparser::HeapType) -> Result<HeapType, Error> {
        match &self.erasure {
            Some(erasure) if erasure.erases(ty) => Ok(HeapType::FUNC),
            _ => utils::heap_type(self, ty),
        }
    }

    fn memory_index(&mut self, memory: u32) -> Result<u32, Error> {
        Ok(self.memory(memory))
    }
}
