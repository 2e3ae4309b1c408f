(module (type $t (func (param i32) (result i32))) (type $u (func (result i32)))
    (type $ten (func (param (ref $t)) (result i32)))
    (import "h" "f" (func $f (param funcref) (result funcref)))
    (elem declare func $one $two) (func $one (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func $two (type $u) (i32.const 2))
    (func $ten (type $ten) (call_ref $t (i32.const 10) (local.get 0)))
    (func $kind (param funcref) (result i32)
        (block $t (result (ref $t))
            (block $u (result (ref $u))
                (br_on_cast $u funcref (ref $u) (br_on_cast $t funcref (ref $t) (local.get 0)))
                (ref.is_null) (return (if (result i32) (then (i32.const -1)) (else (i32.const -2)))))
            (return (call_ref $u)))
        (return (call $ten)))
    (func (export "run") (param funcref) (result i32 i32 i32 i32)
        (call $kind (local.get 0)) (call $kind (call $f (ref.func $one)))
        (i32.add (ref.test (ref $t) (local.get 0)) (i32.mul (i32.const 2) (ref.test (ref null $u) (local.get 0))))
        (call $kind (ref.func $two)))
    (func (export "cast") (param funcref) (result i32)
        (return_call_ref $u (ref.cast (ref $u) (local.get 0))))
    (func (export "other") (param funcref) (result funcref)
        (block $not (result funcref)
            (br_on_cast_fail $not funcref (ref null $t) (local.get 0)) (drop) (ref.func $one))))
;; enter 5 export "run" func:null
;; call 0 func:1
;; return func:1
;; leave i32:-1 i32:11 i32:2 i32:2
;; function i32 -> i32
;; enter 5 export "run" func:8
;; call 8 i32:10
;; return i32:70
;; call 0 func:1
;; return func:8
;; call 8 i32:10
;; return i32:71
;; leave i32:70 i32:71 i32:1 i32:2
;; function -> i32
;; enter 5 export "run" func:9
;; call 9
;; return i32:80
;; call 0 func:1
;; function i64 -> i32
;; return func:10
;; leave i32:80 i32:-2 i32:2 i32:2
;; enter 6 export "cast" func:2
;; leave i32:2
;; enter 6 export "cast" func:9
;; call 9
;; return i32:81
;; leave i32:81
;; enter 7 export "other" func:null
;; leave func:1
;; enter 7 export "other" func:2
;; leave func:2
;; enter 7 export "other" func:10
;; leave func:10
;; enter 6 export "cast" func:8
;; leave trap "cast failure"
