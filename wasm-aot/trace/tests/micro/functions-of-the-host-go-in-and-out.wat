(module (type $t (func (result i32))) (import "h" "f" (func $f (param funcref) (result funcref)))
    (table $u 2 funcref)
    (func (export "run") (param funcref) (result i32 funcref)
        (table.set $u (i32.const 1) (local.get 0)) (call_indirect $u (type $t) (i32.const 1))
        (table.set $u (i32.const 1) (call $f (local.get 0))) (call_indirect $u (type $t) (i32.const 1))
        (i32.add) (local.get 0)))
;; function -> i32
;; enter 1 export "run" func:2
;; call 2
;; return i32:1
;; call 0 func:2
;; function -> i32
;; return func:3
;; call 3
;; return i32:20
;; leave i32:21 func:2
;; enter 1 export "run" func:3
;; call 3
;; return i32:300
;; call 0 func:3
;; return func:2
;; call 2
;; return i32:4000
;; leave i32:4300 func:3
