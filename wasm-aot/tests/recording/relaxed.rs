//! Relaxed vector instructions: recorded programs have plain ones instead.

use std::path::Path;
use std::process::Command;
use test_support::{Folder, succeed};
use wasm_aot::recording::Recorder;
use wasm_aot::trace::{Program, canonical};
use wasm_aot::{Engine, Instance, Module, Store, Val};

/// Operands for which all results that the specification allows are the same.
#[derive(Clone, Copy)]
enum Operands {
    /// Floating-point numbers that are small integers and not zero.
    F32,
    F64,
    /// Bytes, and indices of lanes.
    Indices,
    /// Bytes, and a mask of whole lanes.
    Mask,
    /// Fractions.
    Q15,
    /// Bytes, and bytes without the highest bit.
    Dot,
}

const ALL: &[(&str, usize, Operands)] = &[
    ("i8x16.relaxed_swizzle", 2, Operands::Indices),
    ("i32x4.relaxed_trunc_f32x4_s", 1, Operands::F32),
    ("i32x4.relaxed_trunc_f32x4_u", 1, Operands::F32),
    ("i32x4.relaxed_trunc_f64x2_s_zero", 1, Operands::F64),
    ("i32x4.relaxed_trunc_f64x2_u_zero", 1, Operands::F64),
    ("f32x4.relaxed_madd", 3, Operands::F32),
    ("f32x4.relaxed_nmadd", 3, Operands::F32),
    ("f64x2.relaxed_madd", 3, Operands::F64),
    ("f64x2.relaxed_nmadd", 3, Operands::F64),
    ("i8x16.relaxed_laneselect", 3, Operands::Mask),
    ("i16x8.relaxed_laneselect", 3, Operands::Mask),
    ("i32x4.relaxed_laneselect", 3, Operands::Mask),
    ("i64x2.relaxed_laneselect", 3, Operands::Mask),
    ("f32x4.relaxed_min", 2, Operands::F32),
    ("f32x4.relaxed_max", 2, Operands::F32),
    ("f64x2.relaxed_min", 2, Operands::F64),
    ("f64x2.relaxed_max", 2, Operands::F64),
    ("i16x8.relaxed_q15mulr_s", 2, Operands::Q15),
    ("i16x8.relaxed_dot_i8x16_i7x16_s", 2, Operands::Dot),
    ("i32x4.relaxed_dot_i8x16_i7x16_add_s", 3, Operands::Dot),
];

fn operand(kind: Operands, place: usize, random: &mut impl FnMut() -> u8) -> u128 {
    let mut bytes: [u8; 16] = std::array::from_fn(|_| random());
    match (kind, place) {
        (Operands::F32, _) => {
            let lanes = [0; 4].map(|_: u8| f32::from(random() % 100 + 1).to_le_bytes());
            bytes.copy_from_slice(&lanes.concat());
        }
        (Operands::F64, _) => {
            let lanes = [0; 2].map(|_: u8| f64::from(random() % 100 + 1).to_le_bytes());
            bytes.copy_from_slice(&lanes.concat());
        }
        (Operands::Indices, 1) => bytes = bytes.map(|byte| byte % 16),
        (Operands::Dot, 1) => bytes = bytes.map(|byte| byte % 128),
        (Operands::Mask, 2) => bytes = std::array::from_fn(|at| [0, 255][at / 8]),
        // No product of the two least numbers.
        (Operands::Q15, _) => bytes = bytes.map(|byte| byte | 1),
        _ => {}
    }
    u128::from_le_bytes(bytes)
}

fn module(name: &str, operands: usize) -> Vec<u8> {
    let gets: String = (0..operands).map(|at| format!(" (local.get {at})")).collect();
    let text = format!(
        "(module (func (export \"f\") (param v128 v128 v128) (result v128) (local v128)
            (local.set 3 ({name}{gets})) (local.get 3)))"
    );
    wat::parse_str(text).expect(name)
}

