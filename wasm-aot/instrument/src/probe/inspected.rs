//! A function that has a probe point at each of its places.

use super::probe_point::ProbePoint;
use super::{Board, InsertedProbe, Place, ProbeError, ProbeId, ProbeKind, body_start};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use wasm_aot_engine::Error;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::compile::{
    Access, Action, Call, Capture, Draft, Mode, Plan, Sequence,
};
use wasm_aot_engine::instrument::module::{self, Reading};
use wasm_aot_engine::instrument::runtime::ModuleInner;
use wasmparser::{FuncValidator, FuncValidatorAllocations, Operator, ValidatorResources};

/// The flag's bits: machine code counts, calls, measures.
pub(super) const COUNTS: u8 = 1;
pub(super) const CALLS: u8 = 2;
pub(super) const MEASURES: u8 = 4;

/// How many classes of magnitude there are: 0, and one for each number of bits.
pub(super) const CLASSES: usize = 65;

/// The most operands that a probe sees.
const OPERANDS: usize = 64;

/// A place of a function, with its types and its access.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) offset: u32,
    pub(super) mode: Mode,
    /// The types of operands, from the top of the stack.
    pub(super) operands: Vec<ValType>,
    pub(super) access: Option<Access>,
}

/// The data of a site that machine code and probes share.
#[derive(Debug, Default)]
pub(super) struct ProbeCell {
    pub(super) flag: AtomicU8,
    pub(super) count: AtomicU64,
    /// The address of the classes, once there is a histogram.
    pub(super) classes: AtomicUsize,
    /// How many operands can be replaced.
    pub(super) writable: AtomicUsize,
}

impl std::fmt::Debug for Inspected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspected").field("function", &self.function).finish_non_exhaustive()
    }
}

/// A function whose places have flags.
pub(super) struct Inspected {
    pub(super) function: u32,
    pub(super) locals: Vec<ValType>,
    pub(super) sites: Vec<Site>,
    /// Shared with the code, which contains their addresses.
    cells: Arc<[ProbeCell]>,
    lists: Vec<RwLock<Arc<[InsertedProbe]>>>,
    histograms: RwLock<HashMap<usize, Arc<[AtomicU64; CLASSES]>>>,
    places: HashMap<(u32, Mode), usize>,
    /// Whether a probe holds the identity of an activation of it, which ends with the activation.
    watched: AtomicBool,
    /// The board of its probes.
    pub(super) board: Arc<Board>,
}

impl Inspected {
    /// Reads a function, and plans a probe point at each of its places. Returns the function too:
    /// it receives the calls of its probe points.
    pub(super) fn new(
        board: Arc<Board>,
        module: &ModuleInner,
        function: u32,
    ) -> Result<(Arc<Self>, Plan), ProbeError> {
        let first = module.info.imported.functions;
        let last = (first + module.info.bodies.len() as u32).saturating_sub(1);
        if function < first || function > last {
            return Err(ProbeError::NoFunction { function, first, last });
        }
        let (locals, sites) = sites(module, function).map_err(Error::from)?;
        let cells: Arc<[ProbeCell]> = sites.iter().map(|_| ProbeCell::default()).collect();
        let places =
            sites.iter().enumerate().map(|(i, site)| ((site.offset, site.mode), i)).collect();
        let lists = sites.iter().map(|_| RwLock::new(Arc::from([]))).collect();
        let mut draft = Draft::default();
        let histograms = RwLock::default();
        let watched = AtomicBool::new(false);
        let cells_of_code = Arc::clone(&cells);
        let inspected = Arc::new(Self {
            function,
            locals,
            sites,
            cells,
            lists,
            histograms,
            places,
            watched,
            board,
        });
        let receiver: Arc<dyn wasm_aot_engine::instrument::compile::Receiver> =
            Arc::<Self>::clone(&inspected);
        draft.add_receiver(Arc::clone(&receiver));
        let start = body_start(module, function);
        for (i, site) in inspected.sites.iter().enumerate() {
            // No code of the function runs when a trap unwinds it.
            if site.mode == Mode::Trap {
                continue;
            }
            let operands = (0..site.operands.len() as u32).map(Capture::Operand);
            // The last one is not a local: it holds the receiver's failure.
            let captures = (0..inspected.locals.len() as u32)
                .map(Capture::Local)
                .chain(operands)
                .chain([Capture::Local(u32::MAX)])
                .collect();
            let call =
                Call { receiver: Arc::clone(&receiver), number: i as u64, captures, writes: true };
            let (owner, cells) = (Arc::clone(&inspected), Arc::clone(&cells_of_code));
            let point = ProbePoint { function: owner, cells, index: i, call };
            let action = Action::Inline(Sequence(Arc::new(point)));
            draft.hook(function, start + site.offset, site.mode, action);
        }
        Ok((inspected, draft.finish()))
    }

