//! No address, index, offset or length leads out of a memory or a table: at every boundary, for
//! every kind of access, in every configuration.

use super::{instance, one_line, trap, try_instance};
use std::fmt::Write as _;
use wasm_aot::{
    Config, Engine, Instance, Linker, Memory, MemoryType, Module, Optimize, SharedMemory, Store,
    Trap, TypedFunc,
};

const PAGE: u64 = 65536;

/// Instructions that read, with their widths in bytes, and the code after the operand.
const LOADS: &[(&str, u64, &str)] = &[
    ("i32.load8_s", 1, ""),
    ("i32.load16_u", 2, ""),
    ("i32.load", 4, ""),
    ("i64.load", 8, ""),
    ("i64.load32_s", 4, ""),
    ("f32.load", 4, ""),
    ("f64.load", 8, ""),
    ("v128.load", 16, ""),
    ("v128.load8x8_s", 8, ""),
    ("v128.load64_splat", 8, ""),
    ("v128.load32_zero", 4, ""),
    ("i32.atomic.load", 4, ""),
    ("i64.atomic.load", 8, ""),
    ("i32.atomic.load8_u", 1, ""),
];
/// Instructions that write, with their widths in bytes, and the values.
const STORES: &[(&str, u64, &str)] = &[
    ("i32.store8", 1, "(i32.const 1)"),
    ("i64.store16", 2, "(i64.const 1)"),
    ("i32.store", 4, "(i32.const 1)"),
    ("i64.store", 8, "(i64.const 1)"),
    ("f32.store", 4, "(f32.const 1)"),
    ("f64.store", 8, "(f64.const 1)"),
    ("v128.store", 16, "(v128.const i64x2 1 1)"),
    ("i64.atomic.store", 8, "(i64.const 1)"),
];
/// Instructions that read and write.
const CHANGES: &[(&str, u64, &str)] = &[
    ("i32.atomic.rmw.add", 4, "(i32.const 1)"),
    ("i64.atomic.rmw.and", 8, "(i64.const 1)"),
    ("i64.atomic.rmw32.xor_u", 4, "(i64.const 1)"),
    ("i32.atomic.rmw8.or_u", 1, "(i32.const 1)"),
    ("i64.atomic.rmw.xchg", 8, "(i64.const 1)"),
    ("i32.atomic.rmw.cmpxchg", 4, "(i32.const 1) (i32.const 1)"),
    ("memory.atomic.notify", 4, "(i32.const 1)"),
];

fn engines() -> Vec<Engine> {
    let choices = [
        (Optimize::None, true, true),
        (Optimize::Speed, true, true),
        (Optimize::Speed, false, true),
        (Optimize::Speed, false, false),
        (Optimize::None, false, false),
    ];
    let engine = |(optimize, reservations, spectre): &(Optimize, bool, bool)| {
        Engine::new(Config::new().optimize(*optimize).reservations(*reservations).spectre(*spectre))
            .expect("an engine")
    };
    choices.iter().map(engine).collect()
}

/// A module with a function for each access and each offset, called `instruction offset`; its
/// memory has one page initially and three at most.
fn accesses(wide: bool, offsets: &[u64]) -> String {
    let (ty, kind) = if wide { ("i64", "i64 ") } else { ("i32", "") };
    let mut text = format!("(module (memory (export \"memory\") {kind}1 3)\n");
    let _ = writeln!(text, "(func (export \"grow\") (drop (memory.grow ({ty}.const 1))))");
    let mut function = |name: &str, offset: u64, body: &str| {
        let _ = writeln!(text, "(func (export \"{name} {offset}\") (param {ty}) {body})");
    };
    for offset in offsets {
        for (name, _, rest) in LOADS.iter().chain(CHANGES) {
            function(
                name,
                *offset,
                &format!("(drop ({name} offset={offset} (local.get 0) {rest}))"),
            );
        }
        for (name, _, rest) in STORES {
            function(name, *offset, &format!("({name} offset={offset} (local.get 0) {rest})"));
        }
        function(
            "v128.load32_lane",
            *offset,
            &format!(
                "(drop (v128.load32_lane offset={offset} 1 (local.get 0) (v128.const i64x2 0 0)))"
            ),
        );
        function(
            "v128.store64_lane",
            *offset,
            &format!("(v128.store64_lane offset={offset} 1 (local.get 0) (v128.const i64x2 0 0))"),
        );
    }
    text + ")"
}

