(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (param i32) (result i32) (call $f) (i32.load (local.get 0))))
;; enter 1 export "run" i32:4
;; found write 0 8 ff
;; call 0
;; return
;; found write 0 4 07
;; found write 0 5 01
;; leave i32:263
