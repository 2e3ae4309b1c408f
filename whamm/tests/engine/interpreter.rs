//! An interpreter of programs that runs monitors, and shares no code with the code under test.
//!
//! It supports 32-bit integers, memory, calls and control flow: enough for the programs in `apps/`
//! that it runs. It has its own parser for the names of a monitor's exports, calls helpers when a
//! function is first executed, and probes before instructions: a branch to a block lands on its
//! end, a branch to a loop on the loop.

use crate::engine::World;
use std::collections::HashMap;
use wasmi::{Extern, Instance, Store, Val};
use wasmparser::{Operator as O, Parser, Payload};

/// An instruction: its place, its decoded form, its mnemonic, and the targets of blocks.
struct Op<'a> {
    pc: i32,
    op: O<'a>,
    name: String,
    end: usize,
    other: Option<usize>,
    opener: usize,
}

struct Func<'a> {
    name: String,
    params: usize,
    results: usize,
    locals: usize,
    ops: Vec<Op<'a>>,
    blocks: Vec<(bool, bool, i32)>,
}

/// A program that can be interpreted.
pub(crate) struct Program<'a> {
    funcs: Vec<Func<'a>>,
    memory: Vec<u8>,
    entry: usize,
}

/// The events, as any monitor would have to count them.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// How often each instruction was executed: function, place.
    pub hotness: HashMap<(i32, i32), u64>,
    /// How often each mnemonic was.
    pub mix: HashMap<String, u64>,
}

fn mnemonic(op: &O<'_>) -> String {
    let debug = format!("{op:?}");
    let variant = debug.split([' ', '{', '(']).next().unwrap_or("").to_string();
    let mut words = String::new();
    for (i, c) in variant.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            words.push('_');
        }
        words.push(c.to_ascii_lowercase());
    }
    for prefix in ["i32", "i64", "local", "global", "memory"] {
        if let Some(rest) = words.strip_prefix(&format!("{prefix}_")) {
            return format!("{prefix}.{rest}");
        }
    }
    words
}

