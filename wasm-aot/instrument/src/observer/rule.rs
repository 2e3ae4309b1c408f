//! Rules: checks what the names of a module's exports ask for against the parameters of its
//! functions.

use super::name::{self, Asked, Call, Chosen, Event, Leaves, Malformed, Name, Param};
use std::collections::BTreeMap;
use std::ops::Range;
use wasm_aot_body::events::{self, Instruction, Mode};
use wasm_aot_body::types::Ty;
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasm_aot_engine::{FuncType, ValType};

/// What a module imports that wants more than every engine of the family has.
pub(crate) const MARKER: (&str, &str) = ("wasm-aot:ext", "v1");

/// A function that wants to be called.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The name of its export.
    pub(crate) export: String,
    /// Its index.
    pub(crate) function: u32,
    pub(crate) event: Event,
    pub(crate) mode: Mode,
    pub(crate) predicate: Option<Helper>,
    pub(crate) params: Vec<Given>,
    /// What it leaves in place of an instruction, if it says so.
    pub(crate) leaves: Option<Leaves<Chosen<Helper>>>,
}

impl Rule {
    /// Whether the names say the same: they differ in blanks only.
    pub(crate) fn is_variant_of(&self, other: &Self) -> bool {
        let letters = |rule: &Self| {
            let name = rule.export.bytes().filter(|b| !b.is_ascii_whitespace());
            name.collect::<Vec<u8>>()
        };
        self.export == other.export || letters(self) == letters(other)
    }
}

/// A parameter: what is asked for, and as what it is taken. Texts are two numbers.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) what: What,
    pub(crate) ty: ValType,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Plain(Asked),
    /// The address of a text.
    Text(Asked),
    /// The length of the text whose address is given before.
    Length,
    Called(Helper),
}

/// A function that is called when a site is matched.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    pub(crate) name: String,
    pub(crate) function: u32,
    pub(crate) params: Vec<(Asked, ValType)>,
}

/// Whether a module wants more than every engine of the family has.
pub(crate) fn is_extended(info: &ModuleInfo) -> bool {
    info.imports.iter().any(|import| (import.module.as_str(), import.name.as_str()) == MARKER)
}

/// All rules of a module, in the order of its exports, and everything that is wrong with the
/// others.
pub(crate) fn rules(info: &ModuleInfo) -> (Vec<Rule>, Vec<Malformed>) {
    let extended = is_extended(info);
    let functions = functions(info);
    let (mut rules, mut wrong) = (Vec::new(), Vec::new());
    for export in info.exports.iter().filter(|export| name::is_probe(&export.name)) {
        if export.space != Space::Func {
            let at = 0..export.name.len();
            let (name, why) =
                (export.name.clone(), "only functions can be called at events".into());
            wrong.push(Malformed { name, at, why, is_unknown: false });
            continue;
        }
        let reading = Reading { info, functions: &functions, name: &export.name };
        match name::parse(&export.name, extended).and_then(|name| reading.rule(&name, export.index))
        {
            Ok(rule) => rules.push(rule),
            Err(why) => wrong.push(why),
        }
    }
    (rules, wrong)
}

/// The rule of a function that is no export: what it asks for in a name of its own. Everything that
/// we have may be asked for.
pub(crate) fn rule(info: &ModuleInfo, name: &str, function: u32) -> Result<Rule, Malformed> {
    let functions = functions(info);
    let reading = Reading { info, functions: &functions, name };
    name::parse(name, true).and_then(|name| reading.rule(&name, function))
}

/// The functions that a module exports.
fn functions(info: &ModuleInfo) -> BTreeMap<&str, u32> {
    let exports = info.exports.iter().filter(|export| export.space == Space::Func);
    exports.map(|export| (export.name.as_str(), export.index)).collect()
}

/// A name while it is compared with the module.
struct Reading<'a> {
    info: &'a ModuleInfo,
    functions: &'a BTreeMap<&'a str, u32>,
    name: &'a str,
}

