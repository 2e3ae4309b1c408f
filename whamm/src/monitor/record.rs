//! Records: a monitor's data about each site, created before the site's first event.

use super::group::Group;
use super::name::{self, Helper};
use super::{Chain, Maker, RECORD, frames};
use crate::emit::cells::SiteRow;
use crate::emit::code::{Emitter, Scope, written};
use crate::emit::report::{self, Owner};
use crate::emit::storage::{Storage, WORD, word};
use crate::events::Bound;
use crate::hir::{Expr, Variable};
use crate::types::Ty;
use std::collections::BTreeMap;
use wasm_encoder::ValType;

/// Texts that the engine overwrites at the next site.
const FLEETING: [Bound; 5] =
    [Bound::File, Bound::Targets, Bound::TargetFnName, Bound::TargetFnType, Bound::TargetImpModule];

/// The offsets in a record of texts and numbers that every site has.
const TEXTS: [(Bound, u32); 2] = [(Bound::Fname, 8), (Bound::Opname, 24)];
const NUMBERS: [(Bound, u32); 2] = [(Bound::Fid, 16), (Bound::Pc, 20)];

impl<'a> Maker<'a> {
    /// Defines the function that creates the record of a site; returns its parameters too.
    pub(super) fn record(
        &mut self,
        group: &Group<'a>,
        row: Option<&SiteRow>,
        settled: Option<Chain>,
    ) -> Helper {
        let chain = match self.chain {
            Some(chain) => chain,
            None => *self.chain.insert((
                self.support.global(ValType::I32, 0),
                self.support.global(ValType::I32, 0),
            )),
        };
        let several = group.events.len() > 1;
        let kind = if several {
            let numbers = self.support.bytes(&group.numbers(), 4);
            self.kind(group, "_wasm:opcode:", Owner::Instructions(numbers))
        } else {
            self.kind(group, &group.identity(), Owner::Site)
        };
        let rows = row.map(|row| {
            (row, *self.rows.get_or_insert_with(|| self.support.global(ValType::I32, 0)))
        });
        let given = given(group, row);
        let size = RECORD + group.words() * WORD;
        let (sites, inits) = (group.sites.clone(), group.inits.clone());
        let places = group.places(RECORD);
        let (index, _) = self.function("record", false, &given, vec![ValType::I32], |e, scope| {
            let record = e.locals.keep(ValType::I32);
            let (alloc, intern) = (e.support.runtime("alloc"), e.support.runtime("intern"));
            match row {
                Some(row) => e.size_with(row),
                None => written(e.put().i32_const(size.cast_signed())),
            }
            e.put().call(alloc).local_tee(record).i32_const(kind.cast_signed());
            let memory = e.support.layout().memory;
            e.put().i32_store(word(4, memory));
            e.describe(scope, record, intern);
            for (variable, place) in sites.iter().zip(&places) {
                let place = match place {
                    Storage::Memory(_, offset) => Storage::Memory(Some(record), *offset),
                    place => *place,
                };
                e.begin(variable, place);
            }
            if let Some((row, chain)) = rows
                && let Some(Storage::Memory(_, map)) = places.get(row.variable as usize)
            {
                e.begin_row(row, record, *map, chain);
            }
            for call in &inits {
                e.expr(call);
                call.ty.slots().iter().for_each(|_| {
                    e.put().drop();
                });
            }
            if let Some(Chain { first, at, .. }) = settled {
                e.put().local_get(record).global_get(first).i32_store(word(at, memory));
                e.put().local_get(record).global_set(first);
            }
            frames::append(e, chain, record);
        });
        self.helpers.insert(index);
        (index, given)
    }

    /// The common part of a group's records: their variables, as the report shows them.
    pub(super) fn kind(&mut self, group: &Group<'a>, probe: &str, owner: Owner) -> u32 {
        let mut bytes = Vec::new();
        let mut count = 0u32;
        for (variable, place) in group.sites.iter().zip(group.places(RECORD)) {
            let Storage::Memory(_, offset) = place else { continue };
            if variable.report {
                let order = report::type_order(&variable.ty);
                let rank = self.types.iter().position(|known| *known == order).unwrap_or(0);
                bytes.extend(u32::try_from(rank).unwrap_or(0).to_le_bytes());
                bytes.extend(offset.to_le_bytes());
                bytes.extend(report::description(&mut self.support, variable, probe, owner));
                count += 1;
            }
        }
        let all: Vec<u8> = count.to_le_bytes().into_iter().chain(bytes).collect();
        self.support.bytes(&all, 4)
    }
}

/// The parameters of the function that creates the record of a site.
fn given(group: &Group<'_>, row: Option<&SiteRow>) -> BTreeMap<Bound, Ty> {
    let inits = group.sites.iter().filter_map(|s| s.init.as_ref()).chain(&group.inits);
    let asked: Vec<&Expr> = inits.chain(row.map(|row| &row.largest)).collect();
    let mut given = name::given(
        &asked,
        &[(Bound::Fname, Ty::Str), (Bound::Fid, Ty::U32), (Bound::Pc, Ty::U32)],
    );
    if group.events.len() > 1 {
        given.insert(Bound::Opname, Ty::Str);
    }
    given
}

impl Emitter<'_> {
    /// Writes the site's place into a record, and interns the texts that the engine has passed.
    fn describe(&mut self, scope: &Scope, record: u32, intern: u32) {
        let memory = self.support.layout().memory;
        let at = |bound: Bound| match scope.bounds.get(&bound) {
            Some(Storage::Locals(local)) => *local,
            _ => 0,
        };
        let is_given = |bound: &Bound| scope.bounds.contains_key(bound);
        for bound in FLEETING.into_iter().filter(is_given) {
            self.intern(at(bound), intern);
        }
        for (bound, offset) in TEXTS.into_iter().filter(|(bound, _)| is_given(bound)) {
            let text = at(bound);
            self.intern(text, intern);
            self.put().local_get(record).local_get(text).i32_store(word(offset, memory));
            self.put().local_get(record).local_get(text + 1).i32_store(word(offset + 4, memory));
        }
        for (bound, offset) in NUMBERS {
            self.put().local_get(record).local_get(at(bound)).i32_store(word(offset, memory));
        }
    }

    /// Interns a text that is in two locals.
    fn intern(&mut self, text: u32, intern: u32) {
        self.put().local_get(text).local_get(text + 1).call(intern).local_set(text);
    }

    /// Initialises a variable of a new record.
    fn begin(&mut self, variable: &Variable, place: Storage) {
        match &variable.init {
            Some(init) => self.expr(init),
            None if matches!(variable.ty, Ty::Map(_)) => self.zero(&variable.ty),
            None => return,
        }
        self.store(place, &variable.ty);
    }
}
