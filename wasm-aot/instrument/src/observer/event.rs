//! Events of the engine that are at no instruction: exports of monitors that begin with `engine:`.
//!
//! ```text
//!     engine:memory_grown (memory, after)
//! ```
//!
//! The events, and the variables that they bind, are in the table of events that scripts are
//! checked by. Only modules that import the marker have such exports; all others may name their
//! functions as they like. As in other exports, a name that is not understood is an error with its
//! place.

use super::name::{Malformed, near};
use super::rule::is_extended;
use wasm_aot_body::events::{Occurrence, Told};
use wasm_aot_body::types::Ty;
use wasm_aot_engine::Val;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};

/// A function that is to be called when an event happens.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    pub(crate) event: Occurrence,
    /// The name of its export.
    pub(crate) export: String,
    /// Its index.
    pub(crate) function: u32,
    /// Which of the event's variables it takes, and with which types.
    pub(crate) params: Vec<(usize, ValType)>,
}

impl Reaction {
    /// Its arguments, from the values that the event binds.
    pub(crate) fn values(&self, told: &[i64]) -> Vec<Val> {
        let value = |(at, ty): &(usize, ValType)| match ty {
            ValType::I64 => Val::I64(told[*at]),
            _ => Val::I32(told[*at] as i32),
        };
        self.params.iter().map(value).collect()
    }
}

/// All reactions of a module, and the errors of those that are malformed.
pub(crate) fn reactions(info: &ModuleInfo) -> (Vec<Reaction>, Vec<Malformed>) {
    let (mut reactions, mut wrong) = (Vec::new(), Vec::new());
    if !is_extended(info) {
        return (reactions, wrong);
    }
    let own = info
        .exports
        .iter()
        .filter(|export| export.space == Space::Func && export.name.starts_with("engine:"));
    for export in own {
        match reaction(info, &export.name, export.index) {
            Ok(reaction) => reactions.push(reaction),
            Err(why) => wrong.push(why),
        }
    }
    (reactions, wrong)
}

fn reaction(info: &ModuleInfo, name: &str, function: u32) -> Result<Reaction, Malformed> {
    let place = |word: &str| (word.as_ptr() as usize - name.as_ptr() as usize, word.len());
    let wrong = |word: &str, why: String| {
        let (at, len) = place(word);
        Malformed { name: name.to_owned(), at: at..at + len.max(1), why, is_unknown: false }
    };
    let rest = name.strip_prefix("engine:").unwrap_or(name);
    let (word, list) =
        rest.split_once('(').map_or((rest.trim(), None), |(word, list)| (word.trim(), Some(list)));
    let Some(event) = Occurrence::all().find(|event| event.name() == word) else {
        let hint = near(word, Occurrence::all().map(Occurrence::name));
        return Err(wrong(word, format!("no such event of the engine{hint}")));
    };
    let list = match list.map(|list| list.trim_end().strip_suffix(')')) {
        None => "",
        Some(Some(list)) => list,
        Some(None) => return Err(wrong(rest, "expected `)` at the end".into())),
    };
    let ty = info.function_type(function);
    let words: Vec<&str> = list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if words.len() != ty.params().len() {
        let (given, taken) = (words.len(), ty.params().len());
        return Err(wrong(
            rest,
            format!("the name gives {given} arguments, and the function takes {taken}"),
        ));
    }
    let (mut params, told) = (Vec::new(), event.told());
    for (word, taken) in words.into_iter().zip(ty.params()) {
        let Some(at) = told.iter().position(|(known, _)| *known == word) else {
            let hint = near(word, told.iter().map(|(known, _)| *known));
            return Err(wrong(word, format!("the event does not have this{hint}")));
        };
        let given = as_handed_over(told[at].1);
        if given != *taken {
            return Err(wrong(word, format!("this is {given}, and the function takes {taken}")));
        }
        params.push((at, *taken));
    }
    Ok(Reaction { event, export: name.to_owned(), function, params })
}

/// The type of a parameter for a variable of an event.
fn as_handed_over(told: Told) -> ValType {
    match told.ty() {
        Ty::U64 | Ty::I64 => ValType::I64,
        _ => ValType::I32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_aot_engine::instrument::Features;

    fn read(export: &str, params: &str) -> (usize, Vec<String>) {
        let text = format!(
            r#"(module (import "wasm-aot:ext" "v1" (func)) (func (export "{export}") {params}))"#
        );
        let bytes = wat::parse_str(&text).expect("it is text");
        let info = wasm_aot_engine::instrument::module::read(&bytes, Features::default())
            .expect("valid")
            .info;
        let (reactions, wrong) = reactions(&info);
        (reactions.len(), wrong.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_an_event_tells_may_be_asked_for_in_any_order() {
        assert_eq!(read("engine:memory_grown (after, memory)", "(param i64 i32)"), (1, vec![]));
        assert_eq!(read("engine:thread_end", ""), (1, vec![]));
        assert_eq!(read("engine", ""), (0, vec![]));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (export, params, said) in [
            ("engine:memory_grow (after)", "(param i64)", "did you mean memory_grown?"),
            ("engine:trap (cod)", "(param i32)", "did you mean code?"),
            ("engine:trap (code)", "(param i64)", "this is i32, and the function takes i64"),
            ("engine:trap (code)", "", "gives 1 arguments, and the function takes 0"),
            ("engine:trap (code", "(param i32)", "expected `)`"),
        ] {
            let (reactions, wrong) = read(export, params);
            assert!(
                reactions == 0
                    && wrong.len() == 1
                    && wrong[0].contains(said)
                    && wrong[0].contains('^'),
                "{wrong:?}"
            );
        }
    }
}
