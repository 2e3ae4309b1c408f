//! Value numbering: which values on the stack and in locals are the same, as far as that is easily
//! seen. The same computation of the same values gets the same number (Alpern, Wegman and Zadeck,
//! POPL 1988). A value is a number plus a constant, so that adjacent addresses are recognised.
//!
//! Known bounds of addresses are recorded with them: memories do not shrink, so an access that was
//! inside once stays inside, and so does an adjacent one if the checked range includes it. A fact
//! holds where control has passed: to the end of the block in which it was found.
//!
//! Locals are unknown after a block that sets them, and in a loop that sets them; so are values on
//! the stack across the borders of blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use wasm_aot_body::events;
use wasmparser::Operator;
use whamm_rewrite::Instruction;

/// A value: its number, and the constant that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    number: u32,
    plus: u64,
}

/// The number of zero, so that constants are values like others.
const ZERO: u32 = 0;

impl Value {
    pub(crate) fn number(self) -> u32 {
        self.number
    }

    pub(crate) fn plus(self) -> u64 {
        self.plus
    }

    pub(crate) fn constant(self) -> Option<u64> {
        (self.number == ZERO).then_some(self.plus)
    }
}

/// A number of bytes from an address on that are inside a memory.
#[derive(Clone, Copy, Debug)]
struct Found {
    plus: u64,
    bytes: u64,
}

/// A block that is open.
#[derive(Debug)]
struct Block {
    is_loop: bool,
    sets: BTreeSet<u32>,
    /// The number of facts at its beginning.
    known: usize,
}

/// The facts at the current place of a function's code.
#[derive(Debug)]
pub(crate) struct Values {
    stack: Vec<Value>,
    locals: BTreeMap<u32, Value>,
    /// Numbers of computed values, by instruction and operands.
    computed: HashMap<(u32, [Option<Value>; 3]), u32>,
    next: u32,
    blocks: Vec<Block>,
    /// Ranges inside each memory, by the address's number; and the order in which they were found.
    inside: HashMap<(u32, u32), Vec<Found>>,
    order: Vec<(u32, u32)>,
    /// The locals that each block sets, by the number of the instruction that begins it.
    sets: BTreeMap<usize, BTreeSet<u32>>,
    at: usize,
}

/// The locals that each block sets.
fn sets(all: &[Instruction<'_>]) -> BTreeMap<usize, BTreeSet<u32>> {
    let (mut sets, mut open) = (BTreeMap::new(), Vec::<(usize, BTreeSet<u32>)>::new());
    for (at, instruction) in all.iter().enumerate() {
        match instruction.operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => open.push((at, BTreeSet::new())),
            Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                if let Some((_, set)) = open.last_mut() {
                    set.insert(local_index);
                }
            }
            Operator::End | Operator::Delegate { .. } => {
                let Some((begin, set)) = open.pop() else { continue };
                if let Some((_, outer)) = open.last_mut() {
                    outer.extend(&set);
                }
                sets.insert(begin, set);
            }
            _ => {}
        }
    }
    sets
}

