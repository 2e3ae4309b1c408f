//! Scripts of the specification: modules with expected results.
//!
//! Every directive counts: it passes or fails.

mod expectation;
mod host;

use crate::{
    AsContextMut, Engine, Error, Extern, ExternRef, Instance, Linker, Module, SharedMemory, Store,
    Trap, Val,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use wast::core::{AbstractHeapType, HeapType, WastArgCore};
use wast::token::Id;
use wast::{QuoteWat, Wast, WastArg, WastDirective, WastExecute, WastInvoke, WastThread, Wat};

/// The outcome of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of directives, including those of threads.
    pub directives: usize,
    /// The number of directives with the expected outcome.
    pub passed: usize,
    /// The others: where they are, and what happened.
    pub failed: Vec<Failure>,
}

/// A directive with an unexpected outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its line in the script, from 1.
    pub line: usize,
    /// What happened.
    pub message: String,
}

/// Runs a script.
pub fn run(engine: &Engine, text: &str) -> Result<Outcome, Error> {
    let text: Arc<str> = text.into();
    let mut runner = Runner::new(engine, &text)?;
    parsed(&text, |script| {
        runner.outcome.directives = count(&script.directives);
        runner.all(script.directives);
    })?;
    for (_, thread) in std::mem::take(&mut runner.threads) {
        runner.join(thread);
    }
    Ok(runner.outcome)
}

fn parsed<R>(text: &str, take: impl FnOnce(Wast<'_>) -> R) -> Result<R, Error> {
    let text_error = |error: wast::Error| Error::Compile(crate::CompileError::text(&error, text));
    let mut lexer = wast::lexer::Lexer::new(text);
    // Scripts test how text with confusable characters is read.
    lexer.allow_confusing_unicode(true);
    let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).map_err(text_error)?;
    Ok(take(wast::parser::parse(&buffer).map_err(text_error)?))
}

/// Counts directives, including those in threads.
fn count(directives: &[WastDirective<'_>]) -> usize {
    let within = |directive: &WastDirective<'_>| match directive {
        WastDirective::Thread(thread) => count(&thread.directives),
        _ => 0,
    };
    directives.iter().map(|directive| 1 + within(directive)).sum()
}

impl Outcome {
    /// How many directives were never reached.
    pub fn skipped(&self) -> usize {
        self.directives.saturating_sub(self.passed + self.failed.len())
    }
}

struct Runner {
    engine: Engine,
    text: Arc<str>,
    store: Store<()>,
    linker: Linker<()>,
    /// Instances and modules by the script's names; without a name, the last one.
    instances: HashMap<Option<String>, Instance>,
    modules: HashMap<Option<String>, Module>,
    threads: HashMap<String, JoinHandle<Outcome>>,
    outcome: Outcome,
}

type Checked<T = ()> = Result<T, String>;

fn owned(id: Option<Id<'_>>) -> Option<String> {
    id.map(|id| id.name().to_owned())
}

impl Runner {
    fn new(engine: &Engine, text: &Arc<str>) -> Result<Self, Error> {
        let mut store = Store::new(engine, ());
        let linker = host::spectest(engine, &mut store)?;
        Ok(Self {
            engine: engine.clone(),
            text: Arc::clone(text),
            store,
            linker,
            instances: HashMap::new(),
            modules: HashMap::new(),
            threads: HashMap::new(),
            outcome: Outcome::default(),
        })
    }

    fn all(&mut self, directives: Vec<WastDirective<'_>>) {
        for directive in directives {
            let (line, _) = directive.span().linecol_in(&self.text);
            match self.directive(directive) {
                Ok(()) => self.outcome.passed += 1,
                Err(message) => self.outcome.failed.push(Failure { line: line + 1, message }),
            }
        }
    }

    fn directive(&mut self, directive: WastDirective<'_>) -> Checked {
        match directive {
            WastDirective::Module(mut module) => {
                let id = owned(module.name());
                let module = self.compile(&mut module).map_err(|error| error.to_string())?;
                self.instantiate(id, &module)
            }
            WastDirective::ModuleDefinition(mut module) => {
                let id = owned(module.name());
                let module = self.compile(&mut module).map_err(|error| error.to_string())?;
                self.modules.insert(id, module.clone());
                self.modules.insert(None, module);
                Ok(())
            }
            WastDirective::ModuleInstance { instance, module, .. } => {
                let module = self.modules.get(&owned(module)).cloned().ok_or("no such module")?;
                self.instantiate(owned(instance), &module)
            }
            WastDirective::Register { name, module, .. } => {
                let instance = self.instance(module)?;
                self.linker
                    .instance(&mut self.store, name, instance)
                    .map_err(|error| error.to_string())?;
                Ok(())
            }
            WastDirective::Invoke(invoke) => {
                self.invoke(&invoke)?.map(drop).map_err(|error| error.to_string())
            }
            WastDirective::Thread(thread) => self.thread(&thread),
            WastDirective::Wait { thread, .. } => {
                let handle = self.threads.remove(thread.name()).ok_or("no such thread")?;
                self.join(handle);
                Ok(())
            }
            assertion => self.assertion(assertion),
        }
    }

