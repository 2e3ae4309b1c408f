(module (type $t (func (result i32))) (import "h" "f" (func $f)) (table $t (export "t") 6 funcref)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2)) (elem declare func $one $two)
    (elem $e func $one)
    (func (export "run") (result i32 i32 i32) (call $f)
        (table.copy (i32.const 2) (i32.const 0) (i32.const 2)) (table.init $e (i32.const 4) (i32.const 0) (i32.const 1))
        (table.fill (i32.const 5) (ref.func $two) (i32.const 1)) (elem.drop $e)
        (call_indirect (type $t) (i32.const 2)) (call_indirect (type $t) (i32.const 4)) (call_indirect (type $t) (i32.const 5))))
;; enter 3 export "run"
;; call 0
;; element 0 0 func:2
;; return
;; leave i32:2 i32:1 i32:2
