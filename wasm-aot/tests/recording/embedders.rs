//! Small embedders: one for each kind of call or access in the engine's interface.

use wasm_aot::{
    AsContextMut as _, Caller, Error, ExnRef, Extern, ExternRef, Global, GlobalType, Instance,
    Linker, Memory, MemoryType, RefType, Store, Table, TableType, Val, ValType,
};

pub(super) type Define = fn(&mut Linker<()>, &mut Store<()>) -> Result<(), Error>;
pub(super) type Drive = fn(&mut Store<()>, Instance) -> Result<(), Error>;

pub(super) struct Embedder {
    pub(super) name: &'static str,
    pub(super) module: &'static str,
    pub(super) define: Define,
    pub(super) drive: Drive,
    /// Whether a module without imports can do the same.
    pub(super) stands_alone: bool,
}

fn call(
    store: &mut Store<()>,
    instance: Instance,
    name: &str,
    args: &[Val],
) -> Result<Vec<Val>, Error> {
    instance.get_func(&mut *store, name).expect(name).call(&mut *store, args)
}

fn memory(caller: &mut Caller<'_, ()>) -> Memory {
    caller.first_memory().expect("it has one")
}

fn nothing(_: &mut Linker<()>, _: &mut Store<()>) -> Result<(), Error> {
    Ok(())
}

