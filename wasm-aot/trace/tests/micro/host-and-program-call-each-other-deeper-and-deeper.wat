(module (import "h" "f" (func $f (param i32) (result i32)))
    (func $run (export "run") (param i32) (result i32)
    (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
    (else (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (i32.const 1))))))
;; enter 1 export "run" i32:2
;; call 0 i32:1
;; enter 1 export "run" i32:1
;; call 0 i32:0
;; enter 1 export "run" i32:0
;; leave i32:0
;; return i32:0
;; leave i32:1
;; return i32:1
;; leave i32:2
