(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (param i32) (result funcref)))
    (tag $e (param i32 (ref $t))) (elem declare func $own $down)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 3)))
    (func $down (type $t)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 77))))
        (return_call_ref $t (i32.sub (local.get 0) (i32.const 1)) (ref.cast (ref $t) (call $f (local.get 0)))))
    (func $throw (param (ref $t)) (throw $e (i32.const 5) (local.get 0)))
    (func (export "run") (param funcref) (result i32)
        (block $caught (result i32 (ref $t))
            (try_table (catch $e $caught) (call $throw (ref.cast (ref $t) (local.get 0)))) (unreachable))
        (return_call_ref $t))
    (func (export "down") (param i32) (result i32) (return_call_ref $t (local.get 0) (ref.func $down)))
    (func (export "give") (result funcref funcref) (ref.func $own) (ref.func $down)))
;; enter 6 export "give"
;; leave func:1 func:2
;; function i32 -> i32
;; enter 4 export "run" func:7
;; call 7 i32:5
;; return i32:6
;; leave i32:6
;; enter 4 export "run" func:1
;; leave i32:15
;; enter 5 export "down" i32:3
;; call 0 i32:3
;; return func:2
;; call 0 i32:2
;; return func:7
;; call 7 i32:1
;; enter 2 reference i32:0
;; leave i32:77
;; return i32:78
;; leave i32:78
