(module (type $t (func (result i32))) (import "h" "t" (table $a 2 funcref)) (import "h" "f" (func $f))
    (table $b 2 funcref) (table $c (export "c") 2 funcref)
    (elem (table $b) (i32.const 0) func $one $two)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (func $three (type $t) (i32.const 3)) (elem declare func $three)
    (func (export "run") (result i32 i32 i32) (call $f)
        (call_indirect $a (type $t) (i32.const 1)) (call_indirect $b (type $t) (i32.const 1))
        (call_indirect $c (type $t) (i32.const 1))))
;; element 0 1 func:1
;; enter 4 export "run"
;; call 0
;; element 2 1 func:3
;; return
;; leave i32:1 i32:2 i32:3
