//! The declarations of a module: everything but the bodies of its functions.
//!
//! Index spaces hold imported items first and then defined ones, as in the specification.

mod constant;
mod debug;
mod instruction;
mod names;
mod read;

pub(crate) use constant::ConstOp;
pub use debug::debug_information;
pub(crate) use instruction::instruction_name;
pub(crate) use names::Names;
pub(crate) use read::{Apart, heap_type, value_type};
pub use read::{Body, Reading, operand_type, read};

use crate::types::{FuncType, GlobalType, MemoryType, RefType, TableType};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::OnceLock;

/// A constant expression, in postfix order.
pub(crate) type ConstExpr = Vec<ConstOp>;

/// What a module declares.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Types of functions. Concrete types in them are indices of this vector.
    pub(crate) types: Vec<FuncType>,
    /// For each type, text that distinguishes it from a function of that type: empty for functions;
    /// a description for structures and arrays, which can only be declared. Their fields are stored
    /// as parameters.
    pub(crate) kinds: Vec<String>,
    /// How [`types`](Self::types) are grouped: types of one group may refer to each other.
    pub(crate) groups: Vec<Range<u32>>,
    /// The imports.
    pub imports: Vec<Import>,
    /// The type of each function.
    pub functions: Vec<u32>,
    /// Each table.
    pub tables: Vec<TableType>,
    /// The initial elements of defined tables, if not null.
    pub(crate) table_inits: Vec<Option<ConstExpr>>,
    /// Each memory.
    pub memories: Vec<MemoryType>,
    /// Each global.
    pub globals: Vec<GlobalType>,
    /// The initial values of defined globals.
    pub(crate) global_inits: Vec<ConstExpr>,
    /// The type of each tag.
    pub tags: Vec<u32>,
    /// How many items of each index space are imported.
    pub imported: Imported,
    /// The exports.
    pub exports: Vec<Export>,
    /// The function that runs first.
    pub(crate) start: Option<u32>,
    /// Segments of elements.
    pub(crate) elements: Vec<ElementSegment>,
    /// Segments of data.
    pub(crate) data: Vec<DataSegment>,
    /// Functions to which there may be a reference, in order: each has an entry in the instance.
    pub(crate) referenced: Vec<u32>,
    /// The ranges of the defined functions' bodies in the module's bytes.
    pub bodies: Vec<Range<u32>>,
    /// Where the code section begins: debug information counts from there.
    pub code_start: u32,
    /// Names of functions. For a file of machine code, they are in the module inside.
    #[serde(skip)]
    pub(crate) names: Names,
    /// Exported functions and the positions of their exports, in the order of functions; computed
    /// on first use.
    #[serde(skip)]
    exported: OnceLock<Vec<(u32, usize)>>,
    /// Custom sections: their names, and where they are in the module's bytes.
    pub(crate) custom: Vec<(String, Range<u32>)>,
}

/// How many items of each index space are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Functions.
    pub functions: u32,
    /// Tables.
    pub(crate) tables: u32,
    /// Memories.
    pub memories: u32,
    /// Globals.
    pub(crate) globals: u32,
    /// Tags.
    pub(crate) tags: u32,
}

/// One of the five index spaces.
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

/// An import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Import {
    /// The name of the module.
    pub module: String,
    /// Under which name.
    pub name: String,
    /// Its index space; its index in it is the number of imports of that space before.
    pub space: Space,
    /// Its index in that space.
    pub index: u32,
}

/// An export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    /// Under which name.
    pub name: String,
    /// Its index space.
    pub space: Space,
    /// Its index in that space.
    pub index: u32,
}

/// When a segment is copied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SegmentMode {
    /// Into a table or memory, at an offset, when the module is instantiated.
    Active {
        /// The table or memory.
        target: u32,
        /// The offset.
        offset: ConstExpr,
    },
    /// By an instruction.
    Passive,
    /// Never: it only declares functions.
    Declared,
}

/// Elements for tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ElementSegment {
    /// When it is copied.
    pub(crate) mode: SegmentMode,
    /// The type of its elements.
    pub(crate) ty: RefType,
    /// The elements.
    pub(crate) items: Elements,
}

