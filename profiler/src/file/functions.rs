//! Writes functions and stacks of a profile to columns, and reads them.

use super::FileError;
use super::columns::{Column, KINDS, Reader, Writer};
use crate::figure::How;
use crate::{
    Arc, Callee, Exemplar, Figure, FuncId, Function, Histogram, Label, Profile, Stack, Timed,
};
use std::collections::HashMap;

/// The number of figures of a function. They are written in an order in which figures that often
/// equal others come first.
const FIGURES: usize = 9;
/// The first kinds of numbers: each figure has three.
const SEEN: usize = 3 * FIGURES;
const LEAST: usize = SEEN + 1;
const MOST: usize = SEEN + 2;
const WEIGHT: usize = SEEN + 3;
const SHARE: usize = SEEN + 4;
const TIME: usize = SEEN + 5;
const INSTANT: usize = SEEN + 6;
const INSIDE: usize = SEEN + 7;
const _: () = assert!(INSIDE < KINDS);

/// The form of a figure: two bits of a function's shape.
const NONE: u64 = 0;
const WHOLE: u64 = 1;
const EXACT: u64 = 2;
const ESTIMATED: u64 = 3;

/// Bits of the shape after those of the figures.
const IS_UNSEEN: u64 = 1 << (2 * FIGURES);
const HAS_MIN: u64 = IS_UNSEEN << 1;
const HAS_MAX: u64 = IS_UNSEEN << 2;
const HAS_FILE: u64 = IS_UNSEEN << 3;
const HAS_LINE: u64 = IS_UNSEEN << 4;
const IS_BY_RUNTIME: u64 = IS_UNSEEN << 5;

/// Whole numbers up to here are the same in both forms.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

fn figures(function: &Function) -> [Option<Figure>; FIGURES] {
    let timed = &function.timed;
    let Function { calls, mean, total, own, cpu, wall, .. } = *function;
    [Some(calls), timed.total, timed.mean, timed.own, wall, mean, total, own, cpu]
}

fn form(figure: Option<Figure>) -> u64 {
    match figure {
        None => NONE,
        Some(Figure { how: How::Estimated { .. }, .. }) => ESTIMATED,
        Some(Figure { value, .. }) => {
            let is_whole = value.fract() == 0.0 && (0.0..LARGEST_WHOLE).contains(&value);
            if is_whole && value.is_sign_positive() { WHOLE } else { EXACT }
        }
    }
}

/// Writes the functions and the stacks of a profile.
pub(super) fn write(profile: &Profile, out: &mut Writer) {
    let mut callers = Callers::of(profile);
    out.number(Column::Place, profile.functions.len() as u64);
    let mut before = Before::default();
    for function in &profile.functions {
        out.begin();
        write_function(function, &mut before, out);
        write_calls(function, &mut callers, &mut before, out);
    }
    out.number(Column::Call, callers.others.len() as u64);
    let mut before = Before::default();
    for label in &callers.others {
        write_label(label, &mut before, out);
        out.number(Column::Shape, shape_of(label));
    }
    out.number(Column::Stack, profile.stacks.len() as u64);
    for stack in &profile.stacks {
        out.begin();
        out.number(Column::Stack, stack.frames.len() as u64);
        stack.frames.iter().for_each(|at| out.number(Column::Stack, (*at).into()));
        out.real(TIME, stack.time);
        out.number(Column::Count, stack.samples);
    }
}

/// The values of the previous function, which are close to the next one's.
#[derive(Debug, Default)]
struct Before {
    id: u64,
    offset: u64,
    site: u64,
    thread: u64,
}

fn shape_of(label: &Label) -> u64 {
    label.file.as_ref().map_or(0, |_| HAS_FILE) | label.line.map_or(0, |_| HAS_LINE)
}

fn write_label(label: &Label, before: &mut Before, out: &mut Writer) {
    out.name(&label.name);
    out.number(Column::Place, label.module.map_or(0, |module| u64::from(module) + 1));
    out.near(Column::Place, label.offset, before.offset);
    before.offset = label.offset;
    if let Some(file) = &label.file {
        out.text(file.as_bytes());
    }
    if let Some(line) = label.line {
        out.number(Column::Place, line.into());
    }
}

fn write_function(function: &Function, before: &mut Before, out: &mut Writer) {
    let figures = figures(function);
    let forms = figures.iter().enumerate().map(|(at, figure)| form(*figure) << (2 * at));
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let shape = forms.fold(shape_of(&function.label), |shape, form| shape | form)
        | flag(function.unseen, IS_UNSEEN)
        | flag(function.by_runtime, IS_BY_RUNTIME)
        | flag(function.min.is_some(), HAS_MIN)
        | flag(function.max.is_some(), HAS_MAX);
    out.number(Column::Shape, shape);
    let id = u64::from(function.id.0);
    out.near(Column::Place, id, before.id);
    before.id = id;
    write_label(&function.label, before, out);
    out.number(Column::Count, function.samples);
    out.number(Column::Count, function.lost);
    out.real(SEEN, function.timed.seen);
    for (at, figure) in figures.iter().enumerate() {
        let Some(figure) = figure else { continue };
        match (form(Some(*figure)), figure.interval()) {
            (WHOLE, _) => out.number(Column::Count, figure.value as u64),
            (ESTIMATED, (lo, hi)) => {
                [figure.value, lo, hi]
                    .iter()
                    .enumerate()
                    .for_each(|(end, value)| out.real(3 * at + end, *value));
            }
            _ => out.real(3 * at, figure.value),
        }
    }
    for (kind, value) in [(LEAST, function.min), (MOST, function.max)] {
        if let Some(value) = value {
            out.real(kind, value);
        }
    }
}

