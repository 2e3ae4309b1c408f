(module (import "h" "f" (func $f)) (import "h" "g" (func $g)) (memory (export "m") 1)
    (func (export "inner") (result i32) (call $g) (i32.load (i32.const 0)))
    (func (export "run") (result i32) (call $f) (i32.load (i32.const 0))))
;; enter 3 export "run"
;; call 0
;; enter 2 export "inner"
;; call 1
;; write 0 1 01
;; return
;; leave i32:256
;; return
;; leave i32:256
