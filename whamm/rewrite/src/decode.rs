//! The first pass: reads the facts about a program that are needed before code is inserted.

use crate::Error;
use std::ops::Range;
use wasmparser::{BinaryReader, FunctionBody, Operator, Parser, Payload, TypeRef};

/// The facts about a program that a plan needs, without copies of its bytes.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The whole module, in binary.
    pub bytes: &'a [u8],
    /// How many types it has.
    pub types: u32,
    /// How many of its functions are imported.
    pub imported_functions: u32,
    /// How many functions it has, imported ones included.
    pub functions: u32,
    /// How many of its memories are imported.
    pub imported_memories: u32,
    /// How many memories it has, imported ones included.
    pub memories: u32,
    /// How many globals it has, imported ones included.
    pub globals: u32,
    /// The function that runs when it is instantiated.
    pub start: Option<u32>,
    /// The bodies of its own functions, in order.
    pub bodies: Vec<Body<'a>>,
    /// Where its code section begins.
    pub(crate) code_start: u64,
}

impl<'a> Program<'a> {
    /// Reads a module. It is assumed to be valid; an invalid part is an error here or when it is
    /// emitted.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut program = Self {
            bytes,
            types: 0,
            imported_functions: 0,
            functions: 0,
            imported_memories: 0,
            memories: 0,
            globals: 0,
            start: None,
            bodies: Vec::new(),
            code_start: 0,
        };
        for payload in Parser::new(0).parse_all(bytes) {
            program.section(payload?)?;
        }
        Ok(program)
    }

    /// The size of its functions' code in bytes.
    pub fn code_len(&self) -> u64 {
        self.bodies.iter().map(|body| body.body.range().end - body.body.range().start).sum()
    }

    fn section(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    self.types += group?.types().len() as u32;
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    match import?.ty {
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => {
                            self.imported_functions += 1;
                            self.functions += 1;
                        }
                        TypeRef::Memory(_) => {
                            self.imported_memories += 1;
                            self.memories += 1;
                        }
                        TypeRef::Global(_) => self.globals += 1,
                        _ => {}
                    }
                }
            }
            Payload::FunctionSection(section) => self.functions += section.count(),
            Payload::MemorySection(section) => self.memories += section.count(),
            Payload::GlobalSection(section) => self.globals += section.count(),
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::CodeSectionStart { unchecked_range, .. } => {
                self.code_start = unchecked_range.start;
            }
            Payload::CodeSectionEntry(body) => {
                let function = self.imported_functions + self.bodies.len() as u32;
                self.bodies.push(Body { function, body });
            }
            _ => {}
        }
        Ok(())
    }
}

/// The body of one of a program's own functions.
#[derive(Clone, Debug)]
pub struct Body<'a> {
    /// The index of the function.
    pub function: u32,
    body: FunctionBody<'a>,
}

impl<'a> Body<'a> {
    /// Its locals beyond the parameters: counts and types, as they are declared.
    pub fn locals(&self) -> Result<Vec<(u32, wasmparser::ValType)>, Error> {
        Ok(self.body.get_locals_reader()?.into_iter().collect::<Result<_, _>>()?)
    }

    /// Whether an instruction may have this opcode: whether the byte occurs.
    pub(crate) fn may_have(&self, opcode: u8) -> bool {
        self.body.as_bytes().contains(&opcode)
    }

    /// Its instructions, in order; the last one is the `end` of the function.
    pub fn instructions(&self) -> Result<Vec<Instruction<'a>>, Error> {
        let mut reader = self.body.get_operators_reader()?;
        let mut list = Vec::new();
        while !reader.eof() {
            let start = reader.original_position();
            let operator = reader.read()?;
            list.push(Instruction { operator, place: start..reader.original_position() });
        }
        Ok(list)
    }
}

/// An instruction and its place.
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// Decoded.
    pub operator: Operator<'a>,
    /// Its bytes in the program.
    pub place: Range<u64>,
}

/// Decodes one instruction.
pub(crate) fn operator(bytes: &[u8]) -> Result<Operator<'_>, Error> {
    Ok(wasmparser::OperatorsReader::new(BinaryReader::new(bytes, 0)).read()?)
}
