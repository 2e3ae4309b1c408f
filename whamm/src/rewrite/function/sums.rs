//! Sums: what probes add to a counter at every site of a stretch is added once, at its end.

use super::*;

impl<'a> Walker<'_, 'a> {
    /// What a body adds to what, if that is all it does.
    pub(super) fn sums(
        &self,
        body: &'a crate::hir::Body,
        site: &Site<'_>,
        values: &[Option<Expr>],
    ) -> Option<Vec<(Addend<'a>, i64)>> {
        if body.stmts.is_empty() || !body.locals.is_empty() || !body.inits.is_empty() {
            return None;
        }
        let mut list: Vec<(Addend<'a>, i64)> = Vec::new();
        for stmt in &body.stmts {
            let (place, amount) = tally::addition(stmt)?;
            let addend = match place {
                Place::Var(Var::Site(n), ty) => {
                    let begins = values.get(*n as usize)?.as_ref().is_none_or(|v| v.kind == ExprKind::Int(0));
                    let once = !list.iter().any(|l| matches!(l.0, Addend::Site(m, _) if m == *n));
                    (begins && once).then_some(Addend::Site(*n, ty))?
                }
                Place::Var(Var::Global(n), ty) if self.r.added_only.contains(n) => Addend::Global(*n, ty),
                Place::Element(map, key) => {
                    let ExprKind::Var(Var::Global(n)) = map.kind else { return None };
                    let key = fold::fold((**key).clone(), site);
                    let (ExprKind::Int(k), true) = (&key.kind, self.r.added_only.contains(&n)) else { return None };
                    Addend::Element(n, i64::try_from(*k).ok()?, map, place.ty())
                }
                _ => return None,
            };
            list.push((addend, amount));
        }
        let all_used = (0..body.sites.len()).all(|n| list.iter().any(|l| matches!(l.0, Addend::Site(m, _) if m as usize == n)));
        all_used.then_some(list)
    }

    /// Adds to the current stretch.
    pub(super) fn sum_up(&mut self, probe: &Probe, pc: u32, sums: Vec<(Addend<'a>, i64)>) {
        let at = self.out.len();
        let mut stretch = self.stretch.take().unwrap_or_else(|| Stretch::new(at));
        for (addend, amount) in sums {
            match addend {
                Addend::Site(n, ty) => {
                    let slot = ty.slots()[0];
                    let global = stretch.counter(amount, slot == ValType::I64, || self.r.support.global(slot, 0));
                    let variable = &probe.body.sites[n as usize];
                    if variable.report {
                        self.r.rows.add(
                            &mut self.r.support,
                            variable,
                            Some(probe),
                            (self.fid, pc),
                            &[Source::Global(global, slot)],
                        );
                    }
                }
                Addend::Global(n, ty) => {
                    if let Storage::Globals(global) = self.r.globals[n as usize] {
                        stretch.add((global, tally::is_wide(ty)), amount);
                    }
                }
                Addend::Element(n, key, map, ty) => {
                    let (slot, support) = (ty.slots()[0], &mut self.r.support);
                    let wide = slot == ValType::I64;
                    let entry = self.r.elements.entry((n, key)).or_insert_with(|| (map.clone(), support.global(slot, 0), wide));
                    stretch.add((entry.1, wide), amount);
                }
            }
        }
        self.stretch = Some(stretch);
    }

    /// Ends a stretch: its runs are counted, and what they add is noted for the report.
    pub(super) fn end_stretch(&mut self) {
        let Some(mut stretch) = self.stretch.take() else { return };
        let sums = std::mem::take(&mut stretch.sums);
        if !sums.is_empty() {
            let wide = sums.keys().any(|s| s.1);
            let slot = if wide { ValType::I64 } else { ValType::I32 };
            let runs = (stretch.counter(1, wide, || self.r.support.global(slot, 0)), wide);
            for (sum, amount) in sums {
                self.r.parts.entry(sum).or_default().push(Part { runs, amount });
            }
        }
        self.inserts.push((stretch.at, stretch.code()));
    }
}
