(module (import "h" "exit" (func $exit (param i32))) (import "h" "call" (func $call))
    (func $inner (param i32) (result i32) (call $exit (local.get 0)) (unreachable))
    (func (export "inner") (drop (call $inner (i32.const 3))) (unreachable))
    (func (export "_start") (call $call) (unreachable)))
;; enter 4 export "_start"
;; call 1
;; enter 3 export "inner"
;; call 0 i32:3
;; return exit 3 2@0 3@0
;; leave exit 3
;; return exit 3 4@0
;; leave exit 3
