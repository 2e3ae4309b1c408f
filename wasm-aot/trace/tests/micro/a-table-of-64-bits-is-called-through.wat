(module (type $t (func (result i32))) (import "h" "f" (func $f)) (table $u (export "u") i64 4 20 funcref)
    (elem (table $u) (i64.const 2) func $one) (elem declare func $two)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (func (export "run") (result i32 i32 i64) (call $f)
        (call_indirect $u (type $t) (i64.const 2)) (call_indirect $u (type $t) (i64.const 5)) (table.size $u)))
;; enter 3 export "run"
;; call 0
;; grow-table 0 3 func:2
;; element 0 2 func:2
;; return
;; leave i32:2 i32:2 i64:7
