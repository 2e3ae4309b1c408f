(module (import "h" "ping" (func $ping (param i32) (result i32)))
    (import "h" "pong" (func $pong (param i32) (result i32)))
    (func (export "a") (param i32) (result i32)
        (if (result i32) (local.get 0) (then (call $ping (local.get 0))) (else (i32.const 100))))
    (func (export "b") (param i32) (result i32)
        (i32.add (call $pong (i32.sub (local.get 0) (i32.const 1))) (i32.const 10))))
;; enter 2 export "a" i32:2
;; call 0 i32:2
;; enter 3 export "b" i32:2
;; call 1 i32:1
;; enter 2 export "a" i32:1
;; call 0 i32:1
;; enter 3 export "b" i32:1
;; call 1 i32:0
;; enter 2 export "a" i32:0
;; leave i32:100
;; return i32:100
;; leave i32:110
;; return i32:111
;; leave i32:111
;; return i32:112
;; leave i32:122
;; return i32:122
;; leave i32:122
