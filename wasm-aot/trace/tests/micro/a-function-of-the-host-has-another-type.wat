(module (type $t (func (result i32))) (table (export "u") 1 funcref)
    (func (export "run") (result i32) (call_indirect (type $t) (i32.const 0))))
;; function i32 -> i32
;; element 0 0 func:1
;; enter 0 export "run"
;; leave trap "indirect call type mismatch"
