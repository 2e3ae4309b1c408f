//! The probes of a program, by their events, and the values that they read there.

use crate::events::{Bound, Event, Instruction, instructions};
use crate::hir::{Builtin, ExprKind, Probe, Program};

/// The probes of a program.
pub(crate) struct Probes<'a> {
    by_instruction: Vec<Vec<&'a Probe>>,
    /// Whether probes of an instruction may read operands or results.
    asking: Vec<bool>,
    structural: Vec<&'a Probe>,
    /// Whether a probe reads which function an entry of a table holds.
    pub(crate) ask_functions: bool,
    /// Whether a probe tests if an instruction is about to trap.
    pub(crate) ask_traps: bool,
}

impl<'a> Probes<'a> {
    pub(crate) fn of(program: &'a Program) -> Self {
        let mut by_instruction: Vec<Vec<&Probe>> = vec![Vec::new(); instructions().len()];
        let mut structural = Vec::new();
        for probe in &program.probes {
            match probe.matched.event {
                Event::Opcode(op) => by_instruction[op.index].push(probe),
                _ => structural.push(probe),
            }
        }
        let asking = by_instruction.iter().map(|all| all.iter().any(|p| asks_operands(p)));
        let (asking, mut ask_functions, mut ask_traps) = (asking.collect(), false, false);
        super::each_expr(program, &mut |e| {
            ask_traps |= matches!(e.kind, ExprKind::Bound(Bound::Trap));
            ask_functions |= matches!(e.kind, ExprKind::Bound(Bound::ResolvedFid | Bound::Trap));
        });
        Self { by_instruction, asking, structural, ask_functions, ask_traps }
    }

    /// Those of an instruction.
    pub(crate) fn at(&self, instruction: &Instruction) -> &[&'a Probe] {
        &self.by_instruction[instruction.index]
    }

    /// Those of an event that is not an instruction.
    pub(crate) fn of_event(&self, event: Event) -> Vec<&'a Probe> {
        self.structural.iter().copied().filter(|p| p.matched.event == event).collect()
    }

    /// Whether those of an instruction may read its operands or results.
    pub(crate) fn ask_operands(&self, instruction: &Instruction) -> bool {
        self.asking[instruction.index]
    }
}

/// Whether a probe reads operands, changes them, or replaces the instruction.
fn asks_operands(probe: &Probe) -> bool {
    let body = &probe.body;
    let mut asks = !body.bounds.is_empty()
        || !body.assigned.is_empty()
        || probe.matched.mode.name().contains("alt");
    body.walk(&mut |e| {
        asks |= matches!(e.kind, ExprKind::Builtin(Builtin::Event(_), _));
        asks |= matches!(e.kind, ExprKind::Bound(b) if !b.is_static());
    });
    asks
}
