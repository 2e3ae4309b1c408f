//! Gateways: functions that replace the program's functions where the host calls them, and the
//! host's functions where the program calls them. They record what is passed.
//!
//! Exported functions, and functions referred to in tables or by `ref.func`, are replaced by
//! gateways. A call that does not name its callee sets `via` first. If a gateway is called while
//! the program runs and `via` is not set, the host has continued after a trap or an exception that
//! unwound the program's calls.

mod bounds;
mod casts;
mod dispatch;
mod exceptions;
mod growth;
mod imports;
mod objects;
mod pending;
mod private;
mod reference;
mod typed;

use crate::app::{App, PlacedElements};
use crate::runtime::{Runtime, Why, variable};
use crate::trap::Reason;
use crate::{Error, Options};
pub(crate) use bounds::{Bounds, SPAN};
pub(crate) use casts::Cast;
pub(crate) use objects::Objects;
use pending::Pending;
use reference::Asking;
use std::collections::{BTreeMap, BTreeSet};
use typed::Typed;
use wasm_encoder::{BlockType, Catch, Function, InstructionSink, RefType, ValType};
use whamm_rewrite::{Plan, Program};

/// The functions that bodies call.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    /// By import: its gateway.
    pub(crate) imports: Vec<u32>,
    /// Ends the trace because the program has called a foreign function through a table.
    pub(crate) foreign: u32,
    /// By global: takes its value, records it, and returns it.
    pub(crate) global_found: BTreeMap<u32, u32>,
    pub(crate) global_written: BTreeMap<u32, u32>,
    /// By memory: takes the number of pages and the result of `memory.grow`, and returns the
    /// latter.
    pub(crate) own_growth: BTreeMap<u32, u32>,
    /// By type and table, if references to functions of the host are recorded: replaces a call
    /// through the table.
    pub(crate) dispatch: BTreeMap<(u32, u32), u32>,
    /// By type: replaces a call by a reference, if references have no types.
    pub(crate) calls: BTreeMap<u32, u32>,
    /// By type: the functions that replace casts and tests then.
    pub(crate) casts: BTreeMap<u32, Cast>,
    /// The function that identifies references to functions between events: see `private.rs`.
    pub(crate) identify: Option<u32>,
    /// By table whose elements are compared when they are read.
    pub(crate) objects: BTreeMap<u32, Objects>,
    /// Set if calls may be pending: the variable with the type of the call.
    pub(crate) pending_ty: Option<u32>,
    /// The function that ends the trace, if calls may be pending then.
    pub(crate) finish: Option<u32>,
    /// Records which memories and tables have grown.
    sizes: u32,
    /// Records an exception that ends a call: takes the exception, and the event's kind.
    thrown: Option<u32>,
    /// The same if exceptions are no values: for each tag, takes what is thrown with it, and the
    /// event's kind; and for all other exceptions.
    thrown_with: Option<(Vec<u32>, u32)>,
    /// By reason: called before a trap.
    pub(crate) traps: BTreeMap<Reason, u32>,
    /// By memory, if traps have to be detected before they happen: the host does not fetch the
    /// trace.
    pub(crate) bounds: BTreeMap<u32, Bounds>,
    pub(crate) sees_traps: bool,
}

/// A function that a gateway calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callee {
    /// One of the program's.
    Own(u32),
    /// One of the host's, which the program imports.
    Import(u32),
    /// An element of a table, of this type: the index is in the local behind the arguments.
    Through(u32, u32),
    /// One of the host's, of this type: the reference is in the local behind the arguments.
    Reference(u32),
}

/// The direction of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the program.
    In,
    /// To its host.
    Out,
}

/// Creates the gateways.
struct Maker<'a, 'p> {
    plan: &'a mut Plan,
    program: &'a Program<'p>,
    app: &'a App,
    runtime: &'a Runtime,
    made: Gateways,
    /// The last recorded size, by memory and by table.
    memory_sizes: BTreeMap<u32, u32>,
    table_sizes: BTreeMap<u32, u32>,
    /// Set if references to functions may be passed to the host.
    asking: Option<Asking>,
    /// The private types of the gateways of functions, if they have such types.
    private: BTreeMap<u32, u32>,
    /// The functions that give references their types, where the host demands it.
    typed: Typed,
    /// The function that identifies references to functions in an event.
    identify: Option<u32>,
    /// Set if calls through tables may be pending.
    pending: Option<Pending>,
    is_raw: bool,
    has_file: bool,
}