pub(super) const EMBEDDERS: &[Embedder] = &[
    Embedder {
        name: "values of every type",
        module: r#"(module (import "h" "f" (func $f (param i32 i64 f32 f64 v128) (result v128 f64 f32 i64 i32)))
            (func (export "run") (param i32 i64 f32 f64 v128) (result v128 f64 f32 i64 i32)
                (call $f (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))))"#,
        define: |linker, _| {
            let ty = wasm_aot::FuncType::new(
                [ValType::I32, ValType::I64, ValType::F32, ValType::F64, ValType::V128],
                [ValType::V128, ValType::F64, ValType::F32, ValType::I64, ValType::I32],
            );
            linker.func_new("h", "f", ty, |_, args, results| {
                args.iter().rev().zip(results).for_each(|(arg, result)| *result = arg.clone());
                Ok(())
            })?;
            Ok(())
        },
        drive: |store, instance| {
            let args = [
                Val::I32(i32::MIN),
                Val::I64((1 << 53) + 1),
                Val::F32(0x7fa0_0001),
                Val::F64((-0.0f64).to_bits()),
                Val::V128(u128::MAX / 3),
            ];
            call(store, instance, "run", &args).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "the host writes by copying and through a slice",
        module: r#"(module (import "h" "f" (func $f (param i32))) (memory (export "m") 2)
            (func (export "run") (result i64) (call $f (i32.const 0)) (call $f (i32.const 1))
                (i64.add (i64.load (i32.const 8)) (i64.load (i32.const 70000)))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>, how: i32| {
                let memory = memory(&mut caller);
                if how == 0 {
                    return memory.write(&mut caller, 8, &[1, 2, 3]);
                }
                let bytes = memory.bytes(&mut caller)?.expect("no thread shares it");
                bytes[9] = 7;
                bytes[70_001..70_040].fill(5);
                Ok(())
            })?;
            Ok(())
        },
        drive: |store, instance| {
            let memory = instance.get_memory(&mut *store, "m").expect("a memory");
            call(store, instance, "run", &[])?;
            memory.bytes(store)?.expect("no thread shares it")[10] = 1;
            memory.write(&mut *store, 70_000, &[9; 3])?;
            call(store, instance, "run", &[]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "the host calls back, and writes in between",
        module: r#"(module (import "h" "f" (func $f (param i32) (result i32))) (memory (export "m") 1)
            (func $g (export "g") (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0)) (then (i32.load (i32.const 0)))
                    (else (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (i32.load (i32.const 0)))))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>, depth: i32| {
                let memory = memory(&mut caller);
                memory.write(&mut caller, depth as usize % 4, &[depth as u8 + 1])?;
                let g = caller.get_export("g").and_then(Extern::into_func).expect("g");
                let given = g.call(&mut caller, &[Val::I32(depth)])?;
                memory.write(&mut caller, 1, &[depth as u8 + 3])?;
                Ok::<i32, Error>(given[0].i32().expect("an integer"))
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "g", &[Val::I32(4)]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "memories, tables and globals are the host's",
        module: r#"(module (import "h" "m" (memory $m 1)) (import "h" "t" (table $t 2 funcref))
            (import "h" "c" (global $c i32)) (import "h" "v" (global $v (mut i64))) (memory $n (export "n") 1)
            (global $own (export "own") (mut f64) (f64.const 0)) (data (memory $m) (offset (global.get $c)) "data")
            (elem (table $t) (i32.const 1) func $one) (func $one (export "one") (result i32) (i32.const 1))
            (func (export "run") (result i32 i64 f64 i32 i32)
                (i32.load $m (i32.const 1000)) (global.get $v) (global.get $own)
                (call_indirect $t (result i32) (i32.const 1)) (i32.load $m (i32.const 131072))))"#,
        define: |linker, store| {
            let ty = MemoryType { minimum: 3, maximum: None, wide: false, shared: false };
            let memory = Memory::new(&mut *store, ty)?;
            memory.write(&mut *store, 1002, b"xyz")?;
            memory.write(&mut *store, 131_072, b"end!")?;
            linker.define("h", "m", memory)?;
            let ty =
                TableType { element: RefType::FUNCREF, minimum: 5, maximum: None, wide: false };
            linker.define("h", "t", Table::new(&mut *store, ty, Val::FuncRef(None))?)?;
            let ty = |content, mutable| GlobalType { content, mutable };
            linker.define(
                "h",
                "c",
                Global::new(&mut *store, ty(ValType::I32, false), Val::I32(1000))?,
            )?;
            linker.define(
                "h",
                "v",
                Global::new(&mut *store, ty(ValType::I64, true), Val::I64(-7))?,
            )?;
            Ok(())
        },
        drive: |store, instance| {
            call(store, instance, "run", &[])?;
            let own = instance.get_global(&mut *store, "own").expect("a global");
            own.set(&mut *store, Val::F64(f64::NAN.to_bits() | 5))?;
            let memory = instance.get_memory(&mut *store, "n").expect("a memory");
            memory.grow(&mut *store, 2)?;
            memory.write(&mut *store, 131_072, &[1])?;
            call(store, instance, "run", &[]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "memories grow on both sides",
        module: r#"(module (import "h" "f" (func $f)) (memory (export "m") 1 8)
            (func (export "run") (result i32 i32 i32)
                (drop (memory.grow (i32.const 1))) (call $f) (memory.size) (memory.grow (i32.const 1)) (i32.load (i32.const 196604))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>| {
                let memory = memory(&mut caller);
                memory.bytes(&mut caller)?.expect("no thread shares it")[3] = 3;
                memory.grow(&mut caller, 1)?;
                memory.write(&mut caller, 196_604, &[1, 2, 3, 4])
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "the host changes a table, grows it, and calls through it",
        module: r#"(module (table (export "t") 2 10 funcref) (elem (i32.const 0) $a)
            (func $a (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
            (func $b (export "b") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
            (func (export "run") (param i32) (result i32) (call_indirect (param i32) (result i32) (i32.const 5) (local.get 0))))"#,
        define: nothing,
        drive: |store, instance| {
            let table = instance.get_table(&mut *store, "t").expect("a table");
            let b = instance.get_func(&mut *store, "b").expect("b");
            table.set(&mut *store, 1, Val::FuncRef(Some(b)))?;
            table.grow(&mut *store, 2, Val::FuncRef(Some(b)))?;
            call(store, instance, "run", &[Val::I32(1)])?;
            call(store, instance, "run", &[Val::I32(3)])?;
            let Some(Val::FuncRef(Some(secret))) = table.get(&mut *store, 0)? else { panic!("$a") };
            secret.call(&mut *store, &[Val::I32(8)])?;
            table.set(&mut *store, 0, Val::FuncRef(None))?;
            call(store, instance, "run", &[Val::I32(1)]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "references to functions come and go",
        module: r#"(module (import "h" "f" (func $f (param funcref) (result funcref))) (table 1 funcref)
            (func $g (result i32) (i32.const 6)) (elem declare func $g)
            (func (export "run") (result i32)
                (table.set (i32.const 0) (call $f (ref.func $g))) (call_indirect (result i32) (i32.const 0))))"#,
        define: |linker, _| {
            let ty = ValType::Ref(RefType::FUNCREF);
            let ty = wasm_aot::FuncType::new([ty], [ty]);
            linker.func_new("h", "f", ty, |mut caller, args, results| {
                let Val::FuncRef(Some(function)) = &args[0] else { panic!("a function") };
                function.call(&mut caller, &[])?;
                results[0] = args[0].clone();
                Ok(())
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "references to things of the host's come and go",
        module: r#"(module (import "h" "f" (func $f (param externref) (result externref))) (table $t 2 externref)
            (func (export "run") (param externref) (result externref)
                (table.set $t (i32.const 0) (call $f (local.get 0))) (call $f (table.get $t (i32.const 0)))))"#,
        define: |linker, _| {
            let ty = ValType::Ref(RefType::EXTERNREF);
            let ty = wasm_aot::FuncType::new([ty], [ty]);
            linker.func_new("h", "f", ty, |_, args, results| {
                results[0] = match &args[0] {
                    Val::ExternRef(None) => Val::ExternRef(Some(ExternRef::new(5u8))),
                    other => other.clone(),
                };
                Ok(())
            })?;
            Ok(())
        },
        drive: |store, instance| {
            let given = call(store, instance, "run", &[Val::ExternRef(None)])?;
            call(store, instance, "run", &given)?;
            let other = Val::ExternRef(Some(ExternRef::new("another")));
            call(store, instance, "run", &[other]).map(|_| ())
        },
        stands_alone: false,
    },
    Embedder {
        name: "a start function calls the host",
        module: r#"(module (import "h" "f" (func $f (result i32))) (memory (export "m") 1)
            (func $s (i32.store (i32.const 4) (i32.add (call $f) (i32.load (i32.const 8))))) (start $s)
            (func (export "run") (result i32) (i32.load (i32.const 4))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>| {
                let memory = memory(&mut caller);
                memory.write(&mut caller, 8, &[30])?;
                Ok::<i32, Error>(12)
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "exceptions cross in both directions",
        module: r#"(module (import "h" "f" (func $f (param i32))) (tag $e (export "e") (param i32 i64))
            (func (export "throws") (param i32) (throw $e (local.get 0) (i64.const -1)))
            (func (export "run") (param i32) (result i32 i64)
                (block $caught (result i32 i64)
                    (try_table (catch $e $caught) (call $f (local.get 0))) (i32.const 0) (i64.const 0))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>, number: i32| {
                if number == 0 {
                    return Ok(());
                }
                let throws = caller.get_export("throws").and_then(Extern::into_func);
                throws.expect("it").call(&mut caller, &[Val::I32(number)]).map(|_| ())
            })?;
            Ok(())
        },
        drive: |store, instance| {
            call(store, instance, "run", &[Val::I32(0)])?;
            call(store, instance, "run", &[Val::I32(9)])?;
            let Err(Error::Exception(_)) = call(store, instance, "throws", &[Val::I32(1)]) else {
                panic!("it throws")
            };
            call(store, instance, "run", &[Val::I32(0)]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "the host throws",
        module: r#"(module (import "h" "f" (func $f)) (tag $e (export "e") (param f32))
            (func (export "run") (result f32)
                (block $caught (result f32) (try_table (catch $e $caught) (call $f)) (f32.const 0))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>| {
                let tag = caller.get_export("e").and_then(Extern::into_tag).expect("a tag");
                let exception =
                    ExnRef::new(caller.as_context_mut(), tag, &[Val::F32(0x7fc0_0007)])?;
                Err::<(), _>(Error::Exception(wasm_aot::ExceptionReport {
                    exception: Some(exception),
                    backtrace: wasm_aot::Backtrace::default(),
                }))
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "the program traps",
        module: r#"(module (memory 1) (func (export "run") (param i32) (result i32) (i32.load (local.get 0))))"#,
        define: nothing,
        drive: |store, instance| {
            call(store, instance, "run", &[Val::I32(65532)])?;
            call(store, instance, "run", &[Val::I32(65533)]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "the host goes on after a trap",
        module: r#"(module (func (export "run") (param i32) (result i32) (i32.div_u (i32.const 6) (local.get 0))))"#,
        define: nothing,
        drive: |store, instance| {
            assert!(call(store, instance, "run", &[Val::I32(0)]).is_err());
            call(store, instance, "run", &[Val::I32(2)]).map(|_| ())
        },
        stands_alone: false,
    },
    Embedder {
        name: "the host fails",
        module: r#"(module (import "h" "f" (func $f)) (func $g (call $f)) (func (export "run") (call $g)))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", || Err::<(), _>(Error::host("nothing there")))?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "the program exits from deep inside, and is called again",
        module: r#"(module (import "h" "exit" (func $exit (param i32))) (memory (export "m") 1)
            (func $deep (param i32) (result i64)
                (if (i32.eqz (local.get 0)) (then (call $exit (i32.const 3)) (i32.store (i32.const 0) (i32.const 1))))
                (i64.add (call $deep (i32.sub (local.get 0) (i32.const 1))) (i64.const 1)))
            (func (export "run") (drop (call $deep (i32.const 300))) (i32.store (i32.const 0) (i32.const 2)))
            (func (export "more") (result i32) (i32.load (i32.const 0))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "exit", |code: i32| Err::<(), _>(Error::Exit(code)))?;
            Ok(())
        },
        drive: |store, instance| {
            assert!(matches!(call(store, instance, "run", &[]), Err(Error::Exit(3))));
            call(store, instance, "more", &[]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "calls through a table, tail calls, and an import that is exported again",
        module: r#"(module (import "h" "f" (func $f (param i32) (result i32))) (export "again" (func $f))
            (table 2 funcref) (elem (i32.const 0) $f $g)
            (func $g (param i32) (result i32) (return_call $f (i32.mul (local.get 0) (i32.const 2))))
            (func (export "run") (param i32) (result i32)
                (return_call_indirect (param i32) (result i32) (i32.const 7) (local.get 0))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |x: i32| x + 100)?;
            Ok(())
        },
        drive: |store, instance| {
            call(store, instance, "run", &[Val::I32(0)])?;
            call(store, instance, "run", &[Val::I32(1)]).map(|_| ())
        },
        stands_alone: true,
    },
    Embedder {
        name: "bulk and vector instructions read what the host has written",
        module: r#"(module (import "h" "f" (func $f)) (memory (export "m") 1)
            (func (export "run") (result v128)
                (call $f) (memory.copy (i32.const 64) (i32.const 0) (i32.const 32))
                (i8x16.add (v128.load (i32.const 64)) (v128.load (i32.const 80)))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>| {
                let memory = memory(&mut caller);
                let bytes: Vec<u8> = (0..32).collect();
                memory.write(&mut caller, 0, &bytes)
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
    Embedder {
        name: "a memory of 64 bits",
        module: r#"(module (import "h" "f" (func $f)) (memory (export "m") i64 1)
            (func (export "run") (result i64) (call $f) (i64.load (i64.const 65536))))"#,
        define: |linker, _| {
            linker.func_wrap("h", "f", |mut caller: Caller<'_, ()>| {
                let memory = memory(&mut caller);
                memory.grow(&mut caller, 1)?;
                memory.write(&mut caller, 65_536, &[9; 20])
            })?;
            Ok(())
        },
        drive: |store, instance| call(store, instance, "run", &[]).map(|_| ()),
        stands_alone: true,
    },
];
