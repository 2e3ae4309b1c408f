//! Host objects in a module without imports, which cannot make any.
//!
//! A program can do nothing with a host object but keep it and compare it with null. So in the
//! replay of a run with such objects their type is that of references to functions instead, and
//! each object is a reference to an added function that is never called. What the program does with
//! its own references to functions does not change, since code that is valid keeps them apart.

use super::*;
use wasm_encoder::Encode as _;
use wasm_encoder::reencode;
use wasmparser::{
    AbstractHeapType, BinaryReader, BlockType, FunctionBody, HeapType, RefType, ValType as Own,
};

/// Encodes the program's types and constants again. An imported global that never changes is
/// replaced by its value.
#[derive(Default)]
pub(super) struct Encoder {
    /// The values of constant globals, encoded.
    pub(super) constants: HashMap<u32, Vec<u8>>,
    /// Whether host objects become references to functions.
    pub(super) has_objects: bool,
}

impl Reencode for Encoder {
    type Error = std::convert::Infallible;

    fn abstract_heap_type(
        &mut self,
        ty: AbstractHeapType,
    ) -> Result<wasm_encoder::AbstractHeapType, Unwritten<Self::Error>> {
        let ty = match ty {
            AbstractHeapType::Extern if self.has_objects => AbstractHeapType::Func,
            AbstractHeapType::NoExtern if self.has_objects => AbstractHeapType::NoFunc,
            other => other,
        };
        Ok(reencode::utils::abstract_heap_type(self, ty))
    }

    fn const_expr(
        &mut self,
        expression: wasmparser::ConstExpr<'_>,
    ) -> Result<ConstExpr, Unwritten<Self::Error>> {
        let mut reader = expression.get_operators_reader();
        let mut bytes = Vec::new();
        while !reader.eof() {
            match reader.read()? {
                Operator::End => break,
                Operator::GlobalGet { global_index }
                    if self.constants.contains_key(&global_index) =>
                {
                    bytes.extend_from_slice(&self.constants[&global_index]);
                }
                operator => self.instruction(operator)?.encode(&mut bytes),
            }
        }
        Ok(ConstExpr::raw(bytes))
    }
}

/// The type that references of a type of the program have in a replay with host objects.
pub(super) fn replaced(ty: RefType) -> RefType {
    let (is_nullable, heap) = (ty.is_nullable(), ty.heap_type());
    let abstract_type = |ty| RefType::new(is_nullable, HeapType::Abstract { shared: false, ty });
    let other = match heap {
        HeapType::Abstract { shared: false, ty: AbstractHeapType::Extern } => {
            abstract_type(AbstractHeapType::Func)
        }
        HeapType::Abstract { shared: false, ty: AbstractHeapType::NoExtern } => {
            abstract_type(AbstractHeapType::NoFunc)
        }
        _ => None,
    };
    other.unwrap_or(ty)
}

/// Whether an instruction may have the type of host objects among its immediates.
fn has_type(operator: &Operator<'_>) -> bool {
    let of_block = |ty: &BlockType| matches!(ty, BlockType::Type(Own::Ref(_)));
    match operator {
        Operator::Block { blockty }
        | Operator::Loop { blockty }
        | Operator::If { blockty }
        | Operator::Try { blockty } => of_block(blockty),
        Operator::TryTable { try_table } => of_block(&try_table.ty),
        Operator::RefNull { .. }
        | Operator::TypedSelect { .. }
        | Operator::TypedSelectMulti { .. }
        | Operator::RefTestNonNull { .. }
        | Operator::RefTestNullable { .. }
        | Operator::RefCastNonNull { .. }
        | Operator::RefCastNullable { .. }
        | Operator::BrOnCast { .. }
        | Operator::BrOnCastFail { .. } => true,
        _ => false,
    }
}

impl Assembly<'_> {
    /// A body of the program with other types, which returns after the calls at `exits` if the
    /// program has exited.
    pub(super) fn rewritten(
        &mut self,
        function: u32,
        range: Range<usize>,
        exits: &mut BTreeSet<usize>,
    ) -> Result<Vec<u8>, Error> {
        let module = self.module;
        let body = FunctionBody::new(BinaryReader::new(&module[range.clone()], range.start as u64));
        let results = self.declared.function(function).expect("it has a body").results();
        let mut reader = body.get_operators_reader()?;
        let mut code = Vec::new();
        if self.encoder.has_objects {
            let mut locals = Vec::new();
            for group in body.get_locals_reader()? {
                let (count, ty) = group?;
                locals.push((count, self.encoder.val_type(ty)?));
            }
            locals.len().encode(&mut code);
            for (count, ty) in locals {
                count.encode(&mut code);
                ty.encode(&mut code);
            }
        } else {
            code.extend_from_slice(&module[range.start..reader.original_position() as usize]);
        }
        while !reader.eof() {
            let at = reader.original_position() as usize;
            let operator = reader.read()?;
            let is_call = matches!(
                operator,
                Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. }
            );
            if self.encoder.has_objects && has_type(&operator) {
                self.encoder.instruction(operator)?.encode(&mut code);
            } else {
                code.extend_from_slice(&module[at..reader.original_position() as usize]);
            }
            if is_call && exits.remove(&at) {
                code::leave_if_exited(&mut code, self.declared.globals.len() as u32, results);
            }
        }
        Ok(code)
    }
}
