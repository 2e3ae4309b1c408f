//! Small programs and their runs: one for each way across the boundary.

pub(super) struct Micro {
    pub(super) name: &'static str,
    pub(super) module: &'static str,
    pub(super) trace: &'static str,
    /// Whether the run ends by a trap.
    pub(super) traps: bool,
}

const fn ok(name: &'static str, module: &'static str, trace: &'static str) -> Micro {
    Micro { name, module, trace, traps: false }
}

pub(super) const PROGRAMS: &[Micro] = &[
    ok("nothing happens", "(module)", ""),
    ok("an export is called", r#"(module (func (export "f")))"#, "enter 0 export \"f\"\nleave\n"),
    ok(
        "exports are called several times, with parameters and results",
        r#"(module (func (export "add") (param i32 i64) (result i64)
            (i64.add (i64.extend_i32_s (local.get 0)) (local.get 1)))
            (func (export "two") (param f32) (result f32 f64) (local.get 0) (f64.promote_f32 (local.get 0))))"#,
        "enter 0 export \"add\" i32:-1 i64:9007199254740993\nleave i64:9007199254740992\n\
         enter 1 export \"two\" f32:0x3f800000\nleave f32:0x3f800000 f64:0x3ff0000000000000\n\
         enter 0 export \"add\" i32:1 i64:9223372036854775807\nleave i64:-9223372036854775808\n",
    ),
    ok(
        "an import gives results",
        r#"(module (import "h" "f" (func $f (param i64) (result i32)))
            (func (export "run") (result i32) (i32.add (call $f (i64.const 1)) (call $f (i64.const 2)))))"#,
        "enter 1 export \"run\"\ncall 0 i64:1\nreturn i32:10\ncall 0 i64:2\nreturn i32:20\nleave i32:30\n",
    ),
    ok(
        "imports of several modules give several results",
        r#"(module (import "a" "f" (func $a (result i32 f64))) (import "b" "f" (func $b (param f64) (result i64)))
            (func (export "run") (result i32 i64) (call $a) (call $b)))"#,
        "enter 2 export \"run\"\ncall 0\nreturn i32:3 f64:0xfff0000000000000\n\
         call 1 f64:0xfff0000000000000\nreturn i64:-2\nleave i32:3 i64:-2\n",
    ),
    ok(
        "NaNs keep their bits through memory",
        r#"(module (import "h" "f" (func $f (result f32))) (memory (export "m") 1)
            (func (export "run") (result i32) (f32.store (i32.const 0) (call $f)) (i32.load (i32.const 0))))"#,
        "enter 1 export \"run\"\ncall 0\nreturn f32:0x7fa00001\nleave i32:2141192193\n",
    ),
    ok(
        "vectors cross",
        r#"(module (import "h" "f" (func $f (param v128) (result v128)))
            (func (export "run") (param v128) (result v128) (call $f (i8x16.add (local.get 0) (local.get 0)))))"#,
        "enter 1 export \"run\" v128:0x01010101010101010101010101010101\n\
         call 0 v128:0x02020202020202020202020202020202\n\
         return v128:0xffffffffffffffffffffffffffffffff\nleave v128:0xffffffffffffffffffffffffffffffff\n",
    ),
    ok(
        "the host calls back",
        r#"(module (import "h" "f" (func $f (param i32)))
            (func (export "run") (param i32) (call $f (local.get 0)))
            (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))))"#,
        "enter 1 export \"run\" i32:3\ncall 0 i32:3\nenter 2 export \"twice\" i32:3\nleave i32:6\n\
         enter 2 export \"twice\" i32:6\nleave i32:12\nreturn\nleave\n",
    ),
    ok(
        "host and program call each other, deeper and deeper",
        r#"(module (import "h" "f" (func $f (param i32) (result i32)))
            (func $run (export "run") (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
                    (else (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (i32.const 1))))))"#,
        "enter 1 export \"run\" i32:2\ncall 0 i32:1\nenter 1 export \"run\" i32:1\ncall 0 i32:0\n\
         enter 1 export \"run\" i32:0\nleave i32:0\nreturn i32:0\nleave i32:1\nreturn i32:1\nleave i32:2\n",
    ),
    ok(
        "an import is called in its own invocation, with other contexts",
        r#"(module (import "h" "f" (func $f (result i32))) (memory (export "m") 1)
            (func (export "run") (result i32) (drop (call $f)) (i32.load (i32.const 0)))
            (func (export "inner") (result i32) (i32.add (call $f) (i32.load8_u (i32.const 0)))))"#,
        "enter 1 export \"run\"\ncall 0\nenter 2 export \"inner\"\ncall 0\nwrite 0 0 05\nreturn i32:7\n\
         leave i32:12\nwrite 0 1 01\nreturn i32:1\nleave i32:261\n",
    ),
    ok(
        "the host calls a private function by a reference",
        r#"(module (table (export "t") funcref (elem $secret))
            (func $secret (param i32) (result i32) (i32.xor (local.get 0) (i32.const -1))))"#,
        "enter 0 reference i32:5\nleave i32:-6\n",
    ),
    ok(
        "imports, private and exported functions are called through a table",
        r#"(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (type $t)))
            (table 3 3 funcref) (elem (i32.const 0) $f $g $h)
            (func $g (type $t) (i32.const 1)) (func $h (export "h") (type $t) (i32.const 2))
            (func (export "run") (param i32) (result i32) (call_indirect (type $t) (i32.const 9) (local.get 0))))"#,
        "enter 3 export \"run\" i32:0\ncall 0 i32:9\nreturn i32:8\nleave i32:8\n\
         enter 3 export \"run\" i32:1\nleave i32:1\nenter 3 export \"run\" i32:2\nleave i32:2\n",
    ),
    ok(
        "the host writes before, inside and after calls, and between them",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1)
            (func (export "run") (param i32) (result i32) (call $f) (i32.load (local.get 0))))"#,
        "write 0 4 01000000\nenter 1 export \"run\" i32:4\ncall 0\nwrite 0 5 02\nreturn\nleave i32:513\n\
         write 0 4 00\nenter 1 export \"run\" i32:4\ncall 0\nreturn\nleave i32:512\nwrite 0 4 09\n",
    ),
    ok(
        "what the host has written is found later",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1)
            (func (export "run") (param i32) (result i32) (call $f) (i32.load (local.get 0))))"#,
        "enter 1 export \"run\" i32:4\nfound write 0 8 ff\ncall 0\nreturn\nfound write 0 4 07\n\
         found write 0 5 01\nleave i32:263\n",
    ),
    ok(
        "the program overwrites a part of what the host writes",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1)
            (func (export "run") (result i64)
                (call $f) (i32.store16 (i32.const 2) (i32.const 0)) (i64.load (i32.const 0))))"#,
        "enter 1 export \"run\"\ncall 0\nwrite 0 0 ffffffffffffffff\nreturn\nleave i64:-4294901761\n",
    ),
    ok(
        "the host writes at the end of memory, and much of it",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1)
            (func (export "run") (result i64) (call $f) (i64.load (i32.const 65528))))"#,
        "enter 1 export \"run\"\ncall 0\n\
         write 0 65516 000102030405060708090a0b0c0d0e0f10111213\nreturn\nleave i64:1374179596971150604\n",
    ),
    ok(
        "several memories, imported and own",
        r#"(module (import "h" "m" (memory $a 1)) (memory $b 1) (memory $c (export "c") 1)
            (func (export "run") (result i32)
                (i32.add (i32.load $a (i32.const 0)) (i32.add (i32.load $b (i32.const 0)) (i32.load $c (i32.const 0)))))
            (data $d (memory $b) (i32.const 0) "\05"))"#,
        "write 0 0 01000000\nwrite 2 0 0a000000\nenter 0 export \"run\"\nleave i32:16\n",
    ),
    ok(
        "a memory is imported larger than it has to be, with data of the program's at its end",
        r#"(module (import "h" "m" (memory 1)) (data (i32.const 65536) "\07")
            (func (export "run") (result i32 i32) (memory.size) (i32.load8_u (i32.const 65536))))"#,
        "grow 0 2\nwrite 0 0 01\nenter 0 export \"run\"\nleave i32:3 i32:7\n",
    ),
    ok(
        "host and program grow a memory",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1 10)
            (func (export "run") (result i32 i32)
                (drop (memory.grow (i32.const 1))) (call $f) (memory.grow (i32.const 1)) (i32.load (i32.const 131072))))"#,
        "enter 1 export \"run\"\ncall 0\ngrow 0 2\nwrite 0 131072 2a000000\nreturn\nleave i32:4 i32:42\n",
    ),
    ok(
        "a memory of 64 bits",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") i64 1)
            (func (export "run") (result i64) (call $f) (i64.load (i64.const 65536))))"#,
        "enter 1 export \"run\"\ncall 0\ngrow 0 1\nwrite 0 65536 0102030405060708090a0b0c0d0e0f1011\nreturn\n\
         leave i64:578437695752307201\n",
    ),
    ok(
        "the host changes tables and grows them",
        r#"(module (type $t (func (result i32))) (import "h" "f" (func $f)) (import "h" "t" (table $t 1 funcref))
            (table $u (export "u") 1 4 funcref)
            (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
            (func (export "run") (result i32 i32 i32)
                (call_indirect $t (type $t) (i32.const 2)) (call $f)
                (call_indirect $u (type $t) (i32.const 1)) (table.size $u)))"#,
        "grow-table 0 3 func:null\nelement 0 2 func:1\nenter 3 export \"run\"\ncall 0\n\
         grow-table 1 2 func:2\nelement 0 2 func:null\nreturn\nleave i32:1 i32:2 i32:3\n",
    ),
    ok(
        "references to functions go in and out",
        r#"(module (import "h" "f" (func $f (param funcref) (result funcref))) (table $t 1 funcref)
            (func $g (result i32) (i32.const 6)) (elem declare func $g)
            (func (export "run") (param funcref) (result i32)
                (table.set $t (i32.const 0) (call $f (local.get 0))) (call_indirect (result i32) (i32.const 0))))"#,
        "enter 2 export \"run\" func:null\ncall 0 func:null\nreturn func:1\nleave i32:6\n",
    ),
    ok(
        "imported globals begin with other values, and change",
        r#"(module (import "h" "a" (global $a i32)) (import "h" "b" (global $b (mut f64))) (import "h" "f" (func $f))
            (global $c (mut i64) (i64.const 5)) (export "c" (global $c)) (memory 1)
            (global $d i32 (global.get $a)) (data (offset (global.get $a)) "\09")
            (func (export "run") (result i32 f64 i64 i32)
                (call $f) (global.get $a) (global.get $b) (global.get $c) (i32.load8_u (i32.const 100))))"#,
        "global 0 i32:100\nglobal 1 f64:0x7ff0000000000000\nenter 1 export \"run\"\ncall 0\n\
         global 2 i64:-1\nreturn\nleave i32:100 f64:0x7ff0000000000000 i64:-1 i32:9\n",
    ),
    ok(
        "a start function calls the host",
        r#"(module (import "h" "f" (func $f (result i32))) (global $g (export "g") (mut i32) (i32.const 0))
            (func $s (global.set $g (call $f))) (start $s) (func (export "run") (result i32) (global.get $g)))"#,
        "enter 1 start\ncall 0\nreturn i32:4\nleave\nenter 2 export \"run\"\nleave i32:4\n",
    ),
    ok(
        "strange names",
        r#"(module (import "h;\n\u{1F600}" "\"" (func $f)) (func (export "a;b,\n\"c\"") (call $f)))"#,
        "enter 1 export \"a;b,\\x0a\\\"c\\\"\"\ncall 0\nreturn\nleave\n",
    ),
    ok(
        "bulk operations read what the host has written",
        r#"(module (import "h" "f" (func $f)) (memory (export "m") 1) (data $d "\01\02\03\04")
            (func (export "run") (result i32 i32)
                (call $f) (memory.copy (i32.const 100) (i32.const 0) (i32.const 8))
                (memory.init $d (i32.const 4) (i32.const 0) (i32.const 2)) (data.drop $d)
                (memory.fill (i32.const 0) (i32.const 7) (i32.const 1))
                (i32.load (i32.const 0)) (i32.load (i32.const 104))))"#,
        "enter 1 export \"run\"\ncall 0\nwrite 0 0 1111111122222222333333334444444455\nreturn\n\
         leave i32:286331143 i32:572662306\n",
    ),
    ok(
        "the program exits, from two calls deep and through the host",
        r#"(module (import "h" "exit" (func $exit (param i32))) (import "h" "call" (func $call))
            (func $inner (param i32) (result i32) (call $exit (local.get 0)) (unreachable))
            (func (export "inner") (drop (call $inner (i32.const 3))) (unreachable))
            (func (export "_start") (call $call) (unreachable)))"#,
        "enter 4 export \"_start\"\ncall 1\nenter 3 export \"inner\"\ncall 0 i32:3\n\
         return exit 3 2@0 3@0\nleave exit 3\nreturn exit 3 4@0\nleave exit 3\n",
    ),
    ok(
        "the host goes on after an exit",
        r#"(module (import "h" "exit" (func $exit))
            (func (export "run") (result i32) (call $exit) (i32.const 1))
            (func (export "more") (result i32) (i32.const 2)))"#,
        "enter 1 export \"run\"\ncall 0\nreturn exit 0 1@0\nleave exit 0\nenter 2 export \"more\"\nleave i32:2\n",
    ),
    Micro {
        name: "the program traps",
        module: r#"(module (func (export "run") (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0))))"#,
        trace: "enter 0 export \"run\" i32:1\nleave i32:1\nenter 0 export \"run\" i32:0\nleave trap \"integer divide by zero\"\n",
        traps: true,
    },
    Micro {
        name: "the host fails",
        module: r#"(module (import "h" "f" (func $f)) (func (export "run") (call $f)))"#,
        trace: "enter 1 export \"run\"\ncall 0\nreturn trap \"no such file\"\nleave trap \"no such file\"\n",
        traps: true,
    },
];
