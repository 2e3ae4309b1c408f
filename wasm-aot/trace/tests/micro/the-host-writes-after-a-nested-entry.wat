(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "get") (result i32) (i32.load (i32.const 0)))
    (func (export "run") (result i32) (call $f) (i32.load (i32.const 0))))
;; enter 2 export "run"
;; call 0
;; enter 1 export "get"
;; leave i32:0
;; write 0 0 0700
;; return
;; leave i32:7