impl Gateways {
    pub(crate) fn new(
        plan: &mut Plan,
        program: &Program<'_>,
        app: &App,
        runtime: &Runtime,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut maker = Maker {
            plan,
            program,
            app,
            runtime,
            made: Self::default(),
            memory_sizes: BTreeMap::new(),
            table_sizes: BTreeMap::new(),
            asking: None,
            private: BTreeMap::new(),
            typed: Typed::default(),
            identify: None,
            pending: None,
            is_raw: options.raw,
            has_file: options.file.is_some(),
        };
        maker.private_types()?;
        maker.typed()?;
        maker.asking = maker.asking()?;
        maker.identifying();
        maker.sizes()?;
        maker.objects();
        maker.globals()?;
        maker.stop_function();
        maker.traps();
        maker.casts();
        match (app.throws, app.is_older) {
            (true, false) => maker.thrown()?,
            (true, true) => maker.thrown_with()?,
            (false, _) => {}
        }
        maker.pending()?;
        for import in 0..app.imported() {
            let stand_in = maker.import(import)?;
            maker.made.imports.push(stand_in);
            if app.referred.contains(&import) {
                let reference = maker.import_reference(import, stand_in)?;
                maker.plan.indices.refer(import, reference);
            }
        }
        maker.own_functions()?;
        maker.fill_typed()?;
        maker.dispatch()?;
        maker.start()?;
        if maker.has_file {
            maker.bounds();
            maker.made.sees_traps = true;
        }
        Ok(maker.made)
    }
}

impl Maker<'_, '_> {
    /// Adds a function and returns its index.
    fn add(&mut self, ty: u32, name: &str, function: Function) -> u32 {
        let index = self.plan.indices.functions() + self.plan.functions.len() as u32;
        self.plan.functions.push((ty, function));
        self.plan.names.push((index, format!("record.{name}")));
        index
    }

    fn signature(&mut self, params: &[ValType], results: &[ValType]) -> u32 {
        self.plan.types.push((params.to_vec(), results.to_vec()));
        self.program.types + self.plan.types.len() as u32 - 1
    }

    fn own(&self, name: &str) -> u32 {
        self.runtime.functions[name]
    }

    /// Writes the beginning of an event.
    fn begin(&self, sink: &mut InstructionSink<'_>, kind: i32, numbers: &[u64]) {
        sink.i32_const(kind).call(self.own("begin"));
        for number in numbers {
            sink.i64_const(number.cast_signed()).call(self.own("number"));
        }
    }

    fn text(&self, sink: &mut InstructionSink<'_>, text: &str) {
        let (at, len) = self.runtime.texts[text.as_bytes()];
        sink.i32_const(at).i32_const(len);
    }

    fn stop(&self, sink: &mut InstructionSink<'_>, why: Why, is_begun: bool) {
        self.text(sink, why.text());
        sink.i32_const(i32::from(is_begun)).call(self.own("stop"));
    }

    /// Writes the values of locals in an event's format.
    fn values(
        &self,
        sink: &mut InstructionSink<'_>,
        first: u32,
        types: &[wasmparser::ValType],
        way: Way,
    ) {
        sink.i64_const(types.len() as i64).call(self.own("number"));
        for (local, ty) in (first..).zip(types) {
            sink.local_get(local);
            self.value(sink, local, *ty, way);
        }
    }

    /// Writes the value that is on the stack, and also in a local.
    fn value(&self, sink: &mut InstructionSink<'_>, local: u32, ty: wasmparser::ValType, way: Way) {
        use wasmparser::ValType as Type;
        match ty {
            Type::I32 => sink.call(self.own("i32")),
            Type::I64 => sink.call(self.own("i64")),
            Type::F32 => sink.i32_reinterpret_f32().call(self.own("f32")),
            Type::F64 => sink.i64_reinterpret_f64().call(self.own("f64")),
            Type::V128 => sink
                .i64x2_extract_lane(0)
                .local_get(local)
                .i64x2_extract_lane(1)
                .call(self.own("v128")),
            Type::Ref(own) if own.is_extern_ref() => {
                sink.ref_is_null().i32_eqz().call(self.own("object"))
            }
            Type::Ref(_) => {
                sink.ref_is_null().if_(BlockType::Empty);
                sink.i32_const(0x70).call(self.own("null")).else_();
                let asked = self.asking.filter(|_| way == Way::Out).map(|asking| asking.ask);
                let is_function = self.app.declared.is_of_functions(ty);
                match self.identify.or(asked).filter(|_| is_function) {
                    Some(identify) => {
                        sink.local_get(local).call(identify).call(self.own("reference"));
                        sink.if_(BlockType::Empty);
                        self.stop(sink, Why::Reference, true);
                        sink.end();
                    }
                    None => self.stop(sink, Why::Reference, true),
                }
                sink.end()
            }
        };
    }