/// Whether a valid module has a relaxed instruction, in the spelling of its text.
fn is_relaxed(module: &[u8]) -> bool {
    wasmparser::Validator::new().validate_all(module).expect("valid");
    let mut names = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(module) {
        if let Ok(wasmparser::Payload::CodeSectionEntry(body)) = payload {
            let operators = body.get_operators_reader().expect("operators");
            names.extend(operators.into_iter().map(|own| format!("{:?}", own.expect("one"))));
        }
    }
    names.iter().any(|name| name.contains("Relaxed"))
}

#[test]
fn plain_instructions_give_a_result_that_relaxed_ones_may_give() {
    let engine = Engine::default();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    for &(name, operands, kind) in ALL {
        let relaxed = module(name, operands);
        let plain = canonical(&relaxed).expect(name).into_owned();
        assert!(is_relaxed(&relaxed) && !is_relaxed(&plain), "{name}");
        assert_eq!(canonical(&plain).expect(name), plain, "{name}");
        for _ in 0..50 {
            let args = [0, 1, 2].map(|place| Val::V128(operand(kind, place, &mut random)));
            let mut found = [&relaxed, &plain].map(|bytes| {
                let module = Module::new(&engine, bytes).expect(name);
                let mut store = Store::new(&engine, ());
                let instance = Instance::new(&mut store, &module, &[]).expect(name);
                let function = instance.get_func(&mut store, "f").expect("f");
                match function.call(&mut store, &args).expect(name)[..] {
                    [Val::V128(bits)] => bits,
                    _ => panic!("a vector"),
                }
            });
            let plain = found[1];
            found.sort_unstable();
            assert_eq!(found, [plain, plain], "{name} {args:?}");
        }
    }
}

/// Exits with a number that is computed by relaxed instructions.
const EXITS: &str = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func (export "_start") (call $exit (i32x4.extract_lane 2
        (i32x4.relaxed_trunc_f32x4_s (f32x4.relaxed_madd (v128.const f32x4 1 2 3 4)
            (v128.const f32x4 5 6 7 8) (v128.const f32x4 9 10 11 12)))))))"#;

#[test]
fn programs_with_relaxed_instructions_are_recorded_without_them() {
    let folder = Folder::new("wasm-aot-relaxed");
    let (app, trace, bench) =
        (folder.join("app.wasm"), folder.join("app.r3"), folder.join("b.wasm"));
    let relaxed = wat::parse_str(EXITS).expect("a module");
    std::fs::write(&app, &relaxed).expect("room");
    let command = || Command::new(env!("CARGO_BIN_EXE_wasm-aot"));
    let recorded = command().arg("record").arg("-o").arg(&trace).arg(&app).output().expect("it");
    assert_eq!(recorded.status.code(), Some(32), "{recorded:?}");
    succeed(command().arg("replay").arg(&trace).arg(&app).arg("--check"));
    // The same as text.
    let text = folder.join("app.wat");
    std::fs::write(&text, EXITS).expect("room");
    let recorded = command().arg("record").arg("-o").arg(&trace).arg(&text).output().expect("it");
    assert_eq!(recorded.status.code(), Some(32), "{recorded:?}");
    succeed(command().arg("replay").arg(&trace).arg(&text).arg("--check"));
    succeed(command().arg("replay").arg(&trace).arg(&app).arg("-o").arg(&bench));
    let is_relaxed_file = |path: &Path| is_relaxed(&std::fs::read(path).expect("it is there"));
    assert!(is_relaxed_file(&app) && !is_relaxed_file(&bench));
    let rewritten = whamm_record::record(&relaxed, &whamm_record::Options::default());
    assert!(!is_relaxed(&rewritten.expect("it can be recorded").module));

    // An embedder has compiled it already.
    let engine = Engine::default();
    let module = Module::new(&engine, &relaxed).expect("a module");
    let program = Program::new(relaxed.clone(), "app.wasm");
    let refused = Recorder::new(&mut Store::new(&engine, ()), &module, &program, Vec::new());
    let why = refused.expect_err("it is refused").to_string();
    assert!(why.contains("relaxed vector instructions"), "{why}");
}
