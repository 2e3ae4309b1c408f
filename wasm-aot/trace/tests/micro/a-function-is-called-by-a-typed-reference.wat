(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (type $t)))
    (elem declare func $f $own) (func $own (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func (export "run") (param i32) (result i32)
        (call_ref $t (call_ref $t (local.get 0) (ref.func $own)) (ref.func $f))))
;; enter 2 export "run" i32:1
;; call 0 i32:2
;; return i32:200
;; leave i32:200