impl Values {
    /// The facts at the beginning of a function.
    pub(crate) fn of(all: &[Instruction<'_>]) -> Self {
        Self {
            stack: Vec::new(),
            locals: BTreeMap::new(),
            computed: HashMap::new(),
            next: ZERO + 1,
            blocks: Vec::new(),
            inside: HashMap::new(),
            order: Vec::new(),
            sets: sets(all),
            at: 0,
        }
    }

    fn fresh(&mut self) -> Value {
        self.next += 1;
        Value { number: self.next - 1, plus: 0 }
    }

    fn pop(&mut self) -> Value {
        self.stack.pop().unwrap_or_else(|| self.fresh())
    }

    /// The value below a number of others on the stack, if it is known.
    pub(crate) fn below(&self, others: usize) -> Option<Value> {
        let at = self.stack.len().checked_sub(others + 1)?;
        Some(self.stack[at])
    }

    /// Whether a number of bytes from an address on are known to be inside a memory.
    pub(crate) fn is_inside(&self, memory: u32, address: Value, bytes: u64) -> bool {
        let Some(all) = self.inside.get(&(memory, address.number)) else { return false };
        all.iter().any(|found| {
            // An address after one that is inside does not wrap.
            let behind = address.plus.checked_sub(found.plus);
            let end = behind.and_then(|behind| behind.checked_add(bytes));
            end.is_some_and(|end| end <= found.bytes)
        })
    }

    /// Records that a number of bytes from an address on are inside a memory.
    pub(crate) fn are_inside(&mut self, memory: u32, address: Value, bytes: u64) {
        let key = (memory, address.number);
        self.inside.entry(key).or_default().push(Found { plus: address.plus, bytes });
        self.order.push(key);
    }

    /// Forgets facts that were found since.
    fn forget(&mut self, known: usize) {
        for key in self.order.drain(known..) {
            if let Some(all) = self.inside.get_mut(&key) {
                all.pop();
            }
        }
    }

    /// Advances past an instruction.
    pub(crate) fn pass(&mut self, operator: &Operator<'_>, bytes: &[u8]) {
        let at = self.at;
        self.at += 1;
        match operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => {
                let sets = self.sets.remove(&at).unwrap_or_default();
                let is_loop = matches!(operator, Operator::Loop { .. });
                if is_loop {
                    self.locals.retain(|local, _| !sets.contains(local));
                }
                self.stack.clear();
                self.blocks.push(Block { is_loop, sets, known: self.order.len() });
            }
            Operator::Else | Operator::Catch { .. } | Operator::CatchAll => {
                let Some(Block { sets, known, .. }) = self.blocks.last() else { return };
                self.locals.retain(|local, _| !sets.contains(local));
                let known = *known;
                self.forget(known);
                self.stack.clear();
            }
            Operator::End | Operator::Delegate { .. } => {
                self.stack.clear();
                // Control reaches the end of a loop only through its body.
                let Some(block) = self.blocks.pop().filter(|block| !block.is_loop) else { return };
                self.locals.retain(|local, _| !block.sets.contains(local));
                self.forget(block.known);
            }
            Operator::LocalGet { local_index } => {
                let value = match self.locals.get(local_index) {
                    Some(value) => *value,
                    None => self.fresh(),
                };
                self.locals.insert(*local_index, value);
                self.stack.push(value);
            }
            Operator::LocalSet { local_index } => {
                let value = self.pop();
                self.locals.insert(*local_index, value);
            }
            Operator::LocalTee { local_index } => {
                let value = self.pop();
                self.locals.insert(*local_index, value);
                self.stack.push(value);
            }
            Operator::I32Const { value } => {
                self.stack.push(Value { number: ZERO, plus: value.cast_unsigned().into() });
            }
            Operator::I64Const { value } => {
                self.stack.push(Value { number: ZERO, plus: value.cast_unsigned() });
            }
            Operator::Drop => {
                self.pop();
            }
            Operator::Select => {
                (0..3).for_each(|_| _ = self.pop());
                let value = self.fresh();
                self.stack.push(value);
            }
            Operator::I32Add => {
                let (second, first) = (self.pop(), self.pop());
                let plus = (first.plus as u32).wrapping_add(second.plus as u32);
                let sum = self.sum(0x6a, first.number, second.number);
                self.stack.push(Value { number: sum, plus: plus.into() });
            }
            Operator::I64Add => {
                let (second, first) = (self.pop(), self.pop());
                let sum = self.sum(0x7c, first.number, second.number);
                self.stack.push(Value { number: sum, plus: first.plus.wrapping_add(second.plus) });
            }
            _ => self.compute(bytes),
        }
    }

    /// The number of a sum.
    fn sum(&mut self, code: u32, first: u32, second: u32) -> u32 {
        let (least, most) = (first.min(second), first.max(second));
        if least == ZERO {
            return most;
        }
        let operand = |number| Some(Value { number, plus: 0 });
        self.number((code, [operand(least), operand(most), None]))
    }

    fn number(&mut self, of: (u32, [Option<Value>; 3])) -> u32 {
        let next = self.next;
        let number = *self.computed.entry(of).or_insert(next);
        self.next += u32::from(number == next);
        number
    }

