//! A module as it is declared: everything but the bodies of its functions.
//!
//! Spaces of indices hold what is imported first and what is defined after it, as in the specification.

mod constant;
mod read;

pub use constant::ConstOp;
pub(crate) use read::{Body, Reading, read, value_type};

use crate::types::{FuncType, GlobalType, MemoryType, RefType, TableType};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A constant expression, in postfix order.
pub type ConstExpr = Vec<ConstOp>;

/// What a module declares.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Types of functions. Concrete types in them are indices of this vector.
    pub types: Vec<FuncType>,
    /// For each type, what distinguishes it from a function of that type: nothing for functions; for structures and arrays, of which there are only
    /// declarations, what they are. Their fields stand in for parameters.
    pub kinds: Vec<String>,
    /// How [`types`](Self::types) are grouped: types of one group may refer to each other.
    pub groups: Vec<Range<u32>>,
    /// What is imported.
    pub imports: Vec<Import>,
    /// The type of each function.
    pub functions: Vec<u32>,
    /// Each table.
    pub tables: Vec<TableType>,
    /// What the elements of defined tables are at first, if not null.
    pub table_inits: Vec<Option<ConstExpr>>,
    /// Each memory.
    pub memories: Vec<MemoryType>,
    /// Each global.
    pub globals: Vec<GlobalType>,
    /// What defined globals are at first.
    pub global_inits: Vec<ConstExpr>,
    /// The type of each tag.
    pub tags: Vec<u32>,
    /// How many of each space are imported.
    pub imported: Imported,
    /// What is exported.
    pub exports: Vec<Export>,
    /// The function that runs first.
    pub start: Option<u32>,
    /// Segments of elements.
    pub elements: Vec<ElementSegment>,
    /// Segments of data.
    pub data: Vec<DataSegment>,
    /// Functions that somebody may hold a reference to, in order: each has a place in the instance.
    pub referenced: Vec<u32>,
    /// Where the bodies of the defined functions are in the module's bytes.
    pub bodies: Vec<Range<u32>>,
    /// Where the code section begins: what debug information counts from.
    pub code_start: u32,
    /// Names of functions, by index, sorted.
    pub function_names: Vec<(u32, String)>,
    /// Custom sections: their names, and where they are in the module's bytes.
    pub custom: Vec<(String, Range<u32>)>,
}

/// How many of each space are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Functions.
    pub functions: u32,
    /// Tables.
    pub tables: u32,
    /// Memories.
    pub memories: u32,
    /// Globals.
    pub globals: u32,
    /// Tags.
    pub tags: u32,
}

/// One of the five spaces of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Space {
    /// Functions.
    Func,
    /// Tables.
    Table,
    /// Memories.
    Memory,
    /// Globals.
    Global,
    /// Tags.
    Tag,
}

/// Something that is imported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Import {
    /// From which module.
    pub module: String,
    /// Under which name.
    pub name: String,
    /// Which space it is in; its index follows from how many came before.
    pub space: Space,
    /// Its index in that space.
    pub index: u32,
}

/// Something that is exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    /// Under which name.
    pub name: String,
    /// Which space it is in.
    pub space: Space,
    /// Its index in that space.
    pub index: u32,
}

/// When a segment is copied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// Into a table or memory, at an offset, when the module is instantiated.
    Active {
        /// The table or memory.
        target: u32,
        /// Where in it.
        offset: ConstExpr,
    },
    /// By an instruction.
    Passive,
    /// Never: it only declares functions.
    Declared,
}

/// Elements for tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ElementSegment {
    /// When it is copied.
    pub mode: Mode,
    /// What it holds.
    pub ty: RefType,
    /// The elements.
    pub items: Elements,
}

/// The elements of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Elements {
    /// Functions.
    Functions(Vec<u32>),
    /// Whatever the expressions give.
    Expressions(Vec<ConstExpr>),
}

/// Bytes for memories.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataSegment {
    /// When it is copied.
    pub mode: Mode,
    /// Where the bytes are in the module.
    pub range: Range<u32>,
}

impl ModuleInfo {
    /// The type of function `index`.
    pub fn function_type(&self, index: u32) -> &FuncType {
        &self.types[self.functions[index as usize] as usize]
    }

    /// The name of function `index`, if the module tells one.
    pub fn function_name(&self, index: u32) -> Option<&str> {
        let at = self.function_names.binary_search_by_key(&index, |(function, _)| *function).ok()?;
        Some(&self.function_names[at].1)
    }

    /// How many functions it defines.
    pub fn defined_functions(&self) -> usize {
        self.bodies.len()
    }

    /// Where function `index` is among those that can be referred to.
    pub fn reference_of(&self, index: u32) -> Option<usize> {
        self.referenced.binary_search(&index).ok()
    }
}