/// Every instruction with its width, and whether it requires an aligned address.
fn instructions() -> impl Iterator<Item = (&'static str, u64, bool)> {
    let lanes = [("v128.load32_lane", 4, ""), ("v128.store64_lane", 8, "")];
    LOADS
        .iter()
        .chain(STORES)
        .chain(CHANGES)
        .copied()
        .chain(lanes)
        .map(|(name, size, _)| (name, size, name.contains("atomic")))
}

/// Calls each access at `index + offset` and compares with the length.
fn check(
    index: u64,
    offset: u64,
    len: u64,
    wide: bool,
    mut call: impl FnMut(&str) -> Result<(), wasm_aot::Error>,
) {
    for (name, size, aligned) in instructions() {
        let at = u128::from(index) + u128::from(offset);
        let inside = at + u128::from(size) <= u128::from(len);
        let is_aligned = !aligned || at % u128::from(size) == 0;
        let found = call(&format!("{name} {offset}"));
        let about = format!("{name} offset={offset:#x} at {index:#x} of {len:#x}, wide: {wide}");
        match found {
            Ok(()) => assert!(inside && is_aligned, "{about} went through"),
            Err(error) => match error.trap() {
                Some(Trap::MemoryOutOfBounds) => assert!(!inside, "{about} is inside"),
                Some(Trap::UnalignedAtomic) => assert!(!is_aligned, "{about} is aligned"),
                other => panic!("{about}: {other:?}"),
            },
        }
    }
}

#[test]
fn no_address_of_32_bits_leads_out_of_a_memory() {
    let offsets = [0, 15, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff];
    let text = accesses(false, &offsets);
    for engine in engines() {
        let module = Module::new(&engine, &text).expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let grow = instance.get_typed_func::<(), ()>(&mut store, "grow").expect("exported");
        for len in [PAGE, 2 * PAGE] {
            for offset in offsets {
                for index in [
                    0,
                    len - 16,
                    len - 8,
                    len - 4,
                    len - 2,
                    len - 1,
                    len,
                    0x7fff_ffff,
                    0x8000_0000,
                    0xffff_fff0,
                    0xffff_ffff,
                ] {
                    check(index, offset, len, false, |name| {
                        let access =
                            instance.get_typed_func::<u32, ()>(&mut store, name).expect("exported");
                        access.call(&mut store, index as u32)
                    });
                }
            }
            grow.call(&mut store, ()).expect("it grows");
        }
    }
}

#[test]
fn no_address_of_64_bits_leads_out_of_a_memory() {
    let offsets =
        [0, 0xffff, 0xffff_ffff, 0x1_0000_0000, 1 << 63, u64::MAX - 15, u64::MAX - 7, u64::MAX];
    let text = accesses(true, &offsets);
    for engine in engines() {
        let module = Module::new(&engine, &text).expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let grow = instance.get_typed_func::<(), ()>(&mut store, "grow").expect("exported");
        for len in [PAGE, 2 * PAGE] {
            for offset in offsets {
                for index in [
                    0,
                    len - 16,
                    len - 1,
                    len,
                    0xffff_ffff,
                    0x1_0000_0000,
                    1 << 63,
                    u64::MAX - 0xffff,
                    u64::MAX - 15,
                    u64::MAX,
                ] {
                    check(index, offset, len, true, |name| {
                        let access =
                            instance.get_typed_func::<u64, ()>(&mut store, name).expect("exported");
                        access.call(&mut store, index)
                    });
                }
            }
            grow.call(&mut store, ()).expect("it grows");
        }
    }
}

