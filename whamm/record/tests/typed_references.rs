//! Programs with references to functions of types in groups, open and final: whatever of them the
//! host provides or gets, and whatever the program does with them, either the program is refused by
//! name, or its rewritten form is valid.

use arbtest::arbitrary::{Result, Unstructured};
use std::fmt::Write as _;
use wasmparser::{Validator, WasmFeatures};
use whamm_record::{Error, Options, record};

/// `$final` and `$open` have no references in their types; `$sub` has a supertype; `$a` and `$b`
/// refer to each other; `$takes` and `$gives` refer to others.
const TYPES: &str = "(type $final (func (param i32) (result i32))) (type $void (func))
    (type $open (sub (func (param i32)))) (type $sub (sub final $open (func (param i32))))
    (rec (type $a (sub (func (param (ref null $b))))) (type $b (func (result (ref null $a)))))
    (type $takes (func (param (ref $final)))) (type $gives (sub (func (result (ref $open)))))";

const NAMES: [&str; 8] = ["final", "void", "open", "sub", "a", "b", "takes", "gives"];

/// Bodies of one function of each type.
const BODIES: [&str; 8] = [
    "(i32.const 5)",
    "",
    "(call $uses (ref.func $f_open))",
    "(call_ref $open (local.get 0) (ref.func $f_sub))",
    "(drop (call_ref $b (ref.as_non_null (local.get 0))))",
    "(ref.func $f_a)",
    "(drop (call_ref $final (i32.const 1) (local.get 0)))",
    "(ref.func $f_sub)",
];

/// Instructions of a function whose local 0 is a `funcref`, and 1 one of the type `T`.
const CODE: [&str; 18] = [
    "(drop (ref.test (ref $T) (local.get 0)))",
    "(drop (ref.test (ref null $T) (local.get 1)))",
    "(local.set 1 (ref.cast (ref null $T) (local.get 0)))",
    "(local.set 1 (ref.cast (ref $T) (local.get 0)))",
    "(drop (block $l (result (ref $T)) (br_on_cast $l funcref (ref $T) (local.get 0)) (return)))",
    "(drop (block $l (result funcref)
        (br_on_cast $l funcref (ref null $T) (local.get 0)) (return)))",
    "(drop (block $l (result funcref)
        (local.set 1 (br_on_cast_fail $l funcref (ref $T) (local.get 0))) (ref.null func)))",
    "(drop (block $l (result (ref func))
        (local.set 1 (br_on_cast_fail $l funcref (ref null $T) (local.get 0))) (return)))",
    "(drop (block $l (result (ref $T)) (br_on_non_null $l (local.get 1)) (return)))",
    "(table.set $table (i32.const 1) (local.get 1)) (table.copy $table $table
        (i32.const 0) (i32.const 1) (i32.const 1))",
    "(local.set 1 (table.get $table (i32.const 1))) (local.set 0 (global.get $global))",
    "(drop (table.grow $table (local.get 1) (i32.const 1)))
        (table.fill $table (i32.const 0) (local.get 1) (i32.const 1))",
    "(table.init $table $segment (i32.const 0) (i32.const 0) (i32.const 1))",
    "(global.set $global (local.get 1))",
    "(local.set 1 (select (result (ref null $T)) (local.get 1) (ref.null $T) (i32.const 1)))",
    "(block (result (ref null $T)) (local.get 1)) (loop (param (ref null $T)) (local.set 1))",
    "(try_table (result (ref null $T)) (throw $tag (i32.const 3) (local.get 1))) (drop)",
    "(table.set $any (i32.const 0) (local.get 1)) (local.set 0 (table.get $any (i32.const 0)))",
];