    /// Defines the functions that record globals.
    fn globals(&mut self) -> Result<(), Error> {
        for global in self.app.globals.clone() {
            let own = self.app.declared.globals[global as usize].content_type;
            let ty = self.app.val_type(own)?;
            let signature = self.signature(&[ty], &[ty]);
            let teller = |this: &Self, kind: i32| {
                let mut code = Function::new([]);
                let sink = &mut code.instructions();
                this.begin(sink, kind, &[global.into()]);
                sink.local_get(0);
                this.value(sink, 0, own, Way::In);
                if let Some(shadow) = this.runtime.global_shadows.get(&global) {
                    sink.local_get(0);
                    this.known_as(sink, own);
                    sink.global_set(*shadow);
                }
                sink.local_get(0).end();
                code
            };
            let found = teller(self, if self.is_raw { 0x32 } else { 0x22 });
            let found = self.add(signature, &format!("global.{global}"), found);
            self.made.global_found.insert(global, found);
            if self.is_raw {
                let written = teller(self, 0x42);
                let written = self.add(signature, &format!("global.set.{global}"), written);
                self.made.global_written.insert(global, written);
            }
        }
        Ok(())
    }

    /// Converts a global's value to that of its shadow.
    fn known_as(&self, sink: &mut InstructionSink<'_>, ty: wasmparser::ValType) {
        let is_function = self.app.declared.is_of_functions(ty);
        if let Some(identify) = self.made.identify.filter(|_| is_function) {
            sink.call(identify);
        }
    }

    /// Defines the functions that record an imminent trap. If the trap ends all calls and the host
    /// does not fetch the trace, they write it.
    fn traps(&mut self) {
        let ty = self.signature(&[], &[]);
        let last = if self.app.is_command() { "finish" } else { "flush" };
        for reason in Reason::ALL {
            let mut code = Function::new([]);
            let sink = &mut code.instructions();
            self.text(sink, reason.text());
            sink.call(self.own("traps"));
            if self.has_file {
                sink.global_get(self.runtime.depth).i32_eqz().if_(BlockType::Empty);
                sink.call(self.own(last)).end();
            }
            sink.end();
            let function = self.add(ty, &format!("traps.{reason:?}"), code);
            self.made.traps.insert(reason, function);
        }
    }

    fn stop_function(&mut self) {
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        self.stop(sink, Why::Foreign, false);
        sink.i32_const(0).global_set(self.runtime.via).end();
        let ty = self.signature(&[], &[]);
        self.made.foreign = self.add(ty, "foreign", code);
    }

    /// Locals for results after the parameters, and one more.
    fn locals(&self, function: u32) -> Result<(Function, u32, u32), Error> {
        let ty = self.app.declared.function(function).expect("a valid module");
        let results = ty.results().iter().map(|ty| self.app.local_type(*ty));
        let mut locals: Vec<(u32, ValType)> =
            results.map(|ty| Ok((1, ty?))).collect::<Result<_, Error>>()?;
        locals.push((1, ValType::I32));
        let params = ty.params().len() as u32;
        Ok((Function::new(locals), params, params + ty.results().len() as u32))
    }

    /// Pushes results that are in locals, of which those of references may be null.
    fn results(&self, sink: &mut InstructionSink<'_>, first: u32, types: &[wasmparser::ValType]) {
        for (local, ty) in (first..).zip(types) {
            sink.local_get(local);
            if ty.as_reference_type().is_some_and(|ty| !ty.is_nullable()) {
                sink.ref_as_non_null();
            }
        }
    }