/// A memory and a table with all instructions on ranges.
fn ranges(ty: &str) -> String {
    let kind = if ty == "i64" { "i64 " } else { "" };
    format!(
        "(module (memory {kind}1) (table $t {kind}10 funcref) (table $u {kind}10 funcref) (func $f) (elem $e func $f $f) (data $d \"abcd\")
            (func (export \"fill\") (param {ty} {ty} {ty}) (memory.fill (local.get 0) (i32.const 1) (local.get 2)))
            (func (export \"copy\") (param {ty} {ty} {ty}) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
            (func (export \"table copy\") (param {ty} {ty} {ty}) (table.copy $t $u (local.get 0) (local.get 1) (local.get 2)))
            (func (export \"table fill\") (param {ty} {ty} {ty}) (table.fill $t (local.get 0) (ref.func $f) (local.get 2)))
            (func (export \"get\") (param {ty} {ty} {ty}) (drop (table.get $t (local.get 0))))
            (func (export \"set\") (param {ty} {ty} {ty}) (table.set $t (local.get 0) (ref.func $f)))
            (func (export \"call\") (param {ty} {ty} {ty}) (call_indirect $u (local.get 0)))
            (func (export \"init\") (param {ty} i32 i32) (memory.init $d (local.get 0) (local.get 1) (local.get 2)))
            (func (export \"table init\") (param {ty} i32 i32) (table.init $t $e (local.get 0) (local.get 1) (local.get 2))))"
    )
}

#[test]
fn no_range_leads_out_of_a_memory_or_table() {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let narrow = instance(&mut store, &ranges("i32"));
        let wide = instance(&mut store, &ranges("i64"));
        for name in ["fill", "copy", "table copy", "table fill", "get", "set", "call"] {
            let narrow =
                narrow.get_typed_func::<(u32, u32, u32), ()>(&mut store, name).expect("exported");
            let wide =
                wide.get_typed_func::<(u64, u64, u64), ()>(&mut store, name).expect("exported");
            for at in [65537, 0x8000_0000u32, 0xffff_ffff] {
                outside(name, narrow.call(&mut store, (at, 0, 1)));
                outside(name, narrow.call(&mut store, (at, at, at)));
                outside(name, wide.call(&mut store, (at.into(), 0, 1)));
                outside(name, wide.call(&mut store, (u64::from(at) << 32, 0, 1)));
                outside(
                    name,
                    wide.call(&mut store, (u64::MAX - u64::from(at), 0, u64::from(at) + 2)),
                );
                if matches!(name, "copy" | "table copy") {
                    outside(name, narrow.call(&mut store, (0, at, 1)));
                    outside(name, wide.call(&mut store, (0, u64::MAX, 1)));
                }
                if !matches!(name, "get" | "set" | "call") {
                    outside(name, narrow.call(&mut store, (1, 1, at)));
                    outside(name, wide.call(&mut store, (1, 1, u64::MAX)));
                }
            }
        }
        for name in ["init", "table init"] {
            let narrow =
                narrow.get_typed_func::<(u32, u32, u32), ()>(&mut store, name).expect("exported");
            let wide =
                wide.get_typed_func::<(u64, u32, u32), ()>(&mut store, name).expect("exported");
            for (at, from, count) in
                [(0, 0, u32::MAX), (0, u32::MAX, 2), (u32::MAX, 0, 2), (0, 3, 2)]
            {
                outside(name, narrow.call(&mut store, (at, from, count)));
                outside(name, wide.call(&mut store, (u64::from(at) | 1 << 40, from, count)));
                outside(name, wide.call(&mut store, (u64::MAX - 1, from, count)));
            }
        }
    }
}

fn outside(name: &str, found: Result<(), wasm_aot::Error>) {
    let found = trap(found);
    assert!(
        matches!(found, Trap::MemoryOutOfBounds | Trap::TableOutOfBounds | Trap::UndefinedElement),
        "{name}: {found:?}"
    );
}

#[test]
fn what_grows_shows_zeroes_and_nothing_of_what_was_there() {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let grown = instance(
            &mut store,
            "(module (memory (export \"m\") 0 300) (table $t 1 100 funcref) (func $f)
                (func (export \"pages\") (param i32) (result i32) (memory.grow (local.get 0)))
                (func (export \"elements\") (param i32) (result i32) (table.grow $t (ref.null func) (local.get 0)))
                (func (export \"sum\") (param i32) (result i64) (local i64)
                    (loop $l (local.set 0 (i32.sub (local.get 0) (i32.const 8)))
                        (local.set 1 (i64.or (local.get 1) (i64.load (local.get 0)))) (br_if $l (local.get 0))) (local.get 1))
                (func (export \"null\") (param i32) (result i32) (ref.is_null (table.get $t (local.get 0)))))",
        );
        let pages = grown.get_typed_func::<u32, i32>(&mut store, "pages").expect("exported");
        let sum: TypedFunc<u32, i64> = grown.get_typed_func(&mut store, "sum").expect("exported");
        let (mut before, memory) = (0, grown.get_memory(&mut store, "m").expect("exported"));
        for more in [1, 15, 40, 200] {
            assert_eq!(pages.call(&mut store, more).expect("a result"), before);
            before += more as i32;
            assert_eq!(sum.call(&mut store, before as u32 * 65536).expect("inside"), 0);
            let (base, len) = memory.extent(&mut store).expect("of this store");
            assert!(!base.is_null() && len == before as usize * 65536);
        }
        assert_eq!(pages.call(&mut store, 1000).expect("a result"), -1);
        let elements = grown.get_typed_func::<u32, i32>(&mut store, "elements").expect("exported");
        assert_eq!(elements.call(&mut store, 99).expect("a result"), 1);
        let null = grown.get_typed_func::<u32, i32>(&mut store, "null").expect("exported");
        assert_eq!(null.call(&mut store, 99).expect("inside"), 1);
        assert_eq!(trap(null.call(&mut store, 100)), Trap::TableOutOfBounds);
    }
}

/// Two engines, of which only the first has reservations.
fn two() -> (Engine, Engine) {
    let with = Engine::new(Config::new().optimize(Optimize::None)).expect("an engine");
    let without =
        Engine::new(Config::new().optimize(Optimize::None).reservations(false)).expect("an engine");
    assert!(
        with.has_reservations() && !without.has_reservations(),
        "this machine allows reservations"
    );
    (with, without)
}

#[test]
fn code_without_checks_never_meets_a_memory_without_a_reservation() {
    let (with, without) = two();
    let own = Module::new(&with, "(module (memory 1))").expect("a module");
    let mut store = Store::new(&without, ());
    one_line(
        &Instance::new(&mut store, &own, &[]).expect_err("the store's engine reserves nothing"),
    );
    let borrows = Module::new(&with, "(module (import \"a\" \"m\" (memory 1)))").expect("a module");
    let ty = MemoryType { minimum: 1, maximum: None, wide: false, shared: false };
    let memory = Memory::new(&mut store, ty).expect("a memory");
    one_line(
        &Instance::new(&mut store, &borrows, &[memory.into()])
            .expect_err("the memory is bounded by checks"),
    );
    let text = "(module (memory (export \"m\") 1 2 shared))";
    let shared = try_instance(&mut store, text)
        .expect("an instance")
        .get_memory(&mut store, "m")
        .expect("exported");
    let shared: SharedMemory =
        shared.as_shared(&mut store).expect("of this store").expect("shared");
    let mut other = Store::new(&with, ());
    let memory = Memory::shared(&mut other, &shared);
    let borrows =
        Module::new(&with, "(module (import \"a\" \"m\" (memory 1 2 shared)))").expect("a module");
    one_line(
        &Instance::new(&mut other, &borrows, &[memory.into()])
            .expect_err("the memory is bounded by checks"),
    );
}

#[test]
fn code_with_checks_takes_memories_of_every_kind() {
    let (with, without) = two();
    let text = "(module (import \"a\" \"m\" (memory 1)) (func (export \"f\") (param i32) (result i32) (i32.load (local.get 0))))";
    let module = Module::new(&without, text).expect("a module");
    let mut store = Store::new(&with, ());
    let ty = MemoryType { minimum: 1, maximum: Some(2), wide: false, shared: false };
    let memory = Memory::new(&mut store, ty).expect("a memory");
    let instance = Instance::new(&mut store, &module, &[memory.into()]).expect("an instance");
    let load = instance.get_typed_func::<u32, i32>(&mut store, "f").expect("exported");
    assert_eq!(load.call(&mut store, 65532).expect("inside"), 0);
    assert_eq!(trap(load.call(&mut store, 65533)), Trap::MemoryOutOfBounds);
    memory.grow(&mut store, 1).expect("it grows");
    assert_eq!(load.call(&mut store, 65533).expect("inside"), 0);
}

#[test]
fn the_host_cannot_reach_beyond_a_memory_either() {
    let (with, _) = two();
    let mut store = Store::new(&with, ());
    let ty = MemoryType { minimum: 1, maximum: Some(1), wide: false, shared: false };
    let memory = Memory::new(&mut store, ty).expect("a memory");
    let mut bytes = [0; 4];
    memory.write(&mut store, 65532, &[1, 2, 3, 4]).expect("inside");
    memory.read(&mut store, 65532, &mut bytes).expect("inside");
    assert_eq!(bytes, [1, 2, 3, 4]);
    for offset in [65533, 65536, usize::MAX, usize::MAX - 3] {
        one_line(&memory.read(&mut store, offset, &mut bytes).expect_err("outside"));
        one_line(&memory.write(&mut store, offset, &bytes).expect_err("outside"));
    }
}
