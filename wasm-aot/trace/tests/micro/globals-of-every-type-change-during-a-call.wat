(module (import "h" "f" (func $f)) (global (export "a") (mut i32) (i32.const 1))
    (global (export "b") (mut i64) (i64.const 2)) (global (export "c") (mut f32) (f32.const 3))
    (global (export "d") (mut f64) (f64.const 4)) (global (export "e") (mut v128) (v128.const i64x2 5 6))
    (global (export "g") (mut funcref) (ref.null func)) (func $own (result i32) (i32.const 1)) (elem declare func $own)
    (func (export "run") (result i32 i64 f32 f64 v128 i32) (call $f)
        (global.get 0) (global.get 1) (global.get 2) (global.get 3) (global.get 4) (ref.is_null (global.get 5))))
;; enter 2 export "run"
;; call 0
;; global 0 i32:-1
;; global 1 i64:9007199254740993
;; global 2 f32:0x80000000
;; global 3 f64:0x7ff0000000000000
;; global 4 v128:0x00000000000000010000000000000002
;; global 5 func:1
;; return
;; leave i32:-1 i64:9007199254740993 f32:0x80000000 f64:0x7ff0000000000000 v128:0x00000000000000010000000000000002 i32:0
