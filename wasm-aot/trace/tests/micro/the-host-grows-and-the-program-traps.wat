(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i32) (call $f) (i32.load (i32.const 131072))))
;; enter 1 export "run"
;; call 0
;; grow 0 1
;; return
;; leave trap "out of bounds memory access"
