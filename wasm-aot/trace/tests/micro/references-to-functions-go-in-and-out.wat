(module (import "h" "f" (func $f (param funcref) (result funcref))) (table $t 1 funcref)
    (func $g (result i32) (i32.const 6)) (elem declare func $g)
    (func (export "run") (param funcref) (result i32)
    (table.set $t (i32.const 0) (call $f (local.get 0))) (call_indirect (result i32) (i32.const 0))))
;; enter 2 export "run" func:null
;; call 0 func:null
;; return func:1
;; leave i32:6