fn any<'a>(u: &mut Unstructured<'_>, all: &[&'a str]) -> Result<&'a str> {
    u.choose(all).copied()
}

fn program(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = format!("(module {TYPES}\n");
    let position = |u: &mut Unstructured<'_>| {
        let name = any(u, &NAMES)?;
        Ok(match u.int_in_range(0..=3)? {
            0 => format!("(ref ${name})"),
            1 => format!("(ref null ${name})"),
            2 => "funcref".to_owned(),
            _ => "i32".to_owned(),
        })
    };
    let (param, result) = (position(u)?, position(u)?);
    let _ = writeln!(text, "(import \"h\" \"f\" (func $f (param {param}) (result {result})))");
    let ty = any(u, &NAMES)?;
    let public = |u: &mut Unstructured<'_>, name: &str| {
        let is_public = u.arbitrary()?;
        Ok::<_, arbtest::arbitrary::Error>(match is_public {
            true => format!("(export \"{name}\")"),
            false => String::new(),
        })
    };
    let (table, global, any_table, tag) =
        (public(u, "table")?, public(u, "global")?, public(u, "any")?, public(u, "tag")?);
    let _ = writeln!(
        text,
        "(table $table {table} 3 9 (ref null ${ty})) (table $any {any_table} 2 funcref)
        (memory (export \"memory\") 1) (table $filled 2 (ref ${ty}) (ref.func $f_{ty}))
        (global $global {global} (mut (ref null ${ty})) (ref.func $f_{ty}))
        (tag $tag {tag} (param i32 (ref null ${ty})))
        (elem $segment (ref null ${ty}) (ref.func $f_{ty}) (ref.null ${ty}))
        (elem (table $any) (i32.const 0) func $uses)
        (elem declare func $f_final $f_void $f_open $f_sub $f_a $f_b $f_takes $f_gives)
        (func $uses (param (ref $open)) (call_ref $open (i32.const 1) (local.get 0)))"
    );
    for (name, body) in NAMES.iter().zip(BODIES) {
        let export = public(u, name)?;
        let _ = writeln!(text, "(func $f_{name} {export} (type ${name}) {body})");
    }
    let _ = writeln!(text, "(func (export \"run\") (param funcref (ref null ${ty}))");
    for _ in 0..u.int_in_range(1..=6)? {
        let _ = writeln!(text, "{}", any(u, &CODE)?.replace('T', ty));
    }
    let (called, args) = match ty {
        "final" => ("call_ref $final", "(i32.const 1)"),
        "open" => ("return_call_ref $open", "(i32.const 1)"),
        _ => ("call_ref $void", ""),
    };
    let reference = if called.ends_with("void") { "(ref.func $f_void)" } else { "(local.get 1)" };
    let dropped = if ty == "final" { "(drop)" } else { "" };
    let _ = writeln!(text, "({called} {args} {reference}) {dropped})");
    if u.arbitrary()? {
        let _ = writeln!(
            text,
            "(func (export \"out\") (param {param}) (result {result})
                (return_call $f (local.get 0)))"
        );
    }
    let _ = writeln!(
        text,
        "(func (drop (call_indirect $any (type $final) (i32.const 1) (i32.const 0)))))"
    );
    Ok(text)
}

#[test]
fn programs_with_typed_references_are_refused_by_name_or_give_valid_modules() {
    let (mut recorded, mut refused) = (0, 0);
    arbtest::arbtest(|u| {
        let text = program(u)?;
        let module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        for (raw, file) in [(false, None), (true, None), (false, Some("app.r3"))] {
            let file = file.map(str::to_owned);
            let options = Options { raw, file, ..Options::default() };
            match record(&module, &options) {
                Ok(output) => {
                    recorded += 1;
                    let mut validator = Validator::new_with_features(WasmFeatures::all());
                    let valid = validator.validate_all(&output.module);
                    valid.unwrap_or_else(|error| panic!("{error}: {text}"));
                }
                Err(Error::Unsupported(_)) => refused += 1,
                Err(error) => panic!("{error}: {text}"),
            }
        }
        Ok(())
    })
    .budget_ms(1000);
    assert!(recorded > 20 && refused > 0, "{recorded} were recorded, and {refused} refused");
}
