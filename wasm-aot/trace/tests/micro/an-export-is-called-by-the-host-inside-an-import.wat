(module (import "h" "each" (func $each (param funcref) (result i32))) (elem declare func $square)
    (func $square (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
    (func (export "run") (result i32) (call $each (ref.func $square))))
;; enter 2 export "run"
;; call 0 func:1
;; enter 1 reference i32:3
;; leave i32:9
;; enter 1 reference i32:-4
;; leave i32:16
;; return i32:25
;; leave i32:25
