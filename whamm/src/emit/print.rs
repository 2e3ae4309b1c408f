//! Printing: texts with values between them, and maps row by row.

use super::code::Emitter;
use super::core::printer;
use super::storage::{Storage, part, word};
use crate::hir::Expr;
use crate::types::Ty;
use std::rc::Rc;
use wasm_encoder::{BlockType, ValType};

impl Emitter<'_> {
    pub(super) fn print(&mut self, pieces: &[(Rc<str>, bool)], args: &[Expr]) {
        for (i, (text, hex)) in pieces.iter().enumerate() {
            if !text.is_empty() {
                self.text(text);
                let puts = self.support.runtime("puts");
                self.put().call(puts);
            }
            if let Some(name) =
                args.get(i).filter(|_| !hex && self.has_core()).and_then(|a| printer(&a.ty))
            {
                self.flush();
                self.value(&args[i]);
                self.core_call(&name);
            } else if let Some(arg) = args.get(i) {
                let held = self.hold(arg);
                self.print_value(held, &arg.ty, *hex);
            }
        }
        self.flush();
    }

    fn print_value(&mut self, held: Storage, ty: &Ty, hex: bool) {
        if let Ty::Tuple(parts) = ty {
            let putc = self.support.runtime("putc");
            for n in 0..u32::try_from(parts.len()).unwrap_or(0) {
                self.put().i32_const(if n == 0 { 40 } else { 44 }).call(putc);
                let (storage, ty) = part(held, ty, n);
                self.print_value(storage, &ty, hex);
            }
            self.put().i32_const(41).call(putc);
            return;
        }
        self.load(held, ty);
        let name = match ty {
            Ty::Str => "puts",
            Ty::Map(_) if self.support.core_pair(ty).is_some() => "core_map",
            Ty::Map(_) => "put_map",
            Ty::Bool => "put_bool",
            Ty::F32 => "put_f32",
            Ty::F64 => "put_f64",
            _ => {
                let wide = if ty.signed() && !hex { Ty::I64 } else { Ty::U64 };
                let from = if hex && !ty.wide() { Ty::U32 } else { ty.clone() };
                self.cast(&from, &wide);
                if hex && !ty.wide() {
                    self.mask_hex(ty);
                }
                if hex {
                    "put_hex"
                } else if ty.signed() {
                    "put_i64"
                } else {
                    "put_u64"
                }
            }
        };
        let callee = self.support.runtime(name);
        self.put().call(callee);
    }

    /// Limits a negative number in hexadecimal to the digits of its type.
    fn mask_hex(&mut self, ty: &Ty) {
        if let Some((bits @ (8 | 16), _)) = ty.bits() {
            self.put().i64_const((1 << bits) - 1).i64_and();
        }
    }

    /// Prints a map row by row as the core library does, which supports i32 and texts.
    pub(super) fn print_map_as_csv(&mut self, number: u32, map: &Expr) {
        if self.support.core_pair(&map.ty).is_some() {
            self.value(map);
            self.core_call("print_map_as_csv");
            return;
        }
        let Ty::Map(kv) = &map.ty else { return };
        let (key, value) = (core_name(&kv.0), core_name(&kv.1));
        let [puts, write] = ["puts", "put_map_csv"].map(|name| self.support.runtime(name));
        let (handle, size) = (self.locals.take(ValType::I32), word(0, self.memory()));
        self.value(map);
        self.put().local_set(handle);
        self.text(&format!("== map{number} CSV FLUSH ==\n").into());
        self.put().call(puts).local_get(handle).i32_load(size);
        let two = self.support.ty(&(vec![], vec![ValType::I32, ValType::I32]));
        self.open_if(BlockType::FunctionType(two));
        self.text(&format!("key ({key}), val ({value})\n").into());
        self.put().else_();
        self.text(&"empty map\n".into());
        self.close();
        self.put().call(puts).local_get(handle).call(write);
        self.flush();
    }
}

/// The core library's name for a type.
fn core_name(ty: &Ty) -> String {
    match ty {
        Ty::Tuple(parts) => {
            format!("({})", parts.iter().map(core_name).collect::<Vec<_>>().join(","))
        }
        other if other.bits().is_some_and(|b| b.0 <= 32) => "i32".into(),
        other => other.to_string(),
    }
}
