//! Translates atomic accesses, and waiting and notifying.
//!
//! Every access is sequentially consistent, and traps unless its address is a multiple of its size.
//! Accesses that are narrower than their operands use the operands' low bits and extend what was
//! there with zeros: this applies to the value that `cmpxchg` expects, too.

use super::function::Translator;
use super::memory::memory_of;
use crate::error::CompileError;
use crate::trap::Trap;
use crate::vm::Builtin;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Type, Value};
use wasmparser::{MemArg, Operator};

/// An operation on a place in memory.
#[derive(Clone, Copy)]
enum AtomicAccess {
    Load,
    Store,
    Modify(AtomicRmwOp),
    Exchange,
}

/// The numbers that built-in functions return instead of a result, and the traps that they mean.
const FAILURES: [(i64, Trap); 4] = [
    (-1, Trap::MemoryOutOfBounds),
    (-2, Trap::UnalignedAtomic),
    (-3, Trap::SharedMemoryExpected),
    (-4, Trap::Interrupted),
];

impl Translator<'_> {
    /// Translates an atomic operator; returns whether it was one.
    pub(super) fn atomic(&mut self, op: &Operator<'_>) -> Result<bool, CompileError> {
        match op {
            Operator::AtomicFence { .. } => {
                self.builder.ins().fence();
            }
            Operator::MemoryAtomicNotify { memarg } => self.notify(memarg),
            Operator::MemoryAtomicWait32 { memarg } => self.wait(memarg, Builtin::Wait32),
            Operator::MemoryAtomicWait64 { memarg } => self.wait(memarg, Builtin::Wait64),
            _ => {
                let Some((access, memarg, narrow, ty)) = lookup(op) else { return Ok(false) };
                self.atomic_access(access, memarg, narrow, ty);
            }
        }
        Ok(true)
    }

    /// Accesses a place as large as `narrow`, with operands of type `ty`.
    fn atomic_access(&mut self, access: AtomicAccess, memarg: &MemArg, narrow: Type, ty: Type) {
        let old = match access {
            AtomicAccess::Load => {
                let (address, flags) = self.atomic_address(memarg, narrow.bytes());
                self.builder.ins().atomic_load(narrow, flags, address)
            }
            AtomicAccess::Store => {
                let value = self.pop_low(narrow);
                let (address, flags) = self.atomic_address(memarg, narrow.bytes());
                self.builder.ins().atomic_store(flags, value, address);
                return;
            }
            AtomicAccess::Modify(how) => {
                let value = self.pop_low(narrow);
                let (address, flags) = self.atomic_address(memarg, narrow.bytes());
                self.builder.ins().atomic_rmw(narrow, flags, how, address, value)
            }
            AtomicAccess::Exchange => {
                let replacement = self.pop_low(narrow);
                let expected = self.pop_low(narrow);
                let (address, flags) = self.atomic_address(memarg, narrow.bytes());
                self.builder.ins().atomic_cas(flags, address, expected, replacement)
            }
        };
        let old = if narrow == ty { old } else { self.builder.ins().uextend(ty, old) };
        self.push(old);
    }

    /// Pops an operand, and keeps as many low bits as `narrow` has.
    fn pop_low(&mut self, narrow: Type) -> Value {
        let value = self.pop();
        match self.builder.func.dfg.value_type(value) == narrow {
            true => value,
            false => self.builder.ins().ireduce(narrow, value),
        }
    }

    fn wait(&mut self, memarg: &MemArg, builtin: Builtin) {
        let (expected, nanoseconds) = self.pop2();
        let place = self.place(memarg);
        let memory = self.number(memory_of(memarg));
        self.ask(builtin, &[memory, place, expected, nanoseconds]);
    }

    fn notify(&mut self, memarg: &MemArg) {
        let count = self.pop();
        let place = self.place(memarg);
        let memory = self.number(memory_of(memarg));
        self.ask(Builtin::Notify, &[memory, place, count]);
    }

    /// Pops an index, and returns its sum with the offset.
    fn place(&mut self, memarg: &MemArg) -> Value {
        let index = self.pop();
        let index = self.widened(index);
        if memarg.offset == 0 {
            return index;
        }
        let offset = self.builder.ins().iconst(I64, memarg.offset as i64);
        match self.info.memories[memory_of(memarg) as usize].wide {
            true => {
                self.builder.ins().uadd_overflow_trap(index, offset, Trap::MemoryOutOfBounds.code())
            }
            // Both are below four gigabytes.
            false => self.builder.ins().iadd(index, offset),
        }
    }

    /// Pushes the result of a built-in function, unless it reports a failure.
    fn ask(&mut self, builtin: Builtin, args: &[Value]) {
        let result = self.builtin(builtin, args).expect("a result");
        for (number, trap) in FAILURES {
            let failed = self.builder.ins().icmp_imm_s(IntCC::Equal, result, number);
            self.trap_if(failed, trap);
        }
        self.push(result);
    }
}

