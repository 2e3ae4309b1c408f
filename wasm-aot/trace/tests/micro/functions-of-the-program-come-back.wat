(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (param funcref) (result funcref)))
    (table $u 1 funcref) (global $kept (mut funcref) (ref.null func)) (elem declare func $own $other $f)
    (func $own (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func $other (type $t) (i32.add (local.get 0) (i32.const 2)))
    (func $call (param funcref i32) (result i32)
        (table.set $u (i32.const 0) (local.get 0)) (call_indirect $u (type $t) (local.get 1) (i32.const 0)))
    (func (export "run") (param funcref) (result i32 i32 funcref)
        (call $call (call $f (ref.func $own)) (i32.const 10))
        (call $call (local.get 0) (i32.const 20))
        (call $f (ref.func $f))))
;; enter 4 export "run" func:2
;; call 0 func:1
;; return func:2
;; call 0 func:0
;; return func:1
;; leave i32:12 i32:22 func:1
;; enter 4 export "run" func:1
;; call 0 func:1
;; return func:1
;; call 0 func:0
;; return func:0
;; leave i32:11 i32:21 func:0
