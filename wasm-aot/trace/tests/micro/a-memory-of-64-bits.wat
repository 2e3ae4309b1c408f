(module (import "h" "f" (func $f)) (memory (export "m") i64 1)
    (func (export "run") (result i64) (call $f) (i64.load (i64.const 65536))))
;; enter 1 export "run"
;; call 0
;; grow 0 1
;; write 0 65536 0102030405060708090a0b0c0d0e0f1011
;; return
;; leave i64:578437695752307201
