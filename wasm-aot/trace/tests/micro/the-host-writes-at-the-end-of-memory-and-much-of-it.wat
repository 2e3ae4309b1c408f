(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i64) (call $f) (i64.load (i32.const 65528))))
;; enter 1 export "run"
;; call 0
;; write 0 65516 000102030405060708090a0b0c0d0e0f10111213
;; return
;; leave i64:1374179596971150604
