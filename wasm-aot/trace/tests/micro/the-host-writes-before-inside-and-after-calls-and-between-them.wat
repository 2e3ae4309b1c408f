(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (param i32) (result i32) (call $f) (i32.load (local.get 0))))
;; write 0 4 01000000
;; enter 1 export "run" i32:4
;; call 0
;; write 0 5 02
;; return
;; leave i32:513
;; write 0 4 00
;; enter 1 export "run" i32:4
;; call 0
;; return
;; leave i32:512
;; write 0 4 09
