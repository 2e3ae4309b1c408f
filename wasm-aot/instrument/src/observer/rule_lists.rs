//! The rules of a monitor, ordered for matching: by the events that they are for, and by what they
//! ask for.

use super::name::{Asked, Event};
use super::rule::{Given, Helper, Rule, What};
use super::site::Site;
use std::sync::Arc;
use wasm_aot_body::events::Mode;

/// Numbers of rules, in the order of exports.
pub(super) type List = Arc<[u16]>;

/// The rules of a monitor, by the events that they are for.
pub(super) struct RuleLists {
    /// By mode: the rules of each instruction of the table of events.
    opcodes: Vec<(Mode, Vec<List>)>,
    none: List,
    pub(super) entry: List,
    pub(super) exit: List,
    pub(super) unwind: List,
    pub(super) start: List,
    pub(super) end: List,
}

impl RuleLists {
    pub(super) fn of(rules: &[Rule]) -> Self {
        let of = |is: &dyn Fn(&Rule) -> bool| -> List {
            (0u16..).zip(rules).filter(|(_, rule)| is(rule)).map(|(number, _)| number).collect()
        };
        let at = |event: Event| of(&|rule| rule.event == event);
        let mut opcodes: Vec<(Mode, Vec<List>)> = Vec::new();
        for rule in rules.iter().filter(|rule| matches!(rule.event, Event::Any | Event::Opcode(_)))
        {
            if opcodes.iter().any(|(mode, _)| *mode == rule.mode) {
                continue;
            }
            let of_mode = of(&|other| other.mode == rule.mode);
            let is_for = |number: &u16, instruction: usize| match rules[usize::from(*number)].event
            {
                Event::Any => true,
                Event::Opcode(op) => op.index == instruction,
                _ => false,
            };
            let own = |instruction| {
                of_mode.iter().copied().filter(|number| is_for(number, instruction)).collect()
            };
            opcodes.push((
                rule.mode,
                (0..wasm_aot_body::events::instructions().len()).map(own).collect(),
            ));
        }
        Self {
            opcodes,
            none: Arc::default(),
            entry: at(Event::FuncEntry),
            exit: at(Event::FuncExit),
            unwind: at(Event::FuncUnwind),
            start: at(Event::BlockStart),
            end: at(Event::BlockEnd),
        }
    }

    /// Rules of an instruction, in the order of exports.
    pub(super) fn of_site(&self, site: &Site<'_>, mode: Mode) -> List {
        let of_mode = self.opcodes.iter().find(|(other, _)| *other == mode);
        let own = of_mode.zip(site.event).map(|((_, lists), event)| &lists[event.index]);
        Arc::clone(own.unwrap_or(&self.none))
    }
}

/// What rules ask for that takes time to find out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) operands: bool,
    pub(super) results: bool,
    pub(super) lines: bool,
}

impl Wanted {
    pub(super) fn by(rules: &[Rule]) -> Self {
        let asks = |is: fn(&Asked) -> bool| {
            let helper = |helper: &Helper| helper.params.iter().any(|(asked, _)| is(asked));
            let param = |given: &Given| match &given.what {
                What::Plain(asked) | What::Text(asked) => is(asked),
                What::Called(called) => helper(called),
                What::Length => false,
            };
            rules.iter().any(|rule| {
                rule.params.iter().any(param) || rule.predicate.as_ref().is_some_and(helper)
            })
        };
        let stands = rules.iter().any(|rule| rule.mode == Mode::Alt);
        Self {
            operands: asks(|asked| matches!(asked, Asked::Arg(_))) || stands,
            results: asks(|asked| matches!(asked, Asked::Res(_))) || stands,
            lines: asks(|asked| matches!(asked, Asked::File | Asked::Line)),
        }
    }
}
