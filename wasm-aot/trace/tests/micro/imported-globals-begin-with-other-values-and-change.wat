(module (import "h" "a" (global $a i32)) (import "h" "b" (global $b (mut f64))) (import "h" "f" (func $f))
    (global $c (mut i64) (i64.const 5)) (export "c" (global $c)) (memory 1)
    (global $d i32 (global.get $a)) (data (offset (global.get $a)) "\09")
    (func (export "run") (result i32 f64 i64 i32)
    (call $f) (global.get $a) (global.get $b) (global.get $c) (i32.load8_u (i32.const 100))))
;; global 0 i32:100
;; global 1 f64:0x7ff0000000000000
;; enter 1 export "run"
;; call 0
;; global 2 i64:-1
;; return
;; leave i32:100 f64:0x7ff0000000000000 i64:-1 i32:9
