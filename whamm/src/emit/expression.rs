//! Emits expressions as instructions.

use super::code::{Emitter, written};
use super::storage::{Storage, WORD, part, word};
use crate::check::DYNINSTR_MODULE;
use crate::events::Bound;
use crate::fold;
use crate::hir::{Builtin, Expr, ExprKind, Var};
use crate::syntax::ast::{BinOp, UnOp};
use crate::types::Ty;
use std::rc::Rc;
use wasm_encoder::{BlockType, ValType};

/// Whether the value can be pushed by one instruction.
fn is_at_hand(e: &Expr) -> bool {
    let named = matches!(
        e.kind,
        ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Bound(_)
            | ExprKind::Var(Var::Local(_))
    );
    named && (e.ty.is_numeric() || e.ty == Ty::Bool)
}

impl Emitter<'_> {
    /// Pushes the slots of an expression's value, after folding it.
    pub(crate) fn expr(&mut self, e: &Expr) {
        let e = self.fold(e);
        self.value(&e);
    }

    /// Pushes the slots of the value of an expression that is folded.
    pub(crate) fn value(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Int(n) => self.int(*n, &e.ty),
            ExprKind::Float(x) => self.float(*x, &e.ty),
            ExprKind::Bool(b) => {
                self.put().i32_const((*b).into());
            }
            ExprKind::Str(s) => self.text(s),
            ExprKind::Table(_) => {
                let help = "index it, as in `targets[n]` with a known n";
                self.support.refused.push((
                    e.span,
                    "the targets of a branch are no map that can be kept".into(),
                    help.into(),
                ));
                self.zero(&e.ty);
            }
            ExprKind::Bound(b) => self.bound(*b, e),
            ExprKind::Var(var) => self.load(self.storage(*var), &e.ty),
            ExprKind::Field(inner, n) => self.field(inner, *n),
            ExprKind::Index(map, key) => self.index(map, key, &e.ty),
            ExprKind::Tuple(parts) => parts.iter().for_each(|p| self.value(p)),
            ExprKind::Unary(op, a) => self.unary(*op, a),
            ExprKind::Binary(op, a, b) if op.is_logic() => self.logic(*op, a, b),
            ExprKind::Binary(op, a, b) => {
                self.value(a);
                self.value(b);
                self.operator(*op, &a.ty);
            }
            ExprKind::Cast(a) => {
                self.value(a);
                self.cast(&a.ty, &e.ty);
            }
            ExprKind::Choice(three)
                if three[1..].iter().all(is_at_hand) && !fold::calls(&three[0]) =>
            {
                for part in [1, 2, 0] {
                    self.value(&three[part]);
                }
                self.put().select();
            }
            ExprKind::Choice(three) => {
                self.value(&three[0]);
                let ty = self.block_type(&e.ty);
                self.open_if(ty);
                self.value(&three[1]);
                self.put().else_();
                self.value(&three[2]);
                self.close();
            }
            ExprKind::Call(number, args) => {
                args.iter().for_each(|a| self.value(a));
                let callee = self.support.script_function(*number, self.program);
                self.put().call(callee);
            }
            ExprKind::Builtin(builtin, args) => self.builtin(builtin, args, e),
            ExprKind::Library(call, args) => {
                let module = &self.libraries[call.library as usize].module;
                if !call.at_match && self.call_guest(call.library, &call.function, args) {
                    return;
                }
                args.iter().for_each(|a| self.value(a));
                match self.support.imported(module, &call.function) {
                    Some(callee) => {
                        self.put().call(callee);
                    }
                    None => {
                        let message =
                            format!("`{}` cannot be evaluated while compiling here", call.function);
                        self.support.refused.push((
                            e.span,
                            message,
                            "its arguments must be known when a site is matched".into(),
                        ));
                        self.put().unreachable();
                    }
                }
            }
        }
    }

    fn block_type(&mut self, ty: &Ty) -> BlockType {
        self.support.block(&ty.slots())
    }

    #[expect(clippy::cast_possible_truncation, reason = "the type says which bits count")]
    fn int(&mut self, n: i128, ty: &Ty) {
        if ty.wide() {
            written(self.put().i64_const(n as i64));
        } else {
            written(self.put().i32_const(n as i32));
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the type says which bits count")]
    fn float(&mut self, x: f64, ty: &Ty) {
        if *ty == Ty::F32 {
            written(self.put().f32_const((x as f32).into()));
        } else {
            written(self.put().f64_const(x.into()));
        }
    }

    pub(super) fn text(&mut self, s: &Rc<str>) {
        let at = if s.is_empty() { 0 } else { self.support.text(s) };
        let len = i32::try_from(s.len()).unwrap_or(i32::MAX);
        self.put().i32_const(at.cast_signed()).i32_const(len);
    }

    fn bound(&mut self, b: Bound, e: &Expr) {
        if let Some(&storage) = self.scope.bounds.get(&b) {
            return self.load(storage, &e.ty);
        }
        // The program's memories are numbered from 0 on for a monitor.
        if b == Bound::AppMemId && self.support.layout().apart {
            self.put().i32_const(0);
            return;
        }
        let message = format!("`{}` is not known here", b.name());
        let help = match b {
            Bound::ProbeId => "only the engine target (`--wei`) knows it",
            _ => "not every target and mode can provide it: see `whamm info -v`",
        };
        self.support.refused.push((e.span, message, help.into()));
        self.zero(&e.ty);
    }

    fn field(&mut self, inner: &Expr, n: u32) {
        if let ExprKind::Var(var) = &inner.kind {
            let (storage, ty) = part(self.storage(*var), &inner.ty, n);
            return self.load(storage, &ty);
        }
        let held = self.hold(inner);
        let (storage, ty) = part(held, &inner.ty, n);
        self.load(storage, &ty);
    }

    /// A value in locals.
    pub(super) fn hold(&mut self, e: &Expr) -> Storage {
        self.value(e);
        let slots = e.ty.slots();
        let first = match slots[..] {
            [one] => self.locals.take(one),
            _ => {
                let all: Vec<u32> = slots.iter().map(|&s| self.locals.keep(s)).collect();
                all.first().copied().unwrap_or(0)
            }
        };
        self.store(Storage::Locals(first), &e.ty);
        Storage::Locals(first)
    }

    fn unary(&mut self, op: UnOp, a: &Expr) {
        match (op, a.ty.slots()[0]) {
            (UnOp::Not, _) => {
                self.value(a);
                self.put().i32_eqz();
            }
            (UnOp::Flip, ValType::I64) => {
                self.value(a);
                self.put().i64_const(-1).i64_xor();
            }
            (UnOp::Flip, _) => {
                self.value(a);
                self.put().i32_const(-1).i32_xor();
                self.narrow(&a.ty);
            }
            (UnOp::Neg, ValType::F32) => {
                self.value(a);
                self.put().f32_neg();
            }
            (UnOp::Neg, ValType::F64) => {
                self.value(a);
                self.put().f64_neg();
            }
            (UnOp::Neg, ValType::I64) => {
                self.put().i64_const(0);
                self.value(a);
                self.put().i64_sub();
            }
            (UnOp::Neg, _) => {
                self.put().i32_const(0);
                self.value(a);
                self.put().i32_sub();
                self.narrow(&a.ty);
            }
        }
    }

    fn logic(&mut self, op: BinOp, a: &Expr, b: &Expr) {
        let is_and = op == BinOp::And;
        self.value(a);
        let mut reads = false;
        b.walk(&mut |e| reads |= matches!(e.kind, ExprKind::Index(..)));
        if !fold::calls(b) && !reads {
            self.value(b);
            if is_and {
                written(self.put().i32_and());
            } else {
                written(self.put().i32_or());
            }
            return;
        }
        self.open_if(BlockType::Result(ValType::I32));
        if is_and {
            self.value(b);
        } else {
            written(self.put().i32_const(1));
        }
        self.put().else_();
        if is_and {
            written(self.put().i32_const(0));
        } else {
            self.value(b);
        }
        self.close();
    }

    /// Truncates a number to a type that is narrower than its slot.
    fn narrow(&mut self, ty: &Ty) {
        match ty {
            Ty::U8 => written(self.put().i32_const(0xff).i32_and()),
            Ty::U16 => written(self.put().i32_const(0xffff).i32_and()),
            Ty::I8 => written(self.put().i32_extend8_s()),
            Ty::I16 => written(self.put().i32_extend16_s()),
            _ => {}
        }
    }

    /// Applies an operator to two values of a type.
    pub(crate) fn operator(&mut self, op: BinOp, ty: &Ty) {
        if *ty == Ty::Str {
            let eq = self.support.runtime("str_eq");
            self.put().call(eq);
            if op == BinOp::Ne {
                self.put().i32_eqz();
            }
            return;
        }
        match ty.slots()[0] {
            ValType::F32 | ValType::F64 => self.float_operator(op, *ty == Ty::F32),
            ValType::I64 => self.wide_operator(op, ty.signed()),
            _ => {
                self.int_operator(op, ty.signed());
                if !op.compares() {
                    self.narrow(ty);
                }
            }
        }
    }

    fn int_operator(&mut self, op: BinOp, signed: bool) {
        let mut put = self.put();
        match (op, signed) {
            (BinOp::Add, _) => put.i32_add(),
            (BinOp::Sub, _) => put.i32_sub(),
            (BinOp::Mul, _) => put.i32_mul(),
            (BinOp::Div, true) => put.i32_div_s(),
            (BinOp::Div, false) => put.i32_div_u(),
            (BinOp::Rem, true) => put.i32_rem_s(),
            (BinOp::Rem, false) => put.i32_rem_u(),
            (BinOp::BitAnd | BinOp::And, _) => put.i32_and(),
            (BinOp::BitOr | BinOp::Or, _) => put.i32_or(),
            (BinOp::BitXor, _) => put.i32_xor(),
            (BinOp::Shl, _) => put.i32_shl(),
            (BinOp::Shr, true) => put.i32_shr_s(),
            (BinOp::Shr, false) => put.i32_shr_u(),
            (BinOp::Eq, _) => put.i32_eq(),
            (BinOp::Ne, _) => put.i32_ne(),
            (BinOp::Ge, true) => put.i32_ge_s(),
            (BinOp::Ge, false) => put.i32_ge_u(),
            (BinOp::Gt, true) => put.i32_gt_s(),
            (BinOp::Gt, false) => put.i32_gt_u(),
            (BinOp::Le, true) => put.i32_le_s(),
            (BinOp::Le, false) => put.i32_le_u(),
            (BinOp::Lt, true) => put.i32_lt_s(),
            (BinOp::Lt, false) => put.i32_lt_u(),
        };
    }

    fn wide_operator(&mut self, op: BinOp, signed: bool) {
        let mut put = self.put();
        match (op, signed) {
            (BinOp::Add, _) => put.i64_add(),
            (BinOp::Sub, _) => put.i64_sub(),
            (BinOp::Mul, _) => put.i64_mul(),
            (BinOp::Div, true) => put.i64_div_s(),
            (BinOp::Div, false) => put.i64_div_u(),
            (BinOp::Rem, true) => put.i64_rem_s(),
            (BinOp::Rem, false) => put.i64_rem_u(),
            (BinOp::BitAnd | BinOp::And, _) => put.i64_and(),
            (BinOp::BitOr | BinOp::Or, _) => put.i64_or(),
            (BinOp::BitXor, _) => put.i64_xor(),
            (BinOp::Shl, _) => put.i64_shl(),
            (BinOp::Shr, true) => put.i64_shr_s(),
            (BinOp::Shr, false) => put.i64_shr_u(),
            (BinOp::Eq, _) => put.i64_eq(),
            (BinOp::Ne, _) => put.i64_ne(),
            (BinOp::Ge, true) => put.i64_ge_s(),
            (BinOp::Ge, false) => put.i64_ge_u(),
            (BinOp::Gt, true) => put.i64_gt_s(),
            (BinOp::Gt, false) => put.i64_gt_u(),
            (BinOp::Le, true) => put.i64_le_s(),
            (BinOp::Le, false) => put.i64_le_u(),
            (BinOp::Lt, true) => put.i64_lt_s(),
            (BinOp::Lt, false) => put.i64_lt_u(),
        };
    }

    fn float_operator(&mut self, op: BinOp, short: bool) {
        if op == BinOp::Rem {
            return self.float_rest(short);
        }
        let mut put = self.put();
        match (op, short) {
            (BinOp::Add, true) => put.f32_add(),
            (BinOp::Sub, true) => put.f32_sub(),
            (BinOp::Mul, true) => put.f32_mul(),
            (BinOp::Div, true) => put.f32_div(),
            (BinOp::Eq, true) => put.f32_eq(),
            (BinOp::Ne, true) => put.f32_ne(),
            (BinOp::Ge, true) => put.f32_ge(),
            (BinOp::Gt, true) => put.f32_gt(),
            (BinOp::Le, true) => put.f32_le(),
            (_, true) => put.f32_lt(),
            (BinOp::Add, false) => put.f64_add(),
            (BinOp::Sub, false) => put.f64_sub(),
            (BinOp::Mul, false) => put.f64_mul(),
            (BinOp::Div, false) => put.f64_div(),
            (BinOp::Eq, false) => put.f64_eq(),
            (BinOp::Ne, false) => put.f64_ne(),
            (BinOp::Ge, false) => put.f64_ge(),
            (BinOp::Gt, false) => put.f64_gt(),
            (BinOp::Le, false) => put.f64_le(),
            (_, false) => put.f64_lt(),
        };
    }

    /// The remainder of a floating-point division: a - trunc(a / b) * b, with the sign of a.
    fn float_rest(&mut self, short: bool) {
        let slot = if short { ValType::F32 } else { ValType::F64 };
        let (a, b) = (self.locals.take(slot), self.locals.take(slot));
        self.put().local_set(b).local_tee(a).local_get(a).local_get(b);
        if short {
            self.put()
                .f32_div()
                .f32_trunc()
                .local_get(b)
                .f32_mul()
                .f32_sub()
                .local_get(a)
                .f32_copysign();
        } else {
            self.put()
                .f64_div()
                .f64_trunc()
                .local_get(b)
                .f64_mul()
                .f64_sub()
                .local_get(a)
                .f64_copysign();
        }
    }

    pub(super) fn cast(&mut self, from: &Ty, to: &Ty) {
        let signed = from.signed();
        let target = to.slots()[0];
        if *to == Ty::Bool {
            match from.slots()[0] {
                ValType::I64 => written(self.put().i64_const(0).i64_ne()),
                ValType::F32 => written(self.put().f32_const(0.0.into()).f32_ne()),
                ValType::F64 => written(self.put().f64_const(0.0.into()).f64_ne()),
                _ => written(self.put().i32_const(0).i32_ne()),
            };
            return;
        }
        let mut put = self.put();
        match (from.slots()[0], target) {
            (ValType::I32, ValType::I64) if signed => written(put.i64_extend_i32_s()),
            (ValType::I32, ValType::I64) => written(put.i64_extend_i32_u()),
            (ValType::I64, ValType::I32) => written(put.i32_wrap_i64()),
            (ValType::I32, ValType::F32) => {
                written(if signed { put.f32_convert_i32_s() } else { put.f32_convert_i32_u() });
            }
            (ValType::I32, ValType::F64) => {
                written(if signed { put.f64_convert_i32_s() } else { put.f64_convert_i32_u() });
            }
            (ValType::I64, ValType::F32) => {
                written(if signed { put.f32_convert_i64_s() } else { put.f32_convert_i64_u() });
            }
            (ValType::I64, ValType::F64) => {
                written(if signed { put.f64_convert_i64_s() } else { put.f64_convert_i64_u() });
            }
            (ValType::F32, ValType::F64) => written(put.f64_promote_f32()),
            (ValType::F64, ValType::F32) => written(put.f32_demote_f64()),
            (ValType::F32, ValType::I32) => {
                written(if to.signed() {
                    put.i32_trunc_sat_f32_s()
                } else {
                    put.i32_trunc_sat_f32_u()
                });
            }
            (ValType::F32, ValType::I64) => {
                written(if to.signed() {
                    put.i64_trunc_sat_f32_s()
                } else {
                    put.i64_trunc_sat_f32_u()
                });
            }
            (ValType::F64, ValType::I32) => {
                written(if to.signed() {
                    put.i32_trunc_sat_f64_s()
                } else {
                    put.i32_trunc_sat_f64_u()
                });
            }
            (ValType::F64, ValType::I64) => {
                written(if to.signed() {
                    put.i64_trunc_sat_f64_s()
                } else {
                    put.i64_trunc_sat_f64_u()
                });
            }
            _ => {}
        }
        if target == ValType::I32 && from.bits() != to.bits() {
            self.narrow(to);
        }
    }

    /// Pushes a map, and stores a key where the run-time support reads it. The map comes first:
    /// computing it may need another key.
    pub(super) fn search(&mut self, map: &Expr, key: &Expr) {
        self.value(map);
        let handle = self.locals.take(ValType::I32);
        self.put().local_set(handle);
        self.key(key);
        self.put().local_get(handle);
    }

    /// Stores a key where the run-time support reads it.
    fn key(&mut self, key: &Expr) {
        let memory = self.memory();
        let held = self.hold(&self.fold(key));
        let Storage::Locals(first) = held else { return };
        let texts = text_slots(&key.ty);
        for (i, slot) in (0u32..).zip(key.ty.slots()) {
            self.put().i32_const(0).local_get(first + i);
            match slot {
                _ if texts.contains(&i) => {
                    let intern = self.support.runtime("intern");
                    self.put().local_get(first + i + 1).call(intern).i64_extend_i32_u();
                }
                ValType::I64 => {}
                ValType::F32 => written(self.put().i32_reinterpret_f32().i64_extend_i32_u()),
                ValType::F64 => written(self.put().i64_reinterpret_f64()),
                _ => written(self.put().i64_extend_i32_u()),
            }
            self.put().i64_store(word(16 + i * WORD, memory));
        }
    }

    fn index(&mut self, map: &Expr, key: &Expr, ty: &Ty) {
        if let ExprKind::Table(values) = &map.kind {
            return self.table(values, key);
        }
        if let Some(pair) = self.support.core_pair(&map.ty) {
            return self.core_index(map, key, pair);
        }
        self.search(map, key);
        let at = self.locals.take(ValType::I32);
        if matches!(ty, Ty::Map(_)) {
            let get = self.support.runtime("map_get");
            self.put().call(get).local_set(at);
            return self.load(Storage::Memory(Some(at), 0), ty);
        }
        let find = self.support.runtime("map_find");
        self.put().call(find).local_tee(at);
        let block = self.block_type(ty);
        self.open_if(block);
        self.load(Storage::Memory(Some(at), 0), ty);
        self.put().else_();
        self.zero(ty);
        self.close();
    }

    /// Pushes the element of a constant list at an index that is not constant, or 0.
    fn table(&mut self, values: &[u32], key: &Expr) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (at, memory, index) =
            (self.support.bytes(&bytes, 4), self.memory(), self.locals.take(ValType::I32));
        let len = i32::try_from(values.len()).unwrap_or(i32::MAX);
        self.value(key);
        self.put().local_tee(index).i32_const(len).i32_lt_u().if_(BlockType::Result(ValType::I32));
        self.put()
            .local_get(index)
            .i32_const(2)
            .i32_shl()
            .i32_load(word(at, memory))
            .else_()
            .i32_const(0)
            .end();
    }

    fn builtin(&mut self, builtin: &Builtin, args: &[Expr], e: &Expr) {
        match builtin {
            Builtin::StrCmp => self.support_call("str_eq", args),
            Builtin::StrContains | Builtin::Contains => self.support_call("str_contains", args),
            Builtin::StartsWith => self.support_call("str_starts", args),
            Builtin::EndsWith => self.support_call("str_ends", args),
            Builtin::StrAddr => {
                self.value(&args[0]);
                self.put().drop();
            }
            Builtin::StrLen => {
                let held = self.hold(&args[0]);
                if let Storage::Locals(first) = held {
                    self.put().local_get(first + 1);
                }
            }
            Builtin::StrNumber => {
                args.iter().for_each(|e| self.value(e));
                let number = self.support.runtime("str_number");
                self.put().call(number);
            }
            Builtin::MemId(library) => {
                let memory = self.library_memory(*library);
                self.put().i32_const(memory.unwrap_or(0).cast_signed());
            }
            Builtin::MapContains => {
                self.search(&args[0], &args[1]);
                let find = self.support.runtime("map_find");
                self.put().call(find).i32_const(0).i32_ne();
            }
            Builtin::MapDelete => {
                self.search(&args[0], &args[1]);
                let delete = self.support.runtime("map_delete");
                self.put().call(delete);
            }
            Builtin::MapSize => {
                self.value(&args[0]);
                let arg = word(0, self.memory());
                self.put().i32_load(arg);
            }
            Builtin::Print(pieces) => self.print(pieces, args),
            Builtin::PutC | Builtin::PutS | Builtin::MemAlloc | Builtin::MemFree
                if self.has_core() =>
            {
                args.iter().for_each(|a| self.value(a));
                self.core_call(match builtin {
                    Builtin::PutC => "putc",
                    Builtin::PutS => "puts",
                    Builtin::MemAlloc => "mem_alloc",
                    _ => "mem_free",
                });
            }
            Builtin::PutS => {
                self.support_call("puts", args);
                self.flush();
            }
            Builtin::PutC => {
                self.support_call("putc", args);
                self.flush();
            }
            Builtin::PrintMapCsv(number) => self.print_map_as_csv(*number, &args[0]),
            Builtin::PrintMap => {
                match self.support.core_pair(&args[0].ty) {
                    Some(_) => self.support_call("core_map", args),
                    None => self.support_call("put_map", args),
                }
                self.put().i32_const(10);
                let putc = self.support.runtime("putc");
                self.put().call(putc);
                self.flush();
            }
            Builtin::MemAlloc => self.support_call("alloc", args),
            Builtin::MemFree => {
                self.value(&args[0]);
                self.put().drop();
            }
            Builtin::RemoveProbe => self.remove_probe(&args[0], e),
            Builtin::Event(function) => self.event_function(*function, args, e.span),
            Builtin::MemCpy
            | Builtin::MemSize
            | Builtin::PageSize
            | Builtin::ActiveDataStart
            | Builtin::ActiveDataLen
            | Builtin::WriteStr
            | Builtin::ReadStr => self.memories(builtin, args, e),
        }
    }

    fn remove_probe(&mut self, probe: &Expr, e: &Expr) {
        let Some(callee) = self.support.imported(DYNINSTR_MODULE, "remove_probe") else {
            let help = "in a program a probe takes away itself: write `remove_probe(probe_id)` in its own body";
            self.support.refused.push((
                e.span,
                "this probe cannot be taken away here".into(),
                help.into(),
            ));
            return;
        };
        self.value(probe);
        self.put().call(callee);
    }

    fn support_call(&mut self, name: &str, args: &[Expr]) {
        args.iter().for_each(|a| self.value(a));
        let callee = self.support.runtime(name);
        self.put().call(callee);
    }

    /// Flushes the output, so that it appears in order with the program's own output.
    pub(super) fn flush(&mut self) {
        let flush = self.support.runtime("flush");
        self.put().call(flush);
    }
}

/// Which slots of a type are the addresses of texts.
fn text_slots(ty: &Ty) -> Vec<u32> {
    match ty {
        Ty::Str => vec![0],
        Ty::Tuple(parts) => {
            let (mut list, mut at) = (Vec::new(), 0);
            for part in parts.iter() {
                list.extend(text_slots(part).into_iter().map(|n| n + at));
                at += u32::try_from(part.slots().len()).unwrap_or(0);
            }
            list
        }
        _ => Vec::new(),
    }
}
