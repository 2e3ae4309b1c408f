(module (import "h" "exit" (func $exit))
    (func (export "run") (result i32) (call $exit) (i32.const 1))
    (func (export "more") (result i32) (i32.const 2)))
;; enter 1 export "run"
;; call 0
;; return exit 0 1@0
;; leave exit 0
;; enter 2 export "more"
;; leave i32:2
