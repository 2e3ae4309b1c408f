(module (type $t (func (result i32))) (import "h" "f" (func $f)) (table $t (export "t") 1 8 funcref)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (elem declare func $one $two)
    (func (export "run") (result i32 i32 i32)
        (table.grow $t (ref.func $one) (i32.const 2)) (call $f)
        (call_indirect $t (type $t) (i32.const 1)) (call_indirect $t (type $t) (i32.const 2))))
;; enter 3 export "run"
;; call 0
;; element 0 2 func:2
;; return
;; leave i32:1 i32:1 i32:2
