//! An interpreter that executes instructions one by one, and records what it does: slow, small, and
//! without code of the engine.
//!
//! It supports integers, one memory, one table, globals, all kinds of control, tail calls and
//! exceptions: the features of the tests' programs.

use std::collections::BTreeMap;
use wasmparser::{
    BlockType, Catch, ElementItems, ElementKind, ExternalKind, Operator, Parser, Payload, TypeRef,
};

/// The reason why a function has not returned.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    Trap,
    Exit,
    Thrown(Exception),
}

#[derive(Clone, Debug)]
pub(crate) struct Exception {
    tag: u32,
    values: Vec<i64>,
}

/// The recorded observations.
#[derive(Default)]
pub(crate) struct Record {
    /// The number of times that each instruction was begun, by function and offset in its body.
    pub(crate) counts: BTreeMap<(u32, u32), u64>,
    /// The number of times that each target of each branch was taken.
    pub(crate) ways: BTreeMap<(u32, u32, usize), u64>,
    /// The number of calls of each function by each, and the contexts.
    pub(crate) calls: BTreeMap<(u32, u32), u64>,
    pub(crate) contexts: BTreeMap<Vec<u32>, u64>,
    /// The arguments of each function: those of the first call, and `None` where another call's
    /// differed.
    pub(crate) arguments: BTreeMap<u32, Vec<Option<i64>>>,
    /// Reads and writes by page.
    pub(crate) pages: BTreeMap<u64, [u64; 2]>,
    /// The number of entries of loops from outside, and of iterations that a trap, an exception or
    /// the program's end has cut off.
    pub(crate) entries: BTreeMap<(u32, u32), u64>,
    pub(crate) cut: BTreeMap<(u32, u32), u64>,
    /// The begins of functions, the instructions, and the ends of functions, in order.
    pub(crate) lines: Vec<String>,
}

struct Function<'a> {
    results: usize,
    locals: usize,
    code: Vec<(u32, Operator<'a>)>,
    /// The end of the block that begins at an instruction, and the beginning of its `else`.
    ends: BTreeMap<usize, (usize, Option<usize>)>,
}

/// A program that can be called.
pub(crate) struct Interpreter<'a> {
    types: Vec<(usize, usize)>,
    tags: Vec<usize>,
    imported: u32,
    functions: Vec<Function<'a>>,
    function_types: Vec<u32>,
    names: BTreeMap<u32, String>,
    table: Vec<u32>,
    memory: Vec<u8>,
    globals: Vec<i64>,
    held: Vec<Exception>,
    stack: Vec<u32>,
    pub(crate) exports: BTreeMap<&'a str, u32>,
    pub(crate) record: Record,
}