    fn assertion(&mut self, assertion: WastDirective<'_>) -> Checked {
        match assertion {
            WastDirective::AssertReturn { exec, results, .. } => {
                let found = self.execute(exec)?.map_err(|error| error.to_string())?;
                expectation::check_all(&found, &results)
            }
            WastDirective::AssertTrap { exec, message, .. } => {
                expectation::trapped(&self.execute(exec)?, message)
            }
            WastDirective::AssertExhaustion { call, .. } => match self.invoke(&call)? {
                Err(error) if error.trap() == Some(Trap::StackOverflow) => Ok(()),
                other => Err(format!(
                    "expected the stack to be exhausted, found {}",
                    expectation::described(&other)
                )),
            },
            WastDirective::AssertException { exec, .. } => match self.execute(exec)? {
                Err(Error::Exception(_)) => Ok(()),
                other => {
                    Err(format!("expected an exception, found {}", expectation::described(&other)))
                }
            },
            WastDirective::AssertUnlinkable { mut module, message, .. } => {
                let bytes = module.encode().map_err(|error| error.to_string())?;
                let module = Module::new(&self.engine, bytes).map_err(|error| error.to_string())?;
                match self.linker.instantiate(&mut self.store, &module) {
                    Err(Error::Link(found))
                        if found.starts_with(message.split(',').next().unwrap_or(message)) =>
                    {
                        Ok(())
                    }
                    Err(error) => Err(format!("expected \"{message}\", found \"{error}\"")),
                    Ok(_) => Err(format!("expected \"{message}\", and it was linked")),
                }
            }
            WastDirective::AssertMalformed { module, message, .. }
            | WastDirective::AssertInvalid { module, message, .. } => self.refused(module, message),
            WastDirective::AssertMalformedCustom { mut module, message, .. }
            | WastDirective::AssertInvalidCustom { mut module, message, .. } => {
                match module.encode() {
                    Err(_) => Ok(()),
                    Ok(bytes) => {
                        // Custom sections that only the text format knows are ignored.
                        let _ = Module::validate(&self.engine, bytes);
                        Err(format!("expected \"{message}\", and it was accepted"))
                    }
                }
            }
            other => Err(format!("unknown directive {other:?}")),
        }
    }

    fn compile(&self, module: &mut QuoteWat<'_>) -> Result<Module, Error> {
        let bytes = module
            .encode()
            .map_err(|error| Error::Compile(crate::CompileError::Text(error.to_string())))?;
        Module::new(&self.engine, bytes)
    }

    fn instantiate(&mut self, id: Option<String>, module: &Module) -> Checked {
        let instance =
            self.linker.instantiate(&mut self.store, module).map_err(|error| error.to_string())?;
        self.instances.insert(id, instance);
        self.instances.insert(None, instance);
        Ok(())
    }

    fn refused(&self, mut module: QuoteWat<'_>, message: &str) -> Checked {
        match self.compile(&mut module) {
            Err(Error::Compile(
                crate::CompileError::Invalid { .. } | crate::CompileError::Text(_),
            )) => Ok(()),
            Err(error) => Err(format!("expected \"{message}\", found \"{error}\"")),
            Ok(_) => Err(format!("expected \"{message}\", and it was accepted")),
        }
    }

    fn instance(&self, id: Option<Id<'_>>) -> Checked<Instance> {
        self.instances.get(&owned(id)).copied().ok_or_else(|| match id {
            Some(id) => format!("there is no instance ${}", id.name()),
            None => "there is no instance: a module has to come before it".into(),
        })
    }

