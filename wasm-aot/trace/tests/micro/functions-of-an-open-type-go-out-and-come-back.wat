(module (type $t (sub (func (param i32) (result i32)))) (type $plain (func (param i32) (result i32)))
    (import "h" "f" (func $f (param funcref) (result funcref)))
    (elem declare func $one $two $plain) (func $one (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func $two (type $t) (i32.add (local.get 0) (i32.const 2)))
    (func $plain (type $plain) (i32.add (local.get 0) (i32.const 3)))
    (func (export "run") (param (ref $t)) (result i32 i32 (ref null $t)) (local $r funcref)
        (local.set $r (call $f (ref.func $two)))
        (if (result i32) (ref.test (ref $t) (local.get $r))
            (then (call_ref $t (i32.const 10) (ref.cast (ref $t) (local.get $r))))
            (else (call_ref $plain (i32.const 10) (ref.cast (ref null $plain) (local.get $r)))))
        (call_ref $t (i32.const 20) (local.get 0)) (local.get 0))
    (func (export "pick") (param i32) (result (ref $t))
        (if (result (ref $t)) (local.get 0) (then (ref.func $one)) (else (ref.func $two)))))
;; enter 5 export "pick" i32:1
;; leave func:1
;; enter 4 export "run" func:1
;; call 0 func:2
;; return func:1
;; leave i32:11 i32:21 func:1
;; enter 1 reference i32:5
;; leave i32:6
;; enter 4 export "run" func:2
;; call 0 func:2
;; function i32 -> i32
;; return func:6
;; call 6 i32:10
;; return i32:90
;; leave i32:90 i32:22 func:2
;; enter 4 export "run" func:2
;; call 0 func:2
;; return func:null
;; leave trap "null function reference"
