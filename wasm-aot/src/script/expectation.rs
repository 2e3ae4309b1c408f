//! Compares expected results of a script with actual ones.

use crate::{Error, Val};
use wast::WastRet;
use wast::core::{AbstractHeapType, HeapType, NanPattern, V128Pattern, WastRetCore};
use wast::token::{F32, F64};

/// What happened, in a word.
pub(super) fn described(found: &Result<Vec<Val>, Error>) -> String {
    match found {
        Ok(values) => format!("{values:?}"),
        Err(error) => format!("\"{error}\""),
    }
}

/// Whether a call trapped with the message that the script expects.
pub(super) fn trapped(found: &Result<Vec<Val>, Error>, message: &str) -> Result<(), String> {
    let told = found.as_ref().err().and_then(Error::trap).map(|trap| trap.to_string());
    match told {
        // Scripts abbreviate messages, and contain more than an engine knows ("uninitialized
        // element 2").
        Some(told) if message.starts_with(&told) || told.starts_with(message) => Ok(()),
        _ => Err(format!("expected the trap \"{message}\", found {}", described(found))),
    }
}

pub(super) fn check_all(found: &[Val], expected: &[WastRet<'_>]) -> Result<(), String> {
    let fits = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| match expected {
            WastRet::Core(expected) => check(found, expected),
            _ => false,
        });
    if fits { Ok(()) } else { Err(format!("expected {expected:?}, found {found:x?}")) }
}

fn check(found: &Val, expected: &WastRetCore<'_>) -> bool {
    match (found, expected) {
        (_, WastRetCore::Either(choices)) => choices.iter().any(|choice| check(found, choice)),
        (Val::I32(found), WastRetCore::I32(expected)) => found == expected,
        (Val::I64(found), WastRetCore::I64(expected)) => found == expected,
        (Val::F32(found), WastRetCore::F32(expected)) => check_f32(*found, expected),
        (Val::F64(found), WastRetCore::F64(expected)) => check_f64(*found, expected),
        (Val::V128(found), WastRetCore::V128(expected)) => check_vector(*found, expected),
        (Val::FuncRef(None), WastRetCore::RefNull(ty)) => ty.is_none_or(|ty| {
            matches!(
                ty,
                HeapType::Abstract { ty: AbstractHeapType::Func | AbstractHeapType::NoFunc, .. }
                    | HeapType::Concrete(_)
            )
        }),
        (Val::ExternRef(None), WastRetCore::RefNull(ty)) => ty.is_none_or(|ty| {
            matches!(
                ty,
                HeapType::Abstract {
                    ty: AbstractHeapType::Extern | AbstractHeapType::NoExtern,
                    ..
                }
            )
        }),
        (Val::ExnRef(None), WastRetCore::RefNull(ty)) => ty.is_none_or(|ty| {
            matches!(
                ty,
                HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. }
            )
        }),
        (Val::AnyNull, WastRetCore::RefNull(_)) => true,
        (Val::FuncRef(Some(_)), WastRetCore::RefFunc(_)) => true,
        (Val::ExternRef(Some(found)), WastRetCore::RefExtern(expected)) => {
            expected.is_none_or(|expected| found.data().downcast_ref::<u32>() == Some(&expected))
        }
        _ => false,
    }
}

fn check_f32(found: u32, expected: &NanPattern<F32>) -> bool {
    match expected {
        NanPattern::Value(expected) => found == expected.bits,
        NanPattern::CanonicalNan => found & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => found & 0x7fc0_0000 == 0x7fc0_0000,
    }
}

fn check_f64(found: u64, expected: &NanPattern<F64>) -> bool {
    match expected {
        NanPattern::Value(expected) => found == expected.bits,
        NanPattern::CanonicalNan => found & (u64::MAX >> 1) == 0x7ff8_0000_0000_0000,
        NanPattern::ArithmeticNan => found & 0x7ff8_0000_0000_0000 == 0x7ff8_0000_0000_0000,
    }
}

fn check_vector(found: u128, expected: &V128Pattern) -> bool {
    let lane = |i: usize, bits: usize| (found >> (i * bits)) as u64 & (u64::MAX >> (64 - bits));
    match expected {
        V128Pattern::I8x16(lanes) => (0..16).all(|i| lane(i, 8) as i8 == lanes[i]),
        V128Pattern::I16x8(lanes) => (0..8).all(|i| lane(i, 16) as i16 == lanes[i]),
        V128Pattern::I32x4(lanes) => (0..4).all(|i| lane(i, 32) as i32 == lanes[i]),
        V128Pattern::I64x2(lanes) => (0..2).all(|i| lane(i, 64) as i64 == lanes[i]),
        V128Pattern::F32x4(lanes) => (0..4).all(|i| check_f32(lane(i, 32) as u32, &lanes[i])),
        V128Pattern::F64x2(lanes) => (0..2).all(|i| check_f64(lane(i, 64), &lanes[i])),
    }
}
