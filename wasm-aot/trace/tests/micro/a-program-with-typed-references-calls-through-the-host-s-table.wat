(module (type $t (func (param i32) (result i32))) (type $open (sub (func (result i32))))
    (import "h" "f" (func $f)) (table $u (export "u") 4 funcref) (elem (i32.const 0) $own $three)
    (func $own (type $t) (i32.add (local.get 0) (i32.const 1))) (func $three (type $open) (i32.const 3))
    (func (export "run") (param i32) (result i32 i32)
        (call_indirect $u (type $t) (call_ref $t (local.get 0) (ref.func $own)) (local.get 0))
        (call $f) (call_indirect $u (type $open) (i32.const 1))))
;; enter 3 export "run" i32:0
;; call 0
;; return
;; leave i32:2 i32:3
;; function i32 -> i32
;; element 0 2 func:4
;; enter 3 export "run" i32:2
;; call 4 i32:3
;; enter 1 reference i32:4
;; leave i32:5
;; return i32:9
;; call 0
;; return
;; leave i32:9 i32:3
