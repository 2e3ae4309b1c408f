(module (import "a" "f" (func $a (result i32 f64))) (import "b" "f" (func $b (param f64) (result i64)))
    (func (export "run") (result i32 i64) (call $a) (call $b)))
;; enter 2 export "run"
;; call 0
;; return i32:3 f64:0xfff0000000000000
;; call 1 f64:0xfff0000000000000
;; return i64:-2
;; leave i32:3 i64:-2
