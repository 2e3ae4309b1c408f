//! A cheap check that an access is inside its memory: memories do not shrink, so an access that
//! begins below a bound found once is inside.

use super::Maker;
use wasm_encoder::{BlockType, Function, ValType};

/// The bounds of a memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The global: accesses of [`SPAN`] bytes at most that begin below it are inside.
    pub(crate) soft: u32,
    /// Takes an address and a length in bytes, both of 64 bits; returns whether some of these bytes
    /// are outside. It sets `soft`.
    pub(crate) outside: u32,
    /// The memory's minimum size in bytes.
    pub(crate) least: u64,
}

/// The accesses that `soft` covers end at most this many bytes after the address: most have smaller
/// offsets.
pub(crate) const SPAN: u64 = 1024;

impl Maker<'_, '_> {
    pub(super) fn bounds(&mut self) {
        for (memory, ty) in (0..).zip(self.app.declared.memories.clone()) {
            let place = self.runtime.places[memory as usize];
            let address = if ty.memory64 { ValType::I64 } else { ValType::I32 };
            let soft = super::variable(self.plan, self.program, address);
            let mut code = Function::new([(1, ValType::I64)]);
            let sink = &mut code.instructions();
            self.pages(sink, place, ty.memory64);
            sink.i64_const(16).i64_shl().local_tee(2).i64_eqz();
            sink.if_(BlockType::Result(ValType::I64)).i64_const(0).else_();
            sink.local_get(2).i64_const(SPAN as i64 - 1).i64_sub().end();
            if !ty.memory64 {
                sink.i32_wrap_i64();
            }
            sink.global_set(soft).local_get(0);
            if !ty.memory64 {
                sink.i64_extend_i32_u();
            }
            sink.local_get(1).i64_add().local_get(2).i64_gt_u();
            if ty.memory64 {
                // The sum of two large numbers may wrap.
                sink.local_get(0).local_get(2).i64_gt_u().i32_or();
                sink.local_get(1).local_get(2).i64_gt_u().i32_or();
            }
            sink.end();
            let ty_of = self.signature(&[address, ValType::I64], &[ValType::I32]);
            let outside = self.add(ty_of, &format!("outside.{memory}"), code);
            let least = ty.initial.saturating_mul(1 << 16);
            self.made.bounds.insert(memory, Bounds { soft, outside, least });
        }
    }
}
