(module (type $t (func (result i32))) (import "h" "f" (func $f)) (table $t (export "t") funcref (elem $one $one))
    (func $one (type $t) (i32.const 1))
    (func (export "run") (result i32 i32) (call $f)
        (ref.is_null (table.get $t (i32.const 0))) (ref.is_null (table.get $t (i32.const 1)))))
;; enter 2 export "run"
;; call 0
;; element 0 0 func:null
;; return
;; leave i32:1 i32:0