    /// The program has called a function without naming it. If it called through a table, records
    /// that the table has the function at that index.
    fn by_reference(&self, sink: &mut InstructionSink<'_>, function: u32) {
        let via = self.runtime.via;
        sink.global_get(via).i32_eqz().if_(BlockType::Empty);
        self.stop(sink, Why::Trapped, false);
        sink.end();
        self.called_by_table(sink, |sink| {
            sink.i32_const(function.cast_signed() + 1);
        });
        sink.i32_const(0).global_set(via);
    }

    /// If the program has called a function through a table, records that the table has it at that
    /// index; `known` pushes the function's index plus 1.
    fn called_by_table(
        &self,
        sink: &mut InstructionSink<'_>,
        known: impl Fn(&mut InstructionSink<'_>),
    ) {
        for table in self.app.function_tables() {
            sink.global_get(self.runtime.via).i32_const(table.cast_signed() + 1).i32_eq();
            sink.if_(BlockType::Empty).global_get(self.runtime.via_index);
            known(sink);
            sink.i32_const(0).call(self.own(&format!("element:{table}"))).end();
        }
    }

    /// Defines the gateways of the program's functions that the host may obtain.
    fn own_functions(&mut self) -> Result<(), Error> {
        use wasmparser::ExternalKind as Kind;
        let first = self.app.imported();
        let exports: Vec<(String, u32)> = self
            .app
            .declared
            .exports
            .iter()
            .filter(|(_, kind, _)| matches!(kind, Kind::Func | Kind::FuncExact))
            .map(|(name, _, index)| (name.clone(), *index))
            .collect();
        let mut known: BTreeSet<u32> = exports.iter().map(|export| export.1).collect();
        known.extend(&self.app.referred);
        let mut gateways = BTreeMap::new();
        for function in known.into_iter().filter(|function| *function >= first) {
            let gateway = self.gateway(function)?;
            gateways.insert(function, gateway);
            if self.app.referred.contains(&function) {
                self.plan.indices.refer(function, gateway);
            }
        }
        for (name, function) in exports {
            if let Some(gateway) = gateways.get(&function) {
                let exported = self.disguise_of(function).unwrap_or(*gateway);
                self.plan.rerouted.insert(name, exported);
            }
        }
        Ok(())
    }

    fn gateway(&mut self, function: u32) -> Result<u32, Error> {
        let (mut code, params, saved) = self.locals(function)?;
        let inner = self.plan.indices.function(function);
        let sink = &mut code.instructions();
        let call = |sink: &mut InstructionSink<'_>| {
            (0..params).for_each(|local| {
                sink.local_get(local);
            });
            sink.call(inner);
        };
        self.answer(sink, function)?;
        if self.pending.is_some() {
            self.pending_entry(sink, function, params..saved, call)?;
        } else {
            self.entry(sink, function, params);
        }
        self.check_params(sink, function);
        let name = self.app.declared.exported_function(function);
        self.begin(sink, 1, &[function.into()]);
        match name {
            Some(name) => {
                sink.i32_const(0).call(self.own("byte"));
                self.text(sink, name);
                sink.call(self.own("text"));
            }
            None => {
                sink.i32_const(2).call(self.own("byte"));
            }
        }
        let is_start = name == Some("_start");
        self.entered(sink, function, (params, saved), is_start);
        let own = self.type_of_gateway(function);
        Ok(self.add(own, &format!("gateway.{function}"), code))
    }

    /// The beginning of a gateway: if the program calls, it calls the function. Behind it the host
    /// calls.
    fn entry(&self, sink: &mut InstructionSink<'_>, function: u32, params: u32) {
        let (via, depth) = (self.runtime.via, self.runtime.depth);
        sink.global_get(self.runtime.inside).if_(BlockType::Empty);
        // Either the host continues after a trap, in the only call that there was, or the program
        // calls.
        sink.global_get(via).i32_eqz().global_get(depth).i32_const(1).i32_eq().i32_and();
        sink.if_(BlockType::Empty).i32_const(0).call(self.own("unwind")).else_();
        self.by_reference(sink, function);
        (0..params).for_each(|local| {
            sink.local_get(local);
        });
        let inner = self.plan.indices.function(function);
        match self.app.has_tail_calls {
            true => sink.return_call(inner),
            false => sink.call(inner).return_(),
        };
        sink.end().end();
    }