fn write_calls<'a>(
    function: &'a Function,
    callers: &mut Callers<'a>,
    before: &mut Before,
    out: &mut Writer,
) {
    let buckets = function.histogram.buckets();
    out.number(Column::Bucket, buckets.len() as u64);
    let mut latest = 0;
    for (bucket, weight) in buckets {
        out.near(Column::Bucket, (*bucket).into(), latest);
        latest = (*bucket).into();
        out.real(WEIGHT, *weight);
    }
    out.number(Column::Call, function.arcs.len() as u64);
    for arc in &function.arcs {
        out.near(Column::Call, arc.site, before.site);
        before.site = arc.site;
        out.number(Column::Count, arc.samples);
        out.real(SHARE, arc.share);
        out.number(
            Column::Call,
            arc.caller.as_ref().map_or(0, |caller| callers.number(caller) + 1),
        );
    }
    out.number(Column::Stack, function.exemplars.len() as u64);
    for exemplar in &function.exemplars {
        out.real(TIME, exemplar.time);
        out.real(INSTANT, exemplar.at);
        let thread = exemplar.thread as u64;
        out.near(Column::Stack, thread, before.thread);
        before.thread = thread;
        out.number(Column::Stack, exemplar.inside.len() as u64);
        for callee in &exemplar.inside {
            out.near(Column::Stack, callee.function.0.into(), before.id);
            out.number(Column::Count, callee.calls);
            out.real(INSIDE, callee.time);
        }
    }
}

/// The numbers of callers: most callers are functions of the profile; the numbers of others follow.
struct Callers<'a> {
    functions: &'a [Function],
    /// Positions of functions in the order of modules and offsets.
    order: Vec<(u32, u64, u32)>,
    others: Vec<&'a Label>,
    numbers: HashMap<&'a Label, u64>,
}

