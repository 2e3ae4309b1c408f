//! The facts about a site that are known when it is matched.

use super::walk::Op;
use crate::app::App;
use crate::events::{self, Bound};
use crate::fold::Known;
use crate::hir::{Builtin, Expr, ExprKind, LibraryCall};
use crate::library::{Library, Oracle};
use crate::source::Span;
use crate::types::Ty;
use std::cell::RefCell;
use wasmparser::Operator as O;

/// Facts that all sites of a run share.
pub(crate) struct Facts<'a> {
    /// The program.
    pub(crate) app: &'a App<'a>,
    /// The libraries.
    pub(crate) libraries: &'a [Library],
    /// Libraries that are called while compiling.
    pub(crate) oracle: RefCell<Oracle>,
    /// Calls that failed.
    pub(crate) failures: RefCell<Vec<(Span, String)>>,
    /// Source places, if any probe reads them.
    pub(crate) lines: Option<whamm_rewrite::Lines>,
}

/// No site: for statements before the program starts, reports and functions.
pub(crate) struct Nowhere<'a>(pub(crate) &'a Facts<'a>);

impl Known for Nowhere<'_> {
    fn bound(&self, bound: Bound, _: &Ty) -> Option<ExprKind> {
        if bound == Bound::AppMemId { self.0.app_memory() } else { None }
    }

    fn builtin(&self, builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
        self.0.memory(builtin, args)
    }

    fn library(&self, call: &LibraryCall, args: &[Expr]) -> Option<ExprKind> {
        self.0.ask(call, args)
    }
}

/// A site.
pub(crate) struct Site<'a> {
    /// What all sites share.
    pub(crate) facts: &'a Facts<'a>,
    /// The function.
    pub(crate) fid: u32,
    /// The instruction, if the event is one.
    pub(crate) op: Option<&'a Op<'a>>,
    /// Its place; 0 for a function's entry.
    pub(crate) pc: u32,
    /// Its number in the function.
    pub(crate) index: u32,
    /// Whether it is the function's last.
    pub(crate) last: bool,
}

fn text(s: &str) -> ExprKind {
    ExprKind::Str(s.into())
}

fn int(n: impl Into<i128>) -> ExprKind {
    ExprKind::Int(n.into())
}

impl Known for Site<'_> {
    fn bound(&self, bound: Bound, ty: &Ty) -> Option<ExprKind> {
        let app = self.facts.app;
        let event = self.op.and_then(|op| op.event);
        Some(match bound {
            Bound::Pc => int(self.pc),
            Bound::Fid => int(self.fid),
            Bound::OpIdx => int(self.index),
            Bound::AtFuncEnd => ExprKind::Bool(self.last),
            Bound::Fname => text(app.name(self.fid)),
            Bound::AppMemId => self.facts.app_memory()?,
            Bound::File | Bound::Line => {
                let found = self.op.and_then(|op| {
                    self.facts.lines.as_ref()?.find(u64::from(op.offset) - app.code_start)
                });
                match bound {
                    Bound::File => text(found.map_or("", |f| f.0)),
                    _ => int(found.map_or(0, |f| f.1)),
                }
            }
            Bound::Opname => text(event?.opname()),
            Bound::CategoryId => int(event?.category),
            Bound::CategoryName => text(events::CATEGORIES[usize::from(event?.category)]),
            Bound::Bytecode => int(event?.code),
            Bound::InstrCount => int(self.op?.count),
            Bound::DataSize => int(event?.accessed()?.0),
            Bound::IsWrite => ExprKind::Bool(event?.accessed()?.1),
            Bound::Offset => int(self.op?.access()?.offset),
            Bound::Align => int(1u32 << self.op?.access()?.align),
            Bound::Memory => int(self.op?.access()?.memory),
            Bound::Imm(n) => immediate(&self.op?.operator, n, ty)?,
            Bound::Targets => match &self.op?.operator {
                O::BrTable { targets } => ExprKind::Table(targets.targets().flatten().collect()),
                _ => return None,
            },
            Bound::NumTargets => match &self.op?.operator {
                O::BrTable { targets } => int(targets.len()),
                _ => return None,
            },
            Bound::DefaultTarget => match &self.op?.operator {
                O::BrTable { targets } => int(targets.default()),
                _ => return None,
            },
            Bound::TargetFnName => {
                let callee = callee(&self.op?.operator)?;
                text(app.imports.get(callee as usize).map_or_else(|| app.name(callee), |i| i.name))
            }
            Bound::TargetFnType => {
                text(if app.imports.len() > callee(&self.op?.operator)? as usize {
                    "import"
                } else {
                    "local"
                })
            }
            Bound::TargetImpModule => {
                text(app.imports.get(callee(&self.op?.operator)? as usize).map_or("", |i| i.module))
            }
            _ => return None,
        })
    }

    fn builtin(&self, builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
        self.facts.memory(builtin, args)
    }

    fn library(&self, call: &LibraryCall, args: &[Expr]) -> Option<ExprKind> {
        self.facts.ask(call, args)
    }
}

