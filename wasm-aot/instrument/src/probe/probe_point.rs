//! Emits a probe point: the machine code at one place, which reads a flag, and costs more only
//! while probes are inserted there.

use super::inspected::{CALLS, COUNTS, Inspected, MEASURES, ProbeCell};
use cranelift_codegen::ir::{AtomicRmwOp, BlockArg, InstBuilder, MemFlagsData, Value, types};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::Trap;
use wasm_aot_engine::instrument::compile::{Call, Emitter, Firing, Inline};

/// A probe point: its flag is read, and if it is not zero, the probes there are run.
#[derive(Debug)]
pub(super) struct ProbePoint {
    pub(super) cells: Arc<[ProbeCell]>,
    pub(super) index: usize,
    pub(super) call: Call,
    pub(super) function: Arc<Inspected>,
}

impl ProbePoint {
    fn cell(&self) -> &ProbeCell {
        &self.cells[self.index]
    }
}

fn address<T>(of: &T) -> i64 {
    std::ptr::from_ref(of) as i64
}

/// Adds one to the word at a place; other threads may do so, too.
fn add(at: &mut Emitter<'_, '_>, place: Value) {
    let one = at.builder().ins().iconst(types::I64, 1);
    at.builder().ins().atomic_rmw(
        types::I64,
        MemFlagsData::trusted(),
        AtomicRmwOp::Add,
        place,
        one,
    );
}

impl Inline for ProbePoint {
    fn fingerprint(&self) -> u64 {
        // Each cell has its own address in the process.
        address(self.cell()) as u64
    }

    fn prepare(&self, at: &mut Emitter<'_, '_>) -> Option<Value> {
        Some(self.flag(at))
    }

    fn may_trap(&self) -> bool {
        true
    }

    fn keeps(&self) -> usize {
        1 + self.call.captures.len()
    }

    /// Keeps the flag, and the captured values if it is not zero.
    fn keep(&self, at: &mut Emitter<'_, '_>) -> Result<(), CompileError> {
        let flag = at.due().unwrap_or_else(|| self.flag(at));
        at.keep(0, &[flag]);
        let [served, next] = [(); 2].map(|()| at.builder().create_block());
        at.builder().set_cold_block(served);
        at.builder().ins().brif(flag, served, &[], next, &[]);
        at.builder().seal_block(served);
        at.builder().switch_to_block(served);
        at.keep_captured(1, &self.call);
        at.builder().ins().jump(next, &[]);
        at.builder().seal_block(next);
        at.builder().switch_to_block(next);
        Ok(())
    }

    fn complete(&self, firing: &mut Firing<'_>) {
        let (vmctx, frame) = (firing.vmctx, firing.frame);
        let Some(([[flag, _]], values)) = firing.values.split_first_chunk_mut() else { return };
        let flag = *flag as u8;
        if flag & COUNTS != 0 {
            self.cell().count.fetch_add(1, Relaxed);
        }
        if flag & MEASURES != 0 {
            self.function.measure(self.index, values);
        }
        if flag & CALLS != 0 {
            self.call.receiver.fire(&mut Firing { number: self.call.number, vmctx, frame, values });
        }
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let operands: Vec<Value> = (0..at.operands())
            .map_while(|place| at.operand(place).map(|(value, _)| value))
            .collect();
        let ours = (0..operands.len())
            .take_while(|place| at.set_operand(*place as u32, operands[*place]))
            .count();
        self.cell().writable.store(ours, Relaxed);
        let kept: Vec<BlockArg> =
            operands[..ours].iter().map(|value| BlockArg::Value(*value)).collect();
        let [served, counted, passed, measured, asked, called, next] =
            [(); 7].map(|()| at.builder().create_block());
        for block in [served, counted, passed, measured, asked, called] {
            at.builder().set_cold_block(block);
        }
        for value in &operands[..ours] {
            let ty = at.builder().func.dfg.value_type(*value);
            at.builder().append_block_param(next, ty);
        }
        let flag = at.due().unwrap_or_else(|| self.flag(at));
        at.builder().ins().brif(flag, served, &[], next, &kept);
        at.builder().seal_block(served);
        at.builder().switch_to_block(served);
        let counts = at.builder().ins().band_imm_u(flag, i64::from(COUNTS));
        at.builder().ins().brif(counts, counted, &[], passed, &[]);
        at.builder().seal_block(counted);
        at.builder().switch_to_block(counted);
        let count = at.builder().ins().iconst(types::I64, address(&self.cell().count));
        add(at, count);
        at.builder().ins().jump(passed, &[]);
        at.builder().seal_block(passed);
        at.builder().switch_to_block(passed);
        let measures = at.builder().ins().band_imm_u(flag, i64::from(MEASURES));
        at.builder().ins().brif(measures, measured, &[], asked, &[]);
        at.builder().seal_block(measured);
        at.builder().switch_to_block(measured);
        self.measure(at);
        at.builder().ins().jump(asked, &[]);
        at.builder().seal_block(asked);
        at.builder().switch_to_block(asked);
        let calls = at.builder().ins().band_imm_u(flag, i64::from(CALLS));
        at.builder().ins().brif(calls, called, &[], next, &kept);
        at.builder().seal_block(called);
        at.builder().switch_to_block(called);
        at.receive(&self.call);
        let failed = at.received(self.call.captures.len() - 1);
        at.trap_if(failed, Trap::Probe);
        let written: Vec<BlockArg> = (0..ours as u32)
            .filter_map(|place| at.operand(place))
            .map(|(value, _)| BlockArg::Value(value))
            .collect();
        at.builder().ins().jump(next, &written);
        at.builder().seal_block(next);
        at.builder().switch_to_block(next);
        let merged = at.builder().block_params(next).to_vec();
        for (place, value) in merged.into_iter().enumerate() {
            at.set_operand(place as u32, value);
        }
        Ok(())
    }
}

impl ProbePoint {
    /// The flag of the place.
    fn flag(&self, at: &mut Emitter<'_, '_>) -> Value {
        let place = at.builder().ins().iconst(types::I64, address(&self.cell().flag));
        at.builder().ins().uload8(types::I32, MemFlagsData::trusted(), place, 0)
    }

    /// Adds to the class of the topmost operand, if it is a number.
    fn measure(&self, at: &mut Emitter<'_, '_>) {
        let Some((value, _)) = at.operand(0) else { return };
        let value = match at.builder().func.dfg.value_type(value) {
            types::I64 => value,
            types::I32 => at.builder().ins().uextend(types::I64, value),
            _ => return,
        };
        let zeroes = at.builder().ins().clz(value);
        let all = at.builder().ins().iconst(types::I64, 64);
        let class = at.builder().ins().isub(all, zeroes);
        let place = at.builder().ins().iconst(types::I64, address(&self.cell().classes));
        let classes = at.builder().ins().load(types::I64, MemFlagsData::trusted(), place, 0);
        let distance = at.builder().ins().ishl_imm_u(class, 3);
        let place = at.builder().ins().iadd(classes, distance);
        add(at, place);
    }
}
