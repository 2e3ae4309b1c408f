(module (import "h" "f" (func $f (param i32))) (global $g (mut i32) (i32.const 0))
    (func (export "set") (param i32) (global.set $g (local.get 0)) (call $f (local.get 0)))
    (func (export "get") (result i32) (global.get $g)))
;; enter 1 export "set" i32:5
;; call 0 i32:5
;; return
;; leave
;; enter 2 export "get"
;; leave i32:5
;; enter 1 export "set" i32:6
;; call 0 i32:6
;; return
;; leave
;; enter 2 export "get"
;; leave i32:6