fn link(ops: &mut [Op<'_>]) {
    let mut open = Vec::new();
    for i in 0..ops.len() {
        match ops[i].op {
            O::Block { .. } | O::Loop { .. } | O::If { .. } => open.push(i),
            O::Else => {
                let opener = *open.last().expect("an else has an if");
                ops[opener].other = Some(i);
                ops[i].opener = opener;
            }
            O::End => {
                if let Some(opener) = open.pop() {
                    ops[opener].end = i;
                    ops[i].opener = opener;
                    if let Some(other) = ops[opener].other {
                        ops[other].end = i;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Reads a program.
pub(crate) fn read(bytes: &[u8]) -> Program<'_> {
    let (mut types, mut indices, mut funcs, mut names) =
        (Vec::new(), Vec::new(), Vec::new(), HashMap::new());
    let mut program = Program { funcs: vec![], memory: vec![0; 65536], entry: 0 };
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.expect("it is valid") {
            Payload::TypeSection(s) => {
                for group in s {
                    for ty in group.expect("it is valid").into_types() {
                        let f = ty.unwrap_func();
                        types.push((f.params().len(), f.results().len()));
                    }
                }
            }
            Payload::FunctionSection(s) => {
                indices.extend(s.into_iter().map(|i| i.expect("it is valid") as usize));
            }
            Payload::ExportSection(s) => {
                for export in s {
                    let export = export.expect("it is valid");
                    if matches!(export.name, "main" | "_start") {
                        program.entry = export.index as usize;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let base = body.range().start;
                let locals: u32 = body
                    .get_locals_reader()
                    .expect("valid")
                    .into_iter()
                    .map(|l| l.expect("valid").0)
                    .sum();
                let mut reader = body.get_operators_reader().expect("valid");
                let mut ops = Vec::new();
                while !reader.eof() {
                    let pc = (reader.original_position() - base) as i32;
                    let op = reader.read().expect("valid");
                    ops.push(Op {
                        pc,
                        name: mnemonic(&op),
                        op,
                        end: 0,
                        other: None,
                        opener: usize::MAX,
                    });
                }
                link(&mut ops);
                let (params, results) = types[indices[funcs.len()]];
                funcs.push(Func {
                    name: String::new(),
                    params,
                    results,
                    locals: locals as usize,
                    ops,
                    blocks: vec![],
                });
            }
            Payload::CustomSection(c) => {
                if let wasmparser::KnownCustom::Name(section) = c.as_known() {
                    for part in section.into_iter().flatten() {
                        if let wasmparser::Name::Function(map) = part {
                            names.extend(
                                map.into_iter()
                                    .flatten()
                                    .map(|n| (n.index as usize, n.name.to_string())),
                            );
                        }
                    }
                }
            }
            _ => {}
        }
    }
    for (i, f) in funcs.iter_mut().enumerate() {
        f.name = names.get(&i).cloned().unwrap_or_default();
        f.blocks = blocks(&f.ops);
    }
    program.funcs = funcs;
    program
}

/// For each instruction: whether a basic block begins, whether one ends, and the block's number of
/// instructions.
fn blocks(ops: &[Op<'_>]) -> Vec<(bool, bool, i32)> {
    let splits = |op: &O<'_>| {
        matches!(
            op,
            O::If { .. }
                | O::Else
                | O::Br { .. }
                | O::BrIf { .. }
                | O::BrTable { .. }
                | O::Return
                | O::Unreachable
        )
    };
    let mut targets = vec![false; ops.len()];
    let mut open: Vec<usize> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        let mut mark = |depth: u32| {
            let target = open.len().checked_sub(1 + depth as usize).map_or(ops.len() - 1, |n| {
                if matches!(ops[open[n]].op, O::Loop { .. }) { open[n] } else { ops[open[n]].end }
            });
            targets[target] = true;
        };
        match &op.op {
            O::Br { relative_depth } | O::BrIf { relative_depth } => mark(*relative_depth),
            O::BrTable { targets } => {
                targets.targets().flatten().chain([targets.default()]).for_each(&mut mark);
            }
            O::Block { .. } | O::Loop { .. } | O::If { .. } => open.push(i),
            O::Else => targets[op.end] = true,
            O::End => {
                open.pop();
                targets[i] |= op.opener != usize::MAX
                    && matches!(ops[op.opener].op, O::If { .. })
                    && ops[op.opener].other.is_none();
            }
            _ => {}
        }
    }
    let begins: Vec<bool> = (0..ops.len())
        .map(|i| {
            i == 0 || targets[i] || matches!(ops[i].op, O::Loop { .. }) || splits(&ops[i - 1].op)
        })
        .collect();
    let mut size = 0;
    (0..ops.len())
        .map(|i| {
            size = if begins[i] { 1 } else { size + 1 };
            (begins[i], splits(&ops[i].op) || begins.get(i + 1).copied().unwrap_or(true), size)
        })
        .collect()
}

/// A probe at a site: the function, constants that were computed when it was matched, and operands
/// to be passed.
#[derive(Clone)]
struct Probe {
    function: String,
    id: i32,
    given: Vec<Given>,
}

#[derive(Clone)]
enum Given {
    Value(Val),
    Arg(usize),
    Local(usize),
}

/// An attached monitor.
pub(crate) struct Monitor {
    store: Store<World>,
    instance: Instance,
    rules: Vec<(String, String)>,
    probes: i32,
}

impl Monitor {
    /// A monitor that has started.
    pub(crate) fn new(store: Store<World>, instance: Instance) -> Self {
        let mut rules: Vec<(String, String)> = Vec::new();
        for export in instance.exports(&store) {
            if export.name().starts_with("wasm:") && export.name() != "wasm:exit" {
                let (event, rest) =
                    export.name().split_once(' ').expect("an event is followed by a blank");
                let _ = rest;
                rules.push((event.to_string(), export.name().to_string()));
            }
        }
        Self { store, instance, rules, probes: 0 }
    }

    /// Ends the monitor.
    pub(crate) fn finish(mut self) -> Store<World> {
        if let Some(exit) = self.instance.get_func(&self.store, "wasm:exit") {
            exit.call(&mut self.store, &[], &mut []).expect("the report comes out");
        }
        self.store
    }

    fn call(&mut self, name: &str, args: &[Val]) -> Vec<Val> {
        let function = self
            .instance
            .get_func(&self.store, name)
            .unwrap_or_else(|| panic!("{name} is exported"));
        let ty = function.ty(&self.store);
        assert_eq!(ty.params().len(), args.len(), "{name} takes what its name says");
        let mut results: Vec<Val> = ty.results().iter().map(|_| Val::I32(0)).collect();
        function.call(&mut self.store, args, &mut results).expect("a probe does not trap");
        results
    }

    fn text(&mut self, text: &str, used: &mut i32) -> [Val; 2] {
        let global = |name: &str, store: &Store<World>| match self
            .instance
            .get_export(store, name)
            .and_then(Extern::into_global)
            .map(|g| g.get(store))
        {
            Some(Val::I32(n)) => n,
            _ => panic!("{name} is exported"),
        };
        let start = global("whamm_buffer:start", &self.store) + *used;
        let memory =
            self.instance.get_memory(&self.store, "whamm_buffer").expect("the buffer is exported");
        memory.write(&mut self.store, start as usize, text.as_bytes()).expect("there is room");
        *used += text.len() as i32;
        [Val::I32(start), Val::I32(text.len() as i32)]
    }

    /// Computes the arguments of a helper, and returns the helper's result.
    fn helper(&mut self, text: &str, f: &Func<'_>, fid: i32, i: usize, pc: i32) -> Val {
        let (name, params) = text.split_once('(').expect("a call has parameters");
        let (mut args, mut used) = (Vec::new(), 0);
        for param in
            params.trim_end_matches(')').split(',').map(str::trim).filter(|p| !p.is_empty())
        {
            match param {
                "fname" => args.extend(self.text(&f.name, &mut used)),
                "opname" => args.extend(self.text(&f.ops[i].name, &mut used)),
                other => args.push(constant(other, f, fid, i, pc)),
            }
        }
        self.call(name, &args).remove(0)
    }

    fn matching(&mut self, event: &str, f: &Func<'_>, fid: i32, i: usize, pc: i32) -> Vec<Probe> {
        let mut found = Vec::new();
        for (rule, export) in self.rules.clone() {
            if rule != event && !(rule == "wasm:opcode:*" && event.starts_with("wasm:opcode:")) {
                continue;
            }
            let rest = export[rule.len()..].trim();
            let (predicate, params) = match rest.strip_prefix('/') {
                Some(tail) => tail.split_once('/').expect("a predicate has an end"),
                None => ("", rest),
            };
            if !predicate.is_empty()
                && matches!(self.helper(predicate.trim(), f, fid, i, pc), Val::I32(0))
            {
                continue;
            }
            let inner = params
                .trim()
                .strip_prefix('(')
                .and_then(|p| p.strip_suffix(')'))
                .expect("parameters are enclosed");
            let mut given = Vec::new();
            for param in top_level(inner) {
                if param.starts_with('$') {
                    given.push(Given::Value(self.helper(&param, f, fid, i, pc)));
                } else if param == "probe_id" {
                    given.push(Given::Value(Val::I32(self.probes)));
                } else if let Some(n) = param.strip_prefix("arg") {
                    given.push(Given::Arg(n.parse().expect("a number")));
                } else if let Some(n) = param.strip_prefix("local") {
                    given.push(Given::Local(n.parse().expect("a number")));
                } else {
                    given.push(Given::Value(constant(&param, f, fid, i, pc)));
                }
            }
            found.push(Probe { function: export.clone(), id: self.probes, given });
            self.probes += 1;
        }
        found
    }
}

/// Splits parameters at the top level of parentheses.
fn top_level(text: &str) -> Vec<String> {
    let (mut list, mut depth, mut one) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            list.push(std::mem::take(&mut one));
        } else {
            one.push(c);
        }
    }
    list.push(one);
    list.into_iter().map(|p| p.trim().to_string()).filter(|p| !p.is_empty()).collect()
}

fn constant(name: &str, f: &Func<'_>, fid: i32, i: usize, pc: i32) -> Val {
    let op = &f.ops[i].op;
    Val::I32(match (name, op) {
        ("pc", _) => pc,
        ("fid", _) => fid,
        ("at_func_end", _) => i32::from(i + 1 == f.ops.len()),
        ("instr_count", _) => f.blocks[i].2,
        ("num_targets", O::BrTable { targets }) => targets.len() as i32,
        (
            "offset",
            O::I32Load { memarg }
            | O::I32Store { memarg }
            | O::I32Load8U { memarg }
            | O::I32Store8 { memarg },
        ) => {
            return Val::I64(memarg.offset as i64);
        }
        ("imm0", O::Call { function_index }) => *function_index as i32,
        (
            "imm0",
            O::LocalGet { local_index } | O::LocalSet { local_index } | O::LocalTee { local_index },
        ) => *local_index as i32,
        ("imm0", O::Br { relative_depth } | O::BrIf { relative_depth }) => *relative_depth as i32,
        ("imm0", O::I32Const { value }) => *value,
        (other, _) => panic!("{other} is not known at {}", f.ops[i].name),
    })
}

/// Probes of a function: at its entry, before each instruction, and at its end.
type Attached = (Vec<Probe>, Vec<Vec<Probe>>, Vec<Vec<Probe>>);

/// A run.
pub(crate) struct Run<'p, 'm> {
    program: &'p mut Program<'p>,
    monitor: Option<&'m mut Monitor>,
    attached: HashMap<usize, Attached>,
    /// The events.
    pub truth: Truth,
}

impl<'p, 'm> Run<'p, 'm> {
    /// Runs a program's `main` from its beginning to its end.
    pub(crate) fn new(program: &'p mut Program<'p>, monitor: Option<&'m mut Monitor>) -> Self {
        Self { program, monitor, attached: HashMap::new(), truth: Truth::default() }
    }

    /// Runs it.
    pub(crate) fn main(&mut self) -> Vec<i32> {
        for fid in 0..self.program.funcs.len() {
            self.attach(fid);
        }
        self.call(self.program.entry, &[])
    }

    fn attach(&mut self, fid: usize) {
        let Some(monitor) = self.monitor.as_deref_mut() else { return };
        let f = &self.program.funcs[fid];
        let n = fid as i32;
        let entry = monitor.matching("wasm:func:entry", f, n, 0, 0);
        let (mut before, mut leave) = (Vec::new(), Vec::new());
        for (i, op) in f.ops.iter().enumerate() {
            let mut list = Vec::new();
            if f.blocks[i].0 {
                list.extend(monitor.matching("wasm:block:start", f, n, i, op.pc));
            }
            if f.blocks[i].1 {
                list.extend(monitor.matching("wasm:block:end", f, n, i, op.pc));
            }
            list.extend(monitor.matching(&format!("wasm:opcode:{}", op.name), f, n, i, op.pc));
            before.push(list);
            let ends = matches!(op.op, O::Return) || i + 1 == f.ops.len();
            leave.push(if ends {
                monitor.matching("wasm:func:exit", f, n, i, op.pc)
            } else {
                vec![]
            });
        }
        self.attached.insert(fid, (entry, before, leave));
    }

    fn fire(&mut self, probes: &[Probe], stack: &[i32], locals: &[i32]) {
        let Some(monitor) = self.monitor.as_deref_mut() else { return };
        for probe in
            probes.iter().filter(|p| monitor.store.data().has(p.id)).cloned().collect::<Vec<_>>()
        {
            let args: Vec<Val> = probe
                .given
                .iter()
                .map(|g| match g {
                    Given::Value(v) => v.clone(),
                    Given::Arg(n) => Val::I32(stack[stack.len() - 1 - n]),
                    Given::Local(n) => Val::I32(locals[*n]),
                })
                .collect();
            monitor.call(&probe.function, &args);
        }
    }

    fn call(&mut self, fid: usize, args: &[i32]) -> Vec<i32> {
        if let Some(monitor) = self.monitor.as_deref_mut() {
            monitor.store.data_mut().enter();
        }
        let results = self.activation(fid, args);
        if let Some(monitor) = self.monitor.as_deref_mut() {
            monitor.store.data_mut().leave();
        }
        results
    }

    fn activation(&mut self, fid: usize, args: &[i32]) -> Vec<i32> {
        let mut locals = args.to_vec();
        locals.resize(args.len() + self.program.funcs[fid].locals, 0);
        let mut stack: Vec<i32> = Vec::new();
        // Open blocks: the instruction that opened each, and the height of the stack.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut i = 0;
        if let Some(attached) = self.attached.get(&fid).map(|a| a.0.clone()) {
            self.fire(&attached, &[], &locals);
        }
        loop {
            let op = &self.program.funcs[fid].ops[i];
            *self.truth.hotness.entry((fid as i32, op.pc)).or_default() += 1;
            *self.truth.mix.entry(op.name.clone()).or_default() += 1;
            if let Some((before, leave)) =
                self.attached.get(&fid).map(|a| (a.1[i].clone(), a.2[i].clone()))
            {
                self.fire(&before, &stack, &locals);
                self.fire(&leave, &stack, &locals);
            }
            let f = &self.program.funcs[fid];
            let mut branch = None;
            let mut pop = || stack.pop().expect("it is valid");
            match f.ops[i].op.clone() {
                O::Block { .. } => open.push((i, stack.len())),
                // A branch to a loop returns here.
                O::Loop { .. } => {
                    if open.last().is_none_or(|o| o.0 != i) {
                        open.push((i, stack.len()));
                    }
                }
                O::If { .. } => {
                    let cond = pop();
                    open.push((i, stack.len()));
                    if cond == 0 {
                        i = f.ops[i].other.unwrap_or(f.ops[i].end - 1);
                    }
                }
                O::Else => i = f.ops[i].end - 1,
                O::End => {
                    if open.pop().is_none() {
                        return stack.split_off(stack.len() - f.results);
                    }
                }
                O::Br { relative_depth } => branch = Some(relative_depth),
                O::BrIf { relative_depth } => branch = (pop() != 0).then_some(relative_depth),
                O::BrTable { targets } => {
                    let n = pop() as u32;
                    branch = Some(
                        targets.targets().flatten().nth(n as usize).unwrap_or(targets.default()),
                    );
                }
                O::Return => return stack.split_off(stack.len() - f.results),
                O::Call { function_index } => {
                    let params = self.program.funcs[function_index as usize].params;
                    let args = stack.split_off(stack.len() - params);
                    stack.extend(self.call(function_index as usize, &args));
                }
                O::Drop => drop(pop()),
                O::LocalGet { local_index } => stack.push(locals[local_index as usize]),
                O::LocalSet { local_index } => locals[local_index as usize] = pop(),
                O::LocalTee { local_index } => {
                    locals[local_index as usize] = *stack.last().expect("it is valid");
                }
                O::I32Const { value } => stack.push(value),
                O::I32Eqz => {
                    let a = pop();
                    stack.push(i32::from(a == 0));
                }
                O::I32Load { memarg } => {
                    let at = pop() as usize + memarg.offset as usize;
                    stack.push(i32::from_le_bytes(
                        self.program.memory[at..at + 4].try_into().expect("four bytes"),
                    ));
                }
                O::I32Load8U { memarg } => {
                    let at = pop() as usize + memarg.offset as usize;
                    stack.push(self.program.memory[at].into());
                }
                O::I32Store { memarg } => {
                    let value = pop();
                    let at = pop() as usize + memarg.offset as usize;
                    self.program.memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
                O::I32Store8 { memarg } => {
                    let value = pop();
                    let at = pop() as usize + memarg.offset as usize;
                    self.program.memory[at] = value as u8;
                }
                binary => {
                    let (b, a) = (pop(), pop());
                    stack.push(match binary {
                        O::I32Add => a.wrapping_add(b),
                        O::I32Sub => a.wrapping_sub(b),
                        O::I32Mul => a.wrapping_mul(b),
                        O::I32And => a & b,
                        O::I32Xor => a ^ b,
                        O::I32Shl => a << (b & 31),
                        O::I32ShrU => (a as u32 >> (b & 31)) as i32,
                        O::I32RemU => (a as u32 % b as u32) as i32,
                        O::I32LeS => i32::from(a <= b),
                        O::I32LtU => i32::from((a as u32) < b as u32),
                        O::I32GeU => i32::from(a as u32 >= b as u32),
                        O::I32GtS => i32::from(a > b),
                        O::I32Eq => i32::from(a == b),
                        other => panic!("{other:?} is not known"),
                    });
                }
            }
            if let Some(depth) = branch {
                let f = &self.program.funcs[fid];
                let Some(at) = open.len().checked_sub(1 + depth as usize) else {
                    let keep = stack.split_off(stack.len() - f.results);
                    stack = keep;
                    open.clear();
                    i = f.ops.len() - 1;
                    continue;
                };
                let (opener, height) = open[at];
                let is_loop = matches!(f.ops[opener].op, O::Loop { .. });
                let keep = if is_loop { 0 } else { gives(&f.ops[opener].op) };
                let kept = stack.split_off(stack.len() - keep);
                stack.truncate(height);
                stack.extend(kept);
                open.truncate(at + 1);
                i = if is_loop { opener } else { f.ops[opener].end };
                continue;
            }
            i += 1;
        }
    }
}

fn gives(op: &O<'_>) -> usize {
    match op {
        O::Block { blockty } | O::If { blockty } => {
            usize::from(!matches!(blockty, wasmparser::BlockType::Empty))
        }
        _ => 0,
    }
}
