//! Programs for which the interpreter (wasmi 2.0.0) is no judge.
//!
//! A `br_table` that passes a vector to a block copies it half by half, and overwrites the second
//! half if it moves down by one slot. This function should return 9 and 7, and returns 9 and 9 (from
//! the high half to the low one):
//!
//! ```text
//! (func (param v128 i32) (result v128)
//!     (block (result v128) (i64.const 5) (i8x16.neg (local.get 0)) (local.get 1) (br_table 0 1)))
//! ```

use wasmparser::{BlockType, Operator, Parser, Payload, Result, ValType};

/// Whether some function of a module may meet a fault: it has a `br_table`, and something in it
/// that takes or gives vectors.
pub(crate) fn may_be_met(module: &[u8]) -> bool {
    // What cannot be read is not executed.
    met(module).unwrap_or(false)
}

fn met(module: &[u8]) -> Result<bool> {
    let (mut vectors, mut functions) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TypeSection(types) => {
                for ty in types.into_iter_err_on_gc_types() {
                    let ty = ty?;
                    let all = ty.params().iter().chain(ty.results());
                    vectors.push(all.into_iter().any(|ty| *ty == ValType::V128));
                }
            }
            Payload::FunctionSection(section) => {
                functions = section.into_iter().collect::<Result<Vec<u32>>>()?;
                functions.reverse();
            }
            Payload::CodeSectionEntry(body) => {
                let of_type = |ty: u32| vectors.get(ty as usize).copied().unwrap_or_default();
                let mut passes_vectors = functions.pop().is_some_and(of_type);
                let mut has_table = false;
                for operator in body.get_operators_reader()? {
                    match operator? {
                        Operator::BrTable { .. } => has_table = true,
                        Operator::Block { blockty }
                        | Operator::Loop { blockty }
                        | Operator::If { blockty } => {
                            passes_vectors |= match blockty {
                                BlockType::Empty => false,
                                BlockType::Type(ty) => ty == ValType::V128,
                                BlockType::FuncType(ty) => of_type(ty),
                            };
                        }
                        _ => {}
                    }
                }
                if has_table && passes_vectors {
                    return Ok(true);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}
