//! Where the active data of a module lie, as far as its bytes tell.

use wasmparser::{BinaryReaderError, ConstExpr, Operator};

/// The offset of an active segment, if it is a constant. An address of 32 bits is unsigned.
pub fn constant_offset(offset: &ConstExpr<'_>) -> Result<Option<i64>, BinaryReaderError> {
    Ok(match offset.get_operators_reader().read()? {
        Operator::I32Const { value } => Some(value.cast_unsigned().into()),
        Operator::I64Const { value } => Some(value),
        _ => None,
    })
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

    #[test]
    fn the_span_covers_all_segments_in_any_order() {
        assert_eq!(span([(500, 9), (20, 4), (30, 0)]), (20, 489));
        assert_eq!(span([(7, 0)]), (7, 0));
        assert_eq!(span([]), (0, 0));
        assert_eq!(span([(i64::MAX, 9)]), (i64::MAX, 0));
    }
}
