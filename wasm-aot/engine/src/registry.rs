//! Numbers function types, one number for each in the process, so that a call through a table
//! compares two words.
//!
//! Equal means: the same group of types, position by position, where a reference within the group
//! is relative to the group. That is how the specification compares types that refer to themselves.

use crate::module::ModuleInfo;
use crate::types::FuncType;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of a function type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeId(pub(crate) u32);

/// A group in the form in which it is compared: references within it have this bit and count from
/// its start.
const WITHIN: u32 = 1 << 31;

/// A type, and the text that distinguishes it from a function of that type.
type Declared = (FuncType, String);

#[derive(Default)]
struct Registry {
    groups: HashMap<Vec<Declared>, TypeId>,
    types: Vec<FuncType>,
}

/// Types are never removed: there are few, and machine code contains their numbers.
static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

/// The numbers of a module's types.
pub(crate) fn register(info: &ModuleInfo) -> Vec<TypeId> {
    let mut ids: Vec<TypeId> = Vec::with_capacity(info.types.len());
    let mut registry = REGISTRY.write();
    for group in &info.groups {
        let name = |index: u32| match index < group.start {
            true => ids[index as usize].0,
            false => WITHIN | (index - group.start),
        };
        let members = group.start as usize..group.end as usize;
        let key: Vec<Declared> = members
            .map(|index| (info.types[index].renamed(&name), info.kinds[index].clone()))
            .collect();
        let first = registry.group(key);
        ids.extend((0..group.len() as u32).map(|i| TypeId(first.0 + i)));
    }
    ids
}

/// Returns the number of a type whose concrete types are numbers of the registry already.
pub(crate) fn number(ty: &FuncType) -> TypeId {
    let key = vec![(ty.clone(), String::new())];
    if let Some(id) = REGISTRY.read().groups.get(&key) {
        return *id;
    }
    REGISTRY.write().group(key)
}

/// Returns the type with that number.
pub(crate) fn look_up(id: TypeId) -> FuncType {
    REGISTRY.read().types[id.0 as usize].clone()
}

impl Registry {
    fn group(&mut self, key: Vec<Declared>) -> TypeId {
        if let Some(id) = self.groups.get(&key) {
            return *id;
        }
        let first = self.types.len() as u32;
        let absolute =
            |index: u32| if index & WITHIN != 0 { first + (index & !WITHIN) } else { index };
        self.types.extend(key.iter().map(|(ty, _)| ty.renamed(&absolute)));
        self.groups.insert(key, TypeId(first));
        TypeId(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Features;
    use crate::types::{HeapType, ValType};

    fn ids(text: &str) -> Vec<TypeId> {
        let bytes = wat::parse_str(text).expect("a module");
        register(&crate::module::read(&bytes, Features::default()).expect("valid").info)
    }

    #[test]
    fn equal_types_of_different_modules_have_one_number() {
        let one = ids("(module (type (func (param i32))) (type (func (result f64))))");
        let other = ids(
            "(module (type (func (result f64))) (type (func (param i32))) (type (func (param i32))))",
        );
        assert_eq!((one[0], one[1]), (other[1], other[0]));
        assert_eq!(other[1], other[2]);
        assert_ne!(one[0], one[1]);
    }

    #[test]
    fn types_that_refer_to_themselves_are_equal_wherever_they_stand() {
        let one = ids("(module (type $f (func (param (ref null $f)))))");
        let other = ids(
            "(module (type (func)) (type (func (result i64))) (type $g (func (param (ref null $g)))))",
        );
        assert_eq!(one[0], other[2]);
        let ValType::Ref(reference) = look_up(one[0]).params()[0] else { panic!("a reference") };
        assert_eq!(reference.heap, HeapType::Concrete(one[0].0));
    }

    #[test]
    fn a_type_is_another_in_another_group_or_at_another_position() {
        let alone = ids("(module (type (func)))");
        let pair = ids("(module (rec (type (func)) (type (func))))");
        let three = ids("(module (rec (type (func)) (type (func)) (type (func))))");
        let all = [&alone[..], &pair[..], &three[..]].concat();
        assert!(all.iter().enumerate().all(|(i, id)| !all[..i].contains(id)), "{all:?}");
        assert_eq!(
            pair,
            ids("(module (type (func (param i64))) (rec (type (func)) (type (func))))")[1..]
        );
    }

    #[test]
    fn references_to_types_outside_of_a_group_are_compared_by_what_they_refer_to() {
        let text = |inner: &str| {
            format!("(module (type $i (func {inner})) (type (func (param (ref $i)))))")
        };
        assert_eq!(ids(&text("(param i32)"))[1], ids(&text("(param i32)"))[1]);
        assert_ne!(ids(&text("(param i32)"))[1], ids(&text("(param i64)"))[1]);
    }

    #[test]
    fn a_type_that_was_looked_up_has_the_number_it_had() {
        for id in ids(
            "(module (type $a (func (param i32) (result v128))) (type (func (param (ref null $a) externref))))",
        ) {
            assert_eq!(number(&look_up(id)), id);
        }
    }
}
