(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func $add (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))
    (func (export "run") (result i32)
        (call $add) (call $f) (call $add) (call $f) (call $add) (i32.load (i32.const 0))))
;; enter 2 export "run"
;; call 0
;; write 0 0 0a000000
;; return
;; call 0
;; write 0 0 64000000
;; return
;; leave i32:101
