(module (type $t (func (param i32) (result i32))) (type $none (func))
    (import "h" "f" (func $f (result (ref $t)))) (import "h" "g" (func $g (result (ref null $t))))
    (table $kept 3 (ref null $t)) (global $last (mut (ref $t)) (ref.func $own)) (elem declare func $own)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func $either (param i32) (result (ref $t))
        (if (result (ref $t)) (local.get 0) (then (ref.func $own)) (else (call $f))))
    (func (export "run") (param i32) (result i32 i32 i32) (local $r (ref $t))
        (local.set $r (call $either (i32.const 0)))
        (table.set $kept (i32.const 1) (local.get $r)) (global.set $last (local.get $r))
        (call_ref $t (local.get 0) (local.get $r))
        (call_ref $t (local.get 0) (call $either (i32.const 1)))
        (i32.add (call_indirect $kept (type $t) (local.get 0) (i32.const 1))
            (call_ref $t (i32.const 9) (global.get $last))))
    (func (export "null") (result i32)
        (local $r (ref null $t)) (local.set $r (call $g))
        (block $no (return_call_ref $t (i32.const 7) (br_on_null $no (local.get $r)))) (i32.const -1)))
;; enter 4 export "run" i32:1
;; call 0
;; function i32 -> i32
;; return func:6
;; call 6 i32:1
;; return i32:100
;; call 6 i32:1
;; return i32:200
;; call 6 i32:9
;; return i32:1000
;; leave i32:100 i32:2 i32:1200
;; enter 5 export "null"
;; call 1
;; return func:null
;; leave i32:-1
;; enter 5 export "null"
;; call 1
;; return func:6
;; call 6 i32:7
;; return i32:8
;; leave i32:8
