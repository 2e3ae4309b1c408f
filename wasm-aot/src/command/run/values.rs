//! The function that `--invoke` names: its arguments from the command line, its results as lines.

use crate::command::modules::World;
use std::ffi::OsString;
use wasm_aot::{Error, Extern, Func, Instance, Module, Store, Val, ValType};

pub(super) fn exported_functions(module: &Module) -> Vec<String> {
    module
        .exports()
        .filter(|export| matches!(export.ty, wasm_aot::ExternType::Func(_)))
        .map(|export| export.name.escape_debug().to_string())
        .collect()
}

pub(super) fn function(
    store: &mut Store<World>,
    instance: Instance,
    module: &Module,
    name: &str,
) -> Result<Func, Error> {
    match instance.get_export(&mut *store, name) {
        Some(Extern::Func(function)) => Ok(function),
        Some(_) => Err(Error::Link(format!("\"{name}\" is exported, but it is no function"))),
        None => Err(Error::Link(match &exported_functions(module)[..] {
            [] => format!("no function \"{name}\" is exported; the module exports none"),
            all => format!("no function \"{name}\" is exported; exported are: {}", all.join(", ")),
        })),
    }
}

/// Arguments of a function, from the command line.
pub(super) fn arguments(
    store: &mut Store<World>,
    function: Func,
    args: &[OsString],
) -> Result<Vec<Val>, Error> {
    let ty = function.ty(&mut *store)?;
    if ty.params().len() != args.len() {
        return Err(Error::Type(format!(
            "the function has type {ty}, but {} arguments are given",
            args.len()
        )));
    }
    let each = args.iter().zip(ty.params());
    each.map(|(arg, ty)| {
        let text = arg.to_string_lossy();
        argument(&text, *ty).ok_or_else(|| Error::Type(format!("{text}: not a value of type {ty}")))
    })
    .collect()
}

fn argument(text: &str, ty: ValType) -> Option<Val> {
    let wide = || match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse::<u128>().ok(),
    };
    Some(match ty {
        ValType::I32 => Val::I32(
            text.parse::<i32>()
                .ok()
                .or_else(|| u32::try_from(wide()?).ok().map(|value| value as i32))?,
        ),
        ValType::I64 => Val::I64(
            text.parse::<i64>()
                .ok()
                .or_else(|| u64::try_from(wide()?).ok().map(|value| value as i64))?,
        ),
        ValType::F32 => Val::F32(text.parse::<f32>().ok()?.to_bits()),
        ValType::F64 => Val::F64(text.parse::<f64>().ok()?.to_bits()),
        ValType::V128 => Val::V128(wide()?),
        ValType::Ref(_) if text == "null" => Val::default_for(ty)?,
        ValType::Ref(_) => return None,
    })
}

pub(super) fn shown(value: &Val) -> String {
    match value {
        Val::I32(value) => value.to_string(),
        Val::I64(value) => value.to_string(),
        Val::F32(bits) => f32::from_bits(*bits).to_string(),
        Val::F64(bits) => f64::from_bits(*bits).to_string(),
        Val::V128(value) => format!("{value:#034x}"),
        Val::FuncRef(None) | Val::ExternRef(None) | Val::ExnRef(None) | Val::AnyNull => {
            "null".into()
        }
        Val::FuncRef(_) => "a function".into(),
        Val::ExternRef(_) => "a host object".into(),
        Val::ExnRef(_) => "an exception".into(),
    }
}
