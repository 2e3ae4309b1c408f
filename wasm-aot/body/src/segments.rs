//! Where the active data of a module lie, as far as its bytes tell.

use wasmparser::{BinaryReaderError, ConstExpr, Operator};

/// The offset of an active segment, if it is made of constants. An address of 32 bits is unsigned.
pub fn constant_offset(offset: &ConstExpr<'_>) -> Result<Option<i64>, BinaryReaderError> {
    let (mut values, mut is_wide) = (Vec::new(), false);
    let mut operators = offset.get_operators_reader();
    loop {
        let operation: fn(i64, i64) -> i64 = match operators.read()? {
            Operator::I32Const { value } => {
                values.push(i64::from(value));
                continue;
            }
            Operator::I64Const { value } => {
                is_wide = true;
                values.push(value);
                continue;
            }
            Operator::I32Add | Operator::I64Add => i64::wrapping_add,
            Operator::I32Sub | Operator::I64Sub => i64::wrapping_sub,
            Operator::I32Mul | Operator::I64Mul => i64::wrapping_mul,
            Operator::End => break,
            _ => return Ok(None),
        };
        let (Some(right), Some(left)) = (values.pop(), values.pop()) else { return Ok(None) };
        values.push(operation(left, right));
    }
    // The low half of a sum, a difference or a product depends on the low halves only.
    let value = values.pop();
    Ok(value.map(|value| if is_wide { value } else { value & i64::from(u32::MAX) }))
}

/// Where the first of some segments begins, and the distance from there to where the last one ends;
/// zeroes if there are none. Each segment is an offset and a length.
pub fn span(segments: impl IntoIterator<Item = (i64, usize)>) -> (i64, i64) {
    let end = |at: i64, len: usize| at.saturating_add(i64::try_from(len).unwrap_or(i64::MAX));
    let ranges = segments.into_iter().map(|(at, len)| (at, end(at, len)));
    let whole = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    whole.map_or((0, 0), |(start, end)| (start, end.saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::{DataKind, Parser, Payload};

    #[test]
    fn offsets_made_of_constants_are_known() {
        let offset = |memory: &str, text: &str| {
            let text = format!(
                "(module (import \"a\" \"b\" (global $g i32)) (memory {memory} 1) \
                 (data (offset {text}) \"x\"))"
            );
            let module = wat::parse_str(text).unwrap();
            let mut offsets = Parser::new(0).parse_all(&module).filter_map(|payload| {
                let Payload::DataSection(data) = payload.unwrap() else { return None };
                let segment = data.into_iter().next()?.unwrap();
                let DataKind::Active { offset_expr, .. } = segment.kind else { return None };
                constant_offset(&offset_expr).unwrap()
            });
            offsets.next()
        };
        assert_eq!(offset("", "(i32.const 7)"), Some(7));
        assert_eq!(offset("", "(i32.const -1)"), Some(0xffff_ffff));
        assert_eq!(offset("", "(i32.add (i32.const 5) (i32.const 9))"), Some(14));
        assert_eq!(offset("", "(i32.sub (i32.const 5) (i32.const 9))"), Some(0xffff_fffc));
        let wide = "(i64.mul (i64.sub (i64.const 9) (i64.const 2)) (i64.const 3))";
        assert_eq!(offset("i64", wide), Some(21));
        assert_eq!(offset("", "(global.get $g)"), None);
        assert_eq!(offset("", "(i32.add (i32.const 5) (global.get $g))"), None);
    }

    #[test]
    fn the_span_covers_all_segments_in_any_order() {
        assert_eq!(span([(500, 9), (20, 4), (30, 0)]), (20, 489));
        assert_eq!(span([(7, 0)]), (7, 0));
        assert_eq!(span([]), (0, 0));
        assert_eq!(span([(i64::MAX, 9)]), (i64::MAX, 0));
    }
}
