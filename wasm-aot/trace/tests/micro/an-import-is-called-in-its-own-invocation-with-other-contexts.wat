(module (import "h" "f" (func $f (result i32))) (memory (export "m") 1)
    (func (export "run") (result i32) (drop (call $f)) (i32.load (i32.const 0)))
    (func (export "inner") (result i32) (i32.add (call $f) (i32.load8_u (i32.const 0)))))
;; enter 1 export "run"
;; call 0
;; enter 2 export "inner"
;; call 0
;; write 0 0 05
;; return i32:7
;; leave i32:12
;; write 0 1 01
;; return i32:1
;; leave i32:261
