(module (import "h" "f" (func $f (param i32) (result i32)))
    (func $g (param i32) (result i32) (return_call $f (i32.mul (local.get 0) (i32.const 2))))
    (func (export "run") (param i32) (result i32) (i32.add (call $g (local.get 0)) (i32.const 1))))
;; enter 2 export "run" i32:4
;; call 0 i32:8
;; return i32:80
;; leave i32:81