    /// Calls the program for the host, after the beginning of the event.
    fn entered(
        &self,
        sink: &mut InstructionSink<'_>,
        function: u32,
        (params, end): (u32, u32),
        is_start: bool,
    ) {
        let ty = self.app.declared.function(function).expect("a valid module").clone();
        let (inside, depth) = (self.runtime.inside, self.runtime.depth);
        self.values(sink, 0, ty.params(), Way::In);
        sink.i32_const(1).global_set(inside);
        sink.global_get(depth).i32_const(1).i32_add().global_set(depth).call(self.made.sizes);
        let via = self.runtime.via;
        self.call(sink, Callee::Own(function), params, params..end, |sink| {
            sink.i32_const(0).global_set(inside).i32_const(0).global_set(via);
            sink.global_get(depth).i32_const(1).i32_sub().global_set(depth).i32_const(2);
        });
        sink.global_get(inside).i32_eqz().if_(BlockType::Empty);
        self.stop(sink, Why::Thrown, false);
        sink.end();
        self.after_tail_calls(sink);
        sink.i32_const(0).global_set(inside).i32_const(0).global_set(self.runtime.via);
        sink.global_get(depth).i32_const(1).i32_sub().global_set(depth);
        self.begin(sink, 2, &[]);
        sink.i32_const(0).call(self.own("byte"));
        self.values(sink, params, ty.results(), Way::Out);
        if is_start || (self.has_file && !self.app.is_command()) {
            let last = if is_start { "finish" } else { "flush" };
            sink.global_get(depth).i32_eqz().if_(BlockType::Empty).call(self.own(last)).end();
        }
        self.results_for_the_host(sink, params, ty.results());
        sink.end();
    }

    /// Defines the start function: it records the initial contents, and calls the program's own
    /// start function.
    fn start(&mut self) -> Result<(), Error> {
        let start = match self.program.start {
            Some(start) if start >= self.app.imported() => Some(self.start_gateway(start)?),
            Some(_) => return Err(Error::Unsupported("an import as its start function")),
            None => None,
        };
        let mut locals = Vec::new();
        for ty in &self.app.declared.globals {
            locals.push((1, self.app.local_type(ty.content_type)?));
        }
        let mut code = Function::new(locals);
        let sink = &mut code.instructions();
        for (memory, known) in &self.memory_sizes {
            let least = self.app.declared.memories[*memory as usize].initial;
            sink.i64_const(least.cast_signed()).global_set(*known);
        }
        for (table, known) in &self.table_sizes {
            let least = self.app.declared.tables[*table as usize].initial;
            sink.i64_const(least.cast_signed()).global_set(*known);
        }
        for elements in &self.app.placed {
            self.place(&mut code, elements);
        }
        let sink = &mut code.instructions();
        sink.call(self.made.sizes);
        for memory in self.runtime.memories.values() {
            sink.call(memory.begin);
        }
        for (global, shadow) in &self.runtime.global_shadows {
            sink.global_get(*global);
            self.known_as(sink, self.app.declared.globals[*global as usize].content_type);
            sink.global_set(*shadow);
        }
        for global in 0..self.app.declared.imported.globals {
            let ty = self.app.declared.globals[global as usize].content_type;
            self.begin(sink, 0x22, &[global.into()]);
            sink.global_get(global).local_tee(global);
            self.value(sink, global, ty, Way::In);
        }
        if let Some(start) = start {
            sink.call(start);
        }
        sink.end();
        let ty = self.signature(&[], &[]);
        self.plan.start = Some(self.add(ty, "start", code));
        Ok(())
    }

    /// Puts the functions of a segment into a table's shadow.
    fn place(&self, code: &mut Function, elements: &PlacedElements) {
        let (at, len) = self.runtime.texts[&elements.functions];
        code.raw(elements.place.iter().copied());
        let sink = &mut code.instructions();
        if self.app.is_wide_table(elements.table) {
            sink.i32_wrap_i64();
        }
        sink.i32_const(at).i32_const(len).call(self.own(&format!("place:{}", elements.table)));
    }

    fn start_gateway(&mut self, function: u32) -> Result<u32, Error> {
        let (mut code, params, saved) = self.locals(function)?;
        let sink = &mut code.instructions();
        self.begin(sink, 1, &[function.into()]);
        sink.i32_const(1).call(self.own("byte"));
        self.entered(sink, function, (params, saved), false);
        let own = self.app.declared.type_of(function).expect("a valid module");
        Ok(self.add(own, &format!("start.{function}"), code))
    }
}
