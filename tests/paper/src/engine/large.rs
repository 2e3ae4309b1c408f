//! A pseudorandom module of ten megabytes, the same every time: thousands of functions with loops,
//! branches, calls, and memory accesses; the program's start calls the first one.

use crate::corpus::CorpusError;
use std::path::{Path, PathBuf};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ExportKind, ExportSection, Function,
    FunctionSection, InstructionSink, MemArg, MemArgTarget, MemorySection, MemoryType, Module,
    TypeSection, ValType,
};

/// Its name.
pub(super) const NAME: &str = "large";

/// The bytes of code, and of data.
const CODE: usize = 9_500_000;
const DATA: usize = 500_000;

/// Locals of each function: parameters, other integers, counters of loops by depth, long integers,
/// floating point.
const INTEGERS: u32 = 6;
const DEPTH: u32 = 3;
const COUNTER: u32 = INTEGERS;
const LONG: u32 = COUNTER + DEPTH;
const FLOAT: u32 = LONG + 3;

/// The module, which is made if needed.
pub(super) fn module(folder: &Path) -> Result<PathBuf, CorpusError> {
    let path = folder.join("large-1.wasm");
    if !path.exists() {
        std::fs::write(&path, encode(CODE, DATA))
            .map_err(CorpusError::io(path.display().to_string()))?;
    }
    Ok(path)
}

fn encode(code: usize, data: usize) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32, ValType::I32], [ValType::I32]);
    types.ty().function([], []);
    let (mut functions, mut bodies) = (FunctionSection::new(), CodeSection::new());
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    while bodies.byte_len() < code {
        let known = bodies.len();
        functions.function(0);
        bodies.function(&chance.function(known));
    }
    let start = bodies.len();
    functions.function(1);
    let mut body = Function::new([]);
    body.instructions().i32_const(1).i32_const(2).call(0).drop().end();
    bodies.function(&body);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: 16,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0).export("_start", ExportKind::Func, start);
    let mut segments = DataSection::new();
    segments.active(0, &ConstExpr::i32_const(1024), (0..data).map(|_| chance.below(256) as u8));
    let mut module = Module::new();
    module
        .section(&types)
        .section(&functions)
        .section(&memories)
        .section(&exports)
        .section(&bodies)
        .section(&segments);
    module.finish()
}

/// A pseudorandom generator, the same every time.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % limit
    }

    fn integer(&mut self) -> u32 {
        self.below(INTEGERS)
    }

    fn long(&mut self) -> u32 {
        LONG + self.below(3)
    }

    fn float(&mut self) -> u32 {
        FLOAT + self.below(3)
    }

    /// A function that may call any of the `known` ones before it.
    fn function(&mut self, known: u32) -> Function {
        let mut function = Function::new([
            (INTEGERS - 2 + DEPTH, ValType::I32),
            (3, ValType::I64),
            (3, ValType::F64),
        ]);
        let mut sink = function.instructions();
        for _ in 0..8 + self.below(60) {
            self.statement(&mut sink, known, 0);
        }
        sink.local_get(self.integer()).end();
        function
    }

    /// Adds a statement that leaves the stack unchanged.
    fn statement(&mut self, sink: &mut InstructionSink<'_>, known: u32, depth: u32) {
        match self.below(16) {
            0..=3 => self.integers(sink),
            4..=5 => self.longs(sink),
            6..=7 => self.floats(sink),
            8..=9 => {
                let at = MemArg {
                    offset: u64::from(self.below(4096)) * 4,
                    align: 2,
                    target: MemArgTarget::Memory(0),
                    ordering: None,
                };
                sink.local_get(self.integer())
                    .i32_const(0xfff)
                    .i32_and()
                    .i32_load(at)
                    .local_set(self.integer());
            }
            10..=11 => {
                let at = MemArg {
                    offset: u64::from(self.below(4096)) * 8,
                    align: 3,
                    target: MemArgTarget::Memory(0),
                    ordering: None,
                };
                sink.local_get(self.integer())
                    .i32_const(0xfff)
                    .i32_and()
                    .local_get(self.long())
                    .i64_store(at);
            }
            12 if known > 0 => {
                sink.local_get(self.integer())
                    .local_get(self.integer())
                    .call(self.below(known))
                    .local_set(self.integer());
            }
            13..=14 if depth < DEPTH => {
                sink.local_get(self.integer())
                    .local_get(self.integer())
                    .i32_lt_s()
                    .if_(BlockType::Empty);
                self.block(sink, known, depth + 1);
                sink.else_();
                self.block(sink, known, depth + 1);
                sink.end();
            }
            15 if depth < DEPTH => {
                let counter = COUNTER + depth;
                sink.i32_const(2 + self.below(30) as i32)
                    .local_set(counter)
                    .loop_(BlockType::Empty);
                self.block(sink, known, depth + 1);
                sink.local_get(counter).i32_const(1).i32_sub().local_tee(counter).br_if(0).end();
            }
            _ => self.integers(sink),
        }
    }

    fn block(&mut self, sink: &mut InstructionSink<'_>, known: u32, depth: u32) {
        for _ in 0..1 + self.below(5) {
            self.statement(sink, known, depth);
        }
    }

    fn integers(&mut self, sink: &mut InstructionSink<'_>) {
        sink.local_get(self.integer());
        match self.below(4) {
            0 => sink.i32_const(self.below(1 << 20) as i32),
            _ => sink.local_get(self.integer()),
        };
        match self.below(8) {
            0 => sink.i32_add(),
            1 => sink.i32_sub(),
            2 => sink.i32_mul(),
            3 => sink.i32_xor(),
            4 => sink.i32_shl(),
            5 => sink.i32_and(),
            6 => sink.i32_rotl(),
            _ => sink.i32_lt_u(),
        };
        sink.local_set(self.integer());
    }

    fn longs(&mut self, sink: &mut InstructionSink<'_>) {
        sink.local_get(self.long()).local_get(self.integer()).i64_extend_i32_u();
        match self.below(4) {
            0 => sink.i64_add(),
            1 => sink.i64_mul(),
            2 => sink.i64_xor(),
            _ => sink.i64_shr_u(),
        };
        sink.local_set(self.long());
    }

    fn floats(&mut self, sink: &mut InstructionSink<'_>) {
        sink.local_get(self.float()).local_get(self.integer()).f64_convert_i32_s();
        match self.below(4) {
            0 => sink.f64_add(),
            1 => sink.f64_mul(),
            2 => sink.f64_div(),
            _ => sink.f64_max(),
        };
        sink.local_set(self.float());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chance_makes_is_a_valid_module_and_the_same_every_time() {
        let module = encode(40_000, 1000);
        assert!(module.len() > 40_000 && module == encode(40_000, 1000));
        wasm_aot::Module::validate(&wasm_aot::Engine::default(), module).unwrap();
    }
}