impl Facts<'_> {
    /// The number of the program's first memory, if it has one.
    fn app_memory(&self) -> Option<ExprKind> {
        (!self.app.memories.is_empty()).then(|| int(0))
    }

    /// A fact about a memory, given its number in the program.
    fn memory(&self, builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
        let ExprKind::Int(memory) = args.first()?.kind else { return None };
        let memory = u32::try_from(memory).ok()?;
        let described = self.app.memories.get(memory as usize)?;
        let mut parts = self.app.data.iter().filter(|d| d.0 == memory);
        match builtin {
            Builtin::PageSize => Some(int(1u32 << described.page)),
            Builtin::ActiveDataStart => Some(int(parts.map(|d| d.1).min().unwrap_or(0))),
            Builtin::ActiveDataLen => {
                let first = self.app.data.iter().filter(|d| d.0 == memory).map(|d| d.1).min();
                let end = parts.by_ref().map(|d| d.1 + i64::try_from(d.2).unwrap_or(0)).max();
                Some(int(end.zip(first).map_or(0, |(end, first)| end - first)))
            }
            _ => None,
        }
    }

    /// Calls a library while compiling.
    fn ask(&self, call: &LibraryCall, args: &[Expr]) -> Option<ExprKind> {
        let library = &self.libraries[call.library as usize];
        match self.oracle.borrow_mut().ask(call.library, library, &call.function, args) {
            Ok(value) => value,
            Err(e) => {
                let span = args.first().map_or(Span::default(), |a| a.span);
                self.failures.borrow_mut().push((span, e.to_string()));
                None
            }
        }
    }
}

fn callee(op: &O<'_>) -> Option<u32> {
    match op {
        O::Call { function_index } | O::ReturnCall { function_index } => Some(*function_index),
        _ => None,
    }
}

