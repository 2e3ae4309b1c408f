(module (import "h" "exit" (func $exit (param i32)))
    (func $leave (param i32) (return_call $exit (local.get 0)))
    (func (export "_start") (call $leave (i32.const 4)) (unreachable)))
;; enter 2 export "_start"
;; call 0 i32:4
;; return exit 4 2@0
;; leave exit 4
