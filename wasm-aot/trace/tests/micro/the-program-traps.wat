(module (func (export "run") (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0))))
;; enter 0 export "run" i32:1
;; leave i32:1
;; enter 0 export "run" i32:0
;; leave trap "integer divide by zero"
