//! Rewrites a module so that it counts itself: a global for each instruction, and before each
//! instruction the code that increments it. It shares no code with the engine, and any engine can
//! run the result.

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ExportKind, ExportSection, Function, GlobalSection,
    GlobalType, Instruction, Module, RawSection, TypeSection, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// A module that counts, and the instruction of each counter: the function among the defined ones,
/// and the offset in the body.
pub(crate) struct Spelled {
    pub(crate) bytes: Vec<u8>,
    pub(crate) instructions: Vec<(usize, u32)>,
}

/// The name under which a counter is exported.
pub(crate) fn name(counter: usize) -> String {
    format!("count {counter}")
}

/// Adds counting code to a valid module.
pub(crate) fn spell(bytes: &[u8]) -> Spelled {
    let mut shape = Shape::default();
    let payloads: Vec<Payload<'_>> =
        Parser::new(0).parse_all(bytes).map(|payload| payload.expect("a valid module")).collect();
    for payload in &payloads {
        shape.see(payload);
    }
    let mut instructions = Vec::new();
    let mut code = CodeSection::new();
    let bodies = payloads.iter().filter_map(|payload| match payload {
        Payload::CodeSectionEntry(body) => Some(body),
        _ => None,
    });
    for (defined, body) in bodies.enumerate() {
        let wrapper = shape.result_type(defined);
        code.function(&counted(body, wrapper, shape.globals, |offset| {
            instructions.push((defined, offset));
            instructions.len() as u32 - 1
        }));
    }
    for counter in 0..instructions.len() {
        let ty = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        shape.global_section.global(ty, &ConstExpr::i64_const(0));
        shape.export_section.export(
            &name(counter),
            ExportKind::Global,
            shape.globals + counter as u32,
        );
    }
    Spelled { bytes: shape.assemble(&payloads, bytes, &code), instructions }
}

#[derive(Default)]
struct Shape {
    types: TypeSection,
    /// The result types of each type, and the type of each defined function.
    results: Vec<Vec<ValType>>,
    functions: Vec<u32>,
    globals: u32,
    global_section: GlobalSection,
    export_section: ExportSection,
}

impl Shape {
    fn see(&mut self, payload: &Payload<'_>) {
        let mut same = RoundtripReencoder;
        match payload {
            Payload::TypeSection(section) => {
                same.parse_type_section(&mut self.types, section.clone()).expect("types");
                for ty in section.clone().into_iter_err_on_gc_types() {
                    let results = ty.expect("a type of functions").results().to_vec();
                    self.results.push(
                        results.into_iter().map(|ty| same.val_type(ty).expect("a type")).collect(),
                    );
                }
            }
            Payload::ImportSection(section) => {
                let imports =
                    section.clone().into_imports().map(|import| import.expect("an import"));
                self.globals += imports
                    .filter(|import| matches!(import.ty, wasmparser::TypeRef::Global(_)))
                    .count() as u32;
            }
            Payload::FunctionSection(section) => {
                self.functions =
                    section.clone().into_iter().map(|ty| ty.expect("a type")).collect();
            }
            Payload::GlobalSection(section) => {
                self.globals += section.count();
                same.parse_global_section(&mut self.global_section, section.clone())
                    .expect("globals");
            }
            Payload::ExportSection(section) => {
                same.parse_export_section(&mut self.export_section, section.clone())
                    .expect("exports");
            }
            _ => {}
        }
    }

    /// The type of a block with the results of a function.
    fn result_type(&mut self, defined: usize) -> BlockType {
        let results = self.results[self.functions[defined] as usize].clone();
        match results[..] {
            [] => BlockType::Empty,
            [result] => BlockType::Result(result),
            _ => {
                self.types.ty().function([], results.clone());
                self.results.push(results);
                BlockType::FunctionType(self.results.len() as u32 - 1)
            }
        }
    }

    fn assemble(&self, payloads: &[Payload<'_>], bytes: &[u8], code: &CodeSection) -> Vec<u8> {
        let raw = |wanted: u8| {
            let found =
                payloads.iter().filter_map(Payload::as_section).find(|(id, _)| *id == wanted)?;
            Some((found.0, &bytes[found.1.start as usize..found.1.end as usize]))
        };
        let mut module = Module::new();
        // In the order of sections: tags are 13, the count of data 12.
        for id in [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11] {
            match id {
                1 => drop(module.section(&self.types)),
                6 => drop(module.section(&self.global_section)),
                7 => drop(module.section(&self.export_section)),
                10 => drop(module.section(code)),
                id => {
                    if let Some((id, data)) = raw(id) {
                        module.section(&RawSection { id, data });
                    }
                }
            }
        }
        module.finish()
    }
}

/// A body that counts. Branches out of the function go to the end of a block around the whole body.
fn counted(
    body: &FunctionBody<'_>,
    wrapper: BlockType,
    globals: u32,
    mut counter: impl FnMut(u32) -> u32,
) -> Function {
    let start = body.range().start;
    let locals = body.get_locals_reader().expect("locals").into_iter().map(|local| {
        let (count, ty) = local.expect("a local");
        (count, RoundtripReencoder.val_type(ty).expect("a type"))
    });
    let mut function = Function::new(locals.collect::<Vec<_>>());
    function.instruction(&Instruction::Block(wrapper));
    let mut reader = body.get_operators_reader().expect("a body");
    let mut place = reader.original_position();
    while !reader.eof() {
        let operator = reader.read().expect("an instruction");
        let next = reader.original_position();
        let counter = globals + counter((place - start) as u32);
        let raw =
            body.as_bytes()[(place - start) as usize..(next - start) as usize].iter().copied();
        // Branches lead to after these instructions, so the counter follows them.
        if matches!(operator, Operator::End | Operator::Loop { .. } | Operator::Delegate { .. }) {
            function.raw(raw);
            add(&mut function, counter);
        } else {
            add(&mut function, counter);
            function.raw(raw);
        }
        place = next;
    }
    function.instruction(&Instruction::End);
    function
}

fn add(function: &mut Function, counter: u32) {
    function.instruction(&Instruction::GlobalGet(counter));
    function.instruction(&Instruction::I64Const(1));
    function.instruction(&Instruction::I64Add);
    function.instruction(&Instruction::GlobalSet(counter));
}
