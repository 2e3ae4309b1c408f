//! Converts a syntax tree to a checked program.
//!
//! A probe is checked for each event and mode that its rule matches, because names have different
//! meanings at different events. The checker records what a body has read about an event, and
//! checks the body again only where an answer differs: a rule that matches five hundred
//! instructions usually has one body.

mod builtin;
mod callee;
mod division;
mod expression;
mod probe;
mod scope;
mod statement;
mod stray;

use crate::diagnostic::{Diagnostics, Kind};
use crate::fold;
use crate::hir::{Body, Function, Program, Var, Variable};
use crate::library::Library;
use crate::source::{Source, Span};
use crate::syntax;
use crate::syntax::ast::{FnDef, Item, Name, Script};
use crate::types::Ty;
use scope::{Context, Meaning, Scopes};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The library that is part of the language.
pub(crate) const CORE: u32 = u32::MAX;

/// The library of engines that change probes while they run: `whamm:dyninstr`.
pub(crate) const DYNINSTR: u32 = u32::MAX - 1;

/// The module of that library.
pub(crate) const DYNINSTR_MODULE: &str = "whamm:dyninstr";

pub(crate) struct Checker<'a> {
    libraries: &'a [Library],
    unread: &'a [&'a str],
    said: &'a mut Diagnostics,
    program: Program,
    script: u16,
    rule: u32,
    uses: HashMap<String, u32>,
    functions: HashMap<String, (u32, Vec<Ty>, Ty)>,
    globals: HashMap<String, (Var, Ty)>,
    scopes: Scopes,
    context: Context,
    body: Body,
    loops: u32,
    /// Names with invalid declarations: further errors about them are not reported.
    broken: HashSet<String>,
    /// Unknown names in the current body: each is reported once.
    unknown: HashSet<String>,
    /// The events that an invalid head may refer to.
    strays: HashMap<[String; 2], Rc<stray::Candidates>>,
    /// Whether the body of the current probe has been checked.
    seen: bool,
}

/// Checks scripts independently of each other: each has its own names. Uses of libraries that could
/// not be read are not reported.
pub(crate) fn check(
    sources: &[Source],
    libraries: &[Library],
    unread: &[&str],
    said: &mut Diagnostics,
) -> Program {
    let scripts: Vec<_> = sources
        .iter()
        .enumerate()
        .map(|(n, s)| (n, syntax::parse(u16::try_from(n).unwrap_or(u16::MAX), s, said)))
        .collect();
    let mut checker = Checker {
        libraries,
        unread,
        said,
        program: Program::default(),
        script: 0,
        rule: 0,
        uses: HashMap::new(),
        functions: HashMap::new(),
        globals: HashMap::new(),
        scopes: Scopes::default(),
        context: Context::Start,
        body: Body::default(),
        loops: 0,
        broken: HashSet::new(),
        unknown: HashSet::new(),
        strays: HashMap::new(),
        seen: false,
    };
    for (number, script) in &scripts {
        checker.script = u16::try_from(*number).unwrap_or(u16::MAX);
        checker.script(script);
    }
    checker.program
}