impl Reading<'_> {
    fn wrong(&self, at: &Range<usize>, why: impl Into<String>) -> Malformed {
        Malformed { name: self.name.to_owned(), at: at.clone(), why: why.into(), is_unknown: false }
    }

    fn rule(&self, name: &Name, function: u32) -> Result<Rule, Malformed> {
        let all = 0..self.name.len();
        let predicate =
            name.predicate.as_ref().map(|param| self.predicate(name, param)).transpose()?;
        let ty = self.info.function_type(function);
        if name.leaves.as_ref().is_some_and(|leaves| leaves.decides)
            && ty.results().last() != Some(&ValType::I32)
        {
            let why = "what decides gives an i32 at last, and the function does not";
            return Err(self.wrong(&all, why));
        }
        let mut taken = ty.params().iter();
        let mut params = Vec::new();
        for param in &name.params {
            self.is_offered(name, param)?;
            let what = match &param.asked {
                Asked::Call(call) => What::Called(self.helper(name, call, &param.at)?),
                asked if fixed(asked) == Some(TEXT) => What::Text(asked.clone()),
                asked => What::Plain(asked.clone()),
            };
            let offered = match &what {
                What::Text(_) | What::Length => Some(ValType::I32),
                What::Called(helper) => match self.info.function_type(helper.function).results() {
                    [result] => Some(*result),
                    results => {
                        let why = format!(
                            "{} gives {} results, and a parameter is one",
                            helper.name,
                            results.len()
                        );
                        return Err(self.wrong(&param.at, why));
                    }
                },
                What::Plain(asked) => offered(name.event, asked).map(|types| types[0]),
            };
            let length = matches!(what, What::Text(_)).then_some(What::Length);
            for what in [what].into_iter().chain(length) {
                let Some(ty) = taken.next() else {
                    return Err(self.wrong(&all, self.differs(name, ty)));
                };
                if offered.is_some_and(|offered| !offered.matches(*ty))
                    || matches!(ty, ValType::Ref(_)) && offered.is_none()
                {
                    let offered =
                        offered.map_or_else(|| "a number".into(), |offered| offered.to_string());
                    let why = format!("this is {offered}, and the function takes {ty}");
                    return Err(self.wrong(&param.at, why));
                }
                params.push(Given { what, ty: *ty });
            }
        }
        match taken.next() {
            None => Ok(Rule {
                export: self.name.to_owned(),
                function,
                event: name.event,
                mode: name.mode,
                predicate,
                params,
                leaves: self.leaves(name)?,
            }),
            Some(_) => Err(self.wrong(&all, self.differs(name, ty))),
        }
    }

    fn differs(&self, name: &Name, ty: &FuncType) -> String {
        let texts = name.params.iter().filter(|param| fixed(&param.asked) == Some(TEXT)).count();
        format!(
            "the name gives {} arguments, and the function takes {}",
            name.params.len() + texts,
            ty.params().len()
        )
    }

    fn predicate(&self, name: &Name, param: &Param) -> Result<Helper, Malformed> {
        let Asked::Call(call) = &param.asked else {
            return Err(self.wrong(&param.at, "a predicate is a call"));
        };
        let helper = self.helper(name, call, &param.at)?;
        match self.info.function_type(helper.function).results() {
            [ValType::I32] => Ok(helper),
            _ => Err(self.wrong(
                &param.at,
                format!("a predicate gives i32, and {} does not", call.function),
            )),
        }
    }

    /// What a function leaves, with the functions of the monitor that choose the callees.
    fn leaves(&self, name: &Name) -> Result<Option<Leaves<Chosen<Helper>>>, Malformed> {
        let chosen = |chosen: &Chosen<Param>| match chosen {
            Chosen::Fixed(callee) => Ok(Chosen::Fixed(callee.clone())),
            Chosen::AtMatch(param) => self.chooser(name, param).map(Chosen::AtMatch),
        };
        let Some(leaves) = &name.leaves else { return Ok(None) };
        let calls = leaves.calls.iter().map(chosen).collect::<Result<_, _>>()?;
        Ok(Some(leaves.with(calls)))
    }

    fn chooser(&self, name: &Name, param: &Param) -> Result<Helper, Malformed> {
        let Asked::Call(call) = &param.asked else {
            return Err(self.wrong(&param.at, "a callee is chosen by a call"));
        };
        let helper = self.helper(name, call, &param.at)?;
        match self.info.function_type(helper.function).results() {
            [ValType::I32] | TEXT => Ok(helper),
            _ => {
                let why = "gives neither an index, an i32, nor a name, which is two of them";
                Err(self.wrong(&param.at, format!("{} {why}", call.function)))
            }
        }
    }

    fn helper(&self, name: &Name, call: &Call, at: &Range<usize>) -> Result<Helper, Malformed> {
        let Some(function) = self.functions.get(call.function.as_str()) else {
            let hint = name::near(&call.function, self.functions.keys().copied());
            return Err(
                self.wrong(at, format!("the module exports no function {}{hint}", call.function))
            );
        };
        let ty = self.info.function_type(*function);
        let (mut taken, mut params, mut given) = (ty.params().iter(), Vec::new(), 0);
        for param in &call.params {
            self.is_offered(name, param)?;
            let types = offered(name.event, &param.asked)
                .map_or(vec![None], |types| types.iter().copied().map(Some).collect());
            for (i, offered) in types.into_iter().enumerate() {
                given += 1;
                let Some(ty) = taken.next() else { continue };
                if offered.is_some_and(|offered| offered != *ty) || matches!(ty, ValType::Ref(_)) {
                    let offered =
                        offered.map_or_else(|| "a number".into(), |offered| offered.to_string());
                    return Err(self.wrong(
                        &param.at,
                        format!("this is {offered}, and {} takes {ty}", call.function),
                    ));
                }
                if i == 0 {
                    params.push((param.asked.clone(), *ty));
                }
            }
        }
        match given == ty.params().len() {
            true => Ok(Helper { name: call.function.clone(), function: *function, params }),
            false => {
                let why = format!(
                    "{} takes {} values, and is given {given}",
                    call.function,
                    ty.params().len()
                );
                Err(self.wrong(at, why))
            }
        }
    }

    /// Whether the event has what is asked for, as far as the event alone shows. At all
    /// instructions together, those are meant that have it.
    fn is_offered(&self, name: &Name, param: &Param) -> Result<(), Malformed> {
        let op = match name.event {
            Event::Any => return Ok(()),
            Event::Opcode(op) => Some(op),
            _ => None,
        };
        let of = |names: &[&str]| op.is_some_and(|op| names.contains(&op.name));
        let (offered, owners) = match &param.asked {
            Asked::Trap => (
                false,
                "the rewriting target knows whether an instruction is going to trap: it can be given",
            ),
            Asked::Offset | Asked::Memory | Asked::Align | Asked::MemoryBytes => (
                op.is_some_and(|op| op.accessed().is_some()),
                "instructions that access memory have",
            ),
            Asked::NumTargets | Asked::DefaultTarget | Asked::Targets => {
                (of(&["br_table"]), "br_table has")
            }
            Asked::InstrCount => (name.event == Event::BlockEnd, "block:end has"),
            Asked::TargetFnName | Asked::TargetFnType | Asked::TargetImpModule => {
                (of(&["call", "return_call"]), "direct calls have")
            }
            Asked::RefTaken => {
                let tests = ["br_on_null", "br_on_non_null", "br_on_cast", "br_on_cast_fail"];
                (of(&tests), "branches on references have")
            }
            Asked::ResolvedFid => (
                of(&[
                    "call_indirect",
                    "return_call_indirect",
                    "call_ref",
                    "return_call_ref",
                    "table.get",
                    "table.set",
                ]),
                "instructions that use functions of tables or references have",
            ),
            Asked::Res(_) => (name.mode == Mode::After, "what is called after instructions has"),
            Asked::Opname | Asked::Arg(_) | Asked::Imm(_) => (op.is_some(), "instructions have"),
            _ => (true, ""),
        };
        if !offered {
            return Err(self.wrong(&param.at, format!("only {owners} this")));
        }
        match op.filter(|op| signature(op, &param.asked) == Some(None)) {
            None => Ok(()),
            Some(op) => Err(self.wrong(&param.at, format!("{} has no {}", op.name, param.asked))),
        }
    }
}