    fn execute(&mut self, execute: WastExecute<'_>) -> Checked<Result<Vec<Val>, Error>> {
        match execute {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Wat(mut wat) => {
                let bytes = Wat::encode(&mut wat).map_err(|error| error.to_string())?;
                let module = Module::new(&self.engine, bytes).map_err(|error| error.to_string())?;
                Ok(self.linker.instantiate(&mut self.store, &module).map(|_| Vec::new()))
            }
            WastExecute::Get { module, global, .. } => {
                let instance = self.instance(module)?;
                let global =
                    instance.get_global(&mut self.store, global).ok_or("no such global")?;
                Ok(global.get(&mut self.store).map(|value| vec![value]))
            }
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Checked<Result<Vec<Val>, Error>> {
        let instance = self.instance(invoke.module)?;
        let function = instance
            .get_func(&mut self.store, invoke.name)
            .ok_or_else(|| format!("no function {}", invoke.name))?;
        let args = invoke.args.iter().map(argument).collect::<Checked<Vec<_>>>()?;
        Ok(function.call(&mut self.store, &args))
    }

    /// Runs a thread's directives, with its own store and the memories that it shares.
    fn thread(&mut self, thread: &WastThread<'_>) -> Checked {
        let mut memories: Vec<(String, SharedMemory)> = Vec::new();
        if let Some(shared) = thread.shared_module {
            for (name, item) in self.instance(Some(shared))?.exports(&mut self.store) {
                let Extern::Memory(memory) = item else { continue };
                memories.extend(
                    memory.as_shared(&mut self.store).ok().flatten().map(|memory| (name, memory)),
                );
            }
        }
        let (engine, text) = (self.engine.clone(), Arc::clone(&self.text));
        let (name, shared) = (thread.name.name().to_owned(), owned(thread.shared_module));
        let key = name.clone();
        let handle = std::thread::spawn(move || {
            let failed = |message: String| Outcome {
                directives: 0,
                passed: 0,
                failed: vec![Failure { line: 0, message }],
            };
            let work = || {
                let mut runner = Runner::new(&engine, &text)?;
                runner.give(shared, &memories)?;
                parsed(&text, |script| {
                    let its_own =
                        script.directives.into_iter().find_map(|directive| match directive {
                            WastDirective::Thread(thread) if thread.name.name() == name => {
                                Some(thread.directives)
                            }
                            _ => None,
                        });
                    runner.all(its_own.unwrap_or_default());
                })?;
                Ok::<_, Error>(runner.outcome)
            };
            work().unwrap_or_else(|error| failed(error.to_string()))
        });
        self.threads.insert(key, handle);
        Ok(())
    }

    /// Creates an instance under the name of another thread's instance, which exports the memories
    /// that are shared with it.
    fn give(
        &mut self,
        name: Option<String>,
        memories: &[(String, SharedMemory)],
    ) -> Result<(), Error> {
        let mut text = String::from("(module");
        let mut imports = Vec::new();
        for (export, memory) in memories {
            let ty = memory.ty();
            let maximum = ty.maximum.unwrap_or(ty.minimum);
            text += &format!(
                " (memory (export {export:?}) (import \"\" \"\") {} {maximum} shared)",
                ty.minimum
            );
            imports.push(Extern::Memory(crate::Memory::shared(&mut self.store, memory)));
        }
        text.push(')');
        let module = Module::new(&self.engine, text)?;
        let instance = Instance::new(self.store.as_context_mut(), &module, &imports)?;
        self.instances.insert(name, instance);
        self.instances.insert(None, instance);
        Ok(())
    }

    fn join(&mut self, thread: JoinHandle<Outcome>) {
        match thread.join() {
            Ok(outcome) => {
                self.outcome.passed += outcome.passed;
                self.outcome.failed.extend(outcome.failed);
            }
            Err(_) => {
                self.outcome.failed.push(Failure { line: 0, message: "a thread panicked".into() });
            }
        }
    }
}

/// An argument of a call.
fn argument(argument: &WastArg<'_>) -> Checked<Val> {
    let WastArg::Core(argument) = argument else {
        return Err(format!("unknown argument {argument:?}"));
    };
    Ok(match argument {
        WastArgCore::I32(value) => Val::I32(*value),
        WastArgCore::I64(value) => Val::I64(*value),
        WastArgCore::F32(value) => Val::F32(value.bits),
        WastArgCore::F64(value) => Val::F64(value.bits),
        WastArgCore::V128(value) => Val::V128(u128::from_le_bytes(value.to_le_bytes())),
        WastArgCore::RefExtern(number) => Val::ExternRef(Some(ExternRef::new(*number))),
        WastArgCore::RefNull(HeapType::Abstract { ty, .. }) => match ty {
            AbstractHeapType::Extern | AbstractHeapType::NoExtern => Val::ExternRef(None),
            AbstractHeapType::Exn | AbstractHeapType::NoExn => Val::ExnRef(None),
            AbstractHeapType::Func | AbstractHeapType::NoFunc => Val::FuncRef(None),
            _ => Val::AnyNull,
        },
        WastArgCore::RefNull(_) => Val::FuncRef(None),
        other => return Err(format!("unknown argument {other:?}")),
    })
}