/// The elements of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Elements {
    /// Functions.
    Functions(Vec<u32>),
    /// The values of expressions.
    Expressions(Vec<ConstExpr>),
}

/// Bytes for memories.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataSegment {
    /// When it is copied.
    pub(crate) mode: SegmentMode,
    /// The range of the bytes in the module.
    pub(crate) range: Range<u32>,
}

impl ModuleInfo {
    /// A type that the module declares.
    pub fn declared_type(&self, index: u32) -> &FuncType {
        &self.types[index as usize]
    }

    /// The type of function `index`.
    pub fn function_type(&self, index: u32) -> &FuncType {
        &self.types[self.functions[index as usize] as usize]
    }

    /// The name of function `index`, if the module has one.
    pub fn function_name(&self, index: u32) -> Option<&str> {
        self.names.function(index)
    }

    /// A function's name in human-readable form: its own, the one under which it is imported or
    /// exported, or its number.
    pub fn label(&self, index: u32) -> String {
        self.known_name(index)
            .map_or_else(|| format!("function {index}"), |name| crate::error::demangled(&name))
    }

    /// A function's own name, or the one under which it is imported or exported, as it is spelt
    /// there.
    pub(crate) fn known_name(&self, index: u32) -> Option<String> {
        // A name without letters does not identify a function.
        if let Some(name) = self.function_name(index).filter(|name| !name.is_empty()) {
            return Some(name.to_owned());
        }
        let is_it = |import: &&Import| import.space == Space::Func && import.index == index;
        if index < self.imported.functions
            && let Some(import) = self.imports.iter().find(is_it)
        {
            return Some(format!("{}.{}", import.module, import.name));
        }
        self.exported_name(index).filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// The first name under which function `index` is exported.
    fn exported_name(&self, index: u32) -> Option<&str> {
        let exported = self.exported.get_or_init(|| {
            let functions =
                self.exports.iter().enumerate().filter(|(_, export)| export.space == Space::Func);
            let mut exported: Vec<(u32, usize)> =
                functions.map(|(place, export)| (export.index, place)).collect();
            exported.sort_unstable();
            exported
        });
        let at = exported.partition_point(|(function, _)| *function < index);
        let (_, place) = exported.get(at).filter(|(function, _)| *function == index)?;
        Some(&self.exports[*place].name)
    }

    /// The range of the body of function `index`, which the module defines, in its bytes.
    pub fn body(&self, index: u32) -> Range<u32> {
        self.bodies[(index - self.imported.functions) as usize].clone()
    }

    /// The range of the name section's contents in the module's bytes.
    pub(crate) fn names_section(&self) -> Option<Range<u32>> {
        self.custom_range("name")
    }

    fn custom_range(&self, wanted: &str) -> Option<Range<u32>> {
        self.custom.iter().find(|(name, _)| name == wanted).map(|(_, range)| range.clone())
    }

    /// Returns the contents of the first custom section with that name in the module's bytes.
    pub fn custom_section<'a>(&self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let range = self.custom_range(name)?;
        bytes.get(range.start as usize..range.end as usize)
    }

    /// Whether function `index` may be called other than by instructions of its module that name
    /// it: by the host, by other modules, through tables and references.
    pub fn is_called_from_elsewhere(&self, index: u32) -> bool {
        self.start == Some(index) || self.reference_of(index).is_some()
    }

    /// The position of function `index` among those that can be referred to.
    pub(crate) fn reference_of(&self, index: u32) -> Option<usize> {
        self.referenced.binary_search(&index).ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::features::Features;

    #[test]
    fn a_function_is_called_by_its_name_or_by_whatever_others_call_it() {
        let text = r#"(module
            (import "host" "m" (memory 1))
            (import "host" "f" (func))
            (func $named (export "other"))
            (func)
            (func (export "b") (export "a")))"#;
        let bytes = wat::parse_str(text).expect("text");
        let info = super::read(&bytes, Features::default()).expect("a module").info;
        assert_eq!(
            [0, 1, 2, 3].map(|index| info.label(index)),
            ["host.f", "named", "function 2", "b"]
        );
    }
}
