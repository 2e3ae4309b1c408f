//! Instructions of all proposals, as the text format spells them: for messages about those that
//! this engine lacks.

use wasmparser::Operator;

/// Defines which method of a visitor handles each operator: the method has the operator's name,
/// with `_` where the text has `.`.
macro_rules! define_visited {
    ($( @$proposal:ident $op:ident $({ $($arg:ident: $argty:ty),* })? => $visit:ident ($($ann:tt)*) )*) => {
        fn visited(operator: &Operator<'_>) -> &'static str {
            match operator {
                $( Operator::$op { .. } => stringify!($visit), )*
                _ => "visit_unknown",
            }
        }
    };
}
wasmparser::for_each_operator!(define_visited);

/// First words of names in which a dot follows.
const PREFIXES: [&str; 27] = [
    "i32", "i64", "f32", "f64", "v128", "i8x16", "i16x8", "i32x4", "i64x2", "f32x4", "f64x2",
    "local", "global", "table", "memory", "ref", "struct", "array", "elem", "data", "any",
    "extern", "i31", "atomic", "cont", "stack", "typed",
];

/// The name of an instruction, without its immediates.
pub(crate) fn instruction_name(operator: &Operator<'_>) -> String {
    let name = visited(operator);
    let name = name.strip_prefix("visit_").unwrap_or(name);
    // The binary format has several operators for one spelling in the text format.
    let name = match name {
        "typed_select" | "typed_select_multi" => "select",
        "ref_test_non_null" | "ref_test_nullable" => "ref_test",
        "ref_cast_non_null" | "ref_cast_nullable" => "ref_cast",
        _ => name,
    };
    let Some((first, rest)) = name.split_once('_').filter(|(first, _)| PREFIXES.contains(first))
    else {
        return name.to_owned();
    };
    let rest = match rest.strip_prefix("atomic_") {
        Some(rest) => {
            let dotted = rest.strip_prefix("rmw").and_then(|rest| rest.split_once('_'));
            dotted.map_or_else(
                || format!("atomic.{rest}"),
                |(width, rest)| format!("atomic.rmw{width}.{rest}"),
            )
        }
        None => rest.to_owned(),
    };
    format!("{first}.{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_text_format() {
        let text = "(module (memory 1 1 shared) (table 1 externref) (type $s (struct (field i32)))
            (func (param i32) (result i32) (local externref)
                (drop (select (result i32) (i32.const 1) (i32.const 2) (local.get 0)))
                (drop (i32.load8_s (i32.const 0)))
                (drop (i32.atomic.rmw8.add_u (i32.const 0) (i32.const 1)))
                (drop (i64.atomic.load16_u (i32.const 0)))
                (drop (memory.atomic.notify (i32.const 0) (i32.const 1)))
                (drop (i32x4.extract_lane 1 (v128.const i64x2 1 2)))
                (drop (ref.cast (ref i31) (ref.i31 (i32.const 4))))
                (drop (struct.new $s (i32.const 1)))
                (drop (struct.new_default $s))
                (atomic.fence)
                (br_if 0 (i32.const 1) (i32.const 1))
                (ref.is_null (local.get 1))))";
        let bytes = wat::parse_str(text).expect("a module");
        let reading = |payload| match payload {
            Ok(wasmparser::Payload::CodeSectionEntry(body)) => Some(body),
            _ => None,
        };
        let body = wasmparser::Parser::new(0).parse_all(&bytes).find_map(reading).expect("a body");
        let names: Vec<String> = body
            .get_operators_reader()
            .expect("operators")
            .into_iter()
            .map(|operator| instruction_name(&operator.expect("an operator")))
            .collect();
        let wanted = [
            "i32.const",
            "select",
            "i32.load8_s",
            "i32.atomic.rmw8.add_u",
            "i64.atomic.load16_u",
            "memory.atomic.notify",
            "i32x4.extract_lane",
            "v128.const",
            "ref.i31",
            "ref.cast",
            "struct.new",
            "struct.new_default",
            "atomic.fence",
            "br_if",
            "ref.is_null",
            "local.get",
            "drop",
            "end",
        ];
        for name in wanted {
            assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
        }
        assert!(names.iter().all(|name| wanted.contains(&name.as_str())), "{names:?}");
    }
}