    /// The site of a place, if there is one.
    pub(super) fn site(&self, place: Place) -> Option<usize> {
        self.places.get(&(place.offset, place.mode)).copied()
    }

    /// The site of a place.
    pub(super) fn find(&self, place: Place) -> Result<usize, ProbeError> {
        let Place { function, offset, mode } = place;
        if let Some(site) = self.site(place) {
            return Ok(site);
        }
        let begins = |at: u32| {
            self.sites.iter().any(|site| site.offset == at && !site.mode.is_of_function())
        };
        if mode.is_of_function() || begins(offset) {
            return Err(ProbeError::NotThere { function, offset, mode });
        }
        let offsets =
            || self.sites.iter().filter(|site| !site.mode.is_of_function()).map(|site| site.offset);
        let before = offsets().filter(|at| *at < offset).max();
        let after = offsets().filter(|at| *at > offset).min();
        let near = match (before, after) {
            (Some(before), Some(after)) => format!("; the nearest are {before} and {after}"),
            (Some(one), None) | (None, Some(one)) => format!("; the nearest is {one}"),
            (None, None) => String::new(),
        };
        Err(ProbeError::NoInstruction { function, offset, near })
    }

    /// The probes at a site.
    pub(super) fn inserted(&self, site: usize) -> Arc<[InsertedProbe]> {
        Arc::clone(&self.lists[site].read())
    }

    pub(super) fn insert(&self, site: usize, inserted: InsertedProbe) {
        if matches!(inserted.kind, ProbeKind::Histogram) {
            let mut histograms = self.histograms.write();
            let classes = histograms
                .entry(site)
                .or_insert_with(|| Arc::new([const { AtomicU64::new(0) }; CLASSES]));
            self.cells[site].classes.store(classes.as_ptr() as usize, Relaxed);
        }
        // Probes that were inserted first come first, even if others were added to the site before.
        self.change(site, |list| {
            list.insert(list.partition_point(|other| other.id < inserted.id), inserted);
        });
    }

    pub(super) fn remove(&self, site: usize, id: ProbeId) {
        self.change(site, |list| list.retain(|other| other.id != id));
    }

    pub(super) fn switch(&self, site: usize, id: ProbeId, on: bool) {
        self.change(site, |list| {
            list.iter_mut().filter(|other| other.id == id).for_each(|own| own.is_on = on);
        });
    }

    /// Replaces the list of probes at a site, which another thread may be reading.
    fn change(&self, site: usize, change: impl FnOnce(&mut Vec<InsertedProbe>)) {
        {
            let mut list = self.lists[site].write();
            let mut changed = list.to_vec();
            change(&mut changed);
            *list = changed.into();
        }
        self.refresh(site);
    }

    /// Updates the flag from the probes at the site.
    fn refresh(&self, site: usize) {
        let mode = self.sites[site].mode;
        let ends =
            matches!(mode, Mode::Entry | Mode::Exit | Mode::Unwind) && self.watched.load(Relaxed);
        let bits = |inserted: &InsertedProbe| match inserted.kind {
            ProbeKind::Probe(_) | ProbeKind::Flag(_) => CALLS,
            ProbeKind::Counter => COUNTS,
            ProbeKind::Histogram => MEASURES,
        };
        let list = self.lists[site].read();
        let flag = list
            .iter()
            .filter(|inserted| inserted.is_on)
            .map(bits)
            .fold(if ends { CALLS } else { 0 }, |all, bit| all | bit);
        self.cells[site].flag.store(flag, Relaxed);
    }

