//! Describes a compiled module for `wasm-aot inspect`.

use crate::engine::Engine;
use crate::error::{Error, demangled};
use crate::runtime::Module;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// A compiled module that can be inspected.
#[derive(Debug)]
pub struct Inspection {
    module: Module,
}

/// Summary of a module.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: Option<String>,
    /// The size of the module.
    pub wasm_bytes: usize,
    /// The size of all machine code.
    pub code_bytes: usize,
    /// How many trampolines there are.
    pub trampolines: usize,
    /// How many instructions can trap.
    pub traps: usize,
    /// The number of places where probes or hooks can be switched on while instances run.
    pub sites: usize,
    /// The number of calls that have an exception handler.
    pub handlers: usize,
    /// Its imports.
    pub imports: Vec<String>,
    /// Its exports.
    pub exports: Vec<String>,
    /// Its custom sections.
    pub custom: Vec<String>,
    /// Its functions.
    pub functions: Vec<FunctionSummary>,
}

/// A function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionSummary {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The offset of its body in the module's bytes.
    pub wasm_offset: u32,
    /// The offset of its code.
    pub code_offset: u32,
    /// The size of its code.
    pub code_bytes: u32,
    /// How many of its instructions can trap.
    pub traps: usize,
}

/// Reads a file of machine code, or compiles the module that `bytes` returns.
pub fn inspect(
    engine: &Engine,
    path: &Path,
    bytes: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Inspection, Error> {
    let module = match Module::is_machine_code(path) {
        true => Module::from_file(engine, path)?,
        false => Module::new(
            engine,
            bytes()
                .ok_or_else(|| Error::Artifact(format!("{}: cannot be read", path.display())))?,
        )?,
    };
    Ok(Inspection { module })
}

impl Inspection {
    /// Returns a summary of the module.
    pub fn summary(&self) -> Summary {
        let inner = &self.module.inner;
        let tables = &inner.code.tables;
        let functions = tables.functions.iter().enumerate().map(|(defined, span)| {
            let index = inner.info.imported.functions + defined as u32;
            FunctionSummary {
                index,
                name: inner.info.function_name(index).map_or_else(String::new, demangled),
                wasm_offset: inner.info.bodies[defined].start,
                code_offset: span.start,
                code_bytes: span.end - span.start,
                traps: tables
                    .traps
                    .from(span.start)
                    .take_while(|site| site.offset < span.end)
                    .count(),
            }
        });
        Summary {
            name: inner.info.name.clone(),
            wasm_bytes: inner.bytes.len(),
            code_bytes: inner.code.range().len(),
            trampolines: tables.trampolines.len(),
            traps: tables.traps.from(0).count(),
            sites: self.module.sites(),
            handlers: tables.handlers.len(),
            imports: self
                .module
                .imports()
                .map(|import| format!("\"{}\" \"{}\" {}", import.module, import.name, import.ty))
                .collect(),
            exports: self
                .module
                .exports()
                .map(|export| format!("\"{}\" {}", export.name, export.ty))
                .collect(),
            custom: inner
                .info
                .custom
                .iter()
                .map(|(name, range)| format!("{name} ({} bytes)", range.len()))
                .collect(),
            functions: functions.collect(),
        }
    }

    /// One function's machine code interleaved with its Wasm.
    pub fn listing(&self, wanted: &str) -> Result<String, String> {
        let inner = &self.module.inner;
        let defined = self.find(wanted)?;
        let span = inner.code.tables.functions[defined];
        let body = &inner.info.bodies[defined];
        let wasm = operators(&inner.bytes[body.start as usize..body.end as usize], body.start);
        let code = inner.code.bytes();
        let code = &code[span.start as usize..span.end as usize];
        let mut decoder = Decoder::with_ip(64, code, u64::from(span.start), DecoderOptions::NONE);
        let (mut formatter, mut out) = (IntelFormatter::new(), String::new());
        let index = inner.info.imported.functions + defined as u32;
        let name = inner.info.function_name(index).map_or_else(String::new, demangled);
        let _ = writeln!(out, "function {index} {name}: {} bytes", code.len());
        let mut last = None;
        for instruction in &mut decoder {
            let offset = instruction.ip() as u32;
            let from = inner.code.wasm_offset(offset);
            if from != last {
                last = from;
                if let Some(offset) = from {
                    let text =
                        wasm.iter().find(|(at, _)| *at == offset).map_or("", |(_, text)| text);
                    let _ = writeln!(out, "{offset:#8x}  {text}");
                }
            }
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let trap = inner
                .code
                .trap_at(offset)
                .map_or_else(String::new, |trap| format!("   ; traps: {trap}"));
            let _ = writeln!(out, "          {offset:08x}  {text}{trap}");
        }
        Ok(out)
    }

    /// The defined function that has that name or index.
    fn find(&self, wanted: &str) -> Result<usize, String> {
        let inner = &self.module.inner;
        let imported = inner.info.imported.functions;
        let names = || {
            (0..inner.info.bodies.len()).map(|defined| {
                (defined, inner.info.function_name(imported + defined as u32).unwrap_or(""))
            })
        };
        if let Ok(index) = wanted.parse::<u32>() {
            let defined = index.checked_sub(imported).map(|defined| defined as usize);
            return defined.filter(|defined| *defined < inner.info.bodies.len()).ok_or_else(|| {
                match inner.info.bodies.len() {
                    0 => format!("no function {index} is defined, nor any other"),
                    count => format!(
                        "no function {index} is defined: there are {imported} to {}",
                        imported as usize + count - 1
                    ),
                }
            });
        }
        let exported = inner
            .info
            .exports
            .iter()
            .find(|export| export.name == wanted && export.space == crate::module::Space::Func);
        let exported = exported
            .and_then(|export| export.index.checked_sub(imported))
            .map(|defined| defined as usize);
        let exact = names()
            .find(|(_, name)| !name.is_empty() && (*name == wanted || demangled(name) == wanted))
            .map(|(defined, _)| defined);
        exact.or(exported).ok_or_else(|| {
            let near: Vec<String> = names()
                .map(|(_, name)| demangled(name))
                .filter(|name| !wanted.is_empty() && name.contains(wanted))
                .take(5)
                .collect();
            match near.is_empty() {
                true => {
                    format!("no function is called \"{wanted}\": without a name, all are listed")
                }
                false => {
                    format!("no function is called \"{wanted}\"; there are {}", near.join(", "))
                }
            }
        })
    }
}

/// The operators of a body, as text, with their offsets in the module.
pub fn operators(body_bytes: &[u8], start: u32) -> Vec<(u32, String)> {
    let reader = wasmparser::BinaryReader::new(body_bytes, u64::from(start));
    let body = wasmparser::FunctionBody::new(reader);
    let Ok(operators) = body.get_operators_reader() else { return Vec::new() };
    let spelled = |(op, offset): (wasmparser::Operator<'_>, u64)| {
        (offset as u32, crate::runtime::spelled(&op, body_bytes, offset as u32 - start))
    };
    operators.into_iter_with_offsets().map_while(Result::ok).map(spelled).collect()
}
