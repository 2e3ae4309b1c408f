(module (import "h" "f" (func $f (param i32)))
    (func (export "run") (param i32) (call $f (local.get 0)))
    (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))))
;; enter 1 export "run" i32:3
;; call 0 i32:3
;; enter 2 export "twice" i32:3
;; leave i32:6
;; enter 2 export "twice" i32:6
;; leave i32:12
;; return
;; leave