/// An open block: the target of branches to it, the number of operands below it and passed with a
/// branch, and its catch clauses.
struct Label {
    begins: usize,
    is_loop: bool,
    target: usize,
    height: usize,
    arity: usize,
    catches: Vec<Catch>,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut it = Self {
            types: Vec::new(),
            tags: Vec::new(),
            imported: 0,
            functions: Vec::new(),
            function_types: Vec::new(),
            names: BTreeMap::new(),
            table: Vec::new(),
            memory: Vec::new(),
            globals: Vec::new(),
            held: Vec::new(),
            stack: Vec::new(),
            exports: BTreeMap::new(),
            record: Record::default(),
        };
        Parser::new(0).parse_all(bytes).for_each(|payload| it.read(payload.expect("a module")));
        it
    }

    fn read(&mut self, payload: Payload<'a>) {
        match payload {
            Payload::TypeSection(section) => {
                let types = section.into_iter_err_on_gc_types().map(|ty| ty.expect("a function"));
                self.types = types.map(|ty| (ty.params().len(), ty.results().len())).collect();
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports().map(|import| import.expect("an import")) {
                    let TypeRef::Func(ty) = import.ty else { panic!("functions only") };
                    self.function_types.push(ty);
                    self.imported += 1;
                }
            }
            Payload::FunctionSection(section) => {
                self.function_types.extend(section.into_iter().map(|ty| ty.expect("a type")));
            }
            Payload::TagSection(section) => {
                self.tags = section
                    .into_iter()
                    .map(|tag| self.types[tag.expect("a tag").func_type_idx as usize].0)
                    .collect();
            }
            Payload::MemorySection(section) => {
                let pages =
                    section.into_iter().next().expect("a memory").expect("a memory").initial;
                self.memory = vec![0; pages as usize * 65_536];
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let init = global
                        .expect("a global")
                        .init_expr
                        .get_operators_reader()
                        .read()
                        .expect("a constant");
                    let Operator::I32Const { value } = init else { panic!("{init:?}") };
                    self.globals.push(value.into());
                }
            }
            Payload::ExportSection(section) => {
                let exports = section.into_iter().map(|export| export.expect("an export"));
                self.exports = exports
                    .filter(|export| export.kind == ExternalKind::Func)
                    .map(|it| (it.name, it.index))
                    .collect();
                // Functions without a name get these.
                self.names = self
                    .exports
                    .iter()
                    .map(|(name, function)| (*function, (*name).to_owned()))
                    .collect();
            }
            Payload::ElementSection(section) => {
                for element in section.into_iter().map(|element| element.expect("elements")) {
                    if let (ElementKind::Active { .. }, ElementItems::Functions(functions)) =
                        (element.kind, element.items)
                    {
                        self.table.extend(
                            functions.into_iter().map(|function| function.expect("a function")),
                        );
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let start = body.range().start;
                let ty = self.types
                    [self.function_types[self.imported as usize + self.functions.len()] as usize];
                let locals = body
                    .get_locals_reader()
                    .expect("locals")
                    .into_iter()
                    .map(|local| local.expect("locals").0 as usize);
                let locals = ty.0 + locals.sum::<usize>();
                let mut reader = body.get_operators_reader().expect("a body");
                let mut code = Vec::new();
                while !reader.eof() {
                    let (operator, at) = reader.read_with_offset().expect("an instruction");
                    code.push(((at - start) as u32, operator));
                }
                self.functions.push(Function { results: ty.1, locals, ends: ends(&code), code });
            }
            Payload::CustomSection(section) => {
                let wasmparser::KnownCustom::Name(names) = section.as_known() else { return };
                for name in names {
                    if let Ok(wasmparser::Name::Function(functions)) = name {
                        let all = functions.into_iter().map(|naming| naming.expect("a name"));
                        self.names.extend(all.map(|naming| (naming.index, naming.name.to_owned())));
                    }
                }
            }
            _ => {}
        }
    }

    pub(crate) fn name(&self, function: u32) -> String {
        self.names.get(&function).cloned().unwrap_or_else(|| format!("function {function}"))
    }

    /// Calls a function from the host.
    pub(crate) fn enter(&mut self, function: u32, args: Vec<i64>) -> Result<Vec<i64>, Stop> {
        self.stack.clear();
        self.call(function, args)
    }

    /// Calls a function, and the functions that it tail-calls.
    fn call(&mut self, mut function: u32, mut args: Vec<i64>) -> Result<Vec<i64>, Stop> {
        loop {
            self.stack.push(function);
            *self.record.contexts.entry(self.stack.clone()).or_default() += 1;
            if function < self.imported {
                return Err(Stop::Exit);
            }
            let seen = self
                .record
                .arguments
                .entry(function)
                .or_insert_with(|| args.iter().map(|arg| Some(*arg)).collect());
            seen.iter_mut()
                .zip(&args)
                .for_each(|(seen, arg)| *seen = seen.filter(|seen| seen == arg));
            self.record.lines.push(format!("> {}", self.name(function)));
            let ended = self.run(function, args);
            let says = match ended {
                Ok(_) => Some('<'),
                Err(Stop::Thrown(_)) => Some('!'),
                Err(_) => None,
            };
            self.record.lines.extend(says.map(|says| says.to_string()));
            self.stack.pop();
            match ended? {
                Left::With(results) => return Ok(results),
                Left::For(next, values) => (function, args) = (next, values),
            }
        }
    }

    fn run(&mut self, function: u32, args: Vec<i64>) -> Result<Left, Stop> {
        let it = &self.functions[(function - self.imported) as usize];
        let mut activation = Activation {
            function,
            locals: args,
            stack: Vec::new(),
            labels: Vec::new(),
            at: 0,
            came_back: false,
        };
        activation.locals.resize(it.locals, 0);
        let target = it.code.len() - 1;
        activation.labels.push(Label {
            begins: 0,
            is_loop: false,
            target,
            height: 0,
            arity: it.results,
            catches: Vec::new(),
        });
        loop {
            match self.step(&mut activation) {
                Ok(None) => {}
                Ok(Some(left)) => return Ok(left),
                Err(stop) => {
                    let Err(stop) = self.catch(&mut activation, stop) else { continue };
                    let open = activation
                        .labels
                        .iter()
                        .filter(|label| label.is_loop)
                        .map(|label| label.begins);
                    let code = &self.functions[(function - self.imported) as usize].code;
                    open.for_each(|at| {
                        *self.record.cut.entry((function, code[at].0)).or_default() += 1;
                    });
                    return Err(stop);
                }
            }
        }
    }

    /// Continues at the handler in this activation that catches the exception, if there is one.
    fn catch(&mut self, activation: &mut Activation, stop: Stop) -> Result<(), Stop> {
        let Stop::Thrown(exception) = stop else { return Err(stop) };
        for at in (0..activation.labels.len()).rev() {
            for catch in activation.labels[at].catches.clone() {
                let (fits, depth, with_values, with_reference) = match catch {
                    Catch::One { tag, label } => (tag == exception.tag, label, true, false),
                    Catch::OneRef { tag, label } => (tag == exception.tag, label, true, true),
                    Catch::All { label } => (true, label, false, false),
                    Catch::AllRef { label } => (true, label, false, true),
                };
                if fits {
                    // Iterations inside of the handler's block are cut off.
                    for label in activation.labels.drain(at..).filter(|label| label.is_loop) {
                        let code =
                            &self.functions[(activation.function - self.imported) as usize].code;
                        *self
                            .record
                            .cut
                            .entry((activation.function, code[label.begins].0))
                            .or_default() += 1;
                    }
                    activation.stack.extend(exception.values.iter().filter(|_| with_values));
                    if with_reference {
                        self.held.push(exception);
                        activation.stack.push(self.held.len() as i64 - 1);
                    }
                    activation.branch(depth);
                    return Ok(());
                }
            }
        }
        Err(Stop::Thrown(exception))
    }

    /// Executes one instruction.
    fn step(&mut self, it: &mut Activation) -> Result<Option<Left>, Stop> {
        let code = &self.functions[(it.function - self.imported) as usize];
        let (offset, operator) = code.code[it.at].clone();
        let (end, other) = code.ends.get(&it.at).copied().unwrap_or_default();
        let place = (it.function, offset);
        *self.record.counts.entry(place).or_default() += 1;
        self.record.lines.push(format!("+{offset}"));
        let begins = it.at;
        it.at += 1;
        let mut way =
            |way: usize| *self.record.ways.entry((place.0, place.1, way)).or_default() += 1;
        match operator {
            Operator::Block { blockty } => it.open(begins, end, self.arity(blockty), Vec::new()),
            Operator::TryTable { try_table } => {
                it.open(begins, end, self.arity(try_table.ty), try_table.catches);
            }
            Operator::Loop { blockty } => {
                let params = self.arity(blockty).0;
                it.open(begins, begins, (params, params), Vec::new());
                it.labels.last_mut().expect("opened").is_loop = true;
                if !std::mem::take(&mut it.came_back) {
                    *self.record.entries.entry(place).or_default() += 1;
                }
            }
            Operator::If { blockty } => {
                let is_true = it.pop() != 0;
                way(usize::from(is_true));
                it.open(begins, end, self.arity(blockty), Vec::new());
                if !is_true {
                    it.at = other.map_or(end, |other| other + 1);
                }
            }
            Operator::Else => it.at = it.labels.last().expect("its condition").target,
            Operator::End => {
                let label = it.labels.pop().expect("its block");
                if it.labels.is_empty() {
                    return Ok(Some(Left::With(it.stack.split_off(it.stack.len() - label.arity))));
                }
            }
            Operator::Br { relative_depth } => it.branch(relative_depth),
            Operator::BrIf { relative_depth } => {
                let is_true = it.pop() != 0;
                way(usize::from(is_true));
                if is_true {
                    it.branch(relative_depth);
                }
            }
            Operator::BrTable { targets } => {
                let entry = (it.pop() as u32).min(targets.len()) as usize;
                way(entry);
                let depth = targets
                    .targets()
                    .nth(entry)
                    .map_or(targets.default(), |depth| depth.expect("a depth"));
                it.branch(depth);
            }
            Operator::Return => {
                return Ok(Some(Left::With(
                    it.stack.split_off(it.stack.len() - it.labels[0].arity),
                )));
            }
            Operator::Unreachable => return Err(Stop::Trap),
            Operator::Call { function_index } => self.call_from(it, function_index)?,
            Operator::ReturnCall { function_index } => {
                return Ok(Some(self.leave_for(it, function_index)));
            }
            Operator::CallIndirect { type_index, .. } => {
                let callee = self.callee(it, type_index)?;
                self.call_from(it, callee)?;
            }
            Operator::ReturnCallIndirect { type_index, .. } => {
                // Iterations end when the tail call begins.
                it.labels.iter_mut().for_each(|label| label.is_loop = false);
                let callee = self.callee(it, type_index)?;
                return Ok(Some(self.leave_for(it, callee)));
            }
            Operator::Throw { tag_index } => {
                let values = it.stack.split_off(it.stack.len() - self.tags[tag_index as usize]);
                return Err(Stop::Thrown(Exception { tag: tag_index, values }));
            }
            Operator::ThrowRef => return Err(Stop::Thrown(self.held[it.pop() as usize].clone())),
            Operator::Nop => {}
            Operator::Drop => drop(it.pop()),
            Operator::LocalGet { local_index } => it.stack.push(it.locals[local_index as usize]),
            Operator::LocalSet { local_index } => it.locals[local_index as usize] = it.pop(),
            Operator::LocalTee { local_index } => {
                it.locals[local_index as usize] = *it.stack.last().expect("an operand");
            }
            Operator::GlobalGet { global_index } => {
                it.stack.push(self.globals[global_index as usize]);
            }
            Operator::GlobalSet { global_index } => self.globals[global_index as usize] = it.pop(),
            Operator::I32Const { value } => it.stack.push(value.into()),
            Operator::I32Load { memarg } => {
                let at = self.access(it.pop(), memarg.offset, false)?;
                it.stack.push(
                    i32::from_le_bytes(self.memory[at..at + 4].try_into().expect("four")).into(),
                );
            }
            Operator::I32Store { memarg } => {
                let value = it.pop() as i32;
                let at = self.access(it.pop(), memarg.offset, true)?;
                self.memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            Operator::I32Eqz => {
                let value = it.pop();
                it.stack.push((value == 0).into());
            }
            other => {
                let (right, left) = (it.pop() as i32, it.pop() as i32);
                it.stack.push(number(&other, left, right)?.into());
            }
        }
        Ok(None)
    }

    fn arity(&self, ty: BlockType) -> (usize, usize) {
        match ty {
            BlockType::Empty => (0, 0),
            BlockType::Type(_) => (0, 1),
            BlockType::FuncType(ty) => self.types[ty as usize],
        }
    }

    fn access(&mut self, index: i64, offset: u64, writes: bool) -> Result<usize, Stop> {
        let at = u64::from(index as u32) + offset;
        if at + 4 > self.memory.len() as u64 {
            return Err(Stop::Trap);
        }
        self.record.pages.entry(at >> 16).or_default()[usize::from(writes)] += 1;
        Ok(at as usize)
    }

    fn callee(&self, it: &mut Activation, ty: u32) -> Result<u32, Stop> {
        let callee = *self.table.get(it.pop() as u32 as usize).ok_or(Stop::Trap)?;
        let same =
            self.types[self.function_types[callee as usize] as usize] == self.types[ty as usize];
        same.then_some(callee).ok_or(Stop::Trap)
    }

    fn args(&mut self, it: &mut Activation, callee: u32) -> Vec<i64> {
        *self.record.calls.entry((it.function, callee)).or_default() += 1;
        let (params, _) = self.types[self.function_types[callee as usize] as usize];
        it.stack.split_off(it.stack.len() - params)
    }

    fn call_from(&mut self, it: &mut Activation, callee: u32) -> Result<(), Stop> {
        let args = self.args(it, callee);
        it.stack.extend(self.call(callee, args)?);
        Ok(())
    }

    fn leave_for(&mut self, it: &mut Activation, callee: u32) -> Left {
        Left::For(callee, self.args(it, callee))
    }
}

/// The way in which a function ends.
enum Left {
    With(Vec<i64>),
    For(u32, Vec<i64>),
}

struct Activation {
    function: u32,
    locals: Vec<i64>,
    stack: Vec<i64>,
    labels: Vec<Label>,
    at: usize,
    /// Whether it has just branched to a loop.
    came_back: bool,
}

impl Activation {
    fn pop(&mut self) -> i64 {
        self.stack.pop().expect("valid code")
    }

    fn open(
        &mut self,
        begins: usize,
        target: usize,
        (params, arity): (usize, usize),
        catches: Vec<Catch>,
    ) {
        let height = self.stack.len() - params;
        self.labels.push(Label { begins, is_loop: false, target, height, arity, catches });
    }

    /// Branches to a label: to the end of its block, which is an instruction, too, or to the
    /// beginning of its loop.
    fn branch(&mut self, depth: u32) {
        let place = self.labels.len() - 1 - depth as usize;
        let Label { target, height, arity, is_loop, .. } = self.labels[place];
        let values = self.stack.split_off(self.stack.len() - arity);
        self.stack.truncate(height);
        self.stack.extend(values);
        self.labels.truncate(if is_loop { place } else { place + 1 });
        self.at = target;
        self.came_back = is_loop;
    }
}

/// The end of each block, and the beginning of its `else`.
fn ends(code: &[(u32, Operator<'_>)]) -> BTreeMap<usize, (usize, Option<usize>)> {
    let (mut open, mut ends) = (Vec::new(), BTreeMap::new());
    for (at, (_, operator)) in code.iter().enumerate() {
        match operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. } => {
                open.push((at, None));
            }
            Operator::Else => open.last_mut().expect("a condition").1 = Some(at),
            Operator::End => {
                if let Some((begins, other)) = open.pop() {
                    ends.insert(begins, (at, other));
                }
            }
            _ => {}
        }
    }
    ends
}

fn number(operator: &Operator<'_>, left: i32, right: i32) -> Result<i32, Stop> {
    let (left_unsigned, right_unsigned) = (left.cast_unsigned(), right.cast_unsigned());
    Ok(match operator {
        Operator::I32Add => left.wrapping_add(right),
        Operator::I32Sub => left.wrapping_sub(right),
        Operator::I32Mul => left.wrapping_mul(right),
        Operator::I32And => left & right,
        Operator::I32Or => left | right,
        Operator::I32Xor => left ^ right,
        Operator::I32Shl => left.wrapping_shl(right_unsigned),
        Operator::I32DivS => left.checked_div(right).ok_or(Stop::Trap)?,
        Operator::I32RemU => {
            left_unsigned.checked_rem(right_unsigned).ok_or(Stop::Trap)?.cast_signed()
        }
        Operator::I32Eq => (left == right).into(),
        Operator::I32Ne => (left != right).into(),
        Operator::I32LtU => (left_unsigned < right_unsigned).into(),
        Operator::I32GtU => (left_unsigned > right_unsigned).into(),
        Operator::I32LtS => (left < right).into(),
        other => panic!("{other:?}: no program of the tests has it"),
    })
}
