//! Operands and results: their types, and where they are saved while a probe reads them.

use super::*;

impl<'a> Walker<'_, 'a> {
    /// Types on the operand stack, the top first: only of the innermost block, which cannot read
    /// the values below it.
    pub(super) fn stack(&self, n: usize) -> Vec<W> {
        let below = self.validator.get_control_frame(0).map_or(0, |frame| frame.height);
        let own = (self.validator.operand_stack_height() as usize).saturating_sub(below);
        (0..n.min(own)).map_while(|i| self.validator.get_operand_type(i).flatten()).collect()
    }

    /// The type of an operand in unreachable code: none if the instruction takes no such operand,
    /// or one of any type. Values below the innermost block are not the instruction's. A missing
    /// operand has the type that the instruction takes, `Some(None)` if that is not a number.
    pub(super) fn dead_operand(&self, i: usize, n: u8) -> Option<Option<W>> {
        let n = usize::from(n);
        if n >= self.takes(i) {
            return None;
        }
        let below = self.validator.get_control_frame(0).map_or(0, |frame| frame.height);
        let own = (self.validator.operand_stack_height() as usize).saturating_sub(below);
        if let Some(ty) = self.validator.get_operand_type(n).filter(|_| n < own).flatten() {
            return Some(Some(ty));
        }
        let memory = self.ops[i].access().and_then(|a| self.r.app.memories.get(a.memory as usize));
        let width = u8::from(memory.is_some_and(|memory| memory.wide));
        let taken = Event::Opcode(self.ops[i].event?).variable_in(&format!("arg{n}"), width)?;
        (taken.ty != Ty::Any).then(|| number(&taken.ty))
    }

    /// How many operands an instruction takes, and the types of its results.
    pub(super) fn takes(&self, index: usize) -> usize {
        match self.ops[index].operator.operator_arity(&self.validator) {
            Some((n, _)) => n as usize,
            None => 0,
        }
    }

    /// The types of the results of an instruction, the top first.
    pub(super) fn result_types(&self, i: usize) -> Vec<W> {
        let op = &self.ops[i].operator;
        let app = self.r.app;
        let of_type = |ty: u32| {
            app.types
                .get(ty as usize)
                .and_then(Option::as_ref)
                .map(|t| t.1.iter().rev().copied().collect::<Vec<_>>())
                .unwrap_or_default()
        };
        match op {
            O::Call { function_index } => {
                app.shape(*function_index).1.iter().rev().copied().collect()
            }
            O::CallIndirect { type_index, .. } | O::CallRef { type_index } => of_type(*type_index),
            O::LocalTee { local_index } | O::LocalGet { local_index } => {
                self.validator.get_local_type(*local_index).into_iter().collect()
            }
            O::Select => self.stack(3).get(1).copied().into_iter().collect(),
            _ => self.listed_result(i).into_iter().collect(),
        }
    }

    pub(super) fn listed_result(&self, i: usize) -> Option<W> {
        let event = self.ops[i].event?;
        let wide = match self.ops[i].operator {
            O::MemorySize { mem } | O::MemoryGrow { mem } => {
                self.r.app.memories.get(mem as usize).is_some_and(|m| m.wide)
            }
            O::TableSize { table } | O::TableGrow { table } => {
                self.r.app.tables.get(table as usize).is_some_and(|t| t.wide)
            }
            _ => false,
        };
        if wide {
            return Some(W::I64);
        }
        let found = Event::Opcode(event).variable("res0")?;
        match found.ty {
            Ty::Any => self.computed_result(i),
            ty => number(&ty),
        }
    }

    /// The type of a result that depends on more than the opcode.
    pub(super) fn computed_result(&self, i: usize) -> Option<W> {
        match &self.ops[i].operator {
            O::TypedSelect { ty } => Some(*ty),
            O::RefIsNull
            | O::RefEq
            | O::I31GetS
            | O::I31GetU
            | O::ArrayLen
            | O::TableGrow { .. }
            | O::TableSize { .. } => Some(W::I32),
            O::RefTestNonNull { .. } | O::RefTestNullable { .. } => Some(W::I32),
            O::MemoryAtomicNotify { .. }
            | O::MemoryAtomicWait32 { .. }
            | O::MemoryAtomicWait64 { .. } => Some(W::I32),
            O::GlobalGet { global_index } => {
                use wasmparser::WasmModuleResources;
                self.validator.resources().global_at(*global_index).map(|g| g.content_type)
            }
            O::StructGet { struct_type_index, field_index }
            | O::StructGetS { struct_type_index, field_index }
            | O::StructGetU { struct_type_index, field_index } => {
                self.field(*struct_type_index, Some(*field_index))
            }
            O::ArrayGet { array_type_index }
            | O::ArrayGetS { array_type_index }
            | O::ArrayGetU { array_type_index } => self.field(*array_type_index, None),
            _ => vector_result(self.ops[i].event?.name),
        }
    }

    /// The type of a field of a structure, or of the elements of an array.
    fn field(&self, ty: u32, number: Option<u32>) -> Option<W> {
        use wasmparser::{CompositeInnerType, StorageType, WasmModuleResources};
        let field =
            match (&self.validator.resources().sub_type_at(ty)?.composite_type.inner, number) {
                (CompositeInnerType::Struct(s), Some(n)) => *s.fields.get(n as usize)?,
                (CompositeInnerType::Array(a), None) => a.0,
                _ => return None,
            };
        Some(match field.element_type {
            StorageType::I8 | StorageType::I16 => W::I32,
            StorageType::Val(ty) => ty,
        })
    }

    /// Saves operands that probes read; they stay on the stack, unless they are changed or the
    /// instruction is replaced.
    pub(super) fn save(
        &mut self,
        actions: &[&Action<'_>],
        i: usize,
        args: &[W],
        all: bool,
    ) -> Vec<(u32, ValType)> {
        let (most, changed) = asked(actions, argument, traps::looked_at(&self.ops[i].operator));
        let count =
            if all { args.len() } else { most.map_or(0, |n| usize::from(n) + 1).min(args.len()) };
        let types: Vec<ValType> = args[..count].iter().map(|&t| self.val(t)).collect();
        let saved: Vec<(u32, ValType)> =
            types.into_iter().map(|t| (self.locals.take(t), t)).collect();
        if all || changed {
            for &(local, _) in &saved {
                self.put().local_set(local);
            }
            return saved;
        }
        for (n, &(local, _)) in saved.iter().enumerate() {
            if n + 1 == saved.len() {
                self.put().local_tee(local);
            } else {
                self.put().local_set(local);
            }
        }
        for &(local, _) in saved.iter().rev().skip(1) {
            self.put().local_get(local);
        }
        saved
    }

    /// Restores operands that were popped to be changed.
    pub(super) fn restore(
        &mut self,
        actions: &[&Action<'_>],
        saved: &[(u32, ValType)],
        kept: bool,
    ) {
        if kept && asked(actions, argument, 1).1 {
            for &(local, _) in saved.iter().rev() {
                self.put().local_get(local);
            }
        }
    }

    pub(super) fn hold_results(
        &mut self,
        most: Option<u8>,
        types: &[W],
        changed: bool,
    ) -> Vec<(u32, ValType)> {
        let count = most.map_or(0, |n| usize::from(n) + 1).min(types.len());
        let types: Vec<ValType> = types[..count].iter().map(|&t| self.val(t)).collect();
        let held: Vec<(u32, ValType)> =
            types.into_iter().map(|t| (self.locals.take(t), t)).collect();
        for (n, &(local, _)) in held.iter().enumerate() {
            if n + 1 == held.len() && !changed {
                self.put().local_tee(local);
            } else {
                self.put().local_set(local);
            }
        }
        if !changed {
            for &(local, _) in held.iter().rev().skip(1) {
                self.put().local_get(local);
            }
        }
        held
    }
}

/// The type of the result of a vector instruction, if it is a number.
fn vector_result(name: &str) -> Option<W> {
    let (shape, operation) = name.split_once('.')?;
    match operation {
        "any_true" | "all_true" | "bitmask" => Some(W::I32),
        _ if operation.starts_with("extract_lane") => match shape {
            "i64x2" => Some(W::I64),
            "f32x4" => Some(W::F32),
            "f64x2" => Some(W::F64),
            _ => Some(W::I32),
        },
        _ => None,
    }
}

/// The operand stack's type for a number of a type; none if it is not a number.
fn number(ty: &Ty) -> Option<W> {
    match ty.slots()[..] {
        [ValType::I32] => Some(W::I32),
        [ValType::I64] => Some(W::I64),
        [ValType::F32] => Some(W::F32),
        [ValType::F64] => Some(W::F64),
        _ => None,
    }
}
