//! The module `spectest`, which scripts import.

use crate::{
    Engine, Error, Global, GlobalType, Linker, Memory, MemoryType, RefType, Store, Table,
    TableType, Val, ValType,
};

pub(super) fn spectest(engine: &Engine, store: &mut Store<()>) -> Result<Linker<()>, Error> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    linker.func_wrap("spectest", "print", || ())?;
    linker.func_wrap("spectest", "print_i32", |_: i32| ())?;
    linker.func_wrap("spectest", "print_i64", |_: i64| ())?;
    linker.func_wrap("spectest", "print_f32", |_: f32| ())?;
    linker.func_wrap("spectest", "print_f64", |_: f64| ())?;
    linker.func_wrap("spectest", "print_i32_f32", |_: i32, _: f32| ())?;
    linker.func_wrap("spectest", "print_f64_f64", |_: f64, _: f64| ())?;
    for (name, content, value) in [
        ("global_i32", ValType::I32, Val::I32(666)),
        ("global_i64", ValType::I64, Val::I64(666)),
        ("global_f32", ValType::F32, Val::F32(666.6f32.to_bits())),
        ("global_f64", ValType::F64, Val::F64(666.6f64.to_bits())),
    ] {
        let global = Global::new(&mut *store, GlobalType { content, mutable: false }, value)?;
        linker.define("spectest", name, global)?;
    }
    for (name, wide) in [("table", false), ("table64", true)] {
        let ty = TableType { element: RefType::FUNCREF, minimum: 10, maximum: Some(20), wide };
        let table = Table::new(&mut *store, ty, Val::FuncRef(None))?;
        linker.define("spectest", name, table)?;
    }
    for (name, shared) in [("memory", false), ("shared_memory", true)] {
        let memory = Memory::new(
            &mut *store,
            MemoryType { minimum: 1, maximum: Some(2), wide: false, shared },
        )?;
        linker.define("spectest", name, memory)?;
    }
    Ok(linker)
}
