//! Programs for which the interpreter (wasmi 2.0.0) is no judge.
//!
//! A `br_table` that passes a vector to a block copies it half by half, and loses one of them if
//! the vector moves down by one slot. This function should negate the bytes of its vector, and does
//! so for the half alone that is not lost:
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

#[cfg(test)]
mod tests {
    use super::may_be_met;

    const FAULTY: &str = r#"(module
        (func $pass (param v128 i32) (result v128)
            (block (result v128)
                (i64.const 5) (i8x16.neg (local.get 0)) (local.get 1) (br_table 0 1)))
        (func (export "f") (result v128) (call $pass (v128.const i64x2 7 9) (i32.const 0))))"#;

    /// If this fails because the interpreter is right, leave nothing out any more.
    #[test]
    fn the_interpreter_loses_half_of_a_vector_and_such_programs_are_recognised() {
        let module = wat::parse_str(FAULTY).expect("a module");
        assert!(may_be_met(&module));
        let engine = wasmi::Engine::default();
        let compiled = wasmi::Module::new(&engine, &module).expect("it has vectors");
        let mut store = wasmi::Store::new(&engine, ());
        let linker = wasmi::Linker::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &compiled).expect("it starts");
        let mut results = [wasmi::Val::default_for_ty(wasmi::ValType::V128)];
        let function = instance.get_func(&store, "f").expect("exported");
        function.call(&mut store, &[], &mut results).expect("no trap");
        let wasmi::Val::V128(found) = &results[0] else { panic!("{results:?}") };
        assert_ne!(found.as_u128(), 0xf7_0000_0000_0000_00f9);

        let harmless = "(module (func (param i32) (block (local.get 0) (br_table 0 1))))";
        assert!(!may_be_met(&wat::parse_str(harmless).expect("a module")));
    }
}
