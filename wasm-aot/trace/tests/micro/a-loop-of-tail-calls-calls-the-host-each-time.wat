(module (import "h" "f" (func $f (param i32)))
    (func $down (export "run") (param i32) (result i32)
        (call $f (local.get 0))
        (if (i32.eqz (local.get 0)) (then (return (i32.const 7))))
        (return_call $down (i32.sub (local.get 0) (i32.const 1)))))
;; enter 1 export "run" i32:3
;; call 0 i32:3
;; return
;; call 0 i32:2
;; return
;; call 0 i32:1
;; return
;; call 0 i32:0
;; return
;; leave i32:7