    /// From now on it is notified when activations end.
    pub(super) fn watch_exits(&self) {
        if !self.watched.swap(true, Relaxed) {
            (0..self.sites.len()).for_each(|site| self.refresh(site));
        }
    }

    pub(super) fn counted(&self, site: usize) -> u64 {
        self.cells[site].count.load(Relaxed)
    }

    pub(super) fn histogram(&self, site: usize) -> Vec<u64> {
        let histograms = self.histograms.read();
        histograms.get(&site).map_or_else(Vec::new, |classes| {
            classes.iter().map(|class| class.load(Relaxed)).collect()
        })
    }

    /// Adds the topmost of a site's operands to its class, if it is a number: given what a call of
    /// the site captures.
    pub(super) fn measure(&self, site: usize, captured: &[[u64; 2]]) {
        if let Some(ValType::I32 | ValType::I64) = self.sites[site].operands.first()
            && let Some([value, _]) = captured.get(self.locals.len())
            && let Some(classes) = self.histograms.read().get(&site)
        {
            classes[64 - value.leading_zeros() as usize].fetch_add(1, Relaxed);
        }
    }

    /// How many operands can be replaced.
    pub(super) fn writable(&self, site: usize) -> usize {
        self.cells[site].writable.load(Relaxed)
    }
}

/// The types of a function's locals, and all places of it.
fn sites(
    module: &ModuleInner,
    function: u32,
) -> Result<(Vec<ValType>, Vec<Site>), wasm_aot_engine::CompileError> {
    let Reading { info, bodies } = module::read(&module.bytes, module.options.features)?;
    let body = bodies
        .into_iter()
        .nth((function - info.imported.functions) as usize)
        .expect("compared before");
    let start = body_start(module, function);
    let ty = info.function_type(function);
    let mut locals = ty.params().to_vec();
    let mut validator = body.validate.into_validator(FuncValidatorAllocations::default());
    let mut declared = body.body.get_locals_reader()?;
    for _ in 0..declared.get_count() {
        let at = declared.original_position();
        let (count, ty) = declared.read()?;
        validator.define_locals(at, count, ty)?;
        locals.extend(std::iter::repeat_n(module::operand_type(ty), count as usize));
    }
    let none = |mode, operands| Site { offset: 0, mode, operands, access: None };
    let results: Vec<ValType> = ty.results().iter().rev().copied().take(OPERANDS).collect();
    let mut sites = vec![
        none(Mode::Entry, Vec::new()),
        none(Mode::Exit, results),
        none(Mode::Unwind, Vec::new()),
        none(Mode::Trap, Vec::new()),
    ];
    let mut reader = body.body.get_operators_reader()?;
    while !reader.eof() {
        let (op, at) = reader.read_with_offset()?;
        let before = operands(&validator);
        validator.op(at, &op)?;
        let after = operands(&validator);
        let offset = at as u32 - start;
        let lands = matches!(op, Operator::Loop { .. } | Operator::End | Operator::Delegate { .. });
        let access = Access::of(&op);
        let site = |mode, operands| Site { offset, mode, operands, access };
        sites.push(site(Mode::Before, if lands { after.clone() } else { before }));
        sites.push(site(Mode::After, after));
        if let Operator::Br { .. } | Operator::BrIf { .. } | Operator::BrTable { .. } = op {
            sites.push(site(Mode::BackEdge, Vec::new()));
        }
    }
    Ok((locals, sites))
}

/// The types of operands that are known, from the top of the stack.
fn operands(validator: &FuncValidator<ValidatorResources>) -> Vec<ValType> {
    let known = (0..(validator.operand_stack_height() as usize).min(OPERANDS))
        .map_while(|at| validator.get_operand_type(at).flatten());
    known.map(module::operand_type).collect()
}