    /// Numbers the result of any other instruction.
    fn compute(&mut self, bytes: &[u8]) {
        let found = events::code_of(bytes).and_then(events::by_code);
        let Some((found, (takes, gives))) = found.and_then(|it| Some((it, it.operands()?))) else {
            return self.stack.clear();
        };
        let mut operands = [None; 3];
        for at in (0..takes).rev() {
            let value = self.pop();
            if let Some(operand) = operands.get_mut(at) {
                *operand = Some(value);
            }
        }
        // Equal integers have equal results; the result of a float operation may be any NaN.
        let is_pure =
            matches!(found.code, 0x45..=0x5a | 0x67..=0x8a | 0xa7 | 0xac | 0xad | 0xc0..=0xc4);
        for _ in 0..gives {
            let value = match is_pure {
                true => Value { number: self.number((found.code, operands)), plus: 0 },
                false => self.fresh(),
            };
            self.stack.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes the code of a function with four parameters, and calls `at_nop` at each `nop`, in
    /// order.
    fn ask(code: &str, mut at_nop: impl FnMut(usize, &mut Values)) {
        let text = format!(
            "(module (memory 1) (func $f) (func (param i32 i32 i64 i64) (local i32) {code}))"
        );
        let module = wat::parse_str(text).expect("a module");
        let program = whamm_rewrite::Program::decode(&module).expect("a module");
        let all = program.bodies[1].instructions().expect("instructions");
        let mut values = Values::of(&all);
        let mut asked = 0;
        for instruction in &all {
            if matches!(instruction.operator, Operator::Nop) {
                at_nop(asked, &mut values);
                asked += 1;
            }
            let place = instruction.place.start as usize..instruction.place.end as usize;
            values.pass(&instruction.operator, &module[place]);
        }
        assert!(asked > 0);
    }

    /// The values on top of the stack at each `nop`.
    fn on_top(code: &str) -> Vec<Value> {
        let mut found = Vec::new();
        ask(code, |_, values| found.push(values.below(0).expect("one is known")));
        found
    }

    #[test]
    fn the_same_sums_have_the_same_number_in_any_order() {
        let all = on_top(
            "local.get 0 local.get 1 i32.add i32.const 8 i32.add nop drop
             local.get 1 i32.const 16 i32.add local.get 0 i32.add nop drop
             local.get 2 local.get 3 i64.mul nop drop local.get 2 local.get 3 i64.mul nop drop
             local.get 3 local.get 2 i64.sub nop drop i32.const 5 nop drop
             i32.const 5 i32.const -7 i32.add nop drop",
        );
        assert_eq!((all[0].number, all[0].plus, all[1].plus), (all[1].number, 8, 16));
        assert_eq!(all[2], all[3]);
        assert_ne!(all[3].number, all[4].number);
        assert_eq!(all[5].constant(), Some(5));
        assert_eq!(all[6].constant(), Some(0xffff_fffe));
        assert_eq!(all[0].constant(), None);
    }

    #[test]
    fn what_a_block_or_a_round_of_a_loop_sets_is_another_value_behind() {
        for (code, is_same) in [
            ("call $f", true),
            ("block local.get 1 local.set 4 end", true),
            ("block local.get 1 local.set 0 end", false),
            ("local.get 1 if local.get 1 local.set 0 else local.get 0 nop drop end", false),
            ("local.get 1 if else local.get 1 local.set 0 end", false),
            ("loop local.get 0 nop drop local.get 1 local.set 4 end", true),
            ("loop local.get 0 nop drop local.get 1 local.set 0 end", false),
            ("loop loop local.get 1 local.set 0 end local.get 0 nop drop end", false),
        ] {
            let all = on_top(&format!("local.get 0 nop drop {code} local.get 0 nop drop"));
            assert_eq!(all[0] == all[1], is_same, "{code}: {all:?}");
        }
    }

    #[test]
    fn what_was_found_reaches_so_far_and_to_the_end_of_its_block() {
        let code = "block local.get 0 nop drop local.get 0 i32.const 100 i32.add nop drop
            local.get 0 i32.const -4 i32.add nop drop local.get 1 if else local.get 0 nop drop end
            end local.get 0 nop drop loop local.get 1 nop drop end local.get 1 nop drop";
        let mut all = Vec::new();
        ask(code, |at, values| {
            let address = values.below(0).expect("one is known");
            if at == 0 || at == 5 {
                values.are_inside(0, address, 1024);
            }
            all.push([924, 925].map(|bytes| values.is_inside(0, address, bytes)));
            assert!(!values.is_inside(1, address, 1), "another memory");
        });
        let (whole, part, none) = ([true; 2], [true, false], [false; 2]);
        // After the block nothing is known; after the loop, the facts of its iteration.
        assert_eq!(all, [whole, part, none, whole, none, whole, whole]);
    }
}
