//! Relaxed vector instructions, replaced by plain ones.
//!
//! Their results depend on the processor, within what their specification allows. A plain
//! instruction, or a few of them, always gives one of the allowed results. So a program without
//! relaxed instructions does the same wherever it runs, and so do its replays.

use crate::declared::Declared;
use crate::error::Error;
use std::borrow::Cow;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, Encode as _, InstructionSink, Module, RawSection, SectionId, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// Returns the module without relaxed vector instructions: the same one if it has none. What
/// refers to its code by offsets, debug information, is left out otherwise.
pub fn canonical(module: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    if is_canonical(module)? {
        return Ok(Cow::Borrowed(module));
    }
    let declared = Declared::read(module)?;
    let mut code = CodeSection::new();
    for (function, body) in (declared.imports.len() as u32..).zip(bodies(module)) {
        let body = body?;
        if is_relaxed(&body)? {
            let params = declared.function(function).map_or(0, |ty| ty.params().len() as u32);
            code.raw(&replaced(module, &body, params)?);
        } else {
            code.raw(body.as_bytes());
        }
    }
    let mut out = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::CustomSection(custom) = &payload
            && !matches!(custom.name(), "name" | "producers" | "target_features")
        {
            continue;
        }
        let Some((id, range)) = payload.as_section() else { continue };
        if id == SectionId::Code as u8 {
            out.section(&code);
        } else {
            let data = &module[range.start as usize..range.end as usize];
            out.section(&RawSection { id, data });
        }
    }
    Ok(Cow::Owned(out.finish()))
}

/// Whether a module has no relaxed vector instructions.
pub fn is_canonical(module: &[u8]) -> Result<bool, Error> {
    for body in bodies(module) {
        if is_relaxed(&body?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The bodies of a module's functions.
fn bodies(module: &[u8]) -> impl Iterator<Item = Result<FunctionBody<'_>, Error>> {
    Parser::new(0).parse_all(module).filter_map(|payload| match payload {
        Ok(Payload::CodeSectionEntry(body)) => Some(Ok(body)),
        Ok(_) => None,
        Err(error) => Some(Err(error.into())),
    })
}

/// The prefix of vector instructions.
const VECTOR: u8 = 0xfd;

/// Whether a body may have relaxed instructions, by its bytes: these are numbered from 0x100 to
/// 0x113, and a number's lowest seven bits come first.
fn may_be_relaxed(body: &[u8]) -> bool {
    body.windows(2).any(|pair| pair[0] == VECTOR && matches!(pair[1], 0x80..=0x93))
}

fn is_relaxed(body: &FunctionBody<'_>) -> Result<bool, Error> {
    // Reading the instructions of a large program takes as long as a short run of it.
    if !may_be_relaxed(body.as_bytes()) {
        return Ok(false);
    }
    let mut unused = Vec::new();
    for operator in body.get_operators_reader()? {
        // Nothing is written for an instruction that stays.
        if replace(&mut InstructionSink::new(&mut unused), &operator?, 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of locals that replacements need.
const SCRATCH: u32 = 4;

/// A body without its relaxed instructions.
fn replaced(module: &[u8], body: &FunctionBody<'_>, params: u32) -> Result<Vec<u8>, Error> {
    let mut reader = body.get_operators_reader()?;
    let (mut code, mut scratch) = (Vec::new(), params);
    let mut locals = Vec::new();
    for group in body.get_locals_reader()? {
        let (count, ty) = group?;
        scratch += count;
        locals.push((count, RoundtripReencoder.val_type(ty)?));
    }
    locals.push((SCRATCH, ValType::V128));
    locals.len().encode(&mut code);
    for (count, ty) in locals {
        count.encode(&mut code);
        ty.encode(&mut code);
    }
    while !reader.eof() {
        let at = reader.original_position() as usize;
        let operator = reader.read()?;
        if !replace(&mut InstructionSink::new(&mut code), &operator, scratch) {
            code.extend_from_slice(&module[at..reader.original_position() as usize]);
        }
    }
    Ok(code)
}

/// Writes what replaces an instruction; `false` if it stays.
fn replace(sink: &mut InstructionSink<'_>, operator: &Operator<'_>, scratch: u32) -> bool {
    match operator {
        Operator::I8x16RelaxedSwizzle => sink.i8x16_swizzle(),
        Operator::I32x4RelaxedTruncF32x4S => sink.i32x4_trunc_sat_f32x4_s(),
        Operator::I32x4RelaxedTruncF32x4U => sink.i32x4_trunc_sat_f32x4_u(),
        Operator::I32x4RelaxedTruncF64x2SZero => sink.i32x4_trunc_sat_f64x2_s_zero(),
        Operator::I32x4RelaxedTruncF64x2UZero => sink.i32x4_trunc_sat_f64x2_u_zero(),
        Operator::I8x16RelaxedLaneselect
        | Operator::I16x8RelaxedLaneselect
        | Operator::I32x4RelaxedLaneselect
        | Operator::I64x2RelaxedLaneselect => sink.v128_bitselect(),
        Operator::F32x4RelaxedMin => sink.f32x4_min(),
        Operator::F32x4RelaxedMax => sink.f32x4_max(),
        Operator::F64x2RelaxedMin => sink.f64x2_min(),
        Operator::F64x2RelaxedMax => sink.f64x2_max(),
        Operator::I16x8RelaxedQ15mulrS => sink.i16x8_q15mulr_sat_s(),
        Operator::F32x4RelaxedMadd => {
            sink.local_set(scratch).f32x4_mul().local_get(scratch).f32x4_add()
        }
        Operator::F32x4RelaxedNmadd => {
            sink.local_set(scratch).f32x4_mul().f32x4_neg().local_get(scratch).f32x4_add()
        }
        Operator::F64x2RelaxedMadd => {
            sink.local_set(scratch).f64x2_mul().local_get(scratch).f64x2_add()
        }
        Operator::F64x2RelaxedNmadd => {
            sink.local_set(scratch).f64x2_mul().f64x2_neg().local_get(scratch).f64x2_add()
        }
        Operator::I16x8RelaxedDotI8x16I7x16S => dot(sink, scratch),
        Operator::I32x4RelaxedDotI8x16I7x16AddS => {
            let sum = scratch + 3;
            sink.local_set(sum);
            dot(sink, scratch).i32x4_extadd_pairwise_i16x8_s().local_get(sum).i32x4_add()
        }
        _ => return false,
    };
    true
}

/// Products of bytes, added in pairs.
fn dot<'s, 'b>(sink: &'s mut InstructionSink<'b>, scratch: u32) -> &'s mut InstructionSink<'b> {
    const EVEN: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29];
    const ODD: [u8; 16] = [2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31];
    let (x, y, low) = (scratch, scratch + 1, scratch + 2);
    sink.local_set(y).local_set(x);
    sink.local_get(x).local_get(y).i16x8_extmul_low_i8x16_s().local_set(low);
    sink.local_get(x).local_get(y).i16x8_extmul_high_i8x16_s().local_set(y);
    sink.local_get(low).local_get(y).i8x16_shuffle(EVEN);
    sink.local_get(low).local_get(y).i8x16_shuffle(ODD).i16x8_add_sat_s()
}