impl<'a> Callers<'a> {
    fn of(profile: &'a Profile) -> Self {
        let functions = &profile.functions;
        let place = |(at, function): (usize, &Function)| {
            let label = &function.label;
            label.module.map(|module| (module, label.offset, at as u32))
        };
        let mut order: Vec<_> = functions.iter().enumerate().filter_map(place).collect();
        order.sort_unstable();
        Self { functions, order, others: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, label: &'a Label) -> u64 {
        if let Some(module) = label.module {
            let first =
                self.order.partition_point(|(of, at, _)| (*of, *at) < (module, label.offset));
            if let Some((_, _, at)) = self.order.get(first)
                && self.functions[*at as usize].label == *label
            {
                return (*at).into();
            }
        }
        let next = (self.functions.len() + self.others.len()) as u64;
        *self.numbers.entry(label).or_insert_with(|| {
            self.others.push(label);
            next
        })
    }
}

/// Reads functions and stacks into a profile that has none.
pub(super) fn read(from: &mut Reader<'_>, profile: &mut Profile) -> Result<(), FileError> {
    let count: u64 = from.number(Column::Place)?;
    let mut before = Before::default();
    // The numbers of callers, one for each arc.
    let mut callers = Vec::new();
    for _ in 0..count {
        from.begin();
        let mut function = read_function(&mut before, from)?;
        read_calls(&mut function, &mut callers, &mut before, from)?;
        profile.functions.push(function);
    }
    let mut others = Vec::new();
    let mut before = Before::default();
    for _ in 0..from.number(Column::Call)? {
        let shape = from.number(Column::Shape)?;
        others.push(read_label(shape, &mut before, from)?);
    }
    name_callers(&mut profile.functions, &others, &callers, from.names)?;
    for _ in 0..from.number(Column::Stack)? {
        from.begin();
        let frames = from.number(Column::Stack)?;
        let frames = (0..frames).map(|_| from.small(Column::Stack)).collect::<Result<_, _>>()?;
        let (time, samples) = (from.real(TIME)?, from.number(Column::Count)?);
        profile.stacks.push(Stack { frames, time, samples });
    }
    Ok(())
}

fn read_label(shape: u64, before: &mut Before, from: &mut Reader<'_>) -> Result<Label, FileError> {
    let name = from.name()?;
    let module = from.number(Column::Place)?.checked_sub(1);
    let offset = from.near(Column::Place, before.offset)?;
    before.offset = offset;
    let file = if shape & HAS_FILE == 0 { None } else { Some(from.text()?) };
    let file = file.map(|file| str::from_utf8(file).map(str::to_owned)).transpose();
    Ok(Label {
        name,
        module: module.map(u32::try_from).transpose().map_err(|_| FileError::Damaged)?,
        offset,
        file: file.map_err(|_| FileError::Damaged)?,
        line: if shape & HAS_LINE == 0 { None } else { Some(from.small(Column::Place)?) },
    })
}

fn read_function(before: &mut Before, from: &mut Reader<'_>) -> Result<Function, FileError> {
    let shape = from.number(Column::Shape)?;
    let id = from.near(Column::Place, before.id)?;
    before.id = id;
    let mut function = Function::uncalled(FuncId(id.try_into().map_err(|_| FileError::Damaged)?));
    function.label = read_label(shape, before, from)?;
    function.unseen = shape & IS_UNSEEN != 0;
    function.by_runtime = shape & IS_BY_RUNTIME != 0;
    (function.samples, function.lost) = (from.number(Column::Count)?, from.number(Column::Count)?);
    let seen = from.real(SEEN)?;
    let mut figures = [None; FIGURES];
    for (at, figure) in figures.iter_mut().enumerate() {
        *figure = match (shape >> (2 * at)) & ESTIMATED {
            NONE => None,
            WHOLE => Some(Figure::exact(from.number(Column::Count)? as f64)),
            EXACT => Some(Figure::exact(from.real(3 * at)?)),
            _ => {
                let [value, lo, hi] = [3 * at, 3 * at + 1, 3 * at + 2].map(|kind| from.real(kind));
                Some(Figure { value: value?, how: How::Estimated { lo: lo?, hi: hi? } })
            }
        };
    }
    let [calls, total, mean, own, ..] = figures;
    function.calls = calls.ok_or(FileError::Damaged)?;
    function.timed = Timed { seen, mean, total, own };
    let [.., wall, mean, total, own, cpu] = figures;
    (function.wall, function.mean, function.cpu) = (wall, mean, cpu);
    (function.total, function.own) = (total, own);
    function.min = (shape & HAS_MIN != 0).then(|| from.real(LEAST)).transpose()?;
    function.max = (shape & HAS_MAX != 0).then(|| from.real(MOST)).transpose()?;
    Ok(function)
}

fn read_calls(
    function: &mut Function,
    callers: &mut Vec<u64>,
    before: &mut Before,
    from: &mut Reader<'_>,
) -> Result<(), FileError> {
    let (mut buckets, mut latest) = (Vec::new(), 0);
    for _ in 0..from.number(Column::Bucket)? {
        latest = from.near(Column::Bucket, latest)?;
        let bucket = u16::try_from(latest).map_err(|_| FileError::Damaged)?;
        buckets.push((bucket, from.real(WEIGHT)?));
    }
    function.histogram = Histogram::of(buckets);
    for _ in 0..from.number(Column::Call)? {
        let site = from.near(Column::Call, before.site)?;
        before.site = site;
        let (samples, share) = (from.number(Column::Count)?, from.real(SHARE)?);
        callers.push(from.number(Column::Call)?);
        function.arcs.push(Arc { site, samples, share, caller: None });
    }
    for _ in 0..from.number(Column::Stack)? {
        let (time, at) = (from.real(TIME)?, from.real(INSTANT)?);
        let thread = from.near(Column::Stack, before.thread)?;
        before.thread = thread;
        let mut inside = Vec::new();
        for _ in 0..from.number(Column::Stack)? {
            let callee = from.near(Column::Stack, before.id)?;
            inside.push(Callee {
                function: FuncId(callee.try_into().map_err(|_| FileError::Damaged)?),
                calls: from.number(Column::Count)?,
                time: from.real(INSIDE)?,
            });
        }
        function.exemplars.push(Exemplar { time, thread: thread as i32, at, inside });
    }
    Ok(())
}

/// Sets the callers of arcs, as long as the names have no more than this many bytes; further
/// callers stay unknown.
fn name_callers(
    functions: &mut [Function],
    others: &[Label],
    callers: &[u64],
    mut room: usize,
) -> Result<(), FileError> {
    let labels: Vec<Option<Label>> = callers
        .iter()
        .map(|number| {
            let Some(at) = number.checked_sub(1) else { return Ok(None) };
            let at = usize::try_from(at).map_err(|_| FileError::Damaged)?;
            let own = functions.get(at).map(|function| &function.label);
            let label = own.or_else(|| others.get(at.checked_sub(functions.len())?));
            let label = label.ok_or(FileError::Damaged)?;
            let left = room.checked_sub(label.name.len());
            room = left.unwrap_or(room);
            Ok(left.map(|_| label.clone()))
        })
        .collect::<Result<_, FileError>>()?;
    let arcs = functions.iter_mut().flat_map(|function| &mut function.arcs);
    arcs.zip(labels).for_each(|(arc, label)| arc.caller = label);
    Ok(())
}