/// Texts are an address and a length.
const TEXT: &[ValType] = &[ValType::I32, ValType::I32];

/// The types of what is asked for, where they are known without a program.
fn offered(event: Event, asked: &Asked) -> Option<&'static [ValType]> {
    let of_event = || match event {
        Event::Opcode(op) => signature(op, asked).flatten(),
        _ => None,
    };
    fixed(asked).or_else(of_event)
}

/// The type of an operand, result or immediate, or that there is none: of an instruction that is
/// the same in every program.
fn signature(op: &'static Instruction, asked: &Asked) -> Option<Option<&'static [ValType]>> {
    let is_of_signature = matches!(asked, Asked::Arg(_) | Asked::Res(_) | Asked::Imm(_));
    if !is_of_signature || !op.has_one_signature() {
        return None;
    }
    let listed = events::Event::Opcode(op).variable(&asked.to_string());
    Some(listed.map(|definition| match definition.ty {
        Ty::I64 | Ty::U64 => &[ValType::I64][..],
        Ty::F32 => &[ValType::F32],
        Ty::F64 => &[ValType::F64],
        _ => &[ValType::I32],
    }))
}

/// The types of what is asked for, where they are always the same.
fn fixed(asked: &Asked) -> Option<&'static [ValType]> {
    Some(match asked {
        Asked::Arg(_) | Asked::Imm(_) | Asked::Local(_) | Asked::Res(_) | Asked::Call(_) => {
            return None;
        }
        Asked::Fname
        | Asked::Opname
        | Asked::TargetFnName
        | Asked::TargetFnType
        | Asked::TargetImpModule
        | Asked::File
        | Asked::Targets => TEXT,
        Asked::Offset | Asked::MemoryBytes => &[ValType::I64],
        Asked::Frame => &[ValType::Ref(wasm_aot_engine::RefType {
            nullable: true,
            heap: wasm_aot_engine::HeapType::Extern,
        })],
        _ => &[ValType::I32],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_aot_engine::instrument::Features;

    fn read(text: &str) -> (Vec<Rule>, Vec<String>) {
        let bytes = wat::parse_str(text).expect("it is text");
        let info = wasm_aot_engine::instrument::module::read(&bytes, Features::default())
            .expect("valid")
            .info;
        let (rules, wrong) = rules(&info);
        (rules, wrong.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rules_come_in_the_order_of_exports_and_know_their_types() {
        let (rules, wrong) = read(
            r#"(module (func $h (export "$1") (param i32 i32 i32) (result i32) (i32.const 0))
                (func (export "wasm:opcode:i32.load / $1(fname, pc) / ($1(fname, fid), offset, arg0)") (param i32 i64 i32))
                (func (export "wasm:func:entry") (result i32) (i32.const 1)) (func (export "wasm:exit")))"#,
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(rules.iter().map(|rule| rule.params.len()).collect::<Vec<_>>(), [3, 0]);
        assert_eq!(
            rules[0].params.iter().map(|given| given.ty).collect::<Vec<_>>(),
            [ValType::I32, ValType::I64, ValType::I32]
        );
    }

    #[test]
    fn functions_that_choose_callees_return_an_index_or_a_name() {
        let chooser = |results: &str| {
            let text = format!(
                r#"(module (import "wasm-aot:ext" "v1" (func))
                (func (export "$f") (param i32) {results} (unreachable))
                (func (export "wasm:opcode:call:alt (pc) {{decides, $f(imm0), 3}}") (param i32)
                    (result i32) (unreachable)))"#
            );
            read(&text)
        };
        for results in ["(result i32)", "(result i32 i32)"] {
            let (rules, wrong) = chooser(results);
            let calls = rules[0].leaves.as_ref().map(|leaves| leaves.calls.len());
            assert_eq!((calls, wrong.len()), (Some(2), 0), "{results}: {wrong:?}");
        }
        for results in ["", "(result i64)"] {
            let (rules, wrong) = chooser(results);
            assert!(rules.is_empty() && wrong[0].contains("neither an index"), "{wrong:?}");
        }
    }

    #[test]
    fn what_depends_on_the_program_is_compared_with_its_sites_only() {
        for export in [
            "i32.load (arg0)",
            "i32.store (arg1)",
            "i32.store (arg0)",
            "call (arg5)",
            "local.set (arg0)",
            "drop (arg0)",
            "br_if (arg1)",
            "i32x4.add (arg0)",
            "memory.copy (arg2)",
            "ref.as_non_null (arg1)",
        ] {
            let (rules, wrong) =
                read(&format!(r#"(module (func (export "wasm:opcode:{export}") (param i64)))"#));
            assert!(rules.len() == 1 && wrong.is_empty(), "{export}: {wrong:?}");
        }
    }

    #[test]
    fn what_a_function_takes_is_compared_with_what_its_name_gives() {
        for (export, why) in [
            ("wasm:opcode:call (pc, fid)", "gives 2 arguments, and the function takes 1"),
            ("wasm:opcode:call", "gives 0 arguments, and the function takes 1"),
            ("wasm:opcode:i32.load (offset)", "this is i64, and the function takes i32"),
            ("wasm:opcode:call ($g(pc))", "exports no function $g: did you mean $f?"),
            ("wasm:opcode:call ($f(pc))", "$f takes 0 values, and is given 1"),
            ("wasm:opcode:call ($f())", "$f gives 0 results"),
            ("wasm:opcode:call / $f() / (pc)", "a predicate gives i32"),
            ("wasm:opcode:call (offset)", "only instructions that access memory have this"),
            ("wasm:opcode:call (num_targets)", "only br_table has this"),
            ("wasm:func:entry (arg0)", "only instructions have this"),
            ("wasm:block:start (instr_count)", "only block:end has this"),
            ("wasm:opcode:i32.add (arg2)", "i32.add has no arg2"),
            ("wasm:opcode:i32.add (imm0)", "i32.add has no imm0"),
            ("wasm:opcode:i32.const (imm1)", "i32.const has no imm1"),
            ("wasm:opcode:nop (arg0)", "nop has no arg0"),
            ("wasm:opcode:i64.add (arg0)", "this is i64, and the function takes i32"),
            ("wasm:opcode:f32.const (imm0)", "this is f32, and the function takes i32"),
            ("wasm:opcode:f64.const ($i(imm0))", "this is f64, and $i takes i32"),
        ] {
            let (rules, wrong) = read(&format!(
                r#"(module (func (export "$f"))
                    (func (export "$i") (param i32) (result i32) (local.get 0))
                    (func (export "{export}") (param i32)) (memory (export "wasm:x") 1))"#
            ));
            assert!(rules.is_empty() && wrong.len() == 2, "{export}: {wrong:?}");
            assert!(wrong[0].contains(why) && wrong[0].contains('^'), "{export}: {}", wrong[0]);
        }
    }
}
