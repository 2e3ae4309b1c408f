//! Values in JavaScript's notation, which has only doubles.

use crate::value::Value;
use wasmparser::ValType;

/// The loss of converting a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    Integer,
    NanBits,
    Zero,
    Vector,
    Reference,
}

impl Loss {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Integer => "an integer of 64 bits beyond 2^53",
            Self::NanBits => "the bits of a NaN",
            Self::Zero => "the sign of a zero",
            Self::Vector => "a vector",
            Self::Reference => "a reference",
        }
    }
}

/// Converts a value to text, and returns the loss.
pub(super) fn spelled(value: Value) -> (String, Option<Loss>) {
    let float = |value: f64, is_canonical: bool| {
        let loss = match (value.is_nan(), value == 0.0 && value.is_sign_negative()) {
            (true, _) if !is_canonical => Some(Loss::NanBits),
            (_, true) => Some(Loss::Zero),
            _ => None,
        };
        (double(value), loss)
    };
    match value {
        Value::I32(bits) => (bits.cast_signed().to_string(), None),
        Value::I64(bits) => {
            let value = bits.cast_signed();
            let fits = value.unsigned_abs() <= 1 << 53;
            match fits {
                true => (value.to_string(), None),
                false => (double(value as f64), Some(Loss::Integer)),
            }
        }
        Value::F32(bits) => float(f32::from_bits(bits).into(), bits == 0x7fc0_0000),
        Value::F64(bits) => float(f64::from_bits(bits), bits == 0x7ff8_0000_0000_0000),
        Value::V128(_) => ("0".into(), Some(Loss::Vector)),
        Value::Func(_) | Value::Extern(_) | Value::Object => ("0".into(), Some(Loss::Reference)),
    }
}

/// A double as JavaScript prints it: ECMA-262, Number::toString.
fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once("e-") {
        Some(_) => text,
        None => text.replace('e', "e+"),
    }
}

/// Parses a value of a type.
pub(super) fn value(text: &str, ty: ValType) -> Result<Value, String> {
    let wrong = || format!("{text:?}: not a number");
    let number = || -> Result<f64, String> {
        match text {
            "Infinity" | "inf" => Ok(f64::INFINITY),
            "-Infinity" | "-inf" => Ok(f64::NEG_INFINITY),
            "NaN" | "" => Ok(f64::NAN),
            text => text.parse().map_err(|_| wrong()),
        }
    };
    Ok(match ty {
        ValType::I32 => {
            let double = number()?;
            Value::I32(integer(text).map_or(double as i64 as u32, |value| value as u32))
        }
        ValType::I64 => {
            let double = number()?;
            Value::I64(integer(text).map_or(double as i64 as u64, |value| value as u64))
        }
        ValType::F32 => {
            let value = number()? as f32;
            Value::F32(if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() })
        }
        ValType::F64 => {
            let value = number()?;
            Value::F64(if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() })
        }
        other => Value::zero(other).ok_or_else(|| format!("{text:?}: not a {other}"))?,
    })
}

fn integer(text: &str) -> Option<i128> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_javascript_does() {
        for (value, text) in [
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1.5e-7, "1.5e-7"),
            (0.000_001, "0.000001"),
            (-2.5, "-2.5"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(double(value), text);
            let read = super::value(text, ValType::F64).expect(text);
            assert_eq!(read, Value::F64(value.to_bits()));
        }
        assert_eq!(value("-1", ValType::I32), Ok(Value::I32(u32::MAX)));
        assert_eq!(value("4294967295", ValType::I32), Ok(Value::I32(u32::MAX)));
        assert_eq!(value("9007199254740993", ValType::I64), Ok(Value::I64((1 << 53) + 1)));
        assert!(value("x", ValType::I32).is_err() && value("x", ValType::F64).is_err());
    }

    #[test]
    fn what_is_lost_is_said() {
        assert_eq!(spelled(Value::I64(1 << 53)).1, None);
        assert_eq!(spelled(Value::I64((1 << 53) + 1)).1, Some(Loss::Integer));
        assert_eq!(spelled(Value::F64(0x7ff8_0000_0000_0001)).1, Some(Loss::NanBits));
        assert_eq!(spelled(Value::F32(0x8000_0000)), ("0".into(), Some(Loss::Zero)));
        assert_eq!(spelled(Value::F32(0x7fc0_0000)), ("NaN".into(), None));
    }
}
