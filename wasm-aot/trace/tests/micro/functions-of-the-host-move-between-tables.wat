(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (result funcref)))
    (table $a (export "a") 3 20 funcref) (table $b 4 funcref) (table $c (export "c") 2 funcref)
    (elem $e func $own $own) (func $own (type $t) (i32.mul (local.get 0) (i32.const 7)))
    (func $of (param i32 i32) (result i32)
        (if (result i32) (local.get 1)
            (then (call_indirect $b (type $t) (local.get 0) (i32.const 0)))
            (else (call_indirect $a (type $t) (local.get 0) (i32.const 1)))))
    (func (export "run") (result i32 i32 i32 i32 i32 i32)
        (table.set $b (i32.const 0) (call $f))
        (call $of (i32.const 1) (i32.const 1))
        (table.copy $a $b (i32.const 1) (i32.const 0) (i32.const 2))
        (call $of (i32.const 2) (i32.const 0))
        (table.init $a $e (i32.const 1) (i32.const 0) (i32.const 2))
        (call $of (i32.const 3) (i32.const 0))
        (table.copy $b $c (i32.const 0) (i32.const 0) (i32.const 2))
        (call $of (i32.const 4) (i32.const 1))
        (table.grow $a (table.get $c (i32.const 1)) (i32.const 4))
        (table.fill $a (i32.const 0) (table.get $a (i32.const 6)) (i32.const 2))
        (call $of (i32.const 5) (i32.const 0))))
;; enter 3 export "run"
;; call 0
;; function i32 -> i32
;; element 2 0 func:4
;; element 2 1 func:4
;; return func:4
;; call 4 i32:1
;; return i32:100
;; call 4 i32:2
;; return i32:200
;; call 4 i32:4
;; return i32:400
;; call 4 i32:5
;; return i32:500
;; leave i32:100 i32:200 i32:21 i32:400 i32:3 i32:500