impl Checker<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.said.push(Kind::TypeCheckError, Some(span), message);
    }

    fn error_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.said.push_help(Kind::TypeCheckError, Some(span), message, help);
    }

    fn script(&mut self, script: &Script) {
        self.uses.clear();
        self.functions.clear();
        self.globals.clear();
        self.broken.clone_from(&script.broken);
        for item in &script.items {
            match item {
                Item::Use(name) => self.library(name),
                Item::Fn(def) => self.declare_function(def),
                _ => {}
            }
        }
        self.context = Context::Start;
        self.begin_body(self.program.start_locals.clone());
        let mut start = Vec::new();
        for item in &script.items {
            if let Item::Stmt(stmt) = item {
                start.extend(self.start_stmt(stmt));
            }
        }
        self.divisions_in(&start);
        self.program.start.append(&mut start);
        self.program.start_locals = std::mem::take(&mut self.body).locals;
        for item in &script.items {
            if let Item::Fn(def) = item {
                self.function(def);
            }
        }
        let mut number = 0;
        for item in &script.items {
            if let Item::Probe(probe) = item {
                self.probe(probe, &mut number);
                self.rule += 1;
            }
            if let Item::Stray(block) = item {
                self.stray_block(block);
            }
        }
    }

    fn library(&mut self, name: &Name) {
        let found = self.libraries.iter().position(|l| l.name == name.text);
        let number = match found {
            Some(n) if self.libraries[n].module == DYNINSTR_MODULE => DYNINSTR,
            Some(n) => u32::try_from(n).unwrap_or(CORE),
            None if name.text == "whamm_core" => CORE,
            None if name.text == "dyninstr" => DYNINSTR,
            None => {
                // It is reported once for each library.
                let is_told = !self.broken.insert(name.text.clone());
                if is_told || self.unread.contains(&name.text.as_str()) {
                    return;
                }
                let library = &name.text;
                let help = format!(
                    "give `-u {library}=MODULE` to whamm, or `SCRIPT+{library}.wasm` to wasm-aot"
                );
                self.said.push_help(
                    Kind::GeneralError,
                    Some(name.span),
                    format!("the library `{}` was not given", name.text),
                    help,
                );
                return;
            }
        };
        if self.uses.insert(name.text.clone(), number).is_some() {
            let message = format!("the library `{}` is used already", name.text);
            self.said.push_help(
                Kind::TypeCheckWarning,
                Some(name.span),
                message,
                "say `use` once for each library",
            );
        }
    }

    fn declare_function(&mut self, def: &FnDef) {
        let number = u32::try_from(self.program.functions.len()).unwrap_or(u32::MAX);
        let params: Vec<Ty> = def.params.iter().map(|p| p.ty.clone()).collect();
        for (ty, span) in
            def.params.iter().map(|p| (&p.ty, p.name.span)).chain([(&def.result, def.name.span)])
        {
            if ty.is_open() {
                self.error(
                    span,
                    format!("`{ty}` stands for no type here: functions are not generic"),
                );
            }
        }
        let name: Rc<str> = def.name.text.as_str().into();
        self.program.functions.push(Function {
            name,
            params: 0,
            result: def.result.clone(),
            locals: vec![],
            stmts: vec![],
        });
        let taken = self
            .functions
            .insert(def.name.text.clone(), (number, params, def.result.clone()))
            .is_some();
        if taken || builtin::is_builtin(&def.name.text) {
            let message = format!("there is already a function `{}`", def.name.text);
            self.said.push(Kind::DuplicateIdentifierError, Some(def.name.span), message);
        }
    }

    fn begin_body(&mut self, locals: Vec<Ty>) {
        self.body = Body { locals, ..Body::default() };
        self.unknown.clear();
        self.scopes = Scopes::default();
        self.scopes.enter();
    }

    fn function(&mut self, def: &FnDef) {
        let Some((number, ..)) = self.functions.get(&def.name.text).cloned() else { return };
        self.context = Context::Function(def.result.clone());
        self.begin_body(Vec::new());
        for param in &def.params {
            self.declare_local(&param.name, &param.ty);
        }
        let stmts = self.block(&def.body);
        if !def.result.is_unit() && !statement::always_returns(&def.body) {
            self.error_help(
                def.name.span,
                format!("`{}` may end without a result", def.name.text),
                format!("end every path with `return` and {}", def.result.with_article()),
            );
        }
        self.divisions_in(&stmts);
        let body = std::mem::take(&mut self.body);
        let slot = &mut self.program.functions[number as usize];
        (slot.params, slot.locals, slot.stmts) = (def.params.len(), body.locals, stmts);
    }

    fn declare_local(&mut self, name: &Name, ty: &Ty) -> u32 {
        let number = u32::try_from(self.body.locals.len()).unwrap_or(u32::MAX);
        self.body.locals.push(ty.clone());
        self.declare(name, Var::Local(number), ty);
        number
    }

    /// Declares a variable, unless its name has a meaning already.
    fn declare(&mut self, name: &Name, var: Var, ty: &Ty) {
        let event = matches!(self.meaning(&name.text), Some(Meaning::Event(_)))
            && !scope::is_new(&name.text)
            && !self.context.is_unclear();
        if event {
            let message = self.context.collision(&name.text);
            self.said.push_help(
                Kind::DuplicateIdentifierError,
                Some(name.span),
                message,
                "choose another name",
            );
        } else if self.scopes.innermost(&name.text)
            || (matches!(self.context, Context::Start) && self.globals.contains_key(&name.text))
        {
            self.said.push(
                Kind::DuplicateIdentifierError,
                Some(name.span),
                format!("there is already a variable `{}` here", name.text),
            );
        }
        if matches!(self.context, Context::Start) {
            self.globals.insert(name.text.clone(), (var, ty.clone()));
        } else {
            self.scopes.insert(&name.text, var, ty);
        }
    }

    fn variable(&self, name: &Name, ty: &Ty, report: bool) -> Variable {
        Variable {
            name: name.text.as_str().into(),
            ty: ty.clone(),
            report,
            init: None,
            script: self.script,
            span: name.span,
        }
    }

    fn new_global(&mut self, variable: Variable) -> Var {
        self.program.globals.push(variable);
        Var::Global(u32::try_from(self.program.globals.len() - 1).unwrap_or(u32::MAX))
    }

    fn new_frame(&mut self, mut variable: Variable) -> Var {
        if let Some(init) = variable.init.take() {
            variable.init = Some(fold::pure(init));
        }
        self.program.frames.push(variable);
        Var::Frame(u32::try_from(self.program.frames.len() - 1).unwrap_or(u32::MAX))
    }
}