/// An immediate by its number.
fn immediate(op: &O<'_>, n: u8, ty: &Ty) -> Option<ExprKind> {
    let list: Vec<u32> = match op {
        O::I32Const { value } => return Some(int(ty.wrap((*value).into()))),
        O::I64Const { value } => return Some(int(ty.wrap((*value).into()))),
        O::F32Const { value } => return Some(ExprKind::Float(f32::from_bits(value.bits()).into())),
        O::F64Const { value } => return Some(ExprKind::Float(f64::from_bits(value.bits()))),
        O::BrTable { targets } => targets.targets().flatten().chain([targets.default()]).collect(),
        O::Throw { tag_index: x } | O::Br { relative_depth: x } | O::BrIf { relative_depth: x } => {
            vec![*x]
        }
        O::BrOnNonNull { relative_depth: x }
        | O::BrOnCast { relative_depth: x, .. }
        | O::BrOnCastFail { relative_depth: x, .. } => vec![*x],
        O::Call { function_index: x }
        | O::ReturnCall { function_index: x }
        | O::RefFunc { function_index: x } => vec![*x],
        O::CallIndirect { type_index, table_index }
        | O::ReturnCallIndirect { type_index, table_index } => {
            vec![*type_index, *table_index]
        }
        O::CallRef { type_index: x } | O::ReturnCallRef { type_index: x } => vec![*x],
        O::LocalGet { local_index: x }
        | O::LocalSet { local_index: x }
        | O::LocalTee { local_index: x } => vec![*x],
        O::GlobalGet { global_index: x } | O::GlobalSet { global_index: x } => vec![*x],
        O::MemorySize { mem: x } | O::MemoryGrow { mem: x } | O::MemoryFill { mem: x } => vec![*x],
        O::MemoryInit { data_index, mem } => vec![*data_index, *mem],
        O::MemoryCopy { dst_mem, src_mem } => vec![*dst_mem, *src_mem],
        O::DataDrop { data_index: x } | O::ElemDrop { elem_index: x } => vec![*x],
        O::TableInit { elem_index, table } => vec![*elem_index, *table],
        O::TableCopy { dst_table, src_table } => vec![*dst_table, *src_table],
        O::TableGet { table: x }
        | O::TableSet { table: x }
        | O::TableGrow { table: x }
        | O::TableSize { table: x }
        | O::TableFill { table: x } => vec![*x],
        O::StructNew { struct_type_index: x } | O::StructNewDefault { struct_type_index: x } => {
            vec![*x]
        }
        O::StructGet { struct_type_index, field_index }
        | O::StructGetS { struct_type_index, field_index }
        | O::StructGetU { struct_type_index, field_index }
        | O::StructSet { struct_type_index, field_index } => vec![*struct_type_index, *field_index],
        O::ArrayNew { array_type_index: x }
        | O::ArrayNewDefault { array_type_index: x }
        | O::ArrayGet { array_type_index: x }
        | O::ArrayGetS { array_type_index: x }
        | O::ArrayGetU { array_type_index: x }
        | O::ArraySet { array_type_index: x }
        | O::ArrayFill { array_type_index: x } => vec![*x],
        O::ArrayNewFixed { array_type_index, array_size } => vec![*array_type_index, *array_size],
        O::ArrayNewData { array_type_index: a, array_data_index: b }
        | O::ArrayNewElem { array_type_index: a, array_elem_index: b }
        | O::ArrayInitData { array_type_index: a, array_data_index: b }
        | O::ArrayInitElem { array_type_index: a, array_elem_index: b }
        | O::ArrayCopy { array_type_index_dst: a, array_type_index_src: b } => vec![*a, *b],
        O::I8x16ExtractLaneS { lane }
        | O::I8x16ExtractLaneU { lane }
        | O::I8x16ReplaceLane { lane }
        | O::I16x8ExtractLaneS { lane }
        | O::I16x8ExtractLaneU { lane }
        | O::I16x8ReplaceLane { lane }
        | O::I32x4ExtractLane { lane }
        | O::I32x4ReplaceLane { lane }
        | O::I64x2ExtractLane { lane }
        | O::I64x2ReplaceLane { lane }
        | O::F32x4ExtractLane { lane }
        | O::F32x4ReplaceLane { lane }
        | O::F64x2ExtractLane { lane }
        | O::F64x2ReplaceLane { lane } => vec![u32::from(*lane)],
        O::V128Load8Lane { lane, .. }
        | O::V128Load16Lane { lane, .. }
        | O::V128Load32Lane { lane, .. }
        | O::V128Load64Lane { lane, .. }
        | O::V128Store8Lane { lane, .. }
        | O::V128Store16Lane { lane, .. }
        | O::V128Store32Lane { lane, .. }
        | O::V128Store64Lane { lane, .. } => vec![u32::from(*lane)],
        _ => return None,
    };
    list.get(usize::from(n)).map(|&x| int(x))
}
