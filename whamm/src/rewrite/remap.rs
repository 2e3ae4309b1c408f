//! Indices that move because something was imported for our own use.

use crate::app::App;
use wasm_encoder::Encode;
use wasm_encoder::reencode::{Error, Reencode};
use wasmparser::Operator;

/// How indices of the program become indices of what is written.
#[derive(Clone, Debug)]
pub(crate) struct Remap {
    imported_functions: u32,
    imported_memories: u32,
    total_functions: u32,
    total_memories: u32,
    /// Functions imported for us: module and name.
    pub(crate) functions_added: Vec<(String, String)>,
    /// Libraries whose memories were imported for us.
    pub(crate) memories_added: Vec<u32>,
    /// A function that takes the place of another everywhere.
    pub(crate) replaced: Option<(u32, u32)>,
}

impl Remap {
    /// Nothing moves yet.
    pub(crate) fn new(app: &App<'_>) -> Self {
        Self {
            imported_functions: app.imported_functions(),
            imported_memories: app.imported_memories,
            total_functions: u32::try_from(app.functions.len()).unwrap_or(0),
            total_memories: u32::try_from(app.memories.len()).unwrap_or(0),
            functions_added: vec![],
            memories_added: vec![],
            replaced: None,
        }
    }

    fn count<T>(list: &[T]) -> u32 {
        u32::try_from(list.len()).unwrap_or(0)
    }

    /// Imports a function: its index.
    pub(crate) fn import_function(&mut self, module: &str, name: &str) -> u32 {
        let pair = (module.to_string(), name.to_string());
        let at = self.functions_added.iter().position(|f| *f == pair);
        let at = at.map_or(Self::count(&self.functions_added), |n| u32::try_from(n).unwrap_or(0));
        if at == Self::count(&self.functions_added) {
            self.functions_added.push(pair);
        }
        self.imported_functions + at
    }

    /// Imports a library's memory: its index.
    pub(crate) fn import_memory(&mut self, library: u32) -> u32 {
        self.memories_added.push(library);
        self.imported_memories + Self::count(&self.memories_added) - 1
    }

    /// How many functions there are now.
    pub(crate) fn functions(&self) -> u32 {
        self.total_functions + Self::count(&self.functions_added)
    }

    /// How many memories there are now.
    pub(crate) fn memories(&self) -> u32 {
        self.total_memories + self.added_memories()
    }

    /// How many memories were imported for us.
    pub(crate) fn added_memories(&self) -> u32 {
        Self::count(&self.memories_added)
    }

    /// Where a memory went.
    pub(crate) fn memory(&self, memory: u32) -> u32 {
        if memory < self.imported_memories { memory } else { memory + self.added_memories() }
    }

    /// Where a function went, whatever takes its place.
    pub(crate) fn original(&self, function: u32) -> u32 {
        if function < self.imported_functions {
            function
        } else {
            function + Self::count(&self.functions_added)
        }
    }

    /// Where a function went.
    pub(crate) fn function(&self, function: u32) -> u32 {
        match self.replaced {
            Some((old, new)) if old == function => new,
            _ => self.original(function),
        }
    }

    /// Whether an instruction says something else afterwards.
    pub(crate) fn changes(&self, op: &Operator<'_>) -> bool {
        let functions = !self.functions_added.is_empty() || self.replaced.is_some();
        match op {
            Operator::Call { function_index }
            | Operator::ReturnCall { function_index }
            | Operator::RefFunc { function_index } => {
                functions && self.function(*function_index) != *function_index
            }
            _ => !self.memories_added.is_empty(),
        }
    }

    /// Writes an instruction.
    pub(crate) fn write(&mut self, op: &Operator<'_>, bytes: &[u8], out: &mut Vec<u8>) {
        if self.changes(op)
            && let Ok(instruction) = self.instruction(op.clone())
        {
            return instruction.encode(out);
        }
        out.extend_from_slice(bytes);
    }
}

impl Reencode for Remap {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, func: u32) -> Result<u32, Error> {
        Ok(self.function(func))
    }

    fn memory_index(&mut self, memory: u32) -> Result<u32, Error> {
        Ok(self.memory(memory))
    }
}
