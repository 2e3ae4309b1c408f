//! Reports: rows for the values of variables.
//!
//! Rows of sites come from tables that the run-time support iterates over; the few rows of globals
//! have code of their own, because their texts are known.

use super::code::Emitter;
use super::storage::{Storage, WORD};
use super::support::Support;
use crate::hir::{Variable, numbered_maps};
use crate::types::Ty;

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Rows with commas, under a heading.
    #[default]
    Csv,
    /// One object per line.
    Json,
}

/// The owner of a variable's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Sites of one event, which is part of the probe's identity.
    Site,
    /// Activations.
    Frame,
    /// Sites of several instructions: the address of their numbers.
    Instructions(u32),
}

/// The place of a type's rows among those of sites: types in their order, tuples and maps by name.
pub(crate) fn type_order(ty: &Ty) -> (u32, String) {
    (ty.rank(), ty.to_string())
}

/// The rows of globals in the order of the report: numbers and texts by name, then maps by name.
/// With each comes the number that identifies its row: the global of the module, or, for maps,
/// which of the maps it is.
pub(crate) fn global_order<'a>(
    variables: &'a [Variable],
    storages: &[Storage],
) -> Vec<(&'a Variable, Storage, u32)> {
    let is_map = |variable: &Variable| matches!(variable.ty, Ty::Map(_));
    let mut all: Vec<_> = variables.iter().zip(storages).collect();
    all.sort_by_key(|(v, _)| (v.script, is_map(v), v.name.clone()));
    let mut maps = 0..;
    let mut rows = Vec::new();
    for (variable, &storage) in all {
        let number = match storage {
            Storage::Globals(first) => first,
            _ if is_map(variable) => maps.next().unwrap_or(0),
            _ => 0,
        };
        if variable.report {
            rows.push((variable, storage, number));
        }
    }
    rows
}

/// The description of a variable that rows of sites refer to: eleven numbers.
pub(crate) fn description(
    support: &mut Support,
    variable: &Variable,
    probe: &str,
    owner: Owner,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(support.pair(&variable.name));
    bytes.extend(support.pair(&variable.ty.to_string()));
    bytes.extend(support.pair(&variable.ty.wasm_name()));
    bytes.extend(support.pair(probe));
    bytes.extend(support.descriptor_at(&variable.ty).to_le_bytes());
    bytes.extend(u32::from(variable.script).to_le_bytes());
    let owner = match owner {
        Owner::Site => 0,
        Owner::Frame => 1,
        Owner::Instructions(at) => at,
    };
    bytes.extend(owner.to_le_bytes());
    bytes
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// The texts of a global's row before and after its value.
fn global_row(variable: &Variable, number: u32, format: Format) -> (String, &'static str) {
    let slots = u32::try_from(variable.ty.slots().len()).unwrap_or(1);
    let kind = if matches!(variable.ty, Ty::Map(_)) { "map_id" } else { "global_id" };
    let several = |one: &dyn Fn(u32) -> String| {
        let all: Vec<String> = (0..slots).map(one).collect();
        if all.len() == 1 { all[0].clone() } else { format!("({})", all.join("; ")) }
    };
    let (ids, kinds) = (several(&|n| (number + n).to_string()), several(&|_| kind.into()));
    let (ty, wasm, script) = (variable.ty.to_string(), variable.ty.wasm_name(), variable.script);
    match format {
        Format::Csv => (
            format!(
                "{ids}, {kinds}, {}, {ty}, {wasm}, script{script}, , , , , ",
                quoted(&variable.name)
            ),
            "\n",
        ),
        Format::Json => {
            let name = serde_json::Value::from(&*variable.name);
            let row = format!(
                "{{\"id\":\"{ids}\",\"id_type\":\"{kind}\",\"name\":{name},\"type\":\"{ty}\",\"wasm\":\"{wasm}\",\"script\":\"script{script}\",\"value\":"
            );
            (row, "}\n")
        }
    }
}

impl Emitter<'_> {
    fn say(&mut self, text: &str) {
        let at = self.support.text(text);
        let puts = self.support.runtime("puts");
        self.put()
            .i32_const(at.cast_signed())
            .i32_const(i32::try_from(text.len()).unwrap_or(0))
            .call(puts);
    }

    /// The heading, if the format has one.
    pub(crate) fn heading(&mut self, format: Format) {
        if format == Format::Csv {
            self.say(wasm_aot_body::report::HEADING);
        }
    }

    /// Writes the row of a variable with a single instance.
    pub(crate) fn global_row(
        &mut self,
        variable: &Variable,
        storage: Storage,
        number: u32,
        format: Format,
    ) {
        let (before, after) = global_row(variable, number, format);
        self.say(&before);
        let words = self.support.bytes(&vec![0; variable.ty.slots().len() * WORD as usize], 8);
        let descriptor = self.support.descriptor_at(&variable.ty);
        self.load(storage, &variable.ty);
        self.store(Storage::Memory(None, words), &variable.ty);
        let put = self.support.runtime("put_value");
        self.put().i32_const(descriptor.cast_signed()).i32_const(words.cast_signed()).call(put);
        self.say(after);
    }

    /// Flushes the output.
    pub(crate) fn finish_report(&mut self) {
        let flush = self.support.runtime("flush");
        self.put().call(flush);
    }
}

/// Allocates global variables: maps first, in the order of their numbers, which the core library
/// has for them, too.
pub(crate) fn places(support: &mut Support, variables: &[Variable]) -> Vec<Storage> {
    let mut places = vec![None; variables.len()];
    let maps = numbered_maps(variables);
    for i in maps.into_iter().chain(0..variables.len()) {
        if places[i].is_none() {
            places[i] = Some(place(support, &variables[i], Support::globals));
        }
    }
    places.into_iter().flatten().collect()
}

/// Allocates a global or shared variable: in new globals or counters, or at an address if it is a
/// map.
pub(crate) fn place(
    support: &mut Support,
    variable: &Variable,
    new: impl Fn(&mut Support, &[(wasm_encoder::ValType, i64)]) -> u32,
) -> Storage {
    if let Ty::Map(_) = variable.ty {
        return Storage::Constant(support.map(&variable.ty));
    }
    let init = variable.init.as_ref();
    let values = init.map(|e| constants(support, e)).unwrap_or_default();
    let value = |i: usize| values.get(i).copied().unwrap_or(0);
    let slots: Vec<_> =
        variable.ty.slots().into_iter().enumerate().map(|(i, slot)| (slot, value(i))).collect();
    Storage::Globals(new(support, &slots))
}

/// The slots of a constant, as bits.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are the value")]
pub(crate) fn constants(support: &mut Support, e: &crate::hir::Expr) -> Vec<i64> {
    use crate::hir::ExprKind as K;
    match &e.kind {
        K::Int(n) => vec![*n as i64],
        K::Bool(b) => vec![i64::from(*b)],
        K::Float(x) if e.ty == Ty::F32 => vec![i64::from((*x as f32).to_bits())],
        K::Float(x) => vec![x.to_bits() as i64],
        K::Str(s) => vec![i64::from(support.text(s)), s.len() as i64],
        K::Tuple(parts) => parts.iter().flat_map(|p| constants(support, p)).collect(),
        _ => vec![0; e.ty.slots().len()],
    }
}
