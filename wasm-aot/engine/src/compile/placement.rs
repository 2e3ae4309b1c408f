//! Chooses where a function begins, so that its short loops lie within a cache line.
//!
//! CPUs fetch code, and cache decoded instructions, in lines. A loop of a few instructions takes up
//! to a fifth longer if it lies across two of them. Code generation does not align loops; but a
//! function can be put at any multiple of 16. Most functions have few short loops, so that a place
//! is found where none of them crosses a line.

/// The unit in which CPUs fetch code and cache decoded instructions.
const LINE: usize = 64;
/// The alignment of functions without short loops.
const USUAL: usize = 32;
/// The least alignment of functions: constants after their code rely on it.
const LEAST: usize = 16;
/// The most bytes before a function.
pub(super) const MOST: usize = LINE + LEAST;

/// A loop of a function's code, from its header to the end of the jump that goes back there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The short loops of a function: what lies between the target of a jump that goes back a little
/// and its end.
///
/// Jumps are searched for in the bytes. A constant may look like one: then the function's place is
/// merely not the best. The code generator could report blocks and edges, but the time for this
/// grows with the square of the size of branch tables.
pub(super) fn loops(code: &[u8]) -> Vec<Loop> {
    let back = code.windows(6).enumerate().filter_map(|(at, six)| match *six {
        [0x0F, 0x80..=0x8F, back, 0xFF, 0xFF, 0xFF] | [_, 0xE9, back, 0xFF, 0xFF, 0xFF] => {
            Some((at as u32 + 6, back as i8))
        }
        _ => None,
    });
    back.filter_map(|(end, back)| Some(Loop { start: end.checked_add_signed(back.into())?, end }))
        .filter(|short| short.start < short.end)
        .collect()
}

/// The best place for a function from `at` on.
pub(super) fn start(at: usize, loops: &[Loop]) -> usize {
    let first = at.next_multiple_of(LEAST);
    let places = (first..first + LINE).step_by(LEAST);
    places.min_by_key(|place| (cost(*place, loops), place % USUAL, *place)).unwrap_or(first)
}

/// The cost of a function's place: for each loop, the lines that it lies in beyond those that it
/// needs. They weigh more, the shorter the loop is.
fn cost(place: usize, loops: &[Loop]) -> usize {
    let of = |short: &Loop| {
        let (len, start) = ((short.end - short.start) as usize, place + short.start as usize);
        let lines = (start + len - 1) / LINE - start / LINE + 1;
        (lines - len.div_ceil(LINE)) * (LINE * LINE / len)
    };
    loops.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(place: usize, short: Loop) -> bool {
        (place + short.start as usize) / LINE != (place + short.end as usize - 1) / LINE
    }

    #[test]
    fn functions_without_loops_begin_at_the_next_usual_place() {
        for (at, place) in [(0, 0), (1, 32), (32, 32), (33, 64)] {
            assert_eq!(start(at, &[]), place);
        }
    }

    #[test]
    fn a_loop_that_fits_into_a_line_is_not_cut() {
        for at in 0..200 {
            for from in 0..200 {
                let short = Loop { start: from, end: from + 49 };
                let place = start(at, &[short]);
                assert!(
                    place.is_multiple_of(LEAST)
                        && (at..at + MOST).contains(&place)
                        && !cut(place, short),
                    "{at} {from}"
                );
            }
        }
    }

    #[test]
    fn the_shorter_of_two_loops_goes_first() {
        let (short, long) = (Loop { start: 60, end: 70 }, Loop { start: 100, end: 164 });
        let place = start(0, &[short, long]);
        assert!(!cut(place, short));
    }

    #[test]
    fn loops_are_jumps_that_go_back_a_little() {
        // nop; dec edi; jnz to the second byte; jmp to the first; jmp far back; jnz ahead
        let code = [
            &[0x90, 0xFF, 0xCF, 0x0F, 0x85, 0xF8, 0xFF, 0xFF, 0xFF][..],
            &[0xE9, 0xF2, 0xFF, 0xFF, 0xFF],
            &[0xE9, 0x00, 0xFF, 0xFF, 0xFF],
            &[0x0F, 0x85, 0x08, 0x00, 0x00, 0x00],
        ];
        assert_eq!(loops(&code.concat()), [Loop { start: 1, end: 9 }, Loop { start: 0, end: 14 }]);
        assert_eq!(loops(&[]), []);
    }

    #[test]
    fn code_that_is_generated_has_the_loops_of_its_module() {
        let target = super::super::Target::new(crate::Options::default()).expect("this processor");
        let text = "(module (func (export \"f\") (param i32) (loop $again
            (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))))";
        let module = wat::parse_str(text).expect("text");
        let compilation = super::super::compile(&module, &target, &crate::compile::Plan::default())
            .expect("compiled");
        let span = compilation.text.functions[0];
        let found = loops(&compilation.text.code[span.start as usize..span.end as usize]);
        assert!(matches!(found[..], [short] if !cut(span.start as usize, short)), "{found:?}");
    }
}
