(module (import "h" "f" (func $f)) (memory (export "m") 0 4)
    (func (export "run") (result i32 i32) (call $f) (memory.size) (i32.load8_u (i32.const 65535))))
;; enter 1 export "run"
;; call 0
;; grow 0 1
;; return
;; leave i32:1 i32:0
