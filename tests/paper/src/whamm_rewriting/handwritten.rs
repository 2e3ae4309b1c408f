//! A rewrite by hand: the least cost of counting all executions.
//!
//! Each basic block has a counter, a global, which is incremented at the beginning of the block. No
//! code reads the counters.

use crate::corpus::CorpusError;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, ConstExpr, GlobalSection, GlobalType, Module, ValType};
use wasmparser::{FunctionBody, GlobalSectionReader, Operator, Parser, Payload};

/// Adds counters to a program.
pub(super) fn rewrite(program: &[u8]) -> Result<Vec<u8>, CorpusError> {
    let failed =
        |said: String| CorpusError::Failed { what: "counting blocks by hand".into(), said };
    let mut counting = Counting::of(program).map_err(|error| failed(error.to_string()))?;
    let mut module = Module::new();
    counting
        .parse_core_module(&mut module, Parser::new(0), program)
        .map_err(|error| failed(error.to_string()))?;
    Ok(module.finish())
}

/// The counters, and the number of those in use.
struct Counting {
    counters: u32,
    next: u32,
}

/// Whether a basic block begins after an instruction.
fn begins(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::BrIf { .. }
    )
}

impl Counting {
    /// Determines the number of counters, and the number of the program's globals.
    fn of(program: &[u8]) -> Result<Self, wasmparser::Error> {
        let mut counting = Self { counters: 0, next: 0 };
        for payload in Parser::new(0).parse_all(program) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        counting.next +=
                            u32::from(matches!(import?.ty, wasmparser::TypeRef::Global(_)));
                    }
                }
                Payload::GlobalSection(section) => counting.next += section.count(),
                Payload::CodeSectionEntry(body) => {
                    counting.counters += 1;
                    for operator in body.get_operators_reader()? {
                        counting.counters += u32::from(begins(&operator?));
                    }
                }
                _ => {}
            }
        }
        Ok(counting)
    }

    fn count(&mut self, function: &mut wasm_encoder::Function) {
        let counter = self.next;
        self.next += 1;
        function.instructions().global_get(counter).i32_const(1).i32_add().global_set(counter);
    }
}

impl Reencode for Counting {
    type Error = Infallible;

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_global_section(self, globals, section)?;
        for _ in 0..self.counters {
            globals.global(
                GlobalType { val_type: ValType::I32, mutable: true, shared: false },
                &ConstExpr::i32_const(0),
            );
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Infallible>> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        self.count(&mut function);
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let operator = reader.read()?;
            let instruction = self.instruction(operator.clone())?;
            function.instruction(&instruction);
            if begins(&operator) && !reader.eof() {
                self.count(&mut function);
            }
        }
        code.function(&function);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_counted_and_the_module_is_valid() {
        let mut module = Module::new();
        let mut types = wasm_encoder::TypeSection::new();
        types.ty().function([ValType::I32], [ValType::I32]);
        let mut functions = wasm_encoder::FunctionSection::new();
        functions.function(0);
        let mut globals = GlobalSection::new();
        globals.global(
            GlobalType { val_type: ValType::I64, mutable: true, shared: false },
            &ConstExpr::i64_const(0),
        );
        let mut code = CodeSection::new();
        let mut function = wasm_encoder::Function::new([]);
        let empty = wasm_encoder::BlockType::Empty;
        function.instructions().loop_(empty).local_get(0).br_if(0).end().local_get(0).end();
        code.function(&function);
        module.section(&types).section(&functions).section(&globals).section(&code);
        let rewritten = rewrite(&module.finish()).unwrap();
        wasmparser::Validator::new().validate_all(&rewritten).unwrap();
        let globals = Parser::new(0).parse_all(&rewritten).find_map(|payload| match payload {
            Ok(Payload::GlobalSection(section)) => Some(section.count()),
            _ => None,
        });
        // The beginning, the loop, the code after the branch, and the end of the loop; the
        // function's end needs no counter, but has one.
        assert_eq!(globals, Some(1 + 5));
    }
}
