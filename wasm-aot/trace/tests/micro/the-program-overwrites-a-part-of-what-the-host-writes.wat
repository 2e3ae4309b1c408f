(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i64)
    (call $f) (i32.store16 (i32.const 2) (i32.const 0)) (i64.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; write 0 0 ffffffffffffffff
;; return
;; leave i64:-4294901761
