(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (param i32) (result i64 i32) (call $f)
        (i64.load offset=65000 align=1 (local.get 0)) (i32.load offset=3 align=2 (local.get 0))))
;; enter 1 export "run" i32:13
;; call 0
;; write 0 65013 0102030405060708
;; write 0 16 2a
;; return
;; leave i64:578437695752307201 i32:42
