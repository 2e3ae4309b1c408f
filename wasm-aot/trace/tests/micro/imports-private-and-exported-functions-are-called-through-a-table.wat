(module (type $t (func (param i32) (result i32))) (import "h" "f" (func $f (type $t)))
    (table 3 3 funcref) (elem (i32.const 0) $f $g $h)
    (func $g (type $t) (i32.const 1)) (func $h (export "h") (type $t) (i32.const 2))
    (func (export "run") (param i32) (result i32) (call_indirect (type $t) (i32.const 9) (local.get 0))))
;; enter 3 export "run" i32:0
;; call 0 i32:9
;; return i32:8
;; leave i32:8
;; enter 3 export "run" i32:1
;; leave i32:1
;; enter 3 export "run" i32:2
;; leave i32:2
