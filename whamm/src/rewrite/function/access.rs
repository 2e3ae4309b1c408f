//! The values that a probe's code may read at a site, and where they are.

use super::*;

impl<'a> Walker<'_, 'a> {
    /// Builds the scope of an action: where its values are. Emits code for values that have to be
    /// fetched.
    pub(super) fn scope(
        &mut self,
        action: &Action<'a>,
        i: usize,
        args: &[(u32, ValType)],
        results: &[(u32, ValType)],
    ) -> Scope {
        let mut bounds: HashMap<Bound, Storage> = HashMap::new();
        for (n, &(local, _)) in (0..).zip(args) {
            bounds.insert(Bound::Arg(n), Storage::Locals(local));
        }
        for (n, &(local, _)) in (0..).zip(results) {
            bounds.insert(Bound::Res(n), Storage::Locals(local));
        }
        let mut wanted = BTreeSet::new();
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Bound(b) = e.kind {
                wanted.insert(b);
            }
        });
        wanted.extend(action.probe.body.assigned.iter().copied());
        for bound in wanted {
            if let Some(storage) = self.fetch(bound, i, args) {
                bounds.insert(bound, storage);
            }
        }
        Scope {
            sites: action.sites.clone(),
            globals: self.r.globals.clone(),
            frames: self.frames.storage.clone(),
            bounds,
            running: true,
            repeated: self.is_hot(i),
            ..Scope::default()
        }
    }

    pub(super) fn fetch(
        &mut self,
        bound: Bound,
        i: usize,
        args: &[(u32, ValType)],
    ) -> Option<Storage> {
        let first = args.first().map(|a| a.0);
        match bound {
            Bound::Local(n) => Some(Storage::Locals(n.into())),
            Bound::MemoryBytes => {
                let memory = self.r.indices.memory(self.ops[i].access()?.memory);
                let local = self.locals.take(ValType::I64);
                let found = *self.r.app.memories.get(self.ops[i].access()?.memory as usize)?;
                self.put().memory_size(memory);
                if !found.wide {
                    self.put().i64_extend_i32_u();
                }
                self.put().i64_const(found.page.into()).i64_shl().local_set(local);
                Some(Storage::Locals(local))
            }
            Bound::Trap => self.trapping(i, args),
            Bound::RefTaken => self.ref_taken(i, first?),
            Bound::TargetFuncref => {
                let table = table_of(&self.ops[i].operator)?;
                let local = self.locals.take(ValType::FUNCREF);
                self.put().local_get(first?).table_get(table).local_set(local);
                Some(Storage::Locals(local))
            }
            Bound::ResolvedFid => self.resolved(i, args.first().copied()),
            _ => None,
        }
    }

    pub(super) fn ref_taken(&mut self, i: usize, operand: u32) -> Option<Storage> {
        let operator = self.ops[i].operator.clone();
        let local = self.locals.take(ValType::I32);
        self.put().local_get(operand);
        match operator {
            O::BrOnNull { .. } => {
                self.put().ref_is_null();
            }
            O::BrOnNonNull { .. } => {
                self.put().ref_is_null().i32_eqz();
            }
            O::BrOnCast { to_ref_type, .. } | O::BrOnCastFail { to_ref_type, .. } => {
                use wasm_encoder::reencode::Reencode;
                let ty = wasm_encoder::reencode::RoundtripReencoder.ref_type(to_ref_type).ok()?;
                if ty.nullable {
                    self.put().ref_test_nullable(ty.heap_type);
                } else {
                    self.put().ref_test_non_null(ty.heap_type);
                }
                if matches!(operator, O::BrOnCastFail { .. }) {
                    self.put().i32_eqz();
                }
            }
            _ => {}
        }
        self.put().local_set(local);
        Some(Storage::Locals(local))
    }
}
