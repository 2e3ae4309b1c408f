//! The plan, which the second pass makes: a list of insertions, not applied yet.

use crate::Error;
use crate::decode::{Body, Program};
use crate::indices::Indices;
use crate::source_map::SourceMap;
use std::collections::BTreeMap;
use std::ops::Range;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    ConstExpr, EntityType, ExportKind, Function, GlobalType, InstructionSink, MemoryType, ValType,
};

/// A plan for a program: insertions into its bodies, and items added after its own functions,
/// globals and memories.
#[derive(Debug)]
pub struct Plan {
    /// Maps the program's indices, which move when imports are added.
    pub indices: Indices,
    /// The types of what `indices` imports: its functions, then its memories.
    pub imports: Vec<(String, String, EntityType)>,
    /// Types of functions, by parameters and results.
    pub types: Vec<(Vec<ValType>, Vec<ValType>)>,
    /// The ranges of these types, in order, that are recursion groups. A type in a group of several
    /// differs from all types outside of such a group.
    pub groups: Vec<Range<usize>>,
    /// The supertypes that types in these groups have among the program's own types.
    pub supertypes: BTreeMap<usize, u32>,
    /// Functions, with the indices of their types.
    pub functions: Vec<(u32, Function)>,
    /// Memories.
    pub memories: Vec<MemoryType>,
    /// Globals, and their initial values.
    pub globals: Vec<(GlobalType, ConstExpr)>,
    /// Initial contents of memories: memory, address and bytes.
    pub data: Vec<(u32, i32, Vec<u8>)>,
    /// Exports.
    pub exports: Vec<(String, ExportKind, u32)>,
    /// Functions whose references are taken by code that was added.
    pub declared: Vec<u32>,
    /// Names of exported functions of the program, and the functions exported instead.
    pub rerouted: BTreeMap<String, u32>,
    /// The function that runs when the module is instantiated.
    pub start: Option<u32>,
    /// Names of added functions.
    pub names: Vec<(u32, String)>,
    /// The program's source map, if it is to be kept.
    pub source_map: Option<SourceMap>,
    /// Custom sections, by name.
    pub customs: Vec<(String, Vec<u8>)>,
    /// The new body of each of the program's own functions.
    pub bodies: Vec<BodyPlan>,
}

impl Plan {
    /// A plan that leaves a program unchanged, but has no bodies yet: these are added one by one,
    /// see [`BodyPlan::unchanged`].
    pub fn new(program: &Program<'_>) -> Self {
        let indices = Indices::new(program);
        let start = program.start;
        Self {
            indices,
            imports: Vec::new(),
            types: Vec::new(),
            groups: Vec::new(),
            supertypes: BTreeMap::new(),
            functions: Vec::new(),
            memories: Vec::new(),
            globals: Vec::new(),
            data: Vec::new(),
            exports: Vec::new(),
            declared: Vec::new(),
            rerouted: BTreeMap::new(),
            start,
            names: Vec::new(),
            source_map: None,
            customs: Vec::new(),
            bodies: Vec::new(),
        }
    }
}

/// A place in a plan, after everything that was planned before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    code: usize,
    steps: usize,
}

/// An instruction of the program in a plan.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The amount of added code before it.
    pub(crate) code: usize,
    /// Its place in the program.
    pub(crate) place: Range<u64>,
    /// Whether it is copied, or only its place is recorded.
    pub(crate) is_kept: bool,
}

/// The plan of a body, in order: instructions of the program, with added code between them.
///
/// It is written from the beginning to the end. Only a counter for a straight-line region, whose
/// increment is known at the region's end, is [inserted later](Self::insert) at the [`Spot`] where
/// the region begins.
#[derive(Clone, Debug, Default)]
pub struct BodyPlan {
    /// The locals beyond the parameters, by number and type: the program's first.
    pub locals: Vec<(u32, ValType)>,
    /// The added code, in order; appended code follows the last instruction that was kept.
    pub code: Vec<u8>,
    pub(crate) steps: Vec<Step>,
    pub(crate) later: Vec<(Spot, Vec<u8>)>,
}

impl BodyPlan {
    /// Copies a body without changes.
    pub fn unchanged(body: &Body<'_>) -> Result<Self, Error> {
        let mut plan = Self::empty(body)?;
        body.instructions()?.into_iter().for_each(|instruction| plan.keep(instruction.place));
        Ok(plan)
    }

    /// The beginning of a body: its locals, without code.
    pub fn empty(body: &Body<'_>) -> Result<Self, Error> {
        let ty = |ty| RoundtripReencoder.val_type(ty).map_err(Error::from);
        let locals = body.locals()?.into_iter().map(|(count, of)| Ok((count, ty(of)?)));
        Ok(Self { locals: locals.collect::<Result<_, Error>>()?, ..Self::default() })
    }

    /// Appends code here.
    pub fn put(&mut self) -> InstructionSink<'_> {
        InstructionSink::new(&mut self.code)
    }

    /// Appends the instruction of the program with these bytes.
    pub fn keep(&mut self, place: Range<u64>) {
        self.steps.push(Step { code: self.code.len(), place, is_kept: true });
    }

    /// Leaves the instruction out; debug information for it refers to the next one.
    pub fn leave_out(&mut self, place: Range<u64>) {
        self.steps.push(Step { code: self.code.len(), place, is_kept: false });
    }

    /// The current place. Instructions left out here follow code that is inserted here.
    pub fn here(&self) -> Spot {
        let code = self.code.len();
        let left_out = |step: &&Step| !step.is_kept && step.code == code;
        let steps = self.steps.len() - self.steps.iter().rev().take_while(left_out).count();
        Spot { code, steps }
    }

    /// Inserts code at an earlier place, after code that was inserted there before.
    pub fn insert(&mut self, spot: Spot, code: Vec<u8>) {
        self.later.push((spot, code));
    }

    /// The insertions, in order: the instruction that follows, or none after the last one; and the
    /// code.
    pub fn insertions(&self) -> Vec<(Option<Range<u64>>, Vec<u8>)> {
        let mut list: Vec<(Option<Range<u64>>, Vec<u8>)> = Vec::new();
        let mut pending = Vec::new();
        self.in_order(|part| match part {
            Part::Own(code) => pending.extend_from_slice(code),
            Part::Step(step) => {
                if !pending.is_empty() {
                    list.push((Some(step.place.clone()), std::mem::take(&mut pending)));
                }
            }
        });
        if !pending.is_empty() {
            list.push((None, pending));
        }
        list
    }

    /// Visits the plan in order.
    pub(crate) fn in_order<'p>(&'p self, mut each: impl FnMut(Part<'p>)) {
        let mut later: Vec<&(Spot, Vec<u8>)> = self.later.iter().collect();
        later.sort_by_key(|(spot, _)| *spot);
        let end = Spot { code: self.code.len(), steps: self.steps.len() };
        let (mut code, mut steps) = (0, 0);
        let mut go_to = |spot: Spot, each: &mut dyn FnMut(Part<'p>)| {
            for step in &self.steps[steps..spot.steps] {
                each(Part::Own(&self.code[code..step.code]));
                each(Part::Step(step));
                code = step.code;
            }
            each(Part::Own(&self.code[code..spot.code]));
            (code, steps) = (spot.code, spot.steps);
        };
        for (spot, own) in later {
            go_to(*spot, &mut each);
            each(Part::Own(own));
        }
        go_to(end, &mut each);
    }
}

/// A part of a plan.
pub(crate) enum Part<'p> {
    Own(&'p [u8]),
    Step(&'p Step),
}
