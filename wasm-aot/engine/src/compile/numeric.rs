//! Numbers: one instruction of CLIF for most operators.

use super::function::Translator;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use wasmparser::Operator;

/// What an operator without immediates does.
enum Numeric {
    Unary(fn(&mut Translator<'_>, Value) -> Value),
    Binary(fn(&mut Translator<'_>, Value, Value) -> Value),
    /// Two pairs of 64 bits, low half first, to one.
    Wide(fn(&mut Translator<'_>, Value, Value) -> Value),
}

macro_rules! unary {
    ($t:ident, $x:ident => $result:expr) => {
        Numeric::Unary(|$t, $x| $result)
    };
}

macro_rules! binary {
    ($t:ident, $x:ident, $y:ident => $result:expr) => {
        Numeric::Binary(|$t, $x, $y| $result)
    };
}

macro_rules! compare {
    (int $cc:ident) => {
        binary!(t, x, y => { let c = t.builder.ins().icmp(IntCC::$cc, x, y); t.builder.ins().uextend(types::I32, c) })
    };
    (float $cc:ident) => {
        binary!(t, x, y => { let c = t.builder.ins().fcmp(FloatCC::$cc, x, y); t.builder.ins().uextend(types::I32, c) })
    };
}

macro_rules! plain {
    ($inst:ident 1) => {
        unary!(t, x => t.builder.ins().$inst(x))
    };
    ($inst:ident 2) => {
        binary!(t, x, y => t.builder.ins().$inst(x, y))
    };
    ($inst:ident $ty:ident) => {
        unary!(t, x => t.builder.ins().$inst(types::$ty, x))
    };
}

impl Translator<'_> {
    /// Translates a numeric operator; returns whether it was one.
    pub(super) fn numeric(&mut self, op: &Operator<'_>) -> bool {
        match op {
            Operator::I32Const { value } => {
                let value = self.builder.ins().iconst(types::I32, i64::from(*value as u32));
                self.push(value);
                return true;
            }
            Operator::I64Const { value } => {
                let value = self.builder.ins().iconst(types::I64, *value);
                self.push(value);
                return true;
            }
            Operator::F32Const { value } => {
                let value = self
                    .builder
                    .ins()
                    .f32const(cranelift_codegen::ir::immediates::Ieee32::with_bits(value.bits()));
                self.push(value);
                return true;
            }
            Operator::F64Const { value } => {
                let value = self
                    .builder
                    .ins()
                    .f64const(cranelift_codegen::ir::immediates::Ieee64::with_bits(value.bits()));
                self.push(value);
                return true;
            }
            Operator::I64Add128 | Operator::I64Sub128 => {
                self.wide_sum(matches!(op, Operator::I64Add128));
                return true;
            }
            _ => {}
        }
        let Some(numeric) = lookup(op) else { return false };
        match numeric {
            Numeric::Unary(make) => {
                let x = self.pop();
                let result = make(self, x);
                self.push(result);
            }
            Numeric::Binary(make) => {
                let (x, y) = self.pop2();
                let result = make(self, x, y);
                self.push(result);
            }
            Numeric::Wide(high) => {
                let (x, y) = self.pop2();
                let low = self.builder.ins().imul(x, y);
                let high = high(self, x, y);
                self.stack.extend([low, high]);
            }
        }
        true
    }

    /// A sum or a difference of 128 bits.
    fn wide_sum(&mut self, add: bool) {
        let (y_low, y_high) = self.pop2();
        let (x_low, x_high) = self.pop2();
        let (x, y) =
            (self.builder.ins().iconcat(x_low, x_high), self.builder.ins().iconcat(y_low, y_high));
        let result =
            if add { self.builder.ins().iadd(x, y) } else { self.builder.ins().isub(x, y) };
        let (low, high) = self.builder.ins().isplit(result);
        self.stack.extend([low, high]);
    }

    fn divide(&mut self, x: Value, y: Value, signed: bool) -> Value {
        // Cranelift's division traps by itself, with the codes that Wasm requires.
        if signed { self.builder.ins().sdiv(x, y) } else { self.builder.ins().udiv(x, y) }
    }

    fn bits_as(&mut self, ty: cranelift_codegen::ir::Type, x: Value) -> Value {
        self.builder.ins().bitcast(ty, MemFlagsData::new(), x)
    }

    fn sign_extend_from(&mut self, narrow: cranelift_codegen::ir::Type, x: Value) -> Value {
        let ty = self.builder.func.dfg.value_type(x);
        let low = self.builder.ins().ireduce(narrow, x);
        self.builder.ins().sextend(ty, low)
    }

    fn is_zero(&mut self, x: Value) -> Value {
        let is_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, x, 0);
        self.builder.ins().uextend(types::I32, is_zero)
    }
}

/// The table of numeric operators.
fn lookup(op: &Operator<'_>) -> Option<Numeric> {
    use Operator as O;
    Some(match op {
        O::I32Eqz | O::I64Eqz => unary!(t, x => t.is_zero(x)),
        O::I32Eq | O::I64Eq => compare!(int Equal),
        O::I32Ne | O::I64Ne => compare!(int NotEqual),
        O::I32LtS | O::I64LtS => compare!(int SignedLessThan),
        O::I32LtU | O::I64LtU => compare!(int UnsignedLessThan),
        O::I32GtS | O::I64GtS => compare!(int SignedGreaterThan),
        O::I32GtU | O::I64GtU => compare!(int UnsignedGreaterThan),
        O::I32LeS | O::I64LeS => compare!(int SignedLessThanOrEqual),
        O::I32LeU | O::I64LeU => compare!(int UnsignedLessThanOrEqual),
        O::I32GeS | O::I64GeS => compare!(int SignedGreaterThanOrEqual),
        O::I32GeU | O::I64GeU => compare!(int UnsignedGreaterThanOrEqual),
        O::F32Eq | O::F64Eq => compare!(float Equal),
        O::F32Ne | O::F64Ne => compare!(float NotEqual),
        O::F32Lt | O::F64Lt => compare!(float LessThan),
        O::F32Gt | O::F64Gt => compare!(float GreaterThan),
        O::F32Le | O::F64Le => compare!(float LessThanOrEqual),
        O::F32Ge | O::F64Ge => compare!(float GreaterThanOrEqual),
        O::I32Clz | O::I64Clz => plain!(clz 1),
        O::I32Ctz | O::I64Ctz => plain!(ctz 1),
        O::I32Popcnt | O::I64Popcnt => plain!(popcnt 1),
        O::I32Add | O::I64Add => plain!(iadd 2),
        O::I32Sub | O::I64Sub => plain!(isub 2),
        O::I32Mul | O::I64Mul => plain!(imul 2),
        O::I32DivS | O::I64DivS => binary!(t, x, y => t.divide(x, y, true)),
        O::I32DivU | O::I64DivU => binary!(t, x, y => t.divide(x, y, false)),
        O::I32RemS | O::I64RemS => plain!(srem 2),
        O::I32RemU | O::I64RemU => plain!(urem 2),
        O::I32And | O::I64And => plain!(band 2),
        O::I32Or | O::I64Or => plain!(bor 2),
        O::I32Xor | O::I64Xor => plain!(bxor 2),
        O::I32Shl | O::I64Shl => plain!(ishl 2),
        O::I32ShrS | O::I64ShrS => plain!(sshr 2),
        O::I32ShrU | O::I64ShrU => plain!(ushr 2),
        O::I32Rotl | O::I64Rotl => plain!(rotl 2),
        O::I32Rotr | O::I64Rotr => plain!(rotr 2),
        O::F32Abs | O::F64Abs => plain!(fabs 1),
        O::F32Neg | O::F64Neg => plain!(fneg 1),
        O::F32Ceil | O::F64Ceil => plain!(ceil 1),
        O::F32Floor | O::F64Floor => plain!(floor 1),
        O::F32Trunc | O::F64Trunc => plain!(trunc 1),
        O::F32Nearest | O::F64Nearest => plain!(nearest 1),
        O::F32Sqrt | O::F64Sqrt => plain!(sqrt 1),
        O::F32Add | O::F64Add => plain!(fadd 2),
        O::F32Sub | O::F64Sub => plain!(fsub 2),
        O::F32Mul | O::F64Mul => plain!(fmul 2),
        O::F32Div | O::F64Div => plain!(fdiv 2),
        O::F32Min | O::F64Min => plain!(fmin 2),
        O::F32Max | O::F64Max => plain!(fmax 2),
        O::F32Copysign | O::F64Copysign => plain!(fcopysign 2),
        O::I32WrapI64 => plain!(ireduce I32),
        O::I64ExtendI32S => plain!(sextend I64),
        O::I64ExtendI32U => plain!(uextend I64),
        O::I32TruncF32S | O::I32TruncF64S => plain!(fcvt_to_sint I32),
        O::I32TruncF32U | O::I32TruncF64U => plain!(fcvt_to_uint I32),
        O::I64TruncF32S | O::I64TruncF64S => plain!(fcvt_to_sint I64),
        O::I64TruncF32U | O::I64TruncF64U => plain!(fcvt_to_uint I64),
        O::I32TruncSatF32S | O::I32TruncSatF64S => plain!(fcvt_to_sint_sat I32),
        O::I32TruncSatF32U | O::I32TruncSatF64U => plain!(fcvt_to_uint_sat I32),
        O::I64TruncSatF32S | O::I64TruncSatF64S => plain!(fcvt_to_sint_sat I64),
        O::I64TruncSatF32U | O::I64TruncSatF64U => plain!(fcvt_to_uint_sat I64),
        O::F32ConvertI32S | O::F32ConvertI64S => plain!(fcvt_from_sint F32),
        O::F32ConvertI32U | O::F32ConvertI64U => plain!(fcvt_from_uint F32),
        O::F64ConvertI32S | O::F64ConvertI64S => plain!(fcvt_from_sint F64),
        O::F64ConvertI32U | O::F64ConvertI64U => plain!(fcvt_from_uint F64),
        O::F32DemoteF64 => plain!(fdemote F32),
        O::F64PromoteF32 => plain!(fpromote F64),
        O::I32ReinterpretF32 => unary!(t, x => t.bits_as(types::I32, x)),
        O::I64ReinterpretF64 => unary!(t, x => t.bits_as(types::I64, x)),
        O::F32ReinterpretI32 => unary!(t, x => t.bits_as(types::F32, x)),
        O::F64ReinterpretI64 => unary!(t, x => t.bits_as(types::F64, x)),
        O::I32Extend8S | O::I64Extend8S => unary!(t, x => t.sign_extend_from(types::I8, x)),
        O::I32Extend16S | O::I64Extend16S => unary!(t, x => t.sign_extend_from(types::I16, x)),
        O::I64Extend32S => unary!(t, x => t.sign_extend_from(types::I32, x)),
        O::I64MulWideS => Numeric::Wide(|t, x, y| t.builder.ins().smulhi(x, y)),
        O::I64MulWideU => Numeric::Wide(|t, x, y| t.builder.ins().umulhi(x, y)),
        _ => return None,
    })
}