/// Operators in the order of their widths: all 32 bits and all 64, then 8 and 16 of 32, then 8, 16
/// and 32 of 64.
macro_rules! widths {
    ($op:expr; $( $access:expr => $x32:ident $x64:ident $x8of32:ident $x16of32:ident $x8of64:ident $x16of64:ident $x32of64:ident; )*) => {
        match $op {
            $(
                Operator::$x32 { memarg } => Some(($access, memarg, I32, I32)),
                Operator::$x64 { memarg } => Some(($access, memarg, I64, I64)),
                Operator::$x8of32 { memarg } => Some(($access, memarg, I8, I32)),
                Operator::$x16of32 { memarg } => Some(($access, memarg, I16, I32)),
                Operator::$x8of64 { memarg } => Some(($access, memarg, I8, I64)),
                Operator::$x16of64 { memarg } => Some(($access, memarg, I16, I64)),
                Operator::$x32of64 { memarg } => Some(($access, memarg, I32, I64)),
            )*
            _ => None,
        }
    };
}

/// The table of accesses: the operation, its memory argument, and its types in memory and as an
/// operand.
#[rustfmt::skip]
fn lookup<'a>(op: &'a Operator<'_>) -> Option<(AtomicAccess, &'a MemArg, Type, Type)> {
    use AtomicAccess::{Exchange, Load, Modify, Store};
    widths! { op;
        Load => I32AtomicLoad I64AtomicLoad I32AtomicLoad8U I32AtomicLoad16U
            I64AtomicLoad8U I64AtomicLoad16U I64AtomicLoad32U;
        Store => I32AtomicStore I64AtomicStore I32AtomicStore8 I32AtomicStore16
            I64AtomicStore8 I64AtomicStore16 I64AtomicStore32;
        Modify(AtomicRmwOp::Add) => I32AtomicRmwAdd I64AtomicRmwAdd I32AtomicRmw8AddU I32AtomicRmw16AddU
            I64AtomicRmw8AddU I64AtomicRmw16AddU I64AtomicRmw32AddU;
        Modify(AtomicRmwOp::Sub) => I32AtomicRmwSub I64AtomicRmwSub I32AtomicRmw8SubU I32AtomicRmw16SubU
            I64AtomicRmw8SubU I64AtomicRmw16SubU I64AtomicRmw32SubU;
        Modify(AtomicRmwOp::And) => I32AtomicRmwAnd I64AtomicRmwAnd I32AtomicRmw8AndU I32AtomicRmw16AndU
            I64AtomicRmw8AndU I64AtomicRmw16AndU I64AtomicRmw32AndU;
        Modify(AtomicRmwOp::Or) => I32AtomicRmwOr I64AtomicRmwOr I32AtomicRmw8OrU I32AtomicRmw16OrU
            I64AtomicRmw8OrU I64AtomicRmw16OrU I64AtomicRmw32OrU;
        Modify(AtomicRmwOp::Xor) => I32AtomicRmwXor I64AtomicRmwXor I32AtomicRmw8XorU I32AtomicRmw16XorU
            I64AtomicRmw8XorU I64AtomicRmw16XorU I64AtomicRmw32XorU;
        Modify(AtomicRmwOp::Xchg) => I32AtomicRmwXchg I64AtomicRmwXchg I32AtomicRmw8XchgU I32AtomicRmw16XchgU
            I64AtomicRmw8XchgU I64AtomicRmw16XchgU I64AtomicRmw32XchgU;
        Exchange => I32AtomicRmwCmpxchg I64AtomicRmwCmpxchg I32AtomicRmw8CmpxchgU I32AtomicRmw16CmpxchgU
            I64AtomicRmw8CmpxchgU I64AtomicRmw16CmpxchgU I64AtomicRmw32CmpxchgU;
    }
}
