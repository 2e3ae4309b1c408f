//! Vectors of 128 bits: which lanes an operator means, and one or a few instructions of CLIF for
//! it.
//!
//! On the operand stack a vector has the shape that its maker gave it, and code that takes it casts
//! it to the shape that it needs: the bits are the same, and no code is emitted for it. So the
//! rules of code generation find comparisons where they expect them, right before selections.
//!
//! Relaxed operators do what is fastest on this CPU, and always the same: fused multiplication if
//! it has that, sums of products of bytes that saturate, minima and maxima that are the first
//! operand when neither is less. Laneselect selects bits, whatever the lanes.

use super::function::Translator;
use super::memory::Address;
use crate::error::CompileError;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use wasmparser::{MemArg, Operator};

/// What an operator without immediates does, and to which lanes.
struct Lanewise<Operands>(Type, fn(&mut Translator<'_>, Operands) -> Value);

/// A load that widens lanes: its address, and an offset.
type Widening = fn(&mut Translator<'_>, MemFlagsData, Value, i32) -> Value;

/// The load with that name.
macro_rules! widening {
    ($load:ident) => {
        |t, flags, base, offset| t.builder.ins().$load(flags, base, offset)
    };
}

impl Translator<'_> {
    /// Translates a vector operator; returns whether it was one.
    pub(super) fn vector(&mut self, op: &Operator<'_>) -> Result<bool, CompileError> {
        Ok(self.vector_access(op) || self.lane(op) || self.lanewise(op))
    }

    /// Loads and stores.
    fn vector_access(&mut self, op: &Operator<'_>) -> bool {
        match op {
            Operator::V128Load { memarg } => self.load(memarg, I8X16),
            Operator::V128Store { memarg } => self.store(memarg, I8X16),
            Operator::V128Load8x8S { memarg } => self.load_widened(memarg, widening!(sload8x8)),
            Operator::V128Load8x8U { memarg } => self.load_widened(memarg, widening!(uload8x8)),
            Operator::V128Load16x4S { memarg } => self.load_widened(memarg, widening!(sload16x4)),
            Operator::V128Load16x4U { memarg } => self.load_widened(memarg, widening!(uload16x4)),
            Operator::V128Load32x2S { memarg } => self.load_widened(memarg, widening!(sload32x2)),
            Operator::V128Load32x2U { memarg } => self.load_widened(memarg, widening!(uload32x2)),
            Operator::V128Load8Splat { memarg } => self.load_splat(memarg, I8X16),
            Operator::V128Load16Splat { memarg } => self.load_splat(memarg, I16X8),
            Operator::V128Load32Splat { memarg } => self.load_splat(memarg, I32X4),
            Operator::V128Load64Splat { memarg } => self.load_splat(memarg, I64X2),
            Operator::V128Load32Zero { memarg } => self.load_alone(memarg, I32X4),
            Operator::V128Load64Zero { memarg } => self.load_alone(memarg, I64X2),
            Operator::V128Load8Lane { memarg, lane } => self.load_lane(memarg, I8X16, *lane),
            Operator::V128Load16Lane { memarg, lane } => self.load_lane(memarg, I16X8, *lane),
            Operator::V128Load32Lane { memarg, lane } => self.load_lane(memarg, I32X4, *lane),
            Operator::V128Load64Lane { memarg, lane } => self.load_lane(memarg, I64X2, *lane),
            Operator::V128Store8Lane { memarg, lane } => self.store_lane(memarg, I8X16, *lane),
            Operator::V128Store16Lane { memarg, lane } => self.store_lane(memarg, I16X8, *lane),
            Operator::V128Store32Lane { memarg, lane } => self.store_lane(memarg, I32X4, *lane),
            Operator::V128Store64Lane { memarg, lane } => self.store_lane(memarg, I64X2, *lane),
            _ => return false,
        }
        true
    }

    /// Constants, and operators that go from lane to lane or name one.
    fn lane(&mut self, op: &Operator<'_>) -> bool {
        match op {
            Operator::V128Const { value } => {
                let value = self.constant(*value.bytes(), I8X16);
                self.push(value);
            }
            Operator::I8x16Shuffle { lanes } => self.shuffle(lanes),
            Operator::V128Bitselect => self.bitselect(),
            Operator::I8x16Splat => self.splat(I8X16),
            Operator::I16x8Splat => self.splat(I16X8),
            Operator::I32x4Splat => self.splat(I32X4),
            Operator::I64x2Splat => self.splat(I64X2),
            Operator::F32x4Splat => self.splat(F32X4),
            Operator::F64x2Splat => self.splat(F64X2),
            Operator::I8x16ExtractLaneS { lane } => self.extract_signed(I8X16, *lane),
            Operator::I16x8ExtractLaneS { lane } => self.extract_signed(I16X8, *lane),
            Operator::I8x16ExtractLaneU { lane } => self.extract(I8X16, *lane),
            Operator::I16x8ExtractLaneU { lane } => self.extract(I16X8, *lane),
            Operator::I32x4ExtractLane { lane } => self.extract(I32X4, *lane),
            Operator::I64x2ExtractLane { lane } => self.extract(I64X2, *lane),
            Operator::F32x4ExtractLane { lane } => self.extract(F32X4, *lane),
            Operator::F64x2ExtractLane { lane } => self.extract(F64X2, *lane),
            Operator::I8x16ReplaceLane { lane } => self.replace(I8X16, *lane),
            Operator::I16x8ReplaceLane { lane } => self.replace(I16X8, *lane),
            Operator::I32x4ReplaceLane { lane } => self.replace(I32X4, *lane),
            Operator::I64x2ReplaceLane { lane } => self.replace(I64X2, *lane),
            Operator::F32x4ReplaceLane { lane } => self.replace(F32X4, *lane),
            Operator::F64x2ReplaceLane { lane } => self.replace(F64X2, *lane),
            _ => return false,
        }
        true
    }

    /// Operators that do the same to every lane.
    fn lanewise(&mut self, op: &Operator<'_>) -> bool {
        let result = if let Some(Lanewise(ty, make)) = unary(op) {
            let x = self.pop_as(ty);
            make(self, (x,))
        } else if let Some(Lanewise(ty, make)) = binary(op) {
            let y = self.pop_as(ty);
            let x = self.pop_as(ty);
            make(self, (x, y))
        } else if let Some(Lanewise(ty, make)) = shift(op) {
            let count = self.pop();
            let x = self.pop_as(ty);
            make(self, (x, count))
        } else if let Some(Lanewise(ty, make)) = ternary(op) {
            let z = self.pop_as(ty);
            let y = self.pop_as(ty);
            let x = self.pop_as(ty);
            make(self, (x, y, z))
        } else {
            return false;
        };
        self.push(result);
        true
    }

    /// Pops a vector in the requested shape.
    fn pop_as(&mut self, ty: Type) -> Value {
        let value = self.pop();
        self.cast(value, ty)
    }

    /// A constant vector.
    fn constant(&mut self, bytes: [u8; 16], ty: Type) -> Value {
        let bytes = self.builder.func.dfg.constants.insert(bytes.to_vec().into());
        self.builder.ins().vconst(ty, bytes)
    }

    // --- memory

    fn load_widened(&mut self, memarg: &MemArg, load: Widening) {
        let Address { base, offset, flags } = self.address(memarg, 8);
        let value = load(self, flags, base, offset);
        self.push(value);
    }

    fn load_splat(&mut self, memarg: &MemArg, ty: Type) {
        self.load(memarg, ty.lane_type());
        self.splat(ty);
    }

    /// Loads the first lane; the others are zero.
    fn load_alone(&mut self, memarg: &MemArg, ty: Type) {
        self.load(memarg, ty.lane_type());
        let lane = self.pop();
        let value = self.builder.ins().scalar_to_vector(ty, lane);
        self.push(value);
    }

    fn load_lane(&mut self, memarg: &MemArg, ty: Type, lane: u8) {
        let vector = self.pop_as(ty);
        self.load(memarg, ty.lane_type());
        let value = self.pop();
        let vector = self.builder.ins().insertlane(vector, value, lane);
        self.push(vector);
    }

    fn store_lane(&mut self, memarg: &MemArg, ty: Type, lane: u8) {
        let vector = self.pop_as(ty);
        let value = self.builder.ins().extractlane(vector, lane);
        self.push(value);
        self.store(memarg, ty.lane_type());
    }

    // --- lanes

    fn shuffle(&mut self, lanes: &[u8; 16]) {
        let y = self.pop_as(I8X16);
        let x = self.pop_as(I8X16);
        let lanes = self.builder.func.dfg.immediates.push(lanes.to_vec().into());
        let value = self.builder.ins().shuffle(x, y, lanes);
        self.push(value);
    }

    /// Selects in the mask's shape: if the mask comes from a comparison, code generation then
    /// selects lanes.
    fn bitselect(&mut self) {
        let mask = self.pop();
        let ty = self.builder.func.dfg.value_type(mask);
        let y = self.pop_as(ty);
        let x = self.pop_as(ty);
        let value = self.builder.ins().bitselect(mask, x, y);
        self.push(value);
    }

    fn splat(&mut self, ty: Type) {
        let lane = self.pop_lane(ty);
        let value = self.builder.ins().splat(ty, lane);
        self.push(value);
    }

    fn replace(&mut self, ty: Type, lane: u8) {
        let value = self.pop_lane(ty);
        let vector = self.pop_as(ty);
        let vector = self.builder.ins().insertlane(vector, value, lane);
        self.push(vector);
    }

    /// Pops a number that becomes a lane: of narrow lanes it has more bits than they.
    fn pop_lane(&mut self, ty: Type) -> Value {
        let value = self.pop();
        match self.builder.func.dfg.value_type(value).bits() > ty.lane_bits() {
            true => self.builder.ins().ireduce(ty.lane_type(), value),
            false => value,
        }
    }

    /// Takes a lane out; narrow ones are extended with zeros.
    fn extract(&mut self, ty: Type, lane: u8) {
        let vector = self.pop_as(ty);
        let value = self.builder.ins().extractlane(vector, lane);
        let value =
            if ty.lane_bits() < 32 { self.builder.ins().uextend(I32, value) } else { value };
        self.push(value);
    }

    /// Takes a narrow lane out, extended with its sign.
    fn extract_signed(&mut self, ty: Type, lane: u8) {
        let vector = self.pop_as(ty);
        let value = self.builder.ins().extractlane(vector, lane);
        let value = self.builder.ins().sextend(I32, value);
        self.push(value);
    }

    // --- what takes several instructions

    /// The lower half of the lanes, and the upper one, each twice as wide.
    fn widened_lanes(&mut self, x: Value, signed: bool) -> (Value, Value) {
        match signed {
            true => (self.builder.ins().swiden_low(x), self.builder.ins().swiden_high(x)),
            false => (self.builder.ins().uwiden_low(x), self.builder.ins().uwiden_high(x)),
        }
    }

    fn pair_sums_signed(&mut self, x: Value) -> Value {
        let (low, high) = self.widened_lanes(x, true);
        self.builder.ins().iadd_pairwise(low, high)
    }

    fn pair_sums_unsigned(&mut self, x: Value) -> Value {
        let (low, high) = self.widened_lanes(x, false);
        self.builder.ins().iadd_pairwise(low, high)
    }

    fn low_products_signed(&mut self, x: Value, y: Value) -> Value {
        let (x, y) = (self.builder.ins().swiden_low(x), self.builder.ins().swiden_low(y));
        self.builder.ins().imul(x, y)
    }

    fn high_products_signed(&mut self, x: Value, y: Value) -> Value {
        let (x, y) = (self.builder.ins().swiden_high(x), self.builder.ins().swiden_high(y));
        self.builder.ins().imul(x, y)
    }

    fn low_products_unsigned(&mut self, x: Value, y: Value) -> Value {
        let (x, y) = (self.builder.ins().uwiden_low(x), self.builder.ins().uwiden_low(y));
        self.builder.ins().imul(x, y)
    }

    fn high_products_unsigned(&mut self, x: Value, y: Value) -> Value {
        let (x, y) = (self.builder.ins().uwiden_high(x), self.builder.ins().uwiden_high(y));
        self.builder.ins().imul(x, y)
    }

    /// Sums of neighbours' products.
    fn dot(&mut self, x: Value, y: Value) -> Value {
        let (low, high) = (self.low_products_signed(x, y), self.high_products_signed(x, y));
        self.builder.ins().iadd_pairwise(low, high)
    }

    /// `y` where it is less than `x`, and `x` where neither is less.
    fn pmin(&mut self, x: Value, y: Value) -> Value {
        let less = self.builder.ins().fcmp(FloatCC::LessThan, y, x);
        self.lanes_where(less, y, x)
    }

    /// `y` where `x` is less than it, and `x` where neither is less.
    fn pmax(&mut self, x: Value, y: Value) -> Value {
        let less = self.builder.ins().fcmp(FloatCC::LessThan, x, y);
        self.lanes_where(less, y, x)
    }

    fn lanes_where(&mut self, mask: Value, x: Value, y: Value) -> Value {
        let ty = self.builder.func.dfg.value_type(x);
        let mask = self.cast(mask, ty);
        self.builder.ins().bitselect(mask, x, y)
    }

    fn convert_low_signed(&mut self, x: Value) -> Value {
        let low = self.builder.ins().swiden_low(x);
        self.builder.ins().fcvt_from_sint(F64X2, low)
    }

    fn convert_low_unsigned(&mut self, x: Value) -> Value {
        let low = self.builder.ins().uwiden_low(x);
        self.builder.ins().fcvt_from_uint(F64X2, low)
    }

    fn truncate_signed_zero(&mut self, x: Value) -> Value {
        let (wide, zero) =
            (self.builder.ins().fcvt_to_sint_sat(I64X2, x), self.constant([0; 16], I64X2));
        self.builder.ins().snarrow(wide, zero)
    }

    fn truncate_unsigned_zero(&mut self, x: Value) -> Value {
        let (wide, zero) =
            (self.builder.ins().fcvt_to_uint_sat(I64X2, x), self.constant([0; 16], I64X2));
        self.builder.ins().uunarrow(wide, zero)
    }

    // --- relaxed: what the processor does of its own accord

    fn relaxed_truncate_zero(&mut self, x: Value) -> Value {
        let (wide, zero) =
            (self.builder.ins().x86_cvtt2dq(I64X2, x), self.constant([0; 16], I64X2));
        self.builder.ins().snarrow(wide, zero)
    }

    fn relaxed_swizzle(&mut self, x: Value, lanes: Value) -> Value {
        match self.target.isa.has_x86_pshufb_lowering() {
            true => self.builder.ins().x86_pshufb(x, lanes),
            false => self.builder.ins().swizzle(x, lanes),
        }
    }

    fn relaxed_q15(&mut self, x: Value, y: Value) -> Value {
        match self.target.isa.has_x86_pmulhrsw_lowering() {
            true => self.builder.ins().x86_pmulhrsw(x, y),
            false => self.builder.ins().sqmul_round_sat(x, y),
        }
    }

    fn relaxed_dot(&mut self, x: Value, y: Value) -> Value {
        match self.target.isa.has_x86_pmaddubsw_lowering() {
            true => self.builder.ins().x86_pmaddubsw(x, y),
            false => self.dot(x, y),
        }
    }

    fn relaxed_dot_add(&mut self, x: Value, y: Value, sum: Value) -> Value {
        let products = self.relaxed_dot(x, y);
        let (products, sum) = (self.pair_sums_signed(products), self.cast(sum, I32X4));
        self.builder.ins().iadd(products, sum)
    }

    fn relaxed_select(&mut self, x: Value, y: Value, mask: Value) -> Value {
        self.builder.ins().bitselect(mask, x, y)
    }

    fn relaxed_madd(&mut self, x: Value, y: Value, z: Value) -> Value {
        if self.target.isa.has_native_fma() {
            return self.builder.ins().fma(x, y, z);
        }
        let product = self.builder.ins().fmul(x, y);
        self.builder.ins().fadd(product, z)
    }

    fn relaxed_nmadd(&mut self, x: Value, y: Value, z: Value) -> Value {
        let x = self.builder.ins().fneg(x);
        self.relaxed_madd(x, y, z)
    }
}

/// How an instruction is made, by the word that stands before it in a table.
macro_rules! instruction {
    (plain $inst:ident $t:ident $operands:tt) => { $t.builder.ins().$inst $operands };
    (icmp $cc:ident $t:ident ($x:ident, $y:ident)) => { $t.builder.ins().icmp(IntCC::$cc, $x, $y) };
    (fcmp $cc:ident $t:ident ($x:ident, $y:ident)) => { $t.builder.ins().fcmp(FloatCC::$cc, $x, $y) };
    (flag $inst:ident $t:ident ($x:ident,)) => {{
        let flag = $t.builder.ins().$inst($x);
        $t.builder.ins().uextend(I32, flag)
    }};
    (ours $method:ident $t:ident $operands:tt) => { $t.$method $operands };
    // The type of the result.
    ($ty:ident $inst:ident $t:ident ($x:ident,)) => { $t.builder.ins().$inst($ty, $x) };
}

/// Rows of what is done, and the operators that do it with the lanes that they take.
macro_rules! table {
    ($op:expr, $operands:tt; $( $how:ident $what:ident: $( $name:ident $ty:ident ),+ ; )*) => {
        match $op {
            $( $( Operator::$name => Some(Lanewise($ty, |t, $operands| instruction!($how $what t $operands))), )+ )*
            _ => None,
        }
    };
}

#[rustfmt::skip]
fn unary(op: &Operator<'_>) -> Option<Lanewise<(Value,)>> {
    table! { op, (x,);
        plain bnot: V128Not I8X16;
        plain iabs: I8x16Abs I8X16, I16x8Abs I16X8, I32x4Abs I32X4, I64x2Abs I64X2;
        plain ineg: I8x16Neg I8X16, I16x8Neg I16X8, I32x4Neg I32X4, I64x2Neg I64X2;
        plain popcnt: I8x16Popcnt I8X16;
        plain fabs: F32x4Abs F32X4, F64x2Abs F64X2;
        plain fneg: F32x4Neg F32X4, F64x2Neg F64X2;
        plain sqrt: F32x4Sqrt F32X4, F64x2Sqrt F64X2;
        plain ceil: F32x4Ceil F32X4, F64x2Ceil F64X2;
        plain floor: F32x4Floor F32X4, F64x2Floor F64X2;
        plain trunc: F32x4Trunc F32X4, F64x2Trunc F64X2;
        plain nearest: F32x4Nearest F32X4, F64x2Nearest F64X2;
        flag vany_true: V128AnyTrue I8X16;
        flag vall_true: I8x16AllTrue I8X16, I16x8AllTrue I16X8, I32x4AllTrue I32X4, I64x2AllTrue I64X2;
        I32 vhigh_bits: I8x16Bitmask I8X16, I16x8Bitmask I16X8, I32x4Bitmask I32X4, I64x2Bitmask I64X2;
        plain swiden_low: I16x8ExtendLowI8x16S I8X16, I32x4ExtendLowI16x8S I16X8, I64x2ExtendLowI32x4S I32X4;
        plain swiden_high: I16x8ExtendHighI8x16S I8X16, I32x4ExtendHighI16x8S I16X8, I64x2ExtendHighI32x4S I32X4;
        plain uwiden_low: I16x8ExtendLowI8x16U I8X16, I32x4ExtendLowI16x8U I16X8, I64x2ExtendLowI32x4U I32X4;
        plain uwiden_high: I16x8ExtendHighI8x16U I8X16, I32x4ExtendHighI16x8U I16X8, I64x2ExtendHighI32x4U I32X4;
        ours pair_sums_signed: I16x8ExtAddPairwiseI8x16S I8X16, I32x4ExtAddPairwiseI16x8S I16X8;
        ours pair_sums_unsigned: I16x8ExtAddPairwiseI8x16U I8X16, I32x4ExtAddPairwiseI16x8U I16X8;
        F32X4 fcvt_from_sint: F32x4ConvertI32x4S I32X4;
        F32X4 fcvt_from_uint: F32x4ConvertI32x4U I32X4;
        ours convert_low_signed: F64x2ConvertLowI32x4S I32X4;
        ours convert_low_unsigned: F64x2ConvertLowI32x4U I32X4;
        plain fvdemote: F32x4DemoteF64x2Zero F64X2;
        plain fvpromote_low: F64x2PromoteLowF32x4 F32X4;
        I32X4 fcvt_to_sint_sat: I32x4TruncSatF32x4S F32X4;
        I32X4 fcvt_to_uint_sat: I32x4TruncSatF32x4U F32X4, I32x4RelaxedTruncF32x4U F32X4;
        I32X4 x86_cvtt2dq: I32x4RelaxedTruncF32x4S F32X4;
        ours truncate_signed_zero: I32x4TruncSatF64x2SZero F64X2;
        ours truncate_unsigned_zero: I32x4TruncSatF64x2UZero F64X2, I32x4RelaxedTruncF64x2UZero F64X2;
        ours relaxed_truncate_zero: I32x4RelaxedTruncF64x2SZero F64X2;
    }
}

#[rustfmt::skip]
fn binary(op: &Operator<'_>) -> Option<Lanewise<(Value, Value)>> {
    table! { op, (x, y);
        plain band: V128And I8X16;
        plain band_not: V128AndNot I8X16;
        plain bor: V128Or I8X16;
        plain bxor: V128Xor I8X16;
        plain iadd: I8x16Add I8X16, I16x8Add I16X8, I32x4Add I32X4, I64x2Add I64X2;
        plain isub: I8x16Sub I8X16, I16x8Sub I16X8, I32x4Sub I32X4, I64x2Sub I64X2;
        plain imul: I16x8Mul I16X8, I32x4Mul I32X4, I64x2Mul I64X2;
        plain sadd_sat: I8x16AddSatS I8X16, I16x8AddSatS I16X8;
        plain uadd_sat: I8x16AddSatU I8X16, I16x8AddSatU I16X8;
        plain ssub_sat: I8x16SubSatS I8X16, I16x8SubSatS I16X8;
        plain usub_sat: I8x16SubSatU I8X16, I16x8SubSatU I16X8;
        plain smin: I8x16MinS I8X16, I16x8MinS I16X8, I32x4MinS I32X4;
        plain umin: I8x16MinU I8X16, I16x8MinU I16X8, I32x4MinU I32X4;
        plain smax: I8x16MaxS I8X16, I16x8MaxS I16X8, I32x4MaxS I32X4;
        plain umax: I8x16MaxU I8X16, I16x8MaxU I16X8, I32x4MaxU I32X4;
        plain avg_round: I8x16AvgrU I8X16, I16x8AvgrU I16X8;
        plain sqmul_round_sat: I16x8Q15MulrSatS I16X8;
        plain snarrow: I8x16NarrowI16x8S I16X8, I16x8NarrowI32x4S I32X4;
        plain unarrow: I8x16NarrowI16x8U I16X8, I16x8NarrowI32x4U I32X4;
        ours dot: I32x4DotI16x8S I16X8;
        ours low_products_signed: I16x8ExtMulLowI8x16S I8X16, I32x4ExtMulLowI16x8S I16X8, I64x2ExtMulLowI32x4S I32X4;
        ours high_products_signed: I16x8ExtMulHighI8x16S I8X16, I32x4ExtMulHighI16x8S I16X8, I64x2ExtMulHighI32x4S I32X4;
        ours low_products_unsigned: I16x8ExtMulLowI8x16U I8X16, I32x4ExtMulLowI16x8U I16X8, I64x2ExtMulLowI32x4U I32X4;
        ours high_products_unsigned: I16x8ExtMulHighI8x16U I8X16, I32x4ExtMulHighI16x8U I16X8, I64x2ExtMulHighI32x4U I32X4;
        plain swizzle: I8x16Swizzle I8X16;
        ours relaxed_swizzle: I8x16RelaxedSwizzle I8X16;
        ours relaxed_q15: I16x8RelaxedQ15mulrS I16X8;
        ours relaxed_dot: I16x8RelaxedDotI8x16I7x16S I8X16;
        icmp Equal: I8x16Eq I8X16, I16x8Eq I16X8, I32x4Eq I32X4, I64x2Eq I64X2;
        icmp NotEqual: I8x16Ne I8X16, I16x8Ne I16X8, I32x4Ne I32X4, I64x2Ne I64X2;
        icmp SignedLessThan: I8x16LtS I8X16, I16x8LtS I16X8, I32x4LtS I32X4, I64x2LtS I64X2;
        icmp UnsignedLessThan: I8x16LtU I8X16, I16x8LtU I16X8, I32x4LtU I32X4;
        icmp SignedGreaterThan: I8x16GtS I8X16, I16x8GtS I16X8, I32x4GtS I32X4, I64x2GtS I64X2;
        icmp UnsignedGreaterThan: I8x16GtU I8X16, I16x8GtU I16X8, I32x4GtU I32X4;
        icmp SignedLessThanOrEqual: I8x16LeS I8X16, I16x8LeS I16X8, I32x4LeS I32X4, I64x2LeS I64X2;
        icmp UnsignedLessThanOrEqual: I8x16LeU I8X16, I16x8LeU I16X8, I32x4LeU I32X4;
        icmp SignedGreaterThanOrEqual: I8x16GeS I8X16, I16x8GeS I16X8, I32x4GeS I32X4, I64x2GeS I64X2;
        icmp UnsignedGreaterThanOrEqual: I8x16GeU I8X16, I16x8GeU I16X8, I32x4GeU I32X4;
        fcmp Equal: F32x4Eq F32X4, F64x2Eq F64X2;
        fcmp NotEqual: F32x4Ne F32X4, F64x2Ne F64X2;
        fcmp LessThan: F32x4Lt F32X4, F64x2Lt F64X2;
        fcmp GreaterThan: F32x4Gt F32X4, F64x2Gt F64X2;
        fcmp LessThanOrEqual: F32x4Le F32X4, F64x2Le F64X2;
        fcmp GreaterThanOrEqual: F32x4Ge F32X4, F64x2Ge F64X2;
        plain fadd: F32x4Add F32X4, F64x2Add F64X2;
        plain fsub: F32x4Sub F32X4, F64x2Sub F64X2;
        plain fmul: F32x4Mul F32X4, F64x2Mul F64X2;
        plain fdiv: F32x4Div F32X4, F64x2Div F64X2;
        plain fmin: F32x4Min F32X4, F64x2Min F64X2;
        plain fmax: F32x4Max F32X4, F64x2Max F64X2;
        ours pmin: F32x4PMin F32X4, F64x2PMin F64X2, F32x4RelaxedMin F32X4, F64x2RelaxedMin F64X2;
        ours pmax: F32x4PMax F32X4, F64x2PMax F64X2, F32x4RelaxedMax F32X4, F64x2RelaxedMax F64X2;
    }
}

/// The second operand is a number.
#[rustfmt::skip]
fn shift(op: &Operator<'_>) -> Option<Lanewise<(Value, Value)>> {
    table! { op, (x, count);
        plain ishl: I8x16Shl I8X16, I16x8Shl I16X8, I32x4Shl I32X4, I64x2Shl I64X2;
        plain sshr: I8x16ShrS I8X16, I16x8ShrS I16X8, I32x4ShrS I32X4, I64x2ShrS I64X2;
        plain ushr: I8x16ShrU I8X16, I16x8ShrU I16X8, I32x4ShrU I32X4, I64x2ShrU I64X2;
    }
}

#[rustfmt::skip]
fn ternary(op: &Operator<'_>) -> Option<Lanewise<(Value, Value, Value)>> {
    table! { op, (x, y, z);
        ours relaxed_madd: F32x4RelaxedMadd F32X4, F64x2RelaxedMadd F64X2;
        ours relaxed_nmadd: F32x4RelaxedNmadd F32X4, F64x2RelaxedNmadd F64X2;
        ours relaxed_select: I8x16RelaxedLaneselect I8X16, I16x8RelaxedLaneselect I16X8,
            I32x4RelaxedLaneselect I32X4, I64x2RelaxedLaneselect I64X2;
        ours relaxed_dot_add: I32x4RelaxedDotI8x16I7x16AddS I8X16;
    }
}
