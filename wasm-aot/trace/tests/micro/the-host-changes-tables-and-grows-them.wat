(module (type $t (func (result i32))) (import "h" "f" (func $f)) (import "h" "t" (table $t 1 funcref))
    (table $u (export "u") 1 4 funcref)
    (elem declare func $one $two) (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (func (export "run") (result i32 i32 i32)
    (call_indirect $t (type $t) (i32.const 2)) (call $f)
    (call_indirect $u (type $t) (i32.const 1)) (table.size $u)))
;; grow-table 0 3 func:null
;; element 0 2 func:1
;; enter 3 export "run"
;; call 0
;; grow-table 1 2 func:2
;; element 0 2 func:null
;; return
;; leave i32:1 i32:2 i32:3
