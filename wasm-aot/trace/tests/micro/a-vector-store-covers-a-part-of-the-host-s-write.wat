(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i64) (call $f) (v128.store (i32.const 4) (v128.const i64x2 0 0)) (i64.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; write 0 0 0101010101010101
;; return
;; leave i64:16843009
