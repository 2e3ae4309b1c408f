//! Compiles variants of functions while a module's instances run, a chunk at a time: whole
//! functions, and the OSR entries of their loops.

use super::counting::Counting;
use super::detours::Detours;
use super::function::{Callee, Compiled, Compiler, Setting};
use super::osr::OsrLoops;
use super::plan::Plan;
use super::target::{Sites, Target};
use super::text::Text;
use super::worker_stacks;
use crate::error::CompileError;
use crate::module::{self, Body, ModuleInfo, Reading};
use crate::vm::Layout;
use rayon::prelude::*;
use std::sync::OnceLock;

/// One function, or one OSR entry, of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The defined function.
    pub function: usize,
    /// The loop that it is entered in, by its index in the function and by its number; none for the
    /// function's beginning.
    pub osr_entry: Option<(usize, u32)>,
}

impl Wanted {
    /// The parts of a function: its beginning, and an entry for each loop, as far as requested.
    pub fn of(
        osr_loops: &OsrLoops,
        function: usize,
        begins: bool,
        enters: bool,
    ) -> impl Iterator<Item = Self> + use<> {
        let (loops, first) = osr_loops.of_function(function);
        let entries = (0..if enters { loops.count() } else { 0 })
            .map(move |index| Self { function, osr_entry: Some((index, first + index as u32)) });
        begins.then_some(Self { function, osr_entry: None }).into_iter().chain(entries)
    }
}

/// A code chunk: its text, its functions and OSR entries, and the calls that lead out of it.
#[derive(Debug)]
pub struct CodeChunk {
    /// The code.
    pub text: Text,
    /// Its parts, in the order in which they lie.
    pub parts: Vec<Wanted>,
    /// Calls that lead out of it: the offsets of their distances, and their callees.
    pub elsewhere: Vec<(u32, Callee)>,
}

/// Everything that is computed before the first chunk, except for the module's bytes and its loops
/// with OSR exits.
pub struct Recompilation {
    info: ModuleInfo,
    bodies: Vec<module::Apart>,
    counting: Counting,
    layout: Layout,
    target: Target,
    plan: Plan,
    first_word: u32,
}

impl std::fmt::Debug for Recompilation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recompilation").finish_non_exhaustive()
    }
}

impl Recompilation {
    /// Reads a module that was compiled before, with its own plan, and its loops with OSR exits,
    /// unless those are known; and the detours of attached plans. `before` and `first_word` are how
    /// many words of its instances come before those of counters, and before those of the plan.
    pub fn new(
        bytes: &[u8],
        target: &Target,
        [own, plan]: [&Plan; 2],
        [before, first_word]: [u32; 2],
        osr_loops: &OnceLock<OsrLoops>,
        detours: &Detours,
    ) -> Result<Self, CompileError> {
        let Reading { info, bodies } = module::read(bytes, target.options.features)?;
        let mut counting = worker_stacks::with_threads(|| {
            let counting = if target.options.counts {
                Counting::of(&bodies, target.options.targets, own, detours)?
            } else {
                Counting::default()
            };
            let loops = target.options.sites.contains(Sites::LOOPS);
            let find = || {
                if loops { OsrLoops::of(&info, &bodies, bytes.len()) } else { OsrLoops::default() }
            };
            osr_loops.get_or_init(find);
            Ok::<_, CompileError>(counting)
        })?;
        counting.before = before;
        counting.before_attached = first_word;
        let layout = Layout::new(&info, first_word + plan.words());
        Ok(Self {
            info,
            bodies: bodies.into_iter().map(Body::apart).collect(),
            counting,
            layout,
            target: target.clone(),
            plan: plan.clone(),
            first_word,
        })
    }

    /// How many calls its code counts by target.
    pub(crate) fn calls(&self) -> u32 {
        self.counting.calls()
    }

    /// How many counters its code has.
    pub(crate) fn counters(&self) -> u32 {
        self.counting.len()
    }

    /// Compiles parts, in the order of their functions.
    pub fn compile_chunk(
        &self,
        bytes: &[u8],
        osr_loops: &OsrLoops,
        wanted: &[Wanted],
    ) -> Result<CodeChunk, CompileError> {
        let part = |compiler: &mut Compiler, part: &Wanted| {
            self.part(compiler, &self.bodies[part.function].within(bytes), osr_loops, *part)
        };
        let compiled: Vec<Result<Option<Compiled>, CompileError>> =
            worker_stacks::with_threads(|| {
                wanted.par_iter().map_init(Compiler::default, part).collect()
            });
        let (mut parts, mut codes) = (Vec::new(), Vec::new());
        for (part, compiled) in wanted.iter().zip(compiled) {
            if let Some(compiled) = compiled? {
                parts.push(*part);
                codes.push(compiled);
            }
        }
        let (mut text, elsewhere) =
            Text::chunk(&self.info, &parts, &codes, self.target.options.sites);
        text.plan = self.plan.clone();
        Ok(CodeChunk { text, parts, elsewhere })
    }

    fn part(
        &self,
        compiler: &mut Compiler,
        body: &Body<'_>,
        osr_loops: &OsrLoops,
        part: Wanted,
    ) -> Result<Option<Compiled>, CompileError> {
        let setting = Setting {
            info: &self.info,
            layout: &self.layout,
            target: &self.target,
            counting: &self.counting,
            osr_loops,
            plan: &self.plan,
            first_word: self.first_word,
        };
        let compiled = compiler.code(setting, body, part.osr_entry.map(|(index, _)| index));
        compiled.map_err(|error| error.within(body.index, self.info.function_name(body.index)))
    }
}
